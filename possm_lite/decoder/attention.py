"""The two cross-attentions of POSSM, computed without ever forming a key per spike or per query.

Both have one side that is a parameter: the latents of the input attention, the task and session query of the output
attention. The score of a parameter q against a key k that is t seconds away is

    s(k, t) = q . R_t k = sum_f Re( conj(q_f) k_f e^{i omega_f t} ) + rest                                       (1)

over the F rotated pairs, written as complex numbers. What depends on the key alone is folded into a small table (one
row per unit, one row per hidden state); what depends on the time alone is a phasor. The textbook's form of the same,
with keys, values and padding, stands in `textbook.py`; a test holds the two equal.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..blocks.feedforward import GatedFeedForward
from ..blocks.positions import as_pairs, log_spaced_frequencies, pad_phasors, phasors, rotate
from ..blocks.time_features import rotary_kernel
from .config import POSSMConfig


class Rotation(nn.Module):
    """Angular frequencies shared by both attentions, shape (F,). They stay float64 whatever the model is cast to."""

    def __init__(self, config: POSSMConfig):
        super().__init__()
        omega = log_spaced_frequencies(config.n_freqs, config.shortest_period_s, config.longest_period_s)
        self.register_buffer("omega", omega)

    def _apply(self, fn, recurse=True):
        omega = self.omega
        super()._apply(fn, recurse)
        self.omega = omega.to(self.omega.device)  # moved, never rounded: in float32 an angle loses 1e-4 rad
        return self

    def forward(self, times: Tensor, dtype: torch.dtype) -> Tensor:
        return phasors(times, self.omega, dtype)


class CrossAttention(nn.Module):
    """The parameters of one pre-norm cross-attention and, where the configuration has it, its feed-forward layer.

    `to_kv` gives the keys of all key-value heads first, then their values.
    """

    def __init__(self, config: POSSMConfig, context_dim: int):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.rotate_values = config.rotate_values
        self.norm_query = nn.LayerNorm(config.dim)
        self.norm_context = nn.LayerNorm(context_dim)
        self.to_q = nn.Linear(config.dim, config.n_heads * config.head_dim, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * config.n_kv_heads * config.head_dim, bias=False)
        self.to_out = nn.Linear(config.n_heads * config.head_dim, config.dim)
        self.feed_forward = GatedFeedForward(config.dim, config.expansion) if config.feed_forward else None

    def queries(self, x: Tensor) -> Tensor:
        """(..., D) to (..., H, d)."""
        return self.to_q(self.norm_query(x)).unflatten(-1, (self.n_heads, self.head_dim))

    def keys_values(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """(..., C) to keys and values (..., H, d), each key-value head repeated for the heads that share it."""
        kv = self.to_kv(self.norm_context(context)).unflatten(-1, (2, self.n_kv_heads, self.head_dim))
        kv = kv.repeat_interleave(self.n_heads // self.n_kv_heads, dim=-2)
        return kv.select(-3, 0), kv.select(-3, 1)

    def finish(self, x: Tensor, pooled: Tensor) -> Tensor:
        """Residual, output projection and feed-forward: x (..., D), pooled (..., H, d) to (..., D)."""
        x = x + self.to_out(pooled.flatten(-2))
        return x if self.feed_forward is None else x + self.feed_forward(x)


def fold_scores(queries: Tensor, keys: Tensor, n_freqs: int) -> tuple[Tensor, Tensor]:
    """The part of (1) that no time enters, both already divided by sqrt(d).

    Args:
        queries, keys: (..., d), broadcastable against each other.

    Returns:
        A table (..., 2F), [Re w_1, -Im w_1, Re w_2, ...] of w_f = conj(q_f) k_f, whose dot product with a phasor as
        real numbers is the rotated part of the score; and the rest of the score, (...).
    """
    a, b, rest = rotary_kernel(queries / math.sqrt(queries.shape[-1]), keys, n_freqs)
    return torch.stack([a, b], -1).flatten(-2), rest


def as_real(phase: Tensor) -> Tensor:
    """Phasors (..., F) as real numbers [cos, sin, cos, ...], (..., 2F), without copying."""
    return torch.view_as_real(phase).flatten(-2)


def softmax_by_bin(scores: Tensor, bins: Tensor, n_bins: int) -> Tensor:
    """Softmax over the tokens of each bin; scores (N, ...), bins (N,) rising, every bin holding a token."""
    counts = torch.bincount(bins, minlength=n_bins)
    peak = torch.segment_reduce(scores.detach(), "max", lengths=counts)  # (n_bins, ...)
    weights = torch.exp(scores - peak.index_select(0, bins))
    total = torch.zeros_like(peak).index_add(0, bins, weights)
    return weights / total.index_select(0, bins)


class InputAttention(CrossAttention):
    """Learned latents read the spikes of each bin, at a cost linear in spikes and without padding."""

    # tokens worked on at a time: what is computed for them then stays in the cache, twice as fast on long input
    CHUNK = 16_384

    def __init__(self, config: POSSMConfig):
        super().__init__(config, context_dim=config.dim)
        self.latents = nn.Parameter(torch.randn(config.n_latents, config.dim) * 0.02)

    def forward(
        self, rotation: Rotation, tokens: Tensor, unit: Tensor, bins: Tensor, times: Tensor, n_bins: int
    ) -> Tensor:
        """Read every bin.

        Args:
            rotation: gives the phasors of times.
            tokens: embedding of every unit, row 0 the blank token, (U+1, D).
            unit, bins: unit and flat bin of each token, (N,), bins rising and none of them empty.
            times: seconds from the middle of its bin, where the latent stands, to each token, (N,), float64.
            n_bins: bins in all.

        Returns:
            (n_bins, L, D).
        """
        tables = self._tables(tokens, len(rotation.omega))
        pooled = []
        for first, last, chunk in self._chunks(bins, n_bins):
            unit_, bins_ = unit[chunk], bins[chunk] - first
            phase = rotation(times[chunk], tokens.dtype)  # (N, F)
            weights = self._weights(tables, unit_, bins_, phase, last - first)
            pooled.append(self._pool(weights, phase, tables, unit_, bins_, last - first))
        return self.finish(self.latents, torch.cat(pooled))  # (n_bins, L, D)

    def weights(
        self, rotation: Rotation, tokens: Tensor, unit: Tensor, bins: Tensor, times: Tensor, n_bins: int
    ) -> Tensor:
        """How much each latent and head reads each token, (N, L, H): sums to one over the tokens of a bin."""
        phase = rotation(times, tokens.dtype)
        return self._weights(self._tables(tokens, len(rotation.omega)), unit, bins, phase, n_bins)

    def _tables(self, tokens: Tensor, n_freqs: int):
        """Of each unit: score table P, (U+1, L, H, 2F) and (U+1, L, H); values (U+1, H, F, 2) and (U+1, H, r)."""
        queries = self.queries(self.latents)  # (L, H, d)
        keys, values = self.keys_values(tokens)  # (U+1, H, d)
        pairs, rest = as_pairs(values, n_freqs if self.rotate_values else 0)
        return *fold_scores(queries, keys[:, None], n_freqs), torch.view_as_real(pairs), rest

    def _chunks(self, bins: Tensor, n_bins: int):
        """Runs of whole bins of about CHUNK tokens: first bin, last bin + 1, slice of tokens."""
        n_chunks = min(-(-len(bins) // self.CHUNK), n_bins)
        edges = [n_bins * i // n_chunks for i in range(n_chunks + 1)]
        tokens = torch.searchsorted(bins, torch.tensor(edges, device=bins.device)).tolist()
        for i in range(n_chunks):
            yield edges[i], edges[i + 1], slice(tokens[i], tokens[i + 1])

    def _weights(self, tables, unit, bins, phase, n_bins):
        table, rest = tables[:2]
        scores = (table.index_select(0, unit) * as_real(phase)[:, None, None]).sum(-1) + rest.index_select(0, unit)
        return softmax_by_bin(scores, bins, n_bins)  # (N, L, H)

    def _pool(self, weights, phase, tables, unit, bins, n_bins):
        """sum_i p_i R_t v_i over the spikes i of each bin, (n_bins, L, H, d)."""
        pairs, rest = tables[2:]
        # what is not rotated needs only the weight each unit has in a bin: a matrix product instead of a gather
        by_unit = weights.new_zeros(n_bins * len(rest), *weights.shape[1:])
        by_unit = by_unit.index_add(0, bins * len(rest) + unit, weights).unflatten(0, (n_bins, len(rest)))
        pooled = torch.einsum("bulh,uhr->blhr", by_unit, rest)
        if not self.rotate_values:
            return pooled
        # gathered and added up as real numbers: the gradient of a gather of complex ones costs twice
        of_token = torch.view_as_complex(pairs.index_select(0, unit))  # (N, H, F)
        turned = weights[..., None] * as_real(of_token * phase[:, None])[:, None]  # (N, L, H, 2F)
        turned = turned.new_zeros(n_bins, *turned.shape[1:]).index_add(0, bins, turned)
        return torch.cat([turned, pooled], -1)


class OutputAttention(CrossAttention):
    """Queries at wanted times read the hidden states of their own bin and the k - 1 before it."""

    # up to here it is cheaper to score all bins of a trial, in one matrix product, than to gather k rows per query
    FEW_BINS = 64

    def forward(self, query: Tensor, hidden: Tensor, bins: Tensor, ends: Tensor, seen_from: Tensor) -> Tensor:
        """Answer every query.

        Args:
            query: task and session embedding of each trial, or one for each query, (B, 1 or Q, D).
            hidden: states of the backbone, (B, T, h).
            bins: the k bins each query looks at, rising, (B, Q, k); a negative one, before the first, is not read.
            ends: phasors of the end of each bin, (T, F).
            seen_from: phasors of the time each query stands at, (B, Q, F).

        Returns:
            (B, Q, D).
        """
        ends, seen_from = (pad_phasors(phase, self.head_dim // 2) for phase in (ends, seen_from))
        keys, values = self.keys_values(hidden)  # (B, T, H, d), turned once per bin
        keys = rotate(keys, ends[:, None])
        values = rotate(values, ends[:, None]) if self.rotate_values else values
        queries = rotate(self.queries(query) / math.sqrt(self.head_dim), seen_from[:, :, None])  # (B, Q, H, d)
        read = _read_among_all if hidden.shape[1] <= self.FEW_BINS else _read_gathered
        pooled = read(queries, keys, values, bins)  # (B, Q, H, d)
        if self.rotate_values:
            pooled = rotate(pooled, seen_from[:, :, None].conj())
        return self.finish(query, pooled)


def _read_among_all(queries: Tensor, keys: Tensor, values: Tensor, bins: Tensor) -> Tensor:
    """Score every bin of the trial and mask all but the k that a query looks at: no copy, but Q T scores."""
    bin_ = torch.arange(keys.shape[1], device=bins.device)
    unseen = (bin_ < bins[..., :1]) | (bin_ > bins[..., -1:])  # (B, Q, T)
    scores = queries.transpose(1, 2) @ keys.permute(0, 2, 3, 1)  # (B, H, Q, T)
    weights = torch.softmax(scores.masked_fill(unseen[:, None], -math.inf), -1)
    return (weights @ values.transpose(1, 2)).transpose(1, 2)


def _read_gathered(queries: Tensor, keys: Tensor, values: Tensor, bins: Tensor) -> Tensor:
    """Gather the k rows of keys and values that a query looks at: at a cost that does not grow with the trial."""
    trial = torch.arange(len(keys), device=bins.device)[:, None, None]
    flat = (bins.clamp(min=0) + keys.shape[1] * trial).flatten()
    keys, values = (x.flatten(0, 1).index_select(0, flat).unflatten(0, bins.shape) for x in (keys, values))
    # sums of products, not matrix products: thousands of products of 3 by 64 cost more in calls than in arithmetic
    scores = (queries[:, :, None] * keys).sum(-1)  # (B, Q, k, H)
    weights = torch.softmax(scores.masked_fill((bins < 0)[..., None], -math.inf), 2)  # over the k states
    return (weights[..., None] * values).sum(2)
