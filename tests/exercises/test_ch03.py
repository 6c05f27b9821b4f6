"""Chapter 03: right answers in other styles."""

import math

import torch
from torch import nn

from possm_course.chapters.ch03.hierarchy import hierarchical_attend
from possm_lite.nn.heads import merge_heads, multi_head_attention, split_heads

from .helpers import answers, load

exercises = load("ch03")


def attention_by_logsumexp(X, W_q, W_k, W_v):
    """Its gradients are less exact than those of a softmax."""
    scores = X @ W_q @ (X @ W_k).T / W_q.shape[1] ** 0.5
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() @ (X @ W_v)


def grouped_by_loop(Q, K, V):
    n = len(Q) // len(K)
    heads = [torch.softmax(q @ K[i // n].T / math.sqrt(q.shape[-1]), -1) @ V[i // n] for i, q in enumerate(Q)]
    return torch.stack(heads)


def heads_by_package(X, exists, W_q, W_k, W_v, W_o, n_heads, cleared=True):
    mask = torch.ones(X.shape[1], X.shape[1]).tril().bool() & exists[:, None, :]
    mask = mask | torch.eye(X.shape[1]).bool()  # a padded token reads itself, so that no row is empty
    y, _ = multi_head_attention(X @ W_q, X @ W_k, X @ W_v, n_heads, mask=mask)
    return (y @ W_o).masked_fill(~exists[..., None] & cleared, 0.0)


def heads_by(weigh):
    """Several heads with a mask, with another softmax under it: weigh(scores, mask)."""

    def masked_heads(X, exists, W_q, W_k, W_v, W_o, n_heads):
        d = W_q.shape[1] // n_heads
        q, k, v = (split_heads(X @ W, n_heads) for W in (W_q, W_k, W_v))
        mask = torch.ones(X.shape[1], X.shape[1]).tril().bool() & exists[:, None, None]  # (B, 1, N, N)
        return merge_heads(weigh(q @ k.mT / d**0.5, mask) @ v) @ W_o * exists[..., None]

    return masked_heads


def fill_then_repair(scores, mask):
    """As in chapter 02: the gradient is clean, since what was filled passes none on."""
    return scores.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num(0.0)


def add_then_repair(scores, mask):
    return (scores + mask.float().log()).softmax(-1).nan_to_num(0.0)


def mask_after_softmax(scores, mask):
    return scores.softmax(-1) * mask


def block_by_modules(X, att, mlp):
    for part in (att, mlp):
        X = X + part(nn.LayerNorm(X.shape[1])(X))
    return X


test_answers = answers(
    exercises,
    ("self_attention", attention_by_logsumexp),
    ("split_heads", split_heads),
    ("grouped_attention", grouped_by_loop),
    ("my_ratio", 100**2 / 4),
    ("read_document", lambda words, mask, q_w, q_s: hierarchical_attend(words, q_w, q_s, mask)[0]),
    ("my_order", [2, 3, 1, 0]),
    ("my_order", "3201", "way back"),
    ("transformer_block", block_by_modules),
    ("masked_heads", heads_by_package),
    ("masked_heads", heads_by(fill_then_repair)),
    ("masked_heads", heads_by(add_then_repair), "the gradient with padding", "got nan"),
    ("masked_heads", heads_by(mask_after_softmax), "three tokens, one head"),
)
