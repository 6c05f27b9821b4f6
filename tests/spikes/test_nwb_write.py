"""NWB files: exact round trips and atomic writes."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.spikes import RecordingError, load_recording
from possm_lite.spikes.io.nwb_write import write_nwb

pytest.importorskip("pynwb")


def assert_same(back, recording):
    for name in ("spike_times", "spike_units", "behavior_times", "velocity", "trials"):
        np.testing.assert_array_equal(getattr(back, name), getattr(recording, name))
    assert (back.session_id, back.velocity_unit) == (recording.session_id, recording.velocity_unit)


def test_a_simulated_session_is_read_back(small_recording, tmp_path):
    write_nwb(small_recording, tmp_path / "a.nwb")
    back = load_recording(tmp_path / "a.nwb")
    assert_same(back, small_recording)
    assert back.unit_ids.tolist() == [str(i) for i in range(12)]  # "sim000" is not a number
    assert back.notes == ("Velocity is processing/behavior/hand_vel.",)


def test_unit_names_and_notes_are_in_the_file(small_recording, tmp_path):
    from pynwb import NWBHDF5IO

    write_nwb(small_recording, tmp_path / "a.nwb")
    with NWBHDF5IO(str(tmp_path / "a.nwb"), "r") as io:
        file = io.read()
        assert list(file.units["unit_name"].data) == small_recording.unit_ids.tolist()
        assert file.notes == "\n".join(small_recording.notes)
        np.testing.assert_allclose(file.units["obs_intervals"][0], [small_recording.span])


def test_numbered_and_silent_units_and_gaps_are_read_back(small_recording, tmp_path):
    kept = ~np.isin(small_recording.spike_units, [3, 11])  # one in the middle and the last
    seen = np.abs(small_recording.behavior_times - 8) > 1
    recording = replace(
        small_recording,
        spike_times=small_recording.spike_times[kept],
        spike_units=small_recording.spike_units[kept],
        unit_ids=[str(100 - i) for i in range(12)],
        behavior_times=small_recording.behavior_times[seen],
        velocity=small_recording.velocity[seen],
        trials=[],
        velocity_unit="cm/s",
    )
    write_nwb(recording, tmp_path / "a.nwb", series="cursor_vel")
    back = load_recording(tmp_path / "a.nwb")
    assert_same(back, recording)
    assert back.unit_ids.tolist() == recording.unit_ids.tolist()
    assert back.notes == (
        "Velocity is processing/behavior/cursor_vel.",
        "There are no trials in intervals/trials.",
    )


def test_a_failed_write_leaves_the_old_file(small_recording, tmp_path, monkeypatch):
    write_nwb(small_recording, tmp_path / "a.nwb")
    before = (tmp_path / "a.nwb").read_bytes()

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(RecordingError, match=r"a\.nwb: could not be written: No space left on device"):
        write_nwb(small_recording, tmp_path / "a.nwb")
    assert [path.name for path in tmp_path.iterdir()] == ["a.nwb"]
    assert (tmp_path / "a.nwb").read_bytes() == before


def test_invalid_output_paths_are_refused(small_recording, tmp_path):
    with pytest.raises(RecordingError, match=r"'\.npz'; this writes \.nwb"):
        write_nwb(small_recording, tmp_path / "a.npz")
    with pytest.raises(RecordingError, match="could not be written"):
        write_nwb(small_recording, tmp_path / "nowhere" / "a.nwb")
    assert list(tmp_path.iterdir()) == []


def test_without_pynwb_the_error_names_the_extra(small_recording, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynwb", None)
    with pytest.raises(RecordingError, match=r"pip install possm-lite\[recordings\]"):
        write_nwb(small_recording, tmp_path / "a.nwb")
