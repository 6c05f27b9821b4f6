"""A query and a key rotated by their positions, and all pairs of a vector as phasors (chapter 04)."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from possm_lite.course.style import BLUE, GRAY, INK, ORANGE
from possm_lite.course.widgets import copies
from possm_lite.nn.positions import rope_frequencies

MAX_DISTANCE = 20  # n - m, to either side
TITLE = {"fontsize": 11, "color": INK, "y": 1}  # without y, a third of the time goes to ticks that a title could hit


def make_draw(q: Sequence[float], k: Sequence[float]) -> Callable[..., Figure]:
    """draw(m, n, theta) -> Figure: q at position m and k at n, rotated by theta degrees a position; their dot product.

    Of the arrows of q and k, two coordinates each, those before the rotation are dashed.
    """
    q, k = complex(*q), complex(*k)
    copy, distance = copies(*_panels(q, k)), np.linspace(-MAX_DISTANCE, MAX_DISTANCE, 321)

    def draw(m: float, n: float, theta: float) -> Figure:
        figure, (arrows, scores) = copy()
        rotation = np.exp(1j * np.deg2rad(theta))  # by one position, anticlockwise
        size = arrows.get_xlim()[1]
        for name, z, position, color in (("q", q, m, BLUE), ("k", k, n, ORANGE)):
            z = z * rotation**position
            arrows.plot([0, z.real], [0, z.imag], color=color, lw=2.6)
            arrows.plot(z.real, z.imag, marker=(3, 0, np.degrees(np.angle(z)) - 90), color=color, ms=11)
            label = z + 0.14 * size * z / abs(z)
            arrows.text(label.real, label.imag, name, color=color, fontsize=13, ha="center", va="center")
        arrows.set_title(f"query at m = {m:g}, key at n = {n:g}", **TITLE)

        dot = (q.conjugate() * k * rotation ** (n - m)).real
        scores.plot(distance, (q.conjugate() * k * rotation**distance).real, color=GRAY, lw=1.6)
        scores.plot(n - m, dot, "o", color=INK, ms=9)
        scores.set_title(f"dot product {_signed(dot)} at n − m = {_signed(n - m, 'g')}", **TITLE)
        return figure

    return draw


def _panels(q: complex, k: complex) -> list[Axes]:
    """Arrows and dot product, with all that does not depend on the sliders."""
    figure, size, most = Figure(figsize=(6.4, 3.0)), 1.25 * max(abs(q), abs(k)), abs(q) * abs(k)
    arrows = figure.add_axes((0.03, 0.04, 0.42, 0.86), xlim=(-size, size), ylim=(-size, size), aspect="equal")
    arrows.set_axis_off()
    arrows.plot([-size, size, np.nan, 0, 0], [0, 0, np.nan, -size, size], color=GRAY, lw=0.6)
    for z, color in ((q, BLUE), (k, ORANGE)):
        arrows.plot([0, z.real], [0, z.imag], color=color, lw=1.2, ls="--")

    scores = figure.add_axes((0.57, 0.19, 0.40, 0.71), xlim=(-MAX_DISTANCE - 1, MAX_DISTANCE + 1))
    scores.set_yticks([-most, 0, most], [_signed(-most, ".1f"), "0", f"{most:.1f}"])
    scores.set(ylim=(-1.25 * most, 1.25 * most), xticks=[-MAX_DISTANCE, 0, MAX_DISTANCE])
    scores.set_xlabel("distance n − m")
    scores.set_ylabel("dot product", labelpad=0)
    return [arrows, scores]


def make_draw_phasors(dim: int = 32, max_distance: int = 400) -> Callable[..., Figure]:
    """draw(base, distance) -> Figure: dim / 2 phasors, upright at distance n - m = 0; score of two equal vectors.

    The score is the mean height of the phasors, mean_j cos(theta_j distance); a thin line shows that of base 10,000.
    Phasors rotated by less than a quarter are drawn thick.
    """
    j = np.arange(dim // 2)
    centers = 1.15 * (j % 4 - 1j * (j // 4))
    grid = np.arange(max_distance + 1)
    copy = copies(*_phasor_panels(centers, grid, score_at(grid, 10_000.0, dim)))

    def draw(base: float, distance: float) -> Figure:
        figure, (faces, scores) = copy()
        angle = distance * rope_frequencies(dim, base).numpy()
        tips, slow = centers + 0.42 * np.exp(1j * (np.pi / 2 - angle)), angle < np.pi / 2
        for chosen, color, width in ((slow, BLUE, 4.0), (~slow, GRAY, 1.4)):
            ends = np.stack([centers[chosen], tips[chosen], np.full(chosen.sum(), np.nan)], -1).ravel()  # NaN: a gap
            faces.plot(ends.real, ends.imag, color=color, lw=width, solid_capstyle="round")
        faces.set_title(f"{slow.sum()} of {len(angle)} phasors in their first quarter", **TITLE)

        score = score_at(distance, base, dim)
        scores.plot(grid, score_at(grid, base, dim), color=BLUE, lw=1.6)
        scores.plot(distance, score, "o", color=INK, ms=9)
        scores.set_title(f"base {base:,.0f}: score {_signed(score)}", **TITLE)
        return figure

    return draw


def _phasor_panels(centers: np.ndarray, grid: np.ndarray, usual_score: np.ndarray) -> list[Axes]:
    """Circles around `centers`, and the score of base 10,000 against distance."""
    figure = Figure(figsize=(6.4, 3.0))
    faces = figure.add_axes((0.01, 0.02, 0.43, 0.86), aspect="equal")
    faces.set_axis_off()
    faces.plot(centers.real, centers.imag, "o", ms=34, mfc="none", mec=GRAY, mew=0.8)
    faces.set_xlim(centers.real.min() - 0.6, centers.real.max() + 0.6)
    faces.set_ylim(centers.imag.min() - 0.6, centers.imag.max() + 0.6)

    scores = figure.add_axes((0.55, 0.19, 0.42, 0.69), xlim=(-5, grid[-1] + 5), ylim=(-1.1, 1.1))
    scores.plot(grid, usual_score, color=GRAY, lw=1.2, ls="--")
    scores.set(xticks=[0, grid[-1] // 2, grid[-1]], yticks=[-1, 0, 1])
    scores.set_xlabel("distance n − m (positions)")
    scores.set_ylabel("score, 1 at distance 0", labelpad=0)
    return [faces, scores]


def score_at(distance: np.ndarray | float, base: float, dim: int) -> np.ndarray:
    """Score of two equal vectors, all pairs of length one, against distance, divided by that at distance 0."""
    return np.cos(np.multiply.outer(distance, rope_frequencies(dim, base).numpy())).mean(-1)


def _signed(value: float, form: str = "+.2f") -> str:
    """A number with a typographic minus sign; zero has no sign."""
    text = format(value, form)
    return text.replace("-", "−") if any(digit in text for digit in "123456789") else text.lstrip("+-")
