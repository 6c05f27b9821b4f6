"""The drawings of chapter 10: a recording with its behaviour, a unit's tuning, a ragged batch."""

from collections.abc import Callable, Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from possm_course.chapters.ch10.reach_counts import fit_cosine
from possm_course.diagrams import Diagram
from possm_course.style import BLUE, GRAY, INK, ORANGE, SKY
from possm_course.widgets import copies
from possm_lite.recordings import Recording, SpikeBatch

# about the width of the figure in pixels: of a line with twice as many, every second is drawn
MAX_POINTS = 600
# of the first columns of behaviour
LINES = ({"color": ORANGE, "ls": "-"}, {"color": BLUE, "ls": "--"}, {"color": INK, "ls": ":"})


def make_draw(
    recording: Recording,
    order: np.ndarray | None = None,
    row_ticks: Mapping[str, float] | None = None,
    label="unit",
) -> Callable[..., Figure]:
    """Prepares the raster of a recording: spikes above, behaviour below, trial starts in grey.

    Args:
        recording: what is drawn.
        order: units from the lowest row to the highest, a permutation of 0 ... U-1, shape (U,).
        row_ticks: tick label to row.
        label: of the axis of units.

    Returns:
        draw(start, length) -> Figure of the window [start, start + length), both in s.
    """
    if order is None:
        order = np.arange(recording.n_units)
    row = np.argsort(order)[recording.spike_units]  # (N,)
    copy = copies(*_panels(recording, row_ticks, label))

    def draw(start: float, length: float) -> Figure:
        """The spikes of all units within a window, and the velocity of the hand below."""
        figure, (spikes, hand) = copy()
        stop = start + length
        first, end = np.searchsorted(recording.spike_times, (start, stop))
        times = recording.spike_times[first:end] - start
        spikes.plot(times, row[first:end], "|", color=INK, ms=3.2, mew=0.8)
        written = f"{end - first:,} spikes in {length:.2f} s"
        figure.text(0.155, 0.955, written, color=INK, va="center")

        first, end = np.searchsorted(recording.behavior_times, (start, stop))
        thinned = slice(first, end, max(1, (end - first) // MAX_POINTS))
        times = recording.behavior_times[thinned] - start
        for values, line in zip(recording.behavior[thinned].T, LINES, strict=False):
            hand.plot(times, values, lw=1.6, **line)

        for axes in (spikes, hand):
            axes.set_xlim(0, length)
            for trial_start in recording.trials[:, 0]:
                if start <= trial_start < stop:
                    axes.axvline(trial_start - start, color=GRAY, lw=1.2, ls="--")
        for share, side in ((0, "left"), (0.5, "center"), (1, "right")):
            at = 0.155 + 0.825 * share
            written = f"{start + share * length:.2f}"
            figure.text(at, 0.1, written, fontsize=10, ha=side, va="top")
        return figure

    return draw


def _panels(recording: Recording, row_ticks: Mapping[str, float] | None, label: str) -> list[Axes]:
    """The panels of spikes and of behaviour, with all that does not depend on the window."""
    n_units = recording.n_units
    figure = Figure(figsize=(7.2, 4.9))
    spikes = figure.add_axes((0.155, 0.385, 0.825, 0.545))
    spikes.set(ylim=(-1, n_units), ylabel=label, xticks=[])
    ticks = row_ticks or {"0": 0, str(n_units - 1): n_units - 1}
    spikes.set_yticks(list(ticks.values()), list(ticks))
    hand = figure.add_axes((0.155, 0.115, 0.825, 0.235))
    hand.set(xticks=[], ylabel=f"{recording.behavior_name}\n({recording.behavior_unit})")
    largest = 1.05 * float(np.abs(recording.behavior).max()) or 1.0
    hand.set_ylim(-largest, largest)
    hand.locator_params(axis="y", nbins=4)
    hand.set_xlabel("time in the session (s)", labelpad=16)  # space for the times of the window
    above = {"lw": 2, "transform": figure.transFigure, "clip_on": False}
    for x, name, line in zip((0.70, 0.80, 0.90), recording.behavior_columns, LINES, strict=False):
        hand.plot([x, x + 0.037], [0.955, 0.955], **above, **line)
        figure.text(x + 0.045, 0.955, name, color=INK, va="center")
    return [spikes, hand]


def draw_tuning(
    counts: np.ndarray, direction: np.ndarray, unit: int, preferred: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draws a unit's counts with the cosine fitted to them, and all units' variance against mean.

    Args:
        counts: spikes in each reach, shape (R, U).
        direction: of each reach, in rad, shape (R,).
        unit: number of the unit on the left.
        preferred: preferred directions in truth, in rad, shape (U,).

    Returns:
        Of all units the preferred direction of the fit, in rad, and the Fano factor, shape (U,).
    """
    (_, x, y), expected = fit_cosine(counts, direction)
    fano = ((counts - expected) ** 2).sum(0) / counts.sum(0)
    _, (left, right) = plt.subplots(
        1, 2, figsize=(6.8, 3.1), width_ratios=(1.25, 1), layout="constrained"
    )
    _draw_cosine(left, counts[:, unit], direction, unit)
    left.axvline(np.degrees(preferred[unit]), color=BLUE, ls=":", label="preferred, in truth")
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=9)
    _draw_variances(right, counts, direction)
    return np.arctan2(y, x), fano


def _draw_cosine(axes: Axes, counts: np.ndarray, direction: np.ndarray, unit: int) -> None:
    """Counts (R,) of a unit over direction (R,), and the cosine plus and minus its square root."""
    b, x, y = fit_cosine(counts[:, None], direction)[0][:, 0]
    theta = np.linspace(-np.pi, np.pi, 200)
    curve = b + x * np.cos(theta) + y * np.sin(theta)
    spread = np.sqrt(np.maximum(curve, 0))
    axes.fill_between(
        np.degrees(theta), curve - spread, curve + spread, color=SKY, alpha=0.35, lw=0
    )
    jitter = np.random.default_rng(0)
    at = np.degrees(direction) + jitter.uniform(-9, 9, len(direction))
    height = counts + jitter.uniform(-0.15, 0.15, len(direction))
    axes.plot(at, height, ".", color=GRAY, ms=5)
    axes.plot(np.degrees(theta), curve, color=ORANGE, lw=2.2, label="cosine, ± √ of it")
    axes.set_xlabel("direction of the reach (°)")
    axes.set_ylabel(f"spikes of unit {unit} in 200 ms")
    axes.set_xticks(range(-180, 181, 90))


def _draw_variances(axes: Axes, counts: np.ndarray, direction: np.ndarray) -> None:
    """Variance against mean of the counts (R, U) of each unit in each direction."""
    means, variances = [], []
    for angle in np.unique(direction.round(6)):
        group = counts[np.isclose(direction, angle)]
        if len(group):
            means.append(group.mean(0))
            variances.append(group.var(0, ddof=1))
    mean = np.concatenate(means)
    variance = np.concatenate(variances)
    axes.loglog(mean[mean > 0], variance[mean > 0], ".", color=GRAY, ms=4)
    ends = np.array([0.04, 8])
    axes.plot(ends, ends, "--", color=INK, lw=1.6, label="Poisson, $F = 1$")
    axes.set(xlabel="mean count", ylabel="variance of the count")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=9)


def draw_list(batch: SpikeBatch) -> Figure:
    """Draws the three lists of a small ragged batch, with a line where a trial begins.

    Args:
        batch: a few spikes of a few trials.

    Returns:
        The figure: unit, offset in ms and bin of each token; the columns of blank tokens are blue.
    """
    offset_ms = (1000 * batch.offset).round().long()
    values = [batch.unit.tolist(), offset_ms.tolist(), batch.bin.tolist()]
    blank = [[float(unit == 0) for unit in values[0]]] * 3
    diagram = Diagram(16, 4.0)
    grid = diagram.matrix(9.0, 2.0, 3, len(batch.unit), "", values, blank, cell=(0.95, 0.75))
    for row, name in enumerate(("unit", "offset (ms)", "bin in the batch")):
        diagram.note(grid.cell(row, 0).left[0] - 0.2, grid.cell(row, 0).y, name, ha="right")
    first_bins = batch.first_bin().tolist()
    for trial, first in enumerate(first_bins):
        inside = np.flatnonzero(
            (batch.bin >= first) & (batch.bin < first + int(batch.n_bins[trial]))
        )
        begin, end = grid.cell(0, inside[0]), grid.cell(0, inside[-1])
        diagram.note((begin.x + end.x) / 2, 3.5, f"trial {trial}", weight="bold")
        if trial:
            diagram.axes.plot([begin.left[0]] * 2, [0.7, 3.3], color=INK, lw=2.4)
    return diagram.figure()
