"""Exercises of chapter 09: recall and where it ends, a unit by chance, contrastive divergence, cues known in part."""

import math
from functools import partial

import torch

from possm_course.checks import ValueCheck, exercise, normal


def _signs(*shape, seed=9):
    """States -1 and 1 of this shape."""
    return torch.where(normal(*shape, seed=seed) > 0, 1.0, -1.0)


def _symmetric(n, seed=9):
    """Weights between n units, the same both ways, with zeros on the diagonal."""
    upper = normal(n, n, seed=seed).triu(1)
    return upper + upper.T


def _pair(s, weight):
    """Two units in state s with one weight between them, without biases."""
    return torch.tensor(s), torch.tensor([[0.0, weight], [weight, 0.0]]), torch.zeros(2)


def _network(seed):
    """A state of twelve units, their weights and biases."""
    return _signs(12, seed=seed), _symmetric(12, seed=seed + 10), normal(12, seed=seed + 20)


def _unconnected(s, b):
    """Three units in state s with biases b and no weights."""
    return torch.tensor(s), torch.zeros(3, 3), torch.tensor(b)


# Exercise 9.1: one sweep of recall
@exercise(
    cases={
        "a pattern that is already recalled": partial(_pair, [1.0, -1.0], -1.0),
        "two units that want to be alike and are not": partial(_pair, [1.0, -1.0], 1.0),
        "units that listen only to their biases": partial(_unconnected, [1.0, -1.0, 1.0], [-0.3, 0.2, 0.1]),
        "units whose field is exactly 0": partial(_unconnected, [-1.0, 1.0, -1.0], [0.0, 0.0, 0.0]),
        **{f"twelve units with weights of both signs, network {i}": partial(_network, i) for i in range(1, 6)},
    },
    mistakes={
        "s[i] = torch.sign(a) → s[i] += torch.sign(a)": "a state left -1 and 1: the sign was added to the old state.",
        ("s = s.clone() → cue, s = s, s.clone()", "W[i] @ s → W[i] @ cue"): (
            "all units moved at once, on the old state. Let each unit see what the units before it have just done."
        ),
        "a != 0 → True": "a field of exactly 0 made a unit 0, and a unit is -1 or 1. At 0 it keeps its state.",
        ("a != 0 → True", "torch.sign(a) → 1.0 if a >= 0 else -1.0"): "at a field of exactly 0 a unit keeps its state.",
        "s[i] = torch.sign(a) → s[i] = torch.tanh(a)": "a unit has become a number between -1 and 1: take the sign.",
        ("a != 0 → True", "torch.sign(a) → 1.0 if a > 0 else -1.0"): (
            "at a field of exactly 0 a unit has gone to -1. It should keep its state."
        ),
        "+ b[i] → ": "the biases are missing.",
        "+ b[i] → - b[i]": "the biases have the wrong sign: the field is W s plus b.",
        "torch.sign(a) → -torch.sign(a)": "the sign: a unit takes that of its field.",
        "torch.sign(a) → (a > 0).to(s.dtype)": "a unit that is off is -1 here, not 0.",
        "range(len(s)) → reversed(range(len(s)))": "the last unit had its turn first: go from the first to the last.",
        "range(len(s)) → 3 * [*range(len(s))]": "more than one sweep: each unit has one turn.",
    },
)
def recall_sweep(s, W, b):
    """The state (N,) after every unit has had one turn, from the first to the last."""
    s = s.clone()  # the cue stays as it is
    for i in range(len(s)):
        a = W[i] @ s + b[i]  # reads what units 0 ... i - 1 have just become
        if a != 0:  # at exactly 0 the unit keeps its state
            s[i] = torch.sign(a)
    return s


# Exercise 9.2: how many end states one stored pattern makes
n_end_states = ValueCheck(
    "n_end_states",
    expected=2,
    mistakes={
        1: "the pattern itself is one. What does the energy (9.3) say of the state in which every sign is changed?",
        3: "mirrored half and half? In such a mixture every unit has a side with more units, and goes over to it.",
        4096: "4,096 is the number of starts. Most of them do not stay where they are.",
        12: "12 is the number of units. An end state is a pattern of all of them.",
        4: "look at the energy: what does it say of a state with all signs changed, and of no other?",
    },
    hint="Which states have the same energy as the pattern, and are there others at a minimum?",
)


