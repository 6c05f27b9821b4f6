"""A stream that runs for hours: no drift, constant memory, refused spikes, interrupted steps, copies and threads."""

import copy
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from threading import Barrier, Thread

import numpy as np
import pytest
import torch

from possm_lite.decoder import StreamingDecoder
from possm_lite.decoder.baselines import BinnedGRU, BinnedStream, WienerFilter
from possm_lite.decoder.config import BACKBONES
from tests.decoder.helpers import make_model

from .streams import BAD_SPIKES, N_UNITS, STATM, BatchSegments, BlockingOffsets, endless_bins, make_bins, play

ROOT = Path(__file__).parents[2]
OFFSETS = (0.0, 0.011, 0.049)
BASELINES = {"wiener": (WienerFilter, BinnedStream), "binned gru": (BinnedGRU, BinnedStream)}


def make_decoder(kind="gru", dtype=torch.float32):
    """A decoder with that backbone, or a baseline, and a stream of it."""
    if kind in BACKBONES:
        model = make_model(dtype, backbone=kind)
        return model, StreamingDecoder(model, 1, OFFSETS)
    model = BASELINES[kind][0](N_UNITS, 0.05, 5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return model, BASELINES[kind][1](model)


def same(a, b) -> bool:
    """Times and velocity are equal to the last bit."""
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


def assert_rounded_once(times, n_bins):
    """Times (bins, Q) of these bins are the nearest float64 or next to it: microseconds are whole numbers."""
    true = (np.atleast_1d(n_bins)[:, None] * 50_000 + np.array([0, 11_000, 49_000])) / 1e6
    assert (np.abs(times - true) <= 2 * np.spacing(true)).all()


@pytest.fixture
def frequent_switches():
    """Threads switch a thousand times as often as by default."""
    default = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(default)


def run_threads(*jobs):
    threads = [Thread(target=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


# Hours


@pytest.mark.parametrize(
    ("backbone", "dtype", "limit", "short", "long"),
    [("gru", torch.float32, 2e-5, 8_000, 1_000_000)]
    + [(backbone, torch.float64, 1e-9, 1_600, 50_000) for backbone in BACKBONES],
)
def test_a_long_stream_equals_the_batch_form(rounds, record, backbone, dtype, limit, short, long):
    """Both carry their own state and agree to rounding, which does not grow: the second half is as close as the first.

    The truth is the batch form in float64. After a bin of 5,000 spikes, whose sum has few digits left in float32, a
    stream may be as far from it as the batch form in its own precision, twice as far at most. Refused spikes come in
    between, and the batch form does not get them.
    """
    n_segments, length = rounds(short, long) // 200, 200
    (model, stream), rng, bad = (
        make_decoder(backbone, dtype),
        np.random.default_rng(0),
        [wrong[:2] for wrong in BAD_SPIKES.values()],
    )
    batch, exact = (BatchSegments(m, OFFSETS) for m in (model, copy.deepcopy(model).double()))
    source, difference, rounding = endless_bins(1), np.empty(n_segments), np.empty(n_segments)
    for segment in range(n_segments):
        bins = list(islice(source, length))
        for _ in range(rng.poisson(4)):
            at = rng.integers(length)
            bins[at] = (*bins[at], bad[rng.integers(len(bad))])
        outputs = []
        for units, offsets, *wrong in bins:
            for spikes in wrong[:1]:
                with pytest.raises(ValueError):
                    stream.step(*spikes)
            outputs.append(stream.step(units, offsets))
        times, velocity = (np.stack(x) for x in zip(*outputs, strict=True))
        rounded, true = (form.decode([spikes[:2] for spikes in bins]) for form in (batch, exact))
        difference[segment], rounding[segment] = (np.abs(x - true).max() for x in (velocity, rounded))
        assert velocity.std() > 1e-3
        assert_rounded_once(times, np.arange(segment * length, (segment + 1) * length))
    assert difference.max() < max(limit, 2 * rounding.max())
    first, second = np.array_split(difference, 2)
    assert np.median(second) <= 2 * np.median(first)
    record(
        f"bins streamed with silences, bursts and refused input: {backbone}, {str(dtype).removeprefix('torch.')}",
        f"{n_segments * length:,}, at most {difference.max():.0e} from the batch form in float64",
    )


@pytest.fixture(scope="module")
def growth(rounds):
    """Bytes a bin of every backbone, and with 100 bytes a bin planted, in a fresh process."""
    if not STATM.exists():
        pytest.skip("the memory in use is read from /proc")
    runs = {name: (name, rounds(4_000, 100_000)) for name in BACKBONES} | {"gru": ("gru", rounds(20_000, 1_000_000))}
    runs["planted"] = ("gru", 10_000, 100)
    program = f"import json; from tests.reliability.streams import memory_growth; runs = {runs!r}; "
    program += "print(json.dumps({name: memory_growth(*run) for name, run in runs.items()}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", [*BACKBONES, "planted"])
def test_memory_stays_constant(growth, record, kind):
    assert growth[kind] > 100 if kind == "planted" else growth[kind] < 50
    if kind != "planted":
        record(f"growth of a stream's memory: {kind}", f"{growth[kind]:.1f} bytes a bin")


@pytest.mark.parametrize("n", [1, 3, 999_999, 1_000_000, 2**31])
def test_late_bins_are_as_exact_as_early_ones(n):
    early = make_decoder()[1]
    play(early, make_bins(1, 5))
    late, bins = copy.deepcopy(early), make_bins(2, 30)
    late._n_bins += n
    times, velocity = play(late, bins)
    assert np.array_equal(velocity, play(early, bins)[1])
    assert_rounded_once(times, np.arange(n + 5, n + 35))


# Spikes that do not fit


@pytest.mark.parametrize("kind", [*BACKBONES, *BASELINES])
def test_refused_spikes_change_nothing(kind):
    """Nor does a copy made in the middle of a stream share anything with it."""
    stream = make_decoder(kind)[1]
    play(stream, make_bins(4, 30))
    attacked = copy.deepcopy(stream)
    for spikes, (name, wrong) in zip(make_bins(2, 4 * len(BAD_SPIKES)), 4 * list(BAD_SPIKES.items()), strict=True):
        *wrong_spikes, message = wrong
        with pytest.raises(ValueError, match=message):
            attacked.step(*wrong_spikes)
            pytest.fail(f"accepted: {name}")
        assert same(stream.step(*spikes), attacked.step(*spikes)), name


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, FloatingPointError])
@pytest.mark.parametrize("method", ["_encode", "_project", "_decode"])
def test_an_interrupted_step_changes_nothing(monkeypatch, method, error):
    stream, bins = make_decoder()[1], make_bins(2, 40)
    play(stream, bins[:20])
    untouched = copy.deepcopy(stream)

    def stop(*_):
        raise error

    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(stream, method, stop)
        stream.step([1, 2], [0.01, 0.02])
    assert same(play(untouched, bins[20:]), play(stream, bins[20:]))


