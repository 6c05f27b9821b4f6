"""The checks of chapter 09 tell right answers, written in other ways, from planted mistakes, and name the mistake."""

import math

import pytest
import torch

from .helpers import assert_wrong, load

check = load("09_associative_memory")

# 9.1: right answers in plain loops and with a field that is kept up to date


def sweep_in_loops(s, W, b, change=lambda h, s: s if h == 0 else math.copysign(1.0, h), bias=1):
    values = s.tolist()
    for i in range(len(values)):
        h = sum(float(W[i, j]) * values[j] for j in range(len(values))) + bias * float(b[i])
        values[i] = change(h, values[i])
    return torch.tensor(values)


def sweep_with_running_field(s, W, b):
    s, h = s.clone(), W @ s + b
    for i in range(len(s)):
        new = s[i] if h[i] == 0 else h[i].sign()
        h = h + W[:, i] * (new - s[i])
        s[i] = new
    return s


@pytest.mark.parametrize("answer", [sweep_in_loops, sweep_with_running_field])
def test_right_sweeps(answer):
    assert check.recall_sweep.examine(answer).message == "✓ recall_sweep"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"change": lambda h, s: s + (h > 0) - (h < 0)}, "not s_i + sgn"),
        ({"change": lambda h, s: float((h > 0) - (h < 0))}, "made a unit 0"),
        ({"change": lambda h, s: 1.0 if h >= 0 else -1.0}, "switched a unit on"),
        ({"change": lambda h, s: s if h == 0 else -math.copysign(1.0, h)}, "the energy climbs"),
        ({"bias": 0}, "biases are not used"),
        ({"bias": -1}, "wrong sign: in (9.2) it is added"),
    ],
)
def test_bugs_of_a_sweep(changed, words):
    assert_wrong(check.recall_sweep, lambda s, W, b: sweep_in_loops(s, W, b, **changed), words)


def test_all_units_at_once():
    def answer(s, W, b):
        h = W @ s + b
        return torch.where(h > 0, 1.0, torch.where(h < 0, -1.0, s))

    assert_wrong(check.recall_sweep, answer, "moved at once")


def test_a_cue_that_is_overwritten():
    def answer(s, W, b):
        for i in range(len(s)):
            h = W[i] @ s + b[i]
            if h != 0:
                s[i] = h.sign()
        return s

    assert_wrong(check.recall_sweep, answer, "first argument was changed in place")


# 9.2: the number itself, counted here by brute force


def test_one_pattern_has_two_end_states():
    x = torch.tensor([1.0, -1, 1, 1, -1, -1])
    ends = set()
    w = torch.outer(x, x) / 6
    w.fill_diagonal_(0)
    for number in range(2**6):
        s = torch.tensor([1.0 if number >> k & 1 else -1.0 for k in range(6)])
        for _ in range(10):
            s = sweep_in_loops(s, w, torch.zeros(6))
        ends.add(tuple(s.tolist()))
    assert check.n_end_states.examine(len(ends)).message == "✓ n_end_states"


@pytest.mark.parametrize(
    ("value", "words"), [(1, "every sign is changed"), (4096, "number of starts"), (3, "mixture"), (7, "is not it")]
)
def test_wrong_counts(value, words):
    assert_wrong(check.n_end_states, value, words)


# 9.3: right answers from the two energies and with tanh


def chance_from_energies(s, i, W, b, T):
    def energy(value):
        state = s.double().clone()
        state[i] = value
        return float(-0.5 * state @ W.double() @ state - b.double() @ state)

    return torch.tensor(energy(-1.0) - energy(1.0), dtype=torch.float64).div(T).sigmoid().float()


def chance_with_tanh(s, i, W, b, T):
    return (1 + torch.tanh((W[i] @ s + b[i]) / T)) / 2


@pytest.mark.parametrize("answer", [chance_from_energies, chance_with_tanh])
def test_right_chances(answer):
    assert check.chance_on.examine(answer).message == "✓ chance_on"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda s, i, W, b, T: torch.sigmoid(((W @ s)[i] + b[i]) / T), "a factor 2 is missing"),
        (lambda s, i, W, b, T: 1 - torch.sigmoid(2 * (W[i] @ s + b[i]) / T), "the unit is off"),
        (lambda s, i, W, b, T: torch.sigmoid(2 * (s * (W @ s + b))[i] / T), "chance that the unit stays"),
        (lambda s, i, W, b, T: torch.sigmoid(2 * T * (W[i] @ s + b[i])), "multiplied by T"),
        (lambda s, i, W, b, T: torch.sigmoid(2 * (W[i] @ s + b[i])), "temperature is not used"),
        (lambda s, i, W, b, T: torch.sigmoid(2 * (W[i] @ s) / T), "bias is missing"),
        (lambda s, i, W, b, T: torch.sigmoid((2 * W[i] @ s + b[i]) / T), "bias lacks the factor 2"),
        (lambda s, i, W, b, T: torch.sigmoid(2 * (W @ s + b) / T), "shape is (2,)"),
    ],
)
def test_bugs_of_a_chance(answer, words):
    assert_wrong(check.chance_on, answer, words)


