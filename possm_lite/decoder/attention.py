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

from ..blocks.feedforward import GatedFeedForward
from ..blocks.heads import share_heads
from ..blocks.positions import as_pairs, pad_phasors, rotate
from ..spikes.batch import SpikeBatch
from .config import POSSMConfig
from .time_code import TimeCode


class CrossAttention(nn.Module):
    """The parameters of one pre-norm cross-attention and of the feed-forward layer after it, where there is one.

    `to_kv` gives the keys of all key-value heads first, then their values. The readings "sum" and "mean" have no
    queries and keys. A row of queries, keys and values has r numbers: d = head_dim of them for the rotation, d + 2F for
    features of time that are added, the size C of the context for a rotated embedding.
    """

    def __init__(self, config: POSSMConfig, context_dim: int, reading: str = "softmax"):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.n_freqs, self.rotate_values = config.n_freqs, config.rotate_values
        self.rotates_context = config.time_code == "embedding"
        self.adds_time = config.time_code in ("sinusoid", "bochner", "mercer")
        self.reading = reading
        self.scored = reading not in ("sum", "mean")
        if self.scored:
            self.norm_query = nn.LayerNorm(config.dim)
            self.to_q = nn.Linear(config.dim, config.n_heads * config.head_dim, bias=False)
        self.norm_context = nn.LayerNorm(context_dim)
        self.to_kv = nn.Linear(context_dim, (1 + self.scored) * config.n_kv_heads * config.head_dim, bias=False)
        self.to_out = nn.Linear(config.n_heads * config.head_dim, config.dim)
        self.feed_forward = GatedFeedForward(config.dim, config.expansion) if config.feed_forward else None

    def queries(self, x: Tensor) -> Tensor:
        """(..., D) to (..., H, r)."""
        q = self.to_q(self.norm_query(x)).unflatten(-1, (self.n_heads, self.head_dim))
        if not (self.rotates_context or self.adds_time):
            return q
        in_context = torch.einsum("...hd,hdc->...hc", q, self._projections()[0])  # W_k' q
        return in_context if self.rotates_context else torch.cat([in_context[..., : 2 * self.n_freqs], q], -1)

    def keys_values(self, context: Tensor, rotation: TimeCode) -> tuple[Tensor | None, Tensor]:
        """(..., C) to keys and values (..., H, r), each key-value head repeated for the heads that share it."""
        x = self.norm_context(context)
        if self.rotates_context:
            x = x[..., None, :].expand(*x.shape[:-1], self.n_heads, -1)
            return (x if self.scored else None), x
        kv = self.to_kv(x).unflatten(-1, (-1, self.n_kv_heads, self.head_dim))
        kv = share_heads(kv.transpose(-2, -3), self.n_heads)  # (..., H, 2 or 1, d)
        if self.adds_time:  # the features of time zero, which are then rotated
            n_freqs = len(rotation.omega)
            features = as_real(torch.complex(kv.new_ones(n_freqs) * rotation.amplitude, kv.new_zeros(n_freqs)))
            kv = torch.cat([features.expand(*kv.shape[:-1], -1), kv], -1)
        *keys, values = kv.unbind(-2)
        return (keys[0] if keys else None), values

    def _projections(self) -> Tensor:
        """W_k, if there are scores, and W_v of every head, (2 or 1, H, d, C)."""
        weight = self.to_kv.weight.unflatten(0, (-1, self.n_kv_heads, self.head_dim))
        return share_heads(weight, self.n_heads)

    def project_values(self, pooled: Tensor) -> Tensor:
        """What is pooled, (..., H, r), to the values of each head, flat (..., H d)."""
        if self.rotates_context:
            pooled = torch.einsum("...hc,hdc->...hd", pooled, self._projections()[-1])
        elif self.adds_time:
            of_time, pooled = pooled.split([2 * self.n_freqs, self.head_dim], -1)
            W_v = self._projections()[-1][..., : 2 * self.n_freqs]
            pooled = pooled + torch.einsum("...hc,hdc->...hd", of_time, W_v)
        return pooled.flatten(-2)

    def project_out(self, x: Tensor, pooled: Tensor) -> Tensor:
        """Output projection, residual and feed-forward: x (..., D), pooled (..., H, r) to (..., D)."""
        x = x + self.to_out(self.project_values(pooled))
        return x if self.feed_forward is None else x + self.feed_forward(x)


