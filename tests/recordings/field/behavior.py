"""Behaviour that is no movement, clocks, and the array at fault."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import h5py
import numpy as np
from pynwb.behavior import CompassDirection, Position, SpatialSeries
from pynwb.misc import Units

from possm_lite.recordings import Recording

from ..layouts import position_of, sampled, trains_of
from ..nwb_files import behavior, new_file, series, write
from .case import FieldCase

HAND = "processing/behavior/hand_vel"


def at_100_hz(recording: Recording) -> Recording:
    return sampled(recording, 10)


def write_nwb(
    recording: Recording,
    folder: Path,
    change: Callable = lambda file: None,
    movement: Callable = lambda r: series("hand_vel", r.behavior, timestamps=r.behavior_times),
    add_units: Callable | None = None,
    spike_factor: float = 1.0,
    **intervals,
) -> Path:
    """An NWB file with a movement at 100 Hz, which `change` then changes."""
    r, file, path = at_100_hz(recording), new_file(), folder / "session.nwb"
    trains = [spike_factor * train for train in trains_of(r)]
    if add_units:
        add_units(file, trains)
    else:
        for train in trains:
            file.add_unit(spike_times=train, **intervals)
    for start, stop in r.trials:
        file.add_trial(start_time=start, stop_time=stop)
    behavior(file, movement(r))
    write(file, path)
    with h5py.File(path, "r+") as changed:
        change(changed)
    return path


def put(address: str, value: Callable):
    """A change: a data set is replaced by a function of what it holds; its attributes stay."""

    def change(file):
        data, attributes = file[address][()], dict(file[address].attrs)
        del file[address]
        file[address] = value(data)
        file[address].attrs.update(attributes)

    return change


def position(r: Recording, change: Callable = lambda x: x, name="hand", container=Position):
    data = change(position_of(r))
    clock = {"timestamps": r.behavior_times, "reference_frame": "camera", "unit": "mm"}
    return container(spatial_series=SpatialSeries(name=name, data=data, **clock))


def lost_at(value, columns=slice(None), n: int = 15, whole_pixels: bool = False) -> Callable:
    """A position in which tracking is lost in short runs."""

    def change(x):
        x = np.round(x + 300) if whole_pixels else x + 300
        for i, first in enumerate(range(40, len(x) - 9, len(x) // n)):
            x[first : first + 1 + i % 3, columns] = value
        return x

    return change


def tables_of_probes(file, trains):
    """Two tables in a processing module, none in /units."""
    module = file.create_processing_module("ecephys", "sorted")
    for probe, part in enumerate((trains[:6], trains[6:])):
        table = Units(name=f"units_imec{probe}", description="sorted")
        for train in part:
            table.add_unit(spike_times=train)
        module.add(table)


def one_table_elsewhere(file, trains):
    table = Units(name="sorted_units", description="sorted")
    for train in trains:
        table.add_unit(spike_times=train)
    file.create_processing_module("ecephys", "sorted").add(table)


def repeated_ids(file, trains, column: bool = True):
    """Each of two probes counts from 0."""
    if column:
        file.add_unit_column("probe_name", "probe")
    for u, train in enumerate(trains):
        more = {"probe_name": f"imec{u // 6}"} if column else {}
        file.add_unit(spike_times=train, id=u % 6, **more)


def no_spike_times(file, trains):
    file.add_unit_column("quality", "of the cluster")
    for _ in trains:
        file.add_unit(quality="good")


def as_pose(confidence: Callable) -> Callable:
    """SpatialSeries become a keypoint of ndx-pose, whose extension is not installed."""

    def change(file):
        group = file["processing/behavior/Position/hand"]
        group.attrs.update({"neurodata_type": "PoseEstimationSeries", "namespace": "ndx-pose"})
        group["confidence"] = confidence(len(group["data"]))

    return change


def unsure_where_it_jumps(file):
    as_pose(lambda n: np.where(np.arange(n) % 100 < 2, 0.1, 0.97))(file)
    data = file["processing/behavior/Position/hand/data"]
    data[...] = np.where(np.arange(len(data))[:, None] % 100 < 2, 90.0, data[()])


def as_own_type(file):
    """A laboratory's subclass of SpatialSeries, described in the file."""
    file["processing/behavior/Position/hand"].attrs["neurodata_type"] = "TrackedMarker"
    text = '{"groups": [{"neurodata_type_def": "TrackedMarker", "neurodata_type_inc": "SpatialSeries"}]}'
    file.create_group("specifications/ndx-lab/1.0")["ndx-lab.tracking"] = text


