"""Quality of a recording: rates, refractory violations, silent and duplicated units, gaps.

None changes or rejects a recording. Those that need spike times to the millisecond are meaningless
for times made from counts in bins: check `times_are_resolved` first. U is the number of units.
"""

import numpy as np

from .clocks import isolated_times
from .recording import Recording

REFRACTORY_S = 0.002
COINCIDENCE_S = 0.001
_CLOCK_S = 1e-6  # rounding of clocks: differences of times are compared to a microsecond


def recording_duration(recording: Recording) -> float:
    """Seconds from the first spike or sample of behaviour of a `recording` to the last.

    Without spikes at times that are not possible, see `isolated_times`.
    """
    isolated = isolated_times(recording.spike_times)
    times = recording.spike_times[~isolated] if isolated.any() else recording.spike_times
    ends = [part[[0, -1]] for part in (recording.behavior_times, times) if len(part)]
    return float(np.ptp(ends))


def firing_rates(recording: Recording) -> np.ndarray:
    """Mean rate of every unit of a `recording` in Hz, shape (U,), with T of `recording_duration`.

    rate_u = N_u / T                                            (17.1)

    Spikes at times that are not possible are not counted.
    """
    isolated = isolated_times(recording.spike_times)
    units_left_out = recording.spike_units[isolated]
    n = _spike_counts(recording) - np.bincount(units_left_out, minlength=recording.n_units)
    return n / recording_duration(recording)


def silent_units(recording: Recording) -> np.ndarray:
    """Indices of the units of a `recording` that fire less than once a minute, shape (n,)."""
    return np.flatnonzero(firing_rates(recording) < 1 / 60)


def isi_violations(recording: Recording, refractory_s: float = REFRACTORY_S) -> np.ndarray:
    """Share of the intervals between successive spikes of a unit below the refractory period.

        share_u = #{i: t_{i+1} - t_i < refractory} / (N_u - 1)       (17.2)

    Shorter by a microsecond or more, for the rounding of clocks.

    Args:
        recording: the session.
        refractory_s: the refractory period, seconds.

    Returns:
        Shares from 0 to 1, shape (U,); NaN for a unit with fewer than two spikes.
    """
    n = _spike_counts(recording) - 1
    return np.where(n > 0, _violation_counts(recording, refractory_s) / np.maximum(n, 1), np.nan)


def contamination_rate(recording: Recording, refractory_s: float = REFRACTORY_S) -> np.ndarray:
    """Share f of a unit's spikes that come from another neuron, estimated from the violations.

        2 f (1 - f) = share_u / (1 - exp(-rate_u refractory))        (17.3)

    The right side is 0 for a single neuron and 1 for a Poisson process. The other neuron is assumed
    to fire independently; where rates are correlated f is an overestimate.

    Args:
        recording: the session.
        refractory_s: the refractory period, seconds.

    Returns:
        Shape (U,), from 0 to 0.5, as f and 1 - f cannot be distinguished; 0.5 also where there is
        no solution, as for many neurons on one wire. NaN as in `isi_violations`.

    Source: Hill, Mehta & Kleinfeld 2011, J Neurosci 31:8699, their quadratic equation for the false
    positives.
    """
    without_refractory = -np.expm1(-firing_rates(recording) * refractory_s)
    ratio = isi_violations(recording, refractory_s) / without_refractory
    return (1 - np.sqrt(np.clip(1 - 2 * ratio, 0, None))) / 2


def contaminated_units(recording: Recording) -> np.ndarray:
    """Indices of the contaminated units of a `recording`, shape (n,).

    They have a contamination above 0.1 and at least five violations of `REFRACTORY_S`.
    """
    contaminated = contamination_rate(recording) > 0.1  # False for NaN
    return np.flatnonzero(contaminated & (_violation_counts(recording, REFRACTORY_S) >= 5))


def coincidences(
    recording: Recording, window_s: float = COINCIDENCE_S
) -> tuple[np.ndarray, np.ndarray]:
    """How often two units fire at nearly one time, and how often independent ones would.

        C_ab = #{(i, j): |t_i - t_j| <= window},   expected_ab = N_a N_b 2 window / T       (17.4)

    A microsecond is added to the window, for the rounding of clocks.

    Args:
        recording: the session.
        window_s: the largest distance of two spikes that coincide, seconds.

    Returns:
        Counts C and those expected, (U, U) each, symmetric, zero on the diagonal.
    """
    times, units, n_units = recording.spike_times, recording.spike_units, recording.n_units
    count = np.zeros(n_units**2)  # at a * n_units + b: pairs in which a unit a fires before b
    # pairs of spikes i and i + distance, until none is within the window
    for distance in range(1, len(times)):
        near = np.flatnonzero(times[distance:] - times[:-distance] <= window_s + _CLOCK_S)
        if not len(near):
            break
        pairs = units[near] * n_units + units[near + distance]
        count += np.bincount(pairs, minlength=n_units**2)
    count = count.reshape(n_units, n_units)
    n = _spike_counts(recording)
    expected = np.outer(n, n) * 2 * window_s / recording_duration(recording)
    off_diagonal = 1 - np.eye(n_units)
    return (count + count.T) * off_diagonal, expected * off_diagonal


