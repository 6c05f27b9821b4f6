"""POSSM in real time: the spikes of one bin in, behaviour out, in NumPy and SciPy.

Formulas as in `cross_attention.py`; what does not depend on spikes is computed once. A rig calls a
step every 50 ms, and by then its code has left the caches: fewer different functions of NumPy count
for more than fewer calls.
"""

import numpy as np
import scipy

from .backbones import REGISTRY
from .cells import Backbone, FeedForward, LayerNorm, Linear, constant, frozen


class StreamingDecoder:
    """A trained POSSM that decodes bin by bin, equal to `POSSM.forward` on the whole recording.

    It holds the state of the backbone, and keys and values of the last k hidden states. Times are
    computed relative to the current bin, so the millionth bin is as exact as the first. One decoder
    serves one stream.

    Args:
        model: a `POSSM`, whose weights are copied.
        session: whose embedding and scale are used, from 1.
        query_offsets_s: where in each bin behaviour is decoded, s since its start,
            0 <= offset < bin width, one or (Q,).

    Attributes:
        config: the configuration of the model.
        query_offsets_s: as given, shape (Q,), float64.

    Raises:
        ValueError: the model has no such session, or an offset lies outside the bin.
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
        n_unrotated = config.head_dim // 2 - len(omega)
        omega = np.pad(omega, (0, n_unrotated))  # (d/2,), 0 for pairs that are not rotated
        self.input_attention = InputAttention(model, omega, dtype)
        self.backbone = Backbone(REGISTRY[config.backbone].cell, model.backbone, dtype)
        self.output_attention = OutputAttention(model, omega, dtype, int(session), offsets)
        self.reset()

    def reset(self):
        """Back to before the first bin."""
        self._state = self.backbone.start
        # keys and values of the last hidden states, oldest first
        self._recent = self.output_attention.start
        self._n_bins = 0

    def step(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Decodes one bin.

        Args:
            units: the unit of each spike of the bin, from 1, shape (n,), in any order.
            offsets: when each spike occurred, s since the bin began, shape (n,).

        Returns:
            Times, s since the first bin began, shape (Q,), and behaviour there, in the unit of the
            recording, shape (Q, C); of classes their probabilities, shape (Q, K).

        Raises:
            ValueError: spikes that do not fit; the decoder is then as it was before the call.
        """
        units, offsets = checked_spikes(
            units, offsets, self.config.n_units, self.config.bin_width_s
        )
        x = self.input_attention(units, offsets)
        hidden, state = self.backbone.step(x, self._state)
        recent = self.output_attention.append(self._recent, hidden)
        decoded = self.output_attention(recent)
        if self.config.decodes == "classes":
            decoded = softmax(decoded)
        times = self._n_bins * self.config.bin_width_s + self.query_offsets_s
        # the decoder changes only from here on, so an exception above leaves it as it was
        self._state, self._recent = state, recent
        self._n_bins += 1
        return times, decoded


class _Attention:
    """What both attentions have: output projection, residual, feed-forward of `CrossAttention`."""

    def __init__(self, config, layer, query, dtype):
        self.config = config
        self.query = constant(query, dtype)  # (L, D) or (1, D)
        self.out = Linear(dtype, layer.to_out.weight, layer.to_out.bias)
        self.feed_forward = None
        if layer.feed_forward is not None:
            self.feed_forward = FeedForward(layer.feed_forward, dtype)

    def project_out(self, pooled: np.ndarray) -> np.ndarray:
        """`CrossAttention.project_out` of the query: pooled (n, H d) to (n, D)."""
        x = self.query + self.out(pooled)
        return x if self.feed_forward is None else self.feed_forward(x)


