"""Checks of chapter 03: self-attention, heads, shared keys, two levels, order."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from possm_lite.blocks.attention import attend, scaled_dot_score
from possm_lite.blocks.heads import share_heads as _share_heads
from possm_lite.blocks.heads import split_heads as _split_heads
from possm_lite.blocks.hierarchy import hierarchical_attend
from possm_lite.classroom.checks import Case, Check, ValueCheck


def _numbers(*shapes: tuple[int, ...], seed: int = 0) -> tuple[Tensor, ...]:
    """Normal random numbers, the same every time."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def _value_and_gradients(function, *args):
    """The answer, and what a random sum of it hands back to every tensor of real numbers among the arguments."""
    tensors = [a.requires_grad_() for a in args if isinstance(a, Tensor) and a.is_floating_point()]
    answer = function(*args)
    (wanted,) = _numbers(tuple(answer.shape), seed=1)
    gradients = torch.autograd.grad((answer * wanted).sum(), tensors, allow_unused=True)
    return answer, *(torch.zeros_like(t) if g is None else g for t, g in zip(tensors, gradients, strict=True))


# --- self_attention: X (N, D), W_q and W_k (D, d), W_v (D, v) -> (N, v)


def _attention(Q: Tensor, K: Tensor, V: Tensor, scale: float, axis: int = -1) -> Tensor:
    return torch.softmax(Q @ K.T / scale, axis) @ V


def _self_attention(X, W_q, W_k, W_v):
    return attend(scaled_dot_score(X @ W_q, X @ W_k), X @ W_v)[0]


def _values_are_keys(X, W_q, W_k, W_v):
    return _attention(X @ W_q, X @ W_k, X @ W_k, math.sqrt(W_q.shape[1]))


def _values_are_tokens(X, W_q, W_k, W_v):
    return _attention(X @ W_q, X @ W_k, X, math.sqrt(W_q.shape[1]))


def _queries_are_keys(X, W_q, W_k, W_v):
    return _attention(X @ W_k, X @ W_k, X @ W_v, math.sqrt(W_q.shape[1]))


def _scaled_by_the_token(X, W_q, W_k, W_v):
    return _attention(X @ W_q, X @ W_k, X @ W_v, math.sqrt(X.shape[1]))


def _never_scaled(X, W_q, W_k, W_v):
    return _attention(X @ W_q, X @ W_k, X @ W_v, 1.0)


def _scaled_without_the_root(X, W_q, W_k, W_v):
    return _attention(X @ W_q, X @ W_k, X @ W_v, W_q.shape[1])


def _scaled_by_the_value(X, W_q, W_k, W_v):
    return _attention(X @ W_q, X @ W_k, X @ W_v, math.sqrt(W_v.shape[1]))


def _softmax_over_those_who_ask(X, W_q, W_k, W_v):
    return _attention(X @ W_q, X @ W_k, X @ W_v, math.sqrt(W_q.shape[1]), axis=0)


self_attention = Check(
    "self_attention",
    reference=_self_attention,
    cases=[
        Case("four tokens, all projections square", lambda: _numbers((4, 3), (3, 3), (3, 3), (3, 3))),
        Case("heads smaller than the tokens", lambda: _numbers((5, 8), (8, 2), (8, 2), (8, 2))),
        Case("values of another size than keys", lambda: _numbers((5, 6), (6, 2), (6, 2), (6, 4))),
        Case(
            "the gradient with respect to X and the three matrices",
            lambda: _numbers((4, 6), (6, 3), (6, 3), (6, 2)),
            _value_and_gradients,
        ),
    ],
    traps={
        "it hands over the keys. A key says where to find something, the value is what is found there: "
        "V needs a projection of its own.": _values_are_keys,
        "it hands over the tokens as they are. V = X W_v, a third projection.": _values_are_tokens,
        "queries and keys are one projection. What a token looks for is not what it offers: Q needs "
        "W_q.": _queries_are_keys,
        "the scores are scaled by the size of a token. What is added up in a score is one head's query times key, "
        "so it is their size that counts.": _scaled_by_the_token,
        "the scores are not scaled. Divide them by the square root of the size of a query.": _never_scaled,
        "the scores are divided by d, not by its square root.": _scaled_without_the_root,
        "the scores are scaled by the size of a value. Values take no part in a score: count the features of a "
        "query.": _scaled_by_the_value,
        "the weights of a row do not sum to one: it looks as if the softmax went over those who ask. "
        "It goes over those who are read.": _softmax_over_those_who_ask,
    },
)


