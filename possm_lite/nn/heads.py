"""Several heads of attention over one sequence or two, keys and values shared by groups; the transformer block."""

from torch import Tensor, nn

from .attention import attend, scaled_dot_score


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """(..., N, H d) to (..., H, N, d): head i gets features i d to (i + 1) d of every token.

    `x.view(..., H, N, d)` has the same shape and other numbers in it: it cuts the *tokens* into heads.
    """
    return x.unflatten(-1, (n_heads, -1)).transpose(-2, -3)


def merge_heads(x: Tensor) -> Tensor:
    """(..., H, N, d) to (..., N, H d): the inverse of `split_heads`, "concat" in the formula."""
    return x.transpose(-2, -3).flatten(-2)


def share_heads(x: Tensor, n_heads: int) -> Tensor:
    """Keys or values (..., G, M, d) to (..., H, M, d): head i reads group i // (H / G). Ainslie et al. 2023, 2.2."""
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

        head_i = softmax(Q_i K_g^T / sqrt(d)) V_g,  g = i // (H / G),  output = concat(head_0, ..., head_{H-1})   (3.5)

    Of projected queries (..., Q, H d), keys (..., M, G d), values (..., M, G v) and one mask for all heads (..., Q, M)
    the output (..., Q, H v) and the weights (..., H, Q, M). Source: Vaswani et al. 2017, 3.2.2; Ainslie et al. 2023.
    """
    n_kv_heads = n_kv_heads or n_heads
    q = split_heads(queries, n_heads)  # (..., H, Q, d)
    k = share_heads(split_heads(keys, n_kv_heads), n_heads)  # (..., H, M, d)
    v = share_heads(split_heads(values, n_kv_heads), n_heads)  # (..., H, M, v)
    scores = scaled_dot_score(q, k)  # (..., H, Q, M)
    if mask is not None:
        mask = mask.broadcast_to(*scores.shape[:-3], *scores.shape[-2:]).unsqueeze(
            -3
        )  # (..., 1, Q, M)
    pooled, weights = attend(scores, v, mask)
    return merge_heads(pooled), weights


class MultiHeadAttention(nn.Module):
    """y = concat_i att(X W_q^i, C W_k^i, C W_v^i) W_o (3.3); C = X is self-attention. Vaswani et al. 2017, 3.2.2.

    `dim` is D, the features of X and y, `head_dim` d (None: D / H), `context_dim` the features of C (None: D).
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
        """x (..., Q, D), context (..., M, C) or None for x itself: output (..., Q, D), weights (..., H, Q, M)."""
        context = x if context is None else context
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
        pooled, weights = multi_head_attention(q, k, v, self.n_heads, self.n_kv_heads, mask)
        return self.to_out(pooled), weights


class TransformerBlock(nn.Module):
    """z = x + att(LN(x)), y = z + mlp(LN(z)) (3.11); mlp: D to `expansion` D, GELU, D. Xiong et al. 2020 (pre-norm).

    x (..., N, D) and a mask (..., N, N), True where a token may read: y (..., N, D).
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
        z = x + self.attention(self.attention_norm(x), mask=mask)[0]
        return z + self.mlp(self.mlp_norm(z))
