"""Exercises of chapter 03: heads, order, the block, a mask; deeper: shared keys, a count, two levels."""

import math

import torch
from torch.nn import functional as F

from possm_course.checks import Case, ValueCheck, exercise, gradient, normal
from possm_lite.nn.attention import attend, scaled_dot_score


def _normals(*shapes):
    """Normal numbers of these shapes, each with a seed of its own."""
    return tuple(normal(*shape, seed=i) for i, shape in enumerate(shapes))


# Exercise 3.1: self-attention
@exercise(
    cases={
        "four tokens, all projections square": lambda: _normals((4, 3), (3, 3), (3, 3), (3, 3)),
        "heads smaller than the tokens": lambda: _normals((5, 8), (8, 2), (8, 2), (8, 2)),
        "values of another size than keys": lambda: _normals((5, 6), (6, 2), (6, 2), (6, 4)),
        "scores in the hundreds": lambda: (
            torch.diag(torch.tensor([20.0, 20.0, 1.0])),
            *[torch.eye(3)] * 2,
            *_normals((3, 2)),
        ),
        "the gradient with respect to X and the three matrices": Case(
            lambda: _normals((4, 6), (6, 3), (6, 3), (6, 2)), gradient(0, 1, 2, 3), 1e-4
        ),
    },
    mistakes={
        ("Q @ K.T → K @ Q.T", "K.shape[-1] → X.shape[-1]"): (
            "both bugs are still in it. Whose is row n of the scores, and of how many products is a score the sum?"
        ),
        " / math.sqrt(K.shape[-1]) → ": "the scores are not divided by the root of d.",
        "Q @ K.T → K @ Q.T": (
            "queries and keys have changed places in the score: row n of Q K^T is what token n asks, row n of K Q^T is "
            "how token n is asked."
        ),
        "K.shape[-1] → X.shape[-1]": "the scores are scaled by the size of a token, not of a key.",
        "dim=-1 → dim=0": (
            "the weights of a row do not sum to one: it looks as if the softmax went over the tokens that ask."
        ),
        "/ math.sqrt(K.shape[-1]) → / K.shape[-1] ** -0.5": (
            "divided by d ** -0.5, which multiplies by the root: one of the two is too much."
        ),
        "/ math.sqrt(K.shape[-1]) → / K.shape[-1]": "divided by d. It should be its root.",
        (
            "/ math.sqrt(K.shape[-1]) → / math.sqrt(V.shape[-1])"
        ): "scaled by the size of a value. A score is a sum over keys.",
        (
            "/ math.sqrt(K.shape[-1]) → / math.sqrt(len(X))"
        ): "scaled by the number of tokens. A score is a sum over d products.",
        "torch.softmax(scores, dim=-1) @ V → torch.softmax(scores, dim=-1).T @ V": (
            "the weights are transposed: row n of the result should be what token n reads."
        ),
        "return torch.softmax(scores, dim=-1) @ V → return torch.softmax(scores, dim=-1) @ X": (
            "the tokens themselves are averaged. (3.2) averages their values."
        ),
        (
            "Q @ K.T / math.sqrt(K.shape[-1]) → Q @ K.T",
            "torch.softmax(scores, dim=-1) → torch.softmax(scores, dim=-1) / math.sqrt(K.shape[-1])",
        ): "divided after the softmax, so that the weights do not sum to one. The scores should be divided.",
        (
            "return torch.softmax(scores, dim=-1) @ V → return torch.exp(scores) / torch.exp(scores).sum(-1, "
            "keepdim=True) @ V"
        ): (
            "exp of a large score is infinite, and inf / inf is NaN: subtract the largest of each row, or use "
            "`softmax`."
        ),
        "return torch.softmax(scores, dim=-1) @ V → "
        "order = torch.ones_like(scores, dtype=torch.bool).tril(); "
        "return torch.softmax(scores.masked_fill(~order, -torch.inf), -1) @ V": (
            "tokens read only those before them. (3.2) has no mask: every token reads all."
        ),
    },
)
def self_attention(X, W_q, W_k, W_v):
    """Formula (3.2). X (N, D), W_q and W_k (D, d), W_v (D, v); gives (N, v)."""
    Q, K, V = X @ W_q, X @ W_k, X @ W_v  # (N, d), (N, d), (N, v)
    scores = Q @ K.T / math.sqrt(K.shape[-1])  # (N, N)
    return torch.softmax(scores, dim=-1) @ V


