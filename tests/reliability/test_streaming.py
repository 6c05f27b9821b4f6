"""A stream that runs for hours: no drift, nothing that grows, refused spikes, interrupted steps, copies."""

import copy
import pickle
from itertools import islice

import numpy as np
import pytest
import torch

from possm_lite.decoder import StreamingDecoder
from possm_lite.decoder.baselines import BinnedGRU, BinnedStream, WienerFilter
from possm_lite.decoder.cells import Backbone
from possm_lite.decoder.config import BACKBONES
from possm_lite.decoder.stream import InputAttention, OutputAttention
from tests.decoder.helpers import make_model

from .streams import BAD_SPIKES, N_UNITS, BatchSegments, endless_bins, make_bins, play

OFFSETS = (0.0, 0.011, 0.049)
BASELINES = {"wiener": WienerFilter, "binned gru": BinnedGRU}


def make_decoder(kind="gru", dtype=torch.float32, offsets=OFFSETS):
    """A decoder with that backbone, or a baseline, and a stream of it."""
    if kind in BACKBONES:
        model = make_model(dtype, backbone=kind)
        return model, StreamingDecoder(model, 1, offsets)
    model = BASELINES[kind](N_UNITS, 0.05, 5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return model, BinnedStream(model)


def same(a, b) -> bool:
    """Times and velocity are equal to the last bit."""
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


def assert_rounded_once(times, n_bins):
    """Times (bins, Q) of these bins are the nearest float64 or next to it: microseconds are whole numbers."""
    true = (np.atleast_1d(n_bins)[:, None] * 50_000 + np.array([0, 11_000, 49_000])) / 1e6
    assert (np.abs(times - true) <= 2 * np.spacing(true)).all()


@pytest.mark.parametrize(
    ("backbone", "dtype", "limit", "short", "long"),
    [("gru", torch.float32, 2e-5, 8_000, 1_000_000)]
    + [(backbone, torch.float64, 1e-9, 1_600, 50_000) for backbone in BACKBONES],
)
def test_a_long_stream_equals_the_batch_form(rounds, record, backbone, dtype, limit, short, long):
    """Both carry their own state and agree to rounding, which does not grow: the second half is as close as the first.

    The truth is the batch form in float64. After a bin of 5,000 spikes, whose sum has few digits left in float32, a
    stream may be as far from it as the batch form in its own precision, twice as far at most.
    """
    n_segments, length = rounds(short, long) // 200, 200
    model, stream = make_decoder(backbone, dtype)
    batch = BatchSegments(model, OFFSETS)
    exact = BatchSegments(copy.deepcopy(model).double(), OFFSETS)
    source = endless_bins(1)
    difference = np.empty(n_segments)
    rounding = np.empty(n_segments)
    for segment in range(n_segments):
        bins = list(islice(source, length))
        velocity = play(stream, bins)[1]
        true = exact.decode(bins)
        difference[segment] = np.abs(velocity - true).max()
        rounding[segment] = np.abs(batch.decode(bins) - true).max()
        assert velocity.std() > 1e-3
    assert difference.max() < max(limit, 2 * rounding.max())
    first, second = np.array_split(difference, 2)
    assert np.median(second) <= 2 * np.median(first)
    record(
        f"bins streamed with silences and bursts: {backbone}, {str(dtype).removeprefix('torch.')}",
        f"{n_segments * length:,}, at most {difference.max():.0e} from the batch form in float64",
    )


@pytest.mark.parametrize("kind", [*BACKBONES, *BASELINES])
def test_what_a_stream_keeps_does_not_grow(kind):
    stream = make_decoder(kind)[1]
    play(stream, make_bins(1, 10))
    size = len(pickle.dumps(stream))
    play(stream, make_bins(1, 300))
    assert len(pickle.dumps(stream)) <= size + 10  # the number of bins has more digits


@pytest.mark.parametrize("n", [1, 3, 999_999, 1_000_000, 2**31])
def test_late_bins_are_as_exact_as_early_ones(n):
    early = make_decoder()[1]
    play(early, make_bins(1, 5))
    late, bins = copy.deepcopy(early), make_bins(2, 30)
    late._n_bins += n
    times, velocity = play(late, bins)
    assert np.array_equal(velocity, play(early, bins)[1])
    assert_rounded_once(times, np.arange(n + 5, n + 35))


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


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize(
    ("part", "method"),
    [(InputAttention, "__call__"), (Backbone, "step"), (OutputAttention, "append"), (OutputAttention, "__call__")],
)
def test_an_interrupted_step_changes_nothing(monkeypatch, part, method, error):
    stream, bins = make_decoder()[1], make_bins(2, 40)
    play(stream, bins[:20])
    untouched = copy.deepcopy(stream)

    def stop(*_):
        raise error

    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(part, method, stop)
        stream.step([1, 2], [0.01, 0.02])
    assert same(play(untouched, bins[20:]), play(stream, bins[20:]))


@pytest.mark.parametrize("kind", ["int8", "uint64", ">i4"])
def test_units_of_every_integer_type(kind):
    stream = make_decoder()[1]
    units, offsets = np.array([3, 1, 8]), np.array([0.04, 0.0, 0.01])
    others = [(units.astype(kind), offsets), (units.tolist(), tuple(offsets.tolist()))]
    others.append((torch.from_numpy(units), torch.from_numpy(offsets)))
    copies = [copy.deepcopy(stream) for _ in others]
    expected = stream.step(units, offsets)
    assert all(same(expected, other.step(*spikes)) for other, spikes in zip(copies, others, strict=True))


@pytest.mark.parametrize("kind", [*BACKBONES, *BASELINES])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_training_on_does_not_change_a_stream(kind, dtype):
    """A stream that is reset repeats itself, also when the model and the offsets it was made from have changed."""
    offsets, bins = np.array(OFFSETS), make_bins(5, 20)
    model, stream = make_decoder(kind, dtype, offsets)
    expected = play(stream, bins)
    stream.reset()
    offsets += 0.001
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(0.5)
    assert same(play(stream, bins), expected)


def test_a_call_during_a_step_is_refused(monkeypatch):
    stream, bins = make_decoder()[1], make_bins(8, 30)
    untouched, step = copy.deepcopy(stream), Backbone.step

    def meddling_step(*arguments):
        with pytest.raises(RuntimeError):
            stream.step(*bins[0])
        with pytest.raises(RuntimeError):
            stream.reset()
        return step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Backbone, "step", meddling_step)
        output = stream.step([4, 2], [0.03, 0.01])
    assert same(output, untouched.step([4, 2], [0.03, 0.01]))
    assert same(play(stream, bins), play(untouched, bins))
