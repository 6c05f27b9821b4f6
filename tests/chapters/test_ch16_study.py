"""Drift, and the ways to a decoder on counts for another day."""

from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.linalg
import torch

from possm_course.chapters.ch16 import alignment, models, study
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig, UnitTuning, draw_units
from possm_lite.training import prepare

drift_tuning = study.drift_tuning


@pytest.fixture
def units(rng):
    return draw_units(rng, SimulationConfig(n_units=4000))


def test_directions_and_gains_have_the_requested_spread(units, rng):
    before = units.preferred_direction_rad.copy()
    later = drift_tuning(units, rng, rotation_deg=30, gain_spread=0.2, replaced_share=0)
    np.testing.assert_array_equal(units.preferred_direction_rad, before)
    assert np.degrees(later.preferred_direction_rad - before).std() == pytest.approx(30, rel=0.05)
    assert np.log(later.baseline_hz / units.baseline_hz).std() == pytest.approx(0.2, rel=0.05)
    deeper = later.depth_s_per_mm[units.tuned] / units.depth_s_per_mm[units.tuned]
    assert np.log(deeper).std() == pytest.approx(0.2, rel=0.05)
    np.testing.assert_array_equal(later.lag_s, units.lag_s)
    assert (later.saturation_hz >= 2 * later.baseline_hz).all()


def test_a_replaced_unit_differs_in_every_field(units, rng):
    later = drift_tuning(units, rng, rotation_deg=0, gain_spread=0, replaced_share=0.25)
    changed = {}
    for field in fields(UnitTuning):
        old, new = getattr(units, field.name), getattr(later, field.name)
        changed[field.name] = (old != new).reshape(len(old), -1).any(1)
    gone = changed["baseline_hz"]
    assert gone.sum() == 1000
    for name in ("preferred_direction_rad", "lag_s", "common_gain"):
        np.testing.assert_array_equal(changed[name], gone, err_msg=name)


@pytest.fixture
def days():
    config = replace(study.NEW, n_trials=30, n_units=6)
    return [prepare(simulate_session(seed, config).recording, study.SPLIT) for seed in (1, 2)]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return models.CountGRU(6)


def test_statistics_of_day_0_come_back(days, model):
    today, first = (alignment.rows(day)[0] for day in days)
    W, b = alignment.map_in(model)
    wanted = first @ W + b
    found = {}
    for way in (alignment.moments_of_counts, alignment.moments_of_latents):
        W_new, b_new = alignment.map_in(way(model, *days))
        found[way.__name__] = today @ W_new + b_new
        np.testing.assert_allclose(found[way.__name__].mean(0), wanted.mean(0), atol=1e-5)
    stretch = (today - today.mean(0)) / today.std(0) * first.std(0) @ W
    np.testing.assert_allclose(found["moments_of_counts"] - wanted.mean(0), stretch, atol=1e-5)


def test_aligning_a_day_with_itself_changes_nothing(days):
    counts, movement = alignment.rows(days[0])
    np.testing.assert_allclose(alignment.when_alike(movement, movement, counts, alike=1)[9:], counts[9:])
    M, correlations = alignment.canonical(counts, counts)
    np.testing.assert_allclose(M, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(correlations, 1)


def test_procrustes_finds_a_rotation(rng):
    x, turn = rng.standard_normal((50, 4)), np.linalg.qr(rng.standard_normal((4, 4)))[0]
    M, _ = alignment.procrustes(x + 3, 2 * x @ turn - 1)
    np.testing.assert_allclose(M, turn, atol=1e-9)
    y = rng.standard_normal((50, 4))
    expected, _ = scipy.linalg.orthogonal_procrustes(x - x.mean(0), y - y.mean(0))
    np.testing.assert_allclose(alignment.procrustes(x, y)[0], expected, atol=1e-9)


def test_only_what_a_way_names_learns(days, model):
    for way, own in ((models.old_table, models.OWN), (models.day_layer, ("day.weight", "day.bias"))):
        after = dict(way(model, days[1], 1, seed=0).named_parameters())
        moved = {name for name, p in model.named_parameters() if not torch.equal(after[name], p)}
        assert moved == {name for name in own if name in dict(model.named_parameters())}


def test_a_day_layer_is_another_map_into_the_same_decoder(days, model):
    layer = models.day_layer(model, days[1], 1, seed=0)
    (W, b), A = alignment.map_in(model), layer.day
    A, a = A.weight.detach().double().numpy().T, A.bias.detach().double().numpy()
    folded = alignment.with_map(layer, A @ W, b + a @ W)  # formula (16.6)
    folded.day = torch.nn.Identity()
    batch, ones = days[1].cut(1.0, 1.0), torch.ones(1, dtype=torch.int64)
    with torch.no_grad():
        torch.testing.assert_close(folded(batch, batch.times_s, ones), layer(batch, batch.times_s, ones))