def precompute_scores(
    queries: Tensor, keys: Tensor, n_freqs: int, head_dim: int | None = None
) -> tuple[Tensor, Tensor]:
    """The part of (1) that does not depend on time, divided by sqrt(d).

    Args:
        queries, keys: (..., r), broadcastable against each other.
        n_freqs: F.
        head_dim: d; None: r.

    Returns:
        q_f conj(k_f) as real numbers, (..., 2F), whose dot product with a phasor as real numbers is the rotated part
        of the score; and the rest of the score, (...).
    """
    scale = 1 / math.sqrt(head_dim or queries.shape[-1])
    (q, q_rest), (k, k_rest) = as_pairs(scale * queries, n_freqs), as_pairs(keys, n_freqs)
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

    # tokens processed at a time: their intermediate arrays then fit the cache, twice as fast on long input
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

    def forward(self, rotation: TimeCode, tokens: Tensor, batch: SpikeBatch) -> tuple[Tensor, Tensor]:
        """Attention pooling of the tokens of each bin.

        Args:
            rotation: the code of time.
            tokens: embedding of every unit, row 0 the blank token, (U+1, D).
            batch: N spikes.

        Returns:
            The latents of every bin, (n_bins, L, D), and the weight of each token, (N, L, H). For the reading
            "softmax" the weights of a bin sum to one; for "softmax_blank" N counts the blank tokens that were added.
        """
        if self.reading == "softmax_blank":
            batch = batch.with_blanks()
        n_freqs = len(rotation.omega)
        keys, values = self.keys_values(tokens, rotation)  # (U+1, H, r)
        if self.scored:
            queries = self.queries(self.latents)  # (L, H, r)
            # (U+1, L, H, 2F), (U+1, L, H)
            table, rest = precompute_scores(queries, keys[:, None], n_freqs, self.head_dim)
        pairs, unrotated = as_pairs(values, n_freqs if self.rotate_values else 0)  # (U+1, H, F), (U+1, H, r - 2F)
        pairs = torch.view_as_real(pairs)  # the gradient of a gather of complex numbers costs twice
        pooled, weights = [], []
        for n_bins, unit, bins, offset in self._chunks(batch):
            phase = rotation(offset - batch.bin_width_s / 2, tokens.dtype)  # (N, F), from the middle of the bin
            scores = tokens.new_zeros(len(unit), len(self.latents), self.n_heads)
            if self.scored:
                scores = (table.index_select(0, unit) * as_real(phase)[:, None, None]).sum(-1)
                scores = scores + rest.index_select(0, unit)
            p = self._weights(scores, bins, n_bins)  # (N, L, H)
            # values that are not rotated need only each unit's weight in a bin: a matrix product instead of a gather
            of_unit = p.new_zeros(n_bins * len(tokens), *p.shape[1:]).index_add(0, bins * len(tokens) + unit, p)
            z = torch.einsum("bulh,uhr->blhr", of_unit.unflatten(0, (n_bins, -1)), unrotated)  # (n_bins, L, H, r - 2F)
            if pairs.shape[-2]:
                rotated = as_real(torch.view_as_complex(pairs.index_select(0, unit)) * phase[:, None])  # (N, H, 2F)
                rotated = p[..., None] * rotated[:, None]  # (N, L, H, 2F)
                z = torch.cat([rotated.new_zeros(n_bins, *rotated.shape[1:]).index_add(0, bins, rotated), z], -1)
            pooled.append(z)
            weights.append(p)
        return self.project_out(self.latents, torch.cat(pooled)), torch.cat(weights)

    def _weights(self, scores: Tensor, bins: Tensor, n_bins: int) -> Tensor:
        """The weight of each token from its score, (N, L, H)."""
        if self.reading == "sigmoid":
            return self.gain * torch.sigmoid(scores + self.bias)
        if self.reading == "sum":
            return self.gain.expand_as(scores)
        return softmax_by_bin(scores, bins, n_bins)  # of equal scores, for "mean": 1 / n

    def _chunks(self, batch: SpikeBatch):
        """Segments of whole bins with about CHUNK tokens: number of bins, then unit, bin and offset of each token."""
        n_bins = int(batch.n_bins.sum())
        n_chunks = min(-(-len(batch.bin) // self.CHUNK), n_bins)
        edges = [n_bins * i // n_chunks for i in range(n_chunks + 1)]
        tokens = torch.searchsorted(batch.bin, torch.tensor(edges, device=batch.bin.device)).tolist()
        for i in range(n_chunks):
            chunk = slice(tokens[i], tokens[i + 1])
            yield edges[i + 1] - edges[i], batch.unit[chunk], batch.bin[chunk] - edges[i], batch.offset[chunk]


class OutputAttention(CrossAttention):
    """Queries at output times read the hidden states of their own bin and the k - 1 before it."""

    # up to here it is cheaper to score all bins of a trial, in one matrix product, than to gather k rows per query
    FEW_BINS = 64

    def forward(
        self, rotation: TimeCode, query: Tensor, hidden: Tensor, bins: Tensor, ends: Tensor, query_phase: Tensor
    ) -> Tensor:
        """Attention pooling of the hidden states.

        Args:
            rotation: the code of time.
            query: task and session embedding of each trial, or one for each query, (B, 1 or Q, D).
            hidden: states of the backbone, (B, T, h).
            bins: the k bins each query reads, rising, (B, Q, k); a negative one, before the first, is masked.
            ends: phasors of the end of each bin, (T, F).
            query_phase: phasors of the time of each query, (B, Q, F).

        Returns:
            (B, Q, D).
        """
        keys, values = self.keys_values(hidden, rotation)  # (B, T, H, r), rotated once per bin
        ends, query_phase = (pad_phasors(phase, keys.shape[-1] // 2) for phase in (ends, query_phase))
        keys = rotate(keys, ends[:, None])
        values = rotate(values, ends[:, None]) if self.rotate_values else values
        queries = self.queries(query) / math.sqrt(self.head_dim)
        queries = rotate(queries, query_phase[:, :, None])  # (B, Q, H, r)
        pool = _pool_masked if hidden.shape[1] <= self.FEW_BINS else _pool_gathered
        pooled = pool(queries, keys, values, bins)  # (B, Q, H, r)
        if self.rotate_values:
            pooled = rotate(pooled, query_phase[:, :, None].conj())
        return self.project_out(query, pooled)


def _pool_masked(queries: Tensor, keys: Tensor, values: Tensor, bins: Tensor) -> Tensor:
    """Scores every bin of the trial and masks all but the k that a query reads: no copy, but Q T scores."""
    bin_ = torch.arange(keys.shape[1], device=bins.device)
    masked = (bin_ < bins[..., :1]) | (bin_ > bins[..., -1:])  # (B, Q, T)
    scores = queries.transpose(1, 2) @ keys.permute(0, 2, 3, 1)  # (B, H, Q, T)
    weights = torch.softmax(scores.masked_fill(masked[:, None], -math.inf), -1)
    return (weights @ values.transpose(1, 2)).transpose(1, 2)


def _pool_gathered(queries: Tensor, keys: Tensor, values: Tensor, bins: Tensor) -> Tensor:
    """Gathers the k rows of keys and values that a query reads: at a cost that does not grow with the trial."""
    trial = torch.arange(len(keys), device=bins.device)[:, None, None]
    flat = (bins.clamp(min=0) + keys.shape[1] * trial).flatten()
    keys, values = (x.flatten(0, 1).index_select(0, flat).unflatten(0, bins.shape) for x in (keys, values))
    # sums of products, not matrix products: thousands of products of 3 by 64 cost more in calls than in arithmetic
    scores = (queries[:, :, None] * keys).sum(-1)  # (B, Q, k, H)
    weights = torch.softmax(scores.masked_fill((bins < 0)[..., None], -math.inf), 2)  # over the k states
    return (weights[..., None] * values).sum(2)
