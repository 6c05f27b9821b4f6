"""The streaming decoder: refused arguments, and no need of torch. It equals the batch form in `test_possm.py`; hours,
resets and copies are in `tests/reliability/test_streaming.py`."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from possm_lite.decoder import StreamingDecoder

from .helpers import make_bins, make_model


@pytest.mark.parametrize("arguments", [dict(session=3), dict(session=1.5), dict(query_offsets_s=(0.05,))], ids=str)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(ValueError):
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
