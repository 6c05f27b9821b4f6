"""Exercises of chapter 03: self-attention, heads, shared keys, attention in two levels, order."""

import math
from functools import partial

import torch

from possm_lite.blocks.attention import attend, scaled_dot_score
from possm_lite.classroom.checks import Case, Check, ValueCheck, gradient, normal


def _normals(*shapes):
    return tuple(normal(*shape, seed=i) for i, shape in enumerate(shapes))


# Exercise 3.1: self-attention


def _self_attention(
    X,
    W_q,
    W_k,
    W_v,
    *,
    project=lambda X, W_q, W_k, W_v: (X @ W_q, X @ W_k, X @ W_v),
    scale=lambda X, Q, V: math.sqrt(Q.shape[1]),
    axis=-1,
):
    Q, K, V = project(X, W_q, W_k, W_v)
    return torch.softmax(Q @ K.T / scale(X, Q, V), axis) @ V


self_attention = Check(
    "self_attention",
    reference=_self_attention,
    cases=[
        Case("four tokens, all projections square", lambda: _normals((4, 3), (3, 3), (3, 3), (3, 3))),
        Case("heads smaller than the tokens", lambda: _normals((5, 8), (8, 2), (8, 2), (8, 2))),
        Case("values of another size than keys", lambda: _normals((5, 6), (6, 2), (6, 2), (6, 4))),
        Case(
            "the gradient with respect to X and the three matrices",
            lambda: _normals((4, 6), (6, 3), (6, 3), (6, 2)),
            gradient(0, 1, 2, 3),
        ),
    ],
    traps={
        "it hands over the keys. A key says where to find something, the value is what is found there: "
        "V needs a projection of its own.": (
            partial(_self_attention, project=lambda X, W_q, W_k, W_v: (X @ W_q, X @ W_k, X @ W_k))
        ),
        "it hands over the keys, and this is not its only bug. A key says where to find something, the value is what "
        "is found there: V needs a projection of its own. Then look at the size in the root.": partial(
            _self_attention,
            project=lambda X, W_q, W_k, W_v: (X @ W_q, X @ W_k, X @ W_k),
            scale=lambda X, Q, V: math.sqrt(X.shape[1]),
        ),
        "it hands over the tokens as they are. V = X W_v, a third projection.": (
            partial(_self_attention, project=lambda X, W_q, W_k, W_v: (X @ W_q, X @ W_k, X))
        ),
        "queries and keys are one projection. What a token looks for is not what it offers: Q needs W_q.": partial(
            _self_attention, project=lambda X, W_q, W_k, W_v: (X @ W_k, X @ W_k, X @ W_v)
        ),
        "the scores are scaled by the size of a token. What is added up in a score is one head's query times key, "
        "so it is their size that counts.": partial(_self_attention, scale=lambda X, Q, V: math.sqrt(X.shape[1])),
        "the scores are not scaled. Divide them by the square root of the size of a query.": (
            partial(_self_attention, scale=lambda X, Q, V: 1)
        ),
        "the scores are divided by d, not by its square root.": (
            partial(_self_attention, scale=lambda X, Q, V: Q.shape[1])
        ),
        "the scores are scaled by the size of a value. Values take no part in a score: count the features of a "
        "query.": partial(_self_attention, scale=lambda X, Q, V: math.sqrt(V.shape[1])),
        "the weights of a row do not sum to one: it looks as if the softmax went over the tokens that ask. "
        "It goes over the tokens that are read.": partial(_self_attention, axis=0),
    },
)

# Exercise 3.2: split the heads


def _split_heads(x, n_heads, *, cut=lambda x, H: x.unflatten(-1, (H, -1)), swap=lambda x: x.transpose(1, 2)):
    return swap(cut(x, n_heads))


def _numbered(*shape):
    return torch.arange(float(math.prod(shape))).reshape(shape)


split_heads = Check(
    "split_heads",
    reference=_split_heads,
    cases=[
        Case("one head", lambda: (_numbered(1, 2, 3), 1)),
        Case("two heads of two features, three tokens", lambda: (_numbered(1, 3, 4), 2)),
        Case("as many heads as tokens", lambda: (_numbered(2, 3, 6), 3)),
        Case("a batch of sequences", lambda: (_numbered(3, 5, 8), 4)),
        Case("the gradient", lambda: (normal(2, 3, 8), 2), gradient(0)),
    ],
    traps={
        "the shape is right and the numbers are scrambled: it looks as if x went to (B, H, N, d) in one step, which "
        "cuts the tokens, not the features, into heads. Cut the last axis first, swap axes afterwards.": (
            lambda x, H: x.reshape(len(x), H, x.shape[1], -1)
        ),
        "the axes are (B, N, H, d). Heads come before tokens: swap the two.": partial(_split_heads, swap=lambda x: x),
        "every head gets each H-th feature, dealt out like cards. Head i gets the d features that lie side by side, "
        "i d to (i + 1) d.": partial(_split_heads, cut=lambda x, H: x.unflatten(-1, (-1, H)).mT),
        "tokens and features have changed places inside each head: what was swapped is not the axis of heads "
        "with that of tokens.": lambda x, H: _split_heads(x, H).mT.reshape(len(x), H, x.shape[1], -1),
    },
)

# Exercise 3.3: shared keys


