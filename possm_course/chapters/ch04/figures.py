"""Drawings of chapter 04: clocks, rotated arrows, phasors, scores of all places, right answers."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from possm_course.chapters.ch04.toy import BACK, N_SYMBOLS
from possm_course.style import BLUE, GRAY, INK, ORANGE
from possm_course.widgets import copies
from possm_lite.nn.positions import rope_frequencies

MAX_DISTANCE = 20  # n - m, to either side
# without y, a third of the time goes to ticks that a title could hit
TITLE = {"fontsize": 11, "color": INK, "y": 1}


def make_draw(q: Sequence[float], k: Sequence[float]) -> Callable[..., Figure]:
    """The drawing behind the sliders of rotated arrows.

    Args:
        q: The query before the rotation, two coordinates.
        k: The key before the rotation, two coordinates.

    Returns:
        draw(m, n, theta) -> Figure: the arrows of q at position m and of k at position n, rotated
        by theta degrees a position, dashed before the rotation (left), and their dot product
        against n - m (right).
    """
    q, k = complex(*q), complex(*k)
    copy = copies(*_panels(q, k))
    distance = np.linspace(-MAX_DISTANCE, MAX_DISTANCE, 321)

    def draw(m: float, n: float, theta: float) -> Figure:
        """Query and key as rotated arrows, and their dot product against their distance."""
        figure, (arrows, scores) = copy()
        rotation = np.exp(1j * np.deg2rad(theta))  # by one position, anticlockwise
        size = arrows.get_xlim()[1]
        for name, z, position, color in (("q", q, m, BLUE), ("k", k, n, ORANGE)):
            z = z * rotation**position
            arrows.plot([0, z.real], [0, z.imag], color=color, lw=2.6)
            tip = (3, 0, np.degrees(np.angle(z)) - 90)  # a triangle that points along the arrow
            arrows.plot(z.real, z.imag, marker=tip, color=color, ms=11)
            label = z + 0.14 * size * z / abs(z)
            arrows.text(
                label.real, label.imag, name, color=color, fontsize=13, ha="center", va="center"
            )
        arrows.set_title(f"query at m = {m:g}, key at n = {n:g}", **TITLE)

        dot = (q.conjugate() * k * rotation ** (n - m)).real
        dots = (q.conjugate() * k * rotation**distance).real
        scores.plot(distance, dots, color=GRAY, lw=1.6)
        scores.plot(n - m, dot, "o", color=INK, ms=9)
        title = f"dot product {_signed(dot)} at n − m = {_signed(n - m, 'g')}"
        scores.set_title(title, **TITLE)
        return figure

    return draw


def _panels(q: complex, k: complex) -> list[Axes]:
    """Arrows and dot product, with all that does not depend on the sliders."""
    figure = Figure(figsize=(6.4, 3.0))
    size = 1.25 * max(abs(q), abs(k))
    most = abs(q) * abs(k)  # the largest dot product
    arrows = figure.add_axes((0.03, 0.04, 0.42, 0.86), aspect="equal")
    arrows.set(xlim=(-size, size), ylim=(-size, size))
    arrows.set_axis_off()
    arrows.plot(
        [-size, size, np.nan, 0, 0], [0, 0, np.nan, -size, size], color=GRAY, lw=0.6
    )  # axes
    for z, color in ((q, BLUE), (k, ORANGE)):
        arrows.plot([0, z.real], [0, z.imag], color=color, lw=1.2, ls="--")

    scores = figure.add_axes((0.57, 0.19, 0.40, 0.71))
    scores.set_xlim(-MAX_DISTANCE - 1, MAX_DISTANCE + 1)
    scores.set_yticks([-most, 0, most], [_signed(-most, ".1f"), "0", f"{most:.1f}"])
    scores.set(ylim=(-1.25 * most, 1.25 * most), xticks=[-MAX_DISTANCE, 0, MAX_DISTANCE])
    scores.set_xlabel("distance n − m")
    scores.set_ylabel("dot product", labelpad=0)
    return [arrows, scores]


def make_draw_phasors(
    dim: int = 32, max_distance: int = 400, dashed_base: float = 10_000.0
) -> Callable[..., Figure]:
    """The drawing behind the sliders of phasors.

    Args:
        dim: Features of a head; dim / 2 phasors are drawn.
        max_distance: The largest distance of two positions.
        dashed_base: The base of the curve to compare with.

    Returns:
        draw(base, distance) -> Figure: the phasors at this distance, pointing right at distance 0,
        thick where they have rotated by less than a quarter of a round (left), and the score of two
        equal vectors against distance, dashed for `dashed_base` (right). The score is the mean of
        how far right the phasors point, mean_j cos(theta_j distance).
    """
    j = np.arange(dim // 2)
    centers = 1.15 * (j % 4 - 1j * (j // 4))
    grid = np.arange(max_distance + 1)
    copy = copies(*_phasor_panels(centers, grid, score_at(grid, dashed_base, dim)))

    def draw(base: float, distance: float) -> Figure:
        """Sixteen phasors, fast to slow, and the score of two equal vectors against distance."""
        figure, (faces, scores) = copy()
        angle = distance * rope_frequencies(dim, base).numpy()
        tips = centers + 0.42 * np.exp(1j * angle)
        slow = angle < np.pi / 2
        for chosen, color, width in ((slow, BLUE, 4.0), (~slow, GRAY, 1.4)):
            gaps = np.full(chosen.sum(), np.nan)
            ends = np.stack([centers[chosen], tips[chosen], gaps], -1).ravel()
            faces.plot(ends.real, ends.imag, color=color, lw=width, solid_capstyle="round")
        faces.set_title("thick: less than a quarter of a round", **TITLE)

        score = score_at(distance, base, dim)
        scores.plot(grid, score_at(grid, base, dim), color=BLUE, lw=1.6)
        scores.plot(distance, score, "o", color=INK, ms=9)
        scores.set_title(f"base {base:,.0f}: score {_signed(score)}", **TITLE)
        return figure

    return draw


def _phasor_panels(centers: np.ndarray, grid: np.ndarray, dashed_score: np.ndarray) -> list[Axes]:
    """Circles around `centers`, and the score to compare with against distance."""
    figure = Figure(figsize=(6.4, 3.0))
    faces = figure.add_axes((0.01, 0.02, 0.43, 0.86), aspect="equal")
    faces.set_axis_off()
    faces.plot(centers.real, centers.imag, "o", ms=34, mfc="none", mec=GRAY, mew=0.8)
    faces.set_xlim(centers.real.min() - 0.6, centers.real.max() + 0.6)
    faces.set_ylim(centers.imag.min() - 0.6, centers.imag.max() + 0.6)

    scores = figure.add_axes((0.55, 0.19, 0.42, 0.69), xlim=(-2, grid[-1] + 2), ylim=(-1.1, 1.1))
    scores.plot(grid, dashed_score, color=GRAY, lw=1.2, ls="--")
    scores.set(xticks=[0, grid[-1] // 2, grid[-1]], yticks=[-1, 0, 1])
    scores.set_xlabel("distance n − m (positions)")
    scores.set_ylabel("score, 1 at distance 0", labelpad=0)
    return [faces, scores]


def score_at(distance: np.ndarray | float, base: float, dim: int) -> np.ndarray:
    """The score of two equal vectors, all of whose pairs have length one, by their distance.

    Args:
        distance: Of their positions, any shape.
        base: Of the frequencies of the rotation.
        dim: Features of a vector.

    Returns:
        The score, divided by that at distance 0, in the shape of `distance`.
    """
    angles = np.multiply.outer(distance, rope_frequencies(dim, base).numpy())  # (..., dim / 2)
    return np.cos(angles).mean(-1)


def _signed(value: float, form: str = "+.2f") -> str:
    """A number with a typographic minus sign; zero has no sign."""
    text = format(value, form)
    is_zero = not any(digit in text for digit in "123456789")
    return text.lstrip("+-") if is_zero else text.replace("-", "−")


def draw_question(text: str = "CAFBEHDA", query: int = 5) -> None:
    """A text at places 0 and up, and once more at 100 and up, with an arrow three places back.

    Args:
        text: One symbol a place.
        query: The place from which the arrow starts.
    """
    figure, axes = plt.subplots(2, 1, figsize=(6.4, 3.0), layout="constrained")
    looks = {query: (BLUE, 2), query - BACK: (ORANGE, 2)}
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 1.6, "connectionstyle": "arc3,rad=0.35"}
    for ax, first in zip(axes, (0, 100), strict=True):
        for i, symbol in enumerate(text):
            color, width = looks.get(i, (GRAY, 1))
            ax.add_patch(plt.Rectangle((i - 0.4, 0), 0.8, 0.8, fill=False, ec=color, lw=width))
            ax.text(i, 0.4, symbol, ha="center", va="center", fontsize=13, color=INK)
        ax.annotate("", (query - BACK, 0.85), (query, 0.85), arrowprops=arrow)
        ax.set(xlim=(-0.6, len(text) - 0.4), ylim=(-0.1, 1.9), yticks=[])
        ax.set_xticks(range(len(text)), range(first, first + len(text)))
        ax.tick_params(length=0)
        ax.spines[["left", "bottom"]].set_visible(False)
    axes[0].set_title("which symbol was three places back?", fontsize=11)
    axes[1].set_xlabel("place")


def draw_clocks(times: Sequence[int]) -> None:
    """A clock face for each time, with its second, minute and hour hand.

    Args:
        times: Whole seconds after twelve o'clock.
    """
    hands = {  # seconds for one round, length, width, colour
        "second hand": (60, 0.92, 1.6, ORANGE),
        "minute hand": (3600, 0.80, 3.0, BLUE),
        "hour hand": (43_200, 0.52, 5.0, INK),
    }
    figure, axes = plt.subplots(1, len(times), figsize=(6.4, 2.5), layout="constrained")
    for ax, time in zip(axes, times, strict=True):
        ax.add_patch(plt.Circle((0, 0), 1.06, fill=False, color=GRAY, lw=1.2))
        for mark in np.exp(2j * np.pi * np.arange(12) / 12):
            ax.plot(*_xy(np.array([0.96, 1.06]) * mark), color=GRAY, lw=1)
        for name, (period, length, width, color) in hands.items():
            tip = length * 1j * np.exp(-2j * np.pi * time / period)  # from twelve, clockwise
            line = _xy(np.array([0, tip]))
            ax.plot(*line, color=color, lw=width, solid_capstyle="round", label=name)
        ax.set_title(f"{time // 3600}:{time // 60 % 60:02}:{time % 60:02}", fontsize=11)
        ax.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
        ax.set_axis_off()
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=3)
    plt.show()


def _xy(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Complex numbers as two coordinates."""
    return z.real, z.imag


