"""Training follows its formulas, repeats bit for bit, and ignores masked samples."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from possm_lite.recordings import Timeline
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.windows import WindowSampler

from .helpers import QUICK, same_weights, small_possm


def fitted(session, config=QUICK):
    model = small_possm(session)
    history = fit(model, session, config, progress=False)
    return model, history


def test_fit_equals_the_formulas_of_adamw(small_recording):
    """Steps by hand: loss, gradients clipped to norm 1, warm-up over two steps, half a cosine, decay."""
    session = prepare(small_recording)
    config = FitConfig(epochs=7, window_s=1.0, batch=5, samples=7, lr=0.05, weight_decay=2.0, validations=0)
    model = small_possm(session).double()
    expected = copy.deepcopy(model)
    history = fit(model, session, config, progress=False)

    sampler = WindowSampler(session, config)
    n_steps = config.epochs * round(sampler.n_windows / config.batch)
    warm_up = n_steps // 10
    assert n_steps == 21 and warm_up == 2
    mean, std = torch.from_numpy(session.mean), torch.from_numpy(session.std)
    expected.behavior_mean[1], expected.behavior_std[1] = mean, std
    parameters = list(expected.parameters())
    first = [torch.zeros_like(p) for p in parameters]
    second = [torch.zeros_like(p) for p in parameters]
    norms, losses = [], []
    for i in range(n_steps):
        batch = sampler(config.batch)
        decoded = expected(batch, batch.times_s, torch.ones(config.batch, dtype=torch.int64))
        squares = ((decoded - batch.behavior) / std) ** 2  # (B, Q, C)
        loss = sum(squares[b, q].sum() for b, q in batch.mask.nonzero()) / (2 * batch.mask.sum())
        gradients = torch.autograd.grad(loss, parameters)
        losses.append(loss.item())
        norms.append(torch.cat([g.flatten() for g in gradients]).norm())
        cosine = (1 + np.cos(np.pi * (i - warm_up) / (n_steps - warm_up))) / 2
        rate = config.lr * ((i + 1) / warm_up if i < warm_up else cosine)
        for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
            g = g * min(1.0, 1 / (norms[-1] + 1e-6))
            m.copy_(0.9 * m + 0.1 * g)
            v.copy_(0.999 * v + 0.001 * g**2)
            step = (m / (1 - 0.9 ** (i + 1))) / ((v / (1 - 0.999 ** (i + 1))).sqrt() + 1e-8)
            p.data = p.data * (1 - rate * config.weight_decay) - rate * step
    assert min(norms) < 1 < max(norms)  # some are clipped
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter, dict(expected.named_parameters())[name], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(history.loss, np.mean(np.reshape(losses, (config.epochs, -1)), 1), rtol=1e-5)


def test_unit_dropout_hides_a_random_share_of_units(small_recording):
    """The share of hidden units is uniform from 0 to `unit_dropout`, drawn for every window."""
    session = prepare(small_recording)
    keep = []

    class SpiedTimeline(Timeline):
        def cut(self, starts, duration_s, keep_unit=None):
            keep.append(keep_unit)
            return super().cut(starts, duration_s, keep_unit)

    sampler = WindowSampler(replace(session, timeline=SpiedTimeline(small_recording)), FitConfig(unit_dropout=0.6))
    batch = sampler(2000)
    hidden = 1 - keep[0].mean(1)  # (2000,) of 12 units
    assert hidden.mean() == pytest.approx(0.3, abs=0.01)
    # variance of a uniform share, and of 12 draws with that share
    assert hidden.var() == pytest.approx(0.6**2 / 12 + (0.3 - 0.6**2 / 3) / 12, rel=0.1)
    trial = torch.repeat_interleave(torch.arange(2000), batch.n_bins)[batch.bin]
    spikes = batch.unit > 0
    assert keep[0][trial[spikes], batch.unit[spikes] - 1].all()


def test_validation_is_measured_and_changes_no_weight(small_recording):
    session, config = prepare(small_recording), replace(QUICK, epochs=5, validations=2)
    model, history = fitted(session, config)
    assert list(history.valid_r2) == [2, 4, 5]
    assert history.valid_r2[5] == pytest.approx(evaluate(model, session, "valid").r2)
    np.testing.assert_allclose(model.behavior_mean[1], session.mean, rtol=1e-6)
    np.testing.assert_allclose(model.behavior_std[1], session.std, rtol=1e-6)
    unscored, history = fitted(session, replace(config, validations=0))
    assert same_weights(model, unscored) and not history.valid_r2


def test_masked_samples_do_not_count(small_recording):
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
            return replace(batch, behavior=batch.behavior.masked_fill(~batch.mask[..., None], np.nan))

    clean = prepare(with_gaps)
    config = replace(QUICK, window_s=0.7)  # windows do not hold the same number of samples
    corrupted = replace(clean, timeline=CorruptedTimeline(with_gaps))
    (one, first), (other, second) = fitted(clean, config), fitted(corrupted, config)
    assert sum(n_masked) > 0
    assert same_weights(one, other) and first.loss == second.loss
    assert all(torch.isfinite(p).all() for p in one.parameters())
