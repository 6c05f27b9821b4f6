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

    Args:
        words: x, padded to the longest sentence, (..., S, W, D).
        word_query, sentence_query: q_w and q_s, (D,), or one for each document, (..., D).
        word_mask: True at real words, (..., S, W) exactly; None: everywhere.
        sentence_mask: True where one may be read, (..., S) exactly; None: everywhere. One without words is never read.

    Returns: y (..., D), the weights of words in their sentence a (..., S, W), and those of sentences b (..., S).
        The weight of a word in the whole is a_ij b_i. A document with nothing to read gets zeros.
    Raises: ValueError naming the mask or query with a wrong shape, and both shapes.
    Source: Yang et al. 2016, section 2.2, with the dot product instead of their one-layer network.
    """
    *batch, n_sentences, n_words, dim = words.shape
    word_mask = _checked_mask("word_mask", word_mask, (*batch, n_sentences, n_words), words)
    sentence_mask = _checked_mask("sentence_mask", sentence_mask, (*batch, n_sentences), words)
    for name, query in {"word_query": word_query, "sentence_query": sentence_query}.items():
        if tuple(query.shape) not in ((dim,), (*batch, dim)):
            raise ValueError(f"{name} must have shape {(dim,)} or {(*batch, dim)}, not {tuple(query.shape)}.")
    q_w, q_s = word_query[..., None, None, :], sentence_query[..., None, :]  # (..., 1, 1, D), (..., 1, D)

    sentences, a = attend(scaled_dot_score(q_w, words), words, word_mask[..., None, :])
    sentences, a = sentences.squeeze(-2), a.squeeze(-2)  # (..., S, D), (..., S, W)
    # an empty sentence is a vector of zeros, which would otherwise get a weight in the second softmax
    readable = sentence_mask & word_mask.any(dim=-1)  # (..., S)
    pooled, b = attend(scaled_dot_score(q_s, sentences), sentences, readable[..., None, :])  # (..., 1, D), (..., 1, S)
    return pooled.squeeze(-2), a, b.squeeze(-2)


def _checked_mask(name: str, mask: Tensor | None, shape: tuple[int, ...], like: Tensor) -> Tensor:
    # exactly, not up to broadcasting: where B = S = W, a mask of sentences (B, S) would pass as one of words
    if mask is None:
        return torch.ones(shape, dtype=torch.bool, device=like.device)
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be boolean, True where something may be read, not {mask.dtype}.")
    if tuple(mask.shape) != shape:
        raise ValueError(f"{name} must have shape {shape} for words of {tuple(like.shape)}, not {tuple(mask.shape)}.")
    return mask
