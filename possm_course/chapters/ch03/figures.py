"""The drawing of chapter 03: whom two heads read in a room of eight, while they learn."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from possm_course.chapters.ch03.toy import N
from possm_course.style import BLUE, ORANGE


def make_draw(
    watched: list[Tensor], seated: list[str], friend: Tensor, rival: Tensor
) -> Callable[..., Figure]:
    """The drawing behind the sliders of a room: who is read by one person in two heads.

    Args:
        watched: Attention weights at every tenth training step, shape (2, N, N) each.
        seated: The N names, by seat.
        friend: The seat of each person's friend, shape (N,).
        rival: The seat of each person's rival, shape (N,).

    Returns:
        draw(person, step) -> Figure: the names in a row, with arcs from `person` to those whom head
        0 (above) and head 1 (below) read after `step` training steps, as thick as the weight.
    """

    def draw(person: int, step: int) -> Figure:
        """Eight people, with arcs from the one who asks to those whom the two heads read."""
        w = watched[step // 10][:, person].numpy()  # (H, N)
        figure = Figure(figsize=(6.4, 3.1))
        ax = figure.add_axes((0.01, 0.02, 0.98, 0.88))
        _draw_arcs(ax, person, w[0], "head 0", BLUE, side=1)
        _draw_arcs(ax, person, w[1], "head 1", ORANGE, side=-1)
        marks = {int(friend[person]): "F", int(rival[person]): "R"}
        for i, name in enumerate(seated):
            mark = marks.get(i, "")
            background = "#eeeeee" if i == person else "white"
            box = {"boxstyle": "round,pad=0.15", "fc": background, "ec": "none"}
            look = {"fontsize": 12, "weight": "bold" if mark else "normal", "bbox": box}
            ax.text(i, 0, f"{name} {mark}".strip(), ha="center", va="center", **look)
        ax.set_title(f"{seated[person]} asks, after {step} training steps", fontsize=11)
        ax.set(xlim=(-0.75, N - 0.4), ylim=(-1.75, 1.75))
        ax.axis("off")
        return figure

    return draw


def _draw_arcs(
    ax: Axes, person: int, weights: np.ndarray, label: str, color: str, side: int
) -> None:
    """Arcs from one person to all others, weights (N,), above (side 1) or below (side -1)."""
    angle = np.linspace(0, np.pi, 40)
    for other, weight in enumerate(weights):
        if weight > 0.02:  # a thinner arc would not be seen
            middle, radius = (person + other) / 2, abs(person - other) / 2
            x = middle + radius * np.cos(angle)
            y = 0.55 + 0.3 * max(radius, 0.25) * np.sin(angle)
            look = {"lw": 12 * weight, "alpha": 0.75, "solid_capstyle": "round"}
            ax.plot(x, side * y, color=color, **look)
        at = (other, side * 0.36)
        ax.text(*at, f"{weight:.2f}", ha="center", va="center", color=color, fontsize=10)
    ax.text(-0.7, side * 1.5, label, color=color, va="center", fontsize=12)
