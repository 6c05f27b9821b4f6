"""Pictures of chapter 19: eight targets, when they are known, shorthand, a text as it appears."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from possm_course.chapters.ch19.targets import NAMES
from possm_course.chapters.ch19.writer import CORNERS, SIGNS
from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE

ARROWS = "→↗↑↖←↙↓↘"


def bars(axes, p: np.ndarray, true: int, title: str):
    """Draws the probabilities of eight targets, that of the true one orange.

    Args:
        axes: where.
        p: probabilities, (8,).
        true: place of the true target.
        title: of the panel.
    """
    colors = [ORANGE if k == true else BLUE for k in range(8)]
    axes.bar(range(8), p, color=colors)
    axes.set_xticks(range(8), list(ARROWS))
    axes.set(ylim=(0, 1), title=title)


def four_moments(p: np.ndarray, since_s: Sequence[float], true: int) -> Figure:
    """Draws the probabilities of eight targets at four moments of one trial.

    Args:
        p: probabilities, (4, 8).
        since_s: the moments, seconds since the hand moves.
        true: place of the true target.

    Returns:
        The figure.
    """
    figure, panels = plt.subplots(1, 4, figsize=(7.2, 2.2), sharey=True, layout="constrained")
    for axes, row, moment in zip(panels, p, since_s, strict=True):
        bars(axes, row, true, f"{round(1000 * moment)} ms")
    panels[0].set_ylabel("probability")
    plt.close(figure)
    return figure


def units_and_time(p: np.ndarray, true: int, n_units: int, since_ms: int) -> Figure:
    """Draws the probabilities of eight targets, for a slider.

    Args:
        p: probabilities, (8,).
        true: place of the true target.
        n_units: that were read.
        since_ms: the moment, ms since the hand moves.

    Returns:
        The figure, without pyplot.
    """
    figure = Figure(figsize=(5.2, 2.4), layout="constrained")
    axes = figure.subplots()
    bars(axes, p, true, f"{n_units} units, time {since_ms} ms")
    axes.set(ylabel="probability", xlabel=f"target (the true one, {NAMES[true]}, is orange)")
    return figure


def when_known(since_s, curves: dict, chance: Sequence[float], high: Sequence[float]) -> Figure:
    """Draws accuracy against time.

    Args:
        since_s: ends of the bins, seconds since the hand moves, (T,).
        curves: name -> accuracy, (T,); in the order of colours.
        chance: mean accuracy for shuffled labels, (T,).
        high: its 95 % point, (T,).

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(6.4, 3.3), layout="constrained")
    ms = 1000 * np.asarray(since_s)
    looks = ((INK, "s:"), (ORANGE, "o-"), (GREEN, "x-."))
    for (name, values), (color, style) in zip(curves.items(), looks, strict=False):
        axes.plot(ms, values, style, color=color, mfc="none", ms=6, label=name)
    axes.plot(ms, chance, "-", color=GRAY, label="chance, labels shuffled")
    band = {"color": GRAY, "alpha": 0.3, "lw": 0}
    axes.fill_between(ms, chance, high, **band, label="95 % of shuffles")
    axes.axvline(0, color=INK, lw=0.8)
    axes.set(xlabel="time since the hand moves (ms)", ylabel="share right", ylim=(0, 1))
    axes.legend(loc="upper left", fontsize=8)
    plt.close(figure)
    return figure