# Exercise 9.3: how the modern network grows with a smaller beta
growth = ValueCheck(
    "growth",
    expected=math.exp(24 * (0.75 / 4 - math.log(math.cosh(1 / 4)))),  # 42.8
    tolerance=2.0,  # 41 is what is measured
    mistakes={
        1977: "that is the factor for beta = 1. Here a dot product of 6 weighs exp(6 / 4).",
        90: "the strangers weigh too: (cosh 1/4)^d on average.",
        6.67: "a quarter of the exponent? ln cosh 1/4 is less than a quarter of ln cosh 1.",
    },
    hint="Put beta = 1/4 into the two exponents, the signal's and that of the strangers.",
)


def _cues(Q, M, d, beta, n_updates, share=0.6):
    """Cues with 99 in the place of what is unknown."""
    known = normal(Q, d, seed=2) < share
    return torch.where(known, _signs(Q, d), 99.0), known, _signs(M, d, seed=3), beta, n_updates


# Exercise 9.4: a modern Hopfield network whose cue is known in part
@exercise(
    cases={
        "one cue of which all is known": partial(_cues, 1, 3, 8, 0.3, 1, share=math.inf),
        "one cue, one update": partial(_cues, 1, 3, 8, 0.3, 1),
        "four cues, one update": partial(_cues, 4, 3, 8, 0.3, 1),
        "four cues, three updates": partial(_cues, 4, 5, 8, 0.3, 3),
        "memories that are no signs": lambda: (*_cues(3, 2, 4, 1.0, 2)[:2], normal(5, 4, seed=4), 1.0, 2),
        "a beta so large that exp overflows": lambda: (*_cues(3, 4, 8, 0, 0)[:2], normal(4, 8, seed=4), 200.0, 1),
    },
    mistakes={
        "torch.where(known, cues, 0.0) → cues": (
            "what stands where nothing is known was compared with the memories. Begin with 0 there."
        ),
        "xi = torch.where(known, cues, weights @ memories) → xi = weights @ memories": (
            "the update has changed known units. Put them back after each one."
        ),
        "beta * xi → xi": "beta is not used.",
        "memories.T, -1) → memories.T, 0)": "the softmax runs over the cues: the weights of one cue must sum to one.",
        "range(n_updates) → range(1)": "one update only: there are n_updates.",
        (
            'return {"xi": xi, "weights": weights} → return {"xi": xi, "weights": torch.softmax(beta * xi @ '
            "memories.T, -1)}"
        ): ("the weights are those of one more look. They should be those with which xi was made."),
        "xi = torch.where(known, cues, weights @ memories) → xi = weights @ memories if _ < n_updates - 1 else "
        "torch.where(known, cues, weights @ memories)": (
            "known units are put back only at the end. Put them back after every update."
        ),
        (
            "xi = torch.where(known, cues, weights @ memories) → xi = torch.where(known, cues, (weights @ "
            "memories).sign())"
        ): ("signs are taken of the mean. It stays as it is."),
        "beta * xi → xi / beta": "divided by beta. Multiply.",
        "beta * xi @ memories.T → beta * xi @ memories.T / xi.shape[1] ** 0.5": (
            "divided by the root of d: beta alone sets the scale here."
        ),
        "torch.where(known, cues, weights @ memories) → torch.where(known, weights @ memories, cues)": (
            "the mask is the wrong way round: where a unit is known, it keeps its cue."
        ),
    },
)
def complete_cues(cues, known, memories, beta, n_updates):
    """A dict: xi (Q, d), cues (Q, d) completed from memories (M, d) where known (Q, d) is False, weights (Q, M)."""
    xi = torch.where(known, cues, 0.0)  # an unknown unit adds nothing to a dot product
    for _ in range(n_updates):
        weights = torch.softmax(beta * xi @ memories.T, -1)  # (Q, M): over the memories
        xi = torch.where(known, cues, weights @ memories)  # (Q, d)
    return {"xi": xi, "weights": weights}


def _unconnected_pair(s, bias, T):
    """Two units in state s without weights, of which unit 1 is asked for and has a bias, at temperature T."""
    return torch.tensor(s), 1, torch.zeros(2, 2), torch.tensor([0.0, bias]), T


