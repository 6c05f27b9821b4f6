"""Recordings in the layouts of CONVERTERS.md, each written as its own software writes it, for tests and benchmarks.

A writer puts the files into a folder. It returns the objects that the example of the page starts from, such as
`segment`, and the recording that the example should arrive at, made from the arrays themselves.
"""

import os
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import scipy.io

from possm_lite.recordings import Recording, load_recording

PAGE = Path(__file__).parents[2] / "docs" / "CONVERTERS.md"


class Layout(NamedTuple):
    """What an example of the page starts from, or a file that is read, and what it should become."""

    objects: dict
    expected: Recording
    path: Path | None = None


def examples() -> dict[str, str]:
    """The code of each section of CONVERTERS.md by its title; that of the introduction has the title ""."""
    title, *sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    blocks = {"": title, **{section.splitlines()[0]: section for section in sections}}
    return {name: "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)) for name, text in blocks.items()}


def convert(title: str, folder: Path, objects: dict) -> Recording:
    """The `recording` at the end of an example that runs in `folder`."""
    before, names = Path.cwd(), dict(objects)
    os.chdir(folder)
    try:
        exec(examples()[""] + "\n" + examples()[title], names)
    finally:
        os.chdir(before)
    return names["recording"]


def read(title: str, layout: Layout, folder: Path) -> Recording:
    """The recording in the file of a layout, or that of its example."""
    if layout.path:
        return load_recording(layout.path)
    return convert(title.removeprefix("converter: "), folder, layout.objects)


# Parts of layouts


def trains_of(recording: Recording) -> list[np.ndarray]:
    return [recording.spike_times[recording.spike_units == unit] for unit in range(recording.n_units)]


def numbered(recording: Recording, **changes) -> Recording:
    """The recording with units called "0", "1", ..., as from a file that does not name them."""
    return replace(recording, **{"unit_ids": np.arange(recording.n_units)} | changes)


def sampled(recording: Recording, step: int) -> Recording:
    """The recording with every `step`th sample of behaviour."""
    return replace(recording, behavior_times=recording.behavior_times[::step], behavior=recording.behavior[::step])


def in_bins(recording: Recording, width: float, start: float, stop: float) -> tuple[np.ndarray, np.ndarray]:
    """Counts (bins, units) and mean behaviour (bins, C) of whole bins from `start` to `stop`."""
    edges = start + width * np.arange(int((stop - start) / width + 1e-6) + 1)
    counts = np.stack([np.histogram(train, edges)[0] for train in trains_of(recording)], axis=1)
    bins = np.searchsorted(edges, recording.behavior_times + 1e-9, side="right") - 1
    means = [recording.behavior[bins == k].mean(axis=0) for k in range(len(edges) - 1)]
    return counts, np.stack(means)


def from_bins(counts, values, width: float, starts, **fields) -> Recording:
    """What counts at `starts` should become: spikes evenly over each bin, behaviour at the middle of each."""
    spikes = [
        (start + (i + 0.5) / n * width, unit)
        for start, row in zip(starts, counts, strict=True)
        for unit, n in enumerate(row)
        for i in range(n)
    ]
    times, units = zip(*sorted(spikes, key=lambda spike: spike[0]), strict=True)
    middles = np.asarray(starts) + width / 2
    return Recording(times, units, np.arange(counts.shape[1]), middles, values, **fields)


def position_of(recording: Recording) -> np.ndarray:
    means = (recording.behavior[1:] + recording.behavior[:-1]) / 2
    steps = means * np.diff(recording.behavior_times)[:, None]
    return 50 + np.cumsum(np.concatenate((np.zeros_like(steps[:1]), steps)), axis=0)


def struct(rows: list[dict], shape: tuple[int, int]) -> np.ndarray:
    """A MATLAB struct array, as savemat takes it."""
    array = np.empty(len(rows), dtype=[(name, object) for name in rows[0]])
    for i, row in enumerate(rows):
        array[i] = tuple(row.values())
    return array.reshape(shape)


# Layouts


def arrays(folder: Path, recording: Recording) -> Layout:
    r = sampled(recording, 10)
    hand = {"hand_times_ms": 1000 * r.behavior_times, "hand_cm": position_of(r) / 10}
    spikes = {"spike_times": r.spike_times[::-1], "spike_units": r.spike_units[::-1] + 100}
    np.savez(folder / "arrays.npz", trials=r.trials, **spikes, **hand)
    return Layout({}, numbered(r, unit_ids=np.arange(r.n_units) + 100, behavior=r.behavior / 10, behavior_unit="cm/s"))


def flint(folder: Path, recording: Recording) -> Layout:
    r, trains, trials, spans = sampled(recording, 10), trains_of(recording), [], []
    for start, stop in r.trials:
        inside = (r.behavior_times >= start) & (r.behavior_times <= stop)  # trials share a sample where they touch
        times, vel = r.behavior_times[inside], r.behavior[inside]
        neurons = [{"Spike": train[(train >= start) & (train < stop), None]} for train in trains]
        kinematics = {"Time": times[:, None], "HandVel": np.column_stack((vel, np.full(len(vel), np.nan)))}
        trials.append({**kinematics, "Neuron": struct(neurons, (-1, 1))})
        spans.append((times[0], times[-1]))
    subject = struct([{"Trial": struct(trials, (-1, 1))}], (1, 1))
    scipy.io.savemat(folder / "Flint_2012_e1.mat", {"Subject": subject}, do_compression=True)
    return Layout({}, numbered(r, trials=spans, behavior_unit="a.u."))


def kording_raw(folder: Path, recording: Recording) -> Layout:
    r = sampled(recording, 10)
    cells = np.empty((r.n_units, 1), dtype=object)
    cells[:, 0] = [train[:, None] for train in trains_of(r)]
    data = {"spike_times": cells, "vels": r.behavior, "vel_times": r.behavior_times[:, None]}
    scipy.io.savemat(folder / "s1_data_raw.mat", data)
    return Layout({}, numbered(r, trials=[], behavior_unit="a.u."))


def kording_pickle(folder: Path, recording: Recording) -> Layout:
    counts, means = in_bins(recording, 0.05, *recording.span)
    with open(folder / "example_data_m1.pickle", "wb") as file:
        pickle.dump([counts.astype(float), means], file, protocol=2)
    return Layout({}, from_bins(counts, means, 0.05, 0.05 * np.arange(len(counts))))


def trial_data(folder: Path, recording: Recording) -> Layout:
    rows, starts, spans, begin = [], [], [], 0.0
    guide = np.column_stack((1 + np.arange(recording.n_units), np.ones(recording.n_units)))
    for i, (start, stop) in enumerate(recording.trials):
        counts, means = in_bins(recording, 0.01, start, stop)
        fixed = {"trial_id": i + 1, "result": "R", "bin_size": 0.01, "idx_trial_start": 1, "idx_trial_end": len(means)}
        rows.append({**fixed, "vel": means / 10, "M1_spikes": counts.astype(np.uint8), "M1_unit_guide": guide})
        starts.append(begin + 0.01 * np.arange(len(counts)))
        spans.append((begin, begin + 0.01 * len(counts)))
        begin = spans[-1][1] + 1
    scipy.io.savemat(folder / "Chewie_CO_20161021.mat", {"trial_data": struct(rows, (1, -1))})
    counts, means = (np.concatenate([row[name] for row in rows]) for name in ("M1_spikes", "vel"))
    fields = {"trials": spans, "behavior_unit": "cm/s"}
    return Layout({}, from_bins(counts, means, 0.01, np.concatenate(starts), **fields))


def link(folder: Path, recording: Recording) -> Layout:
    from pynwb import NWBHDF5IO, NWBFile, TimeSeries

    counts, means = in_bins(recording, 0.02, *recording.span)
    starts = 40.0 + 0.02 * np.arange(len(counts))
    spans = [(start + 40, min(stop + 40, starts[-1])) for start, stop in recording.trials]
    nwb = NWBFile("center-out", "20200127", datetime(2020, 1, 27, tzinfo=timezone.utc))
    series = {"ThresholdCrossings": counts, "SpikingBandPower": 0.3 * counts}
    series |= {"index_velocity": means[:, 0], "mrs_velocity": means[:, 1], "index_position": means[:, 0]}
    for name, data in series.items():
        nwb.add_analysis(TimeSeries(name=name, data=data, unit="n/a", timestamps=starts))
    for start, stop in spans:
        nwb.add_trial(start_time=start, stop_time=stop)
    with NWBHDF5IO(str(folder / "sub-Monkey-N_ses-20200127_ecephys.nwb"), "w") as io:
        io.write(nwb)
    return Layout({}, from_bins(counts, means, 0.02, starts, trials=spans, behavior_columns=("index", "mrs")))


def neo(folder: Path, recording: Recording) -> Layout:
    r = sampled(recording, 10)
    expected = numbered(r, behavior=r.behavior / 10, behavior_unit="cm/s")
    trains = [Quantity(1000 * train, "ms") for train in trains_of(r)]
    signal, epoch = Quantity(r.behavior, "mm/s"), Quantity(r.trials, "s")
    signal.times, signal.name = Quantity(r.behavior_times, "s"), "hand_vel"
    epoch.times, epoch.durations = Quantity(1000 * r.trials[:, 0], "ms"), Quantity(np.diff(r.trials)[:, 0], "s")
    return Layout({"segment": SimpleNamespace(spiketrains=trains, analogsignals=[signal], epochs=[epoch])}, expected)


def spikeinterface(folder: Path, recording: Recording) -> Layout:
    r = sampled(recording, 16)
    samples = {f"u{i}": np.round(30_000 * train).astype(np.int64) for i, train in enumerate(trains_of(r))}

    def seconds(unit_id, segment_index=None):
        return samples[unit_id] / 30_000

    sorting = SimpleNamespace(unit_ids=np.array(list(samples)), get_unit_spike_train_in_seconds=seconds)
    table = np.column_stack((r.behavior_times, position_of(r)))
    np.savetxt(folder / "cursor.csv", table, fmt="%.6f", delimiter=",", header="time,x,y", comments="")
    spike_times = np.concatenate(list(samples.values())) / 30_000
    order = np.argsort(spike_times, kind="stable")
    units = np.repeat(np.arange(r.n_units), [len(train) for train in samples.values()])[order]
    spikes = {"spike_times": spike_times[order], "spike_units": units, "unit_ids": list(samples)}
    return Layout({"sorting": sorting}, replace(r, **spikes, trials=[], behavior_unit="pixels/s"))


def pynapple(folder: Path, recording: Recording) -> Layout:
    r = sampled(recording, 10)
    units = {i: SimpleNamespace(t=train) for i, train in enumerate(trains_of(r))}
    hand = SimpleNamespace(t=r.behavior_times, d=r.behavior, columns=["u", "v"])
    epochs = SimpleNamespace(start=r.trials[:, 0], end=r.trials[:, 1])
    expected = numbered(r, behavior_unit="cm/s", behavior_columns=["u", "v"])
    return Layout({"units": units, "hand_vel": hand, "trials": epochs}, expected)


def two_blocks(folder: Path, recording: Recording) -> Layout:
    """The second half starts at 0 s again."""
    r, middle = sampled(recording, 10), recording.trials[len(recording.trials) // 2, 0]
    spikes, rows = (np.searchsorted(times, middle) for times in (r.spike_times, r.behavior_times))
    times, vel_times = r.spike_times.copy(), r.behavior_times.copy()
    times[spikes:] -= middle
    vel_times[rows:] -= middle
    data = {"spike_times": times, "spike_units": r.spike_units, "vel_times": vel_times, "vel": r.behavior}
    np.savez(folder / "two_blocks.npz", **data)
    second = {"behavior_times": vel_times[rows:], "behavior": r.behavior[rows:], "behavior_unit": "a.u."}
    expected = numbered(r, spike_times=times[spikes:], spike_units=r.spike_units[spikes:], trials=[], **second)
    return Layout({}, expected)


def trial_table(folder: Path, recording: Recording) -> Layout:
    replace(recording, trials=[]).save(folder / "monday.npz")
    lines = [f"{start},{stop},{'RA'[i % 3 == 2]}" for i, (start, stop) in enumerate(recording.trials)]
    (folder / "trials.csv").write_text("\n".join(["start,stop,result", *lines]))
    return Layout({}, replace(recording, trials=[t for i, t in enumerate(recording.trials) if i % 3 != 2]))


def lecture_notes(folder: Path, recording: Recording) -> Layout:
    """Bins of 50 ms from the start of each trial; the last bin, which is not whole, is left out."""
    r, trials, parts, first = recording, [], [], 0
    for start, stop in r.trials:
        n = int((stop - start) / 0.05 + 1e-6)
        edges, shift = start + 0.05 * np.arange(n + 1), 0.05 * first - start
        a, b = (np.searchsorted(times, edges - 1e-9) for times in (r.spike_times, r.behavior_times))
        bins = [[(r.spike_units[k], r.spike_times[k] - edges[i]) for k in range(a[i], a[i + 1])] for i in range(n)]
        vel = [r.behavior[b[i] : b[i + 1]].tolist() for i in range(n)]
        trials.append({"trial_id": len(trials), "spikes": [pairs or 0 for pairs in bins], "vel": vel})
        spikes, rows, span = slice(a[0], a[-1]), slice(b[0], b[-1]), [[0.05 * first, 0.05 * (first + n)]]
        times = (r.spike_times[spikes] + shift, r.behavior_times[rows] + shift)
        parts.append((times[0], r.spike_units[spikes], times[1], r.behavior[rows], span))
        first += n + 19
    spike_times, units, behavior_times, behavior, spans = (np.concatenate(part) for part in zip(*parts, strict=True))
    own = {"behavior_times": behavior_times, "behavior": behavior, "trials": spans, "behavior_unit": "a.u."}
    return Layout({"trials": trials}, numbered(r, spike_times=spike_times, spike_units=units, **own))


WRITERS: dict[str, Callable[[Path, Recording], Layout]] = {
    "Arrays": arrays,
    "Flint 2012": flint,
    "Kording lab, raw MATLAB files": kording_raw,
    "Kording lab, pickles": kording_pickle,
    "trial_data": trial_data,
    "Counts in NWB (LINK)": link,
    "Neo": neo,
    "SpikeInterface": spikeinterface,
    "pynapple": pynapple,
    "Lecture notes": lecture_notes,
    "Two blocks whose clocks restart": two_blocks,
    "Trials in a table": trial_table,
}


class Quantity:
    """What the example uses of Neo: an array with a unit, of which NumPy takes the array alone."""

    SCALE = {("ms", "s"): 1e-3, ("s", "s"): 1.0, ("mm/s", "cm/s"): 0.1}

    def __init__(self, magnitude, unit: str):
        self.magnitude, self.unit = np.asarray(magnitude), unit

    def rescale(self, unit: str) -> "Quantity":
        return Quantity(self.magnitude * self.SCALE[self.unit, unit], unit)

    def __array__(self, dtype=None, copy=None):
        return self.magnitude
