"""Chapter 17: a recording as an NWB file in the layout of MC_Maze, faults to find, and the pictures of units."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from possm_course.style import BLUE, GRAY, INK, ORANGE
from possm_lite.recordings import Recording, quality
from possm_lite.recordings.recording import covered_trials
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig

TAU_S = quality.REFRACTORY_S
SHARES = (0.1, 0.25, 0.4)  # of foreign spikes, in `estimates`


def simulated() -> Recording:
    """The session of the chapter where there is no other."""
    return simulate_session(16, SimulationConfig(n_trials=240, n_units=80)).recording


def write_nwb(recording: Recording, path: str | Path):
    """Write spikes, behaviour as "hand_vel" and trials with pynwb; units get the numbers that NWB calls them by."""
    from pynwb import NWBHDF5IO, NWBFile, TimeSeries

    when = datetime(1970, 1, 1, tzinfo=timezone.utc)  # NWB requires a date
    file = NWBFile("Spikes and behaviour of possm-lite", "possm-lite", when, session_id=recording.session_id)
    times, unit = recording.behavior_times, recording.behavior_unit
    hand = TimeSeries(name="hand_vel", data=recording.behavior, unit=unit, timestamps=times)
    file.create_processing_module("behavior", recording.behavior_name).add(hand)
    for start, stop in recording.trials:
        file.add_trial(start_time=start, stop_time=stop)
    for i in range(recording.n_units):
        file.add_unit(spike_times=recording.spike_times[recording.spike_units == i], id=i)
    # of a list, hdmf would convert each number by itself
    file.units["spike_times"].target.transform(lambda numbers: np.array(numbers))
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def beginning(recording: Recording, seconds: float, first: float = 0.0) -> Recording:
    """These seconds of a recording, from `first` on, or all of it if it is no longer than that."""
    start, stop = recording.span
    if stop - start <= seconds:
        return recording
    low, high = start + first, start + first + seconds
    spikes, samples = ((low <= t) & (t < high) for t in (recording.spike_times, recording.behavior_times))
    return replace(
        recording,
        spike_times=recording.spike_times[spikes],
        spike_units=recording.spike_units[spikes],
        behavior_times=recording.behavior_times[samples],
        behavior=recording.behavior[samples],
        trials=recording.trials[(recording.trials[:, 0] >= low) & (recording.trials[:, 1] < high)],
        notes=(*recording.notes, f"Cut to {seconds:.0f} of {stop - start:.0f} s."),
    )


def spoiled(recording: Recording) -> tuple[Recording, dict[str, int]]:
    """A copy with four faults, and the units that have them; with fewer than four units that fire, none is doubled."""
    draw = np.random.default_rng(0)
    n_firing = len(np.unique(recording.spike_units))
    ranked = np.argsort(-quality.firing_rates(recording))[:n_firing]  # units that fire, the busiest first
    merged, silent = ranked[0], ranked[max(n_firing // 2, min(3, n_firing - 1))]
    times, units = recording.spike_times, recording.spike_units.copy()
    units[units == silent] = merged
    victims = {"merged": merged, "silent": silent}
    if n_firing > 3:
        doubled, copy = ranked[1:3]
        victims |= {"doubled": doubled, "its copy": copy}
        twice = times[units == doubled]
        twice = twice[draw.random(len(twice)) < 0.9]
        twice = twice + draw.normal(0, 0.0002, len(twice))
        times = np.r_[times[units != copy], twice]
        units = np.r_[units[units != copy], np.full(len(twice), copy)]
    order = np.argsort(times, kind="stable")

    first, last = recording.span
    lost = np.abs(recording.behavior_times - first - 0.42 * (last - first)) < 0.02 * (last - first)
    behavior_times = recording.behavior_times[~lost]
    copy = replace(
        recording,
        spike_times=times[order],
        spike_units=units[order],
        behavior_times=behavior_times,
        behavior=recording.behavior[~lost],
        trials=recording.trials[covered_trials(recording.trials, behavior_times)],
    )
    return copy, victims


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
        "units with foreign spikes": f"{len(quality.contaminated_units(recording))}" if known else "?",
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


def draw_correlogram(axes, a, b, edges, duration_s, color, title):
    """Bars of (17.4), and the line of independent trains."""
    width = np.diff(edges)
    axes.bar(1e3 * edges[:-1], correlogram(a, b, edges), 1e3 * width, align="edge", color=color)
    axes.axhline(len(a) * len(b) * width[0] / duration_s, color=INK, lw=1.4, ls="--", label="independent")
    axes.set(xlabel="distance (ms)", xlim=(1e3 * edges[0], 1e3 * edges[-1]), ylabel="pairs")
    axes.set_title(title, fontsize=11)


def not_judged(axes, known: bool):
    """Say across the picture that spike times are too coarse for it."""
    if not known:
        look = {"ha": "center", "color": INK, "fontsize": 12, "bbox": {"color": "white"}}
        axes.text(0.5, 0.4, "not to be judged:\nspike times too coarse", transform=axes.transAxes, **look)


def draw_one_neuron(recording: Recording, broken: Recording, unit: int, known: bool):
    """Short intervals against rate, and the autocorrelogram of a unit in the recording and in the broken copy."""
    figure, panels = plt.subplot_mosaic([["dots"] * 2, ["clean", "merged"]], figsize=(6.4, 4.9), layout="constrained")
    axes = panels["dots"]
    r = np.geomspace(0.1, max(1.0, 1.5 * quality.firing_rates(broken).max()), 100)  # Hz
    for part, style, label in ((1, "-", "a crowd"), (0.5, "--", "two neurons, half and half")):
        axes.plot(r, 100 * part * -np.expm1(-r * TAU_S), style, color=GRAY, lw=1.6, label=label)
    if known:
        for one, units, marker, color, size, label in (
            (recording, slice(None), "o", BLUE, 4, "a unit of the recording"),
            (broken, unit, "*", ORANGE, 15, "the merged unit"),
        ):
            place = quality.firing_rates(one)[units], 100 * quality.isi_violations(one)[units]
            axes.plot(*place, marker, color=color, ms=size, label=label)
    axes.set(xscale="log", xlabel="rate (Hz)", ylabel="intervals < 2 ms (%)")
    axes.legend(loc="upper left", fontsize=9)
    edges = np.arange(-25, 26) / 1e3
    for name, one, color in (("clean", recording, BLUE), ("merged", broken, ORANGE)):
        a = train(one, unit)
        draw_correlogram(panels[name], a, a, edges, quality.recording_duration(one), color, f"{name} unit, with itself")
    for axes in panels.values():
        not_judged(axes, known)
    plt.show()


def draw_twice(recording: Recording, broken: Recording, pair: tuple[int, int] | None, known: bool):
    """Coincidences of all pairs against chance, and the cross-correlogram of a pair, as recorded and doubled."""
    figure, panels = plt.subplot_mosaic([["dots"] * 2, ["clean", "copy"]], figsize=(6.4, 4.9), layout="constrained")
    axes = panels["dots"]
    upper = np.triu_indices(recording.n_units, 1)
    for one, chosen, marker, color, size, label in (
        (recording, upper, ".", BLUE, 3, "two units of the recording"),
        (broken, pair, "*", ORANGE, 15, "a unit and its copy"),
    ):
        if chosen is None:  # fewer than four units fire
            continue
        n_spikes = np.bincount(one.spike_units, minlength=one.n_units)
        count, expected = (100 * quality.coincidence_share(x, n_spikes)[chosen] for x in quality.coincidences(one))
        axes.plot(expected, count, marker, color=color, ms=size, label=label)
    axes.set(xlabel="expected by chance (% of the sparser unit's spikes)", ylabel="coincidences (%)", ylim=(-3, 103))
    axes.legend(loc="center left", fontsize=9)
    edges = np.arange(-21, 22) / 4e3 - 1 / 8e3  # a bin of 0.25 ms around zero
    for name, one, color in (("clean", recording, BLUE), ("copy", broken, ORANGE)):
        a, b = (train(one, unit) for unit in pair or (0, 1))
        title = "two units" if name == "clean" else "a unit and its copy"
        draw_correlogram(panels[name], a, b, edges, quality.recording_duration(one), color, title)
    for axes in panels.values():
        not_judged(axes, known)
    plt.show()


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


def estimates(recording: Recording, estimate: Callable, shift_s: float = 0.0, pairs: int = 60) -> np.ndarray:
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
            n_a, n_b = min(len(a), len(b) * (1 - share) / share), min(len(b), len(a) * share / (1 - share))
            parts = [draw.choice(spikes, int(n), replace=False) for spikes, n in ((a, n_a), (b, n_b))]
            found.append(estimate(np.sort(np.concatenate(parts))))
        of_share.append(found)
    return np.array(of_share)


def draw_estimates(ways: dict[str, np.ndarray]):
    """Strips of the estimates, and their medians in print."""
    figure, axes = plt.subplots(figsize=(6.4, 2.9), layout="constrained")
    axes.plot([0, 0.5], [0, 0.5], ":", color=GRAY, lw=1.4)
    for i, ((name, found), color, marker) in enumerate(zip(ways.items(), (ORANGE, BLUE), "os", strict=False)):
        for share, values in zip(SHARES, found, strict=True):
            at = share + (-0.018, 0.018)[i]
            jitter = np.linspace(-0.012, 0.012, len(values))
            label = name if share == SHARES[0] else None
            axes.plot(at + jitter, values, marker, color=color, ms=3, alpha=0.5, label=label)
            axes.plot(at + np.array([-0.016, 0.016]), [np.median(values)] * 2, color=INK, lw=2)
            print(f"{name:22} true share {share:.2f}: median {np.median(values):.2f}")
    axes.set(xlabel="true share of foreign spikes", ylabel="estimated", xlim=(0, 0.5), ylim=(-0.02, 0.54))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plt.show()


def try_it(recording: Recording, estimate: Callable):
    """An estimate with the arguments of (17.10) beside (17.3), on units merged on purpose."""
    duration_s = quality.recording_duration(recording)
    ways = {"(17.3)": lambda t: from_rate(t, duration_s), "yours": lambda t: estimate(t, TAU_S, 0.02, 0.1)}
    draw_estimates({name: estimates(recording, way) for name, way in ways.items()})


def draw_reports(reports: dict[str, np.ndarray], interval: np.ndarray):
    """Rows of ways to report: seeds small, their mean large and printed; the first row with its interval."""
    reported = next(iter(reports.values())).mean()
    lowest = reported - 0.35
    figure, axes = plt.subplots(figsize=(6.4, 0.7 + 0.42 * len(reports)), layout="constrained")
    for height, (how, values) in enumerate(reports.items()):
        color = BLUE if how.startswith("Wiener") else ORANGE
        if (mean := values.mean()) < lowest:
            axes.annotate(
                "", (lowest, height), (lowest + 0.06, height), arrowprops={"arrowstyle": "->", "color": color}
            )
        else:
            axes.plot(values, np.full(len(values), height), "o", color=color, ms=4, alpha=0.5, mew=0)
            axes.plot(mean, height, "o", color=color, ms=9)
        axes.text(1.03, height, f"{mean:.2f}", va="center", transform=axes.get_yaxis_transform())
    axes.plot(interval, [0, 0], color=ORANGE, lw=5, alpha=0.35, solid_capstyle="butt")
    axes.axvline(reported, color=GRAY, lw=1.2, ls=":")
    axes.set_yticks(range(len(reports)), reports)
    highest = np.nanmax([*interval, *(v.max() for v in reports.values())])
    axes.set(xlabel="R²", ylim=(len(reports) - 0.5, -0.5), xlim=(lowest - 0.01, highest + 0.02))
    plt.show()
