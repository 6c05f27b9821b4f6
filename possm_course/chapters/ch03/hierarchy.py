"""Attention in two levels: words into a sentence, sentences into a document (or spikes into bins into a trial)."""

import torch
from torch import Tensor

from possm_lite.nn.attention import attend, scaled_dot_score


def hierarchical_attend(
    words: Tensor, word_query: Tensor, sentence_query: Tensor, word_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """One query pools the words of each sentence, a second one pools the sentences.

        s_i = sum_j a_ij x_ij,   a_ij = softmax_j(q_w . x_ij / sqrt(D)),   over the words j of sentence i   (3.7)
        y   = sum_i b_i s_i,     b_i  = softmax_i(q_s . s_i / sqrt(D)),    over the sentences i

    Words x (..., S, W, D), padded to the longest sentence; queries q_w and q_s (D,), or one for each document (..., D).
    A sentence whose words are all masked is not read, and a document with nothing to read gets zeros. A mask that is
    not (..., S, W) is a ValueError: with W = S it would pass. Returns y (..., D), a (..., S, W) and b (..., S).
    Source: Yang et al. 2016, section 2.2, with the dot product instead of their one-layer network.
    """
    if word_mask is None:
        word_mask = words.new_ones(words.shape[:-1], dtype=torch.bool)
    if word_mask.shape != words.shape[:-1]:
        raise ValueError(f"The mask has shape {tuple(word_mask.shape)} instead of {tuple(words.shape[:-1])}.")
    scores = scaled_dot_score(word_query[..., None, None, :], words)  # (..., S, 1, W)
    sentences, a = (x.squeeze(-2) for x in attend(scores, words, word_mask[..., None, :]))  # (..., S, D), (..., S, W)
    # an empty sentence is a vector of zeros, which would otherwise get a weight in the second softmax
    readable = word_mask.any(dim=-1)  # (..., S)
    scores = scaled_dot_score(sentence_query[..., None, :], sentences)  # (..., 1, S)
    y, b = (x.squeeze(-2) for x in attend(scores, sentences, readable[..., None, :]))  # (..., D), (..., S)
    return y, a, b
