"""Trainings of deeper/02: which score learns which task, the scale of a score, hard attention."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from possm_course.chapters.ch02.adam import Adam
from possm_course.chapters.ch02.selection import (
    expected_loss,
    leave_one_out_mean,
    log_probability,
    reinforce_loss,
    sample_choice,
    straight_through_gumbel,
)

SEEDS = 3
N_KEYS = 8  # to choose from


# which score can learn which task


def share_found(
    kind: str,
    task: str,
    size: int,
    rates: tuple[float, ...] = (0.003, 0.01, 0.03),
    h: int = 16,
    steps: int = 150,
    n: int = 24,
) -> Tensor:
    """How often a trained score finds the right one of eight keys.

    Args:
        kind: The score: "additive", "bilinear", or "bilinear and length", which adds a multiple of
            the key's squared length.
        task: Which key is right: "nearest", or "largest product".
        size: Numbers in a query and in a key.
        rates: Step sizes R of Adam to choose from.
        h: Hidden units of the score.
        steps: Training steps.
        n: Queries a step.

    Returns:
        The share of 500 new queries whose largest score is that of the right key, for each seed at
        the step size with the best mean, shape (S,).
    """
    g = torch.Generator().manual_seed(0)
    adam = Adam(
        _start(kind, size + 1, h, len(rates), g),
        torch.tensor(rates).repeat_interleave(SEEDS),
    )
    for _ in range(steps):
        q, k, right = _make_pairs(task, n, size, len(rates), g)
        scores = _score_pairs(kind, q, k, *adam.weights).transpose(1, 2)  # (R S, 8, n)
        adam.step(F.cross_entropy(scores, right, reduction="none").mean(1).sum())

    q, k, right = _make_pairs(task, 500, size, len(rates), torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = _score_pairs(kind, q, k, *adam.weights).argmax(-1) == right  # (R S, 500)
    share = found.float().mean(-1).view(-1, SEEDS)  # (R, S)
    return share[share.mean(1).argmax()]


def _start(kind: str, n_in: int, h: int, repeats: int, generator: torch.Generator) -> list[Tensor]:
    """W_q and W_k (R S, 1, n_in, h) and the last weights (R S, 1, h, 1), to be trained."""
    weights = []
    for rows, columns in ((n_in, h), (n_in, h), (h, 1)):
        draws = torch.randn(SEEDS, 1, rows, columns, generator=generator)
        weights.append(draws / math.sqrt(rows))
    weights[2] *= kind == "additive"  # the multiple of the squared length starts at zero
    return [_for_each_rate(x, repeats).requires_grad_() for x in weights]


def _for_each_rate(x: Tensor, repeats: int) -> Tensor:
    """x (S, ...) once for each step size: (R S, ...)."""
    return x.repeat(repeats, *[1] * (x.dim() - 1))


def _make_pairs(
    task: str, n: int, size: int, repeats: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (R S, n, 1, size + 1), keys (R S, n, 8, size + 1) and the right key (R S, n).

    The last number of each is the constant one. The pairs are the same for every step size R.
    """
    q = torch.randn(SEEDS, n, 1, size, generator=generator)
    k = torch.randn(SEEDS, n, N_KEYS, size, generator=generator)
    closeness = -(q - k).square().sum(-1) if task == "nearest" else (q * k).sum(-1)  # (S, n, 8)
    right = closeness.argmax(-1)
    q = F.pad(q, (0, 1), value=1.0)
    k = F.pad(k, (0, 1), value=1.0)
    return _for_each_rate(q, repeats), _for_each_rate(k, repeats), _for_each_rate(right, repeats)


def _score_pairs(kind: str, q: Tensor, k: Tensor, W_q: Tensor, W_k: Tensor, last: Tensor) -> Tensor:
    """Scores (R S, n, 8) of q (R S, n, 1, size) and k (R S, n, 8, size).

    W_q and W_k are (R S, 1, size, h), `last` is (R S, 1, h, 1): w_v, or the multiple in its first.
    """
    if kind == "additive":
        return (torch.tanh(q @ W_q + k @ W_k) @ last)[..., 0]
    score = ((q @ W_q) * (k @ W_k)).sum(-1)
    if kind == "bilinear":
        return score
    return score + last[:, 0, :1, 0, None] * k.square().sum(-1)


# what dividing the score by sqrt(d) does to the training


