"""The drawings of chapter 18: the ring, places in a batch, a step, shards, and speed-up."""

import matplotlib.pyplot as plt
import numpy as np

from possm_course.chapters.ch18.ring import full_after
from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, SKY
from possm_lite.training.distributed import ProcessGroup
from possm_lite.training.windows import sessions_of_slots, slots_of_rank


def draw_rounds(n: int = 4) -> None:
    """Draws how many gradients are in each chunk of each process after every round of the ring.

    Args:
        n: number of processes.
    """
    _, panels = plt.subplots(2, 4, figsize=(6.4, 3.9), layout="constrained")
    *of_round, key = panels.flat
    rounds = full_after(n)
    for i, (axes, n_in) in enumerate(zip(of_round, rounds, strict=True)):
        axes.imshow(n_in, cmap="cividis", vmin=0, vmax=n)
        for r in range(n):
            for c in range(n):
                if i and n_in[r, c] != rounds[i - 1][r, c]:  # has just come in
                    corner = (c - 0.46, r - 0.46)
                    frame = plt.Rectangle(corner, 0.92, 0.92, fill=False, ec=ORANGE, lw=2.5)
                    axes.add_patch(frame)
                color = "white" if n_in[r, c] < 3 else INK
                axes.text(c, r, int(n_in[r, c]), ha="center", va="center", color=color)
        axes.set_title("start" if i == 0 else f"round {i}", fontsize=11)
        axes.set(xticks=range(n), yticks=range(n), xlabel="chunk")
    for axes in panels[:, 0]:
        axes.set_ylabel("process")
    key.axis("off")
    meaning = "number:\nhow many\ngradients\nare in\nthe sum\n\nframe:\njust come in"
    key.text(0.5, 0.5, meaning, ha="center", va="center", color=INK)
    plt.show()


def draw_places(cases: tuple[tuple[int, int], ...], n_places: int = 16) -> None:
    """Draws who fills which place of a batch with a window of which session, a row for each case.

    Args:
        cases: numbers of sessions and of processes.
        n_places: windows in the batch.
    """
    _, panels = plt.subplots(len(cases), 1, figsize=(6.4, 4.3), sharex=True, layout="constrained")
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    written = {"ha": "center", "va": "center", "fontsize": 10, "bbox": box}
    looks = ((SKY, ""), (ORANGE, "//"), (GRAY, ".."))
    legend = {"handlelength": 1.2, "columnspacing": 1, "bbox_to_anchor": (1, 0.97)}
    for axes, (n_sessions, size) in zip(panels, cases, strict=True):
        for rank, (color, hatch) in zip(range(size), looks, strict=False):
            mine = slots_of_rank(ProcessGroup(rank, size), n_places)
            look = {"color": color, "hatch": hatch, "edgecolor": "white"}
            axes.bar(mine + 1, 1, width=0.92, label=f"process {rank}", **look)
        for place, sessions in enumerate(sessions_of_slots(n_sessions, n_places)):
            axes.text(place + 1, 0.5, "\n".join(map(str, sessions)), **written)
        axes.set(yticks=[], ylim=(0, 1), xlim=(0.4, n_places + 0.6), xticks=range(1, n_places + 1))
        axes.spines["left"].set_visible(False)
        axes.set_title(f"sessions: {n_sessions}, processes: {size}", fontsize=11, loc="left")
        axes.legend(ncols=3, fontsize=10, loc="lower right", **legend)
    panels[-1].set_xlabel("place in the batch; the number in a box is the session")
    plt.show()


def draw_shards(of_embeddings: bool, n: int = 4) -> None:
    """Draws what each process keeps, as filled squares, in some ways to share the work.

    Args:
        of_embeddings: embeddings copied and sharded, with what all sessions share as the first
            piece; otherwise data parallelism, ZeRO and FSDP, which divide all parameters alike.
        n: number of processes.
    """
    if of_embeddings:  # how weights, gradients and AdamW's means are kept
        ways = {"data parallelism": ("table",) * 3, "embeddings sharded": ("rows",) * 3}
    else:
        ways = {
            "data parallelism": ("all",) * 3,
            "ZeRO, stage 1": ("all", "all", "own"),
            "FSDP": ("own",) * 3,
        }
    _, panels = plt.subplots(1, len(ways), figsize=(6.4, 3.0), sharey=True, layout="constrained")
    for axes, (name, rows) in zip(panels, ways.items(), strict=True):
        for row, how in enumerate(rows):
            for r in range(n):
                _draw_pieces(axes, row, r, how, n)
        axes.set(xticks=range(n), xlabel="process", ylim=(3.2, -0.1))
        axes.set_yticks([0.45, 1.55, 2.65], ("weights", "gradients", "AdamW's\nmeans"))
        axes.set_title(name, fontsize=11)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)
    plt.show()