def _neighbours(x, n_heads):
    return x.repeat_interleave(n_heads // len(x), 0)


def _alternating(x, n_heads):
    return x.repeat(n_heads // len(x), 1, 1)


def _grouped_attention(Q, K, V, *, share=_neighbours, share_values=None, size=lambda Q: Q.shape[-1]):
    scores = Q @ share(K, len(Q)).mT / math.sqrt(size(Q))
    return torch.softmax(scores, -1) @ (share_values or share)(V, len(Q))


grouped_attention = Check(
    "grouped_attention",
    reference=_grouped_attention,
    cases=[
        Case("as many key heads as heads", lambda: _normals((2, 3, 4), (2, 5, 4), (2, 5, 4))),
        Case("one key head for all", lambda: _normals((4, 3, 2), (1, 5, 2), (1, 5, 2))),
        Case("four heads, two key heads", lambda: _normals((4, 3, 2), (2, 5, 2), (2, 5, 2))),
        Case("six heads, three key heads", lambda: _normals((6, 4, 3), (3, 4, 3), (3, 4, 3))),
        Case("the gradient", lambda: _normals((4, 3, 2), (2, 5, 2), (2, 5, 2)), gradient(0, 1, 2)),
    ],
    traps={
        "heads take the key heads alternately, 0 1 0 1. Neighbours share: 0 0 1 1. (repeat and repeat_interleave "
        "differ in just this.)": partial(_grouped_attention, share=_alternating),
        "keys and values are repeated in different orders. A head reads the values that belong to its keys.": partial(
            _grouped_attention, share_values=_alternating
        ),
        "the scores are scaled by the size of all heads together. Each score is a sum over one head.": (
            partial(_grouped_attention, size=lambda Q: len(Q) * Q.shape[-1])
        ),
        "the scores are not scaled. Divide by the square root of d, the size of a head.": (
            partial(_grouped_attention, size=lambda Q: 1)
        ),
        "it looks as if head i reads group i // G. G is how many groups there are, not how many heads share "
        "one.": partial(_grouped_attention, share=lambda x, H: x[torch.arange(H) // len(x)]),
        "all heads read the first group of keys and values. The others are never read.": (
            partial(_grouped_attention, share=lambda x, H: x[:1])
        ),
    },
)

# Exercise 3.4: attention in two levels


def _pool(query, keys, mask):
    return attend(scaled_dot_score(query[None], keys), keys, mask[..., None, :])[0].squeeze(-2)


def _read_document(
    words, mask, word_query, sentence_query, *, words_read=lambda mask: mask, sentences_read=lambda mask: mask.any(-1)
):
    sentences = _pool(word_query, words, words_read(mask))  # (S, D)
    return _pool(sentence_query, sentences, sentences_read(mask))


def _all_sentences(mask):
    return torch.ones_like(mask[:, 0])


def _document(*lengths, n_words=4):
    """Words whose padding holds large numbers, their mask, and two queries."""
    words, word_query, sentence_query = _normals((len(lengths), n_words, 3), (3,), (3,))
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
        Case("the gradient", lambda: _document(3, 0, 1), gradient(0, 2, 3)),
    ],
    traps={
        "all words share one softmax, so a long sentence speaks louder. Pool each sentence first, then the "
        "sentences.": lambda words, mask, q_w, q_s: _pool(q_w, words.flatten(0, 1), mask.flatten()),
        "the padded slots are read at both levels. The mask says which words there are.": (
            partial(_read_document, words_read=torch.ones_like, sentences_read=_all_sentences)
        ),
        "the padded slots of a sentence are read. The softmax over words needs the mask.": (
            partial(_read_document, words_read=torch.ones_like)
        ),
        "a sentence without words is read: its vector of zeros takes a share of the second softmax. Which sentences "
        "have a word at all?": partial(_read_document, sentences_read=_all_sentences),
        "both levels ask with the word query. The sentences are read by sentence_query.": (
            lambda words, mask, q_w, q_s: _read_document(words, mask, q_w, q_w)
        ),
        "the two queries are swapped: words are read by word_query, sentences by sentence_query.": (
            lambda words, mask, q_w, q_s: _read_document(words, mask, q_s, q_w)
        ),
        "the scores are not scaled. Divide them by the square root of D at both levels.": (
            lambda words, mask, *queries: _read_document(words, mask, *(q * words.shape[-1] ** 0.5 for q in queries))
        ),
        "a sentence with padding in it is left out. One real word is enough for it to be read.": (
            partial(_read_document, sentences_read=lambda mask: mask.all(-1))
        ),
        "all sentences count the same. The second level is attention too, with a softmax of its "
        "own.": lambda words, mask, q_w, q_s: _read_document(words, mask, q_w, 0 * q_s),
    },
)

# Exercise 3.5: the order of the outputs for the tokens [2, 3, 1, 0]

my_order = ValueCheck(
    "my_order",
    expected="2 3 1 0",
    traps={
        "nothing would have moved then. But each row of the output belongs to a token, and the tokens "
        "moved.": "0 1 2 3",
        "this is the way back. The first row of the new input is token 2: whose output is in the first row?": "3 2 0 1",
        "the order is right. Write the numbers alone, 2 for y2.": "y2 y3 y1 y0",
        "this is the list read from its end. Go row by row: which token is in that row now?": "0 1 3 2",
    },
)
