"""Scores against explicit loops and torch's attention; additive and bilinear ones for sizes that differ."""

import itertools
import math

import pytest
import torch
from possm_lite.blocks.scores import additive_score, bilinear_score, dot_score
from torch.nn import functional as F
from torch.testing import assert_close

from possm_lite.blocks.attention import attend, scaled_dot_score


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def additive_by_loops(q, k, W_q, W_k, w_v):
    """w_v . tanh(W_q q + W_k k), one number at a time, for q (B, Q, d_q) and k (B, M, d_k)."""
    score = torch.zeros(len(q), q.shape[1], k.shape[1], dtype=q.dtype)
    for b, i, m, h in itertools.product(*map(range, (*score.shape, len(w_v)))):
        inner = sum(W_q[h, j] * q[b, i, j] for j in range(q.shape[2]))
        inner = inner + sum(W_k[h, j] * k[b, m, j] for j in range(k.shape[2]))
        score[b, i, m] = score[b, i, m] + w_v[h] * torch.tanh(inner)
    return score


@pytest.mark.parametrize(("n_queries", "n_keys"), [(2, 4), (3, 3), (1, 5)])  # 3 queries, 3 keys: any mix-up has a shape
def test_additive_score_matches_loops(n_queries, n_keys):
    inputs = normal(3, n_queries, 5), normal(3, n_keys, 2), normal(4, 5), normal(4, 2), normal(4)
    ours, loops = additive_score(*inputs), additive_by_loops(*inputs)
    assert_close(ours, loops)
    wanted = torch.randn_like(ours)
    assert_close(*(torch.autograd.grad((s * wanted).sum(), inputs) for s in (ours, loops)))
    q, k, *weights = inputs
    assert_close(additive_score(q[0], k[0], *weights), loops[0])  # no batch axis


def test_dot_and_bilinear_scores_match_loops():
    q, k, W = normal(2, 3, 4), normal(2, 5, 6), normal(4, 6)
    bilinear = bilinear_score(q, k, W)
    assert bilinear.shape == (2, 3, 5)
    expected = sum(q[1, 2, i] * W[i, j] * k[1, 4, j] for i in range(4) for j in range(6))
    assert_close(bilinear[1, 2, 4], expected)
    assert_close(dot_score(q, k[..., :4]), bilinear_score(q, k[..., :4], torch.eye(4).double()))
    assert_close(scaled_dot_score(q, k[..., :4]), dot_score(q, k[..., :4]) / 2)


def test_dot_score_matches_unscaled_torch_attention():
    q, k, v = normal(2, 3, 9), normal(2, 5, 9), normal(2, 5, 4)
    ours = attend(dot_score(q, k), v)[0]
    assert_close(ours, F.scaled_dot_product_attention(q, k, v, scale=1.0))
    with pytest.raises(ValueError, match="got 4 and 6"):
        dot_score(torch.zeros(3, 4), torch.zeros(3, 6))


def test_bilinear_score_is_a_dot_product_of_projections():
    """With W = W_q^T W_k it is what chapter 03 calls a head."""
    q, k, W_q, W_k = normal(3, 4), normal(5, 6), normal(2, 4), normal(2, 6)
    assert_close(bilinear_score(q, k, W_q.T @ W_k), dot_score(q @ W_q.T, k @ W_k.T))


@pytest.mark.parametrize("d", [4, 64, 1024])
def test_variance_of_dot_products_is_d(d):
    n = 200
    generator = torch.Generator().manual_seed(d)
    q, k = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(2))
    products = (q * k).sum(-1)  # (n,): independent, unlike the scores of all pairs
    # the variance of a sample variance of n nearly normal numbers is 2 var^2 / (n - 1); kurtosis 6/d is left
    tolerance = 4 * d * math.sqrt((2 + 6 / d) / (n - 1))
    assert abs(products.var().item() - d) < tolerance
