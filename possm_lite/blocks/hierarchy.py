"""Attention in two levels: words into a sentence, sentences into a document (or spikes into bins into a trial)."""

import torch
from torch import Tensor

from .attention import attend, scaled_dot_score


def hierarchical_attend(
    words: Tensor, word_query: Tensor, sentence_query: Tensor, word_mask: Tensor | None = None, sentence_mask=None
) -> tuple[Tensor, Tensor, Tensor]:
    """One query pools the words of each sentence, a second one pools the sentences.

        s_i = sum_j a_ij x_ij,   a_ij = softmax_j(q_w . x_ij / sqrt(D)),   over the words j of sentence i   (3.7)
        y   = sum_i b_i s_i,     b_i  = softmax_i(q_s . s_i / sqrt(D)),    over the sentences i

    Words x (..., S, W, D), padded to the longest sentence; queries q_w and q_s (D,), or one for each document (..., D).
    The masks, (..., S, W) and (..., S), are True where something may be read; a sentence without words is never read,
    and a document with nothing to read gets zeros. A mask of another shape is a ValueError: with W = S it would pass.
    Returns y (..., D), the weights of words in their sentence a (..., S, W), and those of sentences b (..., S).
    Source: Yang et al. 2016, section 2.2, with the dot product instead of their one-layer network.
    """
    everything = words.new_ones(words.shape[:-1], dtype=torch.bool)  # (..., S, W)
    word_mask = everything if word_mask is None else word_mask
    sentence_mask = everything[..., 0] if sentence_mask is None else sentence_mask
    for mask, shape in ((word_mask, words.shape[:-1]), (sentence_mask, words.shape[:-2])):
        if mask.shape != shape:
            raise ValueError(f"A mask has shape {tuple(mask.shape)} instead of {tuple(shape)}.")
    scores = scaled_dot_score(word_query[..., None, None, :], words)  # (..., S, 1, W)
    sentences, a = (x.squeeze(-2) for x in attend(scores, words, word_mask[..., None, :]))  # (..., S, D), (..., S, W)
    # an empty sentence is a vector of zeros, which would otherwise get a weight in the second softmax
    readable = word_mask.any(dim=-1) & sentence_mask  # (..., S)
    scores = scaled_dot_score(sentence_query[..., None, :], sentences)  # (..., 1, S)
    y, b = (x.squeeze(-2) for x in attend(scores, sentences, readable[..., None, :]))  # (..., D), (..., S)
    return y, a, b
