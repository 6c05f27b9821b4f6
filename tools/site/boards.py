"""The drawings for the board, as TEACHING.md and the handouts show them: python -m tools.site.boards

Writes docs/boards/NAME.svg for each function in `BOARDS`. Each has few lines and few words, so that it can be
copied by hand.
"""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from possm_course.style import BLUE, GRAY, INK, ORANGE, SKY
from tools.site.chapters import ROOT

FOLDER = ROOT / "docs" / "boards"
WIDTH, HEIGHT = 4.2, 2.5  # inches
BOARDS: dict[str, Callable[[Axes], None]] = {}
# letters as outlines, so that they look alike everywhere; the same file from the same drawing
LOOK = {"font.size": 11, "svg.fonttype": "path", "svg.hashsalt": "boards", "lines.linewidth": 2.2}
TIMES = np.array([0.5, 1.6, 3.9, 5.0, 6.4, 8.2])  # of the points on the line
QUESTION = 4.6


def main(folder: Path = FOLDER) -> None:
    """Write all drawings into `folder`."""
    folder.mkdir(exist_ok=True)
    for name, draw in BOARDS.items():
        with mpl.rc_context(LOOK):
            figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT))
            axes.set_position((0, 0, 1, 1))
            axes.set(xlim=(0, 10), ylim=(0, 6))
            axes.axis("off")
            draw(axes)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
            plt.close(figure)


def board(draw: Callable[[Axes], None]) -> Callable[[Axes], None]:
    """Registers a drawing under the name of its function. It gets axes of 10 by 6 units without frame."""
    BOARDS[draw.__name__] = draw
    return draw


def say(axes: Axes, x: float, y: float, text: str, color: str = INK, **look) -> None:
    axes.text(x, y, text, **{"color": color, "ha": "center", "va": "center"} | look)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str = INK) -> None:
    look = {"arrowstyle": "-|>", "color": color, "lw": 1.6, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 12}
    axes.annotate("", end, start, arrowprops=look)


def line(axes: Axes, y: float, first: float = 0.3, last: float = 9.7, color: str = INK) -> None:
    axes.plot([first, last], [y, y], color=color, lw=1.4)


def bell_at(x: np.ndarray, middle: float, width: float = 1.0) -> np.ndarray:
    return np.exp(-(((x - middle) / width) ** 2) / 2)


def weights() -> np.ndarray:
    """Of the points for the question."""
    heights = bell_at(TIMES, QUESTION)
    return heights / heights.sum()


@board
def bell(axes: Axes) -> None:
    """Points on a line, a bell over the question, bars of weights below."""
    x = np.linspace(0.3, 9.7, 200)
    line(axes, 3.2)
    axes.plot(TIMES, np.full(6, 3.2), "o", color=BLUE, ms=8)
    axes.plot(x, 3.2 + 2 * bell_at(x, QUESTION), color=ORANGE)
    axes.plot([QUESTION, QUESTION], [0.7, 5.2], color=ORANGE, lw=1.4, ls=(0, (4, 3)))
    say(axes, QUESTION, 5.6, "?", ORANGE, size=15, weight="bold")
    say(axes, 8.2, 4.1, "points")
    line(axes, 0.7)
    axes.bar(TIMES, 3.6 * weights(), 0.35, 0.7, color=BLUE)
    say(axes, 8.2, 1.5, "weights,\ntogether 1")


@board
def query(axes: Axes) -> None:
    """The same with other names: a query, keys, weights, values, and their average."""
    keys = np.array([1.2, 2.9, 4.6, 6.3])
    share = np.array([0.1, 0.6, 0.25, 0.05])
    say(axes, 3.75, 5.6, "query", ORANGE, weight="bold")
    for x, height in zip(keys, share, strict=True):
        arrow(axes, (3.75, 5.25), (x, 4.4), ORANGE)
        axes.plot([x], [4.1], "o", color=BLUE, ms=8)
        axes.bar([x], 1.7 * height, 0.4, 2.3, color=BLUE)
        axes.plot([x], [1.5], "s", color="white", mec=INK, ms=11)
    for y, word in ((4.1, "keys"), (2.6, "weights"), (1.5, "values")):
        say(axes, 7.1, y, word, ha="left")
    line(axes, 2.3, 0.6, 6.9)
    for x in keys:
        axes.plot([x, 3.75], [1.2, 0.65], color=INK, lw=1.2)
    say(axes, 3.75, 0.35, "weighted average", weight="bold")


