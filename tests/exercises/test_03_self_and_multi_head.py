"""Chapter 03: right answers in other styles, and wrong ones that no known mistake explains."""

import math

import pytest
import torch

from possm_lite.blocks.heads import multi_head_attention, split_heads
from possm_lite.blocks.hierarchy import hierarchical_attend

from .helpers import assert_verdict, load

exercises = load("03_self_and_multi_head")


def attention_by_loops(X, W_q, W_k, W_v):
    Q, K, V = (torch.einsum("nd,de->ne", X, W) for W in (W_q, W_k, W_v))
    scores = [torch.stack([(q * k).sum() / W_q.shape[1] ** 0.5 for k in K]) for q in Q]
    rows = [(row - row.max()).exp() for row in scores]
    return torch.stack([sum(e * v for e, v in zip(row, V, strict=True)) / row.sum() for row in rows])


def attention_by_logsumexp(X, W_q, W_k, W_v):
    """Its gradients are less exact than those of a softmax."""
    scores = X @ W_q @ (X @ W_k).T / W_q.shape[1] ** 0.5
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() @ (X @ W_v)


def split_by_chunks(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def grouped_by_loop(Q, K, V):
    n = len(Q) // len(K)
    heads = [torch.softmax(q @ K[i // n].T / math.sqrt(q.shape[-1]), -1) @ V[i // n] for i, q in enumerate(Q)]
    return torch.stack(heads)


def read_by_loop(words, mask, word_query, sentence_query):
    root, real = math.sqrt(words.shape[-1]), [x[m] for x, m in zip(words, mask, strict=True) if m.any()]
    sentences = torch.stack([torch.softmax(x @ word_query / root, 0) @ x for x in real])
    return torch.softmax(sentences @ sentence_query / root, 0) @ sentences


def heads_by_loop(X, exists, W_q, W_k, W_v, W_o, n_heads, causal=True):
    """Each sequence without its padding, each head and each token by itself."""
    d = W_q.shape[1] // n_heads
    sharing = n_heads * d // W_k.shape[1]
    Y = torch.zeros_like(X)
    for b in range(len(X)):
        real = exists[b].nonzero()[:, 0]
        for n in real:
            read = real[real <= n] if causal else real
            heads = []
            for i in range(n_heads):
                own, shared = slice(i * d, (i + 1) * d), slice(i // sharing * d, (i // sharing + 1) * d)
                scores = X[b, read] @ W_k[:, shared] @ (X[b, n] @ W_q[:, own]) / d**0.5
                heads.append(torch.softmax(scores, 0) @ (X[b, read] @ W_v[:, shared]))
            Y[b, n] = torch.cat(heads) @ W_o
    return Y


def heads_by_package(X, exists, W_q, W_k, W_v, W_o, n_heads, cleared=True):
    mask = torch.ones(X.shape[1], X.shape[1]).tril().bool() & exists[:, None, :]
    mask = mask | torch.eye(X.shape[1]).bool()  # a padded token reads itself, so that no row is empty
    n_kv_heads = n_heads * W_k.shape[1] // W_q.shape[1]
    y, _ = multi_head_attention(X @ W_q, X @ W_k, X @ W_v, n_heads, n_kv_heads, mask)
    return (y @ W_o).masked_fill(~exists[..., None] & cleared, 0.0)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("self_attention", attention_by_loops, "✓"),
        ("self_attention", attention_by_logsumexp, "✓"),
        ("self_attention", lambda X, W, U, V: attention_by_loops(X, W, U.detach(), V), "on the gradient with respect"),
        ("split_heads", split_by_chunks, "✓"),
        ("split_heads", split_heads, "✓"),
        ("split_heads", lambda x, H: split_by_chunks(x, H).detach(), "on the gradient"),
        ("grouped_attention", grouped_by_loop, "✓"),
        ("grouped_attention", lambda Q, K, V: grouped_by_loop(Q, K.flip(0), V.flip(0)), "on as many key heads"),
        ("my_ratio", 100**2 / 4, "✓"),
        ("read_document", read_by_loop, "✓"),
        ("read_document", lambda words, mask, q_w, q_s: hierarchical_attend(words, q_w, q_s, mask)[0], "✓"),
        ("read_document", lambda w, m, q, s: read_by_loop(w, m & m.all(-1, keepdim=True), q, s), "on a short sentence"),
        ("my_order", [3, 2, 0, 1], "✓"),
        ("masked_heads", heads_by_loop, "✓"),
        ("masked_heads", heads_by_package, "✓"),
        ("masked_heads", lambda *a: heads_by_loop(*a, causal=False), "mask of order is missing"),
        ("masked_heads", lambda *a: heads_by_package(*a, cleared=False), "the rows of padded tokens: "),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