# Exercise 3.2: split the heads
def _numbered(*shape):
    """The numbers 0, 1, 2 and so on in a tensor of this shape, which say where they come from."""
    return torch.arange(float(math.prod(shape))).reshape(shape)


@exercise(
    cases={
        "one head": lambda: (_numbered(1, 2, 3), 1),
        "two heads of two features, three tokens": lambda: (_numbered(1, 3, 4), 2),
        "as many heads as tokens": lambda: (_numbered(2, 3, 6), 3),
        "a batch of sequences": lambda: (_numbered(3, 5, 8), 4),
        "the gradient": Case(lambda: (normal(2, 3, 8), 2), gradient(0)),
    },
    mistakes={
        "return cut.transpose(1, 2) → return x.reshape(B, n_heads, N, -1)": (
            "the shape is right and the numbers are scrambled: it looks as if x went to (B, H, N, d) in one step, "
            "which cuts the tokens, not the features, into heads. Cut the last axis first, swap axes afterwards."
        ),
        "cut.transpose(1, 2) → cut": "the axes are (B, N, H, d). Heads come before tokens: swap the two.",
        "reshape(B, N, n_heads, features // n_heads) → reshape(B, N, -1, n_heads).mT": (
            "every head gets each H-th feature, dealt out like cards. Those of a head lie side by side."
        ),
        "return cut.transpose(1, 2) → return x.reshape(B * n_heads, N, -1)": (
            "batch and heads are one axis, (B H, N, d), and were cut in one step. Four axes are wanted: first "
            "cut the last one."
        ),
        "return cut.transpose(1, 2) → return cut.permute(2, 0, 1, 3)": (
            "the heads come first, (H, B, N, d). They belong behind the batch, before the tokens."
        ),
        "return cut.transpose(1, 2) → return cut.permute(0, 2, 3, 1)": (
            "the axes are (B, H, d, N): tokens and features of a head have changed places."
        ),
        (
            "B, N, features = x.shape → N, B, features = x.shape",
            "x.reshape(B, N, n_heads, features // n_heads) → x.reshape(N, B, n_heads, features // n_heads)",
            "cut.transpose(1, 2) → cut.permute(1, 2, 0, 3)",
        ): (
            "you take the first axis for the tokens and the second for the batch. Here x is (B, N, H d), the "
            "batch first."
        ),
        "return cut.transpose(1, 2) → return cut.transpose(1, 2).flatten(0, 1)": (
            "batch and heads are flattened into one axis: they should stay two."
        ),
        "return cut.transpose(1, 2) → return x.reshape(B, n_heads, features // n_heads, N).mT": (
            "the shape is right and the numbers are scrambled: only the last axis should be cut, into H and d."
        ),
    },
)
def split_heads(x, n_heads):
    """Formula (3.4). x (B, N, H d); gives (B, H, N, d)."""
    B, N, features = x.shape
    cut = x.reshape(B, N, n_heads, features // n_heads)  # (B, N, H, d): only the last axis is cut
    return cut.transpose(1, 2)  # (B, H, N, d)


# Exercise 3.3: what becomes of the outputs when the tokens come as [2, 3, 1, 0]
my_order = ValueCheck(
    "my_order",
    expected="2 3 1 0",
    mistakes={
        "0 1 2 3": "the row of a token would then depend on its place. What in (3.2) knows of a place?",
        "3 2 0 1": "that is the way back: the row in which each old output lies now. Asked is what each row holds.",
        "new": "each token still meets the same four tokens, itself among them. Which number could change?",
    },
    hint="Row n is the output of the token that stands there now.",
)


# Exercise 3.4: the transformer block
def _parts():
    """A table of tokens, attention and a network with weights of their own."""
    X, W, W_1, W_2 = _normals((5, 4), (4, 4), (4, 6), (6, 4))

    def attention(x):
        return torch.softmax(x @ x.T, -1) @ x @ W

    def network(x):
        return (x @ W_1).relu() @ W_2

    return 3 * X + 1, attention, network


@exercise(
    tolerance=1e-3,  # a norm without the small number under its root passes, too
    cases={
        "att that gives zeros": lambda: (_parts()[0], torch.zeros_like, _parts()[2]),
        "mlp that gives zeros": lambda: (*_parts()[:2], torch.zeros_like),
        "both": _parts,
        "the gradient": Case(_parts, gradient(0)),
    },
    mistakes={
        (
            "X + att(F.layer_norm(X, size)) → F.layer_norm(X + att(X), size)",
            "Z + mlp(F.layer_norm(Z, size)) → F.layer_norm(Z + mlp(Z), size)",
        ): "each norm stands after its plus, as in 2017. In (3.11) it stands before `att` and before `mlp`.",
        "mlp(F.layer_norm(Z, size)) → mlp(Z)": "the second norm is missing: mlp reads LN(Z).",
        ("Z = X + att → Z = att", "return Z + mlp → return mlp"): "what goes in is not added: both plus are missing.",
        "return Z + mlp → return X + mlp": "the second plus adds X, and what attention brought is lost. It adds Z.",
        "mlp(F.layer_norm(Z, size)) → mlp(F.layer_norm(X, size))": "mlp reads X. It has to read Z.",
        (
            "size = X.shape[-1:] → X = F.layer_norm(X, X.shape[1:])",
            "F.layer_norm(X, size)) → X)",
            "return Z + mlp(F.layer_norm(Z, size)) → Z = F.layer_norm(Z, Z.shape[1:]); return Z + mlp(Z)",
        ): "the norm stands before the fork, so the plus adds LN(X). It adds X as it came.",
        (
            "F.layer_norm(X, size) → ((X - X.mean(-1, keepdim=True)) / (X.std(-1, keepdim=True) + 1e-6))",
            "F.layer_norm(Z, size) → ((Z - Z.mean(-1, keepdim=True)) / (Z.std(-1, keepdim=True) + 1e-6))",
        ): "the spread is divided by D - 1: `std` has that as its default. A layer norm divides by D (`correction=0`).",
        ("F.layer_norm(X, size) → F.layer_norm(X, X.shape)", "F.layer_norm(Z, size) → F.layer_norm(Z, Z.shape)"): (
            "the norm is over all tokens together. Each token should have its own mean and spread."
        ),
        (
            "F.layer_norm(X, size) → ((X - X.mean(0)) / (X.var(0, correction=0) + 1e-5).sqrt())",
            "F.layer_norm(Z, size) → ((Z - Z.mean(0)) / (Z.var(0, correction=0) + 1e-5).sqrt())",
        ): (
            "the norm is over the tokens, feature by feature, as a batch norm's. It should be over the features "
            "of a token."
        ),
        (
            "att(F.layer_norm(X, size)) → F.layer_norm(att(X), size)",
            "mlp(F.layer_norm(Z, size)) → F.layer_norm(mlp(Z), size)",
        ): "the norms are of what att and mlp return. They should be of what these read.",
        "att(F.layer_norm(X, size)) → att(X)": "the first norm is missing: att reads LN(X).",
        ("att(F.layer_norm(X, size)) → att(X)", "mlp(F.layer_norm(Z, size)) → mlp(Z)"): "both norms are missing.",
        "Z = X + att(F.layer_norm(X, size)) → Z = att(F.layer_norm(X, size))": (
            "the first plus is missing: what goes in should be added to what attention brings."
        ),
        "return Z + mlp(F.layer_norm(Z, size)) → return mlp(F.layer_norm(Z, size))": (
            "the second plus is missing: Z should be added to what mlp returns."
        ),
        "F.layer_norm(X, size) → (X / X.norm(dim=-1, keepdim=True))": (
            "the length of each token is made one. A layer norm takes off the mean and divides by the spread."
        ),
        "return Z + mlp(F.layer_norm(Z, size)) → return F.layer_norm(Z + mlp(F.layer_norm(Z, size)), size)": (
            "a third norm stands at the end. (3.11) has two."
        ),
    },
)
def transformer_block(X, att, mlp):
    """Formula (3.11). X (N, D); att and mlp take (N, D) and give (N, D)."""
    size = X.shape[-1:]
    Z = X + att(F.layer_norm(X, size))
    return Z + mlp(F.layer_norm(Z, size))


# Exercise 3.5: several heads with a mask
def _batch(*lengths, heads=2, scale=1.0, left=False):
    """Makes sequences of these lengths, with sevens for padding, and the four matrices."""

    def make():
        B, n, d = len(lengths), max(lengths), 2 * heads
        X, W_q, W_k, W_v, W_o = _normals((B, n, 5), (5, d), (5, d), (5, d), (d, 5))
        exists = torch.arange(n) < torch.tensor(lengths)[:, None]  # (B, n)
        X = X.masked_fill(~exists[..., None], 7.0)
        if left:
            X, exists = X.flip(1), exists.flip(1)
        return X, exists, scale * W_q, W_k, W_v, W_o, heads

    return make


def _rows(function, X, exists, *args):
    """The rows of real tokens apart from those of padding."""
    Y = torch.as_tensor(function(X, exists, *args))
    return {"the rows of real tokens": Y[exists], "the rows of padded tokens": Y[~exists]}


@exercise(
    tolerance=1e-4,
    cases={
        "three tokens, one head": _batch(3, heads=1),
        "three tokens, two heads": _batch(3),
        "padding at the end": Case(_batch(4, 2), _rows),
        "padding at the beginning": Case(_batch(4, 2, left=True), _rows),
        "scores in the thousands": _batch(3, scale=1e4),
        "a sequence that is all padding": _batch(3, 0),
        "the gradient with padding at the beginning": Case(_batch(3, 1, left=True), gradient(0, 2, 3, 4, 5)),
        "the gradient with scores in the thousands": Case(_batch(3, scale=1e4), gradient(0, 2, 3, 4, 5)),
    },
    mistakes={
        "order & exists[:, None, None, :] → exists[:, None, None, :]": (
            "the mask of order is missing: a token reads those after it."
        ),
        "order & exists[:, None, None, :] → order": (
            "the padding is read as if it were tokens: `exists` is missing in the mask, or it masks the tokens that "
            "ask. It belongs to the last axis, that of the tokens that are read."
        ),
        (
            ".transpose(1, 2).reshape(B, N, -1) @ W_o → .reshape(B, N, -1) @ W_o",
            "sum(-1, keepdim=True) → sum(-1, keepdim=True) * mask",
        ): ("heads are put together without swapping the axes back: (B, H, N, d) to (B, N, H, d), then the last two."),
        "math.sqrt(d) → math.sqrt(X.shape[-1])": "the scores are scaled by the size of a token, not of a head.",
        "-1e30 → -math.inf": (
            "a row with nothing to read is NaN: all its scores are -inf, and 0/0 follows (NaN times zero is NaN, too)."
        ),
        ("-1e30 → -math.inf", "Y * exists[..., None] → Y.masked_fill(~exists[..., None], 0.0)"): (
            "the values are right and a gradient is NaN: weights of NaN had met the values before the row was cleared."
        ),
        ".transpose(1, 2).reshape(B, N, -1) @ W_o → .reshape(B, N, -1) @ W_o": (
            "heads are put together without swapping the axes back: the result of (B, H, N, d) should be (B, N, "
            "H, d) first."
        ),
        "reshape(B, N, n_heads, d).transpose(1, 2) for W → reshape(B, n_heads, N, d) for W": (
            "the heads are cut in one step, (B, N, D) to (B, H, N, d): that cuts the tokens. Only the last axis "
            "should be cut."
        ),
        "reshape(B, N, n_heads, d).transpose(1, 2) for W → reshape(B, N, d, n_heads).permute(0, 3, 1, 2) for W": (
            "the heads take their features in turn, like cards. Those of a head should lie side by side."
        ),
        "order & exists[:, None, None, :] → order & ~exists[:, None, None, :]": (
            "`exists` is the wrong way round: True means a real token, which may be read."
        ),
        "order & exists[:, None, None, :] → ~order & exists[:, None, None, :]": (
            "the mask of order is the wrong way round: tokens read those after them. In "
            "`scaled_dot_product_attention` True "
            "means that a token may be read; in other places it means the opposite."
        ),
        "torch.arange(N)[:, None] >= torch.arange(N) → torch.arange(N)[:, None] <= torch.arange(N)": (
            "the mask of order is transposed: every token reads itself and those *after* it."
        ),
        "torch.arange(N)[:, None] >= torch.arange(N) → torch.arange(N)[:, None] > torch.arange(N)": (
            "a token cannot read itself: row n should read up to n, with n."
        ),
        "return Y * exists[..., None] → return Y": "the rows of padded tokens are not cleared: they should be zeros.",
        "math.sqrt(d) → math.sqrt(n_heads)": "divided by the root of how many heads there are, not of their size.",
        " / math.sqrt(d) → ": "the scores are not divided by the root of d.",
        "math.sqrt(d) → d": "divided by d, and not by its root.",
        "/ math.sqrt(d) → / d**-0.5": "divided by d ** -0.5, which multiplies by the root.",
        "exists[:, None, None, :] → exists.repeat(n_heads, 1).view(B, n_heads, 1, N)": (
            "the mask is repeated in another order than the heads: a sequence gets the padding of another one. "
            "An axis of size one for the heads should do."
        ),
        "scores - scores.max(-1, keepdim=True).values → scores": (
            "exp of a large score is infinite: subtract the largest of each row first, or use `softmax`."
        ),
        "scores - scores.max(-1, keepdim=True).values → scores - scores.max()": (
            "the largest score of all is subtracted: rows with lower scores are rounded to 0. It should be each "
            "row's own."
        ),
        "weights.sum(-1, keepdim=True) → weights.sum(-2, keepdim=True)": (
            "the weights sum to one over the tokens that ask. It should be those that are read."
        ),
        (
            ("order & exists[:, None, None, :] → order & ~exists[:, None, None, :]"),
            "sum(-1, keepdim=True) → sum(-1, keepdim=True) * mask",
        ): ("`exists` is the wrong way round: True means a real token, which may be read."),
        (
            ("order & exists[:, None, None, :] → ~order & exists[:, None, None, :]"),
            "sum(-1, keepdim=True) → sum(-1, keepdim=True) * mask",
        ): (
            "the mask of order is the wrong way round: tokens read those after them. In "
            "`scaled_dot_product_attention` True "
            "means that a token may be read; in other places it means the opposite."
        ),
        (
            ("torch.arange(N)[:, None] >= torch.arange(N) → torch.arange(N)[:, None] > torch.arange(N)"),
            "sum(-1, keepdim=True) → sum(-1, keepdim=True) * mask",
        ): ("a token cannot read itself: row n should read up to n, with n."),
        ("-1e30 → -math.inf", "order & exists[:, None, None, :] → ~order & exists[:, None, None, :]"): (
            "the mask of order is the wrong way round: tokens read those after them. In "
            "`scaled_dot_product_attention` True "
            "means that a token may be read; in other places it means the opposite."
        ),
    },
)
def masked_heads(X, exists, W_q, W_k, W_v, W_o, n_heads):
    """Causal attention of several heads on a padded batch. X (B, N, D), exists (B, N); gives (B, N, D)."""
    B, N, _ = X.shape
    d = W_q.shape[1] // n_heads
    q, k, v = ((X @ W).reshape(B, N, n_heads, d).transpose(1, 2) for W in (W_q, W_k, W_v))  # (B, H, N, d) each
    scores = q @ k.transpose(-1, -2) / math.sqrt(d)  # (B, H, N, N)
    order = torch.arange(N)[:, None] >= torch.arange(N)  # (N, N): row n reads up to n
    mask = order & exists[:, None, None, :]  # (B, 1, N, N): and no padding
    scores = torch.where(mask, scores, -1e30)  # not -inf: a row with nothing to read would be 0/0
    weights = torch.exp(scores - scores.max(-1, keepdim=True).values)
    weights = weights / weights.sum(-1, keepdim=True)

    Y = (weights @ v).transpose(1, 2).reshape(B, N, -1) @ W_o  # (B, N, D)
    return Y * exists[..., None]  # a padded token asks for nothing


# Exercise 3.6, deeper: shared keys
@exercise(
    cases={
        "as many key heads as heads": lambda: _normals((2, 3, 4), (2, 5, 4), (2, 5, 4)),
        "one key head for all": lambda: _normals((4, 3, 2), (1, 5, 2), (1, 5, 2)),
        "four heads, two key heads": lambda: _normals((4, 3, 2), (2, 5, 2), (2, 5, 2)),
        "six heads, three key heads": lambda: _normals((6, 4, 3), (3, 4, 3), (3, 4, 3)),
        "the gradient": Case(lambda: _normals((4, 3, 2), (2, 5, 2), (2, 5, 2)), gradient(0, 1, 2), 1e-4),
    },
    mistakes={
        "repeat_interleave(times, dim=0) → repeat(times, 1, 1)": "heads take the key heads alternately, 0 1 0 1.",
        "V.repeat_interleave(times, dim=0) → V.repeat(times, 1, 1)": (
            "keys and values are repeated in different orders. A head reads the values that belong to its keys."
        ),
        "return weights @ V → Q = Q.unflatten(0, (-1, times)).mean(1).repeat_interleave(times, 0)\n"
        "    return torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1) @ V": (
            "the queries of a group are averaged. Each head keeps its own query; only keys and values are shared."
        ),
        "K, V = K.repeat_interleave(times, dim=0), V.repeat_interleave(times, dim=0) → "
        "K, V = K.mean(0, keepdim=True), V.mean(0, keepdim=True)": (
            "all key heads are averaged into one. Each group should read its own."
        ),
        " / math.sqrt(Q.shape[-1]) → ": "the scores are not divided by the root of d.",
        "dim=-1)  # (H, N, M) → dim=1)  # (H, N, M)": "the softmax runs over the queries. It should run over the keys.",
    },
)
def grouped_attention(Q, K, V):
    """Formula (3.5). Q (H, N, d), K and V (G, M, d); gives (H, N, d)."""
    times = len(Q) // len(K)  # H / G heads share one
    K, V = K.repeat_interleave(times, dim=0), V.repeat_interleave(times, dim=0)  # (H, M, d) each: 0 0 1 1
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)  # (H, N, M)
    return weights @ V


