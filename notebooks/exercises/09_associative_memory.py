"""Exercises of chapter 09: a sweep of recall and where it ends, a unit by chance, learning, the modern update.

The last one is to build: a Boltzmann machine that learns with exact averages.
"""

from functools import partial

import torch

from possm_lite.blocks.boltzmann import all_states
from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

_normal = partial(normal, seed=9)


def _signs(*shape, seed=9):
    return torch.where(normal(*shape, seed=seed) > 0, 1.0, -1.0)


def _symmetric(n, seed=9):
    upper = normal(n, n, seed=seed).triu(1)
    return upper + upper.T


def _pair(s, weight):
    """Two units in state s with one weight between them, without biases."""
    return torch.tensor(s), torch.tensor([[0.0, weight], [weight, 0.0]]), torch.zeros(2)


def _disagreeing():
    """Two pairs. In the first the neighbour wins by a little, in the second the bias."""
    W = torch.zeros(4, 4)
    W[0, 1] = W[1, 0] = W[2, 3] = W[3, 2] = 1.0
    return torch.ones(4), W, torch.tensor([-0.75, 2.0, -1.5, 2.0])


def _network(seed):
    return _signs(12, seed=seed), _symmetric(12, seed=seed + 10), normal(12, seed=seed + 20)


# Exercise 9.1: one sweep of recall


def _keep_at_zero(h, s):
    return torch.where(h == 0, s, torch.sign(h))


def _recall_sweep(s, W, b, *, field=lambda W, s, b: W @ s + b, rule=_keep_at_zero, order=iter):
    s = s.clone()
    for i in order(range(len(s))):
        s[i] = rule(field(W[i], s, b[i]), s[i])
    return s