# Exercise 9.5: the chance that a unit is on, with units of -1 and 1
@exercise(
    cases={
        "two units at T = 1, no biases": lambda: (-torch.ones(2), 0, 0.8 * (1 - torch.eye(2)), torch.zeros(2), 1.0),
        "a unit with a bias": partial(_unconnected_pair, [1.0, 1.0], 0.4, 1.0),
        "a unit with a bias that is off": partial(_unconnected_pair, [-1.0, -1.0], 0.4, 1.0),
        "a temperature of 2": lambda: (_signs(4), 2, _symmetric(4), torch.zeros(4), 2.0),
        "eight units with everything": lambda: (_signs(8), 5, 0.3 * _symmetric(8), normal(8, seed=2), 0.7),
        "a cold unit, whose bias keeps it off": partial(_unconnected_pair, [1.0, -1.0], -0.5, 0.004),
        "a cold unit, whose bias keeps it on": partial(_unconnected_pair, [1.0, -1.0], 0.5, 0.004),
    },
    mistakes={
        "2 * (W → (W": "a factor 2 is missing: the gap is E(s_i = -1) - E(s_i = 1), and from -1 to 1 is a step of two.",
        "2 * (W → -2 * (W": "this is the chance that the unit is off: the gap has the wrong sign.",
        "2 * (W → 2 * s[i] * (W": "with s_i in the gap this is the chance that the unit stays. Wanted is that of 1.",
        "gap / T → gap": "T is not used: divide the gap by it.",
        "2 * (W[i] @ s + b[i]) → 2 * W[i] @ s + b[i]": (
            "the factor 2 is on the weights alone: the whole field is doubled, the bias with it."
        ),
        "2 * (W[i] @ s + b[i]) → W[i] @ s + 2 * b[i]": (
            "the factor 2 is on the bias alone: the whole field is doubled, the weights with it."
        ),
        "2 * (W[i] @ s + b[i]) → 0.5 * (W[i] @ s + b[i])": (
            "the field is halved. From -1 to 1 is a step of two, so it is doubled."
        ),
        "2 * (W[i] @ s + b[i]) → W[i] @ ((s + 1) / 2) + b[i]": (
            "units are taken for 0 and 1. Here they are -1 and 1, so that the step is two."
        ),
        "+ b[i] → ": "the bias is missing.",
        "gap / T → gap * T": "multiplied by T. A hot unit is less certain: divide.",
        "return torch.sigmoid(gap / T) → return torch.exp(gap / T) / (1 + torch.exp(gap / T))": (
            "exp of a large gap is infinite, and inf / inf is NaN: `torch.sigmoid` does it."
        ),
        "return torch.sigmoid(gap / T) → return torch.tanh(gap / T)": (
            "this is the mean of the unit, between -1 and 1. The probability is a sigmoid."
        ),
        "return torch.sigmoid(gap / T) → return torch.tanh(gap / T / 2)": (
            "this is the mean of the unit, 2p - 1. The probability p is wanted."
        ),
    },
)
def chance_on(s, i, W, b, T):
    """The probability that unit i of s (N,) is on, given all others; units are -1 and 1."""
    gap = 2 * (W[i] @ s + b[i])  # E(s_i = -1) - E(s_i = 1)
    return torch.sigmoid(gap / T)


# Exercise 9.6: contrastive divergence
def _restricted(K, V, H, k):
    """Data, W, b, c, and random numbers for k sweeps."""
    uniform = [torch.special.ndtr(normal(k, K, n, seed=n)) for n in (H, V)]
    return _signs(K, V), normal(V, H, seed=2), normal(V, seed=3), normal(H, seed=4), *uniform


