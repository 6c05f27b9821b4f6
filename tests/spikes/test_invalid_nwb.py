"""Invalid NWB files are refused by field, index and value; unusual valid ones are read."""

import sys
from datetime import datetime, timezone

import numpy as np
import pytest

from possm_lite.errors import FileFormatError
from possm_lite.spikes.io.nwb import read_nwb

pynwb = pytest.importorskip("pynwb")
h5py = pytest.importorskip("h5py")

from pynwb import NWBHDF5IO, NWBFile, TimeSeries  # noqa: E402


def new_file() -> NWBFile:
    return NWBFile("reaches", "368fc9f0-0b95", datetime(2009, 10, 6, tzinfo=timezone.utc))


def write(file, path):
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def write_small(path, *, units=True, n_more_units=0, behavior=True, trials=(), **series):
    file = new_file()
    if units:
        file.add_unit(spike_times=[0.5, 1.5], id=4)
        file.add_unit(spike_times=[0.25, 1.5], id=9)
    for i in range(n_more_units):
        file.add_unit(spike_times=[1.5], id=10 + i)
    if behavior:
        rows = {"data": np.zeros((300, 2)), "unit": "m/s", "rate": 100.0, "starting_time": 0.0} | series
        rows = {name: value for name, value in rows.items() if value is not None}
        file.create_processing_module("behavior", "hand").add(TimeSeries(name="hand_vel", **rows))
    for start, stop in trials:
        file.add_trial(start_time=start, stop_time=stop)
    write(file, path)


def increasing_except(index, value) -> dict:
    timestamps = np.arange(300) / 100
    timestamps[index] = value
    return {"timestamps": timestamps, "rate": None, "starting_time": None}


def row_of_nan(n=300) -> np.ndarray:
    return np.full((n, 2), np.nan)


BAD = {
    "no units": ({"units": False}, "units/spike_times is missing"),
    "no behavior": ({"behavior": False}, "processing/behavior is missing (processing has nothing)"),
    "one column": ({"data": np.zeros((300, 1))}, "none of hand_vel, finger_vel, cursor_vel, hand_pos"),
    "nothing but NaN": ({"data": row_of_nan()}, "processing/behavior/hand_vel must have at least two rows without NaN"),
    "timestamps that fall back": (
        increasing_except(50, 0.1),
        "processing/behavior/hand_vel/timestamps[50] = 0.100000 s comes after 0.490000 s",
    ),
    "a NaN timestamp": (increasing_except(50, np.nan), "processing/behavior/hand_vel/timestamps[50] = nan"),
    "no conversion": ({"conversion": np.nan}, "processing/behavior/hand_vel/conversion must be finite"),
    "a trial backwards": ({"trials": [(1.0, 0.5)]}, "trials[0] must stop after it starts"),
    "a trial without an end": ({"trials": [(1.0, np.nan)]}, "intervals/trials/stop_time[0] = nan"),
    "trials that overlap": ({"trials": [(0.5, 1.5), (1.0, 2.0)]}, "trials[1] starts at 1.000000 s, before trials[0]"),
    "unsorted trials": ({"trials": [(1.5, 2.0), (0.5, 1.0)]}, "trials[1] starts at 0.500000 s, before trials[0]"),
    "trials of another clock": ({"trials": [(500.0, 501.0)]}, "covers none of the 1 trials, 500.000 s to 501.000 s"),
}


@pytest.mark.filterwarnings("ignore")  # pynwb on what we make it write
@pytest.mark.parametrize("changes, message", BAD.values(), ids=BAD.keys())
def test_an_invalid_file_is_refused_by_field_and_value(tmp_path, changes, message):
    write_small(tmp_path / "a.nwb", **changes)
    with pytest.raises(FileFormatError) as caught:
        read_nwb(tmp_path / "a.nwb")
    assert message in str(caught.value) and "\n" not in str(caught.value)


def replace_dataset(path, name, value=None, **options):
    """Replace a data set by `value`, or by an empty one made with `options`, keeping its attributes."""
    with h5py.File(path, "r+") as file:
        attributes = dict(file[name].attrs)
        del file[name]
        file.create_dataset(name, data=value, **options)
        file[name].attrs.update(attributes)