# --- split_heads: x (B, N, H d), n_heads -> (B, H, N, d)


def _only_reshaped(x, n_heads):
    return x.reshape(len(x), n_heads, x.shape[1], -1)


def _not_transposed(x, n_heads):
    return x.unflatten(-1, (n_heads, -1))


def _features_dealt_out(x, n_heads):
    return x.unflatten(-1, (-1, n_heads)).permute(0, 3, 1, 2)


def _transposed_into_features(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).permute(0, 2, 3, 1).reshape(len(x), n_heads, x.shape[1], -1)


def _counted(batch: int, n: int, features: int) -> Tensor:
    return torch.arange(float(batch * n * features)).reshape(batch, n, features)


split_heads = Check(
    "split_heads",
    reference=_split_heads,
    cases=[
        Case("one head", lambda: (_counted(1, 2, 3), 1)),
        Case("two heads of two features, three tokens", lambda: (_counted(1, 3, 4), 2)),
        Case("as many heads as tokens", lambda: (_counted(2, 3, 6), 3)),
        Case("a batch of sequences", lambda: (_counted(3, 5, 8), 4)),
        Case("the gradient", lambda: (*_numbers((2, 3, 8)), 2), _value_and_gradients),
    ],
    traps={
        "the shape is right and the numbers are scrambled: it looks as if x went to (B, H, N, d) in one step, which "
        "cuts the tokens, not the features, into heads. Cut the last axis first, swap axes afterwards.": _only_reshaped,
        "the axes are (B, N, H, d). Heads have to stand before tokens: swap the two.": _not_transposed,
        "every head gets each H-th feature, dealt out like cards. Head i gets the d features that lie side by side, "
        "i d to (i + 1) d.": _features_dealt_out,
        "tokens and features have changed places inside each head: what was swapped is not the axis of heads "
        "with that of tokens.": _transposed_into_features,
    },
)


# --- grouped_attention: Q (H, N, d), K and V (G, M, d) -> (H, N, d)


def _grouped_attention(Q, K, V):
    return attend(scaled_dot_score(Q, _share_heads(K, len(Q))), _share_heads(V, len(Q)))[0]


