"""In the timed session counts decode nothing, and times against the reference units decode velocity."""

import numpy as np
import pytest

from possm_lite.course.load import load_figures
from possm_lite.training.evaluate import evaluate, mean_r2
from possm_lite.training.linear import fit_wiener
from possm_lite.training.session import prepare

from ..exercises.helpers import NOTEBOOKS

simulate_timed_session = load_figures("13_timed_session", NOTEBOOKS).simulate_timed_session


@pytest.fixture(scope="module")
def recording():
    return simulate_timed_session()


def test_counts_decode_nothing(recording):
    session = prepare(recording, "chronological:60/10/30")
    assert abs(evaluate(fit_wiener(session), session).r2) < 0.1


def test_phases_against_the_reference_decode_velocity(recording, start_s=0.017, width_s=0.05, period_s=0.04):
    """Ridge regression on z_u conj(z_reference) of single bins."""
    n_bins = int((recording.behavior_times[-1] - start_s) / width_s)
    bins = np.floor((recording.spike_times - start_s) / width_s).astype(int)
    inside = (bins >= 0) & (bins < n_bins)
    z = np.zeros((n_bins, recording.n_units), complex)
    phase = np.exp(2j * np.pi / period_s * recording.spike_times)
    np.add.at(z, (bins[inside], recording.spike_units[inside]), phase[inside])
    is_reference = np.char.startswith(recording.unit_ids, "reference")
    product = z[:, ~is_reference] * z[:, is_reference].sum(1, keepdims=True).conj()
    x = np.column_stack([product.real, product.imag, np.ones(n_bins)])
    middle = np.searchsorted(recording.behavior_times, start_s + (np.arange(n_bins) + 0.5) * width_s)
    v, train = recording.behavior[middle], np.arange(n_bins) < 0.7 * n_bins
    solution = np.linalg.solve(x[train].T @ x[train] + 100 * np.eye(x.shape[1]), x[train].T @ v[train])
    assert mean_r2(v[~train], x[~train] @ solution) > 0.45


def test_rates_are_those_of_the_configuration(recording):
    seconds = recording.behavior_times[-1]
    rates = np.bincount(recording.spike_units, minlength=recording.n_units) / seconds
    np.testing.assert_allclose(rates, 0.6 / 0.05, rtol=0.1)
    again = simulate_timed_session()
    np.testing.assert_array_equal(recording.spike_times, again.spike_times)
    assert not np.array_equal(recording.spike_times[:100], simulate_timed_session(1).spike_times[:100])