recall_sweep = Check(
    "recall_sweep",
    reference=_recall_sweep,
    cases=[
        Case("a pattern that is already recalled", partial(_pair, [1.0, -1.0], -1.0)),
        Case("two units that want to be alike and are not", partial(_pair, [1.0, -1.0], 1.0)),
        Case(
            "units that listen only to their biases",
            lambda: (torch.tensor([1.0, -1.0, 1.0]), torch.zeros(3, 3), torch.tensor([-0.3, 0.2, 0.1])),
        ),
        Case(
            "units whose field is exactly 0",
            lambda: (torch.tensor([-1.0, 1.0, -1.0]), torch.zeros(3, 3), torch.zeros(3)),
        ),
        Case("units whose neighbours and biases disagree", _disagreeing),
        *(
            Case(f"twelve units with weights of both signs, network {seed}", partial(_network, seed))
            for seed in range(1, 6)
        ),
    ],
    traps={
        "a state left -1 and 1: the sign was added to the old state. In (9.2) it replaces it, s_i becomes sgn(...), "
        "not s_i + sgn(...).": partial(_recall_sweep, rule=lambda h, s: s + torch.sign(h)),
        "all units moved at once, on the old state. Let each unit see what the units before it have just done.": (
            lambda s, W, b: _keep_at_zero(W @ s + b, s)
        ),
        "a field of exactly 0 made a unit 0, and a unit is -1 or 1. At 0 it keeps its state.": (
            partial(_recall_sweep, rule=lambda h, s: torch.sign(h))
        ),
        "a field of exactly 0 switched a unit on. At 0 it keeps its state, whichever that is.": (
            partial(_recall_sweep, rule=lambda h, s: torch.where(h >= 0, 1.0, -1.0))
        ),
        "the biases are not used. The field of unit i ends in + b_i.": (
            partial(_recall_sweep, field=lambda W, s, b: W @ s)
        ),
        "every unit went against its field: the energy climbs. Look at the sign.": (
            partial(_recall_sweep, rule=lambda h, s: _keep_at_zero(-h, s))
        ),
        "the bias has the wrong sign: in (9.2) it is added. (As a threshold it would be subtracted.)": (
            partial(_recall_sweep, field=lambda W, s, b: W @ s - b)
        ),
        "the weights count half against the biases. The half is in the energy (9.3), not in the field (9.2).": (
            partial(_recall_sweep, field=lambda W, s, b: 0.5 * (W @ s) + b)
        ),
        "the weights count twice against the biases. That field belongs to an energy without its half.": (
            partial(_recall_sweep, field=lambda W, s, b: 2 * (W @ s) + b)
        ),
        "a unit changed its sign where its field is negative. The sign of the field *is* the new state, whatever the "
        "old one was.": partial(_recall_sweep, rule=lambda h, s: torch.where(h < 0, -s, s)),
        "the units moved from the last to the first. Begin with unit 0.": partial(_recall_sweep, order=reversed),
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


# Exercise 9.3: what cutting half of the weights amounts to

n_alike = ValueCheck(
    "n_alike",
    expected=12,
    traps={
        "that would be so if crosstalk stayed as loud as it was. It is a sum of half as many terms now.": 24,
        "that would be so if signal and crosstalk shrank by the same factor. One is halved, the other divided by the "
        "root of 2.": 6,
        "fewer patterns would make the ratio better, and the cut makes it worse.": 3,
        "9 patterns have 1.2 times the spread of 6: it grows like the root of the number. Here the ratio grew by the "
        "root of 2.": 9,
    },
)


# Exercise 9.4: the chance that a unit is on, with units of -1 and 1


def _chance_on(s, i, W, b, T, *, gap=lambda h, b, s, T: 2 * (h + b) / T):
    return torch.sigmoid(gap(W[i] @ s, b[i], s[i], T))


chance_on = Check(
    "chance_on",
    reference=_chance_on,
    cases=[
        Case(
            "two units at T = 1, without biases",
            lambda: (torch.tensor([-1.0, 1.0]), 0, torch.tensor([[0.0, 0.8], [0.8, 0.0]]), torch.zeros(2), 1.0),
        ),
        Case("a unit with a bias", lambda: (torch.ones(2), 1, torch.zeros(2, 2), torch.tensor([0.0, 0.4]), 1.0)),
        Case(
            "a unit with a bias that is off",
            lambda: (-torch.ones(2), 1, torch.zeros(2, 2), torch.tensor([0.0, 0.4]), 1.0),
        ),
        Case("a temperature of 2", lambda: (_signs(4), 2, _symmetric(4), torch.zeros(4), 2.0)),
        Case("eight units with everything", lambda: (_signs(8), 5, 0.3 * _symmetric(8), normal(8, seed=2), 0.7)),
        Case(
            "a cold unit, whose bias keeps it off",
            lambda: (_signs(2), 1, torch.zeros(2, 2), torch.tensor([0.0, -0.5]), 0.004),
        ),
        Case(
            "a cold unit, whose bias keeps it on",
            lambda: (_signs(2), 1, torch.zeros(2, 2), torch.tensor([0.0, 0.5]), 0.004),
        ),
    ],
    traps={
        "a factor 2 is missing: the gap is E(s_i = -1) - E(s_i = 1), and from -1 to 1 is a step of two. "
        "Your rule is right for units of 0 and 1.": partial(_chance_on, gap=lambda h, b, s, T: (h + b) / T),
        "this is the chance that the unit is off: the gap has the wrong sign.": (
            partial(_chance_on, gap=lambda h, b, s, T: -2 * (h + b) / T)
        ),
        "with s_i in the gap this is the chance that the unit stays. You need that of 1, whatever it is now.": (
            partial(_chance_on, gap=lambda h, b, s, T: 2 * s * (h + b) / T)
        ),
        "the gap is multiplied by T. It is divided: heat makes all differences small.": (
            partial(_chance_on, gap=lambda h, b, s, T: 2 * (h + b) * T)
        ),
        "the temperature is not used.": partial(_chance_on, gap=lambda h, b, s, T: 2 * (h + b)),
        "the bias lacks the factor 2 that the weighted sum has: both belong to the gap.": (
            partial(_chance_on, gap=lambda h, b, s, T: (2 * h + b) / T)
        ),
        "the bias is missing in the gap.": partial(_chance_on, gap=lambda h, b, s, T: 2 * h / T),
        "the bias is multiplied by the state of the unit. What the unit is now does not count.": (
            partial(_chance_on, gap=lambda h, b, s, T: 2 * (h + b * s) / T)
        ),
        "the other units were changed to 0 and 1. They are -1 and 1 here, and the weights belong to that.": (
            lambda s, i, W, b, T: torch.sigmoid((W[i] @ (s + 1) / 2 + b[i]) / T)
        ),
        "the other units were changed to 0 and 1, and the 2 of -1 and 1 is in the gap. Leave them as they are.": (
            lambda s, i, W, b, T: torch.sigmoid(2 * (W[i] @ (s + 1) / 2 + b[i]) / T)
        ),
    },
)


# Exercise 9.5: the learning rule


def _learning_direction(
    data, samples, *, pairs=lambda states: states.T @ states / len(states), means=lambda states: states.mean(0)
):
    return pairs(data) - pairs(samples), means(data) - means(samples)


def _sums_of(states):
    return states.T @ states, states.sum(0)


_sums = partial(_learning_direction, pairs=lambda states: states.T @ states, means=lambda states: states.sum(0))

learning_direction = Check(
    "learning_direction",
    reference=_learning_direction,
    cases=[
        Case(
            "three units, one pattern against one sample",
            lambda: (torch.tensor([[1.0, 1.0, -1.0]]), torch.tensor([[1.0, -1.0, -1.0]])),
        ),
        Case("a machine that dreams exactly the data", lambda: (_signs(4, 3), _signs(4, 3))),
        Case("four patterns and four samples of three units", lambda: (_signs(4, 3), _signs(4, 3, seed=5))),
        Case("three patterns and fifty samples", lambda: (_signs(3, 5), _signs(50, 5, seed=5))),
    ],
    traps={
        "the two phases are swapped: what the data do is strengthened, what the machine dreams is weakened.": (
            lambda data, samples: _learning_direction(samples, data)
        ),
        "only the data are used here. That is Hebb's rule: it never asks what the machine does already.": (
            lambda data, samples: ((data.T @ data / len(data)).fill_diagonal_(0), data.mean(0))
        ),
        "only the data are used here, the machine's own samples are not subtracted.": (
            lambda data, samples: (data.T @ data / len(data), data.mean(0))
        ),
        "these are sums. Data and samples differ in number, so divide each by its own.": _sums,
        "divided by the number of units, as in (9.1). Here <...> is an average over patterns or samples.": (
            partial(_learning_direction, pairs=lambda states: states.T @ states / states.shape[1])
        ),
        "both phases are divided by the number of patterns. The samples have a number of their own.": (
            lambda data, samples: tuple(total / len(data) for total in _sums(data, samples))
        ),
        "you multiplied averages, <s_i><s_j>. The rule has the average of products, <s_i s_j>.": (
            partial(_learning_direction, pairs=lambda states: states.mean(0).outer(states.mean(0)))
        ),
        "products of means are taken off: those are covariances, and (9.9) has plain <s_i s_j>.": (
            partial(_learning_direction, pairs=lambda states: torch.cov(states.T, correction=0))
        ),
        "everything is half as large as in (9.9).": (
            lambda data, samples: tuple(x / 2 for x in _learning_direction(data, samples))
        ),
        "both phases are divided by the number of patterns and samples together. Each is an average of its own.": (
            lambda data, samples: tuple(
                (x - y) / (len(data) + len(samples)) for x, y in zip(_sums_of(data), _sums_of(samples), strict=True)
            )
        ),
    },
)


# Exercise 9.6: the pseudo-inverse rule


def _inverse_weights(X, *, diagonal=False, inner=lambda X: X @ X.T):
    W = X.T @ torch.linalg.solve(inner(X), X)
    return W if diagonal else W - torch.diag(W.diag())


inverse_weights = Check(
    "inverse_weights",
    reference=_inverse_weights,
    cases=[
        Case("a single pattern", lambda: (torch.tensor([[1.0, -1.0, 1.0, 1.0]]),), tolerance=1e-4),
        Case(
            "two patterns with an overlap of 0",
            lambda: (torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0]]),),
            tolerance=1e-4,
        ),
        Case(
            "two patterns that overlap",
            lambda: (torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, -1.0]]),),
            tolerance=1e-4,
        ),
        Case("four patterns of ten units", lambda: (_signs(4, 10),), tolerance=1e-4),
    ],
    traps={
        "this is Hebb's rule. For patterns that overlap, the overlaps have to be divided out.": (
            lambda X: (X.T @ X / X.shape[1]).fill_diagonal_(0)
        ),
        "the diagonal is still there. Set it to 0 at the end.": partial(_inverse_weights, diagonal=True),
        "the overlaps are multiplied, not divided out: (X^T X) in (9.12) is inverted.": (
            lambda X: (X.T @ (X @ X.T) @ X).fill_diagonal_(0)
        ),
        "the overlaps are divided by N before they are inverted, so the weights are N times too large.": (
            partial(_inverse_weights, inner=lambda X: X @ X.T / X.shape[1])
        ),
    },
)


