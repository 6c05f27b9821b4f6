"""What chapter 17 measures of the units of a recording: rates, correlograms, foreign spikes."""

from collections.abc import Callable

import numpy as np

from possm_lite.recordings import Recording, quality

TAU_S = quality.REFRACTORY_S
SHARES = (0.1, 0.25, 0.4)  # of foreign spikes, in `estimates`


def rates_in(recording: Recording, edges) -> np.ndarray:
    """The rate of each unit between edges.

    Args:
        recording: U units.
        edges: in s, shape (n + 1,).

    Returns:
        Rates in Hz, shape (U, n).
    """
    unit_edges = np.arange(recording.n_units + 1) - 0.5
    counts, *_ = np.histogram2d(recording.spike_units, recording.spike_times, [unit_edges, edges])
    return counts / np.diff(edges)


def card(recording: Recording, known: bool) -> dict[str, str]:
    """What the measures of quality find.

    Args:
        recording: what is measured.
        known: whether spike times are known to the millisecond; else "?" where that is needed.

    Returns:
        Name of a measure to what it found, as text.
    """
    rates = quality.firing_rates(recording)
    gaps = quality.behavior_gaps(recording)
    foreign = duplicates = "?"
    if known:
        foreign = f"{len(quality.contaminated_units(recording))}"
        duplicates = f"{len(quality.duplicated_units(recording))}"
    return {
        "units, silent ones": f"{recording.n_units}, {len(quality.silent_units(recording))}",
        "rate (Hz): median, fastest": f"{np.median(rates):.1f}, {rates.max():.1f}",
        "units with foreign spikes": foreign,
        "pairs of duplicates": duplicates,
        "gaps of behaviour: number, s": f"{len(gaps)}, {np.diff(gaps).sum():.1f}",
        "trials": f"{len(recording.trials)}",
    }


def train(recording: Recording, unit: int) -> np.ndarray:
    """The spike times of a `unit` of a `recording` in s, shape (n,)."""
    return recording.spike_times[recording.spike_units == unit]


def correlogram(a: np.ndarray, b: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Pairs of spikes with edges_k <= t_b - t_a < edges_k+1 (17.4); if b is a, none with itself.

    Independent trains of N_a and N_b spikes in T seconds have N_a N_b / T of them a second of
    distance.

    Args:
        a: spike times t_a in s, shape (N_a,).
        b: spike times t_b in s, shape (N_b,).
        edges: in s, shape (K + 1,).

    Returns:
        Numbers of pairs, shape (K,).
    """
    count = np.diff([np.searchsorted(b, a + edge).sum() for edge in edges])
    if b is a:
        count[np.searchsorted(edges, 0, side="right") - 1] -= len(a)
    return count


def pieces_of(intervals, longest_s: float = 5.0) -> np.ndarray:
    """The trials; a stretch that is longer than 20 s is no trial, and is cut up.

    Args:
        intervals: starts and stops in s, shape (m, 2).
        longest_s: length of the pieces of a stretch in s.

    Returns:
        Starts and stops in s, shape (n, 2).
    """
    cut = []
    for a, b in intervals:
        starts = np.arange(a, b - longest_s / 2, longest_s) if b - a > 20 else np.array([a])
        cut.append(np.stack([starts, np.append(starts[1:], b)], 1))
    return np.concatenate(cut)


def from_rate(times: np.ndarray, duration_s: float) -> float:
    """(17.3), the share of foreign spikes of one train by its short intervals and its rate.

    Args:
        times: spike times in s, shape (n,).
        duration_s: of the recording in s.

    Returns:
        Share between 0 and 0.5.
    """
    ratio = np.mean(np.diff(times) < TAU_S) / -np.expm1(-len(times) / duration_s * TAU_S)
    return (1 - np.sqrt(max(1 - 2 * ratio, 0))) / 2


def estimates(
    recording: Recording, estimate: Callable, shift_s: float = 0.0, pairs: int = 60
) -> np.ndarray:
    """What an estimate says of random units merged in pairs, for each of `SHARES`.

    The second train is shifted around the end of the recording: its rate stays, common changes go.

    Args:
        recording: whose units with more than 2 Hz are merged.
        estimate: gives the share of foreign spikes of spike times in s, (n,).
        shift_s: of the second train in s.
        pairs: number of pairs for each share.

    Returns:
        Estimates, shape (3, pairs).
    """
    rng = np.random.default_rng(17)
    duration_s = quality.recording_duration(recording)
    start_s = min(recording.spike_times[0], recording.behavior_times[0])
    busy = np.flatnonzero(quality.firing_rates(recording) > 2)  # Hz
    of_share = []
    for share in SHARES:
        found = []
        for _ in range(pairs):
            a, b = (train(recording, unit) for unit in rng.choice(busy, 2, replace=False))
            b = np.sort((b - start_s + shift_s) % duration_s + start_s)
            n_a = min(len(a), len(b) * (1 - share) / share)
            n_b = min(len(b), len(a) * share / (1 - share))
            from_a = rng.choice(a, int(n_a), replace=False)
            from_b = rng.choice(b, int(n_b), replace=False)
            found.append(estimate(np.sort(np.concatenate([from_a, from_b]))))
        of_share.append(found)
    return np.array(of_share)


def bootstrap(decoded: list, group: np.ndarray, draws: int = 1000) -> np.ndarray:
    """95 % interval of R², the mean of the seeds, over groups drawn with replacement, chapter 13.

    Args:
        decoded: what each seed decoded of the same T samples, from `evaluate`.
        group: number of the trial of each sample, shape (T,); a trial is drawn as a whole.
        draws: how often as many trials are drawn as there are.

    Returns:
        Low and high R², shape (2,).
    """
    _, group = np.unique(group, return_inverse=True)
    n, rng = group.max() + 1, np.random.default_rng(0)
    true = decoded[0].true
    varies = true.std(0) > 0
    error = np.mean([(true - d.decoded) ** 2 for d in decoded], 0)  # (T, C): R² is linear in it
    spread = (true - true.mean(0)) ** 2
    e, s = (
        np.stack([np.bincount(group, x) for x in both.T[varies]], 1) for both in (error, spread)
    )  # (n, C)
    drawn = (rng.integers(0, n, n) for _ in range(draws))
    return np.quantile([(1 - e[j].sum(0) / s[j].sum(0)).mean() for j in drawn], (0.025, 0.975))
