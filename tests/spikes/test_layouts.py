"""One session, written as four laboratories' programs write it, and read to the same arrays; broken files."""

import os

import numpy as np
import pytest

from possm_lite.spikes import Recording, RecordingError, SpikeBatch, load_recording
from possm_lite.spikes.batch import bin_index

h5py = pytest.importorskip("h5py")
pandas = pytest.importorskip("pandas")

from .layout_files import WRITERS, make_session, merged, write_brainsets, write_indy, write_phy, write_pynapple  # noqa: E402

SESSION = make_session()
LAYOUTS = {  # position, its unit, ids of the units, those that the filter leaves, filter, has trials
    "indy": ("cursor_pos", "mm", ["M1 001/0", "S1 002/0", "S1 002/1"], [0], "area == 'M1' and unit == 0", False),
    "phy": ("cursor_pos", "a.u.", ["5", "7", "12"], [0], "group == 'good'", True),
    "pynapple": ("cursor_pos", "a.u.", ["2", "3", "8"], [1, 2], "id != '2'", True),
    "brainsets": ("cursor/pos", "a.u.", ["u0", "u1", "u2"], [0, 1], "area == 'M1'", True),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


@every_layout
def test_position_spikes_units_and_trials_are_exact(layout, tmp_path):
    path = WRITERS[layout](SESSION, tmp_path)
    name, unit, unit_ids, kept, expression, has_trials = LAYOUTS[layout]
    recording = load_recording(path, behavior=f"{name}:raw")
    times, units = merged(SESSION)
    np.testing.assert_array_equal(recording.spike_times, times)
    np.testing.assert_array_equal(recording.spike_units, units)
    assert recording.unit_ids.tolist() == unit_ids and recording.session_id == path.stem
    # pandas 2 reads the last digits of a number in a text inexactly, pandas 3 does not
    rounding = 4e-15 if layout == "phy" and pandas.__version__ < "3" else 0
    np.testing.assert_allclose(recording.behavior_times, SESSION.times, rounding)
    np.testing.assert_allclose(recording.behavior, SESSION.position, rounding)
    assert recording.behavior_unit == unit and recording.behavior_columns.tolist() == ["x", "y"]
    np.testing.assert_array_equal(recording.trials, SESSION.trials if has_trials else np.empty((0, 2)))

    chosen = load_recording(path, units=expression, trials="result == 'R'" if layout in ("phy", "brainsets") else "")
    assert chosen.unit_ids.tolist() == [unit_ids[i] for i in kept]
    assert len(chosen.spike_times) == sum(len(SESSION.trains[i]) for i in kept)
    if layout in ("phy", "brainsets"):
        np.testing.assert_array_equal(chosen.trials, SESSION.trials[:1])
    x, y = SESSION.position.T  # the default is the velocity of the cursor
    expected = np.stack((-2 * y * 50 / 30, 2 * x * 30 / 50), axis=1)
    assert chosen.behavior_unit == f"{unit}/s"
    np.testing.assert_allclose(chosen.behavior[5:-5], expected[5:-5], rtol=0, atol=0.1)


def test_finger_axes_are_those_of_the_cursor(tmp_path):
    """The file has z, -x, -y in cm."""
    recording = load_recording(write_indy(SESSION, tmp_path), behavior="finger_pos:raw")
    assert recording.behavior_unit == "cm" and recording.behavior_columns.tolist() == ["x", "y", "z"]
    np.testing.assert_allclose(recording.behavior[:, :2], SESSION.position / 10, rtol=1e-12)
    np.testing.assert_array_equal(recording.behavior[:, 2], 1)


def test_unsorted_units_and_noise_are_noted(tmp_path):
    assert "2 of 3 units are unsorted" in " ".join(load_recording(write_indy(SESSION, tmp_path)).notes)
    assert "1 of 4 clusters, labelled noise" in " ".join(load_recording(write_phy(SESSION, tmp_path)).notes)


def test_regular_series_have_their_sampling_rate(tmp_path):
    recording = load_recording(write_brainsets(SESSION, tmp_path), behavior="gaze/angle")
    np.testing.assert_allclose(recording.behavior_times, SESSION.times[::2], atol=1e-12)
    np.testing.assert_array_equal(recording.behavior[:, 0], SESSION.times[::2])


def test_one_column_of_pynapple_is_read(tmp_path):
    recording = load_recording(write_pynapple(SESSION, tmp_path), behavior="speed")
    np.testing.assert_array_equal(recording.behavior, SESSION.times[:, None])


def test_spikes_alone_of_phy_are_a_recording(tmp_path):
    path = write_phy(SESSION, tmp_path)
    (path / "tracking.csv").unlink()
    assert len(load_recording(path, spikes_only=True).spike_times) == len(merged(SESSION)[0])


@pytest.mark.parametrize("name", ["t", "time_s", "Time (sec)", "timestamps", "seconds"])
def test_names_of_time_in_a_table_beside_phy(name, tmp_path):
    path = write_phy(SESSION, tmp_path)
    table, expected = path / "tracking.csv", load_recording(path).behavior_times
    table.write_text(table.read_text().replace("time", name, 1))
    np.testing.assert_array_equal(load_recording(path).behavior_times, expected)


# Broken files


def refusal(path) -> str:
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value) and len(str(caught.value)) < 900
    return str(caught.value).removeprefix(str(path))


