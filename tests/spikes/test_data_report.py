"""Faults of a recording are named before anything is trained on it, and sound recordings get no warning."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.spikes import Recording, RecordingError
from possm_lite.spikes.data_report import data_report

from ..benchmarks.faults import FAULTS, printed, simulated


@pytest.fixture(scope="module")
def sound():
    return simulated()


def warnings(recording, **options):
    return [line for line in data_report(recording, **options) if line.startswith("warning")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_named(sound, fault, tmp_path):
    lines = printed(sound, fault.change, tmp_path / "recording.npz")
    assert sum(fault.named in line for line in lines) == 1, lines
    assert all("\n" not in line and len(line) < 250 for line in lines)


def spikes_in(recording, *intervals):
    kept = np.any([(recording.spike_times >= a) & (recording.spike_times < b) for a, b in intervals], axis=0)
    return replace(recording, spike_times=recording.spike_times[kept], spike_units=recording.spike_units[kept])


def test_sound_recordings_have_no_warning(sound):
    assert len(data_report(sound)) == 5 and warnings(sound) == []
    assert warnings(replace(sound, trials=[])) == []
    # behaviour and spikes of every second trial alone, as benchmarks publish them
    trials = sound.trials[::2]
    sound = replace(sound, behavior_times=sound.behavior_times[::10], behavior=sound.behavior[::10])
    kept = np.any([(sound.behavior_times >= a) & (sound.behavior_times < b) for a, b in trials], axis=0)
    apart = {"behavior_times": sound.behavior_times[kept], "behavior": sound.behavior[kept], "trials": trials}
    assert warnings(replace(spikes_in(sound, *trials), **apart)) == []


def test_a_short_part_of_a_long_session_is_decoded(sound):
    """Few spikes are inside of the span, at ordinary rates."""
    repeats = 40
    times = (sound.spike_times + 100 * np.arange(repeats)[:, None]).ravel()
    longer = replace(sound, spike_times=times, spike_units=np.tile(sound.spike_units, repeats))
    later = replace(longer, behavior_times=sound.behavior_times + 1500, trials=sound.trials + 1500)
    assert ["2.5 % of them at 1500.0" in line for line in warnings(later)] == [True]
    half = len(sound.behavior_times) * 2 // 5
    early = replace(sound, behavior_times=sound.behavior_times[:half], behavior=sound.behavior[:half], trials=[])
    assert ["behaviour is there for no others" in line for line in warnings(early)] == [True]


def test_spikes_alone_have_a_report(sound):
    alone = replace(sound, behavior_times=[], behavior=sound.behavior[:0], trials=[])
    assert [line.split(":")[0] for line in data_report(alone)] == ["trials", "spikes", "units"]
    few = Recording.from_trains([[0.1, 5.0]])
    assert "spikes: 2, 100 % of them at 0.1 to 5.0 s" in data_report(few)
    with pytest.raises(RecordingError, match="all the same"):
        data_report(Recording.from_trains([[0.1]]))


def test_interrupted_spikes_are_found(sound):
    start, stop = sound.span
    assert "from 0.0 to 20.0 s" in warnings(spikes_in(sound, (20, stop)))[-1]
    assert "from 20.0 to 40.0 s" in warnings(spikes_in(sound, (start, 20), (40, stop)))[-1]
    with pytest.raises(RecordingError, match="the valid part, .* has no spike"):
        data_report(sound, parts={"valid": np.array([[-2.0, -1.0]])})
    with pytest.raises(RecordingError, match="spike_times is empty"):
        data_report(spikes_in(sound, (-2, -1)))


@pytest.mark.parametrize(
    ("spikes", "behavior", "cause"),
    [
        (lambda t: 1e6 * t, lambda t: t, "spike_times look like microseconds"),
        (lambda t: 1e3 * t + 5e5, lambda t: t, "spike_times look like milliseconds"),
        (lambda t: t, lambda t: t + 1.7e9, "behavior_times look like Unix time"),
        (lambda t: 3e3 * t, lambda t: t, "spike_times have another clock"),
    ],
)
def test_clocks_that_do_not_fit_are_refused(sound, spikes, behavior, cause):
    times = {"behavior_times": behavior(sound.behavior_times), "trials": behavior(sound.trials)}
    with pytest.raises(RecordingError, match=cause):
        data_report(replace(sound, spike_times=spikes(sound.spike_times), **times))


def test_behavior_in_milliseconds_is_refused_though_trials_are_in_seconds(sound):
    with pytest.raises(RecordingError, match="behavior_times look like milliseconds"):
        data_report(replace(sound, behavior_times=1e3 * sound.behavior_times))


def test_a_velocity_in_millimetres_is_doubted(sound):
    assert any("a position?" in line for line in data_report(replace(sound, behavior_unit="mm")))
    assert not any("a position?" in line for line in data_report(replace(sound, behavior_unit="mm", behavior_name="x")))
