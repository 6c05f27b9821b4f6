"""Search against all sequences there are: a wide beam finds the best one, and greedy does not have to."""

import itertools
import math
import sys
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from possm_course.chapters.ch07.search import Hypothesis, beam_search
from possm_course.chapters.ch07.seq2seq import BahdanauSeq2Seq, Seq2Seq

BEGIN, END, V = 0, 1, 3
exhaustive_search = partial(beam_search, width=sys.maxsize)  # a beam that drops none, the best first


def random_step(seed):
    """Log-probabilities that depend on the whole prefix, which is the state."""

    def step(tokens, state):
        state = torch.cat([state, tokens[:, None]], 1)  # (K, t)
        rows = []
        for prefix in state.tolist():
            generator = torch.Generator().manual_seed(hash((seed, *prefix)) % 2**31)
            rows.append(torch.log_softmax(2 * torch.randn(V, generator=generator, dtype=torch.float64), -1))
        return torch.stack(rows), state

    return step


def empty():
    return torch.zeros(1, 0, dtype=torch.long)


def table(rows):
    """A step from probabilities of the next token by the text before it."""

    def step(tokens, state):
        texts = torch.cat([empty() if state is None else state, tokens[:, None]], 1)
        return torch.tensor([rows[tuple(text[1:])] for text in texts.tolist()]).log(), texts

    return step


def brute_force(step, max_len, length_power):
    """Every string over the vocabulary, scored from scratch."""
    scored = []
    for text in (text for n in range(1, max_len + 1) for text in itertools.product(range(V), repeat=n)):
        if END not in text[:-1] and (text[-1] == END or len(text) == max_len):
            state, log_p = empty(), 0.0
            for before, token in zip((BEGIN, *text), text, strict=False):
                log_probs, state = step(torch.tensor([before]), state)
                log_p += float(log_probs[0, token])
            scored.append((log_p / len(text) ** length_power, text))
    return max(scored)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.7, 1.0]))
def test_exhaustive_search_finds_the_optimum(seed, power):
    step = random_step(seed)
    score, text = brute_force(step, 3, power)
    found = exhaustive_search(step, empty(), begin=BEGIN, end=END, max_len=3, length_power=power)[0]
    assert found.tokens == text and math.isclose(found.score(power), score, abs_tol=1e-9)


# after "a" nothing is decided, after "b" everything is; tokens: begin 0, end 1, a 2, b 3
HIDDEN_BY_GREED = {
    (): [0, 0, 0.55, 0.45],
    (2,): [0, 0.36, 0.32, 0.32],
    (3,): [0, 0.98, 0.01, 0.01],
} | {pair: [0, 1, 0, 0] for pair in itertools.product((2, 3), repeat=2)}


def test_beam_of_two_beats_greedy():
    common = {"begin": 0, "end": 1, "max_len": 3}
    best = exhaustive_search(table(HIDDEN_BY_GREED), None, **common)[0]
    assert best.tokens == (3, 1) and math.isclose(math.exp(best.log_prob), 0.45 * 0.98, rel_tol=1e-6)
    (greedy,) = beam_search(table(HIDDEN_BY_GREED), None, width=1, **common)
    assert greedy.tokens == (2, 1) and greedy.log_prob < best.log_prob
    assert beam_search(table(HIDDEN_BY_GREED), None, width=2, **common)[0] == best


def test_length_power_favours_long_texts():
    rows = {(): [0, 0.4, 0.6, 0], (2,): [0, 0.1, 0.6, 0.3], (2, 2): [0, 1, 0, 0], (2, 3): [0, 1, 0, 0]}
    common = {"begin": 0, "end": 1, "max_len": 3, "width": 4}
    assert beam_search(table(rows), None, **common)[0].tokens == (1,)
    found = beam_search(table(rows), None, length_power=1.0, **common)
    assert found[0].tokens == (2, 2, 1)
    assert math.isclose(found[0].score(1.0), math.log(0.36) / 3, rel_tol=1e-6)


def test_impossible_tokens_are_excluded():
    step = table({(): [0, 0, 1, 0], (2,): [0, 1, 0, 0]})
    assert beam_search(step, None, begin=0, end=1, max_len=4, width=5) == [Hypothesis((2, 1), 0.0, True)]


@pytest.mark.parametrize("kind", [Seq2Seq, BahdanauSeq2Seq])
@torch.no_grad()
def test_beam_of_one_matches_generate(kind):
    torch.manual_seed(2)
    model = kind(8, 8, 5, 12)
    torch.nn.init.normal_(model.readout.weight, std=3)

    def step(tokens, state):
        logits, state = model.step(tokens, state)
        return torch.log_softmax(logits, -1), state

    source = torch.randint(3, 8, (20, 4))
    for row, text in zip(source, model.generate(source, 9).tolist(), strict=True):
        (found,) = beam_search(step, model.start(row[None]), begin=1, end=2, max_len=9, width=1)
        assert [*found.tokens, *[0] * (9 - len(found.tokens))] == text
        assert found.finished == (2 in text)
        wide = beam_search(step, model.start(row[None]), begin=1, end=2, max_len=9, width=6)
        for y in wide:  # the states of the beam follow their parents: the sum is that of teacher forcing
            target = torch.tensor([y.tokens])
            log_probs = model(row[None], target).log_softmax(-1).gather(-1, target[..., None])
            assert math.isclose(y.log_prob, float(log_probs.sum()), abs_tol=1e-4)
