"""Attention in two levels: words into a sentence, sentences into a document.

Or spikes into bins, and bins into a trial.
"""

import torch
from torch import Tensor

from possm_lite.nn.attention import attend, scaled_dot_score


def hierarchical_attend(
    words: Tensor, word_query: Tensor, sentence_query: Tensor, word_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """One query pools the words of each sentence, a second one pools the sentences.

        s_i = sum_j a_ij x_ij,   a_ij = softmax_j(q_w . x_ij / sqrt(D))        (3.14)
        y   = sum_i b_i s_i,     b_i  = softmax_i(q_s . s_i / sqrt(D))

    The first sum is over the words j of sentence i, the second one over the sentences i.

    Args:
        words: x_ij, shape (..., S, W, D), padded to the longest sentence.
        word_query: q_w, shape (D,), or one for each document, shape (..., D).
        sentence_query: q_s, shape (D,) or (..., D).
        word_mask: True at a word, False at padding, shape (..., S, W). None: all are words.

    Returns:
        y, shape (..., D), the weights a of the words, shape (..., S, W), and the weights b of the
        sentences, shape (..., S). A sentence whose words are all masked is not read, and a document
        with nothing to read gets zeros.

    Raises:
        ValueError: The mask does not have the shape (..., S, W). With W = S it would broadcast.

    Source: Yang et al. 2016, section 2.2, with the dot product instead of their one-layer network.
    """
    if word_mask is None:
        word_mask = words.new_ones(words.shape[:-1], dtype=torch.bool)
    if word_mask.shape != words.shape[:-1]:
        raise ValueError(
            f"The mask has shape {tuple(word_mask.shape)} instead of {tuple(words.shape[:-1])}."
        )
    scores = scaled_dot_score(word_query[..., None, None, :], words)  # (..., S, 1, W)
    pooled, weights = attend(scores, words, word_mask[..., None, :])
    sentences = pooled.squeeze(-2)  # (..., S, D)
    a = weights.squeeze(-2)  # (..., S, W)
    # an empty sentence is a vector of zeros, which would get a weight in the second softmax
    readable = word_mask.any(dim=-1)  # (..., S)
    scores = scaled_dot_score(sentence_query[..., None, :], sentences)  # (..., 1, S)
    pooled, weights = attend(scores, sentences, readable[..., None, :])
    return pooled.squeeze(-2), a, weights.squeeze(-2)  # (..., D), (..., S, W), (..., S)
