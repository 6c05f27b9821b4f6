"""The drawing of chapter 06: curves of several seeds."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes


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
