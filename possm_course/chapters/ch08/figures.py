"""The drawings of chapter 08: the four stories, the copy task, and the heads of a Turing machine."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from possm_course.chapters.ch08.copy_task import BITS, SLOTS
from possm_course.chapters.ch08.story_task import BOXES, ROOMS, THINGS
from possm_course.style import BLUE, GRAY, ORANGE


def draw_foursome() -> None:
    """The four stories as paths from thing to box to room."""
    _, axes = plt.subplots(1, 4, figsize=(6.8, 2.2), layout="constrained")
    for ax, (inside, stands) in zip(
        axes, itertools.product(("straight", "crossed"), repeat=2), strict=True
    ):
        for i in range(2):
            j = i if inside == "straight" else 1 - i  # the box of thing i
            k = j if stands == "straight" else 1 - j  # the room of its box
            color, style = (ORANGE, "-") if i == 0 else (GRAY, ":")
            ax.plot([i, j, k], [2, 1, 0], style, color=color, lw=2.5)
            if i == 0:
                ax.plot(k, 0, "o", color=ORANGE, ms=11)
        for row, words in enumerate((ROOMS, BOXES, THINGS)):
            for column in range(2):
                beside, side = ((-0.28, "right"), (1.28, "left"))[column]
                ax.text(beside, row, words[column], ha=side, va="center", fontsize=10)
        ax.set(xlim=(-1.4, 2.2), ylim=(-0.4, 2.3))
        ax.set_title(f"things {inside},\nboxes {stands}", fontsize=10)
        ax.axis("off")


def draw_task(x: Tensor, bits: Tensor) -> None:
    """What is heard (2L + 1, 5) above what is to be said, the bits (L, 4)."""
    length = len(bits)
    figure, axes = plt.subplots(
        2, 1, figsize=(6.4, 2.8), sharex=True, height_ratios=(5, 4), layout="constrained"
    )
    wanted = torch.full((2 * length + 1, BITS), torch.nan)
    wanted[length + 1 :] = 2 * bits - 1
    for ax, grid, label in ((axes[0], x, "heard"), (axes[1], wanted, "to be said")):
        image = ax.imshow(grid.T, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
        ax.set_ylabel(label)
    axes[0].set_yticks(range(5), ["bit 1", "bit 2", "bit 3", "bit 4", "go"], fontsize=10)
    axes[1].set_yticks(range(4), ["bit 1", "bit 2", "bit 3", "bit 4"], fontsize=10)
    axes[1].set(xlabel="step", xticks=range(2 * length + 1))
    figure.colorbar(image, ax=axes, label="bit (0: silence)", shrink=0.8, ticks=[-1, 0, 1])


def draw_heads(x: Tensor, said: Tensor, trace) -> None:
    """What a machine hears (T, 5) and says (T, 4) of a list, and between them its slots and heads (T, N)."""
    steps, go = len(x), len(x) // 2
    change = (trace.memory - 0.1).norm(
        dim=-1
    )  # (T, N): how far each slot is from its start, 0.1 everywhere
    figure, (heard, table, spoken) = plt.subplots(
        3, 1, figsize=(6.4, 6), sharex=True, height_ratios=(1, 4, 1), layout="constrained"
    )
    heard.imshow(x[:, :BITS].T, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    late = torch.cat([torch.full((go + 1, BITS), torch.nan), said[go + 1 :]])
    spoken.imshow(late.T, cmap="PuOr", vmin=0, vmax=1, aspect="auto")
    image = table.imshow(change.T, cmap="Greys", aspect="auto", vmin=0, vmax=1.6 * change.max())
    step, slot = np.meshgrid(np.arange(steps), np.arange(SLOTS))
    table.scatter(
        step, slot, s=60 * trace.write.T, marker="^", color=ORANGE, linewidths=0, label="write head"
    )
    table.scatter(
        step,
        slot,
        s=60 * trace.read.T,
        marker="o",
        facecolors="none",
        edgecolors=BLUE,
        label="read head",
    )
    table.legend(loc="upper right", ncols=2, bbox_to_anchor=(1, 1.13), borderaxespad=0)
    table.set(ylabel="slot", yticks=range(0, SLOTS, 4))
    bar = figure.colorbar(image, ax=table, label="change of slot", shrink=0.7)
    bar.ax.set_ylim(0, change.max())
    for ax, name in ((heard, "heard"), (spoken, "said")):
        ax.set_ylabel(name)
        ax.set_yticks([])
    for ax in (heard, table, spoken):
        ax.axvline(go, color=GRAY, lw=1, ls=":")
    spoken.set(xlabel=f"step (go sign at {go})", xticks=range(0, steps, 2))