def draw_scores(**scores: Tensor) -> None:
    """Scores of a query at every place m and a key at every place n, an image each.

    Args:
        scores: By the title of the image, with _ for a space, shape (N, N) each. The colours are
            of the distance from the mean.
    """
    figure, axes = plt.subplots(
        1, len(scores), figsize=(6.4, 3.1), layout="constrained", sharey=True
    )
    for ax, (name, s) in zip(axes, scores.items(), strict=True):
        centered = s - s.mean()
        limit = float(centered.abs().max())
        colors = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        image = ax.imshow(centered, interpolation="nearest", **colors)
        ax.set_title(name.replace("_", " "), fontsize=11)
        ax.set(xlabel="position n of the key", xticks=[0, 20, 40], yticks=[0, 20, 40])
    axes[0].set_ylabel("position m of the query")
    bar = figure.colorbar(image, ax=axes, ticks=[-limit, 0, limit], shrink=0.8)
    bar.ax.set_yticklabels(["low", "mean", "high"])
    plt.show()


def draw_right(right: dict[str, dict[str, Tensor]]) -> None:
    """The share of right answers, a panel for each region of places, a dot for each network.

    Args:
        right: right[where][code], shape (S,): `where` is the title of a panel, `code` the code of
            positions.
    """
    figure, axes = plt.subplots(
        1, len(right), figsize=(6.4, 3.0), sharey=True, layout="constrained"
    )
    for ax, (where, codes) in zip(axes, right.items(), strict=True):
        for x, (code, share) in enumerate(codes.items()):
            color = BLUE if code == "rotated" else ORANGE
            beside = x + np.linspace(-0.2, 0.2, len(share))  # each network by itself
            ax.plot(beside, 100 * share, "o", color=color, ms=7, mfc="none", mew=1.8)
        ax.axhline(100 / N_SYMBOLS, color=GRAY, lw=1.2, ls=":")
        ax.set_title(where, fontsize=10)
        ax.set_xticks(range(len(codes)), codes, rotation=45, ha="right")
        ax.set(ylim=(0, 105), xlim=(-0.5, len(codes) - 0.5))
    axes[0].set_ylabel("right answers (%)")
    below = 100 / N_SYMBOLS - 2
    axes[0].text(3.4, below, "a guess", color=INK, ha="right", va="top", fontsize=9)
    plt.show()
