"""R² in cases that can be worked out by hand, and which samples a score is made of."""

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.training import evaluate, prepare, r2_score


@pytest.fixture
def model(small_recording):
    return POSSM(POSSMConfig(small_recording.n_units, dim=8, head_dim=8, n_freqs=4, hidden=8))


def test_a_perfect_answer_scores_one_and_the_mean_zero(rng):
    true = rng.normal(size=(50, 2)) + [3.0, -1.0]
    assert r2_score(true, true).tolist() == [1.0, 1.0]
    np.testing.assert_allclose(r2_score(true, np.broadcast_to(true.mean(0), true.shape)), 0.0, atol=1e-12)


def test_closed_cases():
    true = np.array([[0.0, 1.0], [2.0, 3.0]])  # squared deviation 2 along both axes
    decoded = np.array([[1.0, 1.0], [2.0, -1.0]])  # squared error 1 and 16
    np.testing.assert_allclose(r2_score(true, decoded), [0.5, -7.0])


def test_an_axis_that_never_changes_has_no_score(rng):
    true = np.stack([rng.normal(size=20), np.full(20, 4.0)], 1)
    score = r2_score(true, true + 0.1)
    assert np.isnan(score[1]) and 0 < score[0] < 1


def test_same_as_scikit_learn(rng):
    metrics = pytest.importorskip("sklearn.metrics")
    true, decoded = rng.normal(size=(2, 100, 2))
    np.testing.assert_allclose(r2_score(true, decoded), metrics.r2_score(true, decoded, multioutput="raw_values"))


@pytest.mark.parametrize("part", ["train", "valid", "test"])
@pytest.mark.parametrize(("split", "lag_s"), [("chronological", 0.0), ("random", 0.1)])
def test_every_sample_of_a_part_counts_once(small_recording, model, split, lag_s, part):
    session = prepare(small_recording, split, lag_s)
    decoded = evaluate(model, session, part)
    times, velocity = small_recording.behavior_times[::10], small_recording.velocity[::10]  # thinned to 100 Hz
    trials = getattr(session.split, part)
    inside = np.any([(times >= a - 1e-6) & (times < b - 1e-6) for a, b in trials], axis=0)
    np.testing.assert_allclose(decoded.times_s, times[inside], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(decoded.true, velocity[inside])
    assert decoded.decoded.shape == decoded.true.shape and np.isfinite(decoded.decoded).all()
    assert decoded.r2 == pytest.approx(np.mean(r2_score(decoded.true, decoded.decoded)))


def test_a_stretch_is_one_causal_pass(small_recording, model):
    """Each answer is that of the model to the whole stretch, so nothing is lost at the edges of trials."""
    session = prepare(small_recording)
    (start, stop), decoded = session.segments("test")[0], evaluate(model, session)
    batch = session.timeline.cut(start, stop - start)
    with torch.no_grad():
        expected = model(batch, batch.times_s, torch.tensor([1]))[0]
    np.testing.assert_array_equal(decoded.decoded, expected)
    assert not model.training
