"""Drift between days: the same electrodes with drifted tuning and some units replaced (chapter 16)."""

from dataclasses import replace

import numpy as np

from possm_lite.simulate.neurons import SimulationConfig, UnitTuning, draw_units


def drift_tuning(
    units: UnitTuning,
    rng: np.random.Generator,
    rotation_deg: float = 20.0,
    gain_spread: float = 0.15,
    replaced_share: float = 0.1,
    config: SimulationConfig | None = None,
) -> UnitTuning:
    """The tuning of the same electrodes on a later day; `units` is not changed.

        preferred direction + rotation_deg z,    baseline and depth x exp(gain_spread z),    z standard normal

    A random share of the units is replaced by others, drawn from `config`, under the same names. How long units stay
    was measured by Chestek et al. 2007 and Dickey et al. 2009; the defaults are a choice of this course.
    """
    n = len(units.tuned)
    config = replace(config or SimulationConfig(), n_units=n, n_common=units.common_gain.shape[1])
    baseline = units.baseline_hz * np.exp(gain_spread * rng.standard_normal(n))
    later = replace(
        units,
        preferred_direction_rad=units.preferred_direction_rad + np.radians(rotation_deg) * rng.standard_normal(n),
        baseline_hz=baseline,
        saturation_hz=np.maximum(units.saturation_hz, 2 * baseline),
        depth_s_per_mm=units.depth_s_per_mm * np.exp(gain_spread * rng.standard_normal(n)),
    )
    new_units = draw_units(rng, config)
    is_replaced = rng.permutation(n) < round(replaced_share * n)
    pairs = zip(vars(later).values(), vars(new_units).values(), strict=True)
    return UnitTuning(*(np.where(is_replaced, new.T, old.T).T for old, new in pairs))
