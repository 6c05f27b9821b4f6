"""Spike raster and behaviour in a window of a recording (chapter 10)."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.figure import Figure

from possm_lite.course.style import BLUE, GRAY, INK, ORANGE
from possm_lite.course.widgets import copies
from possm_lite.recordings import Recording

MAX_POINTS = 600  # about the width of the figure in pixels: of a line with twice as many, every second is drawn
# of the first columns of behaviour
LINES = ({"color": ORANGE, "ls": "-"}, {"color": BLUE, "ls": "--"}, {"color": INK, "ls": ":"})


def make_draw(
    recording: Recording, order: np.ndarray | None = None, row_ticks: Mapping[str, float] | None = None, label="unit"
) -> Callable[..., Figure]:
    """draw(start, length) -> Figure, both in s: spikes (top), behaviour (bottom), grey lines where a trial starts.

    `order`: units from the lowest row to the highest, a permutation of 0 ... U-1, (U,); `row_ticks`: tick label -> row.
    """
    n_units = recording.n_units
    row = np.argsort(np.arange(n_units) if order is None else order)[recording.spike_units]  # (N,)

    figure = Figure(figsize=(7.2, 4.9))
    ticks = row_ticks or {"0": 0, str(n_units - 1): n_units - 1}
    spikes = figure.add_axes((0.155, 0.385, 0.825, 0.545), ylim=(-1, n_units), ylabel=label, xticks=[])
    spikes.set_yticks(list(ticks.values()), list(ticks))
    hand = figure.add_axes(
        (0.155, 0.115, 0.825, 0.235), xticks=[], ylabel=f"{recording.behavior_name}\n({recording.behavior_unit})"
    )
    largest = 1.05 * float(np.abs(recording.behavior).max()) or 1.0
    hand.set_ylim(-largest, largest)
    hand.locator_params(axis="y", nbins=4)
    hand.set_xlabel("time in the session (s)", labelpad=16)  # space for the times of the window
    for x, name, line in zip((0.70, 0.80, 0.90), recording.behavior_columns, LINES, strict=False):
        hand.plot([x, x + 0.037], [0.955, 0.955], lw=2, transform=figure.transFigure, clip_on=False, **line)
        figure.text(x + 0.045, 0.955, name, color=INK, va="center")
    copy = copies(spikes, hand)

    def draw(start: float, length: float) -> Figure:
        figure, (spikes, hand) = copy()
        stop = start + length
        first, end = np.searchsorted(recording.spike_times, (start, stop))
        spikes.plot(recording.spike_times[first:end] - start, row[first:end], "|", color=INK, ms=3.2, mew=0.8)
        figure.text(0.155, 0.955, f"{end - first:,} spikes in {length:.2f} s", color=INK, va="center")

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
            figure.text(0.155 + 0.825 * share, 0.1, f"{start + share * length:.2f}", fontsize=10, ha=side, va="top")
        return figure

    return draw
