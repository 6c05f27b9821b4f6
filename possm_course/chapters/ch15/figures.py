"""Drawings of chapter 15: two hints and the guess between them, the filter and its rivals."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from possm_course.style import BLUE, GRAY, INK, ORANGE

Hint = tuple[float, float]  # mean and variance


def _bell(x: np.ndarray, mean: float, variance: float) -> np.ndarray:
    """The density of a normal distribution.

    Args:
        x: where, shape (n,).
        mean: of the distribution.
        variance: of the distribution.

    Returns:
        The density, shape (n,).
    """
    return np.exp(-0.5 * (x - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)


def draw_hints(prediction: Hint, measurements: Sequence[Hint], guesses: Sequence[Hint]) -> Figure:
    """Bells of a prediction, of a measurement and of the guess between them, a panel a measurement.

    Args:
        prediction: its mean and variance.
        measurements: mean and variance of each.
        guesses: mean and variance of the guess for each of the measurements.

    Returns:
        The figure.
    """
    means = [mean for mean, _ in (prediction, *measurements)]
    x = np.linspace(min(means) - 4, max(means) + 4, 400)
    figure, panels = plt.subplots(
        1, len(measurements), figsize=(6.4, 2.6), sharey=True, layout="constrained"
    )
    for axes, measurement, guess in zip(panels, measurements, guesses, strict=True):
        axes.plot(x, _bell(x, *prediction), color=BLUE, lw=1.6, label="prediction")
        axes.plot(x, _bell(x, *measurement), "--", color=ORANGE, lw=1.6, label="measurement")
        axes.fill_between(x, _bell(x, *guess), color=GRAY, alpha=0.3, lw=0)
        axes.plot(x, _bell(x, *guess), color=INK, lw=2.2, label="guess")
        axes.set(xlabel="z", title=f"variance of the measurement {measurement[1]:g}")
        axes.set_yticks([])
    panels[0].set_ylabel("density")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    plt.close(figure)
    return figure


def draw_forgetting(
    scales: np.ndarray, errors: np.ndarray, filter_scale: float, filter_error: float
) -> Figure:
    """The error of linear memories against their time-scale, and that of the Kalman filter.

    Args:
        scales: time-scales of the memories, in bins, shape (n,).
        errors: their mean squared errors, shape (n,).
        filter_scale: the time-scale of the filter, in bins.
        filter_error: its mean squared error.

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
    label = "every other forgetting, its best gain"
    axes.semilogx(scales, errors, color=INK, lw=1.6, label=label)
    axes.plot(filter_scale, filter_error, "o", color=BLUE, ms=9, label="Kalman filter")
    axes.set(xlabel="time-scale of the memory (bins)", ylabel="mean\nsquared error")
    axes.set_xticks((1, 2, 5, 10, 20), (1, 2, 5, 10, 20))
    axes.set_ylim(0.2, None)
    axes.minorticks_off()
    figure.legend(loc="outside upper center", ncols=2)
    plt.close(figure)
    return figure
