"""Other codes of time for POSSM than the rotation, and a query for each millisecond, on padded tensors.

What chapters 11 and 13 and `make bench` compare. A code of time acts on the normalised tokens x, before they are
projected to keys and values, by tau, the seconds from the query to the token:

    embedding:                 R_tau x
    sinusoid, bochner, mercer: x + Phi(tau),   Phi(tau) = [a_1 cos w_1 tau, a_1 sin w_1 tau, a_2 cos w_2 tau, ..., 0]
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from possm_lite.course.time_features import GaussianFrequencies, MercerTime
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.cross_attention import as_real
from possm_lite.decoder.possm import query_bins
from possm_lite.decoder.textbook import cross_attention
from possm_lite.nn.attention import masked_softmax
from possm_lite.nn.positions import Rotation, log_spaced_frequencies, phasors, rotate
from possm_lite.recordings import SpikeBatch

CODES = ("rotation", "embedding", "sinusoid", "bochner", "mercer", "none")
N_PERIODS = 4  # of the Mercer features; each has F / 4 harmonics


def make_model(code: str = "rotation", per_ms: bool = False, reading: str = POSSMConfig.reading, **sizes) -> POSSM:
    """A decoder with one of `CODES`, or a query for each millisecond, and a reading of POSSM or "mean"."""
    config = POSSMConfig(reading="softmax" if reading == "mean" else reading, **sizes)
    if per_ms:
        model = MillisecondPOSSM(config)
    elif code in BEFORE_PROJECTION:
        model = PaddedPOSSM(config, code)
    else:
        model = POSSM(config)
    if code == "none":
        model.rotation.omega.zero_()  # every rotation is by zero
    if reading == "mean":  # a softmax of equal scores: the query is held at zero
        model.encoder.to_q.weight.requires_grad_(False).zero_()
    return model


class Sinusoid(nn.Module):
    """Phi with the frequencies of the rotation."""

    amplitude: float | Tensor = 1.0  # a_f

    def __init__(self, config: POSSMConfig):
        super().__init__()
        omega = log_spaced_frequencies(config.n_freqs, config.shortest_period_s, config.longest_period_s)
        self.rotation = Rotation(omega)

    @property
    def omega(self) -> Tensor:
        """w_f (F,), rad/s, float64."""
        return self.rotation.omega

    def forward(self, x: Tensor, tau: Tensor) -> Tensor:
        """x (..., D) with the time tau (...,) added."""
        phi = as_real(self.amplitude * phasors(tau, self.omega, x.dtype))  # (..., 2F)
        return x + F.pad(phi, (0, x.shape[-1] - phi.shape[-1]))


class RotatedEmbedding(Sinusoid):
    def forward(self, x: Tensor, tau: Tensor) -> Tensor:
        return rotate(x, phasors(tau, self.omega, x.dtype))


class Bochner(Sinusoid):
    """Learned frequencies N(mu, sigma^2), at first of periods around two bins."""

    def __init__(self, config: POSSMConfig):
        nn.Module.__init__(self)
        self.frequencies = GaussianFrequencies(config.n_freqs, sigma=math.pi / config.bin_width_s)

    @property
    def omega(self) -> Tensor:
        return self.frequencies().double()


class Mercer(Sinusoid):
    """Learned periods and coefficients of a truncated Fourier series, without its constant."""

    def __init__(self, config: POSSMConfig):
        nn.Module.__init__(self)
        n_harmonics, longest_s = config.n_freqs // N_PERIODS, config.longest_period_s / 2
        self.features = MercerTime(N_PERIODS, n_harmonics, config.bin_width_s, longest_s)

    @property
    def omega(self) -> Tensor:
        half_periods = self.features.log_half_periods.double().exp()
        j = torch.arange(1, self.features.raw.shape[1], device=half_periods.device)
        return (j / half_periods[:, None] * math.pi).flatten()

    @property
    def amplitude(self) -> Tensor:
        """sqrt(c_f), times sqrt(F) for entries of order one."""
        c = self.features.coefficients()[:, 1::2].flatten()
        return (len(c) * c).sqrt()


BEFORE_PROJECTION = {"embedding": RotatedEmbedding, "sinusoid": Sinusoid, "bochner": Bochner, "mercer": Mercer}


class PaddedPOSSM(POSSM):
    """POSSM with a code of time that acts before the projection of a token: nothing else is rotated."""

    def __init__(self, config: POSSMConfig, code: str):
        super().__init__(config)
        self.code = BEFORE_PROJECTION[code](config)

    def encode(self, batch: SpikeBatch) -> Tensor:
        latents, _, padded = self._read_bins(batch)
        return latents.flatten(2) * padded.bin_mask[..., None]

    def attention_weights(self, batch: SpikeBatch) -> Tensor:
        """As of POSSM, (N, L, H)."""
        _, weights, padded = self._read_bins(batch)  # weights (B, T, H, L, M)
        return weights.permute(0, 1, 4, 3, 2)[padded.spike_mask]

    def _read_bins(self, batch: SpikeBatch):
        padded = (batch.with_blanks() if self.config.reading == "softmax_blank" else batch).padded()
        tokens = self.unit_embedding(padded.padded_bin[..., 0].long())  # (B, T, M, D)
        tau = padded.padded_bin[..., 1] - batch.bin_width_s / 2  # (B, T, M), from the middle of the bin
        return *self._read(self.encoder, self.encoder.latents, tokens, tau, padded.spike_mask), padded

    def decode(self, hidden: Tensor, output_times_s: Tensor, session: Tensor) -> Tensor:
        states, ends, bins = last_states(hidden, output_times_s, self.config)
        tau = ends - output_times_s[..., None]  # (B, Q, k)
        decoded, _ = self._read(self.decoder, self.query(session)[:, None], states, tau, bins >= 0)  # (B, Q, 1, D)
        return self.unstandardize(decoded[:, :, 0], session)

    def _read(self, layer, x: Tensor, context: Tensor, tau: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Queries x (..., Q, D) read tokens (..., M, C): (..., Q, D), and the weights (..., H, Q, M)."""
        kv = layer.to_kv(self.code(layer.norm_context(context), tau))
        kv = kv.unflatten(-1, (-1, layer.n_kv_heads, layer.head_dim))  # (..., M, 2 or 1, G, d)
        *keys, values = kv.repeat_interleave(layer.n_heads // layer.n_kv_heads, -2).unbind(-3)  # (..., M, H, d)
        mask = mask[..., None, None, :]  # (..., 1, 1, M)
        if layer.reading == "sum":
            weights = mask * layer.gain[:, None, None].expand(-1, x.shape[-2], 1)
        else:
            scores = torch.einsum("...qhd, ...mhd -> ...hqm", layer.queries(x), keys[0]) / math.sqrt(layer.head_dim)
            if layer.reading == "sigmoid":
                weights = mask * layer.gain[:, None, None] * torch.sigmoid(scores + layer.bias[:, None, None])
            else:
                weights = masked_softmax(scores, mask)
        return layer.project_out(x, torch.einsum("...hqm, ...mhd -> ...qhd", weights, values)), weights


class MillisecondPOSSM(POSSM):
    """POSSM with a learned query for each millisecond of a bin, rotated by the end of the bin, as in lecture notes."""

    def __init__(self, config: POSSMConfig):
        super().__init__(config)
        self.ms_embedding = nn.Embedding(max(round(config.bin_width_s * 1000), 1), config.dim)
        nn.init.normal_(self.ms_embedding.weight, std=0.02)

    def decode(self, hidden: Tensor, output_times_s: Tensor, session: Tensor) -> Tensor:
        states, ends, bins = last_states(hidden, output_times_s, self.config)
        since_bin_s = output_times_s - (ends[..., -1] - self.config.bin_width_s)
        ms = torch.floor(1000 * since_bin_s + 1e-3).long().clamp(0, self.ms_embedding.num_embeddings - 1)  # (B, Q)
        query = (self.query(session) + self.ms_embedding(ms))[:, :, None]  # (B, Q, 1, D)
        decoded = cross_attention(self.decoder, self.rotation, query, ends[..., -1:], states, ends, bins >= 0)
        return self.unstandardize(decoded[:, :, 0], session)


def last_states(hidden: Tensor, times_s: Tensor, config: POSSMConfig) -> tuple[Tensor, Tensor, Tensor]:
    """The k states that each output time reads, (B, Q, k, h), the ends of their bins in s, and the bins, (B, Q, k)."""
    steps = torch.arange(1 - config.context_bins, 1, device=hidden.device)
    bins = query_bins(times_s, config.bin_width_s)[..., None] + steps
    trial = torch.arange(len(hidden), device=hidden.device)[:, None, None]
    return hidden[trial, bins.clamp(min=0)], (bins.to(torch.float64) + 1) * config.bin_width_s, bins