# Exercise 9.7: the modern update


def _modern_update(xi, X, beta, *, weights=lambda a, beta, d: torch.softmax(beta * a, -1)):
    return weights(xi @ X.T, beta, X.shape[-1]) @ X


modern_update = Check(
    "modern_update",
    reference=_modern_update,
    cases=[
        Case(
            "one state, two memories, beta = 1",
            lambda: (torch.tensor([[1.0, 0.5]]), torch.tensor([[1.0, 0.0], [0.5, 2.0]]), 1.0),
        ),
        Case("beta = 3", lambda: (_normal(1, 4), normal(3, 4, seed=2), 3.0)),
        Case("three states at once", lambda: (_normal(3, 4), normal(5, 4, seed=2), 0.5)),
        Case("memories of different lengths", lambda: (_normal(2, 3), torch.diag(torch.tensor([1.0, 2, 3])), 1.0)),
        Case("a beta so large that exp overflows", lambda: (_normal(2, 4), normal(3, 4, seed=2), 1e4)),
    ],
    traps={
        "beta is not used: only at beta = 1 is this right.": (
            partial(_modern_update, weights=lambda a, beta, d: torch.softmax(a, -1))
        ),
        "the softmax runs over the states, not over the memories: the weights that a state gives to all memories must "
        "sum to one.": partial(_modern_update, weights=lambda a, beta, d: torch.softmax(beta * a, 0)),
        "the scores are also divided by the root of d. (9.13) has beta alone; it may be set to that.": (
            partial(_modern_update, weights=lambda a, beta, d: torch.softmax(beta * a / d**0.5, -1))
        ),
        "beta multiplies the weights after the softmax. It belongs inside, where it decides how sharp they are.": (
            partial(_modern_update, weights=lambda a, beta, d: beta * torch.softmax(a, -1))
        ),
        "there is no softmax: memories are added up by their plain dot products, as in the network of 1982.": (
            partial(_modern_update, weights=lambda a, beta, d: beta * a)
        ),
        "beta divides, as a temperature would. Here a large beta is cold: it multiplies.": (
            partial(_modern_update, weights=lambda a, beta, d: torch.softmax(a / beta, -1))
        ),
    },
)