def _grouped(Q, K, V, share_k, share_v, scale):
    scores = Q @ share_k(K, len(Q) // len(K)).transpose(1, 2) / math.sqrt(scale)
    return torch.softmax(scores, -1) @ share_v(V, len(Q) // len(V))


def _in_turn(x: Tensor, times: int) -> Tensor:
    return x.repeat(times, 1, 1)


def _side_by_side(x: Tensor, times: int) -> Tensor:
    return x.repeat_interleave(times, 0)


def _groups_of_the_wrong_size(Q, K, V):
    group = torch.arange(len(Q)) // len(K)
    return attend(scaled_dot_score(Q, K[group]), V[group])[0]


def _first_group_only(x: Tensor, times: int) -> Tensor:
    return x[:1]


grouped_attention = Check(
    "grouped_attention",
    reference=_grouped_attention,
    cases=[
        Case("as many key heads as heads", lambda: _numbers((2, 3, 4), (2, 5, 4), (2, 5, 4))),
        Case("one key head for all", lambda: _numbers((4, 3, 2), (1, 5, 2), (1, 5, 2))),
        Case("four heads, two key heads", lambda: _numbers((4, 3, 2), (2, 5, 2), (2, 5, 2))),
        Case("six heads, three key heads", lambda: _numbers((6, 4, 3), (3, 4, 3), (3, 4, 3))),
        Case("the gradient", lambda: _numbers((4, 3, 2), (2, 5, 2), (2, 5, 2)), _value_and_gradients),
    ],
    traps={
        "heads take the key heads in turn, 0 1 0 1. Neighbours share: 0 0 1 1. (repeat and repeat_interleave differ in "
        "just this.)": lambda Q, K, V: _grouped(Q, K, V, _in_turn, _in_turn, Q.shape[-1]),
        "keys and values are repeated in different orders. A head reads the values that belong to its "
        "keys.": lambda Q, K, V: _grouped(Q, K, V, _side_by_side, _in_turn, Q.shape[-1]),
        "the scores are scaled by the size of all heads together. Each score is a sum over one head.": lambda Q, K, V: (
            _grouped(Q, K, V, _side_by_side, _side_by_side, len(Q) * Q.shape[-1])
        ),
        "the scores are not scaled. Divide by the square root of d, the size of a head.": lambda Q, K, V: _grouped(
            Q, K, V, _side_by_side, _side_by_side, 1
        ),
        "it looks as if head i reads group i // G. G is how many groups there are, not how many heads share "
        "one.": _groups_of_the_wrong_size,
        "all heads read the first group of keys and values. The others are never read.": lambda Q, K, V: _grouped(
            Q, K, V, _first_group_only, _first_group_only, Q.shape[-1]
        ),
    },
)


# --- read_document: words (S, W, D), mask (S, W), word_query (D,), sentence_query (D,) -> (D,)


def _read_document(words, mask, word_query, sentence_query):
    return hierarchical_attend(words, word_query, sentence_query, mask)[0]


def _pool(query: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(scaled_dot_score(query[None], keys), keys, None if mask is None else mask[..., None, :])[0].squeeze(
        -2
    )


def _one_softmax(words, mask, word_query, sentence_query):
    return _pool(word_query, words.flatten(0, 1), mask.flatten())


def _padding_read(words, mask, word_query, sentence_query):
    return _pool(sentence_query, _pool(word_query, words), mask.any(-1))


def _empty_sentences_read(words, mask, word_query, sentence_query):
    return _pool(sentence_query, _pool(word_query, words, mask))


def _no_mask(words, mask, word_query, sentence_query):
    return _pool(sentence_query, _pool(word_query, words))


def _one_query(words, mask, word_query, sentence_query):
    return _pool(word_query, _pool(word_query, words, mask), mask.any(-1))


def _queries_swapped(words, mask, word_query, sentence_query):
    return _pool(word_query, _pool(sentence_query, words, mask), mask.any(-1))


def _never_scaled_words(words, mask, word_query, sentence_query):
    root = math.sqrt(words.shape[-1])
    return _read_document(words, mask, word_query * root, sentence_query * root)


def _full_sentences_only(words, mask, word_query, sentence_query):
    return _pool(sentence_query, _pool(word_query, words, mask), mask.all(-1))


def _mean_of_sentences(words, mask, word_query, sentence_query):
    return _pool(word_query, words, mask)[mask.any(-1)].mean(0)


def _document(*lengths: int, n_words: int = 4):
    """Words whose padding holds large numbers, their mask, and two queries."""
    words, word_query, sentence_query = _numbers((len(lengths), n_words, 3), (3,), (3,))
    mask = torch.arange(n_words) < torch.tensor(lengths)[:, None]
    return words.masked_fill(~mask[..., None], 9.0), mask, word_query, sentence_query


read_document = Check(
    "read_document",
    reference=_read_document,
    cases=[
        Case("one sentence", lambda: _document(4)),
        Case("two full sentences", lambda: _document(4, 4)),
        Case("a short sentence, padded", lambda: _document(4, 2)),
        Case("a sentence without words", lambda: _document(3, 0, 1)),
        Case("as many sentences as words", lambda: _document(1, 3, 2, n_words=3)),
        Case("the gradient", lambda: _document(3, 0, 1), _value_and_gradients),
    ],
    traps={
        "all words share one softmax, so a long sentence speaks louder. Pool each sentence first, then the "
        "sentences.": _one_softmax,
        "the padded slots are read at both levels. The mask says which words there are.": _no_mask,
        "the padded slots of a sentence are read. The softmax over words needs the mask.": _padding_read,
        "a sentence without words is read: its vector of zeros takes a share of the second softmax. Which sentences "
        "have a word at all?": _empty_sentences_read,
        "both levels ask with the word query. The sentences are read by sentence_query.": _one_query,
        "the two queries are swapped: words are read by word_query, sentences by sentence_query.": _queries_swapped,
        "the scores are not scaled. Divide them by the square root of D at both levels.": _never_scaled_words,
        "a sentence with padding in it is left out. One real word is enough for it to be read.": _full_sentences_only,
        "all sentences count the same. The second level is attention too, with a softmax of its "
        "own.": _mean_of_sentences,
    },
)


my_order = ValueCheck(  # of the tokens [2, 3, 1, 0]
    "my_order",
    expected="2 3 1 0",
    traps={
        "nothing would have moved then. But each row of the output belongs to a token, and the tokens "
        "moved.": "0 1 2 3",
        "this is the way back. The first row of the new input is token 2: whose answer stands in the first "
        "row?": "3 2 0 1",
        "the order is right. Write the numbers alone, 2 for y2.": "y2 y3 y1 y0",
        "this is the list read from its end. Go row by row: which token stands there now?": "0 1 3 2",
    },
)
