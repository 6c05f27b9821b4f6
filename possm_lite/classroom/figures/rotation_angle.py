"""A query and a key that turn with their positions, and all pairs of a vector as the hands of clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from possm_lite.blocks.positions import rope_frequencies

from ..style import BLUE, GRAY, INK, ORANGE

REACH = 20  # distances n - m shown to either side


def turned(z: complex, position: float, theta: float) -> complex:
    """An arrow as a complex number, turned by `position` times `theta` (rad), anticlockwise."""
    return z * np.exp(1j * position * theta)


def dot(a: complex, b: complex) -> float:
    return (a * b.conjugate()).real


def picture(q: Sequence[float], k: Sequence[float]) -> Callable[..., Figure]:
    """Arrows of q at position m and k at position n before and after their turn, and beside them the dot product.

    Args:
        q, k: a query and a key of two coordinates.

    Returns:
        draw(m, n, theta): positions m and n, angle per position in degrees.
    """
    q, k = complex(*q), complex(*k)
    size, most = 1.25 * max(abs(q), abs(k)), abs(q) * abs(k)
    distance = np.linspace(-REACH, REACH, 321)

    def draw(m: float, n: float, theta: float) -> Figure:
        angle = np.deg2rad(theta)
        q_m, k_n = turned(q, m, angle), turned(k, n, angle)
        figure = Figure(figsize=(6.4, 3.0))
        arrows = _panel(figure, [0.03, 0.04, 0.42, 0.86], size)
        _arrow(arrows, q, BLUE, size, faint=True)
        _arrow(arrows, k, ORANGE, size, faint=True)
        _arrow(arrows, q_m, BLUE, size, name="q")
        _arrow(arrows, k_n, ORANGE, size, name="k")
        arrows.set_title(f"query at m = {m:g}, key at n = {n:g}", fontsize=11, color=INK)

        curve = [dot(q, turned(k, at, angle)) for at in distance]
        scores = figure.add_axes([0.57, 0.19, 0.40, 0.71])
        scores.plot(distance, curve, color=GRAY, lw=1.6)
        scores.plot(n - m, dot(q_m, k_n), "o", color=INK, ms=9)
        scores.set_title(
            f"dot product {_signed(dot(q_m, k_n))} at n − m = {_signed(n - m, 'g')}", fontsize=11, color=INK
        )
        _plain(scores, [-REACH, 0, REACH], [-most, 0, most])
        scores.set_yticklabels([_signed(-most, ".1f"), "0", f"{most:.1f}"])
        scores.set_xlim(-REACH - 1, REACH + 1)
        scores.set_ylim(-1.25 * most, 1.25 * most)
        scores.set_xlabel("distance n − m", fontsize=11)
        scores.set_ylabel("dot product", fontsize=11, labelpad=0)
        return figure

    return draw


def clocks(dim: int = 32, farthest: int = 400) -> Callable[..., Figure]:
    """The dim / 2 hands that point up at distance 0, as they stand at a distance, and the score of two equal vectors.

    The score is the mean height of the hands, mean_j cos(theta_j distance); a thin line keeps the one of base 10,000.

    Returns:
        draw(base, distance): the base of the frequencies, the distance n - m in positions.
    """
    n_hands, in_row = dim // 2, 4
    middle = np.array([complex(j % in_row, -(j // in_row)) * 1.15 for j in range(n_hands)])
    grid = np.arange(farthest + 1)
    usual = score_at(grid, 10_000.0, dim)

    def draw(base: float, distance: float) -> Figure:
        angle = distance * rope_frequencies(dim, base).numpy()
        figure = Figure(figsize=(6.4, 3.0))
        faces = figure.add_axes([0.01, 0.02, 0.43, 0.86])
        _faces(faces, middle, angle)

        scores = figure.add_axes([0.55, 0.19, 0.42, 0.69])
        scores.plot(grid, usual, color=GRAY, lw=1.2, ls="--")
        scores.plot(grid, score_at(grid, base, dim), color=BLUE, lw=1.6)
        now = score_at(np.array([distance]), base, dim)[0]
        scores.plot(distance, now, "o", color=INK, ms=9)
        scores.set_title(f"base {base:,.0f}: score {_signed(now)}", fontsize=11, color=INK)
        _plain(scores, [0, farthest // 2, farthest], [-1, 0, 1])
        scores.set_xlim(-5, farthest + 5)
        scores.set_ylim(-1.1, 1.1)
        scores.set_xlabel("distance n − m (positions)", fontsize=11)
        scores.set_ylabel("score, 1 at distance 0", fontsize=11, labelpad=0)
        return figure

    return draw


def score_at(distance: np.ndarray, base: float, dim: int) -> np.ndarray:
    """Score of two equal vectors, all pairs of length one, against distance, divided by that at distance 0."""
    return np.cos(np.multiply.outer(distance, rope_frequencies(dim, base).numpy())).mean(-1)


def _faces(axes: Axes, middle: np.ndarray, angle: np.ndarray) -> None:
    """Clocks at `middle` with hands turned clockwise by `angle`; those in their first quarter turn are drawn thick."""
    tip = middle + 0.42 * np.exp(1j * (np.pi / 2 - angle))
    slow = angle < np.pi / 2
    axes.plot(middle.real, middle.imag, "o", ms=34, mfc="none", mec=GRAY, mew=0.8)
    for some, color, width in ((slow, BLUE, 4.0), (~slow, GRAY, 1.4)):
        ends = np.stack([middle[some], tip[some], np.full(some.sum(), np.nan)], -1).ravel()  # nan lifts the pen
        axes.plot(ends.real, ends.imag, color=color, lw=width, solid_capstyle="round")
    axes.set_title(f"{slow.sum()} of {len(angle)} hands in their first quarter", fontsize=11, color=INK)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(middle.real.min() - 0.6, middle.real.max() + 0.6)
    axes.set_ylim(middle.imag.min() - 0.6, middle.imag.max() + 0.6)


def _panel(figure: Figure, place: list[float], size: float) -> Axes:
    """An empty square plane with a cross at its origin."""
    axes = figure.add_axes(place)
    axes.plot([-size, size, np.nan, 0, 0], [0, 0, np.nan, -size, size], color=GRAY, lw=0.6)
    axes.set_xlim(-size, size)
    axes.set_ylim(-size, size)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return axes


def _arrow(axes: Axes, z: complex, color: str, size: float, name: str = "", faint: bool = False) -> None:
    """An arrow from the origin to `z`: thin and dashed before its turn, thick and named after it."""
    axes.plot([0, z.real], [0, z.imag], color=color, lw=1.2 if faint else 2.6, ls="--" if faint else "-")
    if not faint:
        axes.plot(z.real, z.imag, marker=(3, 0, np.degrees(np.angle(z)) - 90), color=color, ms=11)
        label = z + 0.14 * size * z / abs(z)
        axes.text(label.real, label.imag, name, color=color, fontsize=13, ha="center", va="center")


def _plain(axes: Axes, xticks: list[float], yticks: list[float]) -> None:
    """Few ticks, no frame above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xticks(xticks)
    axes.set_yticks(yticks)


def _signed(value: float, form: str = "+.2f") -> str:
    """A number with a minus sign as long as its plus; what rounds to nothing has none."""
    text = format(value, form)
    return text.replace("-", "−") if any(digit in text for digit in "123456789") else text.lstrip("+-")
