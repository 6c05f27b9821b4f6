"""What chapter 17 measures of the units of a recording: rates, correlograms, foreign spikes."""

from collections.abc import Callable

import numpy as np

from possm_lite.recordings import Recording, quality

TAU_S = quality.REFRACTORY_S
SHARES = (0.1, 0.25, 0.4)  # of foreign spikes, in `estimates`


def rates_in(recording: Recording, edges) -> np.ndarray:
    """Rate of each unit between the edges, in Hz: (U, n)."""
    unit_edges = np.arange(recording.n_units + 1) - 0.5
    counts, *_ = np.histogram2d(recording.spike_units, recording.spike_times, [unit_edges, edges])
    return counts / np.diff(edges)


def card(recording: Recording, known: bool) -> dict[str, str]:
    """What the measures find, as lines of text; `known`: spike times are known to the millisecond."""
    rates, gaps = quality.firing_rates(recording), quality.behavior_gaps(recording)
    return {
        "units, silent ones": f"{recording.n_units}, {len(quality.silent_units(recording))}",
        "rate (Hz): median, fastest": f"{np.median(rates):.1f}, {rates.max():.1f}",
        "units with foreign spikes": f"{len(quality.contaminated_units(recording))}"
        if known
        else "?",
        "pairs of duplicates": f"{len(quality.duplicated_units(recording))}" if known else "?",
        "gaps of behaviour: number, s": f"{len(gaps)}, {np.diff(gaps).sum():.1f}",
        "trials": f"{len(recording.trials)}",
    }


def train(recording: Recording, unit: int) -> np.ndarray:
    return recording.spike_times[recording.spike_units == unit]


def correlogram(a: np.ndarray, b: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Pairs of spikes with edges_k <= t_b - t_a < edges_k+1, (K,); of a spike with itself none, if b is a.      (17.4)

    Independent trains of N_a and N_b spikes in T seconds have N_a N_b / T of them a second of distance.
    """
    count = np.diff([np.searchsorted(b, a + edge).sum() for edge in edges])
    if b is a:
        count[np.searchsorted(edges, 0, side="right") - 1] -= len(a)
    return count


def pieces_of(intervals, longest_s: float = 5.0) -> np.ndarray:
    """The trials, (n, 2); a stretch that is longer than 20 s is no trial, and is cut up."""
    cut = []
    for a, b in intervals:
        starts = np.arange(a, b - longest_s / 2, longest_s) if b - a > 20 else np.array([a])
        cut.append(np.stack([starts, np.append(starts[1:], b)], 1))
    return np.concatenate(cut)


def from_rate(times: np.ndarray, duration_s: float) -> float:
    """(17.3) of one train."""
    ratio = np.mean(np.diff(times) < TAU_S) / -np.expm1(-len(times) / duration_s * TAU_S)
    return (1 - np.sqrt(max(1 - 2 * ratio, 0))) / 2


def estimates(
    recording: Recording, estimate: Callable, shift_s: float = 0.0, pairs: int = 60
) -> np.ndarray:
    """What `estimate` says of random units merged in pairs, for every share of foreign spikes: (3, pairs).

    The second train is shifted by `shift_s` around the end of the recording: its rate stays, common changes go.
    """
    draw, of_share = np.random.default_rng(17), []
    duration_s = quality.recording_duration(recording)
    start_s = min(recording.spike_times[0], recording.behavior_times[0])
    busy = np.flatnonzero(quality.firing_rates(recording) > 2)  # Hz
    for share in SHARES:
        found = []
        for _ in range(pairs):
            a, b = (train(recording, unit) for unit in draw.choice(busy, 2, replace=False))
            b = np.sort((b - start_s + shift_s) % duration_s + start_s)
            n_a, n_b = (
                min(len(a), len(b) * (1 - share) / share),
                min(len(b), len(a) * share / (1 - share)),
            )
            parts = [
                draw.choice(spikes, int(n), replace=False) for spikes, n in ((a, n_a), (b, n_b))
            ]
            found.append(estimate(np.sort(np.concatenate(parts))))
        of_share.append(found)
    return np.array(of_share)
