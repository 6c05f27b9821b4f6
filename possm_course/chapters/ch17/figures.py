"""The drawings of chapter 17: one neuron or several, one neuron twice, estimates and reports."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np

from possm_course.chapters.ch17.measures import (
    SHARES,
    TAU_S,
    correlogram,
    estimates,
    from_rate,
    train,
)
from possm_course.style import BLUE, GRAY, INK, ORANGE, SKY
from possm_lite.recordings import Recording, quality


def draw_correlogram(axes, a, b, edges, duration_s, color, title):
    """Draws (17.4) as bars, and the line of independent trains.

    Args:
        axes: where to.
        a: spike times in s, shape (N_a,).
        b: spike times in s, shape (N_b,).
        edges: in s, evenly spaced, shape (K + 1,).
        duration_s: of the recording in s.
        color: of the bars.
        title: of the panel.
    """
    width = np.diff(edges)
    axes.bar(1e3 * edges[:-1], correlogram(a, b, edges), 1e3 * width, align="edge", color=color)
    independent = len(a) * len(b) * width[0] / duration_s
    axes.axhline(independent, color=INK, lw=1.4, ls="--", label="independent")
    axes.set(xlabel="distance (ms)", xlim=(1e3 * edges[0], 1e3 * edges[-1]), ylabel="pairs")
    axes.set_title(title, fontsize=11)


def not_judged(axes, known: bool):
    """Says across a picture that spike times are too coarse for it, where they are.

    Args:
        axes: the picture.
        known: whether spike times are known to the millisecond.
    """
    if not known:
        look = {"ha": "center", "color": INK, "fontsize": 12, "bbox": {"color": "white"}}
        axes.text(
            0.5, 0.4, "not to be judged:\nspike times too coarse", transform=axes.transAxes, **look
        )


def draw_one_neuron(recording: Recording, broken: Recording, unit: int, known: bool):
    """Draws short intervals against rate, and a unit's autocorrelogram in two recordings.

    Args:
        recording: as recorded; each unit is a dot.
        broken: a copy in which the unit is merged with another.
        unit: number of the unit.
        known: whether spike times are known to the millisecond.
    """
    _, panels = plt.subplot_mosaic(
        [["dots", "dots"], ["clean", "merged"]], figsize=(6.4, 4.9), layout="constrained"
    )
    axes = panels["dots"]
    broken_rates = quality.firing_rates(broken)
    r = np.geomspace(0.1, max(1.0, 1.5 * broken_rates.max()), 100)  # Hz
    short = -np.expm1(-r * TAU_S)  # share of the intervals of a crowd
    axes.plot(r, 100 * short, "-", color=GRAY, lw=1.6, label="a crowd")
    axes.plot(r, 50 * short, "--", color=GRAY, lw=1.6, label="two neurons, half and half")
    if known:
        clean = quality.firing_rates(recording), 100 * quality.isi_violations(recording)
        axes.plot(*clean, "o", color=BLUE, ms=4, label="a unit of the recording")
        merged = broken_rates[unit], 100 * quality.isi_violations(broken)[unit]
        axes.plot(*merged, "*", color=ORANGE, ms=15, label="the merged unit")
    axes.set(xscale="log", xlabel="rate (Hz)", ylabel="intervals < 2 ms (%)")
    axes.legend(loc="upper left", fontsize=9)
    edges = np.arange(-25, 26) / 1e3
    for name, one, color in (("clean", recording, BLUE), ("merged", broken, ORANGE)):
        times = train(one, unit)
        duration_s = quality.recording_duration(one)
        title = f"{name} unit, with itself"
        draw_correlogram(panels[name], times, times, edges, duration_s, color, title)
    for axes in panels.values():
        not_judged(axes, known)
    plt.show()


def draw_twice(recording: Recording, broken: Recording, pair: tuple[int, int] | None, known: bool):
    """Draws coincidences of all pairs against chance, and the cross-correlogram of one pair.

    Args:
        recording: as recorded; each pair is a dot.
        broken: a copy in which the second unit of the pair is a copy of the first.
        pair: numbers of the two units; None where fewer than four units fire.
        known: whether spike times are known to the millisecond.
    """
    figure, panels = plt.subplot_mosaic(
        [["dots"] * 2, ["clean", "copy"]], figsize=(6.4, 4.9), layout="constrained"
    )
    axes = panels["dots"]
    upper = np.triu_indices(recording.n_units, 1)
    for one, chosen, marker, color, size, label in (
        (recording, upper, ".", BLUE, 3, "two units of the recording"),
        (broken, pair, "*", ORANGE, 15, "a unit and its copy"),
    ):
        if chosen is None:  # fewer than four units fire
            continue
        n_spikes = np.bincount(one.spike_units, minlength=one.n_units)
        count, expected = (
            100 * quality.coincidence_share(x, n_spikes)[chosen] for x in quality.coincidences(one)
        )
        axes.plot(expected, count, marker, color=color, ms=size, label=label)
    axes.set(
        xlabel="expected by chance (% of the sparser unit's spikes)",
        ylabel="coincidences (%)",
        ylim=(-3, 103),
    )
    axes.legend(loc="center left", fontsize=9)
    edges = np.arange(-21, 22) / 4e3 - 1 / 8e3  # a bin of 0.25 ms around zero
    for name, one, color in (("clean", recording, BLUE), ("copy", broken, ORANGE)):
        a, b = (train(one, unit) for unit in pair or (0, 1))
        title = "two units" if name == "clean" else "a unit and its copy"
        draw_correlogram(panels[name], a, b, edges, quality.recording_duration(one), color, title)
    for axes in panels.values():
        not_judged(axes, known)
    plt.show()


def draw_estimates(ways: dict[str, np.ndarray]):
    """Draws estimates as strips over the true share, and prints their medians.

    Args:
        ways: name of one or two estimates to what they say, shape (3, pairs), from `estimates`.
    """
    _, axes = plt.subplots(figsize=(6.4, 2.9), layout="constrained")
    axes.plot([0, 0.5], [0, 0.5], ":", color=GRAY, lw=1.4)
    styles = ((ORANGE, "o", -0.018), (BLUE, "s", 0.018))
    for (name, found), (color, marker, beside) in zip(ways.items(), styles, strict=False):
        for share, values in zip(SHARES, found, strict=True):
            at = share + beside
            jitter = np.linspace(-0.012, 0.012, len(values))
            label = name if share == SHARES[0] else None
            axes.plot(at + jitter, values, marker, color=color, ms=3, alpha=0.5, label=label)
            axes.plot(at + np.array([-0.016, 0.016]), [np.median(values)] * 2, color=INK, lw=2)
            print(f"{name:22} true share {share:.2f}: median {np.median(values):.2f}")
    axes.set(xlabel="true share of foreign spikes", ylabel="estimated")
    axes.set(xlim=(0, 0.5), ylim=(-0.02, 0.54))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plt.show()


def try_it(recording: Recording, estimate: Callable):
    """Draws an estimate with the arguments of (17.9) beside (17.3), on units merged on purpose.

    Args:
        recording: whose units are merged.
        estimate: estimate(times, ...) with times in s and the three durations of (17.9) in s.
    """
    duration_s = quality.recording_duration(recording)
    ways = {
        "(17.3)": lambda t: from_rate(t, duration_s),
        "yours": lambda t: estimate(t, TAU_S, 0.02, 0.1),
    }
    draw_estimates({name: estimates(recording, way) for name, way in ways.items()})


def draw_lags(lags_ms, one_bin, asked, displayed):
    """Draws validation R² of Wiener filters against the lag; the best lag of each is large.

    Args:
        lags_ms: in ms, shape (n,).
        one_bin: R² asked of a filter that reads one bin, shape (n,).
        asked: R² asked of one that reads seven, shape (n,).
        displayed: R² displayed of the same, shape (n,).
    """
    _, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for scores, color, marker, label in (
        (one_bin, INK, "^", "one bin, asked"),
        (asked, BLUE, "s", "seven bins, asked"),
        (displayed, ORANGE, "o", "seven bins, displayed"),
    ):
        axes.plot(lags_ms, scores, color=color, marker=marker, ms=5, label=label)
        axes.plot(lags_ms[np.argmax(scores)], np.max(scores), marker, color=color, ms=11)
    axes.axvspan(lags_ms[0] - 15, 0, color="0.9", lw=0)
    axes.set(xlabel="lag (ms); grey: spikes of after the movement", ylabel="validation R²")
    highest, lowest = np.max(asked), min(np.min(displayed), np.min(one_bin))
    axes.set(xlim=(lags_ms[0] - 15, lags_ms[-1] + 15), ylim=(max(lowest, highest - 0.9), None))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=3, fontsize=9)
    plt.show()


def draw_thirds(lags_ms, found: dict):
    """Draws validation R² of one bin against the lag, in each third of two recordings.

    Args:
        lags_ms: in ms, shape (n,).
        found: name of a recording to R² of its thirds, shape (3, n).
    """
    _, panels = plt.subplots(1, 2, figsize=(6.4, 2.8), sharey=True, layout="constrained")
    looks = ((SKY, "o", "first third"), (BLUE, "s", "second third"), (INK, "D", "last third"))
    for axes, (name, scores) in zip(panels, found.items(), strict=True):
        for values, (color, marker, label) in zip(scores, looks, strict=True):
            axes.plot(lags_ms, values, color=color, marker=marker, ms=4, label=label)
        axes.set(xlabel="lag (ms)", title=name)
    panels[0].set_ylabel("validation R² of one bin")
    panels[0].legend(fontsize=9)
    plt.show()


def draw_reports(reports: dict[str, np.ndarray], interval: np.ndarray):
    """Draws a row for each way to report: seeds small, their mean large and printed.

    Args:
        reports: way to R² of the seeds; a mean that is far below the first is an arrow.
        interval: of the first row, low and high R².
    """
    first, *_ = reports.values()
    reported = first.mean()
    lowest = reported - 0.35
    _, axes = plt.subplots(figsize=(6.4, 0.7 + 0.42 * len(reports)), layout="constrained")
    for height, (how, values) in enumerate(reports.items()):
        color = BLUE if how.startswith("Wiener") else ORANGE
        mean = values.mean()
        if mean < lowest:
            arrow = {"arrowstyle": "->", "color": color}
            axes.annotate("", (lowest, height), (lowest + 0.06, height), arrowprops=arrow)
        else:
            heights = np.full(len(values), height)
            axes.plot(values, heights, "o", color=color, ms=4, alpha=0.5, mew=0)
            axes.plot(mean, height, "o", color=color, ms=9)
        axes.text(1.03, height, f"{mean:.2f}", va="center", transform=axes.get_yaxis_transform())
    axes.plot(interval, [0, 0], color=ORANGE, lw=5, alpha=0.35, solid_capstyle="butt")
    axes.axvline(reported, color=GRAY, lw=1.2, ls=":")
    axes.set_yticks(range(len(reports)), reports)
    best = [values.max() for values in reports.values()]
    highest = np.nanmax([*interval, *best])
    axes.set(xlabel="R²", ylim=(len(reports) - 0.5, -0.5), xlim=(lowest - 0.01, highest + 0.02))
    plt.show()
