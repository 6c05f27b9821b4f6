"""The checks of chapter 15 tell right answers, written in other ways, from planted mistakes, and name the mistake."""

import math

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.training import freeze_backbone

from .helpers import assert_wrong, load

check = load("15_new_sessions")

# 15.1


def token_by_token(unit, session, n_units):
    rows = [
        0 if u == 0 else u + sum(n_units.tolist()[: s - 1])
        for u, s in zip(unit.tolist(), session.tolist(), strict=True)
    ]
    return torch.tensor(rows)


def by_first_row(unit, session, n_units):
    first = torch.nn.functional.pad(n_units.cumsum(0), (1, 0))[session - 1] + 1
    return (unit - 1 + first) * (unit != 0)


@pytest.mark.parametrize("answer", [token_by_token, by_first_row])
def test_right_rows(answer):
    assert check.table_row.examine(answer).message == "✓ table_row"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda u, s, n: u + torch.tensor([sum(n.tolist()[: k - 1]) for k in s.tolist()]), "blank token was moved"),
        (lambda u, s, n: u * 1, "the same row, as if it were one unit"),
        (lambda u, s, n: (u + torch.cumsum(n, 0)[s - 1]) * (u > 0), "must not count its own"),
        (lambda u, s, n: (u + (s - 1) * n[0]) * (u > 0), "as many units as the first"),
        (lambda u, s, n: (u + (s - 1) * n[s - 1]) * (u > 0), "as large as the token's own"),
        (lambda u, s, n: (token_by_token(u, s, n) - 1).clamp(min=0), "row 0 belongs to the blank token"),
        (lambda u, s, n: (u + torch.tensor([0, *n.tolist()])[s - 1]) * (u > 0), "only the session just before"),
        (lambda u, s, n: token_by_token(u, s, n + 1), "keep a row 0 for every session"),
        (lambda u, s, n: token_by_token(u, s, n).float(), "dtype"),
        (lambda u, s, n: token_by_token(u, s, n).flip(0), "on "),
    ],
)
def test_bugs_of_the_rows(answer, words):
    assert_wrong(check.table_row, answer, words)


# 15.2


def test_own_numbers():
    model = POSSM(POSSMConfig(40, dim=32, head_dim=32, n_freqs=8, hidden=128))
    rows = model.unit_embedding.weight[1:].numel() + model.session_embedding.weight[1:].numel()
    assert check.own_numbers.examine(rows).status == "right"
    learning = sum(p.numel() for p in freeze_backbone(model).parameters() if p.requires_grad)
    everything = sum(p.numel() for p in model.parameters())
    for wrong, words in ((1280, "embedding of its own"), (41, "How many numbers"), (1344, "blank token is not new")):
        assert_wrong(check.own_numbers, wrong, words)
    assert_wrong(check.own_numbers, learning, "all rows of both tables")
    assert_wrong(check.own_numbers, everything, "a whole decoder")
    assert_wrong(check.own_numbers, "1312", "a number is wanted")


# 15.3


def with_the_package(model):
    return [p for p in freeze_backbone(model).parameters() if p.requires_grad]


def off_and_on(model):
    model.requires_grad_(False)
    model.session_embedding.requires_grad_(True)
    model.unit_embedding.requires_grad_(True)
    return [model.session_embedding.weight, model.unit_embedding.weight]


@pytest.mark.parametrize("answer", [with_the_package, off_and_on])
def test_right_to_learn(answer):
    assert check.may_learn.examine(answer).message == "✓ may_learn"


def by_word(word):
    def answer(model):
        for name, parameter in model.named_parameters():
            parameter.requires_grad = word in name
        return [p for p in model.parameters() if p.requires_grad]

    return answer


def modules_frozen_by_attribute(model):
    model.requires_grad = False
    return [model.unit_embedding.weight, model.session_embedding.weight]


def nothing_switched_on(model):
    own = off_and_on(POSSM(model.config)) and [model.unit_embedding.weight, model.session_embedding.weight]
    for parameter in model.parameters():
        if all(parameter is not p for p in own):
            parameter.requires_grad = False
    return [p for p in own if p.requires_grad]


def everything_listed(model):
    off_and_on(model)
    return list(model.parameters())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (by_word("embedding"), "`task_embedding` learns as well"),
        (by_word("embedding.weight"), "another common table"),
        (by_word("unit_embedding"), "the session embedding must learn"),
        (by_word("session_embedding"), "the unit embeddings must learn"),
        (by_word("encoder"), "on a new decoder"),
        (modules_frozen_by_attribute, "an attribute that nobody reads"),
        (nothing_switched_on, "switched on again"),
        (everything_listed, "still holds all parameters"),
        (lambda model: off_and_on(model)[:1], "on a new decoder"),
        (lambda model: len(off_and_on(model)), "on a new decoder"),
    ],
)
def test_bugs_of_what_may_learn(answer, words):
    assert_wrong(check.may_learn, answer, words)


def test_norms_that_learn():
    def answer(model):
        own = off_and_on(model)
        norms = [m for m in model.modules() if isinstance(m, torch.nn.LayerNorm)]
        return own + [p.requires_grad_() for norm in norms for p in norm.parameters()]

    assert_wrong(check.may_learn, answer, "layer norms")