TERABYTE = {"shape": (2**37,), "dtype": "f8", "chunks": (1024,)}


@pytest.mark.parametrize(
    "layout, name, options, reason",
    [
        ("indy", "t", TERABYTE, "declares shape"),
        ("indy", "t", {"data": np.zeros((1, 4))}, "cursor_pos"),
        ("indy", "spikes", TERABYTE, "references"),
        ("indy", "spikes", {"shape": (2**20, 2**20), "dtype": h5py.ref_dtype, "chunks": (8, 8)}, "declares shape"),
        ("indy", "spikes", {"shape": (2, 3), "dtype": h5py.ref_dtype}, "spikes must be (units, 2) for 2 chan_names"),
        ("indy", "chan_names", {"shape": (1, 2), "dtype": h5py.ref_dtype}, "damaged"),
        ("brainsets", "spikes/timestamps", TERABYTE, "declares shape"),
        ("brainsets", "spikes/timestamps", {"data": np.zeros((3, 2, 2))}, "spikes"),
        ("brainsets", "spikes/unit_index", {"data": np.full(120, 3)}, "3 units"),
        ("brainsets", "cursor/pos", TERABYTE, "declares shape"),
        ("brainsets", "cursor/pos", {"data": ["a", "b"]}, "behavio"),
        ("brainsets", "trials/start", {"data": ["a", "b"]}, "must hold numbers"),
        ("brainsets", "trials/is_valid", {"data": [True]}, "as many rows in every column"),
        ("brainsets", "trials", None, "damaged"),
    ],
)
def test_wrong_datasets_are_refused(layout, name, options, reason, tmp_path):
    path = WRITERS[layout](SESSION, tmp_path)
    with h5py.File(path, "r+") as file:
        del file[name]
        if options is None:
            file[name] = h5py.SoftLink("/nowhere")
        else:
            file.create_dataset(name, **options)
    assert reason in refusal(path)


def huge_npy(path):
    """A header that declares 8 TB, followed by 80 bytes."""
    np.save(path, np.zeros(10))
    path.write_bytes(path.read_bytes().replace(b"(10,), }            ", b"(1099511627776,), } "))


