"""The drawings of chapter 08: four stories, the copy task, and the heads of a Turing machine."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from possm_course.chapters.ch08.copy_task import BITS, SLOTS
from possm_course.chapters.ch08.story_task import BOXES, ROOMS, THINGS
from possm_course.style import BLUE, GRAY, ORANGE


def draw_foursome() -> None:
    """Draws the four stories as paths from thing to box to room: the key's thick, with its end."""
    _, panels = plt.subplots(1, 4, figsize=(6.8, 2.2), layout="constrained")
    stories = itertools.product(("straight", "crossed"), repeat=2)
    for axes, (inside, stands) in zip(panels, stories, strict=True):
        for i in range(2):
            j = i if inside == "straight" else 1 - i  # the box of thing i
            k = j if stands == "straight" else 1 - j  # the room of its box
            color, style = (ORANGE, "-") if i == 0 else (GRAY, ":")
            axes.plot([i, j, k], [2, 1, 0], style, color=color, lw=2.5)
            if i == 0:
                axes.plot(k, 0, "o", color=ORANGE, ms=11)
        for row, words in enumerate((ROOMS, BOXES, THINGS)):
            axes.text(-0.28, row, words[0], ha="right", va="center", fontsize=10)
            axes.text(1.28, row, words[1], ha="left", va="center", fontsize=10)
        axes.set(xlim=(-1.4, 2.2), ylim=(-0.4, 2.3))
        axes.set_title(f"things {inside},\nboxes {stands}", fontsize=10)
        axes.axis("off")


def draw_questions(names: list[str], questions: Tensor) -> None:
    """Draws a question before the first hop and after each hop, as one panel of bars each.

    Args:
        names: what the coordinates stand for, K of them.
        questions: the question's numbers at these names, shape (hops + 1, K), hops at least 1.
    """
    _, panels = plt.subplots(
        1, len(questions), figsize=(6.8, 2.4), sharey=True, layout="constrained"
    )
    titles = ["before", *(f"after hop {n}" for n in range(1, len(questions)))]
    for axes, title, heights in zip(panels, titles, questions, strict=True):
        colors = [ORANGE if i == heights.argmax() else GRAY for i in range(len(names))]
        axes.bar(range(len(names)), heights, color=colors)
        axes.axhline(0, color=GRAY, lw=0.8)
        axes.set_xticks(range(len(names)), names, rotation=60, fontsize=10)
        axes.set_title(title, fontsize=11)
    panels[0].set_ylabel("q at this name")


def draw_task(x: Tensor, bits: Tensor) -> None:
    """Draws a list to be copied: what is heard, above what is to be said at the same steps.

    Args:
        x: what is heard, shape (2L + 1, 5): four bits as -1 or +1, and the go sign.
        bits: what is to be said, 0 or 1, shape (L, 4).
    """
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
    """Draws a machine at work: what it hears and says, and between them its slots and both heads.

    A slot is the darker the more it has changed; the size of a mark is the weight of a head.

    Args:
        x: what is heard, shape (T, 5), as from `make_copy_task`.
        said: probabilities of the bits, shape (T, 4).
        trace: the machine's `Trace` of this list, read and write (T, N), memory (T, N, M).
    """
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
