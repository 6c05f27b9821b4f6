"""Recordings in .npz files: exact round trips, refusal of invalid files, atomic writes."""

import os
from dataclasses import fields
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from possm_lite.errors import FileFormatError, RecordingError
from possm_lite.recordings.arrays import FORMAT, read_arrays, write_arrays
from possm_lite.recordings.formats import load_recording
from possm_lite.recordings.recording import Recording


def make_recording(n_units=5, seed=0, **changes) -> Recording:
    rng = np.random.default_rng(seed)
    good = {
        "spike_times": np.sort(rng.uniform(0, 8, 160)),
        "spike_units": rng.integers(0, n_units, 160),
        "unit_ids": [f"elec{i}" for i in range(n_units)],
        "behavior_times": 3.0 + np.arange(800) / 100,
        "behavior": rng.normal(size=(800, 2)),
        "behavior_unit": "mm/s",
        "trials": [[3.0, 5.0], [5.0, 5.5], [6.0, 8.0]],
        "session_id": "Jenkins_large",
        "notes": ("Spread evenly.", "Größe: 12 µm."),
    }
    return Recording(**good | changes)


def assert_same(one: Recording, other: Recording):
    for field in fields(Recording):
        ours, theirs = (np.asarray(getattr(recording, field.name)) for recording in (one, other))
        assert ours.shape == theirs.shape and ours.tolist() == theirs.tolist(), field.name