# Exercise 3.7, deeper: weights of a dense layer, (N D)^2, and of self-attention, 4 D^2
my_ratio = ValueCheck(
    "my_ratio",
    expected=2500,
    mistakes={
        10_000: "N^2 = 10,000 times as many as one D x D matrix. Self-attention has four of them.",
        10_000 / 3: "that counts three matrices. W_o is one as well.",
        25: "that is what it has for one token of its output, of N.",
        40_000: "multiplied by four. The four matrices stand below the line.",
    },
    hint="Count (N D)² for the one, and the D × D matrices of the other.",
)


# Exercise 3.8, deeper: attention in two levels
def _document(*lengths, n_words=4):
    """Words whose padding holds large numbers, their mask, and two queries."""
    words, word_query, sentence_query = _normals((len(lengths), n_words, 3), (3,), (3,))
    mask = torch.arange(n_words) < torch.tensor(lengths)[:, None]
    return words.masked_fill(~mask[..., None], 9.0), mask, word_query, sentence_query


def _left_padded():
    """Sentences with their padding on the left."""
    words, mask, *queries = _document(2, 4, 1)
    return words.flip(1), mask.flip(1), *queries


def _filler_sentence():
    """The words of sentence 1 are all zero: it has words, and they say nothing."""
    words, mask, *queries = _document(2, 3, 4)
    return words * torch.tensor([1.0, 0.0, 1.0])[:, None, None], mask, *queries


