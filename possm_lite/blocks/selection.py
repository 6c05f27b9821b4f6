"""Selection: without a query (max pooling, a gate), and hard attention, which reads one item and can be trained.

A choice is one-hot, shape (..., M), so that `choice @ values`, with values (M, V), reads the chosen item. A row that
may read nothing is all zeros, as the weights of `masked_softmax` are.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from .attention import masked_log_softmax, masked_softmax


def max_pool_items(items: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The largest value of each feature and its item: selection without a query.

        f_j = max_m x_mj                                                                             (2.9)

    Items (..., M, V); mask (..., M), True where an item takes part.
    Returns: the maxima (..., V), zero where no item takes part, and which item each came from (..., V), -1 where none.
    Source: Itti & Koch 2001, for selection by saliency.
    """
    if mask is None:
        return tuple(items.max(dim=-2))
    none = ~mask.any(dim=-1)[..., None]  # (..., 1)
    allowed = items.masked_fill(~mask[..., None], -torch.inf).masked_fill(none[..., None], 0.0)
    value, winner = allowed.max(dim=-2)
    return value.masked_fill(none, 0.0), winner.masked_fill(none, -1)


def gate_items(items: Tensor, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """sigma(W x + b) * x for items (..., V), W (V, V) or (1, V), b as many: the gated items, and the gates.

    W of one row gives one gate for the item, of V rows one for each feature. Gates do not compete: all may be open.
    Source: Dauphin et al. 2017, section 2, gating x itself.
    """
    gate = torch.sigmoid(F.linear(items, W, b))  # (..., V) or (..., 1)
    return gate * items, gate


def argmax_choice(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """The item of the largest score, one-hot, shape (..., M). It has no gradient."""
    return _one_hot_of_largest(scores.detach(), mask)


def sample_choice(scores: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
    """One item drawn with the probabilities softmax(`scores`), shape (..., M). It has no gradient.

    Gumbel-max: the largest of s_m + g_m, where g_m = -log(-log(u)), is item m with probability softmax_m(s).
    """
    return _one_hot_of_largest(scores.detach() + _gumbel_like(scores, generator), mask)


def log_probability(scores: Tensor, choice: Tensor, mask: Tensor | None = None) -> Tensor:
    """log p(choice) under softmax(`scores`), shape (...). The choice of nothing from nothing has probability one."""
    log_p = masked_log_softmax(scores, mask)
    return log_p.masked_fill(choice == 0, 0.0).sum(dim=-1)  # fill before the sum: 0 * -inf would be NaN


def expected_loss(scores: Tensor, losses: Tensor, mask: Tensor | None = None) -> Tensor:
    """The loss of hard attention by enumeration: the loss of every choice, weighted by its probability.

        J(s) = sum_m p_m L_m,   p = softmax(s)                                                      (2.11)

    Scores s and losses L_m (the loss if item m is read) have shape (..., M), J has (...). Its gradient by autograd is
    the exact one, which estimators are compared with.
    """
    return (masked_softmax(scores, mask) * losses).sum(dim=-1)


def exact_gradient(scores: Tensor, losses: Tensor, mask: Tensor | None = None) -> Tensor:
    """dJ/ds of `expected_loss` in closed form, shape (..., M): p_m (L_m - J)."""
    p = masked_softmax(scores, mask)
    return p * (losses - (p * losses).sum(dim=-1, keepdim=True))


def reinforce_loss(log_p: Tensor, loss: Tensor, baseline: Tensor | float = 0.0) -> Tensor:
    """The surrogate loss of a sampled choice (score-function estimator, REINFORCE).

        surrogate = L + stop(L - c) log p(choice)                                                   (2.15)

    Its gradient is, on average over choices, that of the expected loss: the first term has the gradient of L given
    the choice, the second that of the scores. Its value means nothing. All have shape (...); the baseline c is
    independent of this choice.
    Source: Williams 1992, theorem 1; for attention Xu et al. 2015, section 4.1.
    """
    return loss + (loss - baseline).detach() * log_p


def leave_one_out_mean(loss: Tensor) -> Tensor:
    """The mean of all others along axis 0 (n >= 2), a baseline independent of an entry's choice. Kool et al. 2019."""
    return (loss.sum(dim=0) - loss) / (len(loss) - 1)


def straight_through_gumbel(
    scores: Tensor, temperature: float = 1.0, mask: Tensor | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """A sampled choice forward, a soft one backward: shape (..., M).

        soft = softmax((s + g) / temperature),   choice = onehot(argmax(s + g)) + soft - stop(soft)     (2.16)

    The value is a fair draw from softmax(s); the gradient is that of `soft`, and so biased.
    Source: Jang et al. 2017, section 2.2; Maddison et al. 2017.
    """
    noisy = scores + _gumbel_like(scores, generator)
    soft = masked_softmax(noisy / temperature, mask)
    return _one_hot_of_largest(noisy.detach(), mask) + (soft - soft.detach())  # the bracket is exactly zero


def _gumbel_like(scores: Tensor, generator: torch.Generator | None) -> Tensor:
    return -torch.empty_like(scores).exponential_(generator=generator).log()  # -log(u) is exponential


def _one_hot_of_largest(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    choice = torch.zeros_like(scores).scatter(-1, scores.argmax(dim=-1, keepdim=True), 1.0)
    return choice if mask is None else choice.masked_fill(~mask, 0.0)
