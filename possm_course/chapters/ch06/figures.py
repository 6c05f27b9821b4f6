"""The drawings of chapter 06: curves of several seeds, gates and states of a trained network."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from torch import Tensor

from possm_course.style import BLUE, INK, ORANGE

# colour and style of the curves of each kind of cell
LOOKS = {"RNN": (INK, "-"), "GRU": (ORANGE, "--"), "LSTM": (BLUE, ":")}


def band(axes: Axes, steps: Sequence, curves: Sequence, color: str, style: str, label: str) -> None:
    """The mean of curves as a line, and from smallest to largest as a band.

    Args:
        axes: Where to draw.
        steps: The abscissas, shape (T,).
        curves: A curve for each seed, arrays or tensors of shape (T,).
        color: Of line and band.
        style: Of the line, as matplotlib names it.
        label: In the legend.
    """
    curves = np.stack([np.asarray(curve) for curve in curves])  # NumPy 1.24 stacks no tensors
    axes.plot(steps, curves.mean(0), style, color=color, lw=2, label=label)
    axes.fill_between(steps, curves.min(0), curves.max(0), color=color, alpha=0.2, lw=0)


def draw_gates(Z: Tensor, H: Tensor) -> None:
    """The update gates and, below, the states of one game, a row for each unit.

    Args:
        Z: Gates, shape (T, h).
        H: States, shape (T, h).
    """
    by_gate = Z[Z.shape[0] // 2 :].mean(0).argsort(descending=True)  # units that keep most first
    figure, panels = plt.subplots(2, 1, figsize=(6.4, 4.6), sharex=True, layout="constrained")
    parts = ((Z, "cividis", 0, "gate Z"), (H, "PuOr", -1, "state H"))
    for axes, (values, colors, lowest, name) in zip(panels, parts, strict=True):
        rows = values[:, by_gate].T
        image = axes.imshow(rows, cmap=colors, aspect="auto", vmin=lowest, vmax=1)
        axes.set(ylabel="unit, by Z", yticks=[0, len(rows) - 1], yticklabels=["1", str(len(rows))])
        figure.colorbar(image, ax=axes, label=name)
    panels[1].set(xlabel="time (bins of 50 ms)", xticks=range(0, Z.shape[0], 3))
    plt.show()
