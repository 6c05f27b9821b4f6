"""POSSM in real time: the spikes of one bin in, behaviour out, in NumPy and SciPy.

Formulas as in `attention.py`. What does not depend on spikes is computed once: a row of scores and a value for each
unit, and the rotated queries of the output attention.

A rig calls a step every 50 ms, and by then its code has left the caches. To fetch it takes longer than to run it, so
fewer different functions of NumPy count for more than fewer calls.
"""

import math

import numpy as np
from scipy.special import expit

from .cells import Backbone, Constants, FeedForward, frozen, normalize, with_norm


class StreamingDecoder:
    """A trained POSSM that decodes one bin at a time.

    Holds the state of the backbone, and keys and values of the last k hidden states; equal to `POSSM.forward` on the
    whole recording. Times are computed relative to the current bin, so the output of the millionth bin is as exact as
    that of the first. The times it returns count from the first bin; each is computed by itself, not summed up, so it
    is off by its own rounding alone, 1e-11 s at the millionth bin.

    One decoder serves one stream. Decoders of one model share nothing, so each thread may have its own. Threads may
    also pass one around, but not use it at once: a call during a step raises RuntimeError and changes nothing.

    Args:
        model: a trained POSSM; its weights are copied.
        session: the session whose embedding and scale are used, from 1.
        query_offsets_s: times since the start of each bin at which behaviour is wanted, 0 <= offset < bin width.

    Raises:
        ValueError: for a session the model does not have, or an offset outside the bin.
    """

    def __init__(self, model, session: int = 1, query_offsets_s=(0.0,)):
        config = model.config
        offsets = np.array(query_offsets_s, dtype=np.float64, ndmin=1)
        if session not in range(1, config.n_sessions + 1):
            raise ValueError(f"session must lie in 1..{config.n_sessions}, not {session}.")
        if offsets.ndim != 1 or not len(offsets) or not ((offsets >= 0) & (offsets < config.bin_width_s)).all():
            raise ValueError(
                f"query_offsets_s must lie in 0 <= offset < {config.bin_width_s} s, not {query_offsets_s}."
            )
        self.config = config
        self.query_offsets_s = offsets
        dtype = model.readout.bias.detach().cpu().numpy().dtype
        model = frozen(model)
        self._input = InputAttention(model, dtype)
        self._backbone = Backbone(config.backbone, model.backbone, dtype)
        self._output = OutputAttention(model, int(session), offsets, dtype)
        self._lock = _Lock()
        self.reset()

    def reset(self):
        """Back to before the first bin. Raises RuntimeError during a step."""
        with self._lock:
            self._state = self._backbone.start()
            self._recent = self._output.start_states()  # keys and values of the last hidden states, oldest first
            self._n_bins = 0

    def step(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Decode one bin.

        Args:
            units: unit of each spike of the bin, from 1, in any order, shape (n,); n = 0 is a silent bin.
            offsets: seconds since the bin began, 0 <= offset < bin width, shape (n,).

        Returns:
            times in seconds since the first bin began, (Q,), and behaviour there, (Q, C).

        Raises:
            ValueError: for spikes that do not fit; the decoder is then as it was before the call.
            RuntimeError: during another step of this decoder, which is not disturbed.
        """
        with self._lock:
            units, offsets = checked_spikes(units, offsets, self.config.n_units, self.config.bin_width_s)
            x = self._input(units, offsets)
            hidden, state = self._backbone.step(x, self._state)
            recent = self._output.append(self._recent, hidden)
            decoded = self._output(recent)
            times = self._n_bins * self.config.bin_width_s + self.query_offsets_s
            # the decoder changes only from here on, so an exception above leaves it as it was
            self._state, self._recent = state, recent
            self._n_bins += 1
            return times, decoded


class _Attention(Constants):
    """What both attentions have: output projection, residual and feed-forward of `attention.CrossAttention`."""

    def __init__(self, layer, query, dtype, **arrays):
        super().__init__(dtype, start=query + layer.to_out.bias, out=layer.to_out.weight.T, **arrays)
        self.feed_forward = None if layer.feed_forward is None else FeedForward(layer.feed_forward, dtype)

    def project_out(self, pooled: np.ndarray) -> np.ndarray:
        """(n, H d) to (n, D)."""
        x = self.start + pooled.dot(self.out)
        return x if self.feed_forward is None else self.feed_forward(x)


class InputAttention(_Attention):
    """The latents read the spikes of a bin: `attention.InputAttention`."""

    def __init__(self, model, dtype):
        config, encoder = model.config, model.encoder
        weight, bias = _key_value_weights(encoder, config)
        context = normalize(np.asarray(model.unit_embedding.weight)) @ weight + bias
        context = context.reshape(config.n_units + 1, -1, config.n_heads, config.head_dim).transpose(1, 2, 0, 3)
        arrays = {"values": context[-1].view(complex)}  # (H, U+1, d/2)
        if config.reading != "sum":  # q_f conj(k_f), whose product with a phasor, both as real numbers, is the score
            queries = _complex_queries(encoder, encoder.latents)  # (L, H, d/2)
            table = queries.swapaxes(0, 1)[:, :, None] * context[0].view(complex).conj()[:, None]
            arrays["table"] = table.view(float)  # (H, L, U+1, d)
        if config.reading == "sigmoid":
            arrays["bias"] = encoder.bias[:, None, None]
        if config.reading in ("sigmoid", "sum"):
            arrays["gain"] = encoder.gain[:, None, None]
        super().__init__(encoder, encoder.latents, dtype, **arrays)
        self.omega = _frequencies(model)
        self.middle_s = config.bin_width_s / 2
        self.reading = config.reading
        self.rotate_values = config.rotate_values

    def __call__(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The input of the backbone, (L D,)."""
        if self.reading == "softmax_blank" or not len(units):  # the blank token
            units = np.append(units, 0)
            offsets = np.append(offsets, 0.0)
        phase = phasors(offsets - self.middle_s, self.omega, self.out.dtype)  # (n, d/2)
        weights = self.weights(units, phase)  # (H, L, n)
        values = self.values.take(units, 1)  # (H, n, d/2)
        if self.rotate_values:
            values = values * phase
        pooled = weights @ values.view(self.out.dtype)  # (H, L, d)
        return self.project_out(pooled.swapaxes(0, 1).reshape(len(self.start), -1)).ravel()

    def weights(self, units: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """How much each latent reads each spike, (H, L, n)."""
        if self.reading == "sum":
            return self.gain * np.ones((len(self.start), len(units)), self.gain.dtype)
        scores = (self.table.take(units, 2) * phase.view(self.out.dtype)).sum(-1)  # (H, L, n)
        return self.gain * expit(scores + self.bias) if self.reading == "sigmoid" else softmax(scores)


class OutputAttention(_Attention):
    """Queries at times inside a bin read the last k hidden states: `attention.OutputAttention`, with the readout."""

    def __init__(self, model, session: int, offsets: np.ndarray, dtype):
        config, decoder = model.config, model.decoder
        query = (model.task_embedding + model.session_embedding.weight[session])[None]  # (1, D)
        ends = np.arange(2 - config.context_bins, 2) * config.bin_width_s  # of the bins, oldest first
        phase = phasors(ends - offsets[:, None], _frequencies(model), float)[:, None]  # (Q, 1, k, d/2)
        queries = _complex_queries(decoder, query)[..., None, :] * phase.conj()  # rotated by time since each end
        weight, bias = _key_value_weights(decoder, config)
        std = model.behavior_std[session]
        super().__init__(
            decoder,
            query,
            dtype,
            weight=weight,  # (h, 2 H d)
            bias=bias,
            queries=queries.view(float),  # (Q, H, k, d)
            phase=phase if config.rotate_values else np.ones_like(phase),
            readout=(model.readout.weight * std[:, None]).T,  # (D, C)
            readout_bias=model.readout.bias * std + model.behavior_mean[session],
        )

    def start_states(self) -> np.ndarray:
        """Keys and values before the first bin, (2, H, 0, d)."""
        _, n_heads, _, head_dim = self.queries.shape
        return np.zeros((2, n_heads, 0, head_dim), self.queries.dtype)

    def append(self, recent: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """Keys and values of the last k hidden states, (2, H, k or fewer, d), with those of `hidden` (h,)."""
        new = normalize(hidden).dot(self.weight) + self.bias
        recent = np.concatenate([recent, new.reshape(2, len(recent[0]), 1, -1)], 2)
        return recent[:, :, -self.queries.shape[2] :]

    def __call__(self, recent: np.ndarray) -> np.ndarray:
        """Behaviour, (Q, C)."""
        keys, values = recent
        n = keys.shape[1]
        weights = softmax((self.queries[:, :, -n:] * keys).sum(-1))  # (Q, H, n)
        values = values.view(self.phase.dtype) * self.phase[:, :, -n:]  # (Q, H, n, d/2)
        pooled = weights[:, :, None] @ values.view(self.out.dtype)  # (Q, H, 1, d)
        return self.project_out(pooled.reshape(len(pooled), -1)).dot(self.readout) + self.readout_bias


def _key_value_weights(layer, config) -> tuple[np.ndarray, np.ndarray]:
    """W and b that give keys, where there are scores, and values of all heads: (C, 2 H d) and (2 H d,)."""
    weight, bias = with_norm(layer.norm_context, layer.to_kv)
    both = np.vstack([weight, bias]).reshape(len(weight) + 1, -1, config.n_kv_heads, config.head_dim)
    both = both.repeat(config.n_heads // config.n_kv_heads, 2).reshape(len(both), -1)
    return both[:-1], both[-1]


def _complex_queries(layer, x) -> np.ndarray:
    """Queries (..., H, d/2) of x (..., D), pairs as complex numbers, divided by sqrt(d)."""
    queries = np.asarray(layer.queries(x))
    return queries.view(complex) / math.sqrt(queries.shape[-1])


def _frequencies(model) -> np.ndarray:
    """Angular frequency of every pair of a head, 0 for those that are not rotated: (d/2,), float64."""
    omega = np.asarray(model.rotation.omega)
    return np.pad(omega, (0, model.config.head_dim // 2 - len(omega)))


def phasors(times: np.ndarray, omega: np.ndarray, dtype) -> np.ndarray:
    """e^{i omega t}, (..., F): as `blocks.positions.phasors`, whole cycles are subtracted in float64."""
    cycles = times[..., None] * (omega / (2 * np.pi))
    angle = (2 * np.pi * (cycles - np.rint(cycles))).astype(dtype)
    return np.cos(angle) + 1j * np.sin(angle)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def checked_spikes(units, offsets, n_units: int, bin_width_s: float) -> tuple[np.ndarray, np.ndarray]:
    """The spikes of a bin as arrays of int64 and float64, (n,) each.

    Raises:
        ValueError: naming the argument and the first wrong value.
    """
    units, offsets = np.asarray(units), np.asarray(offsets)
    if units.shape != offsets.shape or units.ndim != 1:
        raise ValueError(f"units and offsets must be flat and alike, not {units.shape} and {offsets.shape}.")
    if not len(units):  # an empty list becomes an array of floats
        return np.zeros(0, np.int64), np.zeros(0)
    if units.dtype.kind not in "iu":
        raise ValueError(f"units must be whole numbers, not {units.dtype}.")
    if offsets.dtype.kind not in "iuf":
        raise ValueError(f"offsets must be real numbers, seconds, not {offsets.dtype}.")
    known = (units >= 1) & (units <= n_units)
    if not known.all():
        wrong = units[~known][0]
        raise ValueError(f"units must lie in 1..{n_units}, not {wrong}: `spike_units` of a recording, plus 1.")
    inside = (offsets >= 0) & (offsets < bin_width_s)
    if not inside.all():
        raise ValueError(f"offsets must lie in 0 <= offset < {bin_width_s} s, not {offsets[~inside][0]}.")
    return units.astype(np.int64, copy=False), offsets.astype(np.float64, copy=False)


class _Lock:
    """Raises RuntimeError where it is held already. A list, as `pop` is atomic and a list can be copied and pickled."""

    def __init__(self):
        self._free = [True]

    def __enter__(self):
        try:
            self._free.pop()
        except IndexError:
            busy = "a step of this stream is under way: give each thread a StreamingDecoder of its own."
            raise RuntimeError(busy) from None

    def __exit__(self, *_):
        self._free.append(True)