@board
def mask(axes: Axes) -> None:
    """Padding leaves before the softmax, not after it."""
    rows = (
        (4.2, "scores", ["2", "0", "1.5"]),
        (2.5, "masked", ["2", "0", "−∞"]),
        (0.8, "weights", ["0.88", "0.12", "0"]),
    )
    for y, word, numbers in rows:
        say(axes, 0.2, y + 0.4, word, ha="left")
        for x, number in zip((3.2, 5.0, 6.8), numbers, strict=True):
            padding = x == 6.8
            hatch = {"hatch": "///", "ec": GRAY} if padding else {"ec": INK}
            axes.bar([x], 0.95, 1.7, y, fc="white", lw=1.2, **hatch)
            look = {"backgroundcolor": "white"} if padding else {}
            say(axes, x, y + 0.46, number, ORANGE if number == "−∞" else INK, size=12, **look)
        if y > 1:
            arrow(axes, (8.2, y + 0.3), (8.2, y - 0.6))
    say(axes, 6.8, 5.6, "padding", GRAY)
    say(axes, 8.5, 3.85, "mask", ORANGE, ha="left")
    say(axes, 8.5, 2.1, "softmax", ha="left", size=9.5)


@board
def bucket(axes: Axes) -> None:
    """A leaking bucket with a valve: what stays, and what is written."""
    axes.fill([3.35, 6.65, 6.5, 3.5], [3.4, 3.4, 1.7, 1.7], color=SKY, alpha=0.5, lw=0)
    axes.plot([3.2, 3.5, 4.7], [4.9, 1.7, 1.7], color=INK)
    axes.plot([5.3, 6.5, 6.8], [1.7, 1.7, 4.9], color=INK)
    say(axes, 5, 2.6, "state $H$", size=12)
    arrow(axes, (5, 5.9), (5, 3.6), BLUE)
    say(axes, 5.3, 5.5, "$1 - Z$ of the new", BLUE, ha="left")
    axes.fill([4.6, 5.4, 4.6, 5.4], [1.75, 1.15, 1.15, 1.75], color=ORANGE, lw=0)
    arrow(axes, (5, 1.1), (5, 0.2), ORANGE)
    say(axes, 5.6, 1.3, "valve: the gate", ORANGE, ha="left")
    say(axes, 5.6, 0.5, "$1 - Z$ runs out", ha="left")
    say(axes, 1.6, 2.6, "$Z$ stays")


@board
def powers(axes: Axes) -> None:
    """The powers of 0.9, 1 and 1.1: fades, stays, explodes."""
    k = np.arange(0, 17)
    x = 0.9 + 0.4 * k
    line(axes, 0.6, 0.9, 8.4)
    axes.plot([0.9, 0.9], [0.6, 5.7], color=INK, lw=1.4)
    for base, color, word in ((1.1, ORANGE, "1.1: explodes"), (1.0, INK, "1: stays"), (0.9, BLUE, "0.9: fades")):
        y = 0.6 + 1.1 * base**k
        axes.plot(x, y, "o-", color=color, ms=3.5, lw=1.6)
        say(axes, x[-1] + 0.25, y[-1], word, color, ha="left", size=10)
    say(axes, 4.1, 0.25, "steps back", size=10)
    say(axes, 0.55, 1.7, "1")


@board
def kernel(axes: Axes) -> None:
    """A linear recurrence is a convolution: what came k bins ago counts with the k-th power."""
    for x, power in zip((1.2, 3.2, 5.2, 7.2), ("0.73", "0.81", "0.9", "1"), strict=True):
        axes.bar([x], 0.9, 1.2, 4.6, fc="white", ec=INK, lw=1.2)
        end = (7.2, 1.5) if x == 7.2 else (6.6, 1.5)
        arrow(axes, (x, 4.5), end, BLUE)
        say(axes, x + 0.35 * (end[0] - x), 3.45, f"× {power}", BLUE, size=10, backgroundcolor="white")
    for x, word in zip((1.2, 3.2, 5.2, 7.2), ("$x_{t-3}$", "$x_{t-2}$", "$x_{t-1}$", "$x_t$"), strict=True):
        say(axes, x, 5.03, word)
    axes.bar([7.2], 0.9, 1.2, 0.5, fc=SKY, ec=INK, lw=1.2)
    say(axes, 7.2, 0.93, "$h_t$")
    say(axes, 0.3, 1.0, "$h_t = 0.9\\,h_{t-1} + x_t$", ha="left")


