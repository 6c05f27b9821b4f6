"""Recordings in MATLAB files with spike counts in bins."""

import numpy as np
import pytest
import scipy.io

from possm_lite.errors import RecordingError
from possm_lite.recordings.formats import load_recording


def layout(n_units=4, n_bins=300, width=0.05, seed=0, **changes) -> dict:
    """The variables of a good file, with `changes`; None leaves one out."""
    rng = np.random.default_rng(seed)
    good = {
        "time": (12.591 + width * np.arange(n_bins))[None],
        "spikes": rng.poisson(0.8, (n_units, n_bins)).astype(float),
        "handVel": rng.normal(size=(3, n_bins)),
        "handPos": rng.normal(size=(3, n_bins)),
        "note": "not read",
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


def counts_in_bins(recording, starts, width) -> np.ndarray:
    """Spikes of each unit in each bin, (units, bins)."""
    edges = [np.arange(recording.n_units + 1) - 0.5, np.append(starts, starts[-1] + width)]
    return np.histogram2d(recording.spike_units, recording.spike_times, edges)[0]


def test_single_row_of_velocity_is_said(tmp_path):
    scipy.io.savemat(tmp_path / "one.mat", layout(handVel=np.random.default_rng(1).normal(size=(1, 300))))
    recording = load_recording(tmp_path / "one.mat")
    assert recording.behavior.shape == (300, 1)
    assert "handVel has one row, so one movement, x, is decoded." in recording.notes


@pytest.mark.parametrize("options", [{"do_compression": True}, {"do_compression": False}, {"format": "4"}])
def test_spikes_per_bin_equal_the_counts(tmp_path, options):
    variables = layout()
    scipy.io.savemat(tmp_path / "monday.mat", variables, **options)
    recording = load_recording(tmp_path / "monday.mat")
    np.testing.assert_array_equal(counts_in_bins(recording, recording.behavior_times, 0.05), variables["spikes"])
    np.testing.assert_array_equal(recording.behavior_times, 12.591 + np.arange(300) / 20)
    np.testing.assert_array_equal(recording.behavior, variables["handVel"].T)
    assert (recording.session_id, recording.behavior_unit, recording.n_units) == ("monday", "m/s", 4)
    assert recording.unit_ids.tolist() == ["0", "1", "2", "3"] and recording.trials.shape == (0, 2)
    assert recording.notes == ("Spikes came as counts in bins of 50 ms: those of a bin are spread evenly over it.",)


def test_gap_between_bins_is_kept(tmp_path):
    variables = layout(time=layout()["time"] + 0.2 * (np.arange(300) >= 100))
    scipy.io.savemat(tmp_path / "a.mat", variables)
    recording = load_recording(tmp_path / "a.mat")
    np.testing.assert_allclose(recording.behavior_times, variables["time"][0])
    np.testing.assert_array_equal(counts_in_bins(recording, recording.behavior_times, 0.05), variables["spikes"])


def test_rounded_starts_are_put_on_a_regular_clock(tmp_path):
    """Starts half-way between two milliseconds are rounded up or down as it happens: up to 2 % of a bin apart."""
    exact = layout(n_bins=2000)["time"] + 0.0005
    rounded = np.round(exact + np.random.default_rng(1).normal(scale=1e-6, size=exact.shape), 3)
    assert np.unique(np.round(np.diff(rounded), 6)).tolist() == [0.049, 0.05, 0.051]
    scipy.io.savemat(tmp_path / "a.mat", layout(n_bins=2000, time=rounded))
    recording = load_recording(tmp_path / "a.mat")
    np.testing.assert_allclose(np.diff(recording.behavior_times), 0.05, atol=1e-9)
    assert recording.behavior_times[0] == rounded[0, 0]
    assert recording.notes[0] == "Bin starts up to 1 ms off were put on a regular clock of 50 ms."


def test_row_that_never_changes_is_left_out(tmp_path):
    velocity = layout()["handVel"] * [[1], [0], [1]]
    scipy.io.savemat(tmp_path / "a.mat", layout(handVel=velocity))
    recording = load_recording(tmp_path / "a.mat")
    np.testing.assert_array_equal(recording.behavior, velocity[[0, 2]].T)
    assert "Rows [1] of handVel never change and were left out." in recording.notes


def changed(name, index, value):
    array = layout()[name].copy()
    array[index] = value
    return {name: array}


BAD = {  # changes, and what is named
    "a NaN time": (changed("time", (0, 7), np.nan), "time has no value (NaN) in 1 of 300 bins, first in bin 8: delete"),
    "bins that overlap": (changed("time", (0, 7), 12.9), "bin_starts"),
    "a NaN velocity": (
        changed("handVel", (1, 5), np.nan),
        "handVel has no value (NaN) in 1 of 300 bins, first in bin 6: delete",
    ),
    "no spikes": ({"spikes": None}, "has no spikes, only time (double), handVel (double)"),
    "spikes of other bins": (
        {"spikes": np.zeros((301, 4))},
        "spikes has 4 columns, time has 300 bins: both must have one",
    ),
    "spikes in three dimensions": ({"spikes": np.zeros((4, 3, 100))}, "(units x bins)"),
    "smoothed": ({"spikes": np.full((4, 300), 0.4)}, "(smoothed rates are not read, save the counts): spikes[0, 0]"),
    "rates": ({"spikes": 20 * layout()["spikes"]}, "spikes are all multiples of 20"),
    "spikes as text": ({"spikes": "many"}, "spikes"),
    "complex velocity": ({"handVel": np.full((2, 300), 1j)}, "handVel"),
}


@pytest.mark.parametrize("changes, named", BAD.values(), ids=BAD.keys())
def test_invalid_file_is_refused(tmp_path, changes, named):
    scipy.io.savemat(tmp_path / "a.mat", layout(**changes))
    with pytest.raises(RecordingError) as caught:
        load_recording(tmp_path / "a.mat")
    assert named in str(caught.value) and "\n" not in str(caught.value)
