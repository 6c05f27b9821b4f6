"""Checks of chapter 03: right answers written anew get a tick, each planted mistake its own line, a stub neither."""

import math

import pytest
import torch

from .helpers import assert_right, load

check = load("03_self_and_multi_head")


def attention_by_loops(X, W_q, W_k, W_v):
    Q, K, V = (torch.einsum("nd,de->ne", X, W) for W in (W_q, W_k, W_v))
    rows = []
    for q in Q:
        e = torch.stack([torch.exp((q * k).sum() / W_q.shape[1] ** 0.5) for k in K])
        rows.append(sum(w * v for w, v in zip(e / e.sum(), V, strict=True)))
    return torch.stack(rows)


def split_by_chunks(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def grouped_by_loops(Q, K, V):
    share = len(Q) // len(K)
    return torch.stack(
        [torch.softmax(q @ K[i // share].T / math.sqrt(q.shape[-1]), -1) @ V[i // share] for i, q in enumerate(Q)]
    )


def read_by_lists(words, mask, word_query, sentence_query):
    root = math.sqrt(words.shape[-1])
    sentences = []
    for sentence, is_word in zip(words, mask, strict=True):
        if is_word.any():
            real = sentence[is_word]
            sentences.append(torch.softmax(real @ word_query / root, 0) @ real)
    s = torch.stack(sentences)
    return torch.softmax(s @ sentence_query / root, 0) @ s


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (check.self_attention, attention_by_loops),
        (check.split_heads, split_by_chunks),
        (check.grouped_attention, grouped_by_loops),
        (check.read_document, read_by_lists),
        (check.my_order, "2 3 1 0"),
    ],
)
def test_a_right_answer_gets_a_tick(exercise, answer):
    assert_right(exercise, answer)


def stub(*arguments):
    """What is wanted."""
    ...  # noqa: PIE790  (as in the notebook)


def the_colleague(X, W_q, W_k, W_v):
    """The function of exercise 3.1 as it stands there, with both bugs."""
    Q, K = X @ W_q, X @ W_k
    scores = Q @ K.T / math.sqrt(X.shape[-1])
    return torch.softmax(scores, dim=-1) @ K


def only_one_bug_found(X, W_q, W_k, W_v):
    return torch.softmax((X @ W_q) @ (X @ W_k).T / math.sqrt(len(X[0])), dim=-1) @ (X @ W_v)


def only_the_other_bug_found(X, W_q, W_k, W_v):
    K = X @ W_k
    return torch.softmax((X @ W_q) @ K.T / math.sqrt(len(K[0])), dim=-1) @ K


def columns_sum_to_one(X, W_q, W_k, W_v):
    return torch.softmax((X @ W_q) @ (X @ W_k).T / math.sqrt(W_k.shape[1]), dim=0) @ (X @ W_v)


def cut_off_from_the_graph(X, W_q, W_k, W_v):
    return attention_by_loops(X, W_q, W_k.detach(), W_v)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (the_colleague, "hands over the keys"),
        (only_one_bug_found, "scaled by the size of a token"),
        (only_the_other_bug_found, "hands over the keys"),
        (columns_sum_to_one, "over those who ask"),
        (lambda X, W_q, W_k, W_v: attention_by_loops(X, W_k, W_k, W_v), "queries and keys are one projection"),
        (lambda X, W_q, W_k, W_v: attention_by_loops(X, W_q, W_k, torch.eye(len(X[0]))), "hands over the tokens"),
        (lambda X, W_q, W_k, W_v: attention_by_loops(X, W_q * W_q.shape[1] ** 0.5, W_k, W_v), "are not scaled"),
        (lambda X, W_q, W_k, W_v: attention_by_loops(X, W_q / W_q.shape[1] ** 0.5, W_k, W_v), "by d, not by its"),
        (
            lambda X, W_q, W_k, W_v: attention_by_loops(X, W_q * (W_q.shape[1] / W_v.shape[1]) ** 0.5, W_k, W_v),
            "by the size of a value",
        ),
        (cut_off_from_the_graph, "on the gradient with respect to X and the three matrices"),
    ],
)
def test_wrong_self_attention(answer, told):
    verdict = check.self_attention.examine(answer)
    assert verdict.status == "wrong" and told in verdict.message


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda x, h: x.reshape(x.shape[0], h, x.shape[1], x.shape[2] // h), "in one step"),
        (lambda x, h: x.reshape(*x.shape[:2], h, x.shape[2] // h), "the axes are (B, N, H, d)"),
        (lambda x, h: torch.stack([x[..., i::h] for i in range(h)], 1), "dealt out like cards"),
        (
            lambda x, h: split_by_chunks(x, h).transpose(2, 3).reshape(x.shape[0], h, x.shape[1], -1),
            "tokens and features have changed places",
        ),
        (lambda x, h: split_by_chunks(x, h).detach(), "on the gradient"),
        (lambda x, h: split_by_chunks(x, h)[0], "the shape is"),
    ],
)
def test_wrong_split_heads(answer, told):
    verdict = check.split_heads.examine(answer)
    assert verdict.status == "wrong" and told in verdict.message


def groups_of_the_wrong_size(Q, K, V):
    return torch.cat([grouped_by_loops(q[None], K[[i // len(K)]], V[[i // len(K)]]) for i, q in enumerate(Q)])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            lambda Q, K, V: grouped_by_loops(Q, K.repeat(len(Q) // len(K), 1, 1), V.repeat(len(Q) // len(V), 1, 1)),
            "in turn, 0 1 0 1",
        ),
        (
            lambda Q, K, V: grouped_by_loops(
                Q, K.repeat_interleave(len(Q) // len(K), 0), V.repeat(len(Q) // len(V), 1, 1)
            ),
            "in different orders",
        ),
        (lambda Q, K, V: grouped_by_loops(Q / len(Q) ** 0.5, K, V), "size of all heads together"),
        (lambda Q, K, V: grouped_by_loops(Q * Q.shape[-1] ** 0.5, K, V), "are not scaled"),
        (lambda Q, K, V: grouped_by_loops(Q, K[:1], V[:1]), "first group"),
        (lambda Q, K, V: torch.softmax(Q @ K.mT, -1) @ V, "are not scaled"),
        (groups_of_the_wrong_size, "reads group i // G"),
    ],
)
def test_wrong_grouped_attention(answer, told):
    verdict = check.grouped_attention.examine(answer)
    assert verdict.status == "wrong" and told in verdict.message


def masked_after_the_softmax(words, mask, word_query, sentence_query):
    a = torch.softmax(words @ word_query / math.sqrt(words.shape[-1]), -1) * mask
    s = (a[..., None] * words).sum(1)[mask.any(-1)]
    return torch.softmax(s @ sentence_query / math.sqrt(words.shape[-1]), 0) @ s


def nan_for_empty_sentences(words, mask, word_query, sentence_query):
    scores = (words @ word_query / math.sqrt(words.shape[-1])).masked_fill(~mask, -math.inf)
    s = (torch.softmax(scores, -1)[..., None] * words).sum(1)
    return torch.softmax(s @ sentence_query / math.sqrt(words.shape[-1]), 0) @ s


def zeros_are_read(words, mask, word_query, sentence_query):
    scores = (words @ word_query / math.sqrt(words.shape[-1])).masked_fill(~mask, -1e30)
    s = (torch.softmax(scores, -1)[..., None] * words * mask[..., None]).sum(1)
    return torch.softmax(s @ sentence_query / math.sqrt(words.shape[-1]), 0) @ s


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda w, m, q, s: read_by_lists(w[m][None], m[m][None], q, s), "share one softmax"),
        (lambda w, m, q, s: read_by_lists(w, torch.ones_like(m), q, s), "read at both levels"),
        (lambda w, m, q, s: read_by_lists(w[m.any(-1)], torch.ones_like(m[m.any(-1)]), q, s), "softmax over words"),
        (lambda w, m, q, s: read_by_lists(w, m, q, q), "both levels ask with the word query"),
        (lambda w, m, q, s: read_by_lists(w, m, s, q), "queries are swapped"),
        (lambda w, m, q, s: read_by_lists(w, m, q, torch.zeros_like(s)), "all sentences count the same"),
        (lambda w, m, q, s: read_by_lists(w, m, q * w.shape[-1] ** 0.5, s * w.shape[-1] ** 0.5), "are not scaled"),
        (lambda w, m, q, s: read_by_lists(w, m & m.all(-1, keepdim=True), q, s), "a sentence with padding in it"),
        (zeros_are_read, "a sentence without words is read"),
        (nan_for_empty_sentences, "on a sentence without words: 3 of 3 numbers are NaN"),
        (masked_after_the_softmax, "on a short sentence, padded"),
    ],
)
def test_wrong_read_document(answer, told):
    verdict = check.read_document.examine(answer)
    assert verdict.status == "wrong" and told in verdict.message


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("0 1 2 3", "nothing would have moved"),
        ("3 2 0 1", "the way back"),
        ("0 1 3 2", "read from its end"),
        ("3 3 3 3", "is not it"),
        ("y2 y3 y1 y0", "the numbers alone"),
        (2310, "a word is wanted"),
    ],
)
def test_wrong_my_order(answer, told):
    verdict = check.my_order.examine(answer)
    assert verdict.status == "wrong" and told in verdict.message
