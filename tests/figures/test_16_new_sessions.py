"""Drift rotates and scales tuning by the given spreads and replaces whole units."""

from dataclasses import fields

import numpy as np
import pytest

from possm_lite.course.load import load_figures
from possm_lite.simulate.neurons import SimulationConfig, UnitTuning, draw_units

from ..exercises.helpers import NOTEBOOKS

drift_tuning = load_figures("16_new_sessions", NOTEBOOKS).drift_tuning


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
