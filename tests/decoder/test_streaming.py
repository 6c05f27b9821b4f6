"""The streaming decoder: causality, reset, refused arguments, and no need of torch. It equals the batch form in
`test_possm.py`; hours, copies and threads are in `tests/reliability/test_streaming.py`."""

import copy
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
def test_a_spike_changes_only_what_follows(rng, backbone):
    model, (bins, _) = make_model(backbone=backbone), make_bins(rng)
    stream, changed = StreamingDecoder(model), StreamingDecoder(model)
    for i, (units, offsets) in enumerate(bins):
        a = stream.step(units, offsets)[1]
        b = changed.step(*((np.r_[units, 3], np.r_[offsets, 0.02]) if i == 20 else (units, offsets)))[1]
        assert np.array_equal(a, b) == (i < 20)
        if i == 26:  # after the bins that a query reads itself: memory
            assert np.abs(a - b).max() > 1e-8


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone_on_the_command_line(small_recording, backbone, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    small_recording.save(tmp_path / "recording.npz")
    assert main(["decode", "recording.npz", "--epochs", "1", "--backbone", backbone, "--out", "run"]) == 0
    assert main(["stream", "run"]) == 0
    line = next(line for line in capfd.readouterr().out.splitlines() if line.startswith("largest difference"))
    assert float(line.split("  ")[1].split()[0]) < 1e-3  # mm/s, of velocities of hundreds


def test_reset_starts_again(rng):
    stream, (bins, _) = StreamingDecoder(make_model()), make_bins(rng)
    first = [stream.step(*spikes) for spikes in bins]
    stream.reset()
    for (t, v), spikes in zip(first, bins, strict=True):
        again = stream.step(*spikes)
        assert np.array_equal(t, again[0]) and np.array_equal(v, again[1])


def test_the_order_of_spikes_does_not_matter(rng):
    stream, units, offsets = StreamingDecoder(make_model()), rng.integers(1, 9, 30), rng.random(30) * 0.05
    shuffled = rng.permutation(30)
    a, b = copy.deepcopy(stream).step(units, offsets)[1], stream.step(units[shuffled], offsets[shuffled])[1]
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("units", "offsets", "message"),
    [
        ([9], [0.01], "units must lie in 1..8, not 9"),
        ([1, 0], [0.01, 0.02], "units must lie in 1..8, not 0"),
        ([1.0], [0.01], "units must be whole numbers"),
        ([1, 2], [0.01, 0.05], "offset < 0.05 s, not 0.05"),
        ([1], [-0.001], "not -0.001"),
        ([1], [np.nan], "not nan"),
        ([1, 2], [0.01], "flat and alike"),
        ([[1]], [[0.01]], "flat and alike"),
    ],
)
def test_wrong_spikes_are_named(units, offsets, message):
    with pytest.raises(ValueError, match=message):
        StreamingDecoder(make_model()).step(np.array(units), np.array(offsets))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"session": 3}, "session must lie in 1..2, not 3"),
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
