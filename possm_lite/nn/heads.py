"""Several heads of attention, keys and values shared by groups; the transformer block."""

from torch import Tensor, nn

from .attention import attend, scaled_dot_score


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Cuts the features into heads: head i gets features i d to (i + 1) d of every token.

    `x.view(..., H, N, d)` has the same shape and other numbers in it: it cuts the *tokens* into
    heads.

    Args:
        x: shape (..., N, H d).
        n_heads: H.

    Returns:
        Shape (..., H, N, d).
    """
    return x.unflatten(-1, (n_heads, -1)).transpose(-2, -3)


def merge_heads(x: Tensor) -> Tensor:
    """The inverse of `split_heads`, "concat" in the formula: x (..., H, N, d) to (..., N, H d)."""
    return x.transpose(-2, -3).flatten(-2)


def share_heads(x: Tensor, n_heads: int) -> Tensor:
    """Repeats the keys or values of each group for its heads: head i reads group i // (H / G).

    Args:
        x: keys or values of G groups, shape (..., G, M, d).
        n_heads: H, a multiple of G.

    Returns:
        Shape (..., H, M, d).

    Source: Ainslie et al. 2023, 2.2.
    """
    return x.repeat_interleave(n_heads // x.shape[-3], dim=-3)


def multi_head_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    n_heads: int,
    n_kv_heads: int | None = None,
    mask=None,
) -> tuple[Tensor, Tensor]:
    """Attention by H = `n_heads` heads side by side, each on its own slice of the features.

        head_i = softmax(Q_i K_g^T / sqrt(d)) V_g,   g = i // (H / G)
        output = concat(head_0, ..., head_{H-1})                               (3.5)

    Args:
        queries: projected, shape (..., Q, H d).
        keys: projected, shape (..., M, G d).
        values: projected, shape (..., M, G v).
        n_heads: H, heads of queries.
        n_kv_heads: G, heads of keys and values; None: H.
        mask: True where a key may be read, one for all heads, broadcastable to (..., Q, M).

    Returns:
        The output, shape (..., Q, H v), and the weights, shape (..., H, Q, M).

    Source: Vaswani et al. 2017, 3.2.2; Ainslie et al. 2023.
    """
    n_kv_heads = n_kv_heads or n_heads
    q = split_heads(queries, n_heads)  # (..., H, Q, d)
    k = share_heads(split_heads(keys, n_kv_heads), n_heads)  # (..., H, M, d)
    v = share_heads(split_heads(values, n_kv_heads), n_heads)  # (..., H, M, v)
    scores = scaled_dot_score(q, k)  # (..., H, Q, M)
    if mask is not None:
        without_heads = (*scores.shape[:-3], *scores.shape[-2:])  # (..., Q, M)
        mask = mask.broadcast_to(without_heads).unsqueeze(-3)  # (..., 1, Q, M)
    pooled, weights = attend(scores, v, mask)
    return merge_heads(pooled), weights


class MultiHeadAttention(nn.Module):
    """Projections, attention by several heads, projection; with C = X it is self-attention.

        y = concat_i att(X W_q^i, C W_k^i, C W_v^i) W_o        (3.3)

    Args:
        dim: D, features of X and y.
        n_heads: H.
        n_kv_heads: G, heads of keys and values; None: H.
        head_dim: d, features of a head; None: D / H.
        context_dim: features of C; None: D.
        bias: whether the projections have one.

    Source: Vaswani et al. 2017, 3.2.2.
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        n_kv_heads=None,
        head_dim=None,
        context_dim=None,
        bias: bool = False,
    ):
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads or n_heads
        head_dim = head_dim or dim // n_heads
        context_dim = context_dim or dim
        self.to_q = nn.Linear(dim, n_heads * head_dim, bias=bias)
        self.to_k = nn.Linear(context_dim, self.n_kv_heads * head_dim, bias=bias)
        self.to_v = nn.Linear(context_dim, self.n_kv_heads * head_dim, bias=bias)
        self.to_out = nn.Linear(n_heads * head_dim, dim, bias=bias)

    def forward(
        self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attends to the context.

        Args:
            x: X, what asks, shape (..., Q, D).
            context: C, what is read, shape (..., M, C); None: x itself.
            mask: True where the context may be read, broadcastable to (..., Q, M).

        Returns:
            The output, shape (..., Q, D), and the weights, shape (..., H, Q, M).
        """
        context = x if context is None else context
        q = self.to_q(x)
        k = self.to_k(context)
        v = self.to_v(context)
        pooled, weights = multi_head_attention(q, k, v, self.n_heads, self.n_kv_heads, mask)
        return self.to_out(pooled), weights


class TransformerBlock(nn.Module):
    """Self-attention and a feed-forward network, each with its residual.

        z = x + att(LN(x)),     y = z + mlp(LN(z))        (3.11)

    Args:
        dim: D, features of x and y.
        n_heads: H.
        expansion: the mlp goes from D to expansion * D features, GELU, and back to D.

    Source: Xiong et al. 2020 (pre-norm).
    """

    def __init__(self, dim: int, n_heads: int, expansion: int = 4):
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim)
        self.attention = MultiHeadAttention(dim, n_heads, bias=True)
        self.mlp_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, expansion * dim), nn.GELU(), nn.Linear(expansion * dim, dim)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """y.

        Args:
            x: shape (..., N, D).
            mask: True where a token may read another, broadcastable to (..., N, N).

        Returns:
            Shape (..., N, D).
        """
        attended, _ = self.attention(self.attention_norm(x), mask=mask)
        z = x + attended
        return z + self.mlp(self.mlp_norm(z))
