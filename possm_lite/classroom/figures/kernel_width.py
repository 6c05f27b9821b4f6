"""Data, kernel, estimate, weight matrix and leave-one-out error of kernel regression (chapter 01).

Ticks and labels take most of matplotlib's time and never change. So they are drawn once, into a background.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...blocks.kernels import Kernel, gaussian, leave_one_out_error, nadaraya_watson
from ..style import BLUE, GRAY, INK, ORANGE
from ..widgets import pixels

SIZE = (7.2, 5.4)  # inches
PANELS = ((0.115, 0.6, 0.85, 0.38), (0.115, 0.11, 0.33, 0.36), (0.7, 0.11, 0.265, 0.36))  # points, weights, error
BAR = (0.455, 0.11, 0.018, 0.36)
N_QUERIES = 121
N_WIDTHS = 80


def make_draw(
    x_i: Tensor,
    y_i: Tensor,
    x_range: tuple[float, float],
    w_range: tuple[float, float],
    kernel: Kernel = gaussian,
    units: tuple[str, str] = ("s", "mm/s"),
) -> Callable[..., Figure]:
    """A function that draws the kernel regression of the points for one w, with the kernel at one query.

    Args:
        x_i, y_i: the points, shapes (M,).
        x_range: first and last query.
        w_range: smallest and largest w, the ends of the error curve.
        kernel: K(u).
        units: of x and of y, for the labels.

    Returns:
        draw(w, query) -> Figure: estimate (top), weights (bottom left), root of the leave-one-out error (bottom right).
    """
    order = x_i.argsort()
    x_i, y_i = x_i[order], y_i[order]
    w_grid = torch.logspace(*np.log10(w_range).tolist(), N_WIDTHS, dtype=x_i.dtype)
    errors = torch.stack([leave_one_out_error(x_i, y_i, w, kernel) for w in w_grid]).sqrt()  # (N_WIDTHS,)
    x = torch.linspace(*x_range, N_QUERIES, dtype=x_i.dtype)
    background = _background(x, x_i, y_i, w_grid, errors, units)

    def draw(w: float, query: float) -> Figure:
        figure = Figure(figsize=SIZE)
        figure.figimage(background, zorder=-1)
        points, matrix, error = _panels(figure, x, x_i, y_i, w_grid, errors)
        for axes in (points, matrix, error):
            axes.set_axis_off()
        estimate, weights = nadaraya_watson(x, x_i, y_i, w, kernel)  # (Q,), (Q, M)
        at_query, share = nadaraya_watson(x.new_tensor([query]), x_i, y_i, w, kernel)  # (1,), (1, M)
        _draw_kernel(points, w, query, kernel)
        points.scatter(x_i, y_i, s=10 + 240 * share[0], c=GRAY, edgecolors=INK, linewidths=0.6)  # area: weight
        points.plot(x, estimate, color=BLUE, lw=2)
        points.plot([query, query], [points.get_ylim()[0], at_query.item()], color=ORANGE, lw=1, ls="--")
        points.plot(query, at_query.item(), "D", color=ORANGE, ms=7)
        _draw_weights(figure, matrix, weights, query)
        error.plot(w, leave_one_out_error(x_i, y_i, w, kernel).sqrt().item(), "D", color=ORANGE, ms=8)
        return figure

    return draw


def _panels(figure: Figure, x, x_i, y_i, w_grid, errors) -> list:
    """Three empty panels with their limits, the same in the background and in the figure."""
    points, matrix, error = (figure.add_axes(rectangle) for rectangle in PANELS)
    low, high = y_i.min().item(), y_i.max().item()
    height = (high - low) or 1.0
    points.set(
        xlim=(x[0].item(), x[-1].item()), ylim=(low - 0.45 * height, high + 0.08 * height)
    )  # the kernel is below
    matrix.set(xlim=(0.5, len(x_i) + 0.5), ylim=(x[-1].item(), x[0].item()))  # first query in the first row
    error.set(xscale="log", xlim=(w_grid[0].item() / 1.2, w_grid[-1].item() * 1.2))
    error.set_ylim(0, 1.1 * errors.max().item() or 1.0)
    return [points, matrix, error]


def _background(x, x_i, y_i, w_grid, errors, units) -> np.ndarray:
    """Everything that does not change, as pixels (height, width, 4)."""
    figure = Figure(figsize=SIZE)
    points, matrix, error = _panels(figure, x, x_i, y_i, w_grid, errors)
    points.set(xlabel=f"x ({units[0]})", ylabel=f"y ({units[1]})")
    matrix.set(xlabel="point, in order of x", ylabel=f"query x ({units[0]})", xticks=[1, len(x_i)])
    error.set(xlabel=f"w (1/{units[0]})", ylabel=f"leave-one-out\nerror ({units[1]})")
    error.plot(w_grid, errors, color=BLUE, lw=2)
    error.minorticks_off()
    bar = figure.add_axes(BAR)
    bar.imshow(np.linspace(1, 0, 64)[:, None], aspect="auto", cmap="cividis")
    bar.set(xticks=[], yticks=[])
    figure.text(BAR[0] + 0.023, BAR[1], "0", fontsize=10, va="bottom", color=INK)
    figure.text(BAR[0] + 0.026, BAR[1] + BAR[3] / 2, "weight", fontsize=11, va="center", rotation=90, color=INK)
    for axes in (points, matrix, error):
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.label.set_size(11)
        axes.yaxis.label.set_size(11)
    for axis in (points.xaxis, points.yaxis, matrix.yaxis, error.yaxis):
        axis.get_major_locator().set_params(nbins=5)
    shown = (y_i.min(), points.get_ylim()[1])  # no ticks beside the kernel, whose height has no unit
    points.set_yticks([tick for tick in points.get_yticks() if shown[0] <= tick <= shown[1]])
    return pixels(figure)


def _draw_kernel(axes, w, query, kernel) -> None:
    """The kernel at the bottom of the panel, of constant height."""
    bottom, top = axes.get_ylim()
    u = torch.linspace(-4, 4, 161)
    height = 0.24 * (top - bottom) * kernel(u) / kernel(torch.zeros(1))
    axes.fill_between(query + u / w, bottom, bottom + height, color=ORANGE, alpha=0.4, lw=0)


def _draw_weights(figure, axes, weights, query) -> None:
    """Rows are queries, columns points; the colours go from 0 to the largest weight, the label of the bar."""
    box = (*axes.get_xlim(), *axes.get_ylim())
    largest = weights.max().item()
    axes.imshow(
        weights.numpy(), aspect="auto", cmap="cividis", extent=box, interpolation="nearest", vmin=0, vmax=largest or 1
    )
    axes.axhline(query, color=ORANGE, lw=1.5, ls="--")
    figure.text(BAR[0] + 0.023, BAR[1] + BAR[3], f"{largest:.2f}", fontsize=10, va="top", color=INK)
