"""R² in closed cases, the samples it is computed from, and replays that equal the batch form."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.decoder.baselines import BinnedGRU, BinnedStream
from possm_lite.training import evaluate, prepare, r2_score
from possm_lite.training.evaluate import batch_decode, mean_r2, newest_finished, replay, slot_offsets


@pytest.fixture
def model(small_recording):
    return POSSM(POSSMConfig(small_recording.n_units, dim=8, head_dim=8, n_freqs=4, hidden=8))


def test_r2_in_closed_cases(rng):
    true = np.array([[0.0, 1.0], [2.0, 3.0]])  # squared deviation 2 along both axes
    decoded = np.array([[1.0, 1.0], [2.0, -1.0]])  # squared error 1 and 16
    np.testing.assert_allclose(r2_score(true, decoded), [0.5, -7.0])
    true = rng.normal(size=(50, 2)) + [3.0, -1.0]
    assert r2_score(true, true).tolist() == [1.0, 1.0]
    np.testing.assert_allclose(r2_score(true, np.broadcast_to(true.mean(0), true.shape)), 0.0, atol=1e-12)
    true[:, 1] = 4.0
    score = r2_score(true, true + 0.1)
    assert np.isnan(score[1]) and 0 < score[0] < 1
    for one, other in ((true, true[:, :1]), (true[:, :1], true)):
        with pytest.raises(ValueError, match="one shape, not"):
            r2_score(one, other)


def test_mean_r2_is_nan_where_a_column_is_not_decoded(rng):
    true = rng.normal(size=(50, 3)) * [1, 1, 0]
    assert mean_r2(true, true + [0, 0, 5.0]) == 1.0  # a constant column does not count
    assert np.isnan(mean_r2(true, true * [1, np.nan, 1])) and np.isnan(mean_r2(true[:0], true[:0]))


@pytest.mark.parametrize(
    ("lag_s", "expected"),
    [
        (0.0, [-1, -1, -1, 2, 2, 2, 5, 5, 5]),  # of bins of 50 ms with three samples: the last one of the bin before
        (0.02, [-1, -1, 2, 2, 2, 5, 5, 5, 8]),  # the sample at 40 ms is on the screen when its bin ends, 20 ms early
        (0.05, [0, 1, 2, 3, 4, 5, 6, 7, 8]),  # a bin early: every output is in time
        (0.2, [0, 1, 2, 3, 4, 5, 6, 7, 8]),  # never one of the future
        (-0.05, [-1, -1, -1, -1, -1, -1, 2, 2, 2]),
    ],
)
def test_newest_finished_output_in_three_bins(lag_s, expected):
    times = np.array([0.0, 0.02, 0.04, 0.05, 0.07, 0.09, 0.1, 0.12, 0.14])
    assert newest_finished(times, 0.05, lag_s).tolist() == expected
    assert newest_finished(times, 0.05, lag_s, times[5:]).tolist() == expected[5:]


@pytest.mark.parametrize("every", [10, 50])  # behaviour at 100 Hz, and once in a bin
def test_displayed_output_is_that_of_the_end_of_the_newest_finished_bin(small_recording, model, every):
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    times, behavior = small_recording.behavior_times[3::every], small_recording.behavior[3::every]
    session = prepare(replace(small_recording, behavior_times=times, behavior=behavior))
    decoded, (start, stop) = evaluate(model, session), session.segments("test")[0]
    batch = session.timeline.cut(start, stop - start)
    ends = 0.05 * (torch.arange(1, int(batch.n_bins[0]) + 1, dtype=torch.float64)[None] - 1e-3)
    with torch.no_grad():
        at_ends = model(batch, ends, torch.tensor([1]))[0].numpy()
    for time, shown in zip(decoded.times_s - start, decoded.displayed, strict=True):
        n_finished = int(time / 0.05 + 1e-6)
        expected = at_ends[n_finished - 1] if n_finished else [np.nan, np.nan]
        np.testing.assert_allclose(shown, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("part", ["train", "valid", "test"])
@pytest.mark.parametrize(("split", "lag_s"), [("chronological", 0.0), ("random", 0.1)])
def test_every_sample_of_a_part_counts_once(small_recording, model, split, lag_s, part):
    session = prepare(small_recording, split, lag_s)
    decoded = evaluate(model, session, part)
    times, velocity = small_recording.behavior_times[::10], small_recording.behavior[::10]  # thinned to 100 Hz
    trials = getattr(session.split, part)
    inside = np.any([(times >= a - 1e-6) & (times < b - 1e-6) for a, b in trials], axis=0)
    np.testing.assert_allclose(decoded.times_s, times[inside], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(decoded.true, velocity[inside])
    assert decoded.decoded.shape == decoded.true.shape and np.isfinite(decoded.decoded).all()
    assert decoded.r2 == pytest.approx(np.mean(r2_score(decoded.true, decoded.decoded)))


@pytest.mark.parametrize(("bin_width_s", "n_slots"), [(0.05, 5), (0.02, 2), (0.005, 1)])
def test_slots_follow_rate_and_phase_of_behavior(small_recording, bin_width_s, n_slots):
    session = prepare(small_recording, bin_width_s=bin_width_s)
    expected = np.arange(n_slots) * bin_width_s / n_slots + (-session.segments("test")[0, 0]) % min(0.01, bin_width_s)
    np.testing.assert_allclose(slot_offsets(session), expected, atol=1e-6)


def without_behavior(recording, start, stop, **changes):
    kept = (recording.behavior_times < start) | (recording.behavior_times >= stop)
    behavior = {"behavior_times": recording.behavior_times[kept], "behavior": recording.behavior[kept]}
    return replace(recording, **behavior, **changes)


@pytest.mark.parametrize("split", ["chronological", "random:40/20/40"])
@pytest.mark.parametrize(
    "change",
    [
        lambda r: r,
        lambda r: without_behavior(r, 19.0, 20.8, trials=[]),  # a pause in the test part
        lambda r: without_behavior(r, r.trials[-1, 0] + 0.1, r.trials[-1, 1] - 0.1),  # most of the last trial
        lambda r: replace(r, trials=r.trials[:, :1] + [0.0, 0.48]),  # the last bins are cut
        lambda r: replace(r, behavior_times=r.behavior_times[::51], behavior=r.behavior[::51], trials=[]),
    ],
)
def test_replay_and_evaluate_score_the_same_samples(small_recording, model, split, change):
    recording = change(small_recording)
    session = prepare(recording, split if len(recording.trials) else "chronological", lag_s=0.013)
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    decoded, played = evaluate(model, session), replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    np.testing.assert_array_equal(played.times_s, decoded.times_s)
    np.testing.assert_array_equal(played.true, decoded.true)
    # the same outputs but for the distance of a sample from its slot
    assert np.abs(played.decoded - decoded.decoded).mean() < 0.05 * decoded.decoded.std() + 1e-5
    assert np.abs(played.outputs - batch_decode(model, session, played)).max() < 1e-4
    assert (played.step_us > 0).all() and len(played.step_us) == sum(played.bins)
    gru = BinnedGRU(recording.n_units, 0.05, len(slot_offsets(session)))
    decoded, played = evaluate(gru, session), replay(BinnedStream(gru), session)
    np.testing.assert_allclose(played.decoded, decoded.decoded, atol=1e-4)
