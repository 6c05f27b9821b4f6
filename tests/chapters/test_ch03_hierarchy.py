"""Two-level attention against two calls of one-level attention; padding is ignored; wrong shapes are named."""

import pytest
import torch
from torch.testing import assert_close

from possm_course.chapters.ch03.hierarchy import hierarchical_attend
from possm_lite.nn.attention import attend, scaled_dot_score

LENGTHS = ((3, 1, 4), (2, 0, 0), (0, 0, 0))  # words in each sentence of three documents
B, S, W, D = 3, 3, 4, 5


def documents():
    """Words (B, S, W, D) whose padding holds large numbers, and the mask (B, S, W)."""
    mask = torch.arange(W) < torch.tensor(LENGTHS)[..., None]
    words = torch.randn(B, S, W, D, dtype=torch.float64).masked_fill(~mask[..., None], 1e3)
    return words.requires_grad_(), mask


def by_two_calls(document, lengths, q_w, q_s):
    """The same from ragged lists: attend over the words of each sentence there is, then over those sentences."""
    parts = [document[i, :n] for i, n in enumerate(lengths) if n]
    sentences = torch.stack([attend(scaled_dot_score(q_w[None], part), part)[0][0] for part in parts])
    return attend(scaled_dot_score(q_s[None], sentences), sentences)[0][0]


@pytest.mark.parametrize("shape", [(2, D), (2, B, D)])  # one query, or one for each document
def test_matches_two_calls_of_attend_with_gradients(shape):
    words, mask = documents()
    q = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y, _, _ = hierarchical_attend(words, *q, mask)
    for row in (0, 1):
        expected = by_two_calls(words[row], LENGTHS[row], *(q if q.ndim == 2 else q[:, row]))
        assert_close(y[row], expected)
        pair = y[row], expected
        assert_close(*(torch.autograd.grad(p.square().sum(), [words, q], retain_graph=True) for p in pair))
    with pytest.raises(ValueError, match=r"shape \(3, 3, 1\) instead of \(3, 3, 4\)"):
        hierarchical_attend(words, *q, mask[..., :1])


def test_weights_reproduce_output_and_empty_documents_give_zeros():
    words, mask = documents()
    y, a, b = hierarchical_attend(words, *torch.randn(2, D, dtype=torch.float64), mask)
    in_document = a * b[..., None]  # (B, S, W)
    assert_close((in_document[..., None] * words).sum((1, 2)), y)
    assert_close(in_document.sum((1, 2)), torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    assert (in_document[~mask] == 0).all()
    (gradient,) = torch.autograd.grad(y.square().sum(), words)
    assert (y[2] == 0).all() and (b[2] == 0).all() and (gradient[2] == 0).all()
    assert gradient.isfinite().all() and (gradient[~mask] == 0).all()


def test_unmasked_words_are_all_read():
    words, q = (torch.randn(shape, dtype=torch.float64) for shape in ((S, W, D), (2, D)))  # no batch axis
    assert_close(hierarchical_attend(words, *q)[0], by_two_calls(words, (W, W, W), *q))
