"""The streaming decoder: the command line, refused arguments, and no need of torch. It equals the batch form in
`test_possm.py`; hours, resets, copies and threads are in `tests/reliability/test_streaming.py`."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from possm_lite.cli import main
from possm_lite.decoder import StreamingDecoder
from possm_lite.decoder.config import BACKBONES

from .helpers import make_bins, make_model


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone_on_the_command_line(small_recording, backbone, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    small_recording.save(tmp_path / "recording.npz")
    assert main(["decode", "recording.npz", "--epochs", "1", "--backbone", backbone, "--out", "run"]) == 0
    assert main(["stream", "run"]) == 0
    line = next(line for line in capfd.readouterr().out.splitlines() if line.startswith("largest difference"))
    assert float(line.split("  ")[1].split()[0]) < 1e-3  # mm/s, of velocities of hundreds


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"session": 3}, "session must lie in 1..2, not 3"),
        ({"session": 1.5}, "session must lie in 1..2, not 1.5"),
        ({"query_offsets_s": (0.05,)}, "offset < 0.05 s"),
        ({"query_offsets_s": ()}, "query_offsets_s"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        StreamingDecoder(make_model(), **arguments)


def test_streaming_needs_no_torch(rng, tmp_path):
    """The decoder is imported, unpickled and run without torch."""
    stream, (bins, _) = StreamingDecoder(make_model(), 1, (0.0, 0.02)), make_bins(rng)
    (tmp_path / "stream").write_bytes(pickle.dumps((stream, bins)))
    program = (
        "import pickle, sys; sys.modules['torch'] = None; from possm_lite.decoder import StreamingDecoder; "
        "stream, bins = pickle.load(open(sys.argv[1], 'rb')); assert isinstance(stream, StreamingDecoder); "
        "pickle.dump([stream.step(*spikes) for spikes in bins], open(sys.argv[1], 'wb'))"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "stream"], check=True)
    for (times, velocity), spikes in zip(pickle.loads((tmp_path / "stream").read_bytes()), bins, strict=True):
        expected = stream.step(*spikes)
        assert np.array_equal(times, expected[0]) and np.array_equal(velocity, expected[1])