# Exercise 9.8: a Boltzmann machine that learns with exact averages


def _boltzmann_machine(
    data,
    n_steps,
    rate,
    *,
    half=0.5,
    sign=1,
    off=-1.0,
    normalise=True,
    model=1.0,
    data_part=1.0,
    use_bias=True,
    learn_bias=True,
    for_w=1.0,
    triangle=False,
    with_z=True,
    average=True,
    after=False,
):
    data = data.double()
    n = data.shape[1]
    states = all_states(n, off, torch.float64)
    W, b, line = torch.zeros(n, n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64), []

    def minus_energy(s):
        return sign * (half * ((s @ W) * s).sum(-1) + (s @ b if use_bias else 0))

    def likelihood():
        log_z = torch.logsumexp(minus_energy(states), 0)
        log_p = minus_energy(data) - (log_z if with_z else 0)
        return log_p.mean() if average else log_p.sum()

    for _ in range(n_steps):
        if not after:
            line.append(likelihood())
        p = torch.softmax(minus_energy(states), 0) if normalise else minus_energy(states).exp()
        pairs = data_part * data.T @ data / len(data) - model * states.T @ (p[:, None] * states)
        means = data_part * data.mean(0) - model * p @ states
        pairs = (pairs - torch.diag(pairs.diag())) * for_w
        W = W + rate * (pairs.triu() if triangle else pairs)
        b = b + rate * means * learn_bias
        if after:
            line.append(likelihood())
    return {"W": W, "b": b, "line": torch.stack(line)}