@pytest.mark.parametrize(
    "name, write, reason",
    [
        ("spike_times.npy", huge_npy, "damaged"),
        ("spike_times.npy", lambda path: np.save(path, np.array([{}]), allow_pickle=True), "Python objects"),
        ("spike_times.npy", lambda path: np.save(path, np.ones(5)), "in samples or clusters, not float64"),
        ("spike_clusters.npy", lambda path: np.save(path, np.ones(5, int)), "122 spikes"),
        ("spike_clusters.npy", lambda path: np.save(path, np.full(122, np.nan)), "clusters, not float64"),
        ("params.py", lambda path: path.write_text("sample_rate = 30p00.\n"), "sample_rate"),
        ("params.py", lambda path: path.write_text("import os\nsample_rate = os.environ['RATE']\n"), "sample_rate"),
        ("tracking.csv", lambda path: path.write_text("x,y\n1,2\n"), "tracking.csv: the first column must be time"),
        ("tracking.csv", lambda path: path.write_text("time,vel\n0,a\n1,b\n"), "must hold numbers"),
        ("tracking.csv", lambda path: path.write_text("time (ms),vel\n0,1\n4,1\n"), "in seconds, not 'time (ms)'"),
        ("tracking.csv", lambda path: path.write_text("0.0,0.0,1.5\n0.1,1.5,1.5\n"), "names of its columns"),
        ("tracking.csv", lambda path: path.write_text("time,vel\n0,1,5\n1,2,6\n"), "Length of header"),
        ("tracking.csv", lambda path: path.unlink() or path.symlink_to("/dev/zero"), "tracking.csv: is not a regular"),
        ("params.py", lambda path: path.unlink() or os.mkfifo(path), "params.py: is not a regular file"),
        ("cluster_group.tsv", lambda path: os.truncate(path, 2**32), "4294967296 bytes, more than"),  # sparse
        ("cluster_group.tsv", lambda path: path.write_text("5\tgood\n7\tmua\n"), "in the first line, not 5, good"),
        ("spike_times.npy", lambda path: path.unlink(), "spike_times.npy: cannot be read: No such file"),
        ("other.csv", lambda path: path.write_text("time,x\n0,1\n"), "2 tables"),
        (
            "trials.csv",
            lambda path: path.write_text("start,stop,stop,result\n0,1,R\n"),
            "two columns of one name: stop",
        ),
        ("trials.csv", lambda path: path.write_text("begin,stop\n0,1\n"), "must have a column 'start', not only begin"),
    ],
)
def test_broken_phy_folders_are_refused(name, write, reason, tmp_path):
    path = write_phy(SESSION, tmp_path)
    write(path / name)
    assert reason in refusal(path)


