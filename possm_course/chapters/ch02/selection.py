"""Selection: without a query (max pooling, a gate), and hard attention, which reads one item.

A choice is one-hot, shape (..., M), so that `choice @ values`, with values (M, V), reads the
chosen item.
"""

import torch
from torch import Generator, Tensor
from torch.nn import functional as F


def max_pool_items(items: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Max pooling: the largest of every feature over the items.

        f_j = max_m x_mj        (2.9)

    Args:
        items: x_m, shape (..., M, V).
        mask: True where an item may be read, shape (..., M).

    Returns:
        The maxima f, shape (..., V), and which item each is from, shape (..., V): 0 and -1 where
        no item may be read.
    """
    if mask is not None:
        items = items.masked_fill(~mask[..., None], -torch.inf)
    value, winner = items.max(dim=-2)
    none = value == -torch.inf
    return value.masked_fill(none, 0.0), winner.masked_fill(none, -1)


def gate_items(items: Tensor, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Items times their gates, sigma(W x + b) * x.

    Args:
        items: x, shape (..., V).
        W: Shape (1, V) for one gate an item, (V, V) for one a feature.
        b: Shape (1,) or (V,).

    Returns:
        The gated items, shape (..., V), and the gates, shape (..., 1) or (..., V).
    """
    gate = torch.sigmoid(F.linear(items, W, b))  # (..., V) or (..., 1)
    return gate * items, gate


def argmax_choice(scores: Tensor) -> Tensor:
    """The item of the largest score. It has no gradient.

    Args:
        scores: s, shape (..., M).

    Returns:
        The choice, one-hot, shape (..., M).
    """
    largest = scores.argmax(dim=-1, keepdim=True)  # (..., 1)
    return torch.zeros_like(scores).scatter(-1, largest, 1.0)


def sample_choice(scores: Tensor, generator: Generator | None = None) -> Tensor:
    """One item drawn from softmax(s), without a gradient.

    It is the item of the largest s_m + g_m with g_m = -log(-log(u)) and u uniform (Gumbel-max).

    Args:
        scores: s, shape (..., M).
        generator: The source of the draws; None is torch's own.

    Returns:
        The choice, one-hot, shape (..., M).
    """
    return argmax_choice(scores + _gumbel_like(scores, generator))


def log_probability(scores: Tensor, choice: Tensor) -> Tensor:
    """The log-probability of a choice.

    Args:
        scores: s, shape (..., M).
        choice: One-hot, shape (..., M).

    Returns:
        log p(choice) under softmax(s), in nats, shape (...).
    """
    log_p = torch.log_softmax(scores, dim=-1)
    # fill before the sum: 0 * -inf would be NaN
    return log_p.masked_fill(choice == 0, 0.0).sum(dim=-1)


def expected_loss(scores: Tensor, losses: Tensor) -> Tensor:
    """The loss of hard attention on average over its choices, by enumeration.

        J(s) = sum_m p_m L_m,   p = softmax(s)        (2.11)

    Args:
        scores: s, shape (..., M).
        losses: L_m, the loss when item m is read, shape (..., M).

    Returns:
        J(s), shape (...).
    """
    return (torch.softmax(scores, dim=-1) * losses).sum(dim=-1)


def exact_gradient(scores: Tensor, losses: Tensor) -> Tensor:
    """dJ/ds of `expected_loss` in closed form, p_m (L_m - J).

    Args:
        scores: s, shape (..., M).
        losses: L_m, shape (..., M).

    Returns:
        The gradient, shape (..., M).
    """
    J = expected_loss(scores, losses)[..., None]
    return torch.softmax(scores, dim=-1) * (losses - J)


def reinforce_loss(log_p: Tensor, loss: Tensor, baseline: Tensor | float = 0.0) -> Tensor:
    """A loss whose gradient is, on average over choices, that of the expected loss (REINFORCE).

        L + stop(L - c) log p(choice)        (2.15)

    Args:
        log_p: log p(choice), shape (...).
        loss: L of the choice, shape (...).
        baseline: c, independent of this choice, a number or shape (...).

    Returns:
        The loss to differentiate, shape (...).

    Source: Williams 1992, theorem 1.
    """
    return loss + (loss - baseline).detach() * log_p


def leave_one_out_mean(loss: Tensor) -> Tensor:
    """The mean of all others along the first axis: a baseline independent of an entry's choice.

    Args:
        loss: Shape (n, ...), n at least 2.

    Returns:
        The means, shape (n, ...).

    Source: Kool et al. 2019.
    """
    return (loss.sum(dim=0) - loss) / (len(loss) - 1)


def straight_through_gumbel(
    scores: Tensor,
    temperature: float = 1.0,
    generator: Generator | None = None,
) -> Tensor:
    """A sampled choice forward, a soft one backward.

        soft   = softmax((s + g) / temperature)
        choice = onehot(argmax(s + g)) + soft - stop(soft)        (2.16)

    A fair draw from softmax(s), with the gradient of the soft choice, and so biased.

    Args:
        scores: s, shape (..., M).
        temperature: Of the soft choice alone.
        generator: The source of the draws; None is torch's own.

    Returns:
        The choice, one-hot, shape (..., M).

    Source: Jang et al. 2017, section 2.2.
    """
    noisy = scores + _gumbel_like(scores, generator)
    soft = torch.softmax(noisy / temperature, dim=-1)
    return argmax_choice(noisy) + (soft - soft.detach())  # the bracket is exactly zero


def _gumbel_like(scores: Tensor, generator: Generator | None) -> Tensor:
    """Gumbel noise in the shape of the scores."""
    exponential = torch.empty_like(scores).exponential_(generator=generator)  # as -log(u) is
    return -exponential.log()
