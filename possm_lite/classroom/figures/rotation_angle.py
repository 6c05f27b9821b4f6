"""A query and a key rotated by their positions, and all pairs of a vector as phasors (chapter 04)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...blocks.positions import rope_frequencies
from ..style import BLUE, GRAY, INK, ORANGE

MAX_DISTANCE = 20  # n - m, to either side


def rotated(z: complex, position: float, theta: float) -> complex:
    """A 2-D vector as a complex number, rotated anticlockwise by `position` times `theta` (rad)."""
    return z * np.exp(1j * position * theta)


def dot(a: complex, b: complex) -> float:
    return (a * b.conjugate()).real


def make_draw(q: Sequence[float], k: Sequence[float]) -> Callable[..., Figure]:
    """Arrows of q at position m and k at position n before and after their rotation, and their dot product.

    Args:
        q, k: a query and a key of two coordinates.

    Returns:
        draw(m, n, theta) -> Figure: positions m and n, angle per position in degrees.
    """
    q, k = complex(*q), complex(*k)
    size, most = 1.25 * max(abs(q), abs(k)), abs(q) * abs(k)
    distance = np.linspace(-MAX_DISTANCE, MAX_DISTANCE, 321)

    def draw(m: float, n: float, theta: float) -> Figure:
        angle = np.deg2rad(theta)
        q_m, k_n = rotated(q, m, angle), rotated(k, n, angle)
        figure = Figure(figsize=(6.4, 3.0))
        arrows = _panel(figure, [0.03, 0.04, 0.42, 0.86], size)
        _arrow(arrows, q, BLUE, size, faint=True)
        _arrow(arrows, k, ORANGE, size, faint=True)
        _arrow(arrows, q_m, BLUE, size, name="q")
        _arrow(arrows, k_n, ORANGE, size, name="k")
        arrows.set_title(f"query at m = {m:g}, key at n = {n:g}", fontsize=11, color=INK)

        curve = [dot(q, rotated(k, n_minus_m, angle)) for n_minus_m in distance]
        scores = figure.add_axes([0.57, 0.19, 0.40, 0.71])
        scores.plot(distance, curve, color=GRAY, lw=1.6)
        scores.plot(n - m, dot(q_m, k_n), "o", color=INK, ms=9)
        scores.set_title(
            f"dot product {_signed(dot(q_m, k_n))} at n − m = {_signed(n - m, 'g')}", fontsize=11, color=INK
        )
        _plain(scores, [-MAX_DISTANCE, 0, MAX_DISTANCE], [-most, 0, most])
        scores.set_yticklabels([_signed(-most, ".1f"), "0", f"{most:.1f}"])
        scores.set_xlim(-MAX_DISTANCE - 1, MAX_DISTANCE + 1)
        scores.set_ylim(-1.25 * most, 1.25 * most)
        scores.set_xlabel("distance n − m", fontsize=11)
        scores.set_ylabel("dot product", fontsize=11, labelpad=0)
        return figure

    return draw


def make_draw_phasors(dim: int = 32, max_distance: int = 400) -> Callable[..., Figure]:
    """The dim / 2 phasors, which point up at distance 0, at a distance, and the score of two equal vectors.

    The score is the mean height of the phasors, mean_j cos(theta_j distance); a thin line shows that of base 10,000.

    Returns:
        draw(base, distance) -> Figure: the base of the frequencies, the distance n - m in positions.
    """
    per_row = 4
    centers = np.array([complex(j % per_row, -(j // per_row)) * 1.15 for j in range(dim // 2)])
    grid = np.arange(max_distance + 1)
    default = score_at(grid, 10_000.0, dim)

    def draw(base: float, distance: float) -> Figure:
        angle = distance * rope_frequencies(dim, base).numpy()
        figure = Figure(figsize=(6.4, 3.0))
        faces = figure.add_axes([0.01, 0.02, 0.43, 0.86])
        _draw_phasors(faces, centers, angle)

        scores = figure.add_axes([0.55, 0.19, 0.42, 0.69])
        scores.plot(grid, default, color=GRAY, lw=1.2, ls="--")
        scores.plot(grid, score_at(grid, base, dim), color=BLUE, lw=1.6)
        now = score_at(np.array([distance]), base, dim)[0]
        scores.plot(distance, now, "o", color=INK, ms=9)
        scores.set_title(f"base {base:,.0f}: score {_signed(now)}", fontsize=11, color=INK)
        _plain(scores, [0, max_distance // 2, max_distance], [-1, 0, 1])
        scores.set_xlim(-5, max_distance + 5)
        scores.set_ylim(-1.1, 1.1)
        scores.set_xlabel("distance n − m (positions)", fontsize=11)
        scores.set_ylabel("score, 1 at distance 0", fontsize=11, labelpad=0)
        return figure

    return draw


def score_at(distance: np.ndarray, base: float, dim: int) -> np.ndarray:
    """Score of two equal vectors, all pairs of length one, against distance, divided by that at distance 0."""
    return np.cos(np.multiply.outer(distance, rope_frequencies(dim, base).numpy())).mean(-1)


def _draw_phasors(axes: Axes, centers: np.ndarray, angle: np.ndarray) -> None:
    """Phasors rotated clockwise by `angle` from upright; those below a quarter of a rotation are drawn thick."""
    tips = centers + 0.42 * np.exp(1j * (np.pi / 2 - angle))
    slow = angle < np.pi / 2
    axes.plot(centers.real, centers.imag, "o", ms=34, mfc="none", mec=GRAY, mew=0.8)
    for chosen, color, width in ((slow, BLUE, 4.0), (~slow, GRAY, 1.4)):
        ends = np.stack([centers[chosen], tips[chosen], np.full(chosen.sum(), np.nan)], -1).ravel()  # NaN: a gap
        axes.plot(ends.real, ends.imag, color=color, lw=width, solid_capstyle="round")
    axes.set_title(f"{slow.sum()} of {len(angle)} hands in their first quarter", fontsize=11, color=INK)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(centers.real.min() - 0.6, centers.real.max() + 0.6)
    axes.set_ylim(centers.imag.min() - 0.6, centers.imag.max() + 0.6)


def _panel(figure: Figure, rectangle: list[float], size: float) -> Axes:
    """An empty square plane with a cross at its origin."""
    axes = figure.add_axes(rectangle)
    axes.plot([-size, size, np.nan, 0, 0], [0, 0, np.nan, -size, size], color=GRAY, lw=0.6)
    axes.set_xlim(-size, size)
    axes.set_ylim(-size, size)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return axes


def _arrow(axes: Axes, z: complex, color: str, size: float, name: str = "", faint: bool = False) -> None:
    """An arrow from the origin to `z`: thin and dashed before its rotation, thick and labelled after it."""
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
    """A number with a typographic minus sign; zero has no sign."""
    text = format(value, form)
    return text.replace("-", "−") if any(digit in text for digit in "123456789") else text.lstrip("+-")
