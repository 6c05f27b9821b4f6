"""Chapter 03: right and wrong answers in other styles than the references and the traps."""

import math

import pytest
import torch

from possm_lite.blocks.attention import attend
from possm_lite.blocks.heads import multi_head_attention, share_heads, split_heads
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


def function_of_the_exercise(X, W_q, W_k, W_v):
    """With both of its bugs."""
    Q, K, V = X @ W_q, X @ W_k, X @ W_v
    scores = K @ Q.T / math.sqrt(X.shape[-1])
    return torch.softmax(scores, dim=-1) @ V


def attention_without_shift(X, W_q, W_k, W_v, causal=False):
    e = (X @ W_q @ (X @ W_k).T / W_q.shape[1] ** 0.5).exp()
    e = e.tril() if causal else e
    return e / e.sum(-1, keepdim=True) @ (X @ W_v)


def attention_of_one_shift(X, W_q, W_k, W_v):
    scores = X @ W_q @ (X @ W_k).T / W_q.shape[1] ** 0.5
    e = torch.exp(scores - scores.amax())
    return (e @ (X @ W_v)) / e.sum(1)[:, None]


def read_where_not_zero(words, mask, word_query, sentence_query, exists=lambda s, mask: (s != 0).any(1)):
    root = math.sqrt(words.shape[-1])
    sentences, _ = attend((words @ word_query / root)[:, None], words, mask[:, None])
    sentences = sentences[:, 0]
    return attend((sentences @ sentence_query / root)[None], sentences, exists(sentences, mask)[None])[0][0]


