"""Chapter 03: right answers in other styles."""

import math

import torch

from possm_lite.course.hierarchy import hierarchical_attend
from possm_lite.nn.heads import multi_head_attention, split_heads

from .helpers import answers, load

exercises = load("03_self_and_multi_head")


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


def heads_by_package(X, exists, W_q, W_k, W_v, W_o, n_heads, cleared=True):
    mask = torch.ones(X.shape[1], X.shape[1]).tril().bool() & exists[:, None, :]
    mask = mask | torch.eye(X.shape[1]).bool()  # a padded token reads itself, so that no row is empty
    n_kv_heads = n_heads * W_k.shape[1] // W_q.shape[1]
    y, _ = multi_head_attention(X @ W_q, X @ W_k, X @ W_v, n_heads, n_kv_heads, mask)
    return (y @ W_o).masked_fill(~exists[..., None] & cleared, 0.0)


test_answers = answers(
    exercises,
    [
        ("self_attention", attention_by_logsumexp),
        ("split_heads", split_by_chunks),
        ("split_heads", split_heads),
        ("grouped_attention", grouped_by_loop),
        ("my_ratio", 100**2 / 4),
        ("read_document", lambda words, mask, q_w, q_s: hierarchical_attend(words, q_w, q_s, mask)[0]),
        ("my_order", [3, 2, 0, 1]),
        ("masked_heads", heads_by_package),
    ],
)