def coincidence_share(count: np.ndarray, n_spikes: np.ndarray) -> np.ndarray:
    """Coincidences as a share of the spikes of the unit that has fewer.

    Args:
        count: of `coincidences`, (U, U).
        n_spikes: of each unit, (U,).

    Returns:
        Shares, (U, U); 0 where a unit has no spikes.
    """
    return count / np.maximum(np.minimum.outer(n_spikes, n_spikes), 1)


def duplicated_units(recording: Recording, share: float = 0.3, sigmas: float = 5.0) -> np.ndarray:
    """Pairs of units that share spikes of one neuron.

    Args:
        recording: the session.
        share: more than this share of the spikes of the sparser unit coincide with the other's.
        sigmas: the count exceeds that of independent units by so many standard deviations of a
            Poisson count, and 5.

    Returns:
        Indices of both units, the smaller one first, shape (n, 2).
    """
    count, expected = coincidences(recording)
    frequent = coincidence_share(count, _spike_counts(recording)) > share
    significant = count >= expected + sigmas * np.sqrt(expected) + 5
    return np.argwhere(np.triu(frequent & significant))


def behavior_gaps(recording: Recording) -> np.ndarray:
    """Gaps between successive behaviour samples of a `recording`.

    They are longer than twice the median step, as in the derivative of a position.

    Returns:
        Start and stop in seconds, (n, 2).
    """
    times = recording.behavior_times
    before = np.flatnonzero(np.diff(times) > 2 * recording.sample_interval * (1 + 1e-6))
    return np.column_stack([times[before], times[before + 1]])


def clock_resolution(recording: Recording, fewest: int = 50) -> float:
    """Estimated time step of the clock of the spikes, from how often intervals are equal.

    Two intervals of a unit, drawn at random, are equal with probability q. On a clock of step d a
    Poisson unit has q = rate d / 2, so d = 2 q / rate. Bursting units repeat intervals, which makes
    d up to a few times too large.

    Args:
        recording: the session.
        fewest: units with fewer intervals are not used.

    Returns:
        The median of d over units, seconds; NaN if no unit has enough intervals. A clock too fine
        to be resolved gives 0, and spikes made from counts a step of about a bin.
    """
    interval, unit = _intervals(recording)
    n_units = recording.n_units
    n = np.bincount(unit, minlength=n_units)  # intervals of each unit, (U,)
    enough = n >= fewest
    if not enough.any():
        return np.nan
    # one number for each unit and interval in whole microseconds
    key = np.round(interval / _CLOCK_S).astype(np.int64) * n_units + unit
    values, repeats = np.unique(key, return_counts=True)
    pairs = np.bincount(values % n_units, repeats * (repeats - 1.0), minlength=n_units)
    equal = pairs[enough] / (n[enough] * (n[enough] - 1.0))  # q
    mean_interval = np.bincount(unit, interval, minlength=n_units)[enough] / n[enough]
    return float(np.median(2 * equal * mean_interval))


def times_are_resolved(recording: Recording, to_s: float = REFRACTORY_S) -> bool:
    """Whether the spike times of a recording resolve intervals.

    Args:
        recording: the session.
        to_s: the interval, seconds.

    Returns:
        True if `clock_resolution` is known and at most twice as long.
    """
    return clock_resolution(recording) <= 2 * to_s


def _spike_counts(recording: Recording) -> np.ndarray:
    """N_u: spikes of each unit, shape (U,)."""
    return np.bincount(recording.spike_units, minlength=recording.n_units)


def _violation_counts(recording: Recording, refractory_s: float) -> np.ndarray:
    """Intervals shorter than the refractory period, shape (U,)."""
    interval, unit = _intervals(recording)
    return np.bincount(unit[interval < refractory_s - _CLOCK_S], minlength=recording.n_units)


def _intervals(recording: Recording) -> tuple[np.ndarray, np.ndarray]:
    """Seconds between successive spikes of one unit, and that unit, both (N - firing units,)."""
    order = np.argsort(recording.spike_units, kind="stable")  # by unit; within a unit by time
    times, units = recording.spike_times[order], recording.spike_units[order]
    same = units[1:] == units[:-1]
    return np.diff(times)[same], units[1:][same]
