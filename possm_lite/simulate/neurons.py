"""The units of a simulated session: their tuning, rates and spikes."""

from dataclasses import dataclass

import numpy as np

from .reaches import Reaches, TaskConfig, hand_at

# Spike times are multiples of 2^-15 s, 30.5 us: near the clock of a rig (30 kHz), exact in float64,
# and they compress.
TICKS_PER_SECOND = 2**15


@dataclass(frozen=True)
class SimulationConfig(TaskConfig):
    """A simulated session: the task (see `TaskConfig`) and, here, the units that are recorded.

    Attributes:
        n_units: U, recorded units.
        untuned_share: of units whose rate does not depend on the hand.
        baseline_hz: mean rate at rest, Hz; rates are log-normal (Buzsaki & Mizuseki 2014).
        baseline_spread: standard deviation of their logarithm.
        saturation_hz: upper limit of a unit's rate, Hz; at least twice its baseline.
        depth: of the cosine tuning (Georgopoulos et al. 1982), which is proportional to speed
            (Moran & Schwartz 1999): median increase of the log rate in the preferred direction at
            `reference_speed_mm_s`.
        depth_spread: standard deviation of the logarithm of the depth.
        speed_gain: mean of the term in speed alone, increase of the log rate at
            `reference_speed_mm_s`.
        speed_gain_spread: standard deviation of the speed gain.
        reference_speed_mm_s: speed at which depth and speed gain are given, mm/s.
        turning_deg: rotation of the preferred direction over 100 mm along x, and along y, degrees
            (Scott & Kalaska 1997, in another posture): standard deviation over units.
        common_turning_deg: rotation over 100 mm along x in all tuned units, with the shoulder,
            degrees (Caminiti et al. 1990).
        position_gain: log rate per 100 mm along x, and along y: standard deviation over units
            (Kettner et al. 1988).
        lag_s: mean lead on the hand, seconds (about 100 ms: Moran & Schwartz 1999, Paninski et al.
            2004).
        lag_spread_s: standard deviation of the lead, seconds; it is clipped to 0 and 2 `lag_s`.
        refractory_s: absolute refractory period, seconds.
        n_common: C, common fluctuations, independent of the hand.
        common_gain: standard deviation of a unit's loading, in log rate, on one of them.
        shared_gain: mean loading on the first, a fluctuating excitability (Goris et al. 2014); 0 on
            the others.
        common_time_s: correlation time of the fluctuations, seconds.
        common_rate_hz: their sampling rate, Hz; they are interpolated linearly.
    """

    n_units: int = 120
    untuned_share: float = 0.15
    baseline_hz: float = 5.0
    baseline_spread: float = 0.8
    saturation_hz: float = 40.0
    depth: float = 0.8
    depth_spread: float = 0.4
    speed_gain: float = 0.2
    speed_gain_spread: float = 0.4
    reference_speed_mm_s: float = 400.0
    turning_deg: float = 40.0
    common_turning_deg: float = 25.0
    position_gain: float = 0.3
    lag_s: float = 0.1
    lag_spread_s: float = 0.03
    refractory_s: float = 0.002
    n_common: int = 3
    common_gain: float = 0.1
    shared_gain: float = 0.75
    common_time_s: float = 0.3
    common_rate_hz: int = 20


@dataclass(frozen=True)
class UnitTuning:
    """The true tuning of U units. All arrays but `tuned` are float64.

    Attributes:
        baseline_hz: rate at rest in the centre, Hz, shape (U,).
        saturation_hz: upper limit of the rate, Hz, shape (U,).
        preferred_direction_rad: with the hand in the centre of the workspace, radians, shape (U,).
        turning_rad_per_mm: rotation of the preferred direction along x and y, radians per mm, shape
            (U, 2).
        depth_s_per_mm: log rate per mm/s in the preferred direction, shape (U,).
        speed_gain_s_per_mm: log rate per mm/s in any direction, shape (U,).
        position_gain_per_mm: log rate per mm along x and y, shape (U, 2).
        common_gain: loadings on the C common fluctuations, log rate, shape (U, C).
        lag_s: by how much the unit leads the hand, seconds, shape (U,).
        tuned: False for a unit whose gains of direction, speed and position are all zero, bool,
            shape (U,).
    """

    baseline_hz: np.ndarray
    saturation_hz: np.ndarray
    preferred_direction_rad: np.ndarray
    turning_rad_per_mm: np.ndarray
    depth_s_per_mm: np.ndarray
    speed_gain_s_per_mm: np.ndarray
    position_gain_per_mm: np.ndarray
    common_gain: np.ndarray
    lag_s: np.ndarray
    tuned: np.ndarray