@board
def two_clocks(axes: Axes) -> None:
    """Spikes come first, the hand later by the lag; subtract the lag from the times of the hand, and they meet."""
    ticks = {"9.8": 3.4, "9.9": 5.2, "10.0": 7.0, "10.1": 8.8}
    x = np.linspace(3.0, 9.6, 200)
    for y, name in ((4.4, "spikes"), (2.6, "hand"), (0.7, "hand,\ntimes − lag")):
        line(axes, y, 3.0, 9.6)
        say(axes, 0.1, y + 0.3, name, ha="left")
        for place in ticks.values():
            axes.plot([place, place], [y - 0.1, y + 0.1], color=INK, lw=1.2)
    for time, place in ticks.items():
        for y in (4.0, 2.2, 0.3):
            say(axes, place, y, time, size=9, bbox={"fc": "white", "lw": 0, "pad": 1})
    burst = 5.2 + np.array([-0.5, -0.3, -0.12, 0.0, 0.14, 0.28, 0.5])
    axes.vlines(burst, 4.4, 5.2, color=BLUE, lw=1.8)
    axes.plot(x, 2.6 + 0.8 * bell_at(x, 7.0, 0.45), color=ORANGE)
    axes.plot(x, 0.7 + 0.8 * bell_at(x, 5.2, 0.45), color=ORANGE)
    axes.plot([5.2, 5.2], [5.4, 0.7], color=GRAY, lw=1, ls=(0, (3, 3)))
    axes.plot([7.0, 7.0], [5.4, 2.6], color=GRAY, lw=1, ls=(0, (3, 3)))
    arrow(axes, (5.2, 5.5), (7.0, 5.5))
    say(axes, 7.2, 5.5, "lag: 0.1 s", ha="left")
    arrow(axes, (6.7, 2.5), (5.5, 1.5), ORANGE)


@board
def bin_waits(axes: Axes) -> None:
    """A bin waits for its end, then answers, and its answer stays until the next."""
    for x in (1.0, 4.0, 7.0):
        axes.plot([x, x], [3.3, 5.2], color=INK, lw=1.4)
    line(axes, 3.3, 1.0, 9.7)
    axes.vlines([1.3, 2.0, 2.2, 3.1, 3.8, 4.4, 5.5, 5.9, 6.8], 3.3, 4.2, color=BLUE, lw=1.8)
    say(axes, 2.5, 4.8, "bin: 50 ms")
    say(axes, 5.5, 4.8, "next bin")
    line(axes, 0.9, 1.0, 9.7)
    say(axes, 2.5, 2.5, "it waits", GRAY)
    arrow(axes, (4.0, 3.2), (4.0, 1.9), ORANGE)
    arrow(axes, (7.0, 3.2), (7.0, 1.4), ORANGE)
    axes.plot([4.0, 7.0], [1.8, 1.8], color=ORANGE, lw=3.5, solid_capstyle="butt")
    axes.plot([7.0, 9.7], [1.3, 1.3], color=ORANGE, lw=3.5, solid_capstyle="butt")
    say(axes, 5.5, 2.2, "its answer stays", ORANGE, size=10)
    say(axes, 1.1, 1.5, "on the\nscreen", size=9.5, ha="left")


@board
def psth(axes: Axes) -> None:
    """A bell over each spike, and their sum: a smoothed rate."""
    spikes = np.array([2.2, 2.9, 3.3, 3.7, 4.4, 6.9])
    x = np.linspace(0.3, 9.7, 300)
    line(axes, 0.8)
    axes.vlines(spikes, 0.8, 1.3, color=BLUE, lw=1.8)
    each = np.array([1.3 * bell_at(x, t, 0.55) for t in spikes])
    for one in each:
        axes.plot(x, 0.8 + one, color=GRAY, lw=1)
    axes.plot(x, 0.8 + each.sum(0), color=ORANGE)
    say(axes, 3.3, 5.6, "sum of the bells", ORANGE)
    say(axes, 7.6, 2.2, "a bell over\neach spike", ha="left")
    say(axes, 5, 0.35, "time")


@board
def reads_bin(axes: Axes) -> None:
    """A query reads one bin: each spike counts with its weight, and the weights together are 1."""
    times, share = np.array([1.6, 2.9, 3.6, 5.2, 6.4]), np.array([0.1, 0.35, 0.05, 0.4, 0.1])
    line(axes, 0.9, 0.9, 7.3)
    for x in (0.9, 7.3):
        axes.plot([x, x], [0.6, 3.6], color=INK, lw=1.4)
    say(axes, 4.1, 5.6, "query: learned, the same in every bin", ORANGE)
    for x, height in zip(times, share, strict=True):
        arrow(axes, (4.1, 5.2), (x, 1.2 + 5 * height), ORANGE)
    axes.vlines(times, 0.9, 0.9 + 5 * share, color=BLUE, lw=7)
    say(axes, 4.1, 0.4, "spikes of one bin")
    say(axes, 7.6, 2.4, "height:\nweight,\ntogether 1", ha="left", size=10)


if __name__ == "__main__":
    main()
