"""Training learns, repeats bit for bit, and ignores masked samples."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from possm_lite.decoder.baselines import BinnedGRU
from possm_lite.spikes import Recording, Timeline
from possm_lite.training import FitConfig, evaluate, fit, prepare

from .helpers import QUICK, same_weights, small_possm


def fitted(session, config=QUICK):
    model = small_possm(session)
    history = fit(model, session, config, progress=False)
    return model, history


def easy_recording(rng) -> Recording:
    """Twenty seconds of four units with 60 spikes/s, each for one sign of the velocity along x or y."""
    times = np.arange(2000) / 100
    signs = rng.choice([-1.0, 1.0], (25, 2))[(times / 0.8).astype(int)]
    active = np.stack([signs[:, 0] > 0, signs[:, 0] < 0, signs[:, 1] > 0, signs[:, 1] < 0], 1)
    sample, unit = np.nonzero(active & (rng.random(active.shape) < 0.6))
    unit_ids = ["right", "left", "up", "down"]
    return Recording(times[sample], unit, unit_ids, times, 100.0 * signs, "mm/s", np.zeros((0, 2)), "easy")


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"samples": 0}, {"window_s": 2000}, {"lr": -1}, {"unit_dropout": 2}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must lie in"):
        FitConfig(**wrong)


def test_fit_learns_a_small_session(rng):
    session = prepare(easy_recording(rng))
    config = replace(QUICK, epochs=30, lr=1e-2, unit_dropout=0.0)
    model, history = fitted(session, config)
    assert len(history.loss) == 30 and np.isfinite(history.loss).all() and history.seconds > 0
    assert np.mean(history.loss[-3:]) < 0.3 * np.mean(history.loss[:3])
    untrained = small_possm(session)
    untrained.behavior_mean[1], untrained.behavior_std[1] = (torch.from_numpy(x) for x in (session.mean, session.std))
    for part in ("train", "test"):
        assert evaluate(model, session, part).r2 > max(evaluate(untrained, session, part).r2, 0.0) + 0.4
    assert not model.training


def test_validation_is_measured_and_changes_no_weight(small_recording):
    session, config = prepare(small_recording), replace(QUICK, epochs=21)
    model, history = fitted(session, config)
    assert list(history.valid_r2) == [*range(2, 21, 2), 21]
    assert history.valid_r2[21] == pytest.approx(evaluate(model, session, "valid").r2)
    np.testing.assert_allclose(model.behavior_mean[1], session.mean, rtol=1e-6)
    np.testing.assert_allclose(model.behavior_std[1], session.std, rtol=1e-6)
    unscored, history = fitted(session, replace(config, validations=0))
    assert same_weights(model, unscored) and not history.valid_r2


@pytest.mark.parametrize("kind", ["possm", "gru"])
def test_same_seed_gives_the_same_weights(small_recording, kind):
    session = prepare(small_recording)

    def train(seed):
        torch.manual_seed(0)
        n_units = session.recording.n_units
        model = small_possm(session) if kind == "possm" else BinnedGRU(n_units, n_slots=5, hidden=16)
        fit(model, session, replace(QUICK, seed=seed), progress=False)
        return model

    first = train(0)
    assert same_weights(first, train(0))
    assert not same_weights(first, train(1))


@pytest.mark.parametrize("garbage", [1e30, float("nan")])
def test_masked_samples_do_not_count(small_recording, garbage):
    """Behaviour with gaps leaves masked samples in the windows; their velocity has no effect."""
    cut_up = np.floor(small_recording.behavior_times / 0.4) % 2 == 0
    with_gaps = replace(
        small_recording,
        trials=np.zeros((0, 2)),
        behavior_times=small_recording.behavior_times[cut_up],
        behavior=small_recording.behavior[cut_up],
    )
    n_masked = []

    class CorruptedTimeline(Timeline):
        def cut(self, *args):
            batch = super().cut(*args)
            n_masked.append(int((~batch.mask).sum()))
            return replace(batch, behavior=batch.behavior.masked_fill(~batch.mask[..., None], garbage))

    clean = prepare(with_gaps)
    config = replace(QUICK, window_s=0.7)  # windows do not hold the same number of samples
    corrupted = replace(clean, timeline=CorruptedTimeline(with_gaps))
    (one, first), (other, second) = fitted(clean, config), fitted(corrupted, config)
    assert sum(n_masked) > 0
    assert same_weights(one, other) and first.loss == second.loss
    assert all(torch.isfinite(p).all() for p in one.parameters())
