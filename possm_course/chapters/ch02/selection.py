"""Selection: without a query (max pooling, a gate), and hard attention, which reads one item and can be trained.

A choice is one-hot, shape (..., M), so that `choice @ values`, with values (M, V), reads the chosen item.
"""

import torch
from torch import Generator, Tensor
from torch.nn import functional as F


def max_pool_items(items: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """f_j = max_m x_mj (2.9) over items (..., M, V) in the mask (..., M), and the winners m; 0 and -1 where none is."""
    if mask is not None:
        items = items.masked_fill(~mask[..., None], -torch.inf)
    value, winner = items.max(dim=-2)
    none = value == -torch.inf
    return value.masked_fill(none, 0.0), winner.masked_fill(none, -1)


def gate_items(items: Tensor, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """sigma(W x + b) * x for items (..., V), and the gates, with W (1, V) one an item, with W (V, V) one a feature."""
    gate = torch.sigmoid(F.linear(items, W, b))  # (..., V) or (..., 1)
    return gate * items, gate


def argmax_choice(scores: Tensor) -> Tensor:
    """The item of the largest score, one-hot, shape (..., M). It has no gradient."""
    return torch.zeros_like(scores).scatter(-1, scores.argmax(dim=-1, keepdim=True), 1.0)


def sample_choice(scores: Tensor, generator: Generator | None = None) -> Tensor:
    """One item drawn from softmax(s), without a gradient: the largest s_m + g_m, g_m = -log(-log(u)) (Gumbel-max)."""
    return argmax_choice(scores + _gumbel_like(scores, generator))


def log_probability(scores: Tensor, choice: Tensor) -> Tensor:
    """log p(choice) under softmax(`scores`), shape (...)."""
    log_p = torch.log_softmax(scores, dim=-1)
    return log_p.masked_fill(choice == 0, 0.0).sum(dim=-1)  # fill before the sum: 0 * -inf would be NaN


def expected_loss(scores: Tensor, losses: Tensor) -> Tensor:
    """J(s) = sum_m p_m L_m, p = softmax(s) (2.11), of scores and losses (..., M): hard attention by enumeration."""
    return (torch.softmax(scores, dim=-1) * losses).sum(dim=-1)


def exact_gradient(scores: Tensor, losses: Tensor) -> Tensor:
    """dJ/ds of `expected_loss` in closed form, shape (..., M): p_m (L_m - J)."""
    J = expected_loss(scores, losses)[..., None]
    return torch.softmax(scores, dim=-1) * (losses - J)


def reinforce_loss(log_p: Tensor, loss: Tensor, baseline: Tensor | float = 0.0) -> Tensor:
    """REINFORCE, L + stop(L - c) log p(choice) (2.15), with a baseline c that is independent of this choice.

    Its gradient is, on average over choices, that of the expected loss. Source: Williams 1992, theorem 1.
    """
    return loss + (loss - baseline).detach() * log_p


def leave_one_out_mean(loss: Tensor) -> Tensor:
    """The mean of all others along axis 0 (n >= 2), a baseline independent of an entry's choice. Kool et al. 2019."""
    return (loss.sum(dim=0) - loss) / (len(loss) - 1)


def straight_through_gumbel(scores: Tensor, temperature: float = 1.0, generator: Generator | None = None) -> Tensor:
    """A sampled choice forward, a soft one backward: shape (..., M).

        soft = softmax((s + g) / temperature),   choice = onehot(argmax(s + g)) + soft - stop(soft)     (2.16)

    A fair draw from softmax(s), with the gradient of `soft`, and so biased. Source: Jang et al. 2017, section 2.2.
    """
    noisy = scores + _gumbel_like(scores, generator)
    soft = torch.softmax(noisy / temperature, dim=-1)
    return argmax_choice(noisy) + (soft - soft.detach())  # the bracket is exactly zero


def _gumbel_like(scores: Tensor, generator: Generator | None) -> Tensor:
    return -torch.empty_like(scores).exponential_(generator=generator).log()  # -log(u) is exponential
