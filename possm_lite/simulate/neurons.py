"""The units of a simulated session: their tuning, rates and spikes."""

from dataclasses import dataclass

import numpy as np

from .reaches import Reaches, TaskConfig, hand_at

# Spike times are multiples of 2^-15 s, 30.5 us: near the clock of a rig (30 kHz), exact in float64, and they compress.
TICKS_PER_SECOND = 2**15


@dataclass(frozen=True)
class SimulationConfig(TaskConfig):
    """A simulated session: the task (see `TaskConfig`) and, here, the units that are recorded during it."""

    n_units: int = 120
    untuned_share: float = 0.15  # units whose rate does not depend on the hand
    baseline_hz: float = 5.0  # mean rate at rest; rates are log-normal (Buzsaki & Mizuseki 2014)
    baseline_spread: float = 0.8  # standard deviation of their logarithm
    saturation_hz: float = 40.0  # upper limit of a unit's rate; at least twice its baseline
    # cosine tuning (Georgopoulos et al. 1982), proportional to speed (Moran & Schwartz 1999)
    depth: float = (
        0.8  # median increase of the log rate in the preferred direction at `reference_speed_mm_s`
    )
    depth_spread: float = 0.4  # standard deviation of its logarithm
    speed_gain: float = 0.2  # mean of the term in speed alone, in the same unit
    speed_gain_spread: float = 0.4  # its standard deviation
    reference_speed_mm_s: float = 400.0
    # rotation of the preferred direction over 100 mm along x, and along y (Scott & Kalaska 1997, in another posture)
    turning_deg: float = 40.0  # standard deviation over units
    common_turning_deg: float = (
        25.0  # and along x in all tuned units, with the shoulder (Caminiti et al. 1990)
    )
    position_gain: float = (
        0.3  # log rate per 100 mm along x, and along y: standard deviation (Kettner et al. 1988)
    )
    lag_s: float = (
        0.1  # mean lead on the hand (about 100 ms: Moran & Schwartz 1999, Paninski et al. 2004)
    )
    lag_spread_s: float = 0.03  # standard deviation of the lead, which is clipped to 0 and 2 lag_s
    refractory_s: float = 0.002  # absolute
    n_common: int = 3  # common fluctuations, independent of the hand
    common_gain: float = 0.1  # standard deviation of a unit's loading, in log rate, on one of them
    shared_gain: float = 0.75  # mean loading on the first: a fluctuating excitability (Goris et al. 2014); 0 on others
    common_time_s: float = 0.3  # their correlation time
    common_rate_hz: int = 20  # their sampling rate; interpolated linearly


@dataclass(frozen=True)
class UnitTuning:
    """The true tuning of U units. All arrays but `tuned` are float64."""

    baseline_hz: np.ndarray  # rate at rest in the centre, (U,)
    saturation_hz: np.ndarray  # upper limit of the rate, (U,)
    preferred_direction_rad: np.ndarray  # with the hand in the centre of the workspace, (U,)
    turning_rad_per_mm: (
        np.ndarray
    )  # rotation of the preferred direction per mm along x and y, (U, 2)
    depth_s_per_mm: np.ndarray  # log rate per mm/s in the preferred direction, (U,)
    speed_gain_s_per_mm: np.ndarray  # log rate per mm/s in any direction, (U,)
    position_gain_per_mm: np.ndarray  # log rate per mm along x and y, (U, 2)
    common_gain: np.ndarray  # loadings on the common fluctuations, (U, C)
    lag_s: np.ndarray  # by how much the unit leads the hand, (U,)
    tuned: (
        np.ndarray
    )  # False for a unit whose gains of direction, speed and position are all zero, (U,)


def draw_units(rng: np.random.Generator, config: SimulationConfig) -> UnitTuning:
    """Draw the tuning of `config.n_units` units."""
    n = config.n_units
    # E[exp(z)] = exp(var / 2): without this shift `baseline_hz` would be the median, not the mean
    log_median = np.log(config.baseline_hz) - config.baseline_spread**2 / 2
    baseline = np.exp(log_median + config.baseline_spread * rng.standard_normal(n))
    direction = rng.uniform(-np.pi, np.pi, n)
    turning = config.turning_deg * rng.standard_normal((n, 2)) + [config.common_turning_deg, 0.0]
    depth = (
        config.depth
        / config.reference_speed_mm_s
        * np.exp(config.depth_spread * rng.standard_normal(n))
    )
    speed = (
        config.speed_gain + config.speed_gain_spread * rng.standard_normal(n)
    ) / config.reference_speed_mm_s
    position = config.position_gain / 100 * rng.standard_normal((n, 2))
    common = config.common_gain * rng.standard_normal((n, config.n_common))
    common[:, :1] += config.shared_gain
    lag = np.clip(config.lag_s + config.lag_spread_s * rng.standard_normal(n), 0, 2 * config.lag_s)
    tuned = rng.permutation(n) >= round(config.untuned_share * n)
    return UnitTuning(
        baseline_hz=baseline,
        saturation_hz=np.maximum(config.saturation_hz, 2 * baseline),
        preferred_direction_rad=direction,
        turning_rad_per_mm=np.radians(turning) / 100 * tuned[:, None],
        depth_s_per_mm=depth * tuned,
        speed_gain_s_per_mm=speed * tuned,
        position_gain_per_mm=position * tuned[:, None],
        common_gain=common,
        lag_s=lag,
        tuned=tuned,
    )


