"""Exercises of chapter 09: a sweep of recall and where it ends, a unit by chance, learning, the modern update."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from possm_lite.blocks.boltzmann import boltzmann_gradient, moments, on_probability
from possm_lite.blocks.hopfield import modern_hopfield, recall, sign_or_keep
from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

_numbers = partial(normal, seed=9)


def _signs(*shape: int, seed: int = 9) -> Tensor:
    return torch.where(_numbers(*shape, seed=seed) > 0, 1.0, -1.0)


def _symmetric(n: int, seed: int = 9) -> Tensor:
    upper = _numbers(n, n, seed=seed).triu(1)
    return upper + upper.T


# Exercise 9.1: one sweep of recall


def _recall_sweep(s: Tensor, W: Tensor, b: Tensor) -> Tensor:
    return recall(s[None], W, b, max_sweeps=1)[0]


def _sweep_with(rule: Callable[[Tensor, Tensor], Tensor], field: Callable | None = None) -> Callable:
    """One unit after the other takes rule(field, old state), right or wrong."""

    def sweep(s: Tensor, W: Tensor, b: Tensor) -> Tensor:
        s = s.clone()
        for i in range(len(s)):
            s[i] = rule(W[i] @ s + b[i] if field is None else field(s, W, b, i), s[i])
        return s

    return sweep


def _all_at_once(s: Tensor, W: Tensor, b: Tensor) -> Tensor:
    return sign_or_keep(W @ s + b, s)


recall_sweep = Check(
    "recall_sweep",
    reference=_recall_sweep,
    cases=[
        Case(
            "a pattern that is already recalled",
            lambda: (torch.tensor([1.0, -1.0]), torch.tensor([[0.0, -1.0], [-1.0, 0.0]]), torch.zeros(2)),
        ),
        Case(
            "two units that want to be alike and are not",
            lambda: (torch.tensor([1.0, -1.0]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.zeros(2)),
        ),
        Case(
            "units that listen only to their biases",
            lambda: (torch.tensor([1.0, -1.0, 1.0]), torch.zeros(3, 3), torch.tensor([-0.3, 0.2, 0.1])),
        ),
        Case(
            "units whose field is exactly 0",
            lambda: (torch.tensor([-1.0, 1.0, -1.0]), torch.zeros(3, 3), torch.zeros(3)),
        ),
        Case("twelve units with weights of both signs", lambda: (_signs(12), _symmetric(12), _numbers(12, seed=3))),
    ],
    traps={
        "a state left -1 and 1: the sign was added to the old state. In (9.2) it takes its place, s_i becomes "
        "sgn(...), not s_i + sgn(...).": _sweep_with(lambda h, s: s + torch.sign(h)),
        "all units moved at once, on the old state. Let each unit see what the units before it have just done.": (
            _all_at_once
        ),
        "a field of exactly 0 made a unit 0, and a unit is -1 or 1. At 0 it keeps its state.": _sweep_with(
            lambda h, s: torch.sign(h)
        ),
        "a field of exactly 0 switched a unit on. At 0 it keeps its state, whichever that is.": _sweep_with(
            lambda h, s: torch.where(h >= 0, 1.0, -1.0)
        ),
        "the biases are not used. The field of unit i ends in + b_i.": _sweep_with(
            lambda h, s: sign_or_keep(h, s), lambda s, W, b, i: W[i] @ s
        ),
        "every unit went against its field: the energy climbs. Look at the sign.": _sweep_with(
            lambda h, s: sign_or_keep(-h, s)
        ),
        "the bias has the wrong sign: in (9.2) it is added. (As a threshold it would be subtracted.)": _sweep_with(
            lambda h, s: sign_or_keep(h, s), lambda s, W, b, i: W[i] @ s - b[i]
        ),
    },
)


# Exercise 9.2: how many end states one stored pattern makes

n_end_states = ValueCheck(
    "n_end_states",
    expected=2,
    traps={
        "the pattern itself is one. What does the energy (9.3) say of the state in which every sign is changed?": 1,
        "mirrored half and half? In such a mixture every unit has a side with more units, and goes over to it.": 3,
        "4,096 is the number of starts. Most of them do not stay where they are.": 4096,
        "that would be one for each unit. A unit alone is no memory: the field of each comes from all the others.": 12,
    },
)


# Exercise 9.3: the chance that a unit is on, with units of -1 and 1


def _chance_on(s: Tensor, i: int, W: Tensor, b: Tensor, T: float) -> Tensor:
    return on_probability(s[None], W, b, T)[0, i]


def _chance_of(gap: Callable[[Tensor, Tensor, float], Tensor]) -> Callable:
    """sigmoid of gap(sum of weighted states, bias, T), right or wrong."""
    return lambda s, i, W, b, T: torch.sigmoid(gap(W[i] @ s, b[i], T))


chance_on = Check(
    "chance_on",
    reference=_chance_on,
    cases=[
        Case(
            "two units at T = 1, without biases",
            lambda: (torch.tensor([-1.0, 1.0]), 0, torch.tensor([[0.0, 0.8], [0.8, 0.0]]), torch.zeros(2), 1.0),
        ),
        Case("a unit with a bias", lambda: (_signs(2), 1, torch.zeros(2, 2), torch.tensor([0.0, 0.4]), 1.0)),
        Case("a temperature of 2", lambda: (_signs(4), 2, _symmetric(4), torch.zeros(4), 2.0)),
        Case("eight units with everything", lambda: (_signs(8), 5, 0.3 * _symmetric(8), _numbers(8, seed=2), 0.7)),
        Case(
            "a field so large that exp overflows", lambda: (_signs(2), 1, torch.zeros(2, 2), -_numbers(2).abs(), 1e-3)
        ),
    ],
    traps={
        "a factor 2 is missing: the gap is E(s_i = -1) - E(s_i = 1), and from -1 to 1 is a step of two. "
        "Your rule is right for units of 0 and 1.": _chance_of(lambda h, b, T: (h + b) / T),
        "this is the chance that the unit is off: the sign of the gap is turned round.": _chance_of(
            lambda h, b, T: -2 * (h + b) / T
        ),
        "with s_i in the gap this is the chance that the unit stays. Wanted is that of 1, whatever it is now.": (
            lambda s, i, W, b, T: torch.sigmoid(2 * s[i] * (W[i] @ s + b[i]) / T)
        ),
        "the gap is multiplied by T. It is divided: heat makes all differences small.": _chance_of(
            lambda h, b, T: 2 * (h + b) * T
        ),
        "the temperature is not used.": _chance_of(lambda h, b, T: 2 * (h + b)),
        "the bias lacks the factor 2 that the weighted sum has: both belong to the gap.": _chance_of(
            lambda h, b, T: (2 * h + b) / T
        ),
        "the bias is missing in the gap.": _chance_of(lambda h, b, T: 2 * h / T),
    },
)


# Exercise 9.4: the learning rule


def _learning_direction(data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    return boltzmann_gradient(moments(data), moments(samples))


def _swapped(data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    return _learning_direction(samples, data)


def _only_data(data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    pairs, means = moments(data)
    return pairs - torch.diag(pairs.diagonal()), means


def _only_data_with_diagonal(data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    return moments(data)


def _sums(data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    return data.T @ data - samples.T @ samples, data.sum(0) - samples.sum(0)


def _by_units(data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    return (data.T @ data - samples.T @ samples) / data.shape[1], data.mean(0) - samples.mean(0)


def _one_divisor(data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    for_w, for_b = _sums(data, samples)
    return for_w / len(data), for_b / len(data)


def _products_of_means(data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    m, n = data.mean(0), samples.mean(0)
    return m.outer(m) - n.outer(n), m - n


def _covariances(data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    (a, m), (b, n) = moments(data), moments(samples)
    return (a - m.outer(m)) - (b - n.outer(n)), m - n


learning_direction = Check(
    "learning_direction",
    reference=_learning_direction,
    cases=[
        Case(
            "two units, one pattern against one sample",
            lambda: (torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, -1.0]])),
        ),
        Case("a machine that dreams exactly the data", lambda: (_signs(4, 3), _signs(4, 3))),
        Case("four patterns and four samples of three units", lambda: (_signs(4, 3), _signs(4, 3, seed=5))),
        Case("three patterns and fifty samples", lambda: (_signs(3, 5), _signs(50, 5, seed=5))),
    ],
    traps={
        "the two phases have changed places: what the data do is strengthened, what the machine dreams is weakened.": (
            _swapped
        ),
        "only the data speak here. That is Hebb's rule: it never asks what the machine does already.": _only_data,
        "only the data speak here, the machine's own samples are not subtracted.": _only_data_with_diagonal,
        "these are sums. Data and samples differ in number, so divide each by its own.": _sums,
        "divided by the number of units, as in (9.1). Here <...> is an average over patterns or samples.": _by_units,
        "both phases are divided by the number of patterns. The samples have a number of their own.": _one_divisor,
        "you multiplied averages, <s_i><s_j>. Wanted is the average of products, <s_i s_j>.": _products_of_means,
        "products of means are taken off: those are covariances, and (9.9) wants plain <s_i s_j>.": _covariances,
    },
)


# Exercise 9.5: the modern update


def _modern_update(xi: Tensor, X: Tensor, beta: float) -> Tensor:
    return modern_hopfield(xi, X, beta)


def _weighted(weights: Callable[[Tensor, float, int], Tensor]) -> Callable:
    """weights(X xi (Q, M), beta, d) @ X, right or wrong."""
    return lambda xi, X, beta: weights(xi @ X.T, beta, X.shape[-1]) @ X


modern_update = Check(
    "modern_update",
    reference=_modern_update,
    cases=[
        Case(
            "one state, two memories, beta = 1",
            lambda: (torch.tensor([[1.0, 0.5]]), torch.tensor([[1.0, 0.0], [0.5, 2.0]]), 1.0),
        ),
        Case("beta = 3", lambda: (_numbers(1, 4), _numbers(3, 4, seed=2), 3.0)),
        Case("three states at once", lambda: (_numbers(3, 4), _numbers(5, 4, seed=2), 0.5)),
        Case("memories of different lengths", lambda: (_numbers(2, 3), torch.diag(torch.tensor([1.0, 2, 3])), 1.0)),
        Case("a beta so large that exp overflows", lambda: (_numbers(2, 4), _numbers(3, 4, seed=2), 1e4)),
    ],
    traps={
        "beta is not used: only at beta = 1 is this right.": _weighted(lambda a, beta, d: torch.softmax(a, -1)),
        "the softmax runs over the states, not over the memories: the weights that a state gives to all memories must "
        "sum to one.": _weighted(lambda a, beta, d: torch.softmax(beta * a, 0)),
        "the scores are also divided by the root of d. In (9.12) beta stands alone; it may be set to that.": _weighted(
            lambda a, beta, d: torch.softmax(beta * a / math.sqrt(d), -1)
        ),
        "beta multiplies the weights behind the softmax. It belongs inside, where it decides how sharp they are.": (
            _weighted(lambda a, beta, d: beta * torch.softmax(a, -1))
        ),
        "there is no softmax: memories are added up by their plain dot products, as in the network of 1982.": _weighted(
            lambda a, beta, d: beta * a
        ),
        "beta divides, as a temperature would. Here a large beta is cold: it multiplies.": _weighted(
            lambda a, beta, d: torch.softmax(a / beta, -1)
        ),
    },
)
