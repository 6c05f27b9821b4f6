"""Invalid NWB files are refused by field, index and value; unusual valid ones are read."""

import numpy as np
import pytest

from possm_lite.errors import FileFormatError
from possm_lite.spikes.io.contents import Selection, assemble
from possm_lite.spikes.io.nwb import read_nwb

pytest.importorskip("pynwb")
h5py = pytest.importorskip("h5py")

from pynwb import TimeSeries  # noqa: E402

from .nwb_files import new_file, write  # noqa: E402

HAND, TRIALS = "processing/behavior/hand_vel", "intervals/trials"
TIMES = np.arange(300) / 100


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> bytes:
    """A file of two units, three seconds of velocity and two trials."""
    path, file = tmp_path_factory.mktemp("nwb") / "small.nwb", new_file()
    file.add_unit(spike_times=[0.5, 1.5], id=4)
    file.add_unit(spike_times=[0.25, 1.5], id=9)
    hand = TimeSeries(name="hand_vel", data=np.ones((300, 2)), unit="m/s", timestamps=TIMES)
    file.create_processing_module("behavior", "hand").add(hand)
    for start in (0.5, 1.0):
        file.add_trial(start_time=start, stop_time=start + 0.5)
    write(file, path)
    return path.read_bytes()


def put(name, value=None, index=..., **options):
    """A mutation: one entry of a data set, or all of it, is replaced by `value` or removed; attributes are kept."""

    def mutate(file):
        if index is not ...:
            file[name][index] = value
            return
        attributes = dict(file[name].attrs)
        del file[name]
        if options:
            file.create_dataset(name, **options)
        elif value is not None:
            file[name] = value
        if isinstance(file.get(name, getlink=True), h5py.HardLink):
            file[name].attrs.update(attributes)

    return mutate


def attribute(name, key, value):
    return lambda file: file[name].attrs.modify(key, value)


def huge(*shape, chunks):
    return put(f"{HAND}/data", shape=shape, dtype="f8", chunks=chunks, maxshape=(None, 2))


OTHER_CLOCK = {"start": 500.0, "stop": 501.0}
DIVIDE = "must divide 4 entries among 2 units"
BAD = {
    "no units": (put("units"), "units/spike_times is missing"),
    "no behavior": (put("processing/behavior"), "has no behaviour, so nothing can be trained on it; CONVERTERS.md"),
    "only NaN": (put(f"{HAND}/data", np.full((300, 2), np.nan)), "hand_vel is zero or missing throughout"),
    "only zeros": (put(f"{HAND}/data", np.zeros((300, 2))), "hand_vel is zero or missing throughout"),
    "text": (put(f"{HAND}/data", np.array([["a", "b"]] * 300, dtype="S1")), "hand_vel"),
    "unsorted timestamps": (put(f"{HAND}/timestamps", TIMES[::-1]), "hand_vel[1] = 2.980000 s comes after 2.990000 s"),
    "clock that restarts": (put(f"{HAND}/timestamps", TIMES % 1.5), "hand_vel[150] = 0.000000 s comes after 1.49"),
    "infinite conversion": (attribute(f"{HAND}/data", "conversion", np.inf), "hand_vel must have two rows of finite"),
    "terabytes": (huge(2**40, 2, chunks=(1024, 2)), "declares shape (1099511627776, 2) of float64"),
    "chunk of gigabytes": (huge(300, 2, chunks=(2**28 + 1, 1)), "or chunks, over 2147483648 bytes"),
    "one spike": (put("units/spike_times", [0.5]), "must divide 1 entries among 2 units"),
    "spikes as text": (put("units/spike_times", [b"a"] * 4), "units/spike_times"),
    "decreasing index": (put("units/spike_times_index", np.array([9, 4])), DIVIDE),
    "index without the last spike": (put("units/spike_times_index", np.array([2, 3])), DIVIDE),
    "trials of another clock": (
        lambda file: [put(f"{TRIALS}/{name}_time", [t, t + 2])(file) for name, t in OTHER_CLOCK.items()],
        "covers no trial, 500 to 503 s: is the unit of time",
    ),
    **{  # pynwb omits what it cannot open, with a warning: damaged trials would seem to be none
        f"{name} is a dangling link": (put(name, h5py.SoftLink("/nowhere")), f"altered/broken at /{name}")
        for name in (TRIALS, "intervals", "units", "general/session_id")
    },
    **{
        f"{name} is a data set of {np.asarray(value).dtype}": (put(name, value), "not a table of trials")
        for name in ("intervals", TRIALS)
        for value in ("a text", np.arange(6.0))
    },
    "times that are a table": (
        put(f"{HAND}/timestamps", np.zeros(6, [("x", "f8"), ("y", "S3")])),
        "hand_vel has neither readable times nor a rate",
    ),
}


