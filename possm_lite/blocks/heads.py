"""Several heads of attention over one sequence or two: split, attend, merge; keys and values shared by groups."""

from torch import Tensor, nn

from .attention import attend, scaled_dot_score


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """(..., N, H d) to (..., H, N, d): head i gets features i d to (i + 1) d of every token.

    The features are cut first, then the axes are swapped. `x.view(..., H, N, d)` has the same shape and other numbers
    in it: it cuts the *tokens* into heads. Raises: ValueError if the last axis has no `n_heads` equal parts.
    """
    if x.shape[-1] % n_heads:
        raise ValueError(f"n_heads must divide the {x.shape[-1]} features of x: {n_heads} does not.")
    return x.unflatten(-1, (n_heads, -1)).transpose(-2, -3)


def merge_heads(x: Tensor) -> Tensor:
    """(..., H, N, d) to (..., N, H d): the inverse of `split_heads`, "concat" in the formula."""
    return x.transpose(-2, -3).flatten(-2)


def share_heads(x: Tensor, n_heads: int) -> Tensor:
    """Keys or values (..., G, M, d) to (..., H, M, d): neighbouring heads share, head i reads group i // (H / G).

    Raises: ValueError if G does not divide H.
    Source: Ainslie et al. 2023, section 2.2; G = 1 is the multi-query attention of Shazeer 2019.
    """
    n_kv_heads = x.shape[-3]
    if n_heads % n_kv_heads:
        raise ValueError(f"n_kv_heads must divide n_heads: {n_kv_heads} does not divide {n_heads}.")
    return x.repeat_interleave(n_heads // n_kv_heads, dim=-3)


def multi_head_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    n_heads: int,
    n_kv_heads: int | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention by `n_heads` heads side by side, each on its own slice of the features.

        head_i = softmax(Q_i K_g^T / sqrt(d)) V_g,   g = i // (H / G),   output = concat(head_1, ..., head_H)   (3.5)

    Args:
        queries, keys, values: projected, (..., Q, H d), (..., M, G d) and (..., M, G v); v may differ from d.
        n_heads, n_kv_heads: H and G; each head of keys and values is read by H / G neighbouring query heads; None: H.
        mask: True where a key may be read, broadcastable to (..., Q, M), the same for all heads.

    Returns: the output, (..., Q, H v), and the weights, (..., H, Q, M). A query that may read nothing gets zeros.
    Raises: ValueError if heads do not divide features, G does not divide H, or queries and keys differ in size.
    Source: Vaswani et al. 2017, section 3.2.2, without the projections; Ainslie et al. 2023 for G < H.
    """
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    q = split_heads(queries, n_heads)  # (..., H, Q, d)
    k, v = split_heads(keys, n_kv_heads), split_heads(values, n_kv_heads)  # (..., G, M, d), (..., G, M, v)
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"a head of queries has {q.shape[-1]} features and a head of keys {k.shape[-1]}.")
    k, v = share_heads(k, n_heads), share_heads(v, n_heads)  # (..., H, M, d), (..., H, M, v)
    scores = scaled_dot_score(q, k)  # (..., H, Q, M)
    if mask is not None:
        shape = (*scores.shape[:-3], *scores.shape[-2:])
        try:
            mask = mask.broadcast_to(shape).unsqueeze(-3)  # (..., 1, Q, M)
        except RuntimeError:
            raise ValueError(f"mask must be broadcastable to {shape}, not {tuple(mask.shape)}.") from None
    pooled, weights = attend(scores, v, mask)
    return merge_heads(pooled), weights


class MultiHeadAttention(nn.Module):
    """Multi-head attention with its four projections; without a context, self-attention.

        y = concat_i att(X W_q^i, C W_k^i, C W_v^i) W_o                                              (3.3)

    Queries are made of X, keys and values of C. Self-attention is C = X: three projections of one sequence.

    Args:
        dim: D, features of X and of y; n_heads, n_kv_heads: H and G, see `multi_head_attention`; None: H.
        head_dim: d, features of one head; None: D / H; context_dim: features of C; None: D.
        bias: whether the four projections have one.

    Raises: ValueError if n_heads does not divide dim and head_dim is not given, or n_kv_heads does not divide n_heads.
    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        head_dim: int | None = None,
        context_dim: int | None = None,
        bias: bool = False,
    ):
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        context_dim = dim if context_dim is None else context_dim
        if head_dim is None and dim % n_heads:
            raise ValueError(f"n_heads must divide dim unless head_dim is set: {n_heads} does not divide {dim}.")
        if n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads must divide n_heads: {n_kv_heads} does not divide {n_heads}.")
        head_dim = dim // n_heads if head_dim is None else head_dim
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.to_q = nn.Linear(dim, n_heads * head_dim, bias=bias)
        self.to_k = nn.Linear(context_dim, n_kv_heads * head_dim, bias=bias)
        self.to_v = nn.Linear(context_dim, n_kv_heads * head_dim, bias=bias)
        self.to_out = nn.Linear(n_heads * head_dim, dim, bias=bias)

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (..., Q, D), context (..., M, C) or None for x itself: output (..., Q, D), weights (..., H, Q, M)."""
        context = x if context is None else context
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
        pooled, weights = multi_head_attention(q, k, v, self.n_heads, self.n_kv_heads, mask)
        return self.to_out(pooled), weights