def turning(recording: Recording, folder: Path, period: float, lowest: float) -> Path:
    """A head direction that wraps, from the first column; about four turns."""

    def angle(x):
        return (x[:, 0] / 50 * period) % period + lowest

    movement = partial(position, change=angle, name="head_direction", container=CompassDirection)
    return write_nwb(recording, folder, movement=movement)


def turned(period: float, recording: Recording) -> Recording:
    r = at_100_hz(recording)
    values = r.behavior[:, :1] / 50 * period
    return replace(r, behavior=values, behavior_columns=["x"])


def without(is_left_out: Callable, recording: Recording) -> Recording:
    """Without samples and those beside them whose position was lost, as a missing position is."""
    r = at_100_hz(recording)
    kept = ~is_left_out(r)
    return replace(r, behavior_times=r.behavior_times[kept], behavior=r.behavior[kept], trials=[])


def lost_rows(change: Callable, value, columns, r: Recording) -> np.ndarray:
    return (change(position_of(r).copy())[:, columns] == value).all(axis=1)


def lost_case(name: str, value, columns=slice(None), whole_pixels=False) -> FieldCase:
    change = lost_at(value, columns, whole_pixels=whole_pixels)
    return FieldCase(
        name,
        "neuroconv #524",
        partial(write_nwb, movement=partial(position, change=lambda x: change(x.copy()))),
        says=r"samples at .*left out, as tracking was lost",
        options={"behavior": "hand"},
        expected=partial(without, partial(lost_rows, change, value, columns)),
    )


def saved(recording: Recording, folder: Path, **changes) -> Path:
    replace(recording, **changes).save(folder / "session.npz")
    return folder / "session.npz"


def saved_raw(change: Callable, recording: Recording, folder: Path) -> Path:
    r = at_100_hz(recording)
    values = change(position_of(r).copy())
    columns = ["x", "y"][: values.shape[1]]
    return saved(r, folder, behavior=values, behavior_columns=columns)


def raw(change: Callable, recording: Recording) -> Recording:
    r = at_100_hz(recording)
    values = change(position_of(r).copy())
    return replace(r, behavior=values, behavior_columns=["x", "y"][: values.shape[1]])


def raw_case(name: str, source: str, change: Callable, says: str, silent: str = "") -> FieldCase:
    """Behaviour in our own format, which is decoded as it is."""
    write_raw = partial(saved_raw, change)
    silent = silent or FieldCase.silent
    return FieldCase(name, source, write_raw, says, silent, expected=partial(raw, change))