@exercise(
    cases={
        "one datum, one hidden unit, one sweep": partial(_restricted, 1, 2, 1, 1),
        "six data, three hidden units, one sweep": partial(_restricted, 6, 4, 3, 1),
        "twenty data, three hidden units, two sweeps": partial(_restricted, 20, 4, 3, 2),
        "thirty data, five hidden units, ten sweeps": partial(_restricted, 30, 6, 5, 10),
    },
    mistakes={
        "2 * (units @ W + bias) → units @ W + bias": "a factor 2 is missing: -1 to 1 is a step of two, see (9.12).",
        "h = torch.where(u_h < on(v, W, c), 1.0, -1.0) → h = torch.where(u_h < on(data, W, c), 1.0, -1.0)": (
            "every sweep begins at the data again. The second begins where the first has ended."
        ),
        "zip(for_h, for_v, strict=True) → [(for_h[0], for_v[0])]": "one sweep only: there are k of them.",
        "1.0, -1.0) → 1.0, 0.0)": "a unit that is off is -1 here. You have drawn units of 0 and 1.",
        "2 * on(data, W, c) - 1, 2 * on(v, W, c) - 1 → on(data, W, c), on(v, W, c)": (
            "you average the probability p of a hidden unit. Its mean is 2p - 1, as it is 1 or -1."
        ),
        "h_later = 2 * on(data, W, c) - 1, 2 * on(v, W, c) - 1 → h_later = 2 * on(data, W, c) - 1, h": (
            "at the end the mean of h given the last v is wanted, not the h from which that v was drawn."
        ),
        "2 * on(data, W, c) - 1, 2 * on(v, W, c) - 1 → 2 * on(data, W, c) - 1, 2 * on(data, W, c) - 1": (
            "both means are made of the data. The second should be made of the v at the end."
        ),
        "h_data, h_later = 2 * on(data, W, c) - 1, 2 * on(v, W, c) - 1 → "
        "h_data, h_later = torch.where(for_h[0] < on(data, W, c), 1.0, -1.0), h": (
            "hidden units are drawn, in both phases. For the directions their means should be taken: less chance "
            "is in them."
        ),
        "h_data, h_later = 2 * on(data, W, c) - 1, → "
        "h_data, h_later = torch.where(for_h[0] < on(data, W, c), 1.0, -1.0),": (
            "the hidden units of the data are drawn. For the directions their means should be taken."
        ),
        "(data.T @ h_data - v.T @ h_later) / len(data) → (data.T @ h_data - v.T @ h_later)": (
            "the direction of W is not divided by the number of data: it should be a mean, as the others are."
        ),
        (
            "(data.T @ h_data - v.T @ h_later) / len(data) → (data.T @ h_data - v.T @ h_later)",
            "(data - v).mean(0), (h_data - h_later).mean(0) → (data - v).sum(0), (h_data - h_later).sum(0)",
        ): "nothing is divided by the number of data: means are wanted, not sums.",
        "(data - v).mean(0), (h_data - h_later).mean(0) → (data - v).mean(), (h_data - h_later).mean()": (
            "one number for all biases. Each unit should have its own: the mean over the data alone."
        ),
        "(data.T @ h_data - v.T @ h_later) / len(data), (data - v).mean(0), (h_data - h_later).mean(0) → "
        "(v.T @ h_later - data.T @ h_data) / len(data), (v - data).mean(0), (h_later - h_data).mean(0)": (
            "the sign: the data's mean comes first, and what the machine makes is subtracted."
        ),
        "v = torch.where(u_v < on(h, W.T, b), 1.0, -1.0) → v = 2 * on(h, W.T, b) - 1": (
            "the visible units are means. They should be drawn, with the numbers that are given."
        ),
        "h = torch.where(u_h < on(v, W, c), 1.0, -1.0) → h = 2 * on(v, W, c) - 1": (
            "the hidden units are means on the way to v. They should be drawn, with the numbers that are given."
        ),
        "u_h < on(v, W, c) → u_h > on(v, W, c)": ("a unit is on where the random number is *below* its probability."),
        "(data.T @ h_data - v.T @ h_later) → (data.T @ h_data - data.T @ h_later)": (
            "the second product has the data in it. It should have the v at the end."
        ),
        "on(h, W.T, b) → on(h, W.T, 0 * b)": "the biases b of the visible units are missing.",
        "on(v, W, c), 1.0 → on(v, W, 0 * c), 1.0": "the biases c of the hidden units are missing where they are drawn.",
    },
    results=("the direction of W", "the direction of b", "the direction of c"),
)
def cd_directions(data, W, b, c, for_h, for_v):
    """CD-k: directions for W (V, H), b (V,) and c (H,) from data (K, V) and random numbers (k, K, H), (k, K, V)."""

    def on(units, W, bias):  # (9.12): the probability of being 1
        return torch.sigmoid(2 * (units @ W + bias))

    v = data
    for u_h, u_v in zip(for_h, for_v, strict=True):
        h = torch.where(u_h < on(v, W, c), 1.0, -1.0)  # (K, H)
        v = torch.where(u_v < on(h, W.T, b), 1.0, -1.0)  # (K, V)
    h_data, h_later = 2 * on(data, W, c) - 1, 2 * on(v, W, c) - 1  # (K, H): means
    return (data.T @ h_data - v.T @ h_later) / len(data), (data - v).mean(0), (h_data - h_later).mean(0)


