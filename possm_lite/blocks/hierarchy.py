"""Attention in two levels: words into a sentence, sentences into a document (or spikes into bins into a trial)."""

import torch
from torch import Tensor

from .attention import attend, scaled_dot_score


def hierarchical_attend(
    words: Tensor,
    word_query: Tensor,
    sentence_query: Tensor,
    word_mask: Tensor | None = None,
    sentence_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """One query pools the words of each sentence, a second one pools the sentences.

        s_i = sum_j a_ij x_ij,   a_ij = softmax_j(q_w . x_ij / sqrt(D)),   over the words j of sentence i   (3.7)
        y   = sum_i b_i s_i,     b_i  = softmax_i(q_s . s_i / sqrt(D)),    over the sentences i

    A key needs no projection of its own here: W_k would only change the queries, which are free.

    Words x (..., S, W, D), padded to the longest sentence; queries q_w and q_s (D,), or one for each document (..., D).
    The masks, (..., S, W) and (..., S), are True where something may be read; a sentence without words is never read.

    Returns: y (..., D), the weights of words in their sentence a (..., S, W), and those of sentences b (..., S).
        The weight of a word in the whole is a_ij b_i. A document with nothing to read gets zeros.
    Raises: ValueError naming a mask whose shape is not exactly this: with W = S, a wrong one would pass silently.
    Source: Yang et al. 2016, section 2.2, with the dot product instead of their one-layer network.
    """
    for name, mask, shape in (
        ("word_mask", word_mask, words.shape[:-1]),
        ("sentence_mask", sentence_mask, words.shape[:-2]),
    ):
        if mask is not None and mask.shape != shape:
            shapes = f"{tuple(shape)} for words of {tuple(words.shape)}, not {tuple(mask.shape)}"
            raise ValueError(f"{name} must have shape {shapes}.")
    if word_mask is None:
        word_mask = words.new_ones(words.shape[:-1], dtype=torch.bool)
    scores = scaled_dot_score(word_query[..., None, None, :], words)  # (..., S, 1, W)
    sentences, a = (x.squeeze(-2) for x in attend(scores, words, word_mask[..., None, :]))  # (..., S, D), (..., S, W)
    # an empty sentence is a vector of zeros, which would otherwise get a weight in the second softmax
    readable = word_mask.any(dim=-1)  # (..., S)
    if sentence_mask is not None:
        readable = readable & sentence_mask
    scores = scaled_dot_score(sentence_query[..., None, :], sentences)  # (..., 1, S)
    y, b = (x.squeeze(-2) for x in attend(scores, sentences, readable[..., None, :]))  # (..., D), (..., S)
    return y, a, b
