"""A stream that runs for hours: no drift, nothing that grows; refused spikes, interrupted steps, copies."""

import copy
import pickle
from itertools import islice
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from possm_lite.decoder import StreamingDecoder
from possm_lite.decoder.baselines import BinnedGRU, BinnedStream, WienerFilter
from possm_lite.decoder.cells import Backbone
from possm_lite.decoder.config import BACKBONES
from possm_lite.decoder.stream import OutputAttention
from tests.decoder.helpers import make_model, randomize

from .streams import BAD_SPIKES, N_UNITS, BatchSegments, endless_bins, make_bins, play

OFFSETS = (0.0, 0.011, 0.049)
BASELINES = {"wiener": WienerFilter, "binned gru": BinnedGRU}


def make_decoder(kind="gru", dtype=torch.float32, offsets=OFFSETS):
    """A decoder with that backbone, or a baseline, and a stream of it."""
    if kind in BACKBONES:
        model = make_model(dtype, backbone=kind)
        return model, StreamingDecoder(model, 1, offsets)
    model = randomize(BASELINES[kind](N_UNITS, 0.05, 5))
    return model, BinnedStream(model)


def same(a, b) -> bool:
    """Times and velocity are equal to the last bit."""
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


@pytest.mark.parametrize(
    ("backbone", "dtype", "limit", "short", "long"),
    [("gru", torch.float32, 2e-5, 4_000, 1_000_000)]
    + [(backbone, torch.float64, 1e-9, 800, 50_000) for backbone in BACKBONES],
)
def test_a_long_stream_equals_the_batch_form(rounds, record, backbone, dtype, limit, short, long):
    """Rounding does not grow: the second half is as close as the first.

    The truth is the batch form in float64. After a bin of 5,000 spikes, whose sum has few digits left in float32, a
    stream may be as far from it as the batch form in its own precision, twice as far at most.
    """
    model, stream = make_decoder(backbone, dtype)
    batch = BatchSegments(model, OFFSETS)
    exact = BatchSegments(copy.deepcopy(model).double(), OFFSETS)
    source = endless_bins(1)
    difference, rounding = [], []
    for _ in range(rounds(short, long) // 200):
        bins = list(islice(source, 200))
        velocity = play(stream, bins)[1]
        true = exact.decode(bins)
        difference.append(np.abs(velocity - true).max())
        rounding.append(np.abs(batch.decode(bins) - true).max())
        assert velocity.std() > 1e-3
    assert max(difference) < max(limit, 2 * max(rounding))
    first, second = np.array_split(difference, 2)
    assert np.median(second) <= 2 * np.median(first)
    record(
        f"bins streamed with silences and bursts: {backbone}, {str(dtype).removeprefix('torch.')}",
        f"{200 * len(difference):,}, at most {max(difference):.0e} from the batch form in float64",
    )


@pytest.mark.parametrize("n", [1, 3, 999_999, 1_000_000, 2**31])
def test_late_bins_are_as_exact_as_early_ones(n):
    early = make_decoder()[1]
    play(early, make_bins(1, 5))
    late, bins = copy.deepcopy(early), make_bins(2, 30)
    late._n_bins += n
    times, velocity = play(late, bins)
    assert np.array_equal(velocity, play(early, bins)[1])
    exact = (np.arange(n + 5, n + 35)[:, None] * 50_000 + np.array([0, 11_000, 49_000])) / 1e6  # whole microseconds
    assert (np.abs(times - exact) <= 2 * np.spacing(exact)).all()


@pytest.mark.parametrize("kind", ["gru", *BASELINES])
def test_refused_spikes_change_nothing(kind):
    """Nor does a copy made in the middle of a stream share anything with it."""
    stream = make_decoder(kind)[1]
    play(stream, make_bins(4, 30))
    attacked = copy.deepcopy(stream)
    for spikes, (name, wrong) in zip(make_bins(2, len(BAD_SPIKES)), BAD_SPIKES.items(), strict=True):
        with pytest.raises(ValueError):
            attacked.step(*wrong)
            pytest.fail(f"accepted: {name}")
        assert same(stream.step(*spikes), attacked.step(*spikes)), name


@pytest.mark.parametrize(("part", "method"), [(Backbone, "step"), (OutputAttention, "__call__")])
def test_an_interrupted_step_changes_nothing(monkeypatch, part, method):
    stream, bins = make_decoder()[1], make_bins(2, 40)
    play(stream, bins[:20])
    untouched = copy.deepcopy(stream)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(part, method, Mock(side_effect=KeyboardInterrupt))
        stream.step([1, 2], [0.01, 0.02])
    assert same(play(untouched, bins[20:]), play(stream, bins[20:]))


@pytest.mark.parametrize("kind", [*BACKBONES, *BASELINES])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_training_on_does_not_change_a_stream(kind, dtype):
    """A stream that is reset repeats itself, also when the model and the offsets it was made from have changed."""
    offsets, bins = np.array(OFFSETS), make_bins(5, 20)
    model, stream = make_decoder(kind, dtype, offsets)
    expected = play(stream, bins)
    size = len(pickle.dumps(stream))
    stream.reset()
    offsets += 0.001
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(0.5)
    assert same(play(stream, bins), expected)
    play(stream, make_bins(1, 300))
    assert len(pickle.dumps(stream)) <= size + 10  # what it keeps does not grow, but the number of bins has more digits