# Exercise 9.7: what cutting half of the weights amounts to
n_alike = ValueCheck(
    "n_alike",
    expected=11.5,  # 12, or 11 by (9.5), which has M - 1 terms
    tolerance=0.5,
    mistakes={
        24: "that would be so if crosstalk stayed as loud as it was. It is a sum of half as many terms now.",
        6: "that would be so if both shrank alike. The signal is halved, the crosstalk divided by the root of 2.",
    },
    hint="Signal and crosstalk both shrink, but not alike: the one is a sum of equal terms, the other of random signs.",
)


# Exercise 9.8: the pseudo-inverse rule
@exercise(
    tolerance=1e-4,
    cases={
        "a single pattern": lambda: (torch.tensor([[1.0, -1.0, 1.0, 1.0]]),),
        "two patterns with an overlap of 0": lambda: (torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0]]),),
        "two patterns that overlap": lambda: (torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, -1.0]]),),
        "four patterns of ten units": lambda: (_signs(4, 10),),
    },
    mistakes={
        "torch.linalg.solve(overlaps, X) → X / X.shape[1]": "this is Hebb's rule.",
        " - torch.diag(W.diag()) → ": "the diagonal is still there. Set it to 0 at the end.",
        "X.T @ torch.linalg.solve(overlaps, X) → X.T @ X": "this is Hebb's rule, and not divided.",
        "return W - torch.diag(W.diag()) → return torch.diag(W.diag())": "only the diagonal is left. It should be 0.",
        "torch.linalg.solve(overlaps, X) → overlaps @ X": "multiplied by the overlaps. Their inverse is needed.",
    },
)
def inverse_weights(X):
    """The pseudo-inverse rule: patterns X (M, N) in rows -> weights (N, N), zeros on the diagonal."""
    overlaps = X @ X.T  # (M, M)
    W = X.T @ torch.linalg.solve(overlaps, X)  # (N, N)
    return W - torch.diag(W.diag())


# Exercise 9.9: a Boltzmann machine that learns with exact averages
@exercise(
    tolerance=1e-4,  # float32 is enough
    cases={
        "one step on one pattern of three units": lambda: (torch.tensor([[1.0, 1.0, -1.0]]), 1, 0.1),
        "two steps on one pattern of three units": lambda: (torch.tensor([[1.0, 1.0, -1.0]]), 2, 0.1),
        "thirty steps on four patterns of three units": lambda: (_signs(4, 3, seed=2), 30, 0.2),
        "sixty steps on seven patterns of five units": lambda: (_signs(7, 5, seed=3), 60, 0.1),
    },
    mistakes={
        ("- states.T @ (p[:, None] * states) → - torch.eye(N)", " - p @ states → "): (
            "the machine's own averages are not subtracted: the weights grow by the same amount at every step."
        ),
        "+ rate → - rate": "the two phases are swapped: the machine runs away from the data.",
        "-0.5 * → -": "the energy has no half: the double sum meets every pair twice.",
        "W + rate * → W + 0.5 * rate *": (
            "the weights take half a step. w_ij and w_ji are one weight: for torch they are two, so add up both slopes."
        ),
        "data) - log_z → data)": "log Z is missing in the likelihood: without it log p is only -E.",
        "data.T @ data / len(data) → data.T @ data": "the data's products are summed. Divide by their number.",
        "+ rate * (data.mean(0) - p @ states) → ": "the biases do not learn.",
        (
            '"line": torch.stack(line) → "line": -torch.stack(line)'
        ): "the sign: log p of the data, which rises as it learns.",
        "/ len(data) - states.T @ (p[:, None] * states)) → / len(data) - states.T @ states / len(states))": (
            "all states count alike. Each should weigh its probability p."
        ),
    },
)
def boltzmann_machine(data, n_steps, rate):
    """A dict: W (N, N) and b (N,) after n_steps steps from 0, line (n_steps,): exact <log p> before each step."""
    data = data.double()
    N = data.shape[1]
    states = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * N)  # (2^N, N)
    W, b, line = torch.zeros(N, N).double(), torch.zeros(N).double(), []

    def energy(s):  # (..., N) -> (...)
        return -0.5 * ((s @ W) * s).sum(-1) - s @ b

    for _ in range(n_steps):
        log_z = torch.logsumexp(-energy(states), 0)
        line.append((-energy(data) - log_z).mean())
        p = torch.exp(-energy(states) - log_z)  # (2^N,): the softmax of -E
        W = W + rate * (data.T @ data / len(data) - states.T @ (p[:, None] * states))
        b = b + rate * (data.mean(0) - p @ states)
    return {"W": W, "b": b, "line": torch.stack(line)}