def labels_of_trials(x):
    return np.repeat(np.arange(len(x) // 100 + 1) * 3 % 8 - 1.0, 100)[: len(x), None]


def labels_of_licks(x):
    return (np.arange(len(x)) % 73 < 3).astype(float)[:, None]


def lost_anywhere(x):
    """Bad frames, each elsewhere, at the edge of the picture."""
    x, rng = x + 300, np.random.default_rng(0)
    for i, first in enumerate(range(40, len(x) - 9, 100)):
        n = 1 + i % 3
        x[first : first + n] = rng.normal(0, 2, size=(n, 2))
    return x


def put_back(r: Recording, x):
    """At 0.3 s of each trial the cursor is put to one place."""
    x = x.copy()
    for start, _ in r.trials[1:]:
        i = np.searchsorted(r.behavior_times, start + 0.3)
        x[i:] -= x[i] - [3, 4]
    return x


def linked_out(file):
    del file[HAND]
    file[HAND] = h5py.ExternalLink("raw.nwb", "/hand")


def trials_times(factor: float) -> Callable:
    """A change: trials are in another unit of time."""

    def change(file):
        for name in ("start_time", "stop_time"):
            put(f"intervals/trials/{name}", lambda t: t * factor)(file)

    return change


def without_holes(holes, recording: Recording) -> tuple:
    times = recording.spike_times
    kept = ~np.any([(times > a) & (times < b) for a, b in holes], axis=0)
    return {"spike_times": times[kept], "spike_units": recording.spike_units[kept]}


HOLES = ((4.0, 6.5), (12.0, 15.0))
SILENT = r"warning|lost|wrap|label|jump"
CASES: list[FieldCase] = [
    FieldCase(
        "nwb_divided_twice",
        "nwbinspector #679",
        partial(write_nwb, spike_factor=1 / 30_000),
        says=r"spike_times look divided by the sampling rate once too often. Write them multiplied by 30,000\.",
        silent=r"behavior_times look|argsort|Hz|3.33e-07",
    ),
    FieldCase(
        "nwb_in_ms_twice",
        "nwbinspector #679",
        partial(write_nwb, spike_factor=1 / 1000),
        says=r"spike_times look divided by 1,000 once too often. Write them multiplied by 1,000\.",
        silent=r"behavior_times look|argsort|Hz|3.33e-07",
    ),
    FieldCase(
        "nwb_behavior_divided_twice",
        "nwbinspector #679",
        partial(write_nwb, change=put(f"{HAND}/timestamps", lambda t: t / 30_000)),
        says=r"behavior_times look divided by the sampling rate once too often. Write them multiplied by 30,000\.",
        silent="spike_times look|trials|Hz|3.33e-07",
    ),
    FieldCase(
        "nwb_obs_ms",
        "nwbinspector #5",
        partial(write_nwb, obs_intervals=[[5000.0, 26_000.0]]),
        says=r"obs_intervals of the units, 5,000.0 to 26,000.0 s, .* hand_vel, 0.0 to .*Divide them by 1,000",
        silent="missing value|--columns",
    ),
    FieldCase(
        "nwb_obs_other_clock",
        "nwbinspector #5",
        partial(write_nwb, obs_intervals=[[90_000.0, 90_020.0]]),
        says=r"obs_intervals.*90,000.0 to 90,020.0 s",
        silent="missing value|--columns|milliseconds",
    ),
    FieldCase(
        "nwb_two_row_timestamps",
        "pynwb #1775",
        partial(write_nwb, change=put(f"{HAND}/timestamps", lambda t: np.stack((t, t + 0.02)))),
        says=r"hand_vel has timestamps of shape \(2, \d+\) for data of shape .*2 clocks",
        silent="boolean|Error",
    ),
    FieldCase(
        "nwb_transposed",
        "pynwb #1775",
        partial(write_nwb, change=put(f"{HAND}/data", lambda x: x.T)),
        says=r"data of shape \(2, \d+\): the data are transposed",
        expected=at_100_hz,
    ),
    FieldCase(
        "nwb_column_of_timestamps",
        "pynwb #1775",
        partial(write_nwb, change=put(f"{HAND}/timestamps", lambda t: t[:, None])),
        expected=at_100_hz,
    ),
    FieldCase(
        "nwb_one_time_more",
        "pynwb #1775",
        partial(write_nwb, change=put(f"{HAND}/timestamps", lambda t: np.append(t, t[-1] + 0.01))),
        says="hand_vel has timestamps of shape .*one time for each sample",
    ),
    FieldCase(
        "nwb_units_in_modules",
        "neuroconv #1447",
        partial(write_nwb, add_units=tables_of_probes),
        says=r"units_imec0 \(6\), processing/ecephys/units_imec1 \(6\)",
        options={"units": "probe in ['imec0', 'imec1']"},
        expected=at_100_hz,
    ),
    FieldCase(
        "nwb_one_table_elsewhere",
        "neuroconv #1447",
        partial(write_nwb, add_units=one_table_elsewhere),
        says="processing/ecephys/sorted_units",
        expected=at_100_hz,
    ),
    FieldCase(
        "nwb_repeated_ids",
        "neuroconv #1447",
        partial(write_nwb, add_units=repeated_ids),
        says=r"column probe_name tells them apart, so units are named as imec0/0",
        expected=at_100_hz,
    ),
    FieldCase(
        "nwb_repeated_ids_alone",
        "neuroconv #1447",
        partial(write_nwb, add_units=partial(repeated_ids, column=False)),
        says="the id 0 is of several units, and no column",
    ),
    FieldCase(
        "nwb_units_without_spikes",
        "neuroconv #422",
        partial(write_nwb, add_units=no_spike_times),
        says="the table of units has no spike_times, only .*quality",
    ),
    lost_case("nwb_lost_tracking_zero", 0),
    lost_case("nwb_lost_tracking_far", -9999),
    lost_case("nwb_lost_tracking_pixels", -1, whole_pixels=True),
    lost_case("nwb_lost_tracking_x", 0, [0]),
    *(lost_case(f"nwb_lost_tracking_{value:g}", value) for value in (65535, 1e9, -1)),
    lost_case("nwb_lost_tracking_inside", 320, whole_pixels=True),
    FieldCase(
        "nwb_lost_tracking_anywhere",
        "DLC2NWB #24",
        partial(write_nwb, movement=partial(position, change=lost_anywhere)),
        says=r"43 of \d+ samples were left out, to which it jumps for 0.1 s at most and back",
        options={"behavior": "hand"},
        expected=partial(without, lambda r: lost_anywhere(position_of(r))[:, 0] < 100),
    ),
    FieldCase(
        "nwb_cursor_put_back",
        "own variant",
        partial(write_nwb, movement=lambda r: position(r, partial(put_back, r))),
        says="breaks off and goes on elsewhere in 11 places",
        silent="warning",
        options={"behavior": "hand"},
        expected=at_100_hz,
    ),
    *(
        FieldCase(
            f"nwb_trials_in_{name}",
            "nwbinspector #5",
            partial(write_nwb, change=trials_times(factor)),
            says=rf"trials are at .*, behaviour at 0.0 to .*look like {unit}.*: divide them by {factor:,}",
        )
        for name, factor, unit in (("ms", 1000, "milliseconds"), ("samples", 30_000, "sample indices"))
    ),
    FieldCase(
        "nwb_three_dimensions",
        "pynwb #1775",
        partial(write_nwb, change=put(f"{HAND}/data", lambda x: x[:, :, None])),
        says=r"no series of behaviour that can be read: hand_vel has 2235 x 2 x 1 values: write it with a row",
    ),
    FieldCase(
        "nwb_behavior_linked_out",
        "own variant",
        partial(write_nwb, change=linked_out),
        says="hand_vel is a link into raw.nwb, .*: put raw.nwb beside|links to files that are not there: raw.nwb",
    ),
    FieldCase(
        "nwb_without_a_clock",
        "pynwb",
        partial(write_nwb, change=lambda file: file.__delitem__(f"{HAND}/timestamps")),
        says="hand_vel has neither timestamps nor a rate",
    ),
    *(
        FieldCase(
            f"nwb_head_direction_{name}",
            "nwbinspector #233",
            partial(turning, period=period, lowest=lowest),
            says=f"wraps at {period:.4g} and was unwrapped",
            options={"behavior": "head_direction"},
            expected=partial(turned, period),
        )
        for name, period, lowest in (
            ("radians", 2 * np.pi, 0.0),
            ("around_zero", 2 * np.pi, -np.pi),
            ("degrees", 360.0, 0.0),
            ("degrees_around_zero", 360.0, -180.0),
            ("turns", 1.0, 0.0),
            ("half_turns", 180.0, 0.0),
        )
    ),
    FieldCase(
        "nwb_pose",
        "spyglass #1321, DLC2NWB #24",
        partial(write_nwb, movement=position, change=as_pose(lambda n: np.full(n, 0.98))),
        says="Velocity is the derivative of the position Position/hand",
        options={"behavior": "hand"},
        expected=at_100_hz,
    ),
    FieldCase(
        "nwb_pose_unsure",
        "DLC2NWB #24",
        partial(write_nwb, movement=position, change=unsure_where_it_jumps),
        says="samples of Position/hand with a confidence below 0.6 were left out",
        options={"behavior": "hand"},
        expected=partial(without, lambda r: np.arange(len(r.behavior)) % 100 < 2),
    ),
    FieldCase(
        "nwb_own_type",
        "spyglass #1321",
        partial(write_nwb, movement=position, change=as_own_type),
        says="Velocity is the derivative of the position Position/hand",
        options={"behavior": "hand"},
        expected=at_100_hz,
    ),
    raw_case("npz_lost_tracking", "neuroconv #524", lost_at(0), r"behaviour jumps to \(0, 0\) and back"),
    raw_case(
        "npz_angle", "nwbinspector #233", lambda x: 7.2 * x[:, :1] % 360, "x is an angle that wraps at 360, and no"
    ),
    raw_case(
        "npz_labels",
        "issue 50",
        labels_of_trials,
        r"velocity holds only 8 values \(-1, 0, 1, 2, 3, 4 and 2 more\), as labels do",
    ),
    raw_case("npz_labels_of_two", "own variant", labels_of_licks, r"holds only 2 values \(0, 1\), as labels do"),
    raw_case(
        "npz_directions", "own variant", lambda x: np.pi / 4 * labels_of_trials(x), "holds only 8 values", "wraps"
    ),
    raw_case("npz_turns", "own variant", lambda x: x[:, :1] / 50 % 1.0, "x is an angle that wraps at 1"),
    raw_case("good_pixels", "", lambda x: np.round(x + 300), "", SILENT),
    raw_case("good_angle", "", lambda x: x[:, :1] / 100, "", SILENT),
    raw_case("good_rest_at_zero", "", lambda x: np.where(x > 0, x, 0.0), "", SILENT),
    FieldCase(
        "npz_two_holes",
        "pynapple #53",
        lambda r, folder: saved(r, folder, **without_holes(HOLES, r)),
        says=r"no unit has a spike from 4.0 to 6.5 s, 12.0 to 15.0 s, \d",
        expected=lambda r: replace(r, **without_holes(HOLES, r)),
    ),
]
