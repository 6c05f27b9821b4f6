"""A stream that runs for hours: no drift, no memory that grows, no spikes that break it, no threads that mix it up."""

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
from possm_lite.decoder.baselines import BinnedGRU, WienerFilter
from possm_lite.decoder.config import BACKBONES
from possm_lite.decoder.streaming.baselines import GRUStream, WienerStream
from tests.decoder.helpers import make_model

from .streams import BAD_SPIKES, N_UNITS, STATM, BatchInPieces, Held, endless_bins

ROOT = Path(__file__).parents[2]
OFFSETS = (0.0, 0.011, 0.049)


def make_stream(kind="gru", dtype=torch.float32):
    """A stream of a decoder with that backbone, or of a decoder of binned counts."""
    if kind in BACKBONES:
        return StreamingDecoder(make_model(dtype, backbone=kind), 1, OFFSETS)
    model, stream = {"wiener": (WienerFilter, WienerStream), "binned gru": (BinnedGRU, GRUStream)}[kind]
    model = model(N_UNITS, 0.05, 5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return stream(model)


def same(a, b) -> bool:
    """Times and velocity are the same to the last bit."""
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


@pytest.fixture
def busy_threads():
    """Threads take turns a thousand times as often as they do by themselves."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(usual)


def run_all(*jobs):
    """Each job in a thread of its own, all at once; they end, or the test fails."""
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
def test_a_long_stream_does_not_drift_from_the_batch_form(rounds, backbone, dtype, limit, short, long):
    """Both forms go from the first bin to the last, each with its own state, and meet at every bin.

    They add up the same terms in another order, so they agree to rounding, not to the bit. Were rounding ever to add up
    from bin to bin, the second half of the bins would be further apart than the first. Bad spikes come in between; the
    batch form never hears of them.
    """
    n_pieces, length = rounds(short, long) // 200, 200
    model, rng, bad = make_model(dtype, backbone=backbone), np.random.default_rng(0), list(BAD_SPIKES.values())
    stream, batch, source = StreamingDecoder(model, 1, OFFSETS), BatchInPieces(model, OFFSETS), endless_bins(1)
    apart, spread = np.empty(n_pieces), []
    for piece in range(n_pieces):
        bins, answers = list(islice(source, length)), []
        for spikes in bins:
            if rng.random() < 0.02:
                with pytest.raises(ValueError):
                    stream.step(*bad[rng.integers(len(bad))])
            answers.append(stream.step(*spikes))
        velocity = np.stack([v for _, v in answers])  # (bins, Q, 2)
        apart[piece] = np.abs(velocity - batch.answer(bins)).max()
        spread.append(velocity.std())
        # in microseconds the true times are whole numbers, so that they are rounded only once
        bin_ = np.arange(piece * length, (piece + 1) * length)[:, None]
        true = (bin_ * 50_000 + np.rint(1e6 * np.array(OFFSETS)).astype(int)) / 1e6
        assert (np.abs(np.stack([t for t, _ in answers]) - true) <= 2 * np.spacing(true)).all()
    half = n_pieces // 2
    assert apart.max() < limit and min(spread) > 1e-3
    assert apart[half:].max() <= 2 * apart[:half].max()


@pytest.fixture(scope="module")
def grown(rounds):
    """Bytes a bin of every backbone, and with 100 bytes a bin planted, in a process that has done nothing before."""
    if not STATM.exists():
        pytest.skip("only Linux tells how much memory a process has now")
    runs = {name: (name, rounds(4_000, 100_000)) for name in BACKBONES} | {"gru": ("gru", rounds(20_000, 1_000_000))}
    runs["planted"] = ("gru", 10_000, 100)
    program = f"import json; from tests.reliability.streams import growth; runs = {runs!r}; "
    program += "print(json.dumps({name: growth(*run) for name, run in runs.items()}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_long_stream_keeps_nothing(grown, backbone):
    assert grown[backbone] < 50


def test_a_hundred_bytes_a_bin_would_be_seen(grown):
    assert grown["planted"] > 100


@pytest.mark.parametrize("n", [0, 1, 3, 999_999, 1_000_000, 2**31])
def test_times_count_from_the_first_bin_and_are_rounded_not_summed(n):
    """An hour and a day later they are still the nearest numbers there are, or next to them."""
    stream = make_stream()
    stream._n_bins = n
    times, _ = stream.step([1], [0.01])
    true = (n * 50_000 + np.array([0, 11_000, 49_000])) / 1e6
    assert (np.abs(times - true) <= 2 * np.spacing(true)).all()
    if n == 1_000_000:
        assert np.abs(times - true).max() < 2e-11


# Spikes that do not fit


@pytest.mark.parametrize("kind", [*BACKBONES, "wiener", "binned gru"])
def test_bad_spikes_are_refused_and_the_next_answer_is_as_if_they_had_never_come(kind):
    untouched = make_stream(kind)
    attacked = copy.deepcopy(untouched)
    bins, bad = islice(endless_bins(2), 4 * len(BAD_SPIKES)), 4 * list(BAD_SPIKES.items())
    for spikes, (what, wrong) in zip(bins, bad, strict=True):
        with pytest.raises(ValueError):
            attacked.step(*wrong)
            pytest.fail(f"accepted: {what}")
        assert same(untouched.step(*spikes), attacked.step(*spikes)), what


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, FloatingPointError])
@pytest.mark.parametrize("method", ["_encode", "_project", "_decode"])
def test_a_step_that_breaks_off_has_not_been(monkeypatch, method, error):
    """Wherever it stops, the state is the one before; and the stream is free again."""
    stream, bins = make_stream(), list(islice(endless_bins(2), 40))
    for spikes in bins[:20]:
        stream.step(*spikes)
    untouched = copy.deepcopy(stream)

    def stop(*_):
        raise error

    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(stream, method, stop)
        stream.step([1, 2], [0.01, 0.02])
    for spikes in bins[20:]:
        assert same(untouched.step(*spikes), stream.step(*spikes))


@pytest.mark.parametrize("decoder", ["gru", "binned gru"])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64", ">i4"])
def test_whole_numbers_of_every_kind_are_units(decoder, kind):
    stream = make_stream(decoder)
    other, units, offsets = copy.deepcopy(stream), np.array([3, 1, 8]), np.array([0.04, 0.0, 0.01])
    assert same(stream.step(units, offsets), other.step(units.astype(kind), offsets))
    assert same(stream.step(units, offsets), other.step(units.tolist(), tuple(offsets.tolist())))
    assert same(stream.step(units, offsets), other.step(torch.from_numpy(units), torch.from_numpy(offsets)))


# A copy is a stream of its own, and a model that goes on training is not its business


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_copy_goes_on_as_the_stream_does_and_neither_disturbs_the_other(backbone):
    stream, source = make_stream(backbone), endless_bins(4)
    for spikes in islice(source, 300):
        stream.step(*spikes)
    kept = copy.deepcopy(stream)
    bins = list(islice(source, 30))
    went_on = [stream.step(*spikes) for spikes in bins]
    assert all(same(kept.step(*spikes), answer) for spikes, answer in zip(bins, went_on, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_model_that_changes_afterwards_does_not_reach_the_stream(backbone, dtype):
    model, bins = make_model(dtype, backbone=backbone), list(islice(endless_bins(5), 20))
    asked = np.array(OFFSETS)
    stream = StreamingDecoder(model, 1, asked)
    before = [stream.step(*spikes) for spikes in bins]
    stream.reset()
    asked += 0.001
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(0.5)
    assert all(same(stream.step(*spikes), answer) for spikes, answer in zip(bins, before, strict=True))


@pytest.mark.parametrize(("model", "stream"), [(WienerFilter, WienerStream), (BinnedGRU, GRUStream)])
def test_a_baseline_that_changes_afterwards_does_not_reach_its_stream(model, stream):
    model = model(N_UNITS, 0.05, 5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    played, bins = stream(model), list(islice(endless_bins(5), 20))
    before = [played.step(*spikes) for spikes in bins]
    played.reset()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(0.5)
    assert all(same(played.step(*spikes), answer) for spikes, answer in zip(bins, before, strict=True))


# Threads


def test_two_streams_of_one_model_in_two_threads_answer_as_one_after_the_other(busy_threads):
    model, start = make_model(torch.float32), Barrier(2)
    bins = [list(islice(endless_bins(seed), 800)) for seed in (6, 7)]
    alone = [[stream.step(*spikes) for spikes in mine] for mine in bins for stream in [StreamingDecoder(model)]]
    together = [[], []]

    def play(which):
        stream = StreamingDecoder(model)
        start.wait(60)
        together[which] += [stream.step(*spikes) for spikes in bins[which]]

    run_all(lambda: play(0), lambda: play(1))
    for expected, answers in zip(alone, together, strict=True):
        assert len(answers) == len(expected)
        assert all(same(a, b) for a, b in zip(expected, answers, strict=True))


def test_a_call_while_a_step_is_under_way_is_told_so_and_changes_nothing():
    stream, bins = make_stream(), list(islice(endless_bins(8), 30))
    for spikes in bins[:10]:
        stream.step(*spikes)
    untouched, answers = copy.deepcopy(stream), []
    held = Held(np.array([0.03, 0.01]))
    thread = Thread(target=lambda: answers.append(stream.step([4, 2], held)), daemon=True)
    thread.start()
    assert held.reached.wait(60)
    try:
        with pytest.raises(RuntimeError, match="give each thread a StreamingDecoder of its own"):
            stream.step(*bins[10])
        with pytest.raises(RuntimeError, match="under way"):
            stream.reset()
        elsewhere = copy.deepcopy(stream)  # a copy is not held up
        assert same(elsewhere.step(*bins[11]), copy.deepcopy(untouched).step(*bins[11]))
    finally:
        held.let_go.set()
        thread.join(60)
    assert same(answers[0], untouched.step([4, 2], [0.03, 0.01]))
    for spikes in bins[10:]:
        assert same(stream.step(*spikes), untouched.step(*spikes))


def test_threads_that_share_a_stream_and_try_again_get_one_stream_of_answers(busy_threads):
    """Who is told to wait tries again: every bin is decoded once, in the order of the times that came back."""
    stream, start, answers = make_stream(), Barrier(3), []
    untouched = copy.deepcopy(stream)

    def play(seed):
        start.wait(60)
        for spikes in islice(endless_bins(seed), 300):
            while True:
                try:
                    answers.append((stream.step(*spikes), spikes))
                    break
                except RuntimeError:
                    pass

    run_all(*(lambda seed=seed: play(seed) for seed in range(3)))
    answers.sort(key=lambda answer: answer[0][0][0])
    assert len(answers) == 900
    assert all(same(answer, untouched.step(*spikes)) for answer, spikes in answers)