def assert_refused(path, field="", **options):
    """Refused with a RecordingError of one line that names the file first, and the field."""
    with pytest.raises(RecordingError) as caught:
        load_recording(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and field in message, message


def test_objects_are_neither_written_nor_read(tmp_path):
    with pytest.raises(FileFormatError, match="a must hold plain numbers or text"):
        write_arrays(tmp_path / "a.npz", {"a": np.array([None])})
    assert os.listdir(tmp_path) == []
    np.savez(tmp_path / "a.npz", a=np.array([print]))
    with pytest.raises(RecordingError, match="allow_pickle"):
        read_arrays(tmp_path / "a.npz", RecordingError)


def test_a_header_that_hides_values_is_refused(tmp_path):
    """NumPy reads as much as the header of an array says, and compares no checksum before the end."""
    np.savez(tmp_path / "a.npz", a=np.arange(9000.0))
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(content.replace(b"(9000,)", b"(8000,)"))
    with np.load(tmp_path / "a.npz") as file:
        assert file["a"].shape == (8000,)
    with pytest.raises(FileFormatError, match="checksum"):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize("empty", [(), ("spike_times", "spike_units", "trials", "notes")], ids=["full", "empty"])
def test_a_recording_is_read_back_bit_for_bit(tmp_path, empty):
    recording = make_recording(**dict.fromkeys(empty, []))
    recording.save(tmp_path / "a.npz")
    assert_same(recording, load_recording(str(tmp_path / "a.npz")))
    assert os.listdir(tmp_path) == ["a.npz"]


def test_arrays_are_stored_in_the_smallest_lossless_type(tmp_path):
    velocity = np.random.default_rng(1).normal(size=(800, 2)).astype(np.float32)
    make_recording(n_units=256, behavior=velocity).save(tmp_path / "short.npz")
    short = read_arrays(tmp_path / "short.npz")
    assert short["spike_units"].dtype == np.uint8 and short["behavior"].dtype == np.float32
    assert short["behavior_clock"].tolist() == [3.0, 100.0, 800.0] and "behavior_times" not in short
    make_recording(n_units=257).save(tmp_path / "long.npz")
    long = read_arrays(tmp_path / "long.npz")
    assert long["spike_units"].dtype == np.uint16 and long["behavior"].dtype == np.float64


@pytest.mark.parametrize("rate, step", [(100, 1e-15), (100, 1.0), (100.5, 0.0)], ids=str)
def test_irregular_times_are_stored_unchanged(tmp_path, rate, step):
    times = 3.0 + np.arange(800) / rate
    times[400:] += step
    recording = make_recording(behavior_times=times, trials=[])
    recording.save(tmp_path / "a.npz")
    assert read_arrays(tmp_path / "a.npz")["behavior_times"].tobytes() == times.tobytes()
    assert_same(recording, load_recording(tmp_path / "a.npz"))


@settings(max_examples=30, deadline=None)
@given(start=st.floats(-1e4, 1e4), rate=st.integers(1, 30_000), n=st.integers(2, 400))
def test_regular_clock_is_read_back_bit_for_bit(tmp_path_factory, start, rate, n):
    times = start + np.arange(n) / rate
    recording = make_recording(behavior_times=times, behavior=np.zeros((n, 2)), trials=[])
    path = tmp_path_factory.mktemp("clock") / "a.npz"
    recording.save(path)
    assert load_recording(path).behavior_times.tobytes() == times.tobytes()


def handmade(**changes) -> dict:
    recording = make_recording()
    arrays = {n: getattr(recording, n) for n in ("spike_times", "spike_units", "behavior_times", "behavior")} | changes
    return {name: value for name, value in arrays.items() if value is not None}


def test_a_handmade_file_needs_four_arrays(tmp_path):
    np.savez(tmp_path / "tuesday.npz", **handmade(truth_lag=np.array([0.1])))
    recording = load_recording(tmp_path / "tuesday.npz")
    assert recording.unit_ids.tolist() == ["0", "1", "2", "3", "4"]
    assert (recording.session_id, recording.behavior_unit, recording.notes) == ("tuesday", "a.u.", ())
    assert recording.trials.shape == (0, 2)
    np.savez(tmp_path / "spikes.npz", **handmade(behavior_times=None, behavior=None))
    alone = load_recording(tmp_path / "spikes.npz")
    assert np.array_equal(alone.spike_times, recording.spike_times) and len(alone.behavior_times) == 0


def test_our_own_file_without_one_of_its_arrays_is_damaged(tmp_path):
    make_recording().save(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", **{k: x for k, x in read_arrays(tmp_path / "a.npz").items() if k != "trials"})
    assert_refused(tmp_path / "a.npz", "trials is not in it")


def clock(*numbers) -> dict:
    return {"behavior_times": None, "behavior_clock": list(numbers)}


BAD_HANDMADE = [  # changes, and the field that is named
    ({"behavior_times": None, "behaviour_times": np.arange(800.0)}, "behaviour_times"),
    ({"spike_times": None}, "needs spike_times"),
    ({"behavior": None}, "behavior"),
    ({"behavior_times": None}, "behavior_times"),
    ({"behavior_clock": [3.0, 100.0, 800.0]}, "behavior_clock"),
    ({"format": "possm-lite recording 9"}, FORMAT),
    ({"spike_units": np.zeros(160)}, "spike_units"),
    (clock(0.0, 100.0, 1e15), "behavior_clock"),
    (clock(0.0, -100.0, 800.0), "behavior_times[1]"),
    (clock(0.0, 100.0), ".npz"),
    ({"session_id": ["a", "b"]}, ".npz"),
]


@pytest.mark.parametrize("changes, field", BAD_HANDMADE, ids=[field for _, field in BAD_HANDMADE])
def test_an_invalid_handmade_file_is_refused(tmp_path, changes, field):
    np.savez(tmp_path / "a.npz", **handmade(**changes))
    assert_refused(tmp_path / "a.npz", field)


def test_paths_that_cannot_be_read_are_refused(tmp_path):
    for name, content, reason in (("a.csv", "time", ".csv"), ("empty.npz", "", ".npz"), ("text.npz", "text", ".npz")):
        (tmp_path / name).write_text(content)
        assert_refused(tmp_path / name, reason)
    assert_refused(tmp_path / "missing.nwb", "No such file")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("fails", [(os, "replace"), (np, "savez_compressed")], ids=lambda fails: fails[1])
def test_a_failed_write_leaves_the_old_file(tmp_path, fails, error):
    path = tmp_path / "a.npz"
    make_recording().save(path)
    before = path.read_bytes()
    with mock.patch.object(*fails, side_effect=error), pytest.raises((KeyboardInterrupt, RecordingError)):
        make_recording(seed=1).save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.npz"]