def test_a_table_without_trials_is_no_trials(tmp_path):
    path = write_phy(SESSION, tmp_path)
    (path / "trials.csv").write_text("start,stop,result\n")
    assert "There are no trials." in load_recording(path).notes


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"index": np.full(120, 4)}, "all of them keys: [2, 3, 8]"),
        ({"keys": np.array([2.0, 3.0, 8.0])}, "must be whole numbers"),
        ({"t": np.full(120, "0.123")}, "spike_times must hold numbers, not <U5"),
        ({"t": np.full(120, 1j)}, "spike_times must hold numbers, not complex128"),
    ],
)
def test_broken_pynapple_groups_are_refused(change, reason, tmp_path):
    path = write_pynapple(SESSION, tmp_path)
    with np.load(path / "spikes.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "_metadata"}
    np.savez(path / "spikes.npz", **arrays | change)
    assert reason in refusal(path)


def test_other_files_of_a_pynapple_folder_are_noted(tmp_path):
    path = write_pynapple(SESSION, tmp_path)
    with np.load(path / "trials.npz") as file:
        np.savez(path / "trials.npz", start=file["start"], end=file["end"])
    assert "Not read, as no Tsd, TsdFrame or IntervalSet: trials." in load_recording(path).notes


def test_params_are_not_executed(tmp_path):
    path = write_phy(SESSION, tmp_path)
    (path / "params.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nsample_rate = 3e4  # Hz\n")
    np.testing.assert_array_equal(load_recording(path).spike_times, merged(SESSION)[0])
    assert not (tmp_path / "ran").exists()


def test_other_layouts_point_to_the_converters(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    mat, h5 = tmp_path / "session.mat", tmp_path / "session.h5"
    for path in (mat, h5):
        with h5py.File(path, "w") as file:
            file["handVel"] = np.zeros((2, 9))
    for path in (folder, mat, h5, *(tmp_path / f"session{suffix}" for suffix in (".pkl", ".nev", ".plx", ".csv"))):
        path.exists() or path.write_bytes(b"anything")
        assert "CONVERTERS.md" in refusal(path)
    assert "handVel" in refusal(mat)


def test_single_pynapple_file_names_the_folder(tmp_path):
    assert "folder" in refusal(write_pynapple(SESSION, tmp_path) / "spikes.npz")


# Lecture notes


def lecture_notes(width=0.05) -> list[dict]:
    """The session's two trials: spikes with the time since the start of their bin, and 0 in bins without."""
    times, units = merged(SESSION)
    trials = []
    for i, (start, stop) in enumerate(SESSION.trials):
        n_bins = round((stop - start) / width)
        spikes: list = [[] for _ in range(n_bins)]
        inside = (times >= start) & (times < stop)
        for unit, time in zip(units[inside].tolist(), times[inside] - start, strict=True):
            b = int(bin_index(time, width))
            spikes[b].append((unit, time - b * width))
        vel = [[[i, b], [i, b + 0.5]] for b in range(n_bins)]
        trials.append({"trial_id": i, "spikes": [pairs or 0 for pairs in spikes], "vel": vel})
    return trials


def test_lecture_notes_become_the_tokens_of_chapter_10():
    notes = lecture_notes()
    recording = Recording.from_lecture_notes(notes, session_id="notes")
    np.testing.assert_allclose(np.diff(recording.trials), np.diff(SESSION.trials))
    trial, unit, since = [], [], []
    for i, (start, stop) in enumerate(recording.trials):
        inside = (recording.spike_times >= start - 1e-9) & (recording.spike_times < stop)
        trial += [i] * inside.sum()
        unit += (recording.spike_units[inside] + 1).tolist()
        since += (recording.spike_times[inside] - start).tolist()
        own = recording.behavior[:, 0] == i
        np.testing.assert_allclose(recording.behavior_times[own] - start, recording.behavior[own, 1] * 0.05, atol=1e-12)
    batch = SpikeBatch.from_events(trial, unit, since, 2, np.diff(SESSION.trials)[:, 0])
    tokens = [token for one in notes for pairs in one["spikes"] for token in pairs or [(-1, 0.0)]]
    assert batch.unit.tolist() == [unit + 1 for unit, _ in tokens]
    np.testing.assert_allclose(batch.offset, [offset for _, offset in tokens], rtol=0, atol=1e-12)


def test_lecture_notes_round_trip():
    """Notes come back as they were, and a recording but for its clock."""
    notes = lecture_notes()
    back = Recording.from_lecture_notes(notes).to_lecture_notes()
    assert [trial["trial_id"] for trial in back] == [0, 1] and [t["vel"] for t in back] == [t["vel"] for t in notes]
    for bins, returned in zip((t["spikes"] for t in notes), (t["spikes"] for t in back), strict=True):
        assert [pairs and [unit for unit, _ in pairs] for pairs in returned] == [
            pairs and [unit for unit, _ in pairs] for pairs in bins
        ]
        offsets = [[offset for pairs in side for _, offset in pairs or ()] for side in (bins, returned)]
        np.testing.assert_allclose(*offsets, rtol=0, atol=1e-12)


def test_recording_to_lecture_notes_and_back():
    """Unit names, spikes on edges, silent bins, half a bin at the end, behaviour that begins within a bin."""
    spikes, samples = [1.0, 1.15, 1.17, 5.31, 5.44], np.arange(100) * 0.0625 + 0.03
    named = {"unit_ids": ["b", "a"], "trials": [[1.0, 1.25], [5.3, 5.43]], "session_id": "named"}
    recording = Recording(spikes, [0, 1, 0, 1, 0], behavior_times=samples, behavior=samples, **named)
    notes = recording.to_lecture_notes()
    assert [len(trial["spikes"]) for trial in notes] == [5, 2]  # the last 0.03 s are not a bin
    assert notes[0]["spikes"][1:3] == [0, 0] and [unit for unit, _ in notes[0]["spikes"][3]] == ["a", "b"]
    back = Recording.from_lecture_notes(notes)
    assert back.unit_ids.tolist() == ["a", "b"] and back.spike_units.tolist() == [1, 0, 1, 0]
    np.testing.assert_allclose(back.spike_times - [0, 0, 0, 1.2], [0.0, 0.15, 0.17, 0.01], atol=1e-12)
    np.testing.assert_allclose(np.diff(back.trials), [[0.25], [0.1]])


def test_lecture_notes_refuse_a_gap():
    times = np.delete(np.arange(100) / 100, [51, 52])
    recording = Recording([0.2], [0], ["0"], times, times, trials=[[0.0, 0.3], [0.3, 0.9]])
    with pytest.raises(RecordingError, match=r"behavior_times\[51\] = 0.530000 s, trial 1"):
        recording.to_lecture_notes()


@pytest.mark.parametrize(
    "trial, reason",
    [
        ({"spikes": [[(1, 0.02)], [(1, 0.06)]], "vel": [[[0.0]]] * 2}, "0.06 s is not within"),
        ({"spikes": [0, 0], "vel": [[[0.0]]]}, "another form"),
        ({"spikes": [0]}, "another form"),
    ],
)
def test_wrong_lecture_notes_are_refused(trial, reason):
    with pytest.raises(RecordingError, match=reason):
        Recording.from_lecture_notes([trial])
