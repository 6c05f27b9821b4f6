"""Pictures of chapter 13: lags, error bars, the null, rivals, parts, pushes, and the answer."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE, SKY

WITHIN = (0.025, 0.975)  # quantiles: 95 % of the draws


def bins_before(before_ms: np.ndarray, r2: np.ndarray, windows: dict[int, float]) -> Figure:
    """Draws how well one bin alone decodes a moment, and which five bins are read at each lag.

    Args:
        before_ms: how long before the moment the bin lies, in ms, shape (n,).
        r2: R² of a filter that sees this bin alone, shape (n,).
        windows: lag in ms to R² of the filter that reads five bins, the newest so long before.

    Returns:
        The figure.
    """
    figure, (curve, rows) = plt.subplots(
        2, 1, figsize=(6.4, 3.6), height_ratios=(1.5, 1), sharex=True, layout="constrained"
    )
    curve.plot(-np.asarray(before_ms), r2, "o-", color=INK, ms=5)
    curve.set(ylabel="R² of one bin", ylim=(0, 0.55))
    for row, (lag_ms, of_five) in enumerate(windows.items()):
        read = [(-lag_ms - 50 * back - 23, 46) for back in range(5)]
        rows.broken_barh(read, (row - 0.35, 0.7), color=SKY, lw=0)
        rows.text(75, row, f"five bins: {of_five:.3f}", va="center", fontsize=10)
    rows.set(yticks=range(len(windows)), yticklabels=[f"lag {lag} ms" for lag in windows])
    rows.set(ylim=(len(windows) - 0.4, -0.6), xlim=(-385, 190))
    rows.set_xlabel("time of a bin, seen from the moment that is wanted (ms)")
    for axes in (curve, rows):
        axes.axvline(0, color=ORANGE, lw=2, zorder=0)
    curve.text(6, 0.5, "the moment", color=ORANGE, fontsize=10)
    plt.close(figure)
    return figure


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


def pushes(
    push: np.ndarray, direction_rad: np.ndarray, depth: np.ndarray, tuned: np.ndarray
) -> Figure:
    """Draws what one more spike of each unit changes in the decoded velocity.

    Args:
        push: change of the velocity, in mm/s, shape (U, 2).
        direction_rad: true preferred direction, shape (U,).
        depth: true depth of tuning, as log rate per 100 mm/s, shape (U,).
        tuned: True where a unit is tuned, shape (U,).

    Returns:
        The figure.
    """
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.4, 3.3), width_ratios=(1.2, 1), layout="constrained"
    )
    hue = 0.78 * plt.cm.twilight((direction_rad[tuned] + np.pi) / (2 * np.pi))
    hue[:, 3] = 1
    left.quiver(
        *np.zeros((2, tuned.sum())),
        *push[tuned].T,
        color=hue,
        angles="xy",
        scale_units="xy",
        scale=1,
        width=0.009,
    )
    left.plot(*push[~tuned].T, "x", color=INK, ms=5, mew=1.4, label="untuned")
    limits = 1.1 * np.abs(push).max() * np.array([-1, 1])
    left.set(xlim=limits, ylim=limits, aspect="equal")
    left.set(xlabel="push along x (mm/s)", ylabel="push along y (mm/s)")
    left.legend(fontsize=9, loc="lower left")
    wheel = left.inset_axes([0.78, 0.78, 0.22, 0.22], projection="polar")
    ring = np.linspace(-np.pi, np.pi, 25)[1:]
    colors = 0.78 * plt.cm.twilight((ring + np.pi) / (2 * np.pi))
    wheel.bar(ring, 1, width=ring[1] - ring[0], bottom=1.2, color=colors)
    wheel.set(yticks=[], xticks=[])
    wheel.spines["polar"].set_visible(False)
    by_depth(right, depth, np.linalg.norm(push, axis=1), tuned)
    right.set(ylabel="length of the push (mm/s)", ylim=(0, None))
    plt.close(figure)
    return figure


def by_depth(axes: plt.Axes, depth: np.ndarray, values: np.ndarray, tuned: np.ndarray) -> None:
    """Draws a mark for each unit over its true depth of tuning.

    Args:
        axes: where to.
        depth: true depth of tuning, as log rate per 100 mm/s, shape (U,).
        values: of the units, shape (U,).
        tuned: True where a unit is tuned, shape (U,).
    """
    axes.plot(depth[tuned], values[tuned], "o", color=BLUE, ms=4.5, label="tuned")
    axes.plot(depth[~tuned], values[~tuned], "x", color=ORANGE, ms=6, mew=1.6, label="untuned")
    axes.set_xlabel("true depth of tuning\n(log rate at 100 mm/s)", fontsize=10)
    axes.legend(
        fontsize=10,
        loc="lower center",
        bbox_to_anchor=(0.45, 1),
        ncols=2,
        columnspacing=0.8,
        handletextpad=0,
    )


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
        1, 2, figsize=(6.4, 4.4), width_ratios=(1.4, 1), layout="constrained"
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
    right.set(title="Why", xlabel="R² lost at 100 ms")
    plt.close(figure)
    return figure


def how_good(results: dict[str, dict[str, dict[str, float]]]) -> Figure:
    """Draws R² of the particle filter against its size, and of the decoder against its minutes.

    Args:
        results: what `experiments/ch13_how_good.py` wrote: "filter", by particles and seed;
            "longer" and "joint", by what was added and seed.

    Returns:
        The figure.
    """
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.4, 3.3), width_ratios=(1, 1.4), layout="constrained"
    )
    particles = [int(key.split()[0]) for key in results["filter"]]
    filtered = [run["r2"] for run in results["filter"].values()]
    best = np.mean([r2 for n, r2 in zip(particles, filtered, strict=True) if n == max(particles)])
    left.semilogx(particles, filtered, "D", color=GREEN, ms=5)
    left.set(xlabel="particles", title="knows the simulator", ylabel="R² on the test trials")
    left.set_xticks(sorted(set(particles)), [f"{n:,}" for n in sorted(set(particles))], fontsize=8)
    left.minorticks_off()
    runs = list(results["longer"].values())
    minutes, r2 = (np.array([run[key] for run in runs]) for key in ("minutes", "r2"))
    lengths = np.unique(minutes)
    right.axhline(best, color=GREEN, lw=1.8, ls="--", label="particle filter")
    right.semilogx(minutes, r2, "o", color=ORANGE, ms=5, mfc="white", label="POSSM, a seed")
    means = [r2[minutes == length].mean() for length in lengths]
    right.semilogx(lengths, means, "-", color=ORANGE, lw=1.5)
    joint = [run["r2"] for run in results.get("joint", {}).values()]
    if joint:
        x = np.full(len(joint), lengths[0] * 1.12)
        right.semilogx(x, joint, "s", color=BLUE, ms=5, label="and 4 sessions of other units")
    right.set(xlabel="training, same units (minutes)", title="learns from examples")
    right.set_xticks(lengths, [f"{length:.0f}" for length in lengths])
    right.minorticks_off()
    right.set_ylim(0.82, 0.945)
    right.legend(fontsize=9, loc="lower right")
    plt.close(figure)
    return figure
