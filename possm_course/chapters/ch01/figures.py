"""Data, kernel, estimate, weights and leave-one-out error of kernel regression (chapter 01)."""

from collections.abc import Callable

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from possm_course.chapters.ch01.kernels import (
    Kernel,
    gaussian,
    leave_one_out_error,
    nadaraya_watson,
)
from possm_course.style import BLUE, GRAY, INK, ORANGE
from possm_course.widgets import copies


def make_draw(
    x_i: Tensor,
    y_i: Tensor,
    x_range: tuple,
    w_range: tuple,
    kernel: Kernel = gaussian,
    units: tuple = ("s", "mm/s"),
) -> Callable[..., Figure]:
    """The drawing behind the sliders of kernel regression.

    Args:
        x_i: The points, shape (M,), in any order.
        y_i: Their values, shape (M,).
        x_range: The lowest and the highest query, in units of x.
        w_range: The lowest and the highest w, in one over the unit of x.
        kernel: K(u), elementwise.
        units: The units of x and y, for the labels.

    Returns:
        draw(w, query) -> Figure, with three panels: the estimate f(x) at 121 queries with the
        kernel at `query` (top), the matrix of weights, shape (121, M) (bottom left), and the root
        of the leave-one-out error against w (bottom right).
    """
    order = x_i.argsort()
    x_i, y_i = x_i[order], y_i[order]
    x = torch.linspace(*x_range, 121, dtype=x_i.dtype)  # queries (Q,)
    copy = copies(*_panels(x_i, y_i, x_range, w_range, kernel, units))

    def draw(w: float, query: float) -> Figure:
        """The estimate above; its weights as a matrix, and its leave-one-out error, below."""
        figure, (points, matrix, error) = copy()
        estimate, weights = nadaraya_watson(x, x_i, y_i, w, kernel)  # (Q,), (Q, M)
        at_query, share = nadaraya_watson(
            x.new_tensor([query]), x_i, y_i, w, kernel
        )  # (1,), (1, M)

        bottom, top = points.get_ylim()
        u = torch.linspace(-4, 4, 161)
        height = 0.24 * (top - bottom) * kernel(u) / kernel(torch.zeros(1))
        points.fill_between(query + u / w, bottom, bottom + height, color=ORANGE, alpha=0.4, lw=0)
        area = 10 + 240 * share[0]  # of a point: its weight at the query
        points.scatter(x_i, y_i, s=area, c=GRAY, edgecolors=INK, linewidths=0.6)
        points.plot(x, estimate, color=BLUE, lw=2)
        points.plot([query, query], [bottom, at_query.item()], color=ORANGE, lw=1, ls="--")
        points.plot(query, at_query.item(), "D", color=ORANGE, ms=7)

        largest = weights.max().item()  # the upper end of the colours, and the label of their bar
        box = (*matrix.get_xlim(), *matrix.get_ylim())
        colors = {"vmin": 0, "vmax": largest or 1}
        matrix.imshow(weights.numpy(), aspect="auto", extent=box, interpolation="nearest", **colors)
        matrix.axhline(query, color=ORANGE, lw=1.5, ls="--")
        figure.text(0.478, 0.46, f"{largest:.2f}", fontsize=10, va="top", color=INK)

        at_w = leave_one_out_error(x_i, y_i, w, kernel).sqrt().item()
        error.plot(w, at_w, "D", color=ORANGE, ms=8)
        return figure

    return draw


def _panels(x_i, y_i, x_range, w_range, kernel, units) -> list[Axes]:
    """The three panels with all that does not depend on w and the query."""
    figure = Figure(figsize=(7.2, 4.2))  # with its sliders, less than the screen of a small laptop
    points = _points_panel(figure, y_i, x_range, units)
    matrix = _matrix_panel(figure, len(x_i), x_range, units)
    error = _error_panel(figure, x_i, y_i, w_range, kernel, units)
    return [points, matrix, error]


def _points_panel(figure: Figure, y_i, x_range, units) -> Axes:
    """Empty axes for the points and the estimate, with room for the kernel below them."""
    points = figure.add_axes((0.115, 0.62, 0.85, 0.36))
    points.set(xlabel=f"x ({units[0]})", ylabel=f"y ({units[1]})")
    low, high = y_i.min().item(), y_i.max().item()
    height = (high - low) or 1.0
    top = high + 0.08 * height
    points.set(xlim=x_range, ylim=(low - 0.45 * height, top))  # the kernel is below
    points.locator_params(nbins=5)
    points.set_yticks([tick for tick in points.get_yticks() if low <= tick <= top])
    return points


def _matrix_panel(figure: Figure, n_points: int, x_range, units) -> Axes:
    """Empty axes for the matrix of weights, and the bar of its colours."""
    matrix = figure.add_axes((0.115, 0.13, 0.33, 0.33))
    matrix.set(xlabel="point, in order of x", ylabel=f"query x ({units[0]})")
    matrix.set(xlim=(0.5, n_points + 0.5), xticks=[1, n_points])
    matrix.set_ylim(x_range[::-1])  # first query in the first row
    matrix.locator_params(axis="y", nbins=5)
    bar = figure.add_axes((0.455, 0.13, 0.018, 0.33), xticks=[], yticks=[])
    bar.imshow(np.linspace(1, 0, 64)[:, None], aspect="auto")
    figure.text(0.478, 0.13, "0", fontsize=10, va="bottom", color=INK)
    figure.text(0.481, 0.29, "weight", va="center", rotation=90, color=INK)
    return matrix


def _error_panel(figure: Figure, x_i, y_i, w_range, kernel, units) -> Axes:
    """The root of the leave-one-out error at 80 values of w."""
    w = torch.logspace(*np.log10(w_range).tolist(), 80, dtype=x_i.dtype)
    errors = torch.stack([leave_one_out_error(x_i, y_i, w, kernel) for w in w]).sqrt()  # (80,)
    error = figure.add_axes((0.7, 0.13, 0.265, 0.33), xscale="log")
    error.set_xlabel(f"w (1/{units[0]})")
    error.set(
        xlim=(w[0].item() / 1.2, w[-1].item() * 1.2), ylim=(0, 1.1 * errors.max().item() or 1.0)
    )
    error.set_ylabel(f"leave-one-out\nerror ({units[1]})")
    error.plot(w, errors, color=BLUE, lw=2)
    error.minorticks_off()
    error.locator_params(axis="y", nbins=5)
    return error