def _draw_pieces(axes, row: int, r: int, how: str, n: int) -> None:
    """The pieces of a row in process r of n, filled where it keeps them."""
    has_common = how in ("table", "rows")
    n_pieces = n + has_common
    for piece in range(n_pieces):
        keeps = how in ("all", "table") or piece == r + has_common or (has_common and piece == 0)
        filled = ORANGE if has_common and piece else SKY
        color = filled if keeps else "white"
        bottom = 1.1 * row + 0.9 * piece / n_pieces
        axes.bar(r, 0.9 / n_pieces, 0.86, bottom, color=color, ec=GRAY, lw=0.6)


def draw_step(parts_s: dict[int, tuple[float, float, float]]) -> None:
    """Draws how long a step takes, as a bar of three parts for each number of processes.

    Args:
        parts_s: number of processes to seconds of the fixed part, the windows and the exchange.
    """
    _, axes = plt.subplots(figsize=(6.4, 2.4), layout="constrained")
    names = [f"{n} process" + "es" * (n > 1) for n in parts_s]
    begins = np.zeros(len(names))
    looks = (("fixed part", GRAY, ""), ("windows", BLUE, "//"), ("exchange", ORANGE, ".."))
    for (label, color, hatch), seconds in zip(
        looks, np.array(list(parts_s.values())).T, strict=True
    ):
        look = {"color": color, "hatch": hatch, "ec": "white", "label": label}
        axes.barh(names, 1e3 * seconds, 0.6, begins, **look)
        begins += 1e3 * seconds
    axes.invert_yaxis()
    axes.set_xlabel("a step (ms)")
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plt.show()


def draw_scaling(n: np.ndarray, panels_of: dict[str, dict[str, np.ndarray]]) -> None:
    """Draws the speed-up over the number of processes, a panel for each of two cases.

    Args:
        n: numbers of processes, shape (k,).
        panels_of: title to name of the network to speed-ups, shape (k,).
    """
    figure, panels = plt.subplots(1, 2, figsize=(6.4, 3.3), sharey=True, layout="constrained")
    for axes, (title, curves) in zip(panels, panels_of.items(), strict=True):
        axes.plot(n, n, color=GRAY, lw=1.2, label="n times as fast")
        lines = ((BLUE, "-"), (PURPLE, "-."), (ORANGE, "--"))
        for (name, values), (color, style) in zip(curves.items(), lines, strict=True):
            axes.plot(n, values, style, color=color, lw=2, label=name)
        axes.set(
            xlabel="processes n",
            title=title,
            xticks=(1, 4, 8, 12, 16),
            xlim=(0.5, 16.5),
            ylim=(0, 16.5),
        )
    panels[0].set_ylabel("windows per second,\ntimes those of one process")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=10
    )
    plt.show()


def draw_answer(S: np.ndarray, curves: dict[str, np.ndarray], n: int) -> None:
    """Draws the speed-up over the number of sessions, both axes logarithmic.

    Args:
        S: numbers of sessions, shape (k,).
        curves: name of a way to windows per second, in times of one process, shape (k,).
        n: number of processes.
    """
    figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    lines = ((ORANGE, "--"), (GREEN, "-."), (PURPLE, ":"), (BLUE, "-"))
    for (name, values), (color, style) in zip(curves.items(), lines, strict=True):
        axes.loglog(S, values, style, color=color, lw=2.4, label=name)
    axes.axhline(n, color=GRAY, lw=1.2)
    axes.axhline(1, color=GRAY, lw=1.2)
    axes.text(S[0], 1.1 * n, f"{n} times", color=INK, va="bottom")
    axes.text(S[-1], 0.93, "one process", color=INK, ha="right", va="top")
    axes.set(
        xlabel="sessions",
        ylabel="windows per second,\ntimes those of one process",
        ylim=(0.08, 2 * n),
        xlim=(S[0], S[-1]),
    )
    axes.set_xticks([16, 50, 150, 500, 1000], ["16", "50", "150", "500", "1,000"])
    axes.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    axes.minorticks_off()
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=10
    )
    plt.show()
