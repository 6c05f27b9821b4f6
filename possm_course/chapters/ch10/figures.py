"""The drawings of chapter 10: the raster of a recording with its behaviour, and the tuning of a unit."""

from collections.abc import Callable, Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from possm_course.chapters.ch10.reach_counts import fit_cosine
from possm_course.style import BLUE, GRAY, INK, ORANGE, SKY
from possm_course.widgets import copies
from possm_lite.recordings import Recording

MAX_POINTS = 600  # about the width of the figure in pixels: of a line with twice as many, every second is drawn
# of the first columns of behaviour
LINES = ({"color": ORANGE, "ls": "-"}, {"color": BLUE, "ls": "--"}, {"color": INK, "ls": ":"})


def make_draw(
    recording: Recording,
    order: np.ndarray | None = None,
    row_ticks: Mapping[str, float] | None = None,
    label="unit",
) -> Callable[..., Figure]:
    """draw(start, length) -> Figure, both in s: spikes (top), behaviour (bottom), grey lines where a trial starts.

    `order`: units from the lowest row to the highest, a permutation of 0 ... U-1, (U,); `row_ticks`: tick label -> row.
    """
    n_units = recording.n_units
    row = np.argsort(np.arange(n_units) if order is None else order)[recording.spike_units]  # (N,)

    figure = Figure(figsize=(7.2, 4.9))
    ticks = row_ticks or {"0": 0, str(n_units - 1): n_units - 1}
    spikes = figure.add_axes(
        (0.155, 0.385, 0.825, 0.545), ylim=(-1, n_units), ylabel=label, xticks=[]
    )
    spikes.set_yticks(list(ticks.values()), list(ticks))
    hand = figure.add_axes(
        (0.155, 0.115, 0.825, 0.235),
        xticks=[],
        ylabel=f"{recording.behavior_name}\n({recording.behavior_unit})",
    )
    largest = 1.05 * float(np.abs(recording.behavior).max()) or 1.0
    hand.set_ylim(-largest, largest)
    hand.locator_params(axis="y", nbins=4)
    hand.set_xlabel("time in the session (s)", labelpad=16)  # space for the times of the window
    for x, name, line in zip((0.70, 0.80, 0.90), recording.behavior_columns, LINES, strict=False):
        hand.plot(
            [x, x + 0.037],
            [0.955, 0.955],
            lw=2,
            transform=figure.transFigure,
            clip_on=False,
            **line,
        )
        figure.text(x + 0.045, 0.955, name, color=INK, va="center")
    copy = copies(spikes, hand)

    def draw(start: float, length: float) -> Figure:
        """The spikes of all units within a window, and the velocity of the hand below."""
        figure, (spikes, hand) = copy()
        stop = start + length
        first, end = np.searchsorted(recording.spike_times, (start, stop))
        spikes.plot(
            recording.spike_times[first:end] - start,
            row[first:end],
            "|",
            color=INK,
            ms=3.2,
            mew=0.8,
        )
        figure.text(
            0.155, 0.955, f"{end - first:,} spikes in {length:.2f} s", color=INK, va="center"
        )

        first, end = np.searchsorted(recording.behavior_times, (start, stop))
        thinned = slice(first, end, max(1, (end - first) // MAX_POINTS))
        for values, line in zip(recording.behavior[thinned].T, LINES, strict=False):
            hand.plot(recording.behavior_times[thinned] - start, values, lw=1.6, **line)

        for axes in (spikes, hand):
            axes.set_xlim(0, length)
            for trial_start in recording.trials[:, 0]:
                if start <= trial_start < stop:
                    axes.axvline(trial_start - start, color=GRAY, lw=1.2, ls="--")
        for share, side in ((0, "left"), (0.5, "center"), (1, "right")):
            figure.text(
                0.155 + 0.825 * share,
                0.1,
                f"{start + share * length:.2f}",
                fontsize=10,
                ha=side,
                va="top",
            )
        return figure

    return draw


def draw_tuning(
    counts: np.ndarray, direction: np.ndarray, unit: int, preferred: np.ndarray
) -> tuple:
    """One unit's counts with its cosine, and variance against mean; of all units direction found, Fano factor, (U,)."""
    (_, x, y), expected = fit_cosine(counts, direction)
    fano = ((counts - expected) ** 2).sum(0) / counts.sum(0)
    theta = np.linspace(-np.pi, np.pi, 200)
    (b, x_u, y_u), jitter = (
        fit_cosine(counts[:, [unit]], direction)[0][:, 0],
        np.random.default_rng(0),
    )
    curve = b + x_u * np.cos(theta) + y_u * np.sin(theta)

    _, (left, right) = plt.subplots(
        1, 2, figsize=(6.8, 3.1), width_ratios=(1.25, 1), layout="constrained"
    )
    spread = np.sqrt(np.maximum(curve, 0))
    left.fill_between(
        np.degrees(theta), curve - spread, curve + spread, color=SKY, alpha=0.35, lw=0
    )
    left.plot(
        np.degrees(direction) + jitter.uniform(-9, 9, len(direction)),
        counts[:, unit] + jitter.uniform(-0.15, 0.15, len(direction)),
        ".",
        color=GRAY,
        ms=5,
    )
    left.plot(np.degrees(theta), curve, color=ORANGE, lw=2.2, label="cosine, ± √ of it")
    left.axvline(np.degrees(preferred[unit]), color=BLUE, ls=":", label="preferred, in truth")
    left.set(
        xlabel="direction of the reach (°)",
        ylabel=f"spikes of unit {unit} in 200 ms",
        xticks=range(-180, 181, 90),
    )
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=9)

    groups = [
        counts[np.isclose(direction, a)]
        for a in np.unique(direction.round(6))
        if np.isclose(direction, a).any()
    ]
    mean, variance = (
        np.stack([f(g) for g in groups]).ravel()
        for f in (lambda g: g.mean(0), lambda g: g.var(0, ddof=1))
    )
    right.loglog(mean[mean > 0], variance[mean > 0], ".", color=GRAY, ms=4)
    ends = np.array([0.04, 8])
    right.plot(ends, ends, "--", color=INK, lw=1.6, label="Poisson, $F = 1$")
    right.set(xlabel="mean count", ylabel="variance of the count")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=9)
    return np.arctan2(y, x), fano
