"""Spike raster and velocity in a window of a recording (chapter 10).

Labels and ticks of the y axes never change, so they are drawn once, into a background.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...spikes import Recording
from ..style import BLUE, GRAY, INK, ORANGE
from ..widgets import pixels

SIZE = (7.2, 4.9)  # inches
PANELS = ((0.155, 0.385, 0.825, 0.545), (0.155, 0.115, 0.825, 0.235))  # spikes, hand
MAX_POINTS = 600  # of a velocity line, about the width of the figure in pixels


def make_draw(
    recording: Recording, order: np.ndarray | None = None, row_ticks: Mapping[str, float] | None = None, label="unit"
) -> Callable[..., Figure]:
    """A function that draws the spikes and the velocity between `start` and `start + length`.

    Args:
        recording: U units.
        order: the units from the lowest row to the highest, a permutation of 0 ... U-1, shape (U,).
        row_ticks: tick label -> row, for the y axis of the spikes.
        label: of that axis.

    Returns:
        draw(start, length) -> Figure, both in s: spikes (top), velocity (bottom), grey lines where a trial starts.
    """
    order = np.arange(recording.n_units) if order is None else np.asarray(order)
    row = np.argsort(order)[recording.spike_units]  # (N,)
    top_speed = 1.05 * float(np.abs(recording.velocity).max()) or 1.0
    background = _background(recording, top_speed, row_ticks, label)

    def draw(start: float, length: float) -> Figure:
        figure = Figure(figsize=SIZE)
        figure.figimage(background, zorder=-1)
        spikes, hand = _panels(figure, recording.n_units, top_speed)
        first, end = np.searchsorted(recording.spike_times, (start, start + length))
        time_s, shown = recording.spike_times[first:end] - start, row[first:end]
        spikes.plot(time_s, shown, "|", color=INK, ms=3.2, mew=0.8)
        _draw_hand(hand, recording, start, length)
        for axes in (spikes, hand):
            axes.set_xlim(0, length)
            axes.set_axis_off()
            for trial_start in recording.trials[:, 0]:
                if start <= trial_start < start + length:
                    axes.axvline(trial_start - start, color=GRAY, lw=1.2, ls="--")
        _write_window(figure, start, length, end - first)
        return figure

    return draw


def _panels(figure: Figure, n_units: int, top_speed: float) -> list[Axes]:
    """Two empty panels with their y limits, the same in the background and in the figure."""
    spikes, hand = (figure.add_axes(rectangle) for rectangle in PANELS)
    spikes.set_ylim(-1, n_units)
    hand.set_ylim(-top_speed, top_speed)
    return [spikes, hand]


def _background(
    recording: Recording, top_speed: float, row_ticks: Mapping[str, float] | None, label: str
) -> np.ndarray:
    """Everything that does not change, as pixels (height, width, 4)."""
    figure = Figure(figsize=SIZE)
    spikes, hand = _panels(figure, recording.n_units, top_speed)
    ticks = row_ticks or {"0": 0, str(recording.n_units - 1): recording.n_units - 1}
    spikes.set_yticks(list(ticks.values()), list(ticks))
    spikes.set_ylabel(label, fontsize=11)
    hand.set_ylabel(f"velocity\n({recording.velocity_unit})", fontsize=11)
    hand.yaxis.get_major_locator().set_params(nbins=4)
    hand.set_xlabel("time in the session (s)", fontsize=11)
    hand.xaxis.labelpad = 16  # space for the times, written by _write_window
    for axes in (spikes, hand):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xticks([])
    for x, text, color, style in ((0.70, "x", ORANGE, "-"), (0.80, "y", BLUE, "--")):
        figure.add_artist(Line2D([x, x + 0.037], [0.955, 0.955], color=color, ls=style, lw=2))
        figure.text(x + 0.045, 0.955, text, color=INK, fontsize=11, va="center")
    return pixels(figure)


def _draw_hand(axes: Axes, recording: Recording, start: float, length: float) -> None:
    first, end = np.searchsorted(recording.behavior_times, (start, start + length))
    thinned = slice(first, end, max(1, (end - first) // MAX_POINTS))
    for i, (color, style) in enumerate(((ORANGE, "-"), (BLUE, "--"))):
        axes.plot(
            recording.behavior_times[thinned] - start, recording.velocity[thinned, i], color=color, ls=style, lw=1.6
        )


def _write_window(figure: Figure, start: float, length: float, n_spikes: int) -> None:
    """Three times below the panels, and the number of spikes in the window."""
    left, bottom, width, _ = PANELS[1]
    for share, side in ((0, "left"), (0.5, "center"), (1, "right")):
        figure.text(
            left + share * width, bottom - 0.015, f"{start + share * length:.2f}", fontsize=10, ha=side, va="top"
        )
    figure.text(left, 0.955, f"{n_spikes:,} spikes in {length:.2f} s", fontsize=11, color=INK, va="center")
