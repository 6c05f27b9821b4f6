"""Broken files of all three kinds: read rightly, or refused with a RecordingError of one line, and soon."""

import time
from dataclasses import fields

import numpy as np
import pytest
import scipy.io

from possm_lite.errors import RecordingError
from possm_lite.spikes import io as files
from possm_lite.spikes import npz_format
from possm_lite.spikes.io import load_recording
from possm_lite.spikes.io import subprocess_reader as apart
from possm_lite.spikes.recording import Recording


def good_npz(path):
    rng = np.random.default_rng(0)
    Recording(
        spike_times=np.sort(rng.uniform(0, 8, 160)),
        spike_units=rng.integers(0, 5, 160),
        unit_ids=[f"elec{i}" for i in range(5)],
        behavior_times=3.0 + np.arange(800) / 100,
        velocity=rng.normal(size=(800, 2)),
        velocity_unit="mm/s",
        trials=[[3.0, 5.0], [6.0, 8.0]],
        session_id="Jenkins_large",
        notes=("Größe: 12 µm.",),
    ).save(path)


def good_mat(path, compressed=True):
    rng = np.random.default_rng(0)
    layout = {
        "time": 0.05 * np.arange(200)[None],
        "spikes": rng.poisson(1.0, (6, 200)).astype(float),
        "handVel": rng.normal(size=(2, 200)),
    }
    scipy.io.savemat(path, layout, do_compression=compressed)


def good_nwb(path):
    pynwb = pytest.importorskip("pynwb")
    from datetime import datetime, timezone

    file = pynwb.NWBFile("reaches", "id-1", datetime(2020, 1, 1, tzinfo=timezone.utc), session_id="s1")
    for unit in range(3):
        file.add_unit(spike_times=np.linspace(unit, 9.0, 40))
    behavior = file.create_processing_module("behavior", "hand")
    velocity = np.random.default_rng(0).normal(size=(1000, 2))
    behavior.add(pynwb.TimeSeries(name="hand_vel", data=velocity, unit="m/s", rate=100.0, starting_time=0.0))
    file.add_trial(start_time=1.0, stop_time=2.0)
    with pynwb.NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def broken_variants(good: bytes, n_cuts: int, n_flips: int):
    """Cuts at places from the first byte to the last but one, and one bit of one byte flipped at places all over."""
    for cut in np.unique(np.linspace(1, len(good) - 1, n_cuts).astype(int)):
        yield f"cut at {cut}", good[:cut]
    rng = np.random.default_rng(7)
    for place in np.linspace(0, len(good) - 1, n_flips).astype(int):
        flipped = bytearray(good)
        flipped[place] ^= 1 << rng.integers(8)
        yield f"byte {place} flipped", bytes(flipped)


def assert_same(one: Recording, other: Recording):
    for field in fields(Recording):
        ours, theirs = (np.asarray(getattr(recording, field.name)) for recording in (one, other))
        assert ours.shape == theirs.shape and ours.tolist() == theirs.tolist(), field.name


def read_here(path, behavior):
    return npz_format.to_arrays(vars(apart.read_in_process(path, behavior)))


def check_broken(path, good: Recording, variants, keeps_checksums=True) -> int:
    """Each variant is read rightly or refused, in one line and soon. Returns how many were refused."""
    refused = 0
    for what, content in variants:
        path.write_bytes(content)
        begun = time.perf_counter()
        try:
            recording = load_recording(path)
        except RecordingError as trouble:
            refused += 1
            assert str(trouble).startswith(f"{path}: ") and "\n" not in str(trouble), what
            assert len(str(trouble)) < len(str(path)) + 500, what
        else:
            assert not what.startswith("cut"), what
            if keeps_checksums:
                assert_same(recording, good)
        assert time.perf_counter() - begun < 30, what
    return refused


@pytest.mark.parametrize(
    "suffix, write, n_flips", [(".npz", good_npz, 60), (".mat", good_mat, 60), (".nwb", good_nwb, 0)]
)
def test_a_broken_file_is_read_rightly_or_refused(tmp_path, monkeypatch, suffix, write, n_flips):
    """What ends in a crash is not among these, so they can be read in this process, which is sooner done."""
    monkeypatch.setattr(files, "read_in_subprocess", read_here)
    path = tmp_path / f"good{suffix}"
    write(path)
    good, whole = load_recording(path), path.read_bytes()
    assert check_broken(path, good, broken_variants(whole, n_cuts=12, n_flips=n_flips)) >= 12


def test_a_byte_that_crashes_the_reader_of_matlab_files_is_a_recording_error(tmp_path):
    path = tmp_path / "good.mat"
    good_mat(path, compressed=False)
    good, whole = load_recording(path), path.read_bytes()
    crashes = [(f"byte {k}", whole[:k] + bytes([value]) + whole[k + 1 :]) for k, value in ((176, 135), (1840, 94))]
    assert check_broken(path, good, crashes, keeps_checksums=False) >= 1  # each version has its own


def test_a_flipped_bit_in_an_nwb_file_gives_a_recording_or_a_recording_error(tmp_path):
    """HDF5 keeps no checksum of numbers: a flipped one is another number, and nobody can tell."""
    path = tmp_path / "good.nwb"
    good_nwb(path)
    good, whole = load_recording(path), path.read_bytes()
    places = [0, 9, 60, 300, 900, len(whole) - 100]
    flips = [(f"byte {k}", whole[:k] + bytes([whole[k] ^ 0x15]) + whole[k + 1 :]) for k in places]
    assert check_broken(path, good, flips, keeps_checksums=False) >= 1


# The other process


def test_matlab_and_nwb_files_are_read_as_they_are_here(tmp_path):
    for path, write in ((tmp_path / "a.mat", good_mat), (tmp_path / "a.nwb", good_nwb)):
        write(path)
        assert_same(load_recording(path), apart.read_in_process(path, None))


@pytest.mark.parametrize(
    "program, error, says",
    [
        ("import os; os.abort()", RecordingError, "its reader crashed on it, with exit status"),
        ("import time; time.sleep(60)", RecordingError, "did not finish in 1 s"),
        ("raise TypeError('a fault of ours')", RuntimeError, "a fault of ours"),
    ],
)
def test_a_crash_and_an_endless_reader_are_the_files_fault_but_an_exception_is_ours(
    tmp_path, monkeypatch, program, error, says
):
    good_mat(tmp_path / "a.mat")
    monkeypatch.setattr(apart, "_PROGRAM", program)
    monkeypatch.setattr(apart, "_MAX_SECONDS", 1)
    with pytest.raises(error, match=says):
        load_recording(tmp_path / "a.mat")