def draw_common(
    rng: np.random.Generator, duration_s: float, config: SimulationConfig
) -> np.ndarray:
    """Slow common fluctuations of unit variance (Ornstein-Uhlenbeck), (time, C), at `config.common_rate_hz`."""
    decay = np.exp(-1 / (config.common_time_s * config.common_rate_hz))
    common = rng.standard_normal(
        (int(np.ceil(duration_s * config.common_rate_hz)) + 1, config.n_common)
    )
    common[1:] *= np.sqrt(1 - decay**2)  # the first row already has the stationary variance
    for before, now in zip(
        common, common[1:], strict=False
    ):  # scipy.signal would take a second to import
        now += decay * before
    return np.round(common * 2**10) / 2**10  # it compresses


def firing_rate(
    units: UnitTuning,
    unit: int | slice,
    position: np.ndarray,
    velocity: np.ndarray,
    common: np.ndarray | float = 0.0,
) -> np.ndarray:
    """The rate of one unit, or of several, without the refractory period, for the hand one lag later.

        drive = depth |v| cos(arg v - direction - turning . p) + speed_gain |v| + position_gain . p + common_gain . z
        rate  = saturation / (1 + (saturation / baseline - 1) exp(-drive))

    which is `baseline` at drive 0, about baseline exp(drive) while it is small, and always below `saturation`.

    Hz, (T,) for a `unit`, (T, U) for `slice(None)`; `position` p in mm from the centre and `velocity` v in mm/s are
    (T, 2), or (T, U, 2), as each unit has its lag; `common` z is (T, C), or (T, 1, C), 0 for none.
    """
    speed = np.hypot(velocity[..., 0], velocity[..., 1])
    preferred = units.preferred_direction_rad[unit] + _dot(position, units.turning_rad_per_mm[unit])
    along = velocity[..., 0] * np.cos(preferred) + velocity[..., 1] * np.sin(
        preferred
    )  # |v| cos(...)
    drive = units.depth_s_per_mm[unit] * along + units.speed_gain_s_per_mm[unit] * speed
    drive = (
        drive
        + _dot(position, units.position_gain_per_mm[unit])
        + _dot(common, units.common_gain[unit])
    )
    ceiling = units.saturation_hz[unit]
    return ceiling / (1 + (ceiling / units.baseline_hz[unit] - 1) * np.exp(-drive))


def _dot(a: np.ndarray | float, b: np.ndarray) -> np.ndarray:
    return np.sum(a * b, axis=-1)


def draw_spikes(
    rng,
    units: UnitTuning,
    unit: int,
    reaches: Reaches,
    common: np.ndarray,
    config: SimulationConfig,
):
    """The spikes of one unit in ticks of 2^-15 s: a Poisson process at `firing_rate`, blocked after each of its spikes.

    By thinning of candidates at the saturation rate (Lewis & Shedler 1979, Nav Res Logist Q 26:403).
    """
    n_ticks = round(reaches.trials[-1, 1] * TICKS_PER_SECOND)
    n_candidates = rng.poisson(units.saturation_hz[unit] * n_ticks / TICKS_PER_SECOND)
    ticks = np.sort(rng.integers(n_ticks, size=n_candidates))
    seconds = ticks / TICKS_PER_SECOND
    position, velocity = hand_at(reaches, seconds + units.lag_s[unit])  # spikes lead the hand
    grid = np.arange(len(common)) / config.common_rate_hz
    fluctuation = np.stack([np.interp(seconds, grid, z) for z in common.T], axis=-1)
    rate = firing_rate(units, unit, position, velocity, fluctuation)
    kept = ticks[rng.random(n_candidates) * units.saturation_hz[unit] < rate]
    return block_refractory(kept, int(np.ceil(config.refractory_s * TICKS_PER_SECOND)))


def block_refractory(ticks: np.ndarray, refractory: int) -> np.ndarray:
    """Drop spikes within `refractory` ticks of the last spike that was kept."""
    kept = []
    for tick in ticks.tolist():
        if not kept or tick - kept[-1] >= refractory:
            kept.append(tick)
    return np.array(kept, dtype=ticks.dtype)
