"""Exercises of chapter 03: self-attention, heads, shared keys, two levels, order, all of it with a mask."""

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
    score=lambda Q, K: Q @ K.T,
    softmax=lambda scores: torch.softmax(scores, -1),
):
    Q, K, V = project(X, W_q, W_k, W_v)
    return softmax(score(Q, K) / scale(X, Q, V)) @ V


def _unshifted_softmax(scores):
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


def _colleague(X, W_q, W_k, W_v):
    return _self_attention(X, W_q, W_k, W_v, scale=lambda X, Q, V: math.sqrt(X.shape[1]), score=lambda Q, K: K @ Q.T)


self_attention = Check(
    "self_attention",
    reference=_self_attention,
    cases=[
        Case("four tokens, all projections square", lambda: _normals((4, 3), (3, 3), (3, 3), (3, 3))),
        Case("heads smaller than the tokens", lambda: _normals((5, 8), (8, 2), (8, 2), (8, 2))),
        Case("values of another size than keys", lambda: _normals((5, 6), (6, 2), (6, 2), (6, 4))),
        Case(
            "scores in the hundreds",
            lambda: (torch.diag(torch.tensor([20.0, 20.0, 1.0])), *[torch.eye(3)] * 2, *_normals((3, 2))),
        ),
        Case(
            "the gradient with respect to X and the three matrices",
            lambda: _normals((4, 6), (6, 3), (6, 3), (6, 2)),
            gradient(0, 1, 2, 3),
            1e-4,
        ),
    ],
    traps={
        "it hands over the keys. A key says where to find something, the value is what is found there: "
        "V needs a projection of its own.": (
            partial(_self_attention, project=lambda X, W_q, W_k, W_v: (X @ W_q, X @ W_k, X @ W_k))
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
        "It goes over the tokens that are read.": partial(_self_attention, softmax=partial(torch.softmax, dim=0)),
        "queries and keys have changed places in the score: row n of Q K^T is what token n asks, row n of K Q^T is how "
        "token n is asked.": partial(_self_attention, score=lambda Q, K: K @ Q.T),
        "this is the colleague's function with both of its bugs. Compare it with (3.2): which index of the scores is "
        "the one that asks, and what is the size of a query?": _colleague,
        "exp of a large score is infinite, and infinity divided by infinity is NaN. Subtract the largest score of each "
        "row first, or use torch.softmax.": partial(_self_attention, softmax=_unshifted_softmax),
        "the largest score of the whole table is subtracted, and in a row of small scores every exp is then rounded to "
        "0. Subtract the largest of each row.": (
            partial(_self_attention, softmax=lambda scores: _unshifted_softmax(scores - scores.max()))
        ),
        "each token reads only itself and those before it. No mask is asked for here: everybody reads everybody.": (
            partial(
                _self_attention,
                score=lambda Q, K: (Q @ K.T).masked_fill(torch.ones(len(Q), len(Q)).triu(1) > 0, -math.inf),
            )
        ),
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
        "the heads are in reverse order. Head 0 gets the first d features.": lambda x, H: _split_heads(x, H).flip(1),
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
        Case("the gradient", lambda: _normals((4, 3, 2), (2, 5, 2), (2, 5, 2)), gradient(0, 1, 2), 1e-4),
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
        "the scores are divided by d, not by its square root.": partial(
            _grouped_attention, size=lambda Q: Q.shape[-1] ** 2
        ),
        "the groups are in reverse order. The first heads read the first group.": partial(
            _grouped_attention, share=lambda x, H: _neighbours(x, H).flip(0)
        ),
        "the heads are averaged into one. Keep all H of them: (H, N, d).": lambda Q, K, V: _grouped_attention(
            Q, K, V
        ).mean(0),
        "the heads are merged already. Wanted are the heads of (3.5) one by one, (H, N, d).": lambda Q, K, V: (
            _grouped_attention(Q, K, V).transpose(0, 1).flatten(1)
        ),
        "the axes are (N, H, d). Heads come first: (H, N, d).": lambda Q, K, V: _grouped_attention(Q, K, V).transpose(
            0, 1
        ),
        "all heads read the first group of keys and values. The others are never read.": (
            partial(_grouped_attention, share=lambda x, H: x[:1])
        ),
    },
)

# Exercise 3.4: weights of a dense layer, (N D)^2, and of self-attention, 4 D^2

my_ratio = ValueCheck(
    "my_ratio",
    expected=2500,
    traps={
        "N^2 = 10,000 times as many as one D x D matrix. Self-attention has four of them.": 10_000,
        "that counts three matrices. W_o is one as well.": 10_000 / 3,
        "that is what it has for one token of its output. There are N of these: every one of the 3,200 numbers that "
        "go in has a weight for every one of the 3,200 that come out.": 25,
        "that is the number of weights of the dense layer. How many has self-attention?": 3200**2,
        "turn the fraction over: the dense layer has more.": 1 / 2500,
    },
)

# Exercise 3.5: attention in two levels


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


def _left_padded():
    words, mask, *queries = _document(2, 4, 1)
    return words.flip(1), mask.flip(1), *queries


def _filler_sentence():
    """The words of sentence 1 are all zero: it has words, and they say nothing."""
    words, mask, *queries = _document(2, 3, 4)
    return words * torch.tensor([1.0, 0.0, 1.0])[:, None, None], mask, *queries


def _plain_softmax(words, mask, word_query, sentence_query):
    """Word scores of -inf at padding, through a plain softmax: NaN for a sentence without words."""
    root = math.sqrt(words.shape[-1])
    weights = torch.softmax((words @ word_query / root).masked_fill(~mask, -math.inf), -1)
    sentences = (weights[..., None] * words).sum(1)
    return _pool(sentence_query, sentences, mask.any(-1))


def _dropped_where_zero(words, mask, word_query, sentence_query):
    sentences = _pool(word_query, words, mask)
    return _pool(sentence_query, sentences, (sentences != 0).any(-1))


read_document = Check(
    "read_document",
    reference=_read_document,
    cases=[
        Case("one sentence", lambda: _document(4)),
        Case("two full sentences", lambda: _document(4, 4)),
        Case("a short sentence, padded", lambda: _document(4, 2)),
        Case("a sentence without words", lambda: _document(3, 0, 1)),
        Case("as many sentences as words", lambda: _document(1, 3, 2, n_words=3)),
        Case("padding before the words", _left_padded),
        Case("a sentence whose words are all zero vectors", _filler_sentence),
        Case("the gradient", lambda: _document(3, 0, 1), gradient(0, 2, 3), 1e-4),
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
        "a sentence without words is NaN: a softmax over nothing is 0/0, and zero weight times NaN is still NaN. "
        "`attend` with the mask gives zeros there.": _plain_softmax,
        "a sentence is left out where its vector is zero. But words may be zero vectors and be there all the same: ask "
        "the mask, not the numbers.": _dropped_where_zero,
        "a sentence is left out where its first slot is padding. A word anywhere is enough.": partial(
            _read_document, sentences_read=lambda mask: mask[:, 0]
        ),
        "all sentences count the same. The second level is attention too, with a softmax of its "
        "own.": lambda words, mask, q_w, q_s: _read_document(words, mask, q_w, 0 * q_s),
    },
)

# Exercise 3.6: back to the order 0 1 2 3, when the tokens were [2, 3, 1, 0]

my_order = ValueCheck(
    "my_order",
    expected="3 2 0 1",
    traps={
        "nothing would have moved then. But each row of the output belongs to a token, and the tokens "
        "moved.": "0 1 2 3",
        "that is whose output each row of Z is. Asked is the way back: in which row of Z is y0?": "2 3 1 0",
        "the order is right. Write the numbers alone, 3 for row 3.": "Z3 Z2 Z0 Z1",
        "this is the list read from its end. Go token by token: in which row of Z is y0?": "0 1 3 2",
    },
)

# Exercise 3.7: keys that match changed queries


def _matching_keys(W_k, C):
    return W_k @ torch.linalg.inv(C).T


matching_keys = Check(
    "matching_keys",
    reference=_matching_keys,
    cases=[
        Case("heads of one number", lambda: (*_normals((4, 1)), torch.tensor([[2.0]])), tolerance=1e-4),
        Case("queries in another order", lambda: (*_normals((5, 3)), torch.eye(3)[[1, 2, 0]]), tolerance=1e-4),
        Case(
            "queries stretched", lambda: (*_normals((5, 3)), torch.diag(torch.tensor([1.0, 2.0, 0.5]))), tolerance=1e-4
        ),
        Case(
            "any invertible matrix", lambda: (*_normals((6, 2)), torch.tensor([[2.0, 1.0], [1.0, 3.0]])), tolerance=1e-4
        ),
        Case(
            "a matrix that is not symmetric",
            lambda: (*_normals((6, 2)), torch.tensor([[1.0, 2.0], [0.0, 1.0]])),
            tolerance=1e-4,
        ),
    ],
    traps={
        "the inverse is there, its transpose is not. The score has W_k'^T, and the transpose "
        "reaches what W_k was multiplied by, too.": lambda W_k, C: W_k @ torch.linalg.inv(C),
        "keys that change as the queries do change the score twice. They have to undo what C did.": lambda W_k, C: (
            W_k @ C
        ),
        "the transpose undoes C only if C is orthogonal. Which matrix undoes any C?": lambda W_k, C: W_k @ C.T,
        "the keys are as they were. Then C stays in the score.": lambda W_k, C: W_k.clone(),
    },
)

# Exercise 3.8: several heads with a mask


def _stable_softmax(scores):
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def _masked_heads(
    X,
    exists,
    W_q,
    W_k,
    W_v,
    W_o,
    n_heads,
    *,
    split=lambda x, H: x.unflatten(-1, (H, -1)).transpose(1, 2),
    share=lambda x, H: x.repeat_interleave(H // x.shape[1], 1),
    size=lambda q, X: q.shape[-1],
    order=lambda n: torch.ones(n, n).tril().bool(),
    readable=lambda exists: exists[:, None, None, :],
    softmax=_stable_softmax,
    mask_scores=lambda scores, mask: scores.masked_fill(~mask, -1e30),
    mask_weights=lambda weights, mask: weights,
    rows=lambda y, exists: y * exists[..., None],
    merge=lambda y: y.transpose(1, 2).flatten(2),
    mix=lambda y, W_o: y @ W_o,
):
    d = W_q.shape[1] // n_heads
    q = split(X @ W_q, n_heads)
    k, v = (share(split(X @ W, W.shape[1] // d), n_heads) for W in (W_k, W_v))
    mask = order(X.shape[1]) & readable(exists)  # (B, 1, N, N)
    weights = softmax(mask_scores(q @ k.mT / math.sqrt(size(q, X)), mask))
    return rows(mix(merge(mask_weights(weights, mask) @ v), W_o), exists)


def _hidden_by_where(scores, mask):
    """Weights in which padding is hidden after exp: inf there is gone from the weights, but not from the gradient."""
    largest = scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    e = torch.where(mask, (scores - largest).exp(), 0.0)
    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)


def _batch(*lengths, heads=2, groups=2, d=2, dim=5, scale=1.0, left=False):
    """Makes sequences of these lengths, with sevens for padding, and the four matrices."""

    def make():
        n = max(lengths)
        X, W_q, W_k, W_v, W_o = _normals(
            (len(lengths), n, dim), (dim, heads * d), (dim, groups * d), (dim, groups * d), (heads * d, dim)
        )
        exists = torch.arange(n) < torch.tensor(lengths)[:, None]
        X = X.masked_fill(~exists[..., None], 7.0)
        X, exists = (X.flip(1), exists.flip(1)) if left else (X, exists)
        return X, exists, scale * W_q, W_k, W_v, W_o, heads

    return make


def _rows(real):
    """Observes the rows of real tokens, or those of padded ones, and zeros in place of the others."""

    def observe(function, X, exists, *args):
        Y = torch.as_tensor(function(X, exists, *args))
        return Y.masked_fill((exists if not real else ~exists)[..., None], 0.0) if Y.shape == X.shape else Y

    return observe


_plain_mask = partial(
    _masked_heads,
    mask_scores=lambda scores, mask: scores.masked_fill(~mask, -math.inf),
    softmax=partial(torch.softmax, dim=-1),
)

masked_heads = Check(
    "masked_heads",
    reference=_masked_heads,
    cases=[
        Case("one token, one head", _batch(1, heads=1, groups=1), tolerance=1e-4),
        Case("three tokens, one head", _batch(3, heads=1, groups=1), tolerance=1e-4),
        Case("three tokens, two heads", _batch(3), tolerance=1e-4),
        Case("four heads that share two keys", _batch(3, heads=4), tolerance=1e-4),
        Case("padding at the end", _batch(4, 2), _rows(real=True), 1e-4),
        Case("padding at the beginning", _batch(4, 2, left=True), _rows(real=True), 1e-4),
        Case("scores in the thousands", _batch(3, scale=1e4), tolerance=1e-4),
        Case("the rows of padded tokens", _batch(4, 2, left=True), _rows(real=False), 1e-4),
        Case("the rows of padded tokens at the end", _batch(4, 2), _rows(real=False), 1e-4),
        Case("a sequence that is all padding", _batch(3, 0), tolerance=1e-4),
        Case("the gradient with padding at the beginning", _batch(3, 1, left=True), gradient(0, 2, 3, 4, 5), 1e-4),
        Case("the gradient with scores in the thousands", _batch(3, scale=1e4), gradient(0, 2, 3, 4, 5), 1e-4),
    ],
    traps={
        "the mask of order is missing: a token reads those after it.": partial(
            _masked_heads, order=lambda n: torch.ones(n, n).bool()
        ),
        "the mask of order is the wrong way round: a token reads itself and those after it.": partial(
            _masked_heads, order=lambda n: torch.ones(n, n).triu().bool()
        ),
        "a token does not read itself. It reads itself and those before it.": partial(
            _masked_heads, order=lambda n: torch.ones(n, n).tril(-1).bool(), mask_weights=lambda w, mask: w * mask
        ),
        "the padding is read as if it were tokens: `exists` is missing in the mask, or it masks the tokens that ask. "
        "It belongs to the last axis, that of the tokens that are read.": partial(
            _masked_heads, readable=lambda exists: torch.ones_like(exists)[:, None, None, :]
        ),
        "a row with nothing to read is NaN: all its scores are -inf, and 0/0 follows (NaN times zero is NaN, too). Let "
        "such a row compute on zeros, then clear it.": partial(_plain_mask, rows=lambda y, exists: y),
        "the values are right and a gradient is NaN: a row of scores that are all -inf was cleared only afterwards. "
        "Let such a row compute on zeros.": partial(
            _plain_mask, rows=lambda y, exists: y.masked_fill(~exists[..., None], 0)
        ),
        "the mask comes after the softmax, so the weights of a row do not sum to one.": partial(
            _masked_heads, mask_scores=lambda scores, mask: scores, mask_weights=lambda w, mask: w * mask
        ),
        "masked scores are set to zero. exp(0) is one, a share like any other: they must be far below the "
        "rest.": partial(_masked_heads, mask_scores=lambda scores, mask: scores.masked_fill(~mask, 0)),
        "exp of a large score is infinite. Subtract the largest score of each row before exp.": partial(
            _masked_heads, softmax=_unshifted_softmax
        ),
        "the values are right and a gradient is NaN: exp of a large masked score is infinite, and zeros in its place "
        "are too late. Mask the scores before exp.": lambda X, exists, *others: _masked_heads(
            X * exists[..., None], exists, *others, mask_scores=_hidden_by_where, softmax=lambda weights: weights
        ),
        "the scores are not scaled. Divide them by the square root of d, the size of a head.": partial(
            _masked_heads, size=lambda q, X: 1
        ),
        "the scores are scaled by the size of a token. Each score is a sum over the d features of one head.": partial(
            _masked_heads, size=lambda q, X: X.shape[-1]
        ),
        "the scores are scaled by the size of all heads together. Each score is a sum over the d features of one "
        "head.": partial(_masked_heads, size=lambda q, X: q.shape[1] * q.shape[-1]),
        "the scores are divided by d, not by its square root.": partial(
            _masked_heads, size=lambda q, X: q.shape[-1] ** 2
        ),
        "`view` in one step cuts the tokens, not the features, into heads (exercise 3.2).": partial(
            _masked_heads, split=lambda x, H: x.reshape(len(x), H, x.shape[1], -1)
        ),
        "heads take the shared keys alternately, 0 1 0 1. Neighbours share: 0 0 1 1 (exercise 3.3).": partial(
            _masked_heads, share=lambda x, H: x.repeat(1, H // x.shape[1], 1, 1)
        ),
        "the heads are not put side by side again: swap heads and tokens back before they are flattened.": partial(
            _masked_heads, merge=lambda y: y.reshape(len(y), y.shape[2], -1)
        ),
        "W_o is missing: the answers of the heads are side by side, and nothing mixes them.": partial(
            _masked_heads, mix=lambda y, W_o: y
        ),
    },
)
