"""Pictures of chapter 13: error bars and the null, rivals, what each part buys, and the answer."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE, SKY

WITHIN = (0.025, 0.975)  # quantiles: 95 % of the draws


def draws_and_null(r2: dict[str, np.ndarray], null: np.ndarray) -> Figure:
    """Draws R² of two decoders, of their difference, and of filters fitted to shifted spikes.

    Args:
        r2: name of each of two decoders to its R² in K bootstrap draws, shape (K,).
        null: R² of filters fitted to shifted spikes, any number.

    Returns:
        The figure.
    """
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.4, 2.8), width_ratios=(1.7, 1), layout="constrained"
    )
    for (name, of_draws), color in zip(r2.items(), (ORANGE, SKY), strict=True):
        left.hist(of_draws, 40, color=color, alpha=0.8, label=name)
    height = left.get_ylim()[1]
    left.vlines(null, 0, 0.25 * height, color=INK, lw=1.2, label="spikes shifted")
    left.set(xlabel="R² on the test trials", ylabel="draws", xlim=(-0.1, 1), ylim=(0, 1.6 * height))
    left.legend(fontsize=9, loc="upper left")
    one, other = r2.values()
    right.hist(one - other, 40, color=GREEN)
    right.axvspan(*np.quantile(one - other, WITHIN), color=GRAY, alpha=0.25, lw=0)
    right.axvline(0, color=INK, lw=1.2, ls="--")
    right.set(xlabel="difference of the two,\ndraw by draw", xlim=(-0.02, None))
    plt.close(figure)
    return figure


def differences(of_draws: dict[str, np.ndarray], seeds: dict[str, float], to: str) -> Figure:
    """Draws R² less that of a rival, in pairs: mean, 95 % of the draws, and spread of the seeds.

    Args:
        of_draws: name to differences of R² in K bootstrap draws, shape (K,): a row each.
        seeds: name to half the range over the seeds.
        to: name of the rival.

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(6.4, 0.45 * len(of_draws) + 0.9), layout="constrained")
    for row, (name, draws) in enumerate(of_draws.items()):
        low, high = np.quantile(draws, WITHIN)
        axes.plot(
            (low, high),
            (row, row),
            color=BLUE,
            lw=2.5,
            solid_capstyle="round",
            label="test set, 95 %",
        )
        axes.plot(
            draws.mean() + np.array([-1, 1]) * seeds[name],
            (row, row),
            color=SKY,
            lw=9,
            alpha=0.55,
            label="seeds, half ranges",
        )
        axes.plot(draws.mean(), row, "o", color=BLUE, ms=7, mfc="white", mew=2)
    axes.axvline(0, color=INK, lw=1.2, ls="--")
    axes.set(yticks=range(len(of_draws)), yticklabels=of_draws, ylim=(len(of_draws) - 0.4, -0.6))
    axes.set_xlabel(f"R² less that of the {to}")
    figure.legend(
        *(x[:2] for x in axes.get_legend_handles_labels()),
        loc="outside upper center",
        ncols=2,
        fontsize=10,
    )
    plt.close(figure)
    return figure


def parts(rows: dict[str, list[float]], sees_count: set[str], xlabel: str) -> Figure:
    """Draws a row for each variant and a ring for each seed, over the band of the first variant.

    Args:
        rows: name of a variant to its values, one for each seed.
        sees_count: names of the variants that see counts, in another colour.
        xlabel: label of the values.

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(6.4, 0.42 * len(rows) + 0.9), layout="constrained")
    first = next(iter(rows.values()))
    axes.axvspan(min(first), max(first), color=GRAY, alpha=0.3, lw=0)
    for row, (name, values) in enumerate(rows.items()):
        color = ORANGE if name in sees_count else BLUE
        axes.plot(values, [row] * len(values), "o", color=color, ms=8, mfc="white", mew=2)
    axes.set(yticks=range(len(rows)), yticklabels=rows, xlabel=xlabel, ylim=(len(rows) - 0.5, -0.5))
    axes.grid(axis="y", lw=0.5)
    plt.close(figure)
    return figure


def answer(
    good: dict[str, dict[str, np.ndarray]], null: list[float], why: dict[str, list[float]]
) -> Figure:
    """Draws how good each decoder is, and why: what is lost without a part.

    Args:
        good: what is asked to name of a decoder to its R² in K bootstrap draws, shape (K,); 95 % of
            the draws are shown.
        null: R² of filters fitted to shifted spikes.
        why: name of a part to R² lost without it, one for each seed.

    Returns:
        The figure.
    """
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.4, 4.4), width_ratios=(1.5, 1), layout="constrained"
    )
    styles = zip((ORANGE, BLUE, GREEN), "osD", (-0.2, 0, 0.2), strict=True)
    for (kind, of), (color, marker, up) in zip(good.items(), styles, strict=True):
        for row, draws in enumerate(of.values()):
            low, high = np.quantile(draws, WITHIN)
            left.plot((low, high), (row + up, row + up), color=color, lw=2)
            left.plot(
                draws.mean(), row + up, marker, color=color, ms=4, label=kind if row == 0 else None
            )
    names = [*next(iter(good.values())), "spikes shifted"]
    left.plot(null, [len(names) - 1] * len(null), "x", color=INK, ms=5)
    left.set(
        yticks=range(len(names)),
        yticklabels=names,
        xlabel="R² on the test trials",
        title="How good",
    )
    left.set(xlim=(-0.05, 0.95), ylim=(len(names) - 0.4, -0.6))
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=10
    )
    for row, values in enumerate(why.values()):
        right.barh(row, np.mean(values), color=SKY, height=0.6)
        right.plot(values, [row] * len(values), "o", color=BLUE, ms=5, mfc="white")
    right.axvline(0, color=INK, lw=1)
    right.set(yticks=range(len(why)), yticklabels=why, ylim=(len(why) - 0.5, -0.5))
    right.set(title="Why", xlabel="R² lost, lag 100 ms")
    plt.close(figure)
    return figure
