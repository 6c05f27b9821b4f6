"""Data, kernel, estimate, weight matrix and leave-one-out error of kernel regression (chapter 01)."""

from collections.abc import Callable

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from possm_course.chapters.ch01.kernels import Kernel, gaussian, leave_one_out_error, nadaraya_watson
from possm_course.style import BLUE, GRAY, INK, ORANGE
from possm_course.widgets import copies


def make_draw(
    x_i: Tensor, y_i: Tensor, x_range: tuple, w_range: tuple, kernel: Kernel = gaussian, units: tuple = ("s", "mm/s")
) -> Callable[..., Figure]:
    """draw(w, query) -> Figure: estimate (top), weights (bottom left), root of the leave-one-out error (bottom right).

    The points x_i, y_i have shapes (M,). `x_range`, `w_range`: (lowest, highest) query and w; `units`: of x and y.
    """
    order = x_i.argsort()
    x_i, y_i = x_i[order], y_i[order]
    x = torch.linspace(*x_range, 121, dtype=x_i.dtype)  # queries
    copy = copies(*_panels(x_i, y_i, x_range, w_range, kernel, units))

    def draw(w: float, query: float) -> Figure:
        """The estimate above; its weights as a matrix, and its leave-one-out error against w, below."""
        figure, (points, matrix, error) = copy()
        estimate, weights = nadaraya_watson(x, x_i, y_i, w, kernel)  # (Q,), (Q, M)
        at_query, share = nadaraya_watson(x.new_tensor([query]), x_i, y_i, w, kernel)  # (1,), (1, M)

        bottom, top = points.get_ylim()
        u = torch.linspace(-4, 4, 161)
        height = 0.24 * (top - bottom) * kernel(u) / kernel(torch.zeros(1))
        points.fill_between(query + u / w, bottom, bottom + height, color=ORANGE, alpha=0.4, lw=0)
        points.scatter(x_i, y_i, s=10 + 240 * share[0], c=GRAY, edgecolors=INK, linewidths=0.6)  # area: weight
        points.plot(x, estimate, color=BLUE, lw=2)
        points.plot([query, query], [bottom, at_query.item()], color=ORANGE, lw=1, ls="--")
        points.plot(query, at_query.item(), "D", color=ORANGE, ms=7)

        largest = weights.max().item()  # the upper end of the colours, and the label of their bar
        box = (*matrix.get_xlim(), *matrix.get_ylim())
        matrix.imshow(weights.numpy(), aspect="auto", extent=box, interpolation="nearest", vmin=0, vmax=largest or 1)
        matrix.axhline(query, color=ORANGE, lw=1.5, ls="--")
        figure.text(0.478, 0.47, f"{largest:.2f}", fontsize=10, va="top", color=INK)

        error.plot(w, leave_one_out_error(x_i, y_i, w, kernel).sqrt().item(), "D", color=ORANGE, ms=8)
        return figure

    return draw


def _panels(x_i, y_i, x_range, w_range, kernel, units) -> list[Axes]:
    """The three panels with all that does not depend on w and the query."""
    figure = Figure(figsize=(7.2, 5.4))
    points = figure.add_axes((0.115, 0.6, 0.85, 0.38), xlabel=f"x ({units[0]})", ylabel=f"y ({units[1]})")
    low, high = y_i.min().item(), y_i.max().item()
    height = (high - low) or 1.0
    points.set(xlim=x_range, ylim=(low - 0.45 * height, high + 0.08 * height))  # the kernel is below
    points.locator_params(nbins=5)
    points.set_yticks([tick for tick in points.get_yticks() if low <= tick <= high + 0.08 * height])

    matrix = figure.add_axes((0.115, 0.11, 0.33, 0.36), xlabel="point, in order of x", ylabel=f"query x ({units[0]})")
    matrix.set(xlim=(0.5, len(x_i) + 0.5), ylim=x_range[::-1], xticks=[1, len(x_i)])  # first query in the first row
    matrix.locator_params(axis="y", nbins=5)
    bar = figure.add_axes((0.455, 0.11, 0.018, 0.36), xticks=[], yticks=[])
    bar.imshow(np.linspace(1, 0, 64)[:, None], aspect="auto")
    figure.text(0.478, 0.11, "0", fontsize=10, va="bottom", color=INK)
    figure.text(0.481, 0.29, "weight", va="center", rotation=90, color=INK)

    w = torch.logspace(*np.log10(w_range).tolist(), 80, dtype=x_i.dtype)
    errors = torch.stack([leave_one_out_error(x_i, y_i, w, kernel) for w in w]).sqrt()  # (80,)
    error = figure.add_axes((0.7, 0.11, 0.265, 0.36), xlabel=f"w (1/{units[0]})", xscale="log")
    error.set(xlim=(w[0].item() / 1.2, w[-1].item() * 1.2), ylim=(0, 1.1 * errors.max().item() or 1.0))
    error.set_ylabel(f"leave-one-out\nerror ({units[1]})")
    error.plot(w, errors, color=BLUE, lw=2)
    error.minorticks_off()
    error.locator_params(axis="y", nbins=5)
    return [points, matrix, error]