@pytest.mark.parametrize(
    "name, new, message",
    [
        ("units/spike_times", {"value": [0.5, np.nan, 0.25, 1.5]}, "units/spike_times[1] = nan"),
        ("units/spike_times", {"value": [0.5]}, "must divide 1 spike times among 2 units"),
        ("units/spike_times", {"value": [b"a"] * 4}, "units/spike_times"),
        ("units/spike_times_index", {"value": np.array([9, 4])}, "must divide 4 spike times among 2 units"),
        ("units/spike_times_index", {"value": np.array([2, 3])}, "must divide 4 spike times among 2 units"),
        (
            "processing/behavior/hand_vel/data",
            {"shape": (2**40, 2), "dtype": "f8", "chunks": (1024, 2)},
            "declares shape (1099511627776, 2) of float64",
        ),
        (
            "processing/behavior/hand_vel/data",
            {"shape": (300, 2), "dtype": "f8", "chunks": (2**28 + 1, 1), "maxshape": (None, 2)},
            "or chunks, of more than",
        ),
        ("processing/behavior/hand_vel/data", {"value": np.array([["a", "b"]] * 300, dtype="S1")}, "hand_vel"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_malicious_dataset_is_refused_before_reading(tmp_path, name, new, message):
    write_small(tmp_path / "a.nwb")
    replace_dataset(tmp_path / "a.nwb", name, **new)
    with pytest.raises(FileFormatError) as caught:
        read_nwb(tmp_path / "a.nwb")
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.nwb").write_text("this is text")
    with h5py.File(tmp_path / "other.nwb", "w") as file:
        file["x"] = 1
    for name in ("text.nwb", "other.nwb"):
        with pytest.raises(FileFormatError, match="is damaged or not an NWB file"):
            read_nwb(tmp_path / name)


def test_without_pynwb_the_error_names_the_extra(tmp_path, monkeypatch):
    write_small(tmp_path / "a.nwb")
    monkeypatch.setitem(sys.modules, "pynwb", None)
    with pytest.raises(FileFormatError, match=r"pip install possm-lite\[recordings\]"):
        read_nwb(tmp_path / "a.nwb")


def test_the_file_is_closed_after_an_error(tmp_path):
    for changes in ({}, {"trials": [(1.0, 0.5)]}):
        write_small(tmp_path / "a.nwb", **changes)
        try:
            read_nwb(tmp_path / "a.nwb")
        except FileFormatError:
            assert changes
        with h5py.File(tmp_path / "a.nwb", "r+") as file:  # HDF5 refuses to write to a file that is open for reading
            assert "units" in file


def test_simultaneous_spikes_keep_the_order_of_units(tmp_path):
    write_small(tmp_path / "a.nwb", n_more_units=50)
    recording = read_nwb(tmp_path / "a.nwb")
    assert recording.spike_times.tolist() == [0.25, 0.5, *[1.5] * 52]
    assert recording.spike_units.tolist() == [1, 0, *range(52)]
    assert recording.unit_ids.tolist() == ["4", "9", *(str(10 + i) for i in range(50))]


@pytest.mark.parametrize("name", ["intervals/trials", "intervals", "units", "general/session_id"])
def test_groups_that_cannot_be_opened_are_not_ignored(tmp_path, name):
    """pynwb omits them with a warning; a recording whose trials are damaged would seem to have none."""
    write_small(tmp_path / "a.nwb", trials=[(0.5, 1.0)])
    with h5py.File(tmp_path / "a.nwb", "r+") as file:
        file["acquisition/elsewhere"] = h5py.ExternalLink("elsewhere.nwb", "/video")  # not read
        file["general/session_id"] = "monday"
    assert len(read_nwb(tmp_path / "a.nwb").trials) == 1
    with h5py.File(tmp_path / "a.nwb", "r+") as file:
        del file[name]
        file[name] = h5py.SoftLink("/nowhere")
    with pytest.raises(FileFormatError, match=f"altered/broken at /{name}"):
        read_nwb(tmp_path / "a.nwb")


@pytest.mark.parametrize("name", ["intervals", "intervals/trials"])
@pytest.mark.parametrize("value", ["a text", np.arange(6.0)], ids=["text", "numbers"])
def test_trials_that_are_not_a_table_are_refused(tmp_path, name, value):
    write_small(tmp_path / "a.nwb", trials=[(0.5, 1.0)])
    with h5py.File(tmp_path / "a.nwb", "r+") as file:
        del file[name]
    assert len(read_nwb(tmp_path / "a.nwb").trials) == 0
    with h5py.File(tmp_path / "a.nwb", "r+") as file:
        file[name] = value
    with pytest.raises(FileFormatError, match="not a table of trials"):
        read_nwb(tmp_path / "a.nwb")
