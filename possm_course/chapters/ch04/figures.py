"""Rotated arrows, phasors, scores of all pairs of places, and networks that look three places back (chapter 04)."""

import math
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from possm_course.chapters.ch02.figures import Adam
from possm_course.style import BLUE, GRAY, INK, ORANGE
from possm_course.widgets import copies
from possm_lite.nn.positions import rope_frequencies

MAX_DISTANCE = 20  # n - m, to either side
BACK, N_SYMBOLS, LENGTH, WIDTH = 3, 8, 32, 64  # of the networks, which are trained at places 0 ... LENGTH - 1
TITLE = {"fontsize": 11, "color": INK, "y": 1}  # without y, a third of the time goes to ticks that a title could hit


def make_draw(q: Sequence[float], k: Sequence[float]) -> Callable[..., Figure]:
    """draw(m, n, theta) -> Figure: q at position m and k at n, rotated by theta degrees a position; their dot product.

    Of the arrows of q and k, two coordinates each, those before the rotation are dashed.
    """
    q, k = complex(*q), complex(*k)
    copy, distance = copies(*_panels(q, k)), np.linspace(-MAX_DISTANCE, MAX_DISTANCE, 321)

    def draw(m: float, n: float, theta: float) -> Figure:
        """Query and key as rotated arrows, and their dot product against the distance of their positions."""
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
    """draw(base, distance) -> Figure: dim / 2 phasors, pointing right at distance 0; score of two equal vectors.

    The score is the mean of how far right they point, mean_j cos(theta_j distance); thin and dashed: base 10,000.
    Phasors rotated by less than a quarter are drawn thick.
    """
    j = np.arange(dim // 2)
    centers = 1.15 * (j % 4 - 1j * (j // 4))
    grid = np.arange(max_distance + 1)
    copy = copies(*_phasor_panels(centers, grid, score_at(grid, 10_000.0, dim)))

    def draw(base: float, distance: float) -> Figure:
        """Sixteen phasors, fast to slow, and the score of two equal vectors against distance."""
        figure, (faces, scores) = copy()
        angle = distance * rope_frequencies(dim, base).numpy()
        tips, slow = centers + 0.42 * np.exp(1j * angle), angle < np.pi / 2
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


def draw_question(text: str = "CAFBEHDA", query: int = 5) -> None:
    """A text at places 0 and up, and once more at 100 and up, with an arrow three places back."""
    figure, axes = plt.subplots(2, 1, figsize=(6.4, 3.0), layout="constrained")
    for ax, first in zip(axes, (0, 100), strict=True):
        for i, symbol in enumerate(text):
            color = {query: BLUE, query - BACK: ORANGE}.get(i, GRAY)
            ax.add_patch(plt.Rectangle((i - 0.4, 0), 0.8, 0.8, fill=False, ec=color, lw=2 if color != GRAY else 1))
            ax.text(i, 0.4, symbol, ha="center", va="center", fontsize=13, color=INK)
        look = {"arrowstyle": "-|>", "color": INK, "lw": 1.6, "connectionstyle": "arc3,rad=0.35"}
        ax.annotate("", (query - BACK, 0.85), (query, 0.85), arrowprops=look)
        ax.set(xlim=(-0.6, len(text) - 0.4), ylim=(-0.1, 1.9), yticks=[])
        ax.set_xticks(range(len(text)), range(first, first + len(text)))
        ax.tick_params(length=0)
        ax.spines[["left", "bottom"]].set_visible(False)
    axes[0].set_title("which symbol was three places back?", fontsize=11)
    axes[1].set_xlabel("place")


def draw_scores(**scores: Tensor) -> None:
    """Scores of a query at every place m and a key at every place n, each (N, N), an image each."""
    figure, axes = plt.subplots(1, len(scores), figsize=(6.4, 3.1), layout="constrained", sharey=True)
    for ax, (name, s) in zip(axes, scores.items(), strict=True):
        limit = float((s - s.mean()).abs().max())
        image = ax.imshow(s - s.mean(), cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        ax.set_title(name.replace("_", " "), fontsize=11)
        ax.set(xlabel="position n of the key", xticks=[0, 20, 40], yticks=[0, 20, 40])
    axes[0].set_ylabel("position m of the query")
    bar = figure.colorbar(image, ax=axes, ticks=[-limit, 0, limit], shrink=0.8)
    bar.ax.set_yticklabels(["low", "mean", "high"])
    plt.show()


def initial_weights(n_networks: int = 3) -> dict[str, Tensor]:
    """Weights of networks with seeds 0, 1, ..., side by side, (S, 1, rows, columns), to multiply (S, B, N, rows).

    Queries and keys start small: all places are read alike at first, and no network begins with a wrong place.
    """
    draws = [torch.Generator().manual_seed(seed) for seed in range(n_networks)]
    n, d, small = N_SYMBOLS, WIDTH, 0.1 * WIDTH**-0.5
    shapes = {"E": (n, d, 1), "P": (200, d, 1), "W_q": (d, d, small), "W_k": (d, d, small)}
    shapes |= {"W_v": (d, d, d**-0.5), "W_out": (d, n, d**-0.5)}
    return {
        name: torch.stack([scale * torch.randn(1, rows, columns, generator=draw) for draw in draws]).requires_grad_()
        for name, (rows, columns, scale) in shapes.items()
    }


def train(predict: Callable[..., Tensor], code: str, n_steps: int = 125) -> dict[str, Tensor]:
    """Weights of three networks that learn at places 0 to 31 which symbol was three places back.

    predict(weights, symbols, places, code) gives scores (S, B, N, 8). Adam takes each number by itself, so the
    networks do not know of each other.
    """
    weights, draw = initial_weights(), torch.Generator().manual_seed(0)
    adam = Adam(weights.values(), 0.0)
    for step in range(n_steps):
        symbols = torch.randint(N_SYMBOLS, (3, 8, LENGTH), generator=draw)  # (S, B, N)
        scores = predict(weights, symbols, torch.arange(LENGTH), code)[:, :, BACK:]
        loss = F.cross_entropy(scores.flatten(0, 2), symbols[:, :, :-BACK].flatten(), reduction="sum")
        adam.rates = 0.02 * math.sin(math.pi * (step + 0.5) / n_steps)  # up and down again
        adam.step(loss / scores[0, ..., 0].numel())
    return {name: w.detach() for name, w in weights.items()}


def share_right(predict: Callable[..., Tensor], weights: dict[str, Tensor], code: str, places: Tensor) -> Tensor:
    """Share of right answers of each network on 100 new texts at these places, (S,)."""
    symbols = torch.randint(N_SYMBOLS, (1, 100, len(places)), generator=torch.Generator().manual_seed(99))
    answer = predict(weights, symbols.expand(3, -1, -1), places, code).argmax(-1)  # (S, B, N)
    return (answer[..., BACK:] == symbols[..., :-BACK]).float().mean((1, 2))


def draw_right(right: dict[str, dict[str, Tensor]]) -> None:
    """Share of right answers: right[where][code] (S,), a panel for each where, a dot for each network."""
    figure, axes = plt.subplots(1, len(right), figsize=(6.4, 3.0), sharey=True, layout="constrained")
    for ax, (where, codes) in zip(axes, right.items(), strict=True):
        for x, (code, share) in enumerate(codes.items()):
            color = BLUE if code == "rotated" else ORANGE
            ax.plot(x + np.linspace(-0.2, 0.2, len(share)), 100 * share, "o", color=color, ms=7, mfc="none", mew=1.8)
        ax.axhline(100 / N_SYMBOLS, color=GRAY, lw=1.2, ls=":")
        ax.set_title(where, fontsize=10)
        ax.set_xticks(range(len(codes)), codes, rotation=45, ha="right")
        ax.set(ylim=(0, 105), xlim=(-0.5, len(codes) - 0.5))
    axes[0].set_ylabel("right answers (%)")
    axes[0].text(3.4, 100 / N_SYMBOLS - 2, "a guess", color=INK, ha="right", va="top", fontsize=9)
    plt.show()
