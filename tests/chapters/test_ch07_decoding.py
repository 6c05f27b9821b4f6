"""Searches, samples, wrong words and CTC, beside chapter 07."""

import math
from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from possm_course.chapters.ch07 import decoding, task
from possm_course.chapters.ch07.search import beam_search
from possm_course.chapters.ch07.seq2seq import BEGIN, END, PAD, BahdanauSeq2Seq

from ..exercises.helpers import load


@pytest.mark.parametrize(("width", "power"), [(1, 0.0), (4, 0.0), (4, 1.0)])
@torch.no_grad()
def test_search_is_a_beam_for_each_row(width, power):
    torch.manual_seed(2)
    model = BahdanauSeq2Seq(task.N_DIGITS, task.N_WORDS)
    model.readout.weight *= 8  # decided answers, of different lengths
    model.readout.bias[PAD] = -50  # as after training: padding is never said

    def step(tokens, state):
        logits, state = model.step(tokens, state)
        return torch.log_softmax(logits, -1), state

    x = task.X_TEST[:20]
    for row, text, log_p in zip(x, *decoding.search(model, x, width, power), strict=True):
        found = {"begin": BEGIN, "end": END, "max_len": 12, "width": width, "length_power": power}
        best = beam_search(step, model.start(row[None, row != PAD]), **found)[0]
        assert tuple(text[: len(best.tokens)].tolist()) == best.tokens
        assert math.isclose(best.log_prob, log_p, abs_tol=1e-3)


@torch.no_grad()
def test_samples_are_greedy_when_cold_and_their_probability_is_that_of_the_model():
    torch.manual_seed(2)
    model, x = BahdanauSeq2Seq(task.N_DIGITS, task.N_WORDS), task.X_TEST[:20]
    model.readout.bias[PAD] = -50
    assert torch.equal(decoding.sample(model, x, temperature=1e-6)[0], decoding.search(model, x)[0])
    texts, log_p = decoding.sample(model, x)
    each = model(x, texts).log_softmax(-1).gather(-1, texts[..., None])[..., 0]
    assert_close(log_p, each.masked_fill(texts == PAD, 0.0).sum(1), atol=1e-3, rtol=1e-4)


def test_word_errors_are_those_of_the_exercise():
    """For every pair of texts of up to three letters."""
    texts = [text for n in range(4) for text in product("ab", repeat=n)]
    for a, b in product(texts, texts):
        assert decoding.word_errors(a, b) == load("ch07").word_errors.reference(a, b)


@pytest.mark.parametrize("wanted", ["A", "JA", "AA", "JAJ"])
def test_ctc_is_the_sum_over_all_alignments(wanted):
    """`collapse` and (7.8) against torch's `ctc_loss`; "AA" needs a blank between its letters."""
    p = torch.rand(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    p = p / p.sum(-1, keepdim=True)
    paths = [path for path in product(range(3), repeat=5) if decoding.collapse("-JA"[s] for s in path) == wanted]
    total = sum(math.prod(p[t, s].item() for t, s in enumerate(path)) for path in paths)
    target = torch.tensor([["-JA".index(sign) for sign in wanted]])
    lengths = torch.tensor([5]), torch.tensor([len(wanted)])
    assert math.isclose(total, math.exp(-nn.functional.ctc_loss(p.log()[:, None], target, *lengths, reduction="sum")))
