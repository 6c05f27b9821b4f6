"""Drawings and trainings of chapter 02 that are no part of its lessons."""

import math
from collections.abc import Iterable

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn import functional as F

from possm_course.chapters.ch02.selection import (
    expected_loss,
    leave_one_out_mean,
    log_probability,
    reinforce_loss,
    sample_choice,
    straight_through_gumbel,
)
from possm_course.style import BLUE, INK, ORANGE

SEEDS = 3


def draw_keys(arrow: Tensor, points: Tensor, exists: Tensor, axes=None) -> None:
    """The query (1, 2) as an arrow, its keys (M, 2) by letters; a cross where none exists."""
    if axes is None:
        _, axes = plt.subplots(figsize=(5.6, 3.7), layout="constrained")
    axes.annotate("", arrow[0].tolist(), (0, 0), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 2.4})
    axes.text(0.55, 0.55, "query", color=INK, ha="center", rotation=27)
    for name, (x, y), real in zip("ABCDE", points.tolist(), exists.tolist(), strict=True):
        axes.plot(x, y, "o" if real else "x", color=BLUE if real else ORANGE, ms=9, mew=2.4)
        axes.annotate(name if real else "no key", (x, y), xytext=(9, 4), textcoords="offset points", size=12)
    axes.axhline(0, color=INK, lw=0.5)
    axes.axvline(0, color=INK, lw=0.5)
    axes.set(xlim=(-3, 4.2), ylim=(-2.6, 2.4), xlabel="first number", ylabel="second number", aspect="equal")
    axes.set(xticks=range(-3, 5), yticks=range(-2, 3))


def draw_readings(arrow: Tensor, points: Tensor, exists: Tensor, weights: dict[str, Tensor]) -> None:
    """The keys, and how much of each a score reads: `weights` (1, M) by the name of the score."""
    figure, (plane, table) = plt.subplots(2, 1, figsize=(6.4, 6.2), height_ratios=(1.35, 1), layout="constrained")
    draw_keys(arrow, points, exists, plane)
    p = torch.cat([*weights.values()])  # (scores, M)
    picture = table.imshow(p, vmin=0, vmax=1, aspect="auto")
    for (i, m), share in zip(torch.cartesian_prod(*map(torch.arange, p.shape)).tolist(), p.flatten(), strict=True):
        table.text(m, i, f"{share:.2f}", ha="center", va="center", fontsize=10, color="w" if share < 0.6 else INK)
    table.set_yticks(range(len(weights)), weights)
    table.set_xticks(range(len(points)), [n if e else "no key" for n, e in zip("ABCDE", exists, strict=True)])
    table.xaxis.tick_top()
    table.tick_params(length=0)
    figure.colorbar(picture, ax=table, label="weight")
    plt.show()


class Adam:
    """Adam with one step size for all weights, or one for each run along their first axis, if runs are trained side
    by side. For short trainings: the first use of torch.optim imports torch's compiler, which takes a second or two."""

    def __init__(self, weights: Iterable[Tensor], rates: float | Tensor):
        self.weights, self.steps = [*weights], 0
        self.rates = rates if isinstance(rates, float) else rates.view(-1, *[1] * (self.weights[0].dim() - 1))
        self.means, self.squares = ([torch.zeros_like(x) for x in self.weights] for _ in range(2))

    def step(self, loss: Tensor) -> None:
        self.steps += 1
        gradients = torch.autograd.grad(loss, self.weights, materialize_grads=True)
        for x, m, s, gradient in zip(self.weights, self.means, self.squares, gradients, strict=True):
            m.lerp_(gradient, 0.1)
            s.lerp_(gradient.square(), 0.01)
            x.data -= self.rates * (m / (1 - 0.9**self.steps)) / ((s / (1 - 0.99**self.steps)).sqrt() + 1e-8)


def _make_pairs(task: str, n: int, size: int, repeats: int, generator: torch.Generator) -> list[Tensor]:
    """Queries (R S, n, 1, size), keys (R S, n, 8, size) and the right key (R S, n): the same for every step size R."""
    q, k = (torch.randn(SEEDS, n, m, size, generator=generator) for m in (1, 8))
    right = -(q - k).square().sum(-1) if task == "nearest" else (q * k).sum(-1)
    q, k = (F.pad(x, (0, 1), value=1.0) for x in (q, k))  # the constant
    return [x.repeat(repeats, *[1] * (x.dim() - 1)) for x in (q, k, right.argmax(-1))]


def _score_pairs(kind: str, q: Tensor, k: Tensor, W_q: Tensor, W_k: Tensor, last: Tensor) -> Tensor:
    """q (R S, n, 1, size), k (R S, n, 8, size), W_q and W_k (R S, 1, size, h): scores (R S, n, 8)."""
    if kind == "additive":
        return (torch.tanh(q @ W_q + k @ W_k) @ last)[..., 0]  # last (R S, 1, h, 1): w_v
    score = ((q @ W_q) * (k @ W_k)).sum(-1)
    return score if kind == "bilinear" else score + last[:, 0, :1, 0, None] * k.square().sum(-1)


