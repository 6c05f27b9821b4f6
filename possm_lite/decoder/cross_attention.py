"""The two cross-attentions of POSSM, computed without a key per spike or per query.

One side of both is a parameter: the latents of the input attention, the task and session query of
the output attention. The score of a query q and a key k that is t seconds away is

    s(k, t) = q . R_t k = Re sum_f conj(q_f) k_f e^{i omega_f t} + q_rest . k_rest        (1)

over the F rotated pairs, written as complex numbers. What depends on the key alone is precomputed,
one row per unit; what depends on the time alone is a phasor. `textbook.py` computes the same with
padded keys and values: read it first.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..nn.feedforward import GatedFeedForward
from ..nn.positions import Rotation, as_pairs, rotate
from ..recordings.batch import SpikeBatch
from .config import POSSMConfig


def scale_queries(queries: Tensor) -> Tensor:
    """Queries over sqrt(d): the one place where the scores of both attentions get their scale.

    Args:
        queries: shape (..., d), d the size of a head.

    Returns:
        q / sqrt(d), shape (..., d).

    Source: Vaswani et al. 2017, 3.2.1.
    """
    return queries / math.sqrt(queries.shape[-1])


class CrossAttention(nn.Module):
    """The parameters of one pre-norm cross-attention and of the feed-forward layer after it.

    `textbook.py` lists the parameters with their shapes.

    Args:
        config: sizes; `config.feed_forward` says whether there is a feed-forward layer.
        context_dim: C, features of what is read: D for tokens, h for hidden states.
        reading: how scores become weights, one of `READINGS`; "sum" has no queries and no keys.

    Attributes:
        n_heads: H, heads.
        n_kv_heads: G, heads of keys and values, each shared by H / G heads.
        head_dim: d, size of a head.
        scored: whether there are scores, and so queries and keys: not for the reading "sum".
        to_kv: gives the keys of all key-value heads first, then their values.
        feed_forward: a `GatedFeedForward`, or None.
    """

    def __init__(self, config: POSSMConfig, context_dim: int, reading: str = "softmax"):
        super().__init__()
        self.n_heads = config.n_heads
        self.n_kv_heads = config.n_kv_heads
        self.head_dim = config.head_dim
        self.reading = reading
        self.scored = reading != "sum"
        if self.scored:
            self.norm_query = nn.LayerNorm(config.dim)
            self.to_q = nn.Linear(config.dim, self.n_heads * self.head_dim, bias=False)
        self.norm_context = nn.LayerNorm(context_dim)
        n_projections = 2 if self.scored else 1
        kv_dim = n_projections * self.n_kv_heads * self.head_dim
        self.to_kv = nn.Linear(context_dim, kv_dim, bias=False)
        self.to_out = nn.Linear(self.n_heads * self.head_dim, config.dim)
        self.feed_forward = None
        if config.feed_forward:
            self.feed_forward = GatedFeedForward(config.dim, config.expansion)

    def queries(self, x: Tensor) -> Tensor:
        """The queries W_q LN(x), not scaled.

        Args:
            x: latents, or task and session embeddings, shape (..., D).

        Returns:
            A query for each head, shape (..., H, d).
        """
        return self.to_q(self.norm_query(x)).unflatten(-1, (self.n_heads, self.head_dim))

    def scaled_queries(self, x: Tensor) -> Tensor:
        """The queries over sqrt(d), of x (..., D): shape (..., H, d)."""
        return scale_queries(self.queries(x))

    def keys_values(self, context: Tensor) -> tuple[Tensor | None, Tensor]:
        """The keys and values W_kv LN(context).

        Args:
            context: tokens or hidden states, shape (..., C).

        Returns:
            Keys, None for the reading "sum", and values, shape (..., H, d) each: every key-value
            head is repeated for the heads that share it.
        """
        kv = self.to_kv(self.norm_context(context))
        kv = kv.unflatten(-1, (-1, self.n_kv_heads, self.head_dim))  # (..., 2, G, d); "sum": 1
        kv = kv.repeat_interleave(self.n_heads // self.n_kv_heads, dim=-2)  # (..., 2, H, d)
        if not self.scored:
            return None, kv.squeeze(-3)
        keys, values = kv.unbind(-3)
        return keys, values

    def project_out(self, x: Tensor, pooled: Tensor) -> Tensor:
        """Output projection, residual and feed-forward layer: x <- x + W_o z, x <- x + ff(x).

        Args:
            x: what asked, before its norm, shape (..., D).
            pooled: z, the pooled values of all heads, shape (..., H, d).

        Returns:
            The output of the layer, shape (..., D).
        """
        x = x + self.to_out(pooled.flatten(-2))
        return x if self.feed_forward is None else x + self.feed_forward(x)


def precompute_scores(queries: Tensor, keys: Tensor, n_freqs: int) -> tuple[Tensor, Tensor]:
    """The factors of (1), over sqrt(d), that do not depend on time.

    Args:
        queries: shape (..., d), not scaled.
        keys: shape (..., d).
        n_freqs: F, pairs that are rotated.

    Returns:
        q_f conj(k_f) as `as_real` writes it, shape (..., 2F): its product with the phasor, written
        likewise, is the sum of (1). And q_rest . k_rest, shape (...).
    """
    q, q_rest = as_pairs(scale_queries(queries), n_freqs)
    k, k_rest = as_pairs(keys, n_freqs)
    return as_real(q * k.conj()), (q_rest * k_rest).sum(-1)


def as_real(x: Tensor) -> Tensor:
    """Complex numbers x (..., F) as [Re x_1, Im x_1, Re x_2, ...], shape (..., 2F)."""
    return torch.view_as_real(x).flatten(-2)


def softmax_by_bin(scores: Tensor, bins: Tensor, n_bins: int) -> Tensor:
    """The softmax over the tokens of each bin.

    Args:
        scores: one row per token, shape (N, ...).
        bins: the bin of each token, from 0, non-decreasing, shape (N,); every bin has a token.
        n_bins: how many bins there are.

    Returns:
        Weights that sum to one in each bin, shape (N, ...).
    """
    counts = torch.bincount(bins, minlength=n_bins)
    peak = torch.segment_reduce(scores.detach(), "max", lengths=counts)  # (n_bins, ...)
    weights = torch.exp(scores - peak.index_select(0, bins))
    total = torch.zeros_like(peak).index_add(0, bins, weights)
    return weights / total.index_select(0, bins)


class _Chunk(NamedTuple):
    """Whole bins, counted from 0, and their N tokens: row of the tables, bin and offset of each."""

    n_bins: int
    row: Tensor
    bins: Tensor
    offset: Tensor


class InputAttention(CrossAttention):
    """Learned latents read the spikes of each bin, at a cost linear in spikes and without padding.

    Args:
        config: sizes and the reading, `config.reading`.

    Attributes:
        latents: shape (L, D).
        gain: of the readings "sigmoid" and "sum", shape (H,).
        bias: of the reading "sigmoid", shape (H,).
    """

    # tokens read at a time: their intermediate arrays then fit the cache, and memory does not grow
    # with a recording
    CHUNK = 16_384

    def __init__(self, config: POSSMConfig):
        super().__init__(config, context_dim=config.dim, reading=config.reading)
        self.latents = nn.Parameter(torch.randn(config.n_latents, config.dim) * 0.02)
        # at first the weight of a token is about 1/7: what is read of a bin of tens of spikes is
        # then of order one
        if config.reading == "sigmoid":
            self.bias = nn.Parameter(torch.full((config.n_heads,), -3.0))
            self.gain = nn.Parameter(torch.full((config.n_heads,), 3.0))
        elif config.reading == "sum":
            self.gain = nn.Parameter(torch.full((config.n_heads,), 1 / 7))

    def forward(
        self, rotation: Rotation, tokens: Tensor, batch: SpikeBatch
    ) -> tuple[Tensor, Tensor]:
        """Reads all bins of a batch.

        Args:
            rotation: gives the phasors of times.
            tokens: the embeddings of all units, row 0 of the blank token, shape (U+1, D).
            batch: spikes of all trials, N tokens in `n_bins` bins.

        Returns:
            The latents of every bin, shape (n_bins, L, D), and the weight of each token, shape
            (N, L, H). For the reading "softmax_blank" N counts the blank tokens that it adds.
        """
        if self.reading == "softmax_blank":
            batch = batch.with_blanks()
        n_freqs = len(rotation.omega)
        present, row = _present_units(batch.unit, len(tokens))
        keys, values = self.keys_values(tokens.index_select(0, present))  # (U', H, d)
        score_table = self._score_table(keys, n_freqs)
        value_table = _value_table(values, n_freqs)
        pooled, weights = [], []
        for chunk in self._chunks(row, batch.bin, batch.offset):
            time = chunk.offset - batch.bin_width_s / 2  # from the middle of the bin
            phase = rotation(time, tokens.dtype)  # (N, F)
            chunk_weights = self._weights(score_table, phase, chunk)
            pooled.append(_pool(value_table, chunk_weights, phase, chunk))
            weights.append(chunk_weights)
        return self.project_out(self.latents, torch.cat(pooled)), torch.cat(weights)

    def _score_table(self, keys: Tensor | None, n_freqs: int) -> tuple[Tensor, Tensor] | None:
        """`precompute_scores` of the units: (U', L, H, 2F) and (U', L, H); None without scores."""
        if not self.scored:
            return None
        return precompute_scores(self.queries(self.latents), keys[:, None], n_freqs)

    def _chunks(self, row: Tensor, bins: Tensor, offset: Tensor) -> Iterator[_Chunk]:
        """The tokens, cut between bins into parts of about CHUNK."""
        edges = torch.cat([bins[:: self.CHUNK].unique_consecutive(), bins[-1:] + 1])
        cuts = torch.searchsorted(bins, edges).tolist()
        for i in range(len(cuts) - 1):
            first = edges[i]
            part = slice(cuts[i], cuts[i + 1])
            n_bins = int(edges[i + 1] - first)
            yield _Chunk(n_bins, row[part], bins[part] - first, offset[part])

    def _weights(
        self, score_table: tuple[Tensor, Tensor] | None, phase: Tensor, chunk: _Chunk
    ) -> Tensor:
        """The weight of each token for each latent and head, (N, L, H); phase (N, F)."""
        if score_table is None:
            return self.gain.expand(len(chunk.row), len(self.latents), -1)
        scores = _scores(score_table, phase, chunk.row)
        if self.reading == "sigmoid":
            return self.gain * torch.sigmoid(scores + self.bias)
        return softmax_by_bin(scores, chunk.bins, chunk.n_bins)


def _present_units(unit: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """The U' units that have a token, and the place of each token's unit (N,) among them.

    Other rows of a large table then cost nothing.
    """
    is_present = torch.bincount(unit, minlength=n_rows) > 0
    present = is_present.nonzero()[:, 0]  # (U',)
    place = is_present.cumsum(0) - 1
    return present, place.index_select(0, unit)


def _value_table(values: Tensor, n_freqs: int) -> tuple[Tensor, Tensor]:
    """Values (U', H, d) of the units: rotated pairs (U', H, F, 2) and the rest (U', H, d - 2F)."""
    pairs, unrotated = as_pairs(values, n_freqs)
    # as real numbers: the gradient of a gather of complex numbers costs twice
    return torch.view_as_real(pairs), unrotated


def _scores(score_table: tuple[Tensor, Tensor], phase: Tensor, row: Tensor) -> Tensor:
    """(1) over sqrt(d) of each token, (N, L, H), from the row of its unit and its phasors."""
    waves, constant = score_table
    phase = as_real(phase)[:, None, None]  # (N, 1, 1, 2F)
    rotated = (waves.index_select(0, row) * phase).sum(-1)  # (N, L, H)
    return rotated + constant.index_select(0, row)


def _pool(
    value_table: tuple[Tensor, Tensor], weights: Tensor, phase: Tensor, chunk: _Chunk
) -> Tensor:
    """Sums of weighted values of each bin, (n_bins, L, H, d): those rotated, then the rest."""
    pairs, unrotated = value_table
    rotated = _pool_rotated(pairs, weights, phase, chunk)
    constant = _pool_unrotated(unrotated, weights, chunk)
    return torch.cat([rotated, constant], -1)


def _pool_rotated(pairs: Tensor, weights: Tensor, phase: Tensor, chunk: _Chunk) -> Tensor:
    """Each token's pairs (H, F, 2), rotated, weighted and added by bin: (n_bins, L, H, 2F)."""
    values = torch.view_as_complex(pairs.index_select(0, chunk.row))  # (N, H, F)
    values = as_real(values * phase[:, None])  # (N, H, 2F)
    weighted = weights[..., None] * values[:, None]  # (N, L, H, 2F)
    pooled = weighted.new_zeros(chunk.n_bins, *weighted.shape[1:])
    return pooled.index_add(0, chunk.bins, weighted)


def _pool_unrotated(values: Tensor, weights: Tensor, chunk: _Chunk) -> Tensor:
    """Values (U', H, d - 2F) that time does not change: (n_bins, L, H, d - 2F).

    They need only each unit's weight in a bin: a matrix product instead of a gather.
    """
    n_units = len(values)
    unit_in_bin = chunk.bins * n_units + chunk.row  # (N,)
    unit_weights = weights.new_zeros(chunk.n_bins * n_units, *weights.shape[1:])
    unit_weights = unit_weights.index_add(0, unit_in_bin, weights)
    unit_weights = unit_weights.unflatten(0, (chunk.n_bins, n_units))  # (n_bins, U', L, H)
    return torch.einsum("bulh,uhr->blhr", unit_weights, values)


class OutputAttention(CrossAttention):
    """Queries at output times read the hidden states of their own bin and the k - 1 before it."""

    # up to here one matrix product with all bins of a trial is cheaper than a copy of k rows for
    # each query
    FEW_BINS = 64

    def forward(
        self,
        rotation: Rotation,
        query: Tensor,
        times: Tensor,
        hidden: Tensor,
        ends: Tensor,
        bins: Tensor,
    ) -> Tensor:
        """Reads the hidden states of all trials.

        Args:
            rotation: gives the phasors of times.
            query: task and session embedding of each trial, shape (B, 1, D).
            times: output times, s since the start of the trial, float64, shape (B, Q).
            hidden: states of the backbone, shape (B, T, h).
            ends: when each bin ends, s, float64, shape (T,).
            bins: the k bins that each output reads, oldest first, shape (B, Q, k); negative where
                there is none.

        Returns:
            What each output reads, shape (B, Q, D).
        """
        end_phase = rotation(ends, hidden.dtype)[:, None]  # (T, 1, F)
        query_phase = rotation(times, hidden.dtype)[:, :, None]  # (B, Q, 1, F)
        queries = rotate(self.scaled_queries(query), query_phase)  # (B, Q, H, d)
        keys, values = self.keys_values(hidden)  # (B, T, H, d): once per bin
        keys = rotate(keys, end_phase)
        values = rotate(values, end_phase)
        if hidden.shape[1] <= self.FEW_BINS:
            pooled = self._read_all_bins(queries, keys, values, bins)
        else:
            pooled = self._read_gathered_bins(queries, keys, values, bins)
        return self.project_out(query, rotate(pooled, query_phase.conj()))

    @staticmethod
    def _read_all_bins(queries: Tensor, keys: Tensor, values: Tensor, bins: Tensor) -> Tensor:
        """Pooled values (B, Q, H, d): scores with every bin of the trial, most of them masked."""
        every_bin = torch.arange(keys.shape[1], device=bins.device)
        unseen = (every_bin < bins[..., :1]) | (every_bin > bins[..., -1:])  # (B, Q, T)
        scores = torch.einsum("bqhd,bthd->bqht", queries, keys)
        scores = scores.masked_fill(unseen[:, :, None], -math.inf)
        return torch.einsum("bqht,bthd->bqhd", torch.softmax(scores, -1), values)

    @staticmethod
    def _read_gathered_bins(queries: Tensor, keys: Tensor, values: Tensor, bins: Tensor) -> Tensor:
        """Pooled values (B, Q, H, d): the keys and values of each query's k bins are copied."""
        n_trials, n_bins = keys.shape[:2]
        trial = torch.arange(n_trials, device=bins.device)[:, None, None]
        row = (bins.clamp(min=0) + n_bins * trial).flatten()  # of a trial's bin among all, (B Q k,)
        keys = keys.flatten(0, 1).index_select(0, row).unflatten(0, bins.shape)  # (B, Q, k, H, d)
        values = values.flatten(0, 1).index_select(0, row).unflatten(0, bins.shape)
        # sums of products, not matrix products: thousands of products of 3 by 64 cost more in calls
        scores = (queries[:, :, None] * keys).sum(-1)  # (B, Q, k, H)
        scores = scores.masked_fill((bins < 0)[..., None], -math.inf)
        return (torch.softmax(scores, 2)[..., None] * values).sum(2)
