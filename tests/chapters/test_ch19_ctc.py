"""CTC, the beam, errors of texts, the writer and the reader of chapter 19."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from possm_course.chapters.ch07.decoding import collapse
from possm_course.chapters.ch19 import ctc, writer
from possm_course.stored import result

from ..exercises.helpers import load


def probabilities(n_bins, n_letters, seed=0):
    """Log-probabilities of the blank and the first letters in each bin; other letters never occur. (T, 13)."""
    logits = torch.randn(n_bins, 13, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    logits[:, n_letters + 1 :] = -torch.inf
    return (2 * logits).log_softmax(-1)


def texts_by_listing(log_p, n_letters):
    """Text -> its probability: all paths of the first letters, listed."""
    found = {}
    for path in product(range(n_letters + 1), repeat=len(log_p)):
        text = collapse(writer.SIGNS[s] for s in path)
        found[text] = found.get(text, 0.0) + math.prod(log_p[t, s].exp().item() for t, s in enumerate(path))
    return found


@pytest.mark.parametrize("word", ["a", "ad", "dd", "dad", "add"])
def test_likelihood_is_that_of_torch_and_of_all_paths_listed(word):
    log_p = probabilities(5, 3)
    ours = ctc.log_likelihood(log_p, writer.tokens(word))
    target = torch.tensor([writer.tokens(word)])
    torch_says = -F.ctc_loss(log_p[:, None], target, (5,), (len(word),), reduction="sum")
    assert_close(ours, torch_says)
    assert math.isclose(ours.exp().item(), texts_by_listing(log_p, 3)[word], rel_tol=1e-9)


def test_gradient_of_the_likelihood_is_that_of_torch():
    log_p = probabilities(6, 12).requires_grad_()
    (ours,) = torch.autograd.grad(ctc.log_likelihood(log_p, writer.tokens("all")), log_p)
    # torch's gradient by log_p is that by the logits: subtract the softmax, which ours does not know of
    logits = log_p.detach().clone().requires_grad_()
    loss = F.ctc_loss(
        logits.log_softmax(-1)[:, None], torch.tensor([writer.tokens("all")]), (6,), (3,), reduction="sum"
    )
    loss.backward()
    assert_close(-(ours - log_p.detach().exp() * ours.sum(-1, keepdim=True)), logits.grad)


def test_a_double_letter_needs_a_bin_for_the_blank():
    log_p = probabilities(3, 3)
    assert ctc.log_likelihood(log_p[:2], writer.tokens("dd")).exp() == 0
    only_path = log_p[0, 2] + log_p[1, 0] + log_p[2, 2]  # d-d
    assert_close(ctc.log_likelihood(log_p, writer.tokens("dd")), only_path)


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_likeliest_text(seed):
    log_p = probabilities(5, 2, seed)
    every = texts_by_listing(log_p, 2)
    text, log_probability = ctc.beam_search(log_p, k=1000)
    assert text == max(every, key=every.get)
    assert math.isclose(log_probability, math.log(every[text]), rel_tol=1e-9)


def test_a_beam_with_a_table_says_words_of_it():
    log_p = probabilities(6, 3)
    table = ["a", "dad", "add"]
    by_likelihood = max(table, key=lambda word: ctc.log_likelihood(log_p, writer.tokens(word)))
    assert ctc.beam_search(log_p, 1000, table)[0] == by_likelihood
    weight = {"a": 1e-9, "dad": 1.0, "add": 1e-9}
    assert ctc.beam_search(log_p, 1000, table, weight)[0] == "dad"


def test_greedy_may_miss_the_likeliest_text():
    log_p = torch.tensor([[0.6, 0.4] + 11 * [0.0]]).log().expand(2, -1)
    assert ctc.greedy(log_p) == "" and ctc.beam_search(log_p)[0] == "a"


def test_begun_is_the_sum_over_texts_that_begin_the_word():
    log_p, words = probabilities(5, 3), ["dad", "add", "a"]
    begun = ctc.begun_by_bin(log_p, [writer.tokens(word) for word in words])
    for n in range(1, 6):
        every = texts_by_listing(log_p[:n], 3)
        listed = [sum(p for text, p in every.items() if word.startswith(text)) for word in words]
        np.testing.assert_allclose(begun[n - 1].exp(), listed, rtol=1e-9)


def test_bin_by_bin_is_all_bins_at_once():
    """The writer of exercise 19.6 against the functions that read all bins."""
    log_p, words = probabilities(8, 12).float(), [writer.tokens(word) for word in ("all", "her", "tea")]
    stream = load("ch19").Writer.reference(words)
    begun = ctc.begun_by_bin(log_p, words)
    for n, row in enumerate(log_p, start=1):
        text = "".join(writer.SIGNS[sign] for sign in stream.step(row))
        assert text == ctc.greedy(log_p[:n])
        assert_close(stream.begun(), begun[n - 1])
        whole = torch.stack([ctc.log_likelihood(log_p[:n], word) for word in words])
        assert_close(stream.whole().exp(), whole.exp())


def test_letter_error_rate_counts_letters_of_all_texts_together():
    assert ctc.letter_errors("tre", "tree") == 1
    assert ctc.letter_error_rate(["tre", "hand", "x"], ["tree", "hand", "it"]) == 3 / 10


def test_pen_starts_each_letter_in_the_middle_and_passes_its_corners():
    reaches, ends = writer.plan_strokes(np.random.default_rng(0), ["tree", "u"])
    assert len(set(writer.CORNERS.values())) == len(writer.LETTERS)
    corners = [corner for letter in "tree" for corner in (*writer.CORNERS[letter], (0, 0))]
    first = reaches.trial == 0
    np.testing.assert_allclose(reaches.target_mm[first], writer.SIZE_MM * np.array(corners))
    np.testing.assert_allclose(reaches.origin_mm[first][1:], reaches.target_mm[first][:-1])
    assert (np.diff(np.column_stack([reaches.start_s, reaches.stop_s]).ravel()) >= 0).all()
    assert [len(row) for row in ends] == [4, 1]


@torch.no_grad()
def test_a_word_is_read_alike_alone_in_a_batch_and_bin_by_bin():
    torch.manual_seed(0)
    model, writing = ctc.LetterReader(hidden=16), writer.write(["tea", "noon", "a"], 3)
    together = ctc.log_probabilities(model, writing)
    for row, log_p in enumerate(together):
        alone = model(writing.batch([row]))[0]
        assert_close(alone, log_p)
        x, state = model.possm.encode(writing.batch([row])), None
        for t in range(x.shape[1]):
            hidden, state = model.possm.backbone(x[:, t : t + 1], state)
            assert_close(model.signs(hidden).log_softmax(-1)[0, 0], log_p[t], atol=1e-5, rtol=1e-4)


def test_stored_reader_is_far_from_shuffled_texts():
    letters = np.load(result("ch19_letters.npz"))
    words = np.random.default_rng(190).permutation(writer.WORDS).tolist()
    log_p = np.split(letters["log_p"].astype(np.float32), letters["n_bins"].cumsum()[:-1])
    said = [ctc.greedy(torch.tensor(rows)) for rows in log_p]
    shuffled = np.random.default_rng(0).permutation(words).tolist()
    assert ctc.letter_error_rate(said, words) < 0.5 * ctc.letter_error_rate(said, shuffled)