def heads_by_loop(X, exists, W_q, W_k, W_v, W_o, n_heads, causal=True, padding=True, scale=1):
    """Each sequence without its padding, each head and each token by itself."""
    d, Y = W_q.shape[1] // n_heads, torch.zeros_like(X)
    sharing = n_heads * d // W_k.shape[1]
    for b in range(len(X)):
        real = (exists[b] if padding else exists[b] | True).nonzero()[:, 0]
        for n in real[exists[b][real]]:
            read = real[real <= n] if causal else real
            heads = []
            for i in range(n_heads):
                own, shared = slice(i * d, (i + 1) * d), slice(i // sharing * d, (i // sharing + 1) * d)
                scores = X[b, read] @ W_k[:, shared] @ (X[b, n] @ W_q[:, own]) / d**0.5 * scale
                heads.append(torch.softmax(scores, 0) @ (X[b, read] @ W_v[:, shared]))
            Y[b, n] = torch.cat(heads) @ W_o
    return Y


def heads_by_torch(X, exists, W_q, W_k, W_v, W_o, n_heads, clear=lambda y, real: y.masked_fill(~real, 0.0)):
    mask = torch.ones(X.shape[1], X.shape[1]).tril().bool() & exists[:, None, :]
    mask = mask | torch.eye(X.shape[1]).bool()  # a padded token reads itself, so that no row is empty
    n_kv_heads = n_heads * W_k.shape[1] // W_q.shape[1]
    y, _ = multi_head_attention(X @ W_q, X @ W_k, X @ W_v, n_heads, n_kv_heads, mask)
    return clear(y @ W_o, exists[..., None])


def heads_of_empty_softmax(X, exists, W_q, W_k, W_v, W_o, n_heads):
    """A plain softmax over -inf, and NaN replaced afterwards."""
    d, order = W_q.shape[1] // n_heads, torch.ones(X.shape[1], X.shape[1]).tril().bool()
    q, k, v = (split_heads(X @ W, W.shape[1] // d) for W in (W_q, W_k, W_v))
    k, v = share_heads(k, n_heads), share_heads(v, n_heads)
    scores = (q @ k.mT / d**0.5).masked_fill(~(order & exists[:, None, None]), -math.inf)
    y = torch.softmax(scores, -1) @ v
    return (y.transpose(1, 2).flatten(2) @ W_o).nan_to_num() * exists[..., None]


def heads_hidden_after_exp(X, exists, W_q, W_k, W_v, W_o, n_heads):
    """exp of scores that are masked only afterwards, by a where; padded tokens compute on zeros."""
    X, d = X * exists[..., None], W_q.shape[1] // n_heads
    q, k, v = (split_heads(X @ W, W.shape[1] // d) for W in (W_q, W_k, W_v))
    scores, v = q @ share_heads(k, n_heads).mT / d**0.5, share_heads(v, n_heads)
    mask = torch.ones(X.shape[1], X.shape[1]).tril().bool() & exists[:, None, None]
    largest = torch.where(mask, scores, -1e30).amax(-1, keepdim=True)
    e = torch.where(mask, (scores - torch.where(largest < -1e29, 0.0, largest)).exp(), 0.0)
    y = e / e.sum(-1, keepdim=True).clamp(min=1e-20) @ v
    return y.transpose(1, 2).flatten(2) @ W_o * exists[..., None]


def uncleared_where_something_is_read(X, exists, *args):
    """A padded token after the real ones reads them; only a row that can read nothing is zero."""
    return heads_by_torch(X, exists, *args, clear=lambda y, real: y * (exists.cumsum(1) > 0)[..., None])


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("self_attention", attention_by_loops, "✓"),
        ("self_attention", attention_by_logsumexp, "✓"),
        ("self_attention", function_of_the_exercise, "both of its bugs"),
        ("self_attention", lambda X, W, U, V: attention_by_loops(X, W, U, torch.eye(len(X[0]))), "over the tokens"),
        ("self_attention", lambda X, W, U, V: attention_by_loops(X, W / W.shape[1] ** 0.5, U, V), "by d, not by its"),
        ("self_attention", lambda X, W, U, V: attention_by_loops(X, W, U.detach(), V), "on the gradient with respect"),
        ("self_attention", lambda X, W, U, V: attention_by_loops(X, W, U, U), "hands over the keys"),
        ("self_attention", lambda X, W, U, V: attention_by_loops(X, U, W, V), "changed places in the score"),
        ("self_attention", attention_of_one_shift, "largest score of the whole table"),
        ("self_attention", attention_without_shift, "exp of a large score is infinite"),
        ("self_attention", lambda *a: attention_without_shift(*a, causal=True), "itself and those before it"),
        ("split_heads", split_by_chunks, "✓"),
        ("split_heads", lambda x, H: split_by_chunks(x, H)[:, list(range(H))[::-1]], "reverse order"),
        ("split_heads", split_heads, "✓"),
        ("split_heads", lambda x, H: torch.stack([x[..., i::H] for i in range(H)], 1), "dealt out like cards"),
        ("split_heads", lambda x, H: split_by_chunks(x, H).detach(), "on the gradient"),
        ("grouped_attention", grouped_by_loop, "✓"),
        ("grouped_attention", lambda Q, K, V: grouped_by_loop(Q, *[x[[0] * len(x)] for x in (K, V)]), "first group"),
        ("grouped_attention", lambda Q, K, V: torch.softmax(Q @ K.mT, -1) @ V, "on as many key heads"),
        ("grouped_attention", lambda Q, K, V: grouped_by_loop(Q, K, V).mean(0), "averaged into one"),
        ("grouped_attention", lambda Q, K, V: grouped_by_loop(Q * Q.shape[-1] ** -0.5, K, V), "by d, not by its"),
        ("grouped_attention", lambda Q, K, V: torch.cat(list(grouped_by_loop(Q, K, V)), -1), "merged already"),
        ("grouped_attention", lambda Q, K, V: torch.stack(list(grouped_by_loop(Q, K, V)), 1), "Heads come first"),
        ("grouped_attention", lambda Q, K, V: grouped_by_loop(Q, K.flip(0), V.flip(0)), "reverse order"),
        ("my_ratio", 100**2 / 4, "✓"),
        ("my_ratio", 10_000, "four of them"),
        ("my_ratio", 25.0, "one token of its output"),
        ("read_document", read_where_not_zero, "ask the mask, not the numbers"),
        (
            "read_document",
            lambda *a: read_where_not_zero(*a, exists=lambda s, mask: mask[:, 0]),
            "first slot is padding",
        ),
        ("read_document", lambda *a: read_where_not_zero(*a, exists=lambda s, mask: mask.any(1)), "✓"),
        (
            "read_document",
            lambda w, m, q, s: read_where_not_zero(w / m[..., None] * m[..., None], m, q, s),
            "numbers are NaN",
        ),
        ("read_document", read_by_loop, "✓"),
        ("read_document", lambda words, mask, q_w, q_s: hierarchical_attend(words, q_w, q_s, mask)[0], "✓"),
        ("read_document", lambda w, m, q, s: read_by_loop(w[m][None], m[m][None], q, s), "share one softmax"),
        (
            "read_document",
            lambda w, m, q, s: read_by_loop(w[m.any(-1)], m[m.any(-1)] | True, q, s),
            "softmax over words",
        ),
        ("read_document", lambda w, m, q, s: read_by_loop(w, m & m.all(-1, keepdim=True), q, s), "on a short sentence"),
        ("my_order", [3, 2, 0, 1], "✓"),
        ("my_order", [2, 3, 1, 0], "the way back"),
        ("my_order", "3 3 3 3", "is not right"),
        ("matching_keys", lambda W_k, C: torch.linalg.solve(C, W_k.T).T, "✓"),
        ("matching_keys", lambda W_k, C: (W_k.double() @ C.double().inverse().T).float(), "✓"),
        ("matching_keys", lambda W_k, C: torch.linalg.solve(C.T, W_k.T).T, "its transpose is not"),
        ("matching_keys", lambda W_k, C: W_k @ C, "change the score twice"),
        ("masked_heads", heads_by_loop, "✓"),
        ("masked_heads", heads_by_torch, "✓"),
        ("masked_heads", heads_of_empty_softmax, "a gradient is NaN"),
        ("masked_heads", heads_hidden_after_exp, "zeros in its place are too late"),
        ("masked_heads", lambda *a: heads_by_loop(*a, causal=False), "mask of order is missing"),
        ("masked_heads", lambda *a: heads_by_loop(*a, padding=False), "padding is read"),
        ("masked_heads", lambda *a: heads_by_torch(*a[:5], torch.eye(len(a[5])), a[6]), "W_o is missing"),
        ("masked_heads", lambda *a: heads_by_torch(*a, clear=lambda y, real: y), "on the rows of padded tokens"),
        ("masked_heads", uncleared_where_something_is_read, "on the rows of padded tokens at the end"),
        ("masked_heads", lambda *a: heads_by_loop(*a).detach(), "no gradient"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