def draw_units(rng: np.random.Generator, config: SimulationConfig) -> UnitTuning:
    """Draw the tuning of `config.n_units` units.

    Args:
        rng: the generator.
        config: with the distributions of all parameters.
    """
    n = config.n_units
    # E[exp(z)] = exp(var / 2): without this shift `baseline_hz` would be the median, not the mean
    log_median = np.log(config.baseline_hz) - config.baseline_spread**2 / 2
    baseline = np.exp(log_median + config.baseline_spread * rng.standard_normal(n))
    direction = rng.uniform(-np.pi, np.pi, n)
    turning = config.turning_deg * rng.standard_normal((n, 2)) + [config.common_turning_deg, 0.0]
    median_depth = config.depth / config.reference_speed_mm_s
    depth = median_depth * np.exp(config.depth_spread * rng.standard_normal(n))
    speed_gain = config.speed_gain + config.speed_gain_spread * rng.standard_normal(n)
    speed = speed_gain / config.reference_speed_mm_s
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
    """Draw slow common fluctuations of unit variance (Ornstein-Uhlenbeck).

    Args:
        rng: the generator.
        duration_s: of the session, seconds.
        config: with their number C, correlation time and sampling rate.

    Returns:
        The fluctuations at `config.common_rate_hz` from 0 s, shape (time, C).
    """
    decay = np.exp(-1 / (config.common_time_s * config.common_rate_hz))
    n_times = int(np.ceil(duration_s * config.common_rate_hz)) + 1
    common = rng.standard_normal((n_times, config.n_common))
    common[1:] *= np.sqrt(1 - decay**2)  # the first row already has the stationary variance
    # scipy.signal would take a second to import
    for before, now in zip(common, common[1:], strict=False):
        now += decay * before
    return np.round(common * 2**10) / 2**10  # it compresses


def firing_rate(
    units: UnitTuning,
    unit: int | slice,
    position: np.ndarray,
    velocity: np.ndarray,
    common: np.ndarray | float = 0.0,
) -> np.ndarray:
    """The rate of one unit, or of several, for the hand one lag later, without refractory period.

        drive = depth |v| cos(arg v - direction - turning . p)
                + speed_gain |v| + position_gain . p + common_gain . z
        rate  = saturation / (1 + (saturation / baseline - 1) exp(-drive))

    which is the baseline at drive 0, about baseline exp(drive) while it is small, and always below
    the saturation.

    Args:
        units: the tuning of all U units.
        unit: index of a unit; `slice(None)` for all.
        position: p, mm from the centre, shape (T, 2); (T, U, 2) for several units, since each has
            its own lag.
        velocity: v, mm/s, shape as `position`.
        common: the common fluctuations z, shape (T, C), or (T, 1, C) for several units; 0 for none.

    Returns:
        Rates in Hz, shape (T,), or (T, U) for several units.
    """
    speed = np.hypot(velocity[..., 0], velocity[..., 1])
    preferred = units.preferred_direction_rad[unit] + _dot(position, units.turning_rad_per_mm[unit])
    # |v| cos(arg v - preferred)
    along = velocity[..., 0] * np.cos(preferred) + velocity[..., 1] * np.sin(preferred)
    drive = units.depth_s_per_mm[unit] * along + units.speed_gain_s_per_mm[unit] * speed
    drive = drive + _dot(position, units.position_gain_per_mm[unit])
    drive = drive + _dot(common, units.common_gain[unit])
    ceiling = units.saturation_hz[unit]
    return ceiling / (1 + (ceiling / units.baseline_hz[unit] - 1) * np.exp(-drive))


def _dot(a: np.ndarray | float, b: np.ndarray) -> np.ndarray:
    """The product of vectors, (..., n) each, summed over n."""
    return np.sum(a * b, axis=-1)


def draw_spikes(
    rng,
    units: UnitTuning,
    unit: int,
    reaches: Reaches,
    common: np.ndarray,
    config: SimulationConfig,
):
    """The spikes of one unit: a Poisson process at `firing_rate`, blocked after each of its spikes.

    By thinning of candidates at the saturation rate.

    Args:
        rng: the generator of this unit.
        units: the tuning of all units.
        unit: index of the unit.
        reaches: the movements of the session.
        common: fluctuations of `draw_common`, (time, C).
        config: with the sampling rate of `common` and the refractory period.

    Returns:
        Spike times in ticks of 2^-15 s, increasing, shape (spikes,), int64.

    Source: Lewis & Shedler 1979, Nav Res Logist Q 26:403.
    """
    n_ticks = round(reaches.trials[-1, 1] * TICKS_PER_SECOND)
    n_candidates = rng.poisson(units.saturation_hz[unit] * n_ticks / TICKS_PER_SECOND)
    ticks = np.sort(rng.integers(n_ticks, size=n_candidates))
    seconds = ticks / TICKS_PER_SECOND
    position, velocity = hand_at(reaches, seconds + units.lag_s[unit])  # spikes lead the hand
    grid = np.arange(len(common)) / config.common_rate_hz
    fluctuation = np.stack([np.interp(seconds, grid, z) for z in common.T], axis=-1)
    rate = firing_rate(units, unit, position, velocity, fluctuation)
    is_kept = rng.random(n_candidates) * units.saturation_hz[unit] < rate
    refractory = int(np.ceil(config.refractory_s * TICKS_PER_SECOND))
    return block_refractory(ticks[is_kept], refractory)


def block_refractory(ticks: np.ndarray, refractory: int) -> np.ndarray:
    """The spikes without those within the refractory period of the last spike that was kept.

    Args:
        ticks: spike times, sorted, (n,), whole numbers.
        refractory: the refractory period in ticks; a spike exactly so much later is kept.
    """
    kept = []
    for tick in ticks.tolist():
        if not kept or tick - kept[-1] >= refractory:
            kept.append(tick)
    return np.array(kept, dtype=ticks.dtype)
