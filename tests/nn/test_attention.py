"""Scores against loops; masked softmax and pooling against torch; padding is ignored, a masked row is zero."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from possm_lite.nn.attention import (
    additive_score,
    attend,
    bilinear_score,
    dot_score,
    length_mask,
    masked_log_softmax,
    masked_softmax,
    scaled_dot_score,
)

LENGTHS = (5, 1, 3, 0)  # keys that each row of a batch may read; the last may read none


def make_padded():
    """Scores (4, 2, 5) whose padded slots hold large numbers, and a mask (4, 1, 5)."""
    mask = torch.arange(5) < torch.tensor(LENGTHS)[:, None, None]
    scores = torch.randn(len(LENGTHS), 2, 5, dtype=torch.float64)
    return scores.masked_fill(~mask, 1e6).requires_grad_(), mask


@pytest.mark.parametrize("mask", [None, torch.tensor([True, True, True, False])])
def test_softmax_is_blind_to_a_constant_of_the_row(mask):
    """Equal after a shift of each row by its own constant, and no overflow at scores of 1,000."""
    scores = torch.tensor([[2.0, 0.0, -1.0, 0.5], [0.3, 0.1, 4.0, 0.0]], dtype=torch.float64)
    shifts = torch.tensor([[1000.0], [-1000.0]], dtype=torch.float64)
    assert_close(masked_softmax(scores + shifts, mask), masked_softmax(scores, mask))
    assert_close(masked_softmax(scores.float() + 1000, mask), masked_softmax(scores.float(), mask), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("ours", "theirs"), [(masked_softmax, torch.softmax), (masked_log_softmax, torch.log_softmax)])
def test_masked_softmax_equals_the_unpadded_slice_with_gradients(ours, theirs):
    scores, mask = make_padded()
    wanted = torch.randn(4, 2, 5, dtype=torch.float64)
    assert torch.equal(ours(scores), theirs(scores, -1))  # no mask
    found = ours(scores, mask)
    (gradient,) = torch.autograd.grad((found.masked_fill(~mask, 0.0) * wanted).sum(), scores)
    for row, n in enumerate(LENGTHS):
        alone = scores[row, :, :n].detach().requires_grad_()
        expected = theirs(alone, -1)
        (expected_gradient,) = torch.autograd.grad((expected * wanted[row, :, :n]).sum(), alone)
        assert_close(found[row, :, :n], expected)
        assert_close(gradient[row, :, :n], expected_gradient)
        assert (gradient[row, :, n:] == 0).all()
    outside = 0.0 if ours is masked_softmax else -torch.inf
    assert (found.masked_fill(mask, outside) == outside).all()


@pytest.mark.parametrize("masked", [False, True])
def test_attend_matches_torch(masked):
    inputs = [torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    mask = torch.rand(2, 5, 5) < 0.6 if masked else None
    if masked:
        mask[..., 0] = True  # torch gives NaN to a row that may read nothing
    q, k, v = inputs
    ours, weights = attend(scaled_dot_score(q, k), v, mask)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert_close(ours, theirs)
    assert_close(weights.sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert_close(*(torch.autograd.grad(output.square().sum(), inputs) for output in (ours, theirs)))


def test_length_mask_marks_the_first_slots():
    lengths = torch.tensor([[2, 0], [3, 1]])
    expected = [[[m < n for m in range(3)] for n in row] for row in lengths.tolist()]
    assert length_mask(lengths, 3).tolist() == expected
    assert length_mask([1, 2], 2).tolist() == [[True, False], [True, True]]


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_additive_score_matches_loops_with_gradients():
    q, k, W_q, W_k, w_v = inputs = normal(3, 5), normal(3, 2), normal(4, 5), normal(4, 2), normal(4)
    loops = torch.stack([torch.stack([w_v @ torch.tanh(W_q @ q_i + W_k @ k_m) for k_m in k]) for q_i in q])
    ours = additive_score(*inputs)
    assert_close(ours, loops)
    wanted = torch.randn_like(ours)
    assert_close(*(torch.autograd.grad((s * wanted).sum(), inputs) for s in (ours, loops)))
    batch = torch.stack([q, 2 * q]), torch.stack([k, k])
    assert_close(additive_score(*batch, W_q, W_k, w_v)[0], loops)


def test_dot_and_bilinear_scores_match_loops():
    q, k, W = normal(2, 3, 4), normal(2, 5, 6), normal(4, 6)
    bilinear = bilinear_score(q, k, W)
    assert bilinear.shape == (2, 3, 5)
    expected = sum(q[1, 2, i] * W[i, j] * k[1, 4, j] for i in range(4) for j in range(6))
    assert_close(bilinear[1, 2, 4], expected)
    assert_close(dot_score(q, k[..., :4]), bilinear_score(q, k[..., :4], torch.eye(4).double()))
    assert_close(scaled_dot_score(q, k[..., :4]), dot_score(q, k[..., :4]) / 2)
    W_q, W_k = normal(2, 4), normal(2, 6)  # two projections are a bilinear score
    assert_close(dot_score(q @ W_q.T, k @ W_k.T), bilinear_score(q, k, W_q.T @ W_k))
