"""Drawings of chapter 07: numbers above words, alignments, mean curves, dots, paths of CTC."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from torch import Tensor

from possm_course.chapters.ch07.task import german
from possm_course.style import BLUE, GRAY, INK, ORANGE, PURPLE


def draw_lines(axes: Axes, n: int, weights: Tensor | None = None, title: str = "") -> None:
    """The digits of a number above its words, and where each word looks.

    Args:
        axes: Where to draw.
        n: The number, of N digits and T words.
        weights: How much each word reads of each digit, shape (T, N): the width of a line. The
            largest of a word is orange. None draws no lines.
        title: Of the axes.
    """
    digits, words = str(n), german(n)
    above = np.linspace(0, len(words) - 1, len(digits) + 2)[1:-1]
    for x, digit in zip(above, digits, strict=True):
        axes.text(x, 1.07, digit, ha="center", va="bottom", fontsize=14, color=BLUE)
    for t, word in enumerate(words):
        axes.text(t, -0.18, word, ha="center", va="baseline", fontsize=9.5, color=INK)
        if weights is not None:
            _draw_looks(axes, t, above, weights[t])
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.3, 1.35), title=title)
    axes.title.set_fontsize(11)
    axes.set_axis_off()


def _draw_looks(axes: Axes, t: int, above: np.ndarray, weights: Tensor) -> None:
    """Lines from word t to the digits at `above` (N,), as wide as its weights (N,)."""
    for x, weight in zip(above, weights, strict=True):
        is_largest = weight == weights.max()
        color, order = (ORANGE, 2) if is_largest else (GRAY, 1)
        look = {"lw": 5 * weight, "zorder": order, "solid_capstyle": "round"}
        axes.plot([t, x], [0, 1], color=color, **look)


def draw_alignments(
    alignments: dict[str, Tensor],
    sources: Sequence,
    targets: Sequence,
    names: tuple[str, str],
    height: float,
    what: str = "weight α",
) -> None:
    """Alignments as images beside each other: the source runs to the right, the answer downwards.

    Args:
        alignments: The weights by title, shape (T, N) each.
        sources: The N labels of the source.
        targets: The T labels of the answer.
        names: Of the two axes, source and answer.
        height: Of the figure in inches.
        what: The label of the colours.
    """
    figure, axes = plt.subplots(
        1, len(alignments), figsize=(6.4, height), sharey=True, layout="constrained"
    )
    for ax, (title, weights) in zip(axes, alignments.items(), strict=True):
        image = ax.imshow(weights, vmin=0, vmax=1, aspect="auto")
        ax.set_xticks(range(len(sources)), sources)
        ax.set_yticks(range(len(targets)), targets)
        ax.tick_params(length=0)
        ax.set_title(title, fontsize=11)
    figure.supxlabel(names[0], fontsize=11)
    axes[0].set_ylabel(names[1])
    figure.colorbar(image, ax=axes, label=what, ticks=[0, 0.5, 1])
    plt.show()


def band(axes: Axes, x: Sequence, shares: np.ndarray, color: str, style: str, label: str) -> None:
    """The mean over seeds as a line, and from smallest to largest as a band.

    Args:
        axes: Where to draw.
        x: The abscissas, shape (X,).
        shares: The ordinates, shape (seeds, X).
        color: Of line and band.
        style: Of the line, as matplotlib names it.
        label: In the legend.
    """
    axes.plot(x, shares.mean(0), style, color=color, lw=2, label=label)
    axes.fill_between(x, shares.min(0), shares.max(0), color=color, alpha=0.2, lw=0)


def draw_ways(results: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """How right the answers are that some ways of choosing words find.

    A dot is a network, and a thin line joins the dots of the same network.

    Args:
        results: By the name of the way, what `decoding.judged` gives for each network; at most
            four ways.

    Returns:
        The means over networks, which are the bars of the picture, by way and by measure.
    """
    measures = {  # title: sign and name
        "mean log p": (1, "mean log p"),
        "words too few": (-1, "words too many"),
        "numbers right\n(%)": (1, "numbers right (%)"),
        "word error rate\n(%)": (1, "word error rate (%)"),
    }
    height = 1.4 + 0.3 * len(results)
    _, axes = plt.subplots(1, 4, figsize=(6.4, height), sharey=True, layout="constrained")
    means = {
        way: {name: float(np.mean([r[name] for r in rows])) for _, name in measures.values()}
        for way, rows in results.items()
    }
    for ax, (title, (sign, name)) in zip(axes, measures.items(), strict=True):
        for rows in zip(*results.values(), strict=True):  # of one network
            ax.plot([sign * row[name] for row in rows], range(len(rows)), color=GRAY, lw=0.6)
        for i, (way, rows) in enumerate(results.items()):
            color = (INK, ORANGE, BLUE, PURPLE)[i]
            dots = [sign * row[name] for row in rows]
            ax.plot(dots, [i] * len(rows), "o", color=color, ms=5, alpha=0.45, mew=0)
            ax.plot(sign * means[way][name], i, "|", color=color, ms=20, mew=3)
        ax.set_xlabel(title, fontsize=10)
        ax.locator_params(axis="x", nbins=2)
        ax.grid(axis="x", color=GRAY, lw=0.4)
    axes[0].set_yticks(range(len(results)), list(results))
    axes[0].set_ylim(len(results) - 0.5, -0.5)
    axes[1].axvline(0, color=INK, lw=0.8)
    low, high = axes[0].get_xlim()
    axes[0].set_xlim(np.floor(2 * low) / 2, np.ceil(2 * high) / 2)  # room for round numbers
    return means


def draw_paths(p: Tensor, paths: dict[tuple, float], signs: str) -> None:
    """The probabilities of CTC as a grid, beside all paths, each over a bar of its probability.

    Args:
        p: Probabilities of the signs at each time step, shape (T, S).
        paths: The probability of each path; a path is the T indices of its signs.
        signs: The S signs, one character each.
    """
    ordered = sorted(paths, key=paths.get, reverse=True)
    figure, axes = plt.subplots(
        2,
        2,
        figsize=(6.4, 3.0),
        width_ratios=(3, len(paths)),
        height_ratios=(5, 2),
        layout="constrained",
    )
    grid, columns, nothing, bars = axes.flat
    nothing.set_axis_off()

    grid.imshow(p, cmap="Greys", vmin=0, vmax=1.3, aspect="auto")
    for (t, s), value in np.ndenumerate(p.numpy()):
        grid.text(s, t, f"{value:.1f}", ha="center", va="center", fontsize=9, color=INK)
    grid.set_xticks(range(len(signs)), signs)
    grid.set_yticks(range(len(p)), range(1, len(p) + 1))
    grid.set(ylabel="time step", title="$p_t$")

    white = np.zeros((len(p), len(paths)))
    columns.imshow(white, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    look = {"ha": "center", "va": "center", "fontsize": 12, "weight": "bold"}
    for i, path in enumerate(ordered):
        for t, s in enumerate(path):
            columns.text(i, t, signs[s], color=(GRAY, BLUE, ORANGE)[s], **look)
    columns.set(xticks=[], yticks=[], title="all paths that say JA")

    bars.bar(range(len(paths)), [paths[path] for path in ordered], color=INK, width=0.7)
    bars.set(xlim=(-0.5, len(paths) - 0.5), xticks=[], ylabel="probability")
    for ax in (grid, columns):
        ax.tick_params(length=0)
        ax.title.set_fontsize(11)
    plt.show()