# 15.4


def trial_by_trial(times_s, velocity, trials, n):
    pieces = [v for t, v in zip(times_s, velocity, strict=True) for start, stop in trials[:n] if start <= t < stop]
    v = np.array([piece.tolist() for piece in pieces])
    mean, std = v.mean(0), v.std(0)
    return torch.tensor(mean), torch.tensor([x if x > 0 else 1.0 for x in std], dtype=torch.float64)


def over_samples(chosen):
    std = ((chosen - chosen.mean(0)) ** 2).mean(0).sqrt()
    std[std == 0] = 1
    return chosen.mean(0), std


def averaged(times_s, velocity, trials, n):
    mean, std = zip(*(trial_by_trial(times_s, velocity, trials[i : i + 1], 1) for i in range(n)), strict=True)
    return sum(mean) / n, sum(std) / n


def test_right_scale():
    assert check.scale_of.examine(trial_by_trial).message == "✓ scale_of"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda t, v, trials, n: over_samples(v), "all of the velocity went in"),
        (lambda t, v, trials, n: trial_by_trial(t, v, trials, len(trials)), "all training trials went in"),
        (
            lambda t, v, trials, n: over_samples(v[(t >= trials[0, 0]) & (t < trials[n - 1, 1])]),
            "what lies between two trials",
        ),
        (
            lambda t, v, trials, n: over_samples(v[sum((t >= a) & (t <= b) for a, b in trials[:n]) > 0]),
            "the sample at the stop",
        ),
        (lambda t, v, trials, n: averaged(t, v, trials, n), "trial by trial and then averaged"),
        (lambda t, v, trials, n: (trial_by_trial(t, v, trials, n)[0], torch.ones(2).double()), "on trials that follow"),
        (lambda t, v, trials, n: trial_by_trial(t, v, trials, n - 1), "on trials that follow"),
        (lambda t, v, trials, n: trial_by_trial(t, v, trials, n)[::-1], "on trials that follow"),
        (
            lambda t, v, trials, n: (trial_by_trial(t, v, trials, n)[0], trial_by_trial(t, v, trials, n)[1].square()),
            "that is the variance",
        ),
    ],
)
def test_bugs_of_the_scale(answer, words):
    assert_wrong(check.scale_of, answer, words)


def first_three_seconds(t, trials):
    return sum(((t >= start) & (t < stop)).int() for start, stop in trials) > 0


@pytest.mark.parametrize(
    ("scaled", "words"),
    [
        (lambda v: (v.mean(0), v.std(0).where(v.std(0) > 0, torch.tensor(1.0))), "not by one less"),
        (lambda v: (v.mean(0), v.var(0, correction=0).sqrt()), "spread 0"),
        (lambda v: (v.mean(0), v.var(0, correction=0).sqrt().maximum(torch.ones(2))), "a small spread is still"),
        (lambda v: (v.mean().repeat(2), v.std(correction=0).repeat(2)), "one number for both axes"),
    ],
)
def test_bugs_of_the_spread(scaled, words):
    assert_wrong(check.scale_of, lambda t, v, trials, n: scaled(v[first_three_seconds(t, trials[:n])]), words)


# 15.5


def by_hand(a, b):
    d = [x - y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    mean = sum(d) / len(d)
    return mean, math.sqrt(sum((x - mean) ** 2 for x in d) / (len(d) - 1) / len(d))


def with_numpy(a, b):
    d = (a - b).numpy()
    return d.mean(), d.std(ddof=1) / len(d) ** 0.5


@pytest.mark.parametrize("answer", [by_hand, with_numpy])
def test_right_pairs(answer):
    assert check.paired.examine(answer).message == "✓ paired"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda a, b: (by_hand(a, b)[0], ((a.var() + b.var()) / len(a)).sqrt()), "not that of *pairs*"),
        (lambda a, b: (by_hand(a, b)[0], by_hand(a, b)[1] * len(a) ** 0.5), "by a factor of √S"),
        (lambda a, b: (by_hand(a, b)[0], by_hand(a, b)[1] / len(a) ** 0.5), "you divide by S where"),
        (lambda a, b: (by_hand(a, b)[0], by_hand(a, b)[1] ** 2), "the square of the error"),
        (lambda a, b: (by_hand(a, b)[0], np.std((a - b).numpy()) / len(a) ** 0.5), "by S − 1, not by S"),
        (lambda a, b: (max(a.tolist()) - max(b.tolist()), by_hand(a, b)[1]), "the best seed of one"),
        (lambda a, b: by_hand(b, a), "the sign: "),
        (lambda a, b: (abs(by_hand(a, b)[0]), by_hand(a, b)[1]), "the sign is lost"),
        (lambda a, b: (by_hand(a, b)[0] * 100, by_hand(a, b)[1] * 100), "on six seeds"),
        (lambda a, b: by_hand(a, b)[0], "2 values are wanted"),
    ],
)
def test_bugs_of_the_pairs(answer, words):
    assert_wrong(check.paired, answer, words)
