"""The two cross-attentions of POSSM, computed without a key per spike or per query.

One side of both is a parameter: the latents of the input attention, the task and session query of the output
attention. The score of a query q and a key k that is t seconds away is

    s(k, t) = q . R_t k = Re sum_f conj(q_f) k_f e^{i omega_f t} + q_rest . k_rest                               (1)

over the F rotated pairs, written as complex numbers. What depends on the key alone is precomputed, one row per unit;
what depends on the time alone is a phasor. `textbook.py` computes the same with padded keys and values: read it first.
"""

import math

import torch
from torch import Tensor, nn

from ..nn.feedforward import GatedFeedForward
from ..nn.positions import Rotation, as_pairs, rotate
from ..recordings.batch import SpikeBatch
from .config import POSSMConfig


class CrossAttention(nn.Module):
    """The parameters of one pre-norm cross-attention and of the feed-forward layer after it, where there is one.

    `to_kv` gives the keys of all key-value heads first, then their values. The reading "sum" has no queries and keys.
    """

    def __init__(self, config: POSSMConfig, context_dim: int, reading: str = "softmax"):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = (
            config.n_heads,
            config.n_kv_heads,
            config.head_dim,
        )
        self.reading = reading
        self.scored = reading != "sum"
        if self.scored:
            self.norm_query = nn.LayerNorm(config.dim)
            self.to_q = nn.Linear(config.dim, self.n_heads * self.head_dim, bias=False)
        self.norm_context = nn.LayerNorm(context_dim)
        self.to_kv = nn.Linear(
            context_dim, (1 + self.scored) * self.n_kv_heads * self.head_dim, bias=False
        )
        self.to_out = nn.Linear(self.n_heads * self.head_dim, config.dim)
        self.feed_forward = (
            GatedFeedForward(config.dim, config.expansion) if config.feed_forward else None
        )

    def queries(self, x: Tensor) -> Tensor:
        """(..., D) to (..., H, d)."""
        return self.to_q(self.norm_query(x)).unflatten(-1, (self.n_heads, self.head_dim))

    def keys_values(self, context: Tensor) -> tuple[Tensor | None, Tensor]:
        """(..., C) to keys and values (..., H, d), each key-value head repeated for the heads that share it."""
        kv = self.to_kv(self.norm_context(context)).unflatten(
            -1, (-1, self.n_kv_heads, self.head_dim)
        )
        *keys, values = kv.repeat_interleave(self.n_heads // self.n_kv_heads, dim=-2).unbind(-3)
        return (keys[0] if keys else None), values

    def project_out(self, x: Tensor, pooled: Tensor) -> Tensor:
        """Output projection, residual and feed-forward: x (..., D), pooled (..., H, d) to (..., D)."""
        x = x + self.to_out(pooled.flatten(-2))
        return x if self.feed_forward is None else x + self.feed_forward(x)


def precompute_scores(queries: Tensor, keys: Tensor, n_freqs: int) -> tuple[Tensor, Tensor]:
    """(1) without time, over sqrt(d), of queries, keys (..., d): q_f conj(k_f) `as_real`, (..., 2F), and the rest."""
    q, q_rest = as_pairs(queries / math.sqrt(queries.shape[-1]), n_freqs)
    k, k_rest = as_pairs(keys, n_freqs)
    return as_real(q * k.conj()), (q_rest * k_rest).sum(-1)


def as_real(x: Tensor) -> Tensor:
    """Complex numbers (..., F) as [Re x_1, Im x_1, Re x_2, ...], (..., 2F)."""
    return torch.view_as_real(x).flatten(-2)


def softmax_by_bin(scores: Tensor, bins: Tensor, n_bins: int) -> Tensor:
    """Softmax over the tokens of each bin; scores (N, ...), bins (N,) non-decreasing, at least one token per bin."""
    counts = torch.bincount(bins, minlength=n_bins)
    peak = torch.segment_reduce(scores.detach(), "max", lengths=counts)  # (n_bins, ...)
    weights = torch.exp(scores - peak.index_select(0, bins))
    total = torch.zeros_like(peak).index_add(0, bins, weights)
    return weights / total.index_select(0, bins)


class InputAttention(CrossAttention):
    """Learned latents read the spikes of each bin, at a cost linear in spikes and without padding."""

    # tokens read at a time: their intermediate arrays then fit the cache, and memory does not grow with a recording
    CHUNK = 16_384

    def __init__(self, config: POSSMConfig):
        super().__init__(config, context_dim=config.dim, reading=config.reading)
        self.latents = nn.Parameter(torch.randn(config.n_latents, config.dim) * 0.02)
        # at first the weight of a token is about 1/7: what is read of a bin of tens of spikes is then of order one
        if config.reading == "sigmoid":
            self.bias = nn.Parameter(torch.full((config.n_heads,), -3.0))
            self.gain = nn.Parameter(torch.full((config.n_heads,), 3.0))
        elif config.reading == "sum":
            self.gain = nn.Parameter(torch.full((config.n_heads,), 1 / 7))

    def forward(
        self, rotation: Rotation, tokens: Tensor, batch: SpikeBatch
    ) -> tuple[Tensor, Tensor]:
        """Latents of every bin, (n_bins, L, D), and the weight of each token, (N, L, H).

        `tokens` are the embeddings of all units, (U+1, D). For "softmax_blank" N counts the blank tokens added.
        """
        if self.reading == "softmax_blank":
            batch = batch.with_blanks()
        is_read = (
            torch.bincount(batch.unit, minlength=len(tokens)) > 0
        )  # other rows of a large table cost nothing
        present = is_read.nonzero()[:, 0]  # (U',)
        numbers = (is_read.cumsum(0) - 1).index_select(0, batch.unit)
        n_freqs, n_units = len(rotation.omega), len(present)
        keys, values = self.keys_values(tokens.index_select(0, present))  # (U', H, d)
        if self.scored:  # (U', L, H, 2F), (U', L, H)
            waves, c = precompute_scores(self.queries(self.latents), keys[:, None], n_freqs)
        pairs, unrotated = as_pairs(values, n_freqs)  # (U', H, F), (U', H, d - 2F)
        pairs = torch.view_as_real(pairs)  # the gradient of a gather of complex numbers costs twice
        pooled, weights = [], []
        for n_bins, unit, bins, offset in self._chunks(numbers, batch.bin, batch.offset):
            phase = rotation(
                offset - batch.bin_width_s / 2, tokens.dtype
            )  # (N, F), from the middle of the bin
            if self.scored:  # (N, L, H)
                scores = (waves.index_select(0, unit) * as_real(phase)[:, None, None]).sum(
                    -1
                ) + c.index_select(0, unit)
            if self.reading == "sigmoid":
                p = self.gain * torch.sigmoid(scores + self.bias)
            elif self.reading == "sum":
                p = self.gain.expand(len(unit), len(self.latents), -1)
            else:
                p = softmax_by_bin(scores, bins, n_bins)
            rotated = as_real(
                torch.view_as_complex(pairs.index_select(0, unit)) * phase[:, None]
            )  # (N, H, 2F)
            rotated = p[..., None] * rotated[:, None]  # (N, L, H, 2F)
            rotated = rotated.new_zeros(n_bins, *rotated.shape[1:]).index_add(0, bins, rotated)
            # values that are not rotated need only each unit's weight in a bin: a matrix product instead of a gather
            of_unit = p.new_zeros(n_bins * n_units, *p.shape[1:]).index_add(
                0, bins * n_units + unit, p
            )
            constant = torch.einsum(
                "bulh,uhr->blhr", of_unit.unflatten(0, (n_bins, n_units)), unrotated
            )
            pooled.append(torch.cat([rotated, constant], -1))  # (n_bins, L, H, d)
            weights.append(p)
        return self.project_out(self.latents, torch.cat(pooled)), torch.cat(weights)

    def _chunks(self, unit: Tensor, bins: Tensor, offset: Tensor):
        """Whole bins with about CHUNK tokens: their number, then unit, bin and offset of each token."""
        edges = torch.cat([bins[:: self.CHUNK].unique_consecutive(), bins[-1:] + 1])
        tokens = torch.searchsorted(bins, edges).tolist()
        for first, last, start, stop in zip(
            edges[:-1], edges[1:], tokens[:-1], tokens[1:], strict=True
        ):
            yield int(last - first), unit[start:stop], bins[start:stop] - first, offset[start:stop]


class OutputAttention(CrossAttention):
    """Queries at output times read the hidden states of their own bin and the k - 1 before it."""

    FEW_BINS = 64  # up to here one matrix product with all bins of a trial is cheaper than a copy of k rows for each query

    def forward(
        self,
        rotation: Rotation,
        query: Tensor,
        times: Tensor,
        hidden: Tensor,
        ends: Tensor,
        bins: Tensor,
    ) -> Tensor:
        """The `query` of each trial, (B, 1, D), reads hidden states (B, T, h) at the `times` of its outputs: (B, Q, D).

        `times` are (B, Q), `ends` of bins (T,), in s; an output reads the `bins` (B, Q, k) that are not negative.
        """
        end_phase = rotation(ends, hidden.dtype)[:, None]  # (T, 1, F)
        query_phase = rotation(times, hidden.dtype)[:, :, None]  # (B, Q, 1, F)
        queries = rotate(
            self.queries(query) / math.sqrt(self.head_dim), query_phase
        )  # (B, Q, H, d)
        keys, values = (
            rotate(x, end_phase) for x in self.keys_values(hidden)
        )  # (B, T, H, d): once per bin
        if hidden.shape[1] <= self.FEW_BINS:
            bin_ = torch.arange(hidden.shape[1], device=bins.device)
            unseen = (bin_ < bins[..., :1]) | (bin_ > bins[..., -1:])  # (B, Q, T)
            scores = torch.einsum("bqhd,bthd->bqht", queries, keys).masked_fill(
                unseen[:, :, None], -math.inf
            )
            pooled = torch.einsum("bqht,bthd->bqhd", torch.softmax(scores, -1), values)
        else:
            trial = torch.arange(len(hidden), device=bins.device)[:, None, None]
            flat = (bins.clamp(min=0) + hidden.shape[1] * trial).flatten()
            keys, values = (
                x.flatten(0, 1).index_select(0, flat).unflatten(0, bins.shape)
                for x in (keys, values)
            )
            # sums of products, not matrix products: thousands of products of 3 by 64 cost more in calls
            scores = (
                (queries[:, :, None] * keys).sum(-1).masked_fill((bins < 0)[..., None], -math.inf)
            )
            pooled = (torch.softmax(scores, 2)[..., None] * values).sum(2)  # (B, Q, H, d)
        return self.project_out(query, rotate(pooled, query_phase.conj()))