@pytest.mark.parametrize("mutate, message", BAD.values(), ids=BAD.keys())
def test_invalid_file_is_refused_by_field_and_value(small, tmp_path, mutate, message):
    path = tmp_path / "a.nwb"
    path.write_bytes(small)
    with h5py.File(path, "r+") as file:
        file["acquisition/elsewhere"] = h5py.ExternalLink("elsewhere.nwb", "/video")  # not read
        file["general/session_id"] = "monday"
    assert len(assemble(read_nwb(path), Selection()).trials) == 2
    with h5py.File(path, "r+") as file:  # HDF5 refuses to write to a file that is open for reading
        mutate(file)
    with pytest.raises(FileFormatError) as caught:
        assemble(read_nwb(path), Selection())
    assert message in str(caught.value) and "\n" not in str(caught.value)
    with h5py.File(path, "r+") as file:  # closed after the error
        assert "acquisition" in file


def set_trials(starts, stops):
    def mutate(file):
        for name, values in (("start_time", starts), ("stop_time", stops), ("id", range(len(starts)))):
            put(f"{TRIALS}/{name}", np.array(values))(file)

    return mutate


MENDED = {  # note, and trials afterwards
    "NaN spike": (put("units/spike_times", np.nan, 1), "1 of 4 spikes without a time were left out", None),
    "NaN timestamp": (put(f"{HAND}/timestamps", np.nan, 250), "1 of 300 samples of hand_vel without a time", None),
    "repeated time": (put(f"{HAND}/timestamps", 0.04, 5), "1 of 300 samples of hand_vel with a time out", None),
    "NaN conversion": (attribute(f"{HAND}/data", "conversion", np.nan), "conversion of hand_vel is NaN", None),
    "repeated unit": (put("units/id", np.array([4, 4])), "1 of 2 units had the name of another", None),
    "reversed trial": (put(f"{TRIALS}/stop_time", 0.4, 0), "1 of 2 trials without a stop after", [[1.0, 1.5]]),
    "trial without end": (put(f"{TRIALS}/stop_time", np.nan, 0), "1 of 2 trials without a stop after", [[1.0, 1.5]]),
    "unsorted trials": (set_trials([1, 0.5], [1.5, 1]), "2 of 2 trials were not in order", [[0.5, 1], [1, 1.5]]),
    "overlapping trials": (
        set_trials([0.5, 0.9, 1.4, 1.4], [9.0, 1.5, 2.0, 1.5]),
        "3 of 4 trials overlapped the next one by up to 8 s and now end where",
        [[0.5, 0.9], [0.9, 1.4], [1.4, 2.0]],
    ),
    "no trials": (put(TRIALS), "There are no trials.", np.empty((0, 2))),
    "no intervals": (put("intervals"), "There are no trials.", np.empty((0, 2))),
    "trial without behaviour": (put(f"{TRIALS}/stop_time", 9.0, 1), "1 of 2 trials that behaviour", [[0.5, 1.0]]),
}


@pytest.mark.parametrize("mutate, note, trials", MENDED.values(), ids=MENDED.keys())
def test_bad_rows_are_mended_and_counted(small, tmp_path, mutate, note, trials):
    (tmp_path / "a.nwb").write_bytes(small)
    with h5py.File(tmp_path / "a.nwb", "r+") as file:
        mutate(file)
    recording = assemble(read_nwb(tmp_path / "a.nwb"), Selection())
    assert any(note in one for one in recording.notes), recording.notes
    np.testing.assert_array_equal(recording.trials, [[0.5, 1], [1, 1.5]] if trials is None else trials)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.nwb").write_text("this is text")
    with h5py.File(tmp_path / "other.nwb", "w") as file:
        file["x"] = 1
    for name in ("text.nwb", "other.nwb"):
        with pytest.raises(FileFormatError, match="is damaged or not an NWB file"):
            assemble(read_nwb(tmp_path / name), Selection())