@exercise(
    cases={
        "one sentence": lambda: _document(4),
        "a short sentence, padded": lambda: _document(4, 2),
        "a sentence without words": lambda: _document(3, 0, 1),
        "as many sentences as words": lambda: _document(1, 3, 2, n_words=3),
        "padding before the words": _left_padded,
        "a sentence whose words are all zero vectors": _filler_sentence,
        "the gradient": Case(lambda: _document(3, 0, 1), gradient(0, 2, 3), 1e-4),
    },
    mistakes={
        (
            "sentences = attend(word_scores, words, mask[:, None])[0][:, 0] → "
            "return attend(word_scores.flatten()[None], words.flatten(0, 1), mask.flatten()[None])[0][0]"
        ): "all words share one softmax, so a long sentence speaks louder.",
        ", mask[:, None]) → )": "the padded slots of a sentence are read. The softmax over words needs the mask.",
        ", has_words[None]) → )": (
            "a sentence without words is read: its vector of zeros takes a share of the second softmax."
        ),
        "word_query[None], words → sentence_query[None], words": "the words are asked by the query of the sentences.",
        (
            "sentence_query[None], sentences → word_query[None], sentences"
        ): "the sentences are asked by the query of the words.",
        "sentences = attend(word_scores, words, mask[:, None])[0][:, 0] → "
        "sentences = (words * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)": (
            "the words of a sentence are averaged. They should be weighed by the first query."
        ),
        "return attend(sentence_scores, sentences, has_words[None])[0][0] → return sentences[has_words].mean(0)": (
            "the sentences are averaged. They should be weighed by the second query."
        ),
        "has_words = mask.any(dim=-1) → has_words = sentences.any(dim=-1)": (
            "a sentence of zero vectors is taken for one without words. `mask` says which sentences have words."
        ),
        "has_words = mask.any(dim=-1) → has_words = mask.all(dim=-1)": (
            "sentences with padding are left out: a sentence has words if it has any."
        ),
        "has_words = mask.any(dim=-1) → has_words = mask[:, 0]": (
            "you look at the first slot alone, which may be padding although the sentence has words."
        ),
    },
)
def read_document(words, mask, word_query, sentence_query):
    """Formula (3.14). words (S, M, D), mask (S, M), queries (D,); gives (D,)."""
    word_scores = scaled_dot_score(word_query[None], words)  # (S, 1, M)
    sentences = attend(word_scores, words, mask[:, None])[0][:, 0]  # (S, D)
    has_words = mask.any(dim=-1)  # (S,)
    sentence_scores = scaled_dot_score(sentence_query[None], sentences)  # (1, S)
    return attend(sentence_scores, sentences, has_words[None])[0][0]
