"""One recording in every layout that is read or converted by CONVERTERS.md is read to the same arrays."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from possm_lite.recordings import RecordingError, load_recording

h5py = pytest.importorskip("h5py")
pytest.importorskip("pynwb")

from . import layouts  # noqa: E402
from .layout_files import LAYOUTS  # noqa: E402


@pytest.mark.parametrize("title", LAYOUTS)
def test_layout_is_read_to_the_recording(title, tmp_path, small_recording):
    layout = LAYOUTS[title](tmp_path, small_recording)
    recording, expected = layouts.read(title, layout, tmp_path), layout.expected
    np.testing.assert_allclose(recording.spike_times, expected.spike_times, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(recording.spike_units, expected.spike_units)
    np.testing.assert_allclose(recording.trials, expected.trials, rtol=0, atol=2e-6)  # pynapple cuts 1 µs
    np.testing.assert_allclose(recording.behavior_times, expected.behavior_times, rtol=0, atol=1e-9)
    is_derived = any("derivative of the position" in note for note in recording.notes)
    tolerance = 0.04 * expected.behavior.std() if is_derived else 1e-9
    assert np.sqrt(((recording.behavior - expected.behavior) ** 2).mean(axis=0)).max() < tolerance
    for name in ("unit_ids", "behavior_columns"):
        assert getattr(recording, name).tolist() == getattr(expected, name).tolist()
    assert recording.behavior_unit == expected.behavior_unit
    if layout.path is None:  # the example of the page saves what it has made
        paths = [path for path in tmp_path.glob("*.npz") if path.stem not in ("arrays", "two_blocks")]
        assert recording.spike_times.tolist() in [load_recording(path).spike_times.tolist() for path in paths]


def test_both_blocks_of_a_clock_are_saved(tmp_path, small_recording):
    title = "Two blocks whose clocks restart"
    layouts.convert(title, tmp_path, layouts.two_blocks(tmp_path, small_recording).objects)
    blocks = [load_recording(tmp_path / f"block_{i}.npz") for i in (1, 2)]
    assert sum(len(block.spike_times) for block in blocks) == len(small_recording.spike_times)
    assert sum(len(block.behavior) for block in blocks) == len(small_recording.behavior[::10])


def test_every_example_of_the_page_has_a_layout():
    assert [title for title, code in layouts.examples().items() if title and code] == list(layouts.WRITERS)


PROGRAMS = {  # series, its unit, a filter of units and the places of those that it leaves, a filter of trials, a note
    "indy": ("cursor_pos", "mm", "area == 'M1' and unit == 0", [0, 2, 4, 6], "", "8 of 12 units are unsorted"),
    "phy": ("cursor_pos", "a.u.", "group == 'good'", [0], "result == 'R'", "; 1 labelled noise was left out."),
    "pynapple": ("cursor_pos", "a.u.", "id != '2'", list(range(1, 12)), "duration > 1.5", "units were chosen"),
    "brainsets": ("cursor/pos", "a.u.", "area == 'M1'", [0, 1, 3, 5, 7, 9, 11], "result == 'R' and is_valid", "gaze"),
}


@pytest.mark.parametrize("title", PROGRAMS)
def test_position_itself_and_filters(title, tmp_path, small_recording):
    name, unit, units, kept, trials, note = PROGRAMS[title]
    layout = LAYOUTS[title](tmp_path, small_recording)
    r = layout.expected
    recording = load_recording(layout.path, f"{name}:raw", units=units, trials=trials)
    position = layouts.position_of(layouts.sampled(small_recording, 4))
    np.testing.assert_allclose(recording.behavior, position, rtol=1e-14)  # pandas 2 reads text not to the last digits
    assert recording.behavior_unit == unit and note in " ".join(recording.notes)
    assert recording.unit_ids.tolist() == r.unit_ids[kept].tolist()
    is_kept = np.isin(r.spike_units, kept)
    np.testing.assert_array_equal(recording.spike_times, r.spike_times[is_kept])
    np.testing.assert_array_equal(r.unit_ids[kept][recording.spike_units], r.unit_ids[r.spike_units[is_kept]])
    chosen = np.diff(r.trials)[:, 0] > 1.5 if title == "pynapple" else np.arange(len(r.trials)) % 2 == 0
    np.testing.assert_allclose(recording.trials, r.trials[chosen], rtol=4e-15)


def test_other_series_of_the_layouts(tmp_path, small_recording):
    times = layouts.sampled(small_recording, 4).behavior_times
    indy, brainsets, pynapple = (LAYOUTS[t](tmp_path, small_recording).path for t in ("indy", "brainsets", "pynapple"))
    finger, cursor = (load_recording(indy, f"{name}_pos:raw") for name in ("finger", "cursor"))
    assert finger.behavior_unit == "cm" and finger.behavior_columns.tolist() == ["x", "y", "z"]
    np.testing.assert_allclose(finger.behavior[:, :2], cursor.behavior / 10, rtol=1e-12)  # the file has z, -x, -y
    np.testing.assert_array_equal(finger.behavior[:, 2], 1)
    gaze = load_recording(brainsets, "gaze/angle")  # has a rate in place of times
    np.testing.assert_allclose(gaze.behavior_times, times[::2], atol=1e-9)
    np.testing.assert_array_equal(gaze.behavior[:, 0], times[::2])
    np.testing.assert_array_equal(load_recording(pynapple, "speed").behavior, times[:, None])
    with pytest.raises(
        RecordingError,
        match=r"file has cursor/acc .*, cursor/pos .*, gaze/angle \([\d,]+ samples\)\. Trials have is_valid, result\.$",
    ):
        load_recording(brainsets, "unknown")


def test_params_of_phy_are_not_executed(tmp_path, small_recording):
    path = LAYOUTS["phy"](tmp_path, small_recording).path
    for file in (path / "tracking.csv", *path.glob("*.tsv")):
        file.unlink()
    (path / "params.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nsample_rate = 2e4  # Hz\n")
    recording = load_recording(path, spikes_only=True)
    assert not (tmp_path / "ran").exists()
    np.testing.assert_allclose(recording.spike_times[-1], 1.5 * small_recording.spike_times[-1], atol=1e-3)  # of 30 kHz
    assert recording.n_units == small_recording.n_units + 1  # with the noise


# Files that are refused: the message names the file, the format and the cause


def refusal(path) -> str:
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < 900 + len(str(path))
    return message.removeprefix(f"{path}: ")


BROKEN = {  # a layout, a mutation, and what is named
    "samples that are not whole": ("phy", lambda path: np.save(path / "spike_times.npy", np.full(5, 1.5)), "whole"),
    "a rate to be computed": ("phy", lambda path: (path / "params.py").write_text("sample_rate = f()"), "params.py"),
    "milliseconds": ("phy", lambda path: (path / "tracking.csv").write_text("time (ms),vel\n0,1\n4,1\n"), "(ms)"),
    "a long row": ("phy", lambda path: (path / "tracking.csv").write_text("time,x\n0,1,5\n1,2,6\n"), "tracking.csv"),
    "two tables": ("phy", lambda path: (path / "other.csv").write_text("time,x\n0,1\n"), "2 tables"),
}


@pytest.mark.parametrize("title, mutate, named", BROKEN.values(), ids=BROKEN.keys())
def test_broken_recordings_are_refused(title, mutate, named, tmp_path, small_recording):
    path = LAYOUTS[title](tmp_path, small_recording).path
    mutate(path)
    assert named in refusal(path)


def test_other_layouts_point_to_the_converters(tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("session.mat", "session.h5", "session.nwb"):
        with h5py.File(tmp_path / name, "w", userblock_size=512) as file:
            file["handVel"] = np.zeros((2, 9))
    for suffix in (".pkl", ".nev", ".csv"):
        (tmp_path / f"session{suffix}").write_bytes(b"anything")
    for path in tmp_path.iterdir():
        assert "CONVERTERS.md" in refusal(path)


def test_a_file_of_a_sorter_points_to_its_folder(tmp_path, small_recording):
    path = LAYOUTS["phy"](tmp_path, small_recording).path
    for name in ("spike_times.npy", "params.py"):
        assert refusal(path / name) == "is one file of a folder of phy or Kilosort: name the folder."
    (tmp_path / "a.nev").write_bytes(b"anything")
    guide = re.search(r"from others: (\S+CONVERTERS\.md)", refusal(tmp_path / "a.nev"))[1]
    assert Path(guide).is_file()


def test_missing_packages_are_named(tmp_path, small_recording, monkeypatch):
    for title, module in (("indy", "h5py"), ("phy", "pandas"), ("NWB: acquisition", "h5py")):
        path = LAYOUTS[title](tmp_path, small_recording).path
        with monkeypatch.context() as context:
            context.setitem(sys.modules, module, None)
            assert f"needs {module}: pip install {module}" in refusal(path)
