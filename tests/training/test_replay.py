"""What a stream is fed, and that its answers are those of the batch form."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.spikes import RecordingError
from possm_lite.training import prepare
from possm_lite.training.evaluate import batch_decode, replay, slot_offsets


class Listener:
    """A stream that answers zero at the start of each bin and remembers what it was told."""

    def __init__(self):
        self.heard = []  # of each stretch, of each bin: units and offsets

    def reset(self):
        self.heard.append([])

    def step(self, units, offsets):
        self.heard[-1].append((units.copy(), offsets.copy()))
        return np.array([0.05 * (len(self.heard[-1]) - 1)]), np.zeros((1, 2))


@pytest.mark.parametrize("split", ["chronological", "random:40/20/40"])
@pytest.mark.parametrize(("backbone", "lag_s"), [("gru", 0.0), ("lstm", 0.1)])
def test_streamed_answers_are_those_of_the_batch(small_recording, split, backbone, lag_s):
    session = prepare(small_recording, split, lag_s)
    model = POSSM(POSSMConfig(small_recording.n_units, hidden=32, backbone=backbone)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    model.velocity_mean[1], model.velocity_std[1] = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5])
    played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    assert len(played.bins) == len(session.segments("test")) and (split[0] == "c") == (len(played.bins) == 1)
    assert played.decoded.shape == (5 * sum(played.bins), 2) and played.decoded.std() > 0.01
    assert np.abs(played.decoded - batch_decode(model, session, played)).max() < 1e-4


def test_a_stream_hears_every_spike_of_the_whole_bins_once(small_recording):
    session, listener = prepare(small_recording, "random:40/20/40", lag_s=0.1), Listener()
    played = replay(listener, session)
    pieces = session.segments("test")
    assert [len(bins) for bins in listener.heard] == list(played.bins)
    for (start, stop), bins in zip(pieces, listener.heard, strict=True):
        assert len(bins) == int((stop - start) / 0.05 + 1e-6)
        counts = [np.bincount(units, minlength=small_recording.n_units + 1) for units, _ in bins]
        np.testing.assert_array_equal(np.stack(counts)[:, 1:], session.timeline.counts(start, len(bins)))
        assert all((counts_of_bin[0] == 0) for counts_of_bin in counts)  # silence is no spike of unit 0
        offsets = np.concatenate([offset for _, offset in bins])
        assert (offsets >= 0).all() and (offsets < 0.05).all()


def test_times_are_on_the_clock_of_behaviour_and_truth_is_interpolated_there(small_recording):
    session = prepare(small_recording, lag_s=0.1)
    played = replay(Listener(), session)
    start = session.segments("test")[0, 0]
    np.testing.assert_allclose(played.times_s, start + 0.05 * np.arange(sum(played.bins)), rtol=0, atol=1e-9)
    times, velocity = small_recording.behavior_times[::10], small_recording.velocity[::10]
    expected = np.stack([np.interp(played.times_s, times, v) for v in velocity.T], 1)
    np.testing.assert_allclose(played.true, expected, rtol=0, atol=1e-6)
    assert (played.step_us > 0).all() and len(played.step_us) == sum(played.bins)
    assert played.percentile_us(50) <= played.percentile_us(99)


@pytest.mark.parametrize(("bin_width_s", "n_slots"), [(0.05, 5), (0.02, 2), (0.005, 1)])
def test_as_many_answers_a_bin_as_it_holds_samples(small_recording, bin_width_s, n_slots):
    offsets = slot_offsets(prepare(small_recording, bin_width_s=bin_width_s))
    np.testing.assert_allclose(offsets, np.arange(n_slots) * bin_width_s / n_slots)


def with_short_end(recording):
    """Two trials of which the split of time leaves 10 ms of the first to the test part."""
    start, stop = recording.span
    edge = start + 0.05 * round(0.8 * round((stop - start) / 0.05))
    return replace(recording, trials=[[start, edge + 0.01], [edge + 0.03, stop]])


def test_a_stretch_shorter_than_a_bin_is_not_played(small_recording):
    session = prepare(with_short_end(small_recording))
    model = POSSM(POSSMConfig(small_recording.n_units, dim=8, head_dim=8, n_freqs=4, hidden=8)).eval()
    played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    assert played.bins[0] == 0 < played.bins[1]
    assert np.abs(played.decoded - batch_decode(model, session, played)).max() < 1e-4


def test_a_part_of_less_than_a_bin_is_said(small_recording):
    session = prepare(small_recording)
    start = session.split.test[0, 0]
    short = replace(session, split=replace(session.split, test=np.array([[start, start + 0.04]])))
    with pytest.raises(RecordingError, match="the test part has no segment as long as a bin of 0.05 s"):
        replay(Listener(), short)