def share_found(kind: str, task: str, size: int, rates=(0.003, 0.01, 0.03), h=16, steps=150, n=24) -> Tensor:
    """How often each seed (S,) finds the right one of eight keys, at the best step size."""
    g = torch.Generator().manual_seed(0)
    shapes = ((1, size + 1, h), (1, size + 1, h), (1, h, 1))
    start = [torch.randn(SEEDS, *shape, generator=g) / math.sqrt(shape[1]) for shape in shapes]
    start[2] *= kind == "additive"
    weights = [x.repeat(len(rates), 1, 1, 1).requires_grad_() for x in start]
    adam = Adam(weights, torch.tensor(rates).repeat_interleave(SEEDS))
    for _ in range(steps):
        q, k, right = _make_pairs(task, n, size, len(rates), g)
        scores = _score_pairs(kind, q, k, *weights).transpose(1, 2)  # (R S, 8, n)
        adam.step(F.cross_entropy(scores, right, reduction="none").mean(1).sum())
    with torch.no_grad():
        q, k, right = _make_pairs(task, 500, size, len(rates), torch.Generator().manual_seed(1))
        found = (_score_pairs(kind, q, k, *weights).argmax(-1) == right).float().mean(-1).view(-1, SEEDS)
    return found[found.mean(1).argmax()]


def right_key_read(way: str, rates: tuple[float, ...], d=64, n=24, steps=150) -> Tensor:
    """Share of 200 new queries whose largest weight is on the right one of eight keys, (step sizes, seeds)."""
    R = len(rates)
    g = torch.Generator().manual_seed(0)
    W_q, W_k = torch.randn(2, SEEDS, d, d, generator=g).div(math.sqrt(d)).repeat(1, R, 1, 1)  # (R S, d, d) each
    W_q = W_q / math.sqrt(d) if way == "undivided, small start" else W_q
    weights = [W_q.requires_grad_(), W_k.requires_grad_()]
    adam = Adam(weights, torch.tensor(rates).repeat_interleave(SEEDS))

    def read(n):
        x_k = torch.randn(SEEDS, n, 8, d, generator=g)
        right = torch.randint(8, (SEEDS, n), generator=g)
        x_q = x_k[torch.arange(SEEDS)[:, None], torch.arange(n), right]  # (S, n, d)
        x_q = x_q + 0.5 * torch.randn(SEEDS, n, d, generator=g)
        v = 2.0 * torch.randint(2, (SEEDS, n, 8), generator=g) - 1
        x_q, x_k, right, v = (x.repeat(R, *[1] * (x.dim() - 1)) for x in (x_q, x_k.flatten(1, 2), right, v))
        s = ((x_q @ weights[0])[:, :, None] * (x_k @ weights[1]).unflatten(1, (n, 8))).sum(-1)  # (R S, n, 8)
        return torch.softmax(s / math.sqrt(d) if way == "divided" else s, -1), v, right

    for _ in range(steps):
        p, v, right = read(n)
        error = v.gather(-1, right[..., None])[..., 0] - (p * v).sum(-1)
        adam.step(error.square().mean(1).sum())
    with torch.no_grad():
        p, _, right = read(200)
    return (p.argmax(-1) == right).float().mean(1).view(R, SEEDS)


def _looks(n: int, hidden: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Keys (S, n, M, d), values (S, n, M), answers (S, n), and which item is informative, one-hot (S, n, M)."""
    S, d = hidden.shape
    informative = F.one_hot(torch.randint(8, (S, n), generator=generator), 8).float()
    k = torch.randn(S, n, 8, d, generator=generator) + 2 * informative[..., None] * hidden[:, None, None]
    v = 2.0 * torch.randint(2, (S, n, 8), generator=generator) - 1
    return k, v, (v * informative).sum(-1), informative


def _step_loss(way: str, s: Tensor, v: Tensor, y: Tensor, r: Tensor) -> Tensor:
    """What each way differentiates: s and v (S, B, M), y (S, B), r (S, 1) -> (S, B)."""
    if way == "exact gradient":
        return expected_loss(s, (y[..., None] - r[..., None] * v).square())  # all items read
    if way == "straight-through":
        return (y - r * (straight_through_gumbel(s) * v).sum(-1)).square()
    choice = sample_choice(s)
    loss = (y - r * (choice * v).sum(-1)).square()
    c = leave_one_out_mean(loss.T).T if way == "baseline" else 0.0  # of the other trials of this step
    return reinforce_loss(log_probability(s, choice), loss, c)


def learn_to_look(way: str, rate: float, steps=200, S=20, d=4) -> Tensor:
    """Chance of S repetitions to read the informative item of 400 new trials, every 5 steps: (steps / 5, S)."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)  # the same trials for every way
    hidden = F.normalize(torch.randn(S, d, generator=generator), dim=-1)  # (S, d): what marks the informative item
    k_new, _, _, informative = _looks(400, hidden, generator)
    q, r = torch.zeros(S, d, requires_grad=True), torch.full((S, 1), 0.5, requires_grad=True)
    found = []
    for step in range(steps):
        if step % 5 == 0:
            p = torch.softmax(torch.einsum("snmd,sd->snm", k_new, q.detach()), -1)  # (S, 400, M)
            found.append((p * informative).sum(-1).mean(-1))
        k, v, y, _ = _looks(16, hidden, generator)
        loss = _step_loss(way, torch.einsum("sbmd,sd->sbm", k, q), v, y, r).mean(-1).sum()  # repetitions do not mix
        for parameter, gradient in zip((q, r), torch.autograd.grad(loss, (q, r)), strict=True):
            parameter.data -= rate * gradient
    return torch.stack(found)