_MACHINE = {"tolerance": 1e-4}  # float32 is enough

boltzmann_machine = Check(
    "boltzmann_machine",
    reference=_boltzmann_machine,
    cases=[
        Case("one step on one pattern of three units", lambda: (torch.tensor([[1.0, 1.0, -1.0]]), 1, 0.1), **_MACHINE),
        Case("two steps on one pattern of three units", lambda: (torch.tensor([[1.0, 1.0, -1.0]]), 2, 0.1), **_MACHINE),
        Case("thirty steps on four patterns of three units", lambda: (_signs(4, 3, seed=2), 30, 0.2), **_MACHINE),
        Case("sixty steps on seven patterns of five units", lambda: (_signs(7, 5, seed=3), 60, 0.1), **_MACHINE),
    ],
    traps={
        "the machine's own averages are not subtracted: the weights grow by the same amount at every step, for ever.": (
            partial(_boltzmann_machine, model=0.0)
        ),
        "the two phases are swapped: the machine runs away from the data.": (
            partial(_boltzmann_machine, model=-1.0, data_part=-1.0)
        ),
        "the data are missing in the step: what the machine does by itself is only unlearned.": (
            partial(_boltzmann_machine, data_part=0.0)
        ),
        "the probabilities are not divided by Z, so those of all states do not add up to 1.": (
            partial(_boltzmann_machine, normalise=False)
        ),
        "the energy has no half: the double sum meets every pair twice.": partial(_boltzmann_machine, half=1.0),
        "the sign of the energy: states of low energy are probable, p(s) is exp(-E(s)) / Z.": (
            partial(_boltzmann_machine, sign=-1)
        ),
        "the list of all states holds units of 0 and 1. Those of the data are -1 and 1.": (
            partial(_boltzmann_machine, off=0.0)
        ),
        "the biases do not learn. Their step is the second half of (9.9).": (
            partial(_boltzmann_machine, learn_bias=False)
        ),
        "the biases learn, but the energy does not have them.": partial(_boltzmann_machine, use_bias=False),
        "the weights take half a step. w_ij and w_ji are one weight: for torch they are two, so add up both slopes.": (
            partial(_boltzmann_machine, for_w=0.5)
        ),
        "only one triangle of the weights is filled. (9.3) needs both, w_ij = w_ji.": (
            partial(_boltzmann_machine, triangle=True)
        ),
        "log Z is missing in the likelihood: without it log p is only -E.": partial(_boltzmann_machine, with_z=False),
        "the likelihood is a sum over the patterns. Return their average.": partial(_boltzmann_machine, average=False),
        "the likelihood is that after the step. Note it before.": partial(_boltzmann_machine, after=True),
    },
)
