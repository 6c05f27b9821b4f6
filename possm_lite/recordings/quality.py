"""Quality of a recording: rates, refractory violations, silent and duplicated units, gaps of behaviour.

None changes or rejects a recording. Those that need spike times to the millisecond are meaningless for times made
from counts in bins: check `times_are_resolved` first. U is the number of units.
"""

import numpy as np

from .recording import Recording

REFRACTORY_S = 0.002
COINCIDENCE_S = 0.001
_CLOCK_S = 1e-6  # rounding of clocks: differences of times are compared to a microsecond


def recording_duration(recording: Recording) -> float:
    """Seconds from the first spike or behaviour sample to the last, pauses included."""
    return float(np.ptp(np.concatenate([recording.behavior_times, recording.spike_times])))


def firing_rates(recording: Recording) -> np.ndarray:
    """Mean rate of every unit in Hz, shape (U,), with T from `recording_duration`.

    rate_u = N_u / T                                            (17.1)
    """
    return _spike_counts(recording) / recording_duration(recording)


def silent_units(recording: Recording) -> np.ndarray:
    """Indices (n,) of the units that fire less than once a minute."""
    return np.flatnonzero(firing_rates(recording) < 1 / 60)


def isi_violations(recording: Recording, refractory_s: float = REFRACTORY_S) -> np.ndarray:
    """Share of the intervals between successive spikes of a unit that are shorter than the refractory period.

        share_u = #{i: t_{i+1} - t_i < refractory} / (N_u - 1)       (17.2)

    Shape (U,), from 0 to 1; NaN for a unit with fewer than two spikes.
    """
    n = _spike_counts(recording) - 1
    return np.where(n > 0, _violation_counts(recording, refractory_s) / np.maximum(n, 1), np.nan)


def contamination_rate(recording: Recording, refractory_s: float = REFRACTORY_S) -> np.ndarray:
    """Share f of a unit's spikes that come from another neuron, estimated from the violations.

        2 f (1 - f) = share_u / (1 - exp(-rate_u refractory))        (17.3)

    The other neuron is assumed to fire independently; where rates are correlated f is an overestimate. Shape (U,), from
    0 to 0.5, as f and 1 - f cannot be distinguished; 0.5 also where there is no solution. NaN as in `isi_violations`.
    Source: Hill, Mehta & Kleinfeld 2011, J Neurosci 31:8699, their quadratic equation for the false positives.
    """
    without_refractory = -np.expm1(-firing_rates(recording) * refractory_s)
    ratio = isi_violations(recording, refractory_s) / without_refractory
    return (1 - np.sqrt(np.clip(1 - 2 * ratio, 0, None))) / 2


def contaminated_units(recording: Recording) -> np.ndarray:
    """Indices (n,) of units with a contamination above 0.1 and at least five violations."""
    contaminated = contamination_rate(recording) > 0.1  # False for NaN
    return np.flatnonzero(contaminated & (_violation_counts(recording, REFRACTORY_S) >= 5))


def coincidences(
    recording: Recording, window_s: float = COINCIDENCE_S
) -> tuple[np.ndarray, np.ndarray]:
    """How often two units fire within `window_s` of each other, and how often independent ones would.

        C_ab = #{(i, j): |t_i - t_j| <= window},   expected_ab = N_a N_b 2 window / T       (17.4)

    Both are (U, U), zero on the diagonal.
    """
    times, units, n_units = recording.spike_times, recording.spike_units, recording.n_units
    count = np.zeros(n_units**2)
    for distance in range(
        1, len(times)
    ):  # pairs of spikes i and i + distance, until none is within the window
        near = np.flatnonzero(times[distance:] - times[:-distance] <= window_s + _CLOCK_S)
        if not len(near):
            break
        count += np.bincount(units[near] * n_units + units[near + distance], minlength=n_units**2)
    count = count.reshape(n_units, n_units)
    n = _spike_counts(recording)
    expected = np.outer(n, n) * 2 * window_s / recording_duration(recording)
    off_diagonal = 1 - np.eye(n_units)
    return (count + count.T) * off_diagonal, expected * off_diagonal


def coincidence_share(count: np.ndarray, n_spikes: np.ndarray) -> np.ndarray:
    """Coincidences (U, U) as a share of the spikes of the unit that has fewer, (U, U); 0 where it has none."""
    return count / np.maximum(np.minimum.outer(n_spikes, n_spikes), 1)


def duplicated_units(recording: Recording, share: float = 0.3, sigmas: float = 5.0) -> np.ndarray:
    """Pairs of units that share spikes of one neuron: indices, the smaller one first, shape (n, 2).

    They share `share` of the spikes of the sparser unit, and more than by chance: by `sigmas` of a Poisson count and 5.
    """
    count, expected = coincidences(recording)
    frequent = coincidence_share(count, _spike_counts(recording)) > share
    significant = count >= expected + sigmas * np.sqrt(expected) + 5
    return np.argwhere(np.triu(frequent & significant))


def behavior_gaps(recording: Recording) -> np.ndarray:
    """Start and stop in seconds, (n, 2), of steps between behaviour samples longer than twice the median step."""
    times = recording.behavior_times
    before = np.flatnonzero(np.diff(times) > 2 * recording.sample_interval * (1 + 1e-6))
    return np.stack([times[before], times[before + 1]], 1)


def clock_resolution(recording: Recording, fewest: int = 50) -> float:
    """Estimated time step of the clock of the spikes in seconds, from how often intervals are equal.

    Two intervals of a unit, drawn at random, are equal with probability q. On a clock of step d a Poisson unit has
    q = rate d / 2, so d = 2 q / rate: the median over units with at least `fewest` intervals, NaN if there are none.
    A clock too fine to be resolved gives 0, and spikes made from counts a step of about a bin.
    """
    interval, unit = _intervals(recording)
    key = np.round(interval / _CLOCK_S).astype(np.int64) * recording.n_units + unit
    values, repeats = np.unique(key, return_counts=True)
    pairs = np.bincount(
        values % recording.n_units, repeats * (repeats - 1.0), minlength=recording.n_units
    )
    n = np.bincount(unit, minlength=recording.n_units)
    enough = n >= fewest
    if not enough.any():
        return np.nan
    equal = pairs[enough] / (n[enough] * (n[enough] - 1.0))
    mean_interval = np.bincount(unit, interval, minlength=recording.n_units)[enough] / n[enough]
    return float(np.median(2 * equal * mean_interval))


def times_are_resolved(recording: Recording, to_s: float = REFRACTORY_S) -> bool:
    """Whether intervals of `to_s` are resolved: `clock_resolution` is known and at most twice as long."""
    return clock_resolution(recording) <= 2 * to_s


def _spike_counts(recording: Recording) -> np.ndarray:
    return np.bincount(recording.spike_units, minlength=recording.n_units)


def _violation_counts(recording: Recording, refractory_s: float) -> np.ndarray:
    """Intervals shorter than the refractory period, shape (U,)."""
    interval, unit = _intervals(recording)
    return np.bincount(unit[interval < refractory_s - _CLOCK_S], minlength=recording.n_units)


def _intervals(recording: Recording) -> tuple[np.ndarray, np.ndarray]:
    """Seconds between successive spikes of one unit, and that unit, both (N - units that fired,)."""
    order = np.argsort(recording.spike_units, kind="stable")  # by unit; within a unit by time
    times, units = recording.spike_times[order], recording.spike_units[order]
    same = units[1:] == units[:-1]
    return np.diff(times)[same], units[1:][same]
