"""Timeline pairs spikes with behaviour; SplitConfig divides recordings."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.recordings import Recording, RecordingError, SplitConfig, Timeline
from possm_lite.recordings.split import recorded_time, segments


def make_recording(n_trials=10, trial_s=1.0, rate=100, start=5.0, marked=True, **changes) -> Recording:
    """Trial after trial; velocity x is the time of the sample, so that pairings can be read off."""
    times = start + np.arange(round(n_trials * trial_s * rate)) / rate
    spikes = start + np.arange(round(n_trials * trial_s * 50)) / 50 + 0.003
    edges = start + np.arange(n_trials + 1) * trial_s
    fields = {"behavior_times": times, "behavior": np.stack([times, -times], 1)} | changes
    fields = {"trials": np.stack([edges[:-1], edges[1:]], 1) if marked else []} | fields
    return Recording(spikes, np.arange(len(spikes)) % 3, ["a", "b", "c"], **fields)


@pytest.mark.parametrize("lag", [0.0, 0.1, -0.1])
def test_windows_equal_explicit_loops(rng, lag):
    """Behaviour at t is paired with spikes at t - lag; a gap in behaviour, and units dropped from a window."""
    whole = make_recording()
    kept = (whole.behavior_times < 7.2) | (whole.behavior_times > 7.4)
    recording = make_recording(behavior_times=whole.behavior_times[kept], behavior=whole.behavior[kept])
    timeline, starts, keep_unit = Timeline(recording, lag), [7.0, 8.5, 14.6], rng.random((3, 3)) < 0.6
    batch = timeline.cut(starts, 1.0, keep_unit)
    assert batch.n_bins.tolist() == [20, 20, 20]
    for i, start in enumerate(starts):
        tokens, counts = [], np.zeros((20, 3), int)
        for b in range(20):
            edge = start - lag + 0.05 * b
            inside = (recording.spike_times >= edge - 1e-6) & (recording.spike_times < edge + 0.05 - 1e-6)
            own = list(zip(recording.spike_units[inside], recording.spike_times[inside] - edge, strict=True))
            np.add.at(counts[b], [unit for unit, _ in own], 1)
            own = [(unit + 1, time) for unit, time in own if keep_unit[i, unit]] or [(0, 0.0)]
            tokens += [(20 * i + b, *token) for token in own]
        rows = (batch.bin >= 20 * i) & (batch.bin < 20 * i + 20)
        found = np.stack([batch.bin[rows], batch.unit[rows], batch.offset[rows]], 1)
        np.testing.assert_allclose(found, tokens, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(timeline.counts(start, 20), counts)
        shown = (recording.behavior_times >= start - 1e-6) & (recording.behavior_times < start + 1 - 1e-6)
        assert batch.mask[i].sum() == shown.sum() and batch.mask[i, : shown.sum()].all()
        np.testing.assert_allclose(batch.times_s[i][batch.mask[i]], recording.behavior_times[shown] - start, atol=1e-9)
        np.testing.assert_array_equal(batch.behavior[i][batch.mask[i]], recording.behavior[shown])


def test_behavior_is_subsampled_not_interpolated():
    for rate, stride in ((1000, 10), (250, 3), (100, 1), (30, 1)):
        recording = make_recording(rate=rate)
        np.testing.assert_array_equal(Timeline(recording).times, recording.behavior_times[::stride])
        np.testing.assert_array_equal(Timeline(recording).behavior, recording.behavior[::stride])


def test_a_spike_at_the_end_of_long_bins_is_in_the_next():
    recording = make_recording(n_trials=20)
    spikes = np.append(recording.spike_times, 14.999997)
    recording = replace(recording, spike_times=np.sort(spikes), spike_units=np.zeros(len(spikes), int))
    with pytest.raises(ValueError, match="bin_width_s must be positive, not 0"):
        Timeline(recording, bin_width_s=0)
    timeline = Timeline(recording, bin_width_s=5.0)
    n = timeline.cut([5.0], 10.0).n_spikes
    assert n == timeline.counts(5.0, 2).sum() == np.sum((spikes >= 5) & (spikes < 14.99999))


def test_chronological_split_keeps_order_and_shares():
    recording = make_recording()
    split = SplitConfig().apply(recording, 0.05)
    np.testing.assert_array_equal(np.concatenate([*vars(split).values()]), recording.trials)
    assert [len(part) for part in vars(split).values()] == [7, 1, 2]


def test_random_split_has_every_trial_once():
    recording = make_recording()
    splits = [SplitConfig("random", seed=seed).apply(recording, 0.05) for seed in (0, 0, 1)]
    whole = np.concatenate([splits[0].train, splits[0].valid, splits[0].test])
    np.testing.assert_array_equal(whole[np.argsort(whole[:, 0])], recording.trials)
    np.testing.assert_array_equal(splits[0].test, splits[1].test)
    assert not np.array_equal(splits[0].train, splits[2].train)
    with pytest.raises(RecordingError, match="split random needs 3 trials"):
        SplitConfig("random").apply(make_recording(marked=False), 0.05)


@pytest.mark.parametrize("trials", [np.zeros((0, 2)), [[5.0, 15.0]]])
def test_without_trials_time_is_divided_at_bin_edges(trials):
    split = SplitConfig().apply(make_recording(trials=trials), 0.05)
    np.testing.assert_allclose(np.concatenate([split.train, split.valid, split.test]), [[5, 12], [12, 13], [13, 15]])


def test_segments_join_adjacent_intervals():
    joined = segments(np.array([[0.0, 1.0], [1.0, 2.0], [2.5, 3.0], [3.0005, 4.0], [8.0, 9.0]]), gap_s=1e-3)
    np.testing.assert_array_equal(joined, [[0.0, 2.0], [2.5, 4.0], [8.0, 9.0]])


def test_split_config_parses_its_own_text():
    assert SplitConfig.parse(str(SplitConfig.parse("random:60/20/20"))) == SplitConfig("random", (0.6, 0.2, 0.2))
    for text in ("", "alphabetical", "random:50/50", "chronological:70/10/30", "random:a/b/c", "random:100/0/0"):
        with pytest.raises(ValueError):
            SplitConfig.parse(text)


def with_pauses(*pauses, **changes) -> Recording:
    """Forty seconds from 5 to 45 s, without the behaviour in these pauses."""
    whole = make_recording(n_trials=40, marked=False)
    kept = ~np.any([(whole.behavior_times >= a) & (whole.behavior_times < b) for a, b in pauses], axis=0)
    return make_recording(40, behavior_times=whole.behavior_times[kept], behavior=whole.behavior[kept], **changes)


@pytest.mark.parametrize("trials", [[], [[5.0, 45.0]]])
def test_recorded_time_is_divided_around_pauses(trials):
    recording = with_pauses((15, 25), (28, 38), (42, 42.5), trials=trials)  # the last one is too short for a pause
    begin, end = (-0.02, 0.01) if trials else (0, 0)  # inside of trials, a piece may begin and end beyond its samples
    expected = [[5, 15 + end], [25 + begin, 28 + end], [38 + begin, 45]]
    np.testing.assert_allclose(recorded_time(recording), expected, rtol=0, atol=1e-6)
    split = SplitConfig().apply(recording, 0.05)
    np.testing.assert_allclose(split.train, [[5, 15], [25, 28], [38, 39]], atol=0.06)
    np.testing.assert_allclose(np.concatenate([split.valid, split.test]), [[39, 41], [41, 45]], atol=0.06)


def test_pauses_leave_no_part_empty():
    recording = with_pauses((6, 44.4), trials=[])  # 1 s, and 0.6 s
    for shares in ((0.98, 0.01, 0.01), (0.01, 0.01, 0.98), (0.4, 0.59, 0.01)):
        split = SplitConfig(shares=shares).apply(recording, 0.05)
        assert all(np.diff(part).sum() >= 0.05 - 1e-9 for part in vars(split).values())
    with pytest.raises(RecordingError, match="too short to split: 9 bins"):
        SplitConfig().apply(make_recording(1, 0.45, marked=False), 0.05)


def test_a_part_has_a_trial_at_least():
    for shares, n_trials in (((0.9, 0.05, 0.05), [8, 1, 1]), ((0.05, 0.05, 0.9), [1, 1, 8])):
        split = SplitConfig(shares=shares).apply(make_recording(), 0.05)
        assert [len(part) for part in vars(split).values()] == n_trials


@pytest.mark.parametrize("order", ["chronological", "random"])
def test_three_trials_are_one_for_each_part(order):
    recording = make_recording(n_trials=3)
    parts = list(vars(SplitConfig(order).apply(recording, 0.05)).values())
    assert [len(part) for part in parts] == [1, 1, 1]
    whole = np.concatenate(parts)
    np.testing.assert_array_equal(whole[np.argsort(whole[:, 0])], recording.trials)