@pytest.mark.parametrize("decoder", ["gru", "binned gru"])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64", ">i4"])
def test_units_of_every_integer_type(decoder, kind):
    stream = make_decoder(decoder)[1]
    units, offsets = np.array([3, 1, 8]), np.array([0.04, 0.0, 0.01])
    others = [(units.astype(kind), offsets), (units.tolist(), tuple(offsets.tolist()))]
    others.append((torch.from_numpy(units), torch.from_numpy(offsets)))
    copies = [copy.deepcopy(stream) for _ in others]
    expected = stream.step(units, offsets)
    assert all(same(expected, other.step(*spikes)) for other, spikes in zip(copies, others, strict=True))


# Copies


@pytest.mark.parametrize("kind", [*BACKBONES, *BASELINES])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_training_on_does_not_change_a_stream(kind, dtype):
    """A stream that is reset repeats itself, also when the model and the offsets it was made from have changed."""
    (model, _), bins, offsets = make_decoder(kind, dtype), make_bins(5, 20), np.array(OFFSETS)
    stream = BASELINES[kind][1](model) if kind in BASELINES else StreamingDecoder(model, 1, offsets)
    expected = play(stream, bins)
    stream.reset()
    offsets += 0.001
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(0.5)
    assert same(play(stream, bins), expected)


# Threads


def test_two_threads_with_a_stream_each(frequent_switches):
    model, start = make_decoder()[0], Barrier(2)
    bins, outputs = [make_bins(seed, 800) for seed in (6, 7)], [None, None]

    def job(i):
        stream = StreamingDecoder(model)
        start.wait(60)
        outputs[i] = play(stream, bins[i])

    run_threads(lambda: job(0), lambda: job(1))
    assert all(same(outputs[i], play(StreamingDecoder(model), bins[i])) for i in range(2))


def test_a_call_during_a_step_is_refused():
    stream, bins = make_decoder()[1], make_bins(8, 30)
    play(stream, bins[:10])
    untouched, outputs = copy.deepcopy(stream), []
    offsets = BlockingOffsets(np.array([0.03, 0.01]))
    thread = Thread(target=lambda: outputs.append(stream.step([4, 2], offsets)), daemon=True)
    thread.start()
    assert offsets.reached.wait(60)
    try:
        with pytest.raises(RuntimeError, match="give each thread a StreamingDecoder of its own"):
            stream.step(*bins[10])
        with pytest.raises(RuntimeError, match="under way"):
            stream.reset()
        assert same(copy.deepcopy(stream).step(*bins[11]), copy.deepcopy(untouched).step(*bins[11]))  # not locked
    finally:
        offsets.release.set()
        thread.join(60)
    assert same(outputs[0], untouched.step([4, 2], [0.03, 0.01]))
    assert same(play(stream, bins[10:]), play(untouched, bins[10:]))


def test_threads_that_share_a_stream_and_retry(frequent_switches):
    """Every bin is decoded once, in the order of the times returned."""
    stream, start, outputs = make_decoder()[1], Barrier(3), []
    untouched = copy.deepcopy(stream)

    def job(seed):
        start.wait(60)
        for spikes in make_bins(seed, 300):
            while True:
                try:
                    outputs.append((stream.step(*spikes), spikes))
                    break
                except RuntimeError:
                    pass

    run_threads(*(lambda seed=seed: job(seed) for seed in range(3)))
    outputs.sort(key=lambda output: output[0][0][0])
    assert len(outputs) == 900
    assert all(same(output, untouched.step(*spikes)) for output, spikes in outputs)
