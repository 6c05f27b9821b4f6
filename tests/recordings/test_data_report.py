"""Faults of a recording are named before anything is trained on it, and sound recordings get no warning."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.benchmarks.faults import FAULTS, printed, simulated
from possm_lite.errors import listed
from possm_lite.recordings import Recording, RecordingError
from possm_lite.recordings.data_report import data_report


@pytest.fixture(scope="module")
def sound():
    return simulated()


def warnings(recording, **options):
    return [line for line in data_report(recording, **options) if line.startswith("warning")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_named(sound, fault, tmp_path):
    lines = printed(sound, fault.change, tmp_path / "recording.npz")
    assert sum(fault.named in line for line in lines) == 1, lines


def test_sound_recordings_have_no_warning(sound):
    assert len(data_report(sound)) == 5 and warnings(sound) == []
    assert warnings(replace(sound, trials=[])) == []
    # behaviour and spikes of every second trial alone, as benchmarks publish them
    trials, times, spikes = sound.trials[::2], sound.behavior_times[::10], sound.spike_times
    kept = np.searchsorted(sound.trials[:, 0], times, side="right") % 2 == 1
    fired = np.searchsorted(sound.trials[:, 0], spikes, side="right") % 2 == 1
    apart = {"behavior_times": times[kept], "behavior": sound.behavior[::10][kept], "trials": trials}
    spikes = {"spike_times": spikes[fired], "spike_units": sound.spike_units[fired]}
    assert warnings(replace(sound, **apart, **spikes)) == []


def test_every_figure_of_a_small_recording():
    """Counted by hand: a pause of 3 s, rest from 8.3 s on; units of 10 Hz until 7.55 s, of two spikes and of none."""
    times = np.r_[np.arange(400), np.arange(700, 1000)] / 100
    behavior = np.stack([np.sin(times), 0 * times, np.cos(times)], 1)
    behavior[times >= 8.3] = behavior[-1]
    trains = {"a": np.arange(0.05, 7.6, 0.1), "b": [2.0, 9.8], "c": []}
    fields = {"trials": [(0, 4), (7, 8), (8, 9.5)], "behavior_unit": "mm", "behavior_name": "x"}
    recording = Recording.from_trains(trains, times, behavior, **fields)
    rest = "behaviour does not change for up to 1.7 s, from 8.3 s on, 24.1 % of the time: rest, or lost tracking"
    lines = [
        "decoded: x in mm, 3 columns: x, y, z",
        "warning: 1 of 3 columns are constant: y",
        "behaviour: 0.0 to 10.0 s, 700 samples, 100 Hz",
        f"warning: {rest}",
        "trials: 3 of 1 to 4 s, 6.5 s in all",
        "warning: 1 of 3 trials have no spike, first at 8.0 s",
        "spikes: 78, 98.7 % of them at 0.0 to 9.5 s",
        "warning: no unit has a spike from 7.6 to 9.5 s, 30 % of the recorded time",
        "units: 3, median rate 0.2 Hz",
        "warning: 1 of 3 units are silent (< 1 spike a minute): c",
    ]
    assert data_report(recording) == lines
    lines.insert(3, "warning: gaps in behaviour: 1, 3.0 s in all; the longest is 3.0 s at 4.0 s")
    lines[5:9] = [
        "trials: none; 7.0 s without pauses",
        "spikes: 78, 100 % of them at 0.0 to 10.0 s",
        "warning: no unit has a spike from 7.6 to 9.8 s, 32.1 % of the recorded time",
    ]
    assert data_report(replace(recording, trials=[])) == lines
    slow = replace(recording, behavior_times=times[::7], behavior=behavior[::7], trials=[])
    assert "behaviour is sampled every 0.07 s, more slowly than bins of 0.05 s" in data_report(slow)[3]


def test_behavior_that_is_late_is_asked_about(sound):
    late = replace(sound, behavior_times=sound.behavior_times + 20, trials=[])
    assert any(line.endswith("is behaviour 20.0 s late on the clock of the spikes?") for line in warnings(late))
    ends = sound.spike_times < 74
    cut = replace(sound, spike_times=sound.spike_times[ends], spike_units=sound.spike_units[ends], trials=[])
    assert any("no unit has a spike" in line for line in warnings(cut)) and not any("late" in x for x in warnings(cut))


def test_spikes_alone_have_a_report(sound):
    alone = replace(sound, behavior_times=[], behavior=sound.behavior[:0], trials=[])
    assert [line.split(":")[0] for line in data_report(alone)] == ["trials", "spikes", "units"]
    few = Recording.from_trains([[0.1, 5.0]])
    assert "spikes: 2, 100 % of them at 0.1 to 5.0 s" in data_report(few)
    with pytest.raises(RecordingError, match="all the same"):
        data_report(Recording.from_trains([[0.1]]))


def test_what_cannot_be_decoded_is_refused(sound):
    one_late = replace(sound, spike_times=np.append(sound.spike_times[:-1], 999))
    with pytest.raises(RecordingError, match="the valid part, .* has no spike: spikes are at 0.0 to 999.0 s, behav"):
        data_report(one_late, parts={"train": sound.trials[:9], "valid": np.array([[-2.0, -1.0]])})
    assert listed("abcdefgh") == "a, b, c, d, e, f and 2 more" and listed("abcdef") == "a, b, c, d, e, f"
    with pytest.raises(RecordingError, match="spike_times is empty"):
        data_report(replace(sound, spike_times=[], spike_units=[]))
