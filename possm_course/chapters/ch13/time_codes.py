"""Other codes of time for POSSM than the rotation, and a query for each millisecond.

What chapters 11 and 13 and `make bench` compare. A code of time acts on the normalised tokens x,
before they are projected to keys and values, by tau, the seconds from the query to the token:

    embedding:                 R_tau x
    sinusoid, bochner, mercer: x + Phi(tau)

    Phi(tau) = [a_1 cos w_1 tau, a_1 sin w_1 tau, a_2 cos w_2 tau, ..., 0]
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.cross_attention import CrossAttention, as_real, softmax_by_bin
from possm_lite.decoder.possm import query_bins
from possm_lite.decoder.textbook import cross_attention
from possm_lite.nn.attention import masked_softmax
from possm_lite.nn.positions import Rotation, log_spaced_frequencies, phasors, rotate
from possm_lite.nn.time_features import GaussianFrequencies, MercerTime
from possm_lite.recordings import SpikeBatch

CODES = ("rotation", "embedding", "sinusoid", "bochner", "mercer", "none")
N_PERIODS = 4  # of the Mercer features; each has F / 4 harmonics


def make_model(
    code: str = "rotation", per_ms: bool = False, reading: str = POSSMConfig.reading, **sizes
) -> POSSM:
    """A decoder with another code of time, or with a query for each millisecond.

    Args:
        code: one of `CODES`.
        per_ms: whether it has a query for each millisecond; `code` is then the rotation.
        reading: of POSSM, or "mean": a softmax whose query is held at zero.
        sizes: further fields of `POSSMConfig`.

    Returns:
        The decoder, untrained.
    """
    config = POSSMConfig(reading="softmax" if reading == "mean" else reading, **sizes)
    if per_ms:
        model = MillisecondPOSSM(config)
    elif code in BEFORE_PROJECTION:
        model = CodedPOSSM(config, code)
    else:
        model = POSSM(config)
    if code == "none":
        model.rotation.omega.zero_()  # every rotation is by zero
    if reading == "mean":  # a softmax of equal scores: the query is held at zero
        model.encoder.to_q.weight.requires_grad_(False).zero_()
    return model


class Sinusoid(nn.Module):
    """x + Phi(tau) with the frequencies of the rotation.

    Args:
        config: of the decoder.

    Attributes:
        amplitude: a_f, a number or shape (F,).
    """

    amplitude: float | Tensor = 1.0  # a_f

    def __init__(self, config: POSSMConfig):
        super().__init__()
        omega = log_spaced_frequencies(
            config.n_freqs, config.shortest_period_s, config.longest_period_s
        )
        self.rotation = Rotation(omega)

    @property
    def omega(self) -> Tensor:
        """w_f (F,), rad/s, float64."""
        return self.rotation.omega

    def forward(self, x: Tensor, tau: Tensor) -> Tensor:
        """The token with its time added.

        Args:
            x: tokens, shape (..., D).
            tau: seconds from the query to the token, shape (...,).

        Returns:
            Coded tokens, shape (..., D).
        """
        phi = as_real(self.amplitude * phasors(tau, self.omega, x.dtype))  # (..., 2F)
        return x + F.pad(phi, (0, x.shape[-1] - phi.shape[-1]))


class RotatedEmbedding(Sinusoid):
    """R_tau x with the frequencies of the rotation."""

    def forward(self, x: Tensor, tau: Tensor) -> Tensor:
        """The tokens x (..., D), rotated by their times tau (...,) in s."""
        return rotate(x, phasors(tau, self.omega, x.dtype))


class Bochner(Sinusoid):
    """x + Phi(tau) with learned frequencies N(mu, sigma^2), at first of periods around two bins.

    Args:
        config: of the decoder.
    """

    def __init__(self, config: POSSMConfig):
        nn.Module.__init__(self)
        self.frequencies = GaussianFrequencies(config.n_freqs, sigma=math.pi / config.bin_width_s)

    @property
    def omega(self) -> Tensor:
        """w_f, shape (F,), rad/s, float64."""
        return self.frequencies().double()


class Mercer(Sinusoid):
    """x + Phi(tau) of Fourier series without their constants; periods and coefficients are learned.

    Args:
        config: of the decoder.
    """

    def __init__(self, config: POSSMConfig):
        nn.Module.__init__(self)
        n_harmonics, longest_s = config.n_freqs // N_PERIODS, config.longest_period_s / 2
        self.features = MercerTime(N_PERIODS, n_harmonics, config.bin_width_s, longest_s)

    @property
    def omega(self) -> Tensor:
        """w_f = j pi / half period, shape (F,), rad/s, float64."""
        half_periods = self.features.log_half_periods.double().exp()
        j = torch.arange(1, self.features.raw.shape[1], device=half_periods.device)
        return (j / half_periods[:, None] * math.pi).flatten()

    @property
    def amplitude(self) -> Tensor:
        """a_f = sqrt(c_f), times sqrt(F) for entries of order one, shape (F,)."""
        c = self.features.coefficients()[:, 1::2].flatten()
        return (len(c) * c).sqrt()


BEFORE_PROJECTION = {
    "embedding": RotatedEmbedding,
    "sinusoid": Sinusoid,
    "bochner": Bochner,
    "mercer": Mercer,
}


class CodedPOSSM(POSSM):
    """POSSM with a code of time that acts before a token is projected: nothing else is rotated.

    Scores and pooling are linear in the coded token c: q . W_k c = (W_k^T q) . c, and
    sum_m w_m W_v c_m = W_v sum_m w_m c_m. So no token is projected.

    Args:
        config: of the decoder.
        code: a key of `BEFORE_PROJECTION`.
    """

    def __init__(self, config: POSSMConfig, code: str):
        super().__init__(config)
        self.code = BEFORE_PROJECTION[code](config)

    def encode(self, batch: SpikeBatch) -> Tensor:
        """The bins as they are read, padded, shape (B, T, L D).

        Args:
            batch: spikes of B trials.
        """
        latents, _ = self._read_bins(batch)
        return pad_sequence(latents.flatten(1).split(batch.n_bins.tolist()), batch_first=True)

    def attention_weights(self, batch: SpikeBatch) -> Tensor:
        """The weight of each token of a batch, shape (N, L, H)."""
        return self._read_bins(batch)[1]

    def _read_bins(self, batch: SpikeBatch) -> tuple[Tensor, Tensor]:
        """As of `InputAttention`: latents (n_bins, L, D), and the weights of tokens (N, L, H)."""
        layer = self.encoder
        n_bins = int(batch.n_bins.sum())
        if layer.reading == "softmax_blank":
            batch = batch.with_blanks()
        units = layer.norm_context(self.unit_embedding.weight)
        offset = batch.offset - batch.bin_width_s / 2
        tokens = self.code(units.index_select(0, batch.unit), offset)  # (N, D)
        weights = self._input_weights(tokens, batch.bin, n_bins)  # (N, L, H)
        weighted = weights[..., None] * tokens[:, None, None]  # (N, L, H, D)
        pooled = weighted.new_zeros(n_bins, *weighted.shape[1:]).index_add(0, batch.bin, weighted)
        *_, W_v = projections(layer)
        values = torch.einsum("blhc, hdc -> blhd", pooled, W_v)
        return layer.project_out(layer.latents, values), weights

    def _input_weights(self, tokens: Tensor, bins: Tensor, n_bins: int) -> Tensor:
        """The weights (N, L, H) of coded tokens (N, D) in bins (N,), by the layer's reading."""
        layer = self.encoder
        if layer.reading == "sum":  # without scores
            return layer.gain.expand(len(tokens), len(layer.latents), -1)
        W_k, _ = projections(layer)
        queries = layer.queries(layer.latents)  # (L, H, d)
        scores = torch.einsum("lhd, hdc, nc -> nlh", queries, W_k, tokens)
        scores = scores / math.sqrt(layer.head_dim)
        if layer.reading == "sigmoid":
            return layer.gain * torch.sigmoid(scores + layer.bias)
        return softmax_by_bin(scores, bins, n_bins)

    def decode(self, hidden: Tensor, output_times_s: Tensor, session: Tensor) -> Tensor:
        """The behaviour (B, Q, C) as `POSSM.decode`, the states coded before their projection.

        Args:
            hidden: states, shape (B, T, h).
            output_times_s: in s, shape (B, Q).
            session: number of the session, shape (B,).
        """
        layer = self.decoder
        query = self.query(session)  # (B, 1, D)
        states, ends, bins = last_states(hidden, output_times_s, self.config)
        tau = ends - output_times_s[..., None]
        states = self.code(layer.norm_context(states), tau)  # (B, Q, k, h)
        W_k, W_v = projections(layer)
        scores = torch.einsum("bqhd, hdc, bjkc -> bjhk", layer.queries(query), W_k, states)
        scores = scores / math.sqrt(layer.head_dim)
        weights = masked_softmax(scores, (bins >= 0)[:, :, None])
        pooled = torch.einsum("bjhk, bjkc, hdc -> bjhd", weights, states, W_v)
        return self.unstandardize(layer.project_out(query, pooled), session)