# 9.4: right answers in loops and with einsum


def direction_in_loops(data, samples):
    n = data.shape[1]
    for_w, for_b = torch.zeros(n, n), torch.zeros(n)
    for sign, states in ((1, data), (-1, samples)):
        for state in states:
            for i in range(n):
                for_b[i] += sign * state[i] / len(states)
                for j in range(n):
                    for_w[i, j] += sign * state[i] * state[j] / len(states)
    return for_w, for_b


def direction_with_einsum(data, samples):
    pairs = [torch.einsum("ki,kj->ij", x, x) / x.shape[0] for x in (data, samples)]
    return (pairs[0] - pairs[1]).fill_diagonal_(0), data.mean(0) - samples.mean(0)


@pytest.mark.parametrize("answer", [direction_in_loops, direction_with_einsum])
def test_right_directions(answer):
    assert check.learning_direction.examine(answer).message == "✓ learning_direction"


def average(x):
    return torch.einsum("ki,kj->kij", x, x).mean(0), x.mean(0)


def hebb(data, samples):
    pairs, means = average(data)
    return pairs.fill_diagonal_(0), means


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda d, s: direction_in_loops(s, d), "two phases have changed places"),
        (hebb, "only the data speak here. That is Hebb's rule"),
        (lambda d, s: average(d), "not subtracted"),
        (lambda d, s: (d.mT @ d - s.mT @ s, d.sum(0) - s.sum(0)), "these are sums"),
        (lambda d, s: ((d.mT @ d - s.mT @ s) / d.shape[1], d.mean(0) - s.mean(0)), "number of units"),
        (lambda d, s: ((d.mT @ d - s.mT @ s) / len(d), (d.sum(0) - s.sum(0)) / len(d)), "a number of their own"),
        (
            lambda d, s: (torch.outer(d.mean(0), d.mean(0)) - torch.outer(s.mean(0), s.mean(0)), d.mean(0) - s.mean(0)),
            "averages",
        ),
        (
            lambda d, s: (torch.cov(d.T, correction=0) - torch.cov(s.T, correction=0), d.mean(0) - s.mean(0)),
            "covariances",
        ),
        (lambda d, s: direction_in_loops(d, s)[0], "2 values are wanted"),
    ],
)
def test_bugs_of_a_direction(answer, words):
    assert_wrong(check.learning_direction, answer, words)


# 9.5: right answers in loops, and by torch's own attention


def update_in_loops(xi, X, beta):
    rows = []
    for state in xi:
        scores = torch.stack([beta * (state * memory).sum() for memory in X])
        weights = torch.exp(scores - scores.max())
        rows.append(sum(w * memory for w, memory in zip(weights / weights.sum(), X, strict=True)))
    return torch.stack(rows)


def update_by_torch(xi, X, beta):
    return torch.nn.functional.scaled_dot_product_attention(xi[None], X[None], X[None], scale=beta)[0]


@pytest.mark.parametrize("answer", [update_in_loops, update_by_torch])
def test_right_updates(answer):
    assert check.modern_update.examine(answer).message == "✓ modern_update"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda xi, X, beta: (xi @ X.T).softmax(1) @ X, "beta is not used"),
        (lambda xi, X, beta: (beta * X @ xi.T).softmax(1).T @ X, "runs over the states"),
        (lambda xi, X, beta: update_by_torch(xi, X, beta / X.shape[1] ** 0.5), "root of d"),
        (lambda xi, X, beta: beta * ((xi @ X.T).softmax(1) @ X), "behind the softmax"),
        (lambda xi, X, beta: beta * xi @ X.T @ X, "there is no softmax"),
        (lambda xi, X, beta: update_by_torch(xi, X, 1 / beta), "a large beta is cold"),
    ],
)
def test_bugs_of_an_update(answer, words):
    assert_wrong(check.modern_update, answer, words)


@pytest.mark.parametrize(
    "answer",
    [lambda xi, X, beta: update_in_loops(xi, X, beta).sign(), lambda xi, X, beta: X[(xi @ X.T).argmax(1)]],
)
def test_a_mistake_without_a_name_is_given_no_other(answer):
    """Signs taken at the end, or the best memory alone, are not told that the softmax is wrong or missing."""
    assert_wrong(check.modern_update, answer, "on one state, two memories")


def test_a_softmax_that_overflows_is_a_case_of_its_own():
    def answer(xi, X, beta):
        e = torch.exp(beta * xi @ X.T)
        return e / e.sum(-1, keepdim=True) @ X

    assert_wrong(check.modern_update, answer, "on a beta so large that exp overflows")
