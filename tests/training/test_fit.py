"""Training: it learns, it repeats, and what is masked has no part in it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedGRU
from possm_lite.spikes import Recording, Timeline
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.windows import WindowSampler

QUICK = FitConfig(epochs=2, window_s=1.0, batch=4, samples=20)


def make_model(session, seed=0) -> POSSM:
    torch.manual_seed(seed)
    return POSSM(POSSMConfig(session.recording.n_units, dim=16, head_dim=16, n_freqs=4, hidden=32))


def fitted(session, config=QUICK):
    model = make_model(session)
    history = fit(model, session, config, progress=False)
    return model, history


def same_weights(one, other) -> bool:
    other = other.state_dict()
    return all(torch.equal(tensor, other[name]) for name, tensor in one.state_dict().items())


def easy_recording(rng) -> Recording:
    """Twenty seconds in which four units say where the hand goes: one for each sign of x and of y, 60 spikes/s each."""
    times = np.arange(2000) / 100
    signs = rng.choice([-1.0, 1.0], (25, 2))[(times / 0.8).astype(int)]
    fires = np.stack([signs[:, 0] > 0, signs[:, 0] < 0, signs[:, 1] > 0, signs[:, 1] < 0], 1)
    sample, unit = np.nonzero(fires & (rng.random(fires.shape) < 0.6))
    return Recording(
        spike_times=times[sample],
        spike_units=unit,
        unit_ids=["right", "left", "up", "down"],
        behavior_times=times,
        velocity=100.0 * signs,
        velocity_unit="mm/s",
        trials=np.zeros((0, 2)),
        session_id="easy",
    )


def test_a_tiny_session_is_learnt(rng):
    session = prepare(easy_recording(rng))
    config = FitConfig(epochs=30, window_s=1.0, batch=4, samples=20, lr=1e-2, unit_dropout=0.0)
    model, history = fitted(session, config)
    assert len(history.loss) == 30 and np.isfinite(history.loss).all() and history.seconds > 0
    assert np.mean(history.loss[-3:]) < 0.3 * np.mean(history.loss[:3])
    untrained = make_model(session)
    untrained.velocity_mean[1], untrained.velocity_std[1] = (torch.from_numpy(x) for x in (session.mean, session.std))
    for part in ("train", "test"):
        assert evaluate(model, session, part).r2 > max(evaluate(untrained, session, part).r2, 0.0) + 0.4
    assert not model.training


def test_validation_is_measured_about_ten_times_and_at_the_end(small_recording):
    session = prepare(small_recording)
    model, history = fitted(session, replace(QUICK, epochs=21))
    assert list(history.valid_r2) == [*range(2, 21, 2), 21]
    assert history.valid_r2[21] == pytest.approx(evaluate(model, session, "valid").r2)


def test_validation_changes_no_weight_and_can_be_left_out(small_recording):
    session = prepare(small_recording)
    scored, unscored = fitted(session), fitted(session, replace(QUICK, validations=0))
    assert scored[1].valid_r2 and not unscored[1].valid_r2
    assert same_weights(scored[0], unscored[0])


@pytest.mark.parametrize("kind", ["possm", "gru"])
def test_the_same_seed_gives_the_same_weights_bit_for_bit(small_recording, kind):
    session = prepare(small_recording)

    def train(seed):
        torch.manual_seed(0)
        n_units = session.recording.n_units
        model = make_model(session) if kind == "possm" else BinnedGRU(n_units, n_slots=5, hidden=16)
        fit(model, session, replace(QUICK, seed=seed), progress=False)
        return model

    first = train(0)
    assert same_weights(first, train(0))
    assert not same_weights(first, train(1))


def test_the_scale_of_velocity_is_set(small_recording):
    session = prepare(small_recording)
    model, _ = fitted(session)
    np.testing.assert_allclose(model.velocity_mean[1], session.mean, rtol=1e-6)
    np.testing.assert_allclose(model.velocity_std[1], session.std, rtol=1e-6)


def test_a_window_is_shortened_to_the_trials_it_must_fit_into(small_recording):
    """Trials that lie apart cannot be joined, so a window is no longer than they are."""
    start = small_recording.trials[:, 0]
    apart = replace(small_recording, trials=np.stack([start, start + np.linspace(0.5, 0.9, len(start))], 1))
    session = prepare(apart)
    draw = WindowSampler(session, QUICK)
    lengths = np.diff(session.segments("train"), axis=1)
    assert lengths.min() <= draw.window_s < lengths.max() and draw.window_s < QUICK.window_s
    assert int(draw(4).n_bins.max()) == int(np.ceil(draw.window_s / 0.05))
    assert WindowSampler(prepare(small_recording), QUICK).window_s == QUICK.window_s


@pytest.mark.parametrize("garbage", [1e30, float("nan")])
def test_what_is_masked_does_not_count(small_recording, garbage):
    """Behaviour with gaps fills windows up; whatever velocity stands there, the weights are the same."""
    cut_up = np.floor(small_recording.behavior_times / 0.4) % 2 == 0
    with_gaps = replace(
        small_recording,
        trials=np.zeros((0, 2)),
        behavior_times=small_recording.behavior_times[cut_up],
        velocity=small_recording.velocity[cut_up],
    )
    pad_phasors = []

    class Spoilt(Timeline):
        def cut(self, *args):
            batch = super().cut(*args)
            pad_phasors.append(int((~batch.mask).sum()))
            return replace(batch, velocity=batch.velocity.masked_fill(~batch.mask[..., None], garbage))

    clean = prepare(with_gaps)
    config = replace(QUICK, window_s=0.7)  # windows do not hold the same number of samples
    spoilt = replace(clean, timeline=Spoilt(with_gaps))
    (one, first), (other, second) = fitted(clean, config), fitted(spoilt, config)
    assert sum(pad_phasors) > 0
    assert same_weights(one, other) and first.loss == second.loss
    assert all(torch.isfinite(p).all() for p in one.parameters())