def projections(layer: CrossAttention) -> Tensor:
    """W_k and W_v of every head of a layer.

    Args:
        layer: an attention; one that reads by "sum" has no keys.

    Returns:
        Matrices, shape (2 or 1, H, d, C).
    """
    weight = layer.to_kv.weight.unflatten(0, (-1, layer.n_kv_heads, layer.head_dim))
    return weight.repeat_interleave(layer.n_heads // layer.n_kv_heads, 1)


class MillisecondPOSSM(POSSM):
    """POSSM with a learned query for each millisecond of a bin, as in lecture notes.

    The query is rotated by the end of the bin.

    Args:
        config: of the decoder.
    """

    def __init__(self, config: POSSMConfig):
        super().__init__(config)
        self.ms_embedding = nn.Embedding(max(round(config.bin_width_s * 1000), 1), config.dim)
        nn.init.normal_(self.ms_embedding.weight, std=0.02)

    def decode(self, hidden: Tensor, output_times_s: Tensor, session: Tensor) -> Tensor:
        """The behaviour (B, Q, C) as `POSSM.decode`, by a query for each output time's millisecond.

        Args:
            hidden: states, shape (B, T, h).
            output_times_s: in s, shape (B, Q).
            session: number of the session, shape (B,).
        """
        states, ends, bins = last_states(hidden, output_times_s, self.config)
        since_bin_s = output_times_s - (ends[..., -1] - self.config.bin_width_s)
        ms = (
            torch.floor(1000 * since_bin_s + 1e-3)
            .long()
            .clamp(0, self.ms_embedding.num_embeddings - 1)
        )  # (B, Q)
        query = (self.query(session) + self.ms_embedding(ms))[:, :, None]  # (B, Q, 1, D)
        decoded = cross_attention(
            self.decoder, self.rotation, query, ends[..., -1:], states, ends, bins >= 0
        )
        return self.unstandardize(decoded[:, :, 0], session)


def last_states(
    hidden: Tensor, times_s: Tensor, config: POSSMConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """The k states that each output time reads.

    Args:
        hidden: states, shape (B, T, h).
        times_s: output times in s, shape (B, Q).
        config: of the decoder; k is its `context_bins`.

    Returns:
        States (B, Q, k, h), ends of their bins in s (B, Q, k), and the bins (B, Q, k), negative
        before the first.
    """
    steps = torch.arange(1 - config.context_bins, 1, device=hidden.device)
    bins = query_bins(times_s, config.bin_width_s)[..., None] + steps  # (B, Q, k)
    ends = (bins.to(torch.float64) + 1) * config.bin_width_s
    trial = torch.arange(len(hidden), device=hidden.device)[:, None, None]
    return hidden[trial, bins.clamp(min=0)], ends, bins
