"""Training learns, repeats bit for bit, and ignores masked samples."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from possm_lite.decoder.baselines import BinnedGRU
from possm_lite.spikes import Recording, Timeline
from possm_lite.training import evaluate, fit, prepare
from possm_lite.training.windows import WindowSampler

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


def test_validation_is_measured_ten_times_and_last(small_recording):
    session = prepare(small_recording)
    model, history = fitted(session, replace(QUICK, epochs=21))
    assert list(history.valid_r2) == [*range(2, 21, 2), 21]
    assert history.valid_r2[21] == pytest.approx(evaluate(model, session, "valid").r2)
    np.testing.assert_allclose(model.behavior_mean[1], session.mean, rtol=1e-6)
    np.testing.assert_allclose(model.behavior_std[1], session.std, rtol=1e-6)


def test_validation_changes_no_weight(small_recording):
    session = prepare(small_recording)
    scored, unscored = fitted(session), fitted(session, replace(QUICK, validations=0))
    assert scored[1].valid_r2 and not unscored[1].valid_r2
    assert same_weights(scored[0], unscored[0])


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


def test_window_is_shortened_to_fit_trials(small_recording):
    """Separate trials cannot be joined, so windows are at most as long as most of them."""
    start = small_recording.trials[:, 0]
    apart = replace(small_recording, trials=np.stack([start, start + np.linspace(0.5, 0.9, len(start))], 1))
    session = prepare(apart)
    sampler = WindowSampler(session, QUICK)
    lengths = np.diff(session.segments("train"), axis=1)
    assert lengths.min() <= sampler.window_s < lengths.max() and sampler.window_s < QUICK.window_s
    assert int(sampler(4).n_bins.max()) == int(np.ceil(sampler.window_s / 0.05))
    assert WindowSampler(prepare(small_recording), QUICK).window_s == QUICK.window_s


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
