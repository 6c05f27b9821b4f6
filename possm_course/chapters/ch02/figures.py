"""Drawings of chapter 02: a query and its keys in the plane, and what scores read of them."""

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from possm_course.style import BLUE, INK, ORANGE

NAMES = "ABCDE"  # of the keys


def draw_keys(arrow: Tensor, points: Tensor, exists: Tensor, axes: Axes | None = None) -> None:
    """The query as an arrow in the plane, and its keys as points with letters.

    Args:
        arrow: The query, shape (1, 2).
        points: The keys, shape (M, 2).
        exists: False where there is no key, shape (M,): a cross is drawn there.
        axes: Where to draw; None makes a figure.
    """
    if axes is None:
        _, axes = plt.subplots(figsize=(5.6, 3.7), layout="constrained")
    look = {"arrowstyle": "-|>", "color": INK, "lw": 2.4}
    axes.annotate("", arrow[0].tolist(), (0, 0), arrowprops=look)
    axes.text(0.55, 0.55, "query", color=INK, ha="center", rotation=27)
    for name, (x, y), real in zip(NAMES, points.tolist(), exists.tolist(), strict=True):
        marker, color, label = ("o", BLUE, name) if real else ("x", ORANGE, "no key")
        axes.plot(x, y, marker, color=color, ms=9, mew=2.4)
        axes.annotate(label, (x, y), xytext=(9, 4), textcoords="offset points", size=12)
    axes.axhline(0, color=INK, lw=0.5)
    axes.axvline(0, color=INK, lw=0.5)
    axes.set(xlabel="first number", ylabel="second number", aspect="equal")
    axes.set(xlim=(-3, 4.2), ylim=(-2.6, 2.4), xticks=range(-3, 5), yticks=range(-2, 3))


def draw_readings(
    arrow: Tensor, points: Tensor, exists: Tensor, weights: dict[str, Tensor]
) -> None:
    """The query and its keys, above a table of how much of each key each score reads.

    Args:
        arrow: The query, shape (1, 2).
        points: The keys, shape (M, 2).
        exists: False where there is no key, shape (M,).
        weights: The attention weights by the name of the score, shape (1, M) each.
    """
    figure, (plane, table) = plt.subplots(
        2, 1, figsize=(6.4, 6.2), height_ratios=(1.35, 1), layout="constrained"
    )
    draw_keys(arrow, points, exists, plane)
    p = torch.cat([*weights.values()])  # (scores, M)
    picture = table.imshow(p, vmin=0, vmax=1, aspect="auto")
    for i, row in enumerate(p):
        for m, share in enumerate(row):
            color = "w" if share < 0.6 else INK
            text = f"{share:.2f}"
            table.text(m, i, text, ha="center", va="center", fontsize=10, color=color)
    labels = [name if real else "no key" for name, real in zip(NAMES, exists, strict=True)]
    table.set_yticks(range(len(weights)), weights)
    table.set_xticks(range(len(points)), labels)
    table.xaxis.tick_top()
    table.tick_params(length=0)
    figure.colorbar(picture, ax=table, label="weight")
    plt.show()
