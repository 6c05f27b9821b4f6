"""The same electrodes some days later: tuning that has drifted, and units that have made way for others."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from .neurons import SimulationConfig, UnitTuning, draw_units


def drift_tuning(
    units: UnitTuning,
    rng: np.random.Generator,
    turned_deg: float = 20.0,
    gain_spread: float = 0.15,
    replaced_share: float = 0.1,
    config: SimulationConfig | None = None,
) -> UnitTuning:
    """The tuning of a later day; the units of the day before are left as they are.

        preferred direction + turned_deg z,    baseline and depth x exp(gain_spread z),    z standard normal

    A share of the units, drawn at random, is gone, and the electrode picks up others. Which rows these are nobody is
    told: a decoder sees a unit under the old name. How long the units of an array stay is measured by Chestek et al.
    2007 and Dickey et al. 2009; the defaults are a choice of this course.

    Args:
        units: the tuning of U units.
        rng: of everything that is drawn.
        turned_deg: standard deviation over units of how far a preferred direction has turned.
        gain_spread: standard deviation of the logarithm of baseline and depth.
        replaced_share: share of units replaced, 0 to 1.
        config: what the others are drawn from; default a `SimulationConfig`.

    Raises:
        ValueError: for a share outside 0..1, or a spread below 0.
    """
    if not 0 <= replaced_share <= 1:
        raise ValueError(f"replaced_share must lie in 0..1, not {replaced_share}.")
    for name, spread in (("turned_deg", turned_deg), ("gain_spread", gain_spread)):
        if not spread >= 0:
            raise ValueError(f"{name} must be 0 or more, not {spread}.")
    n = len(units.tuned)
    config = replace(config or SimulationConfig(), n_units=n, n_common=units.common_gain.shape[1])
    baseline = units.baseline_hz * np.exp(gain_spread * rng.standard_normal(n))
    later = replace(
        units,
        preferred_direction_rad=units.preferred_direction_rad + np.radians(turned_deg) * rng.standard_normal(n),
        baseline_hz=baseline,
        saturation_hz=np.maximum(units.saturation_hz, 2 * baseline),
        depth_s_per_mm=units.depth_s_per_mm * np.exp(gain_spread * rng.standard_normal(n)),
    )
    others, gone = draw_units(rng, config), rng.permutation(n) < round(replaced_share * n)
    chosen = {}
    for field in fields(UnitTuning):
        old, new = getattr(later, field.name), getattr(others, field.name)
        chosen[field.name] = np.where(gone[:, None] if old.ndim == 2 else gone, new, old)
    return UnitTuning(**chosen)