def worth(since_s, values: dict[str, np.ndarray]) -> Figure:
    """Draws what a choice is worth a second, by when it is taken, and the best moments.

    Args:
        since_s: the moments, seconds since the hand moves, (T,).
        values: name -> points a second, (T,).

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
    ms = 1000 * np.asarray(since_s)
    for (name, value), color in zip(values.items(), (ORANGE, BLUE), strict=True):
        axes.plot(ms, value, color=color, label=name)
        best = value.argmax()
        axes.plot(ms[best], value[best], "o", color=color, ms=9)
        axes.axvline(ms[best], color=color, lw=0.8, ls=":")
    axes.axhline(0, color=INK, lw=0.8)
    axes.set(xlabel="decide so long after the hand moves (ms)", ylabel="points a second")
    axes.legend(loc="lower right", fontsize=9)
    plt.close(figure)
    return figure


def shorthand() -> Figure:
    """Draws the twelve letters from the middle (dot), in groups with the same first stroke."""
    figure, panels = plt.subplots(
        2, 7, figsize=(7.2, 2.6), width_ratios=(1, 1, 1, 0.5, 1, 1, 1), layout="constrained"
    )
    for axes, letter in zip(panels.flat, "adt ehrlns iou", strict=True):
        axes.set(xlim=(-1.2, 1.3), ylim=(-1.2, 1.3), aspect="equal")
        axes.set_axis_off()
        if letter == " ":
            continue
        path = np.array([(0, 0), *CORNERS[letter], (0, 0)], float)
        along = np.diff(path, axis=0)
        aside = 0.1 * np.sign(along[:, ::-1]) * (1, -1)
        if along.all(axis=1).any():  # a triangle: its strokes lie apart
            aside[:] = 0
        starts, stops = path[:-1] + aside, path[1:] + aside  # so that there and back are two lines
        axes.plot(*np.stack([starts, stops], 1).reshape(-1, 2).T, "-", color=BLUE, lw=2)
        for a, b in zip(starts, stops, strict=True):
            middle = (a + b) / 2
            towards = middle + 0.05 * (b - a)
            axes.annotate("", towards, middle, arrowprops={"arrowstyle": "->", "color": ORANGE})
        axes.plot(0, 0, "o", color=INK, ms=5)
        axes.set_title(letter, fontsize=11)
    plt.close(figure)
    return figure


def reading(log_p: Tensor, ends_s: Sequence[float], text: str) -> Figure:
    """Draws the probabilities of all signs in each bin of one word.

    Args:
        log_p: their logs, (T, 13).
        ends_s: when each letter was finished, seconds.
        text: the word.

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(7.0, 3.2), layout="constrained")
    image = axes.imshow(
        log_p.exp().T,
        aspect="auto",
        cmap="Blues",
        vmin=0,
        vmax=1,
        extent=(0, 0.05 * len(log_p), len(SIGNS) - 0.5, -0.5),
    )
    for letter, end in zip(text, ends_s, strict=True):
        axes.axvline(end, color=ORANGE, lw=1.2)
        axes.annotate(
            letter, (end - 0.03, -0.6), color=ORANGE, ha="right", va="bottom", annotation_clip=False
        )
    axes.set_yticks(range(len(SIGNS)), ["blank", *SIGNS[1:]], fontsize=9)
    axes.set(xlabel="time (s)")
    axes.grid(False)
    figure.colorbar(image, ax=axes, label="probability", pad=0.01)
    plt.close(figure)
    return figure


def text_so_far(log_p: Tensor, said: str, table: str, right: str, bins: int) -> Figure:
    """Draws the signs up to a bin, and the texts that they give.

    Args:
        log_p: of all bins, (T, 13).
        said: text by greedy decoding.
        table: the word of the table that goes on best.
        right: what was written.
        bins: how many bins have come.

    Returns:
        The figure, without pyplot.
    """
    figure = Figure(figsize=(6.4, 3.0), layout="constrained")
    axes = figure.subplots()
    shown = log_p.exp().T.numpy().copy()
    shown[:, bins:] = 0
    axes.imshow(
        shown,
        aspect="auto",
        cmap="Blues",
        vmin=0,
        vmax=1,
        extent=(0, 0.05 * len(log_p), 12.5, -0.5),
    )
    axes.axvline(0.05 * bins, color=INK, lw=1)
    axes.set_yticks(range(len(SIGNS)), ["blank", *SIGNS[1:]], fontsize=8)
    axes.set_xlabel("time (s)")
    axes.set_title(
        f"greedy: {said or '·'}     table: {table}     written: {right}", loc="left", fontsize=11
    )
    return figure


def error_rates(rates: dict[str, tuple[float, float, float]], null: tuple[float, float]) -> Figure:
    """Draws letter error rates with their intervals.

    Args:
        rates: way -> rate, low and high end of its interval.
        null: 2.5 and 97.5 % points for shuffled texts.

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(6.0, 2.4), layout="constrained")
    for place, (rate, low, high) in enumerate(rates.values()):
        axes.barh(place, 100 * rate, color=BLUE if place < len(rates) - 1 else ORANGE)
        axes.plot([100 * low, 100 * high], [place, place], color=INK)
    axes.axvspan(*(100 * x for x in null), color=GRAY, alpha=0.4, lw=0)
    axes.text(
        50 * sum(null), -0.55, "texts shuffled", ha="center", va="bottom", color=INK, fontsize=9
    )
    axes.set_yticks(range(len(rates)), list(rates))
    axes.invert_yaxis()
    axes.set(xlabel="letters wrong (%)", xlim=(0, 100))
    plt.close(figure)
    return figure


def words_known(known: np.ndarray, n_words: np.ndarray) -> Figure:
    """Draws the share of words that are first in the table after each letter.

    Args:
        known: shares, (n,).
        n_words: how many words have so many letters, (n,).

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(5.2, 2.6), layout="constrained")
    letters = np.arange(1, len(known) + 1)
    axes.plot(letters, 100 * known, "o-", color=BLUE, ms=7)
    axes.set_xticks(letters, [f"{j}\n{n} words" for j, n in zip(letters, n_words, strict=True)])
    axes.set(xlabel="letters finished", ylabel="words known (%)")
    axes.set(xlim=(0.6, len(known) + 0.4), ylim=(0, 102))
    plt.close(figure)
    return figure