def right_key_read(
    way: str, rates: tuple[float, ...], d: int = 64, n: int = 24, steps: int = 150
) -> Tensor:
    """How often trained dot-product attention finds the right one of eight keys.

    A query is its key with noise; it has to read the value, +1 or -1, of that key.

    Args:
        way: How the score is scaled: "divided" by sqrt(d), "undivided", or
            "undivided, small start", where W_q starts smaller by sqrt(d).
        rates: Step sizes R of Adam.
        d: Numbers in a query and in a key.
        n: Queries a step.
        steps: Training steps.

    Returns:
        The share of 200 new queries whose largest weight is that of the right key, shape (R, S):
        step sizes, seeds.
    """
    R = len(rates)
    g = torch.Generator().manual_seed(0)
    W_q, W_k = torch.randn(2, SEEDS, d, d, generator=g).div(math.sqrt(d)).repeat(1, R, 1, 1)
    if way == "undivided, small start":
        W_q = W_q / math.sqrt(d)
    weights = [W_q.requires_grad_(), W_k.requires_grad_()]  # (R S, d, d) each
    adam = Adam(weights, torch.tensor(rates).repeat_interleave(SEEDS))

    def read(n: int) -> tuple[Tensor, Tensor, Tensor]:
        """Weights (R S, n, 8) in n new queries, the values (R S, n, 8), the right key (R S, n)."""
        x_q, x_k, v, right = (_for_each_rate(x, R) for x in _make_noisy_keys(n, d, g))
        q = (x_q @ weights[0])[:, :, None]  # (R S, n, 1, d)
        k = (x_k @ weights[1]).unflatten(1, (n, N_KEYS))  # (R S, n, 8, d)
        s = (q * k).sum(-1)  # (R S, n, 8)
        if way == "divided":
            s = s / math.sqrt(d)
        return torch.softmax(s, -1), v, right

    for _ in range(steps):
        p, v, right = read(n)
        error = v.gather(-1, right[..., None])[..., 0] - (p * v).sum(-1)
        adam.step(error.square().mean(1).sum())
    with torch.no_grad():
        p, _, right = read(200)
    return (p.argmax(-1) == right).float().mean(1).view(R, SEEDS)


def _make_noisy_keys(
    n: int, d: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries (S, n, d), keys (S, 8 n, d), values (S, n, 8) and the right key (S, n)."""
    x_k = torch.randn(SEEDS, n, N_KEYS, d, generator=generator)
    right = torch.randint(N_KEYS, (SEEDS, n), generator=generator)
    x_q = x_k[torch.arange(SEEDS)[:, None], torch.arange(n), right]  # (S, n, d)
    x_q = x_q + 0.5 * torch.randn(SEEDS, n, d, generator=generator)
    v = 2.0 * torch.randint(2, (SEEDS, n, N_KEYS), generator=generator) - 1
    return x_q, x_k.flatten(1, 2), v, right


# hard attention


def learn_to_look(way: str, rate: float, steps: int = 200, S: int = 20, d: int = 4) -> Tensor:
    """How often hard attention reads the informative one of eight items while it is trained.

    Args:
        way: What is differentiated: "exact gradient", "straight-through", or REINFORCE with a
            "baseline" or with "no baseline".
        rate: Step size of plain gradient descent.
        steps: Training steps.
        S: Repetitions, each with its own mark of the informative item.
        d: Numbers in an item's key.

    Returns:
        The chance to read the informative item in 400 new trials, before every fifth step,
        shape (steps / 5, S).
    """
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)  # the same trials for every way
    mark = torch.randn(S, d, generator=generator)
    mark = F.normalize(mark, dim=-1)  # (S, d): what marks the informative item
    k_new, _, _, informative = _make_trials(400, mark, generator)
    q = torch.zeros(S, d, requires_grad=True)
    r = torch.full((S, 1), 0.5, requires_grad=True)  # the answer is r times the value read
    found = []
    for step in range(steps):
        if step % 5 == 0:
            p = torch.softmax(torch.einsum("snmd,sd->snm", k_new, q.detach()), -1)  # (S, 400, M)
            found.append((p * informative).sum(-1).mean(-1))
        k, v, y, _ = _make_trials(16, mark, generator)
        scores = torch.einsum("sbmd,sd->sbm", k, q)
        loss = _step_loss(way, scores, v, y, r).mean(-1).sum()  # repetitions do not mix
        gradients = torch.autograd.grad(loss, (q, r))
        for parameter, gradient in zip((q, r), gradients, strict=True):
            parameter.data -= rate * gradient
    return torch.stack(found)


def _make_trials(n: int, mark: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    """n trials for each of the marks (S, d).

    Gives keys (S, n, M, d), values (S, n, M), answers (S, n), and which item is informative,
    one-hot (S, n, M).
    """
    S, d = mark.shape
    index = torch.randint(N_KEYS, (S, n), generator=generator)
    informative = F.one_hot(index, N_KEYS).float()
    noise = torch.randn(S, n, N_KEYS, d, generator=generator)
    k = noise + 2 * informative[..., None] * mark[:, None, None]
    v = 2.0 * torch.randint(2, (S, n, N_KEYS), generator=generator) - 1
    return k, v, (v * informative).sum(-1), informative


def _step_loss(way: str, s: Tensor, v: Tensor, y: Tensor, r: Tensor) -> Tensor:
    """What each way differentiates: s and v (S, B, M), y (S, B), r (S, 1) -> (S, B)."""
    if way == "exact gradient":  # all items read
        return expected_loss(s, (y[..., None] - r[..., None] * v).square())
    if way == "straight-through":
        return (y - r * (straight_through_gumbel(s) * v).sum(-1)).square()
    choice = sample_choice(s)
    loss = (y - r * (choice * v).sum(-1)).square()
    c = 0.0
    if way == "baseline":
        c = leave_one_out_mean(loss.T).T  # of the other trials of this step
    return reinforce_loss(log_probability(s, choice), loss, c)