class InputAttention(_Attention):
    """The latents read the spikes of a bin: `cross_attention.InputAttention`.

    Args:
        model: a `frozen` POSSM.
        omega: angular frequencies, rad/s, 0 for pairs that are not rotated, shape (d/2,).
        dtype: precision.

    Attributes:
        table: what `precompute_scores` gives for every unit, real and imaginary part side by side,
            also of the pairs that are not rotated, shape (H, L, U+1, d).
        values: of every unit, pairs as complex numbers, shape (H, U+1, d/2).
        gain: shape (H, 1, 1), likewise `bias`, of the readings that have them.
    """

    def __init__(self, model, omega: np.ndarray, dtype):
        config, encoder = model.config, model.encoder
        super().__init__(config, encoder, encoder.latents, dtype)
        self.omega = omega
        context = np.asarray(encoder.to_kv(encoder.norm_context(model.unit_embedding.weight)))
        keys_values = split_heads(context, config)  # (2, H, U+1, d); "sum" has no keys: (1, ...)
        self.values = constant(keys_values[-1].view(complex), dtype)
        if encoder.scored:
            keys = keys_values[0].view(complex)  # (H, U+1, d/2)
            queries = np.asarray(encoder.scaled_queries(encoder.latents)).view(complex)
            queries = queries.swapaxes(0, 1)  # (H, L, d/2)
            table = queries[:, :, None] * keys.conj()[:, None]  # (H, L, U+1, d/2)
            self.table = constant(table.view(float), dtype)
        if config.reading in ("sigmoid", "sum"):
            self.gain = constant(encoder.gain[:, None, None], dtype)
        if config.reading == "sigmoid":
            self.bias = constant(encoder.bias[:, None, None], dtype)

    def __call__(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The input of the backbone, (L D,)."""
        if self.config.reading == "softmax_blank" or not len(units):  # a blank token
            units = np.append(units, 0)
            offsets = np.append(offsets, 0.0)
        times = offsets - self.config.bin_width_s / 2  # from the middle of the bin
        phase = phasors(times, self.omega, self.query.dtype)  # (n, d/2)
        weights = self.weights(units, phase)  # (H, L, n)
        values = self.values.take(units, 1) * phase  # (H, n, d/2)
        pooled = weights @ values.view(self.query.dtype)  # (H, L, d)
        by_latent = pooled.swapaxes(0, 1).reshape(len(self.query), -1)  # (L, H d)
        return self.project_out(by_latent).ravel()

    def weights(self, units: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """How much each latent reads each spike.

        Args:
            units: shape (n,).
            phase: phasors of the spikes' times from the middle of the bin, shape (n, d/2).

        Returns:
            Shape (H, L, n).
        """
        if self.config.reading == "sum":
            return self.gain * np.ones((len(self.query), len(units)), self.query.dtype)
        scores = np.add.reduce(self.table.take(units, 2) * phase.view(self.query.dtype), -1)
        if self.config.reading == "sigmoid":
            return self.gain * scipy.special.expit(scores + self.bias)
        return softmax(scores)


class OutputAttention(_Attention):
    """Queries inside a bin read the last k hidden states: `cross_attention.OutputAttention`.

    The readout is part of it.

    Args:
        model: a `frozen` POSSM.
        omega: angular frequencies, rad/s, 0 for pairs that are not rotated, shape (d/2,).
        dtype: precision.
        session: whose embedding and scale are used, from 1.
        offsets: of the queries, s since the start of the bin, shape (Q,).

    Attributes:
        start: no keys and values yet, shape (2, H, 0, d).
        queries: scaled, rotated by the time since the end of each bin, shape (Q, H, k, d).
        phase: phasors of the time from each query to the end of each bin, shape (Q, 1, k, d/2).
    """

    def __init__(self, model, omega: np.ndarray, dtype, session: int, offsets: np.ndarray):
        config, decoder = model.config, model.decoder
        query = (model.task_embedding + model.session_embedding.weight[session])[None]
        super().__init__(config, decoder, query, dtype)
        self.norm_context = LayerNorm(decoder.norm_context, dtype)
        self.to_kv = Linear(dtype, decoder.to_kv.weight)
        self.start = np.zeros((2, config.n_heads, 0, config.head_dim), dtype)
        # of the bins, oldest first, from the start of the current one
        ends = np.arange(2 - config.context_bins, 2) * config.bin_width_s  # (k,)
        phase = phasors(ends - offsets[:, None], omega, float)[:, None]  # (Q, 1, k, d/2)
        queries = np.asarray(decoder.scaled_queries(query)).view(complex)  # (1, H, d/2)
        queries = queries[:, :, None] * phase.conj()  # (Q, H, k, d/2)
        self.queries = constant(queries.view(float), dtype)
        self.phase = constant(phase, dtype)
        mean, std = model.behavior_mean[session], model.behavior_std[session]
        weight = model.readout.weight * std[:, None]
        self.readout = Linear(dtype, weight, model.readout.bias * std + mean)

    def append(self, recent: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """Keys and values of the last k hidden states, with those of one more.

        Args:
            recent: of k or fewer states, oldest first, shape (2, H, n, d).
            hidden: the new state, shape (h,).

        Returns:
            Shape (2, H, k or fewer, d).
        """
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
    """Projected keys and values by head.

    Args:
        context: of n contexts, keys of all G key-value heads first, shape (n, 2 G d).
        config: a `POSSMConfig`.

    Returns:
        Shape (2, H, n, d), each key-value head repeated for the heads that share it; where there
        are no keys, shape (1, H, n, d).
    """
    by_head = context.reshape(len(context), -1, config.n_kv_heads, config.head_dim)
    by_head = by_head.transpose(1, 2, 0, 3)  # (2, G, n, d)
    return by_head.repeat(config.n_heads // config.n_kv_heads, 1)


def phasors(times: np.ndarray, omega: np.ndarray, dtype) -> np.ndarray:
    """e^{i omega t}; as in `nn.positions.phasors`, whole cycles are subtracted in float64.

    Args:
        times: s, float64, shape (...,).
        omega: angular frequencies, rad/s, shape (F,).
        dtype: precision of the angles.

    Returns:
        Complex numbers, shape (..., F).
    """
    cycles = times[..., None] * (omega / (2 * np.pi))
    angle = (2 * np.pi * (cycles - np.rint(cycles))).astype(dtype)
    return np.cos(angle) + 1j * np.sin(angle)


def softmax(scores: np.ndarray) -> np.ndarray:
    """The softmax over the last axis of `scores` (..., n), the same shape."""
    weights = np.exp(scores - np.maximum.reduce(scores, -1, keepdims=True))
    return weights / np.add.reduce(weights, -1, keepdims=True)


def checked_spikes(
    units, offsets, n_units: int, bin_width_s: float
) -> tuple[np.ndarray, np.ndarray]:
    """The spikes of a bin as arrays.

    Args:
        units: of each spike, from 1, array-like, shape (n,).
        offsets: s since the bin began, array-like, shape (n,).
        n_units: how many units the decoder has.
        bin_width_s: width of a bin, s.

    Returns:
        Units, int64, and offsets, float64, shape (n,) each.

    Raises:
        ValueError: names the first value that is wrong, and what is allowed.
    """
    units = np.asarray(units)
    offsets = np.asarray(offsets)
    if units.shape != offsets.shape or units.ndim != 1:
        raise ValueError(
            f"units and offsets must be flat and alike, not {units.shape} and {offsets.shape}."
        )
    kinds_fit = units.dtype.kind in "iu" and offsets.dtype.kind in "iuf"
    if len(units) and not kinds_fit:  # an empty list becomes an array of floats
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
