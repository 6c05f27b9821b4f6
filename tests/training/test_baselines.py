"""The closed-form baselines, fitted to a session."""

import numpy as np

from possm_lite.training import evaluate, prepare
from possm_lite.training.baselines import binned, fit_kalman, fit_wiener


def test_both_filters_decode_better_than_the_mean(small_recording):
    session = prepare(small_recording)
    for fitted in (fit_wiener, fit_kalman):
        assert evaluate(fitted(session), session, "train").r2 > 0.1, fitted.__name__


def test_binned_counts_and_velocity_are_those_of_the_part(small_recording):
    session = prepare(small_recording)
    counts, velocity = binned(session, "train")
    (start, stop), r = session.segments("train")[0], small_recording
    n_bins = int((stop - start) / 0.05 + 1e-6)
    inside = (r.spike_times >= start) & (r.spike_times < start + n_bins * 0.05)
    assert round(float((counts[0].astype(float) ** 2).sum())) == inside.sum()
    assert counts[0].shape[0] == velocity[0].shape[0] == n_bins
    seen = np.concatenate([v.reshape(-1, 2) for v in velocity])
    np.testing.assert_allclose(np.nanmean(seen, 0), 0, atol=0.05)  # standardised by this very part
    np.testing.assert_allclose(np.nanstd(seen, 0), 1, atol=0.05)
