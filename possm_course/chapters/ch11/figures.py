"""The drawings of chapter 11: bins and shares of spikes, score curves, shares of units, costs."""

import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE
from possm_lite.nn.positions import phasors
from possm_lite.recordings import SpikeBatch


def draw_bins(
    batch: SpikeBatch, tuned: Tensor, share: Tensor | None = None, z: Tensor | None = None
) -> None:
    """Draws the spikes of three bins, the emptiest, a middling and the fullest.

    Args:
        batch: N spikes of U units.
        tuned: which units are tuned, bool, shape (U,); the others are drawn at the bottom.
        share: of each spike, its weight times the spikes in its bin, shape (N,): the colour of
            its dot.
        z: what was read of each bin, shape (n_bins, 32): the row below; None is a question mark.
    """
    n = torch.bincount(batch.bin)
    n_untuned, gap = int((~tuned).sum()), 6  # rows left free around the grey line
    row = torch.cat([torch.arange(1), tuned.int().argsort(stable=True) + 1]).argsort()
    row = row + gap * (row > n_untuned)  # (U+1,)
    chosen = n.argsort(stable=True)[[0, len(n) // 2, -1]].tolist()
    figure, axes = plt.subplots(
        2,
        3,
        figsize=(6.4, 4.0),
        layout="constrained",
        height_ratios=[5, 1],
        sharex="row",
        sharey="row",
    )
    for b, above, below in zip(chosen, *axes, strict=True):
        own = batch.bin == b
        if share is None:
            look = {"color": INK}
        else:
            look = {"c": share[own], "cmap": "PuOr_r", "vmin": 0.6, "vmax": 1.4}
            look |= {"edgecolors": INK, "linewidths": 0.5}
        dots = above.scatter(1000 * batch.offset[own], row[batch.unit[own]], 26, **look)
        above.axhline(n_untuned + (gap + 1) / 2, color=GRAY, lw=1)
        above.set(title=f"{n[b]} spikes", xlim=(-2, 52), ylim=(-1, len(tuned) + gap + 2))
        above.set(xticks=[0, 25, 50], yticks=[9, 76])
        below.set(xticks=[], yticks=[])
        if z is None:
            middle = {"ha": "center", "va": "center", "transform": below.transAxes}
            below.text(0.5, 0.5, "?", fontsize=16, **middle)
        else:
            below.imshow(z[b][None], cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
    axes[0, 1].set_xlabel("time in the bin (ms)")
    axes[0, 0].set_yticklabels(["untuned\nunits", "tuned\nunits"])
    axes[1, 0].set_ylabel("32\nnumbers", rotation=0, ha="right", va="center")
    if share is not None:
        figure.colorbar(dots, ax=axes[0], label="share", ticks=[0.6, 1, 1.4], extend="both")
    plt.show()


def draw_score_curves(
    tables: dict[str, Tensor], units: list[int], tuned: Tensor, omega: Tensor, width_s: float = 0.05
) -> None:
    """Draws the scores of some units as functions of the time in the bin.

    Args:
        tables: title of a panel to a table P of (11.5), shape (U+1, 2F+1).
        units: at most four, counted from 1. Pale: all waves; thick: those with periods above 4 ms.
        tuned: which units are tuned, bool, shape (U,).
        omega: frequencies in rad/s, float64, shape (F,).
        width_s: of the bin. The query is in its middle.
    """
    fine = torch.linspace(0, width_s, 2001, dtype=torch.float64)  # s since the bin began
    phase = phasors(fine - width_s / 2, omega, torch.float32)  # (2001, F)
    features = torch.cat([phase.real, phase.imag, torch.ones(len(fine), 1)], -1)  # (2001, 2F+1)
    slow = torch.cat([2 * math.pi / omega > 0.004] * 2 + [torch.tensor([True])])  # (2F+1,)
    looks = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PURPLE, ":"))
    figure, panels = plt.subplots(
        1, len(tables), figsize=(6.4, 3.4), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, (title, P) in zip(panels[0], tables.items(), strict=True):
        for u, (color, style) in zip(units, looks, strict=False):
            axes.plot(1000 * fine, features @ P[u], color=color, lw=0.4, alpha=0.35)
            label = f"unit {u}{'' if tuned[u - 1] else ' (untuned)'}"
            slowly = features[:, slow] @ P[u, slow]
            axes.plot(1000 * fine, slowly, style, color=color, lw=2, label=label)
        axes.axvline(500 * width_s, color=GRAY, lw=1)
        axes.set(title=title, xlabel="time in the bin, Δt (ms)", xlim=(0, 1000 * width_s))
        axes.set_xticks([0, 500 * width_s, 1000 * width_s])
    panels[0, 0].set_ylabel("score s(u, Δt)")
    lines = panels[0, 0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=2 if len(units) == 4 else len(units))
    plt.show()


def draw_units(shares: dict[str, Tensor], tuned: Tensor) -> None:
    """Draws the mean share of a spike of each unit, with the mean of tuned and of untuned units.

    Args:
        shares: title of a panel to the share of a spike of each unit, shape (seeds, U).
        tuned: which units are tuned, bool, shape (U,).
    """
    figure, axes = plt.subplots(
        1, len(shares), figsize=(6.4, 2.8), sharey=True, layout="constrained"
    )
    jitter = np.random.default_rng(0).uniform(-0.13, 0.13, len(tuned))
    groups = ((~tuned, -0.2, ORANGE, "D"), (tuned, 0.2, BLUE, "o"))
    for ax, (when, of_seed) in zip(axes, shares.items(), strict=True):
        for seed, share in enumerate(of_seed):
            for who, beside, color, marker in groups:
                at = seed + beside
                look = {"color": color, "ms": 3, "mfc": "none", "mew": 0.8}
                ax.plot(at + jitter[who], share[who], marker, **look)
                ax.plot([at - 0.17, at + 0.17], [share[who].mean()] * 2, color=INK, lw=2)
        ax.axhline(1, color=GRAY, lw=1, ls="--")
        ax.set(title=when, xlabel="seed", xticks=range(len(of_seed)))
    axes[0].set_ylabel("share of its spikes")
    untuned_mark = plt.Line2D([], [], color=ORANGE, marker="D", ls="", mfc="none")
    tuned_mark = plt.Line2D([], [], color=BLUE, marker="o", ls="", mfc="none")
    marks = [untuned_mark, tuned_mark]
    figure.legend(marks, ["untuned unit", "tuned unit"], loc="outside lower center", ncols=2)
    plt.show()


def draw_cost(spikes: np.ndarray, cost: np.ndarray) -> None:
    """Draws time and memory of the three forms over the number of spikes, both axes logarithmic.

    Args:
        spikes: in each batch, shape (n,).
        cost: milliseconds and megabytes of the three forms, shape (n, 2, 3), from `measure_cost`.
    """
    figure, (times, memory) = plt.subplots(1, 2, figsize=(6.4, 3.3), layout="constrained")
    forms = (
        ("padded, a key per slot", "s--", ORANGE),
        ("list, a key per spike", "^-.", GREEN),
        ("list, a row per unit", "o-", BLUE),
    )
    for j, (name, style, color) in enumerate(forms):
        look = {"color": color, "lw": 1.8, "ms": 6, "label": name}
        times.loglog(spikes, cost[:, 0, j], style, **look)
        memory.loglog(spikes, cost[:, 1, j], style, **look)
    times.set(xlabel="spikes", ylabel="forward and backward (ms)")
    memory.set(xlabel="spikes", ylabel="memory kept (MB)")
    for axes in (times, memory):
        low, high = axes.get_ylim()
        ticks = [t for t in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if low < t < high]
        axes.set_yticks(ticks, ticks)
        axes.set_xticks([1000, 10_000], ["1,000", "10,000"])
        axes.minorticks_off()
    figure.legend(*times.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    plt.show()
