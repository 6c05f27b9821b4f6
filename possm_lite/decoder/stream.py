"""POSSM in real time: the spikes of one bin in, behaviour out, in NumPy and SciPy.

Formulas as in `attention.py`; what does not depend on spikes is computed once. A rig calls a step every 50 ms, and by
then its code has left the caches: fewer different functions of NumPy count for more than fewer calls.
"""

import math

import numpy as np
from scipy.special import expit

from .cells import Backbone, FeedForward, LayerNorm, Linear, constant, frozen


class StreamingDecoder:
    """A trained POSSM that decodes one bin at a time, equal to `POSSM.forward` on the whole recording.

    It holds the state of the backbone, and keys and values of the last k hidden states. Times are computed relative to
    the current bin, so the millionth bin is as exact as the first. One decoder serves one stream.

    The weights of the `model` are copied; the `session`, from 1, has its embedding and scale. Behaviour is decoded at
    `query_offsets_s` since the start of each bin, 0 <= offset < bin width.
    """

    def __init__(self, model, session: int = 1, query_offsets_s=(0.0,)):
        config = model.config
        offsets = np.array(query_offsets_s, dtype=np.float64, ndmin=1)
        if session not in range(1, config.n_sessions + 1):
            raise ValueError(f"session must lie in 1..{config.n_sessions}, not {session}.")
        if not ((offsets >= 0) & (offsets < config.bin_width_s)).all():
            raise ValueError(
                f"query_offsets_s: 0 <= offset < {config.bin_width_s} s, not {query_offsets_s}."
            )
        self.config = config
        self.query_offsets_s = offsets
        dtype = model.readout.bias.detach().cpu().numpy().dtype
        model = frozen(model)
        omega = np.asarray(model.rotation.omega)
        omega = np.pad(
            omega, (0, config.head_dim // 2 - len(omega))
        )  # 0 for pairs that are not rotated, (d/2,)
        self.input_attention = InputAttention(model, omega, dtype)
        self.backbone = Backbone(config.backbone, model.backbone, dtype)
        self.output_attention = OutputAttention(model, omega, dtype, int(session), offsets)
        self.reset()

    def reset(self):
        """Back to before the first bin."""
        self._state = self.backbone.start
        self._recent = (
            self.output_attention.start
        )  # keys and values of the last hidden states, oldest first
        self._n_bins = 0

    def step(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Decode one bin: times in seconds since the first bin began, (Q,), and behaviour there, (Q, C).

        Of each spike the unit, from 1, and the offset, in seconds since the bin began, (n,) each, in any order.
        ValueError for spikes that do not fit: the decoder is then as it was before the call.
        """
        units, offsets = checked_spikes(
            units, offsets, self.config.n_units, self.config.bin_width_s
        )
        x = self.input_attention(units, offsets)
        hidden, state = self.backbone.step(x, self._state)
        recent = self.output_attention.append(self._recent, hidden)
        decoded = self.output_attention(recent)
        times = self._n_bins * self.config.bin_width_s + self.query_offsets_s
        # the decoder changes only from here on, so an exception above leaves it as it was
        self._state, self._recent = state, recent
        self._n_bins += 1
        return times, decoded


class _Attention:
    """What both attentions have: output projection, residual and feed-forward of `attention.CrossAttention`."""

    def __init__(self, config, layer, query, dtype):
        self.config = config
        self.query = constant(query, dtype)  # (L, D) or (1, D)
        self.out = Linear(dtype, layer.to_out.weight, layer.to_out.bias)
        self.feed_forward = (
            None if layer.feed_forward is None else FeedForward(layer.feed_forward, dtype)
        )

    def project_out(self, pooled: np.ndarray) -> np.ndarray:
        """(n, H d) to (n, D)."""
        x = self.query + self.out(pooled)
        return x if self.feed_forward is None else self.feed_forward(x)


class InputAttention(_Attention):
    """The latents read the spikes of a bin: `attention.InputAttention`."""

    def __init__(self, model, omega: np.ndarray, dtype):
        config, encoder = model.config, model.encoder
        super().__init__(config, encoder, encoder.latents, dtype)
        self.omega = omega
        context = np.asarray(encoder.to_kv(encoder.norm_context(model.unit_embedding.weight)))
        *keys, values = split_heads(context, config)  # (H, U+1, d) each; "sum" has no keys
        self.values = constant(values.view(complex), dtype)
        if keys:
            queries = np.asarray(
                encoder.queries(encoder.latents) / math.sqrt(config.head_dim)
            ).view(complex)
            table = queries.swapaxes(0, 1)[:, :, None] * keys[0].view(complex).conj()[:, None]
            self.table = constant(
                table.view(float), dtype
            )  # as `attention.precompute_scores`, (H, L, U+1, d)
        if config.reading in ("sigmoid", "sum"):
            self.gain = constant(encoder.gain[:, None, None], dtype)
        if config.reading == "sigmoid":
            self.bias = constant(encoder.bias[:, None, None], dtype)

    def __call__(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The input of the backbone, (L D,)."""
        if self.config.reading == "softmax_blank" or not len(units):
            units, offsets = np.append(units, 0), np.append(offsets, 0.0)  # the blank token
        phase = phasors(
            offsets - self.config.bin_width_s / 2, self.omega, self.query.dtype
        )  # (n, d/2)
        weights = self.weights(units, phase)  # (H, L, n)
        values = self.values.take(units, 1) * phase  # (H, n, d/2)
        pooled = weights @ values.view(self.query.dtype)  # (H, L, d)
        return self.project_out(pooled.swapaxes(0, 1).reshape(len(self.query), -1)).ravel()

    def weights(self, units: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """How much each latent reads each spike, (H, L, n)."""
        if self.config.reading == "sum":
            return self.gain * np.ones((len(self.query), len(units)), self.query.dtype)
        scores = np.add.reduce(self.table.take(units, 2) * phase.view(self.query.dtype), -1)
        return (
            self.gain * expit(scores + self.bias)
            if self.config.reading == "sigmoid"
            else softmax(scores)
        )


class OutputAttention(_Attention):
    """Queries at times inside a bin read the last k hidden states: `attention.OutputAttention`, with the readout."""

    def __init__(self, model, omega: np.ndarray, dtype, session: int, offsets: np.ndarray):
        config, decoder = model.config, model.decoder
        query = (model.task_embedding + model.session_embedding.weight[session])[None]
        super().__init__(config, decoder, query, dtype)
        self.norm_context = LayerNorm(decoder.norm_context, dtype)
        self.to_kv = Linear(dtype, decoder.to_kv.weight)
        self.start = np.zeros((2, config.n_heads, 0, config.head_dim), dtype)
        ends = (
            np.arange(2 - config.context_bins, 2) * config.bin_width_s
        )  # of the bins, oldest first
        phase = phasors(ends - offsets[:, None], omega, float)[:, None]  # (Q, 1, k, d/2)
        queries = np.asarray(decoder.queries(query) / math.sqrt(config.head_dim)).view(
            complex
        )  # (1, H, d/2)
        queries = queries[:, :, None] * phase.conj()  # rotated by the time since each end
        self.queries = constant(queries.view(float), dtype)  # (Q, H, k, d)
        self.phase = constant(phase, dtype)
        mean, std = model.behavior_mean[session], model.behavior_std[session]
        self.readout = Linear(
            dtype, model.readout.weight * std[:, None], model.readout.bias * std + mean
        )

    def append(self, recent: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """Keys and values of the last k hidden states, (2, H, k or fewer, d), with those of `hidden` (h,)."""
        new = split_heads(self.to_kv(self.norm_context(hidden))[None], self.config)
        return np.concatenate([recent, new], 2)[:, :, -self.config.context_bins :]

    def __call__(self, recent: np.ndarray) -> np.ndarray:
        """Behaviour, (Q, C)."""
        keys, values = recent  # (H, n, d)
        n = keys.shape[1]
        weights = softmax(np.add.reduce(self.queries[:, :, -n:] * keys, -1))  # (Q, H, n)
        values = values.view(self.phase.dtype) * self.phase[:, :, -n:]  # (Q, H, n, d/2)
        pooled = weights[:, :, None] @ values.view(self.query.dtype)  # (Q, H, 1, d)
        return self.readout(self.project_out(pooled.reshape(len(pooled), -1)))


def split_heads(context: np.ndarray, config) -> np.ndarray:
    """Keys and values of n contexts, (n, 2 G d), by head: (2, H, n, d), each repeated for the heads that share it."""
    by_head = context.reshape(len(context), -1, config.n_kv_heads, config.head_dim).transpose(
        1, 2, 0, 3
    )
    return by_head.repeat(config.n_heads // config.n_kv_heads, 1)


def phasors(times: np.ndarray, omega: np.ndarray, dtype) -> np.ndarray:
    """e^{i omega t}, (..., F): as `nn.positions.phasors`, whole cycles are subtracted in float64."""
    cycles = times[..., None] * (omega / (2 * np.pi))
    angle = (2 * np.pi * (cycles - np.rint(cycles))).astype(dtype)
    return np.cos(angle) + 1j * np.sin(angle)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    weights = np.exp(scores - np.maximum.reduce(scores, -1, keepdims=True))
    return weights / np.add.reduce(weights, -1, keepdims=True)


def checked_spikes(
    units, offsets, n_units: int, bin_width_s: float
) -> tuple[np.ndarray, np.ndarray]:
    """The spikes of a bin as arrays of int64 and float64, (n,) each. Raises ValueError with the first wrong value."""
    units = np.asarray(units)
    offsets = np.asarray(offsets)
    if units.shape != offsets.shape or units.ndim != 1:
        raise ValueError(
            f"units and offsets must be flat and alike, not {units.shape} and {offsets.shape}."
        )
    if len(units) and (
        units.dtype.kind not in "iu" or offsets.dtype.kind not in "iuf"
    ):  # an empty list: of floats
        raise ValueError(
            f"units must be whole numbers and offsets real, not {units.dtype} and {offsets.dtype}."
        )
    wrong = [unit for unit in units.tolist() if not 1 <= unit <= n_units]
    if wrong:
        raise ValueError(
            f"units must lie in 1..{n_units}, not {wrong[0]}: `spike_units` of a recording, plus 1."
        )
    wrong = [offset for offset in offsets.tolist() if not 0 <= offset < bin_width_s]
    if wrong:
        raise ValueError(f"offsets must lie in 0 <= offset < {bin_width_s} s, not {wrong[0]}.")
    return units.astype(np.int64, copy=False), offsets.astype(np.float64, copy=False)
