"""Drift turns and scales by what it says, replaces whole units, and leaves the day before alone."""

from dataclasses import fields

import numpy as np
import pytest

from possm_lite.spikes.simulation.drift import drift_tuning
from possm_lite.spikes.simulation.neurons import SimulationConfig, UnitTuning, draw_units


@pytest.fixture
def units(rng):
    return draw_units(rng, SimulationConfig(n_units=4000))


def test_no_drift_is_the_same_day(units, rng):
    same = drift_tuning(units, rng, rotation_deg=0, gain_spread=0, replaced_share=0)
    for field in fields(UnitTuning):
        np.testing.assert_array_equal(getattr(same, field.name), getattr(units, field.name))


def test_directions_and_gains_spread_as_far_as_they_are_told(units, rng):
    before = units.preferred_direction_rad.copy()
    later = drift_tuning(units, rng, rotation_deg=30, gain_spread=0.2, replaced_share=0)
    np.testing.assert_array_equal(units.preferred_direction_rad, before)
    assert np.degrees(later.preferred_direction_rad - before).std() == pytest.approx(30, rel=0.05)
    assert np.log(later.baseline_hz / units.baseline_hz).std() == pytest.approx(0.2, rel=0.05)
    deeper = later.depth_s_per_mm[units.tuned] / units.depth_s_per_mm[units.tuned]
    assert np.log(deeper).std() == pytest.approx(0.2, rel=0.05)
    np.testing.assert_array_equal(later.lag_s, units.lag_s)
    assert (later.saturation_hz >= 2 * later.baseline_hz).all()


def test_a_replaced_unit_is_another_in_everything(units, rng):
    later = drift_tuning(units, rng, rotation_deg=0, gain_spread=0, replaced_share=0.25)
    changed = {}
    for field in fields(UnitTuning):
        old, new = getattr(units, field.name), getattr(later, field.name)
        changed[field.name] = (old != new).reshape(len(old), -1).any(1)
    gone = changed["baseline_hz"]
    assert gone.sum() == 1000
    for name in ("preferred_direction_rad", "lag_s", "common_gain"):
        np.testing.assert_array_equal(changed[name], gone, err_msg=name)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"replaced_share": 1.5}, "replaced_share"),
        ({"rotation_deg": -1.0}, "rotation_deg"),
        ({"gain_spread": float("nan")}, "gain_spread"),
    ],
)
def test_nonsense_is_refused(units, rng, arguments, says):
    with pytest.raises(ValueError, match=says):
        drift_tuning(units, rng, **arguments)
