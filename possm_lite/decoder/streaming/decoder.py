"""POSSM in real time: the spikes of one bin in, velocity out, in NumPy alone."""

from __future__ import annotations

from threading import Lock

import numpy as np
from scipy.special import erf

from ..config import POSSMConfig
from .cells import LAYER_NORM_EPS, Backbone, normal
from .constants import basis, fold, of_part

_BLANK = (np.zeros(1, np.int64), np.zeros(1))  # the token that a silent bin holds: unit 0 at offset 0


class StreamingDecoder:
    """A trained POSSM that is fed one bin at a time.

    Holds the state of the backbone and what is needed of the last k hidden states; answers as `POSSM.forward` does on
    the whole recording. It computes with times relative to the current bin, so the velocity of the millionth bin is as
    exact as that of the first. The times it returns count from the first bin; each is computed by itself, not summed
    up, and so is off by its own rounding alone, 1e-11 s at the millionth bin.

    One decoder serves one stream. Threads may each have a decoder of one model, as decoders share nothing. They may
    also hand one around, but not use it at once: a call that comes while a step is under way is told so, and changes
    nothing.

    Args:
        model: a trained POSSM; its weights are copied.
        session: the session whose embedding and scale to answer with, from 1.
        query_offsets_s: times since the start of each bin at which velocity is wanted, 0 <= offset < bin width.

    Raises:
        ValueError: for a session the model does not have, or an offset outside the bin.
    """

    def __init__(self, model, session: int = 1, query_offsets_s=(0.0,)):
        config: POSSMConfig = model.config
        offsets = np.array(query_offsets_s, dtype=np.float64, ndmin=1)
        if not 1 <= session <= config.n_sessions:
            raise ValueError(f"session must lie in 1..{config.n_sessions}, not {session}.")
        if offsets.ndim != 1 or not len(offsets) or not ((offsets >= 0) & (offsets < config.bin_width_s)).all():
            raise ValueError(
                f"query_offsets_s must lie in 0 <= offset < {config.bin_width_s} s, not {query_offsets_s}."
            )
        weights = copied_weights(model)
        self.config, self.query_offsets_s, self._turn = config, offsets, _OneAtATime()
        self._set_constants(fold(weights, config, session, offsets))
        self.reset()

    def _set_constants(self, arrays: dict[str, np.ndarray]):
        config, phasors = self.config, arrays["out_phasors"]
        self._arrays, self._dtype, self._complex = arrays, arrays["out_rows"].dtype, phasors.dtype
        self._n_scores = phasors.shape[0] * config.context_bins * config.n_heads  # of a hidden state, at all its ages
        self._mean = np.full(config.dim, 1 / config.dim, self._dtype)
        self._backbone = Backbone.from_constants(config.backbone, of_part(arrays, "backbone"), config.n_layers)

    def reset(self):
        """Back to before the first bin. Raises RuntimeError while a step is under way."""
        n_rows = self._arrays["out_rows"].shape[1]
        with self._turn:
            self._state = self._backbone.start()
            self._recent = np.zeros((self.config.context_bins, n_rows), self._dtype)  # oldest first
            self._n_bins = 0

    def step(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Decode one bin.

        Args:
            units: unit of each spike of the bin, from 1, in any order, shape (n,); n = 0 is a silent bin.
            offsets: seconds since the bin began, 0 <= offset < bin width, shape (n,).

        Returns:
            times in seconds since the first bin began, (Q,), and velocity there, (Q, 2).

        Raises:
            ValueError: for spikes that do not fit; the decoder is then as it was before the call.
            RuntimeError: for a call while another step of this decoder is under way, which goes on undisturbed.
        """
        with self._turn:
            hidden, state = self._backbone.step(self._read(*self._checked(units, offsets)), self._state)
            recent = np.concatenate([self._recent[1:], self._row(hidden)[None]])
            n_known = min(self._n_bins + 1, self.config.context_bins)
            velocity = self._answer(recent[-n_known:])
            times = self._n_bins * self.config.bin_width_s + self.query_offsets_s
            # nothing of the decoder has changed until here, whatever went wrong on the way
            self._state, self._recent = state, recent
            self._n_bins += 1
            return times, velocity

    def _checked(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of a bin, at least one."""
        units, offsets = checked_spikes(units, offsets, self.config.n_units, self.config.bin_width_s)
        return (units, offsets) if len(units) else _BLANK

    def _read(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The latents' reading of the bin, ready for the backbone, (L D,)."""
        a, config = self._arrays, self.config
        phase = basis(offsets, a["in_turns"], self._dtype)  # (n, 2F+1)
        scores = np.matmul(a["in_table"].take(units, 0), phase[:, :, None])  # (n, L H, 1)
        weights = _softmax(scores).reshape(len(units), config.n_latents, config.n_heads)
        values = a["in_values"].take(units, 0)  # (n, H, d), a copy
        if config.rotate_values:
            rotated = values[..., : 2 * config.n_freqs].view(self._complex)
            rotated *= phase[:, None, :-1].view(self._complex)
        pooled = np.matmul(weights.T, values.swapaxes(0, 1))  # (H, L, d)
        # x is read twice, centred by the feed-forward layer and plain by the backbone: both in one product
        x = pooled.swapaxes(0, 1).reshape(config.n_latents, -1).dot(a["in_out"])  # (L, 2 D)
        x += a["in_start"]
        plain = x[:, config.dim :]
        if config.feed_forward:
            plain = plain + self._gated(x[:, : config.dim], "in").dot(a["in_contract"])
        return plain.reshape(-1)

    def _row(self, hidden: np.ndarray) -> np.ndarray:
        """Scores at each age, and values, of a hidden state, (rows,)."""
        return normal(hidden).dot(self._arrays["out_rows"]) + self._arrays["out_rows_bias"]

    def _answer(self, recent: np.ndarray) -> np.ndarray:
        """Velocity (Q, 2) from the rows of the last hidden states, oldest first, (k or fewer, rows)."""
        a, config, n = self._arrays, self.config, len(recent)
        scores = recent[:, : self._n_scores].reshape(n, config.context_bins, -1)[:, -n:]  # (n, n ages, Q H)
        weights = _softmax(scores.diagonal().T).T.reshape(-1, config.n_heads, 1, n)  # each at its own age: (Q, H, 1, n)
        values = recent[:, self._n_scores :].view(self._complex).reshape(n, config.n_heads, -1)  # (n, H, d/2)
        rotated = a["out_phasors"][:, -n:, None] * values  # (Q, n, H, d/2)
        pooled = np.matmul(weights, rotated.view(self._dtype).swapaxes(1, 2))  # (Q, H, 1, d)
        x = pooled.reshape(len(pooled), -1).dot(a["out_out"])  # (Q, D + 2): centred for the feed-forward, and velocity
        x += a["out_start"]
        if not config.feed_forward:
            return x[:, config.dim :]
        return x[:, config.dim :] + self._gated(x[:, : config.dim], "out").dot(a["out_contract"])

    def _gated(self, centred: np.ndarray, prefix: str) -> np.ndarray:
        """The gated hidden layer of (n, D), centred; the factors of gelu are folded into the matrices on both sides."""
        variance = np.square(centred).dot(self._mean)
        expanded = (centred / np.sqrt(variance + LAYER_NORM_EPS)[:, None]).dot(self._arrays[f"{prefix}_expand"])
        expanded += self._arrays[f"{prefix}_expand_bias"]
        half = expanded.shape[1] // 2
        gate = expanded[:, half:]
        gated = erf(gate)
        gated += 1
        gated *= gate
        gated *= expanded[:, :half]
        return gated


def checked_spikes(units, offsets, n_units: int, bin_width_s: float) -> tuple[np.ndarray, np.ndarray]:
    """The spikes of a bin as arrays of int64 and float64, (n,) each.

    Raises:
        ValueError: naming what does not fit.
    """
    units, offsets = np.asarray(units), np.asarray(offsets)
    if units.shape != offsets.shape or units.ndim != 1:
        raise ValueError(f"units and offsets must be flat and alike, not {units.shape} and {offsets.shape}.")
    if not len(units):
        return np.zeros(0, np.int64), np.zeros(0)
    if units.dtype.kind not in "iu":
        raise ValueError(f"units must be whole numbers, not {units.dtype}.")
    least, most = np.minimum.reduce, np.maximum.reduce  # the methods min and max go through Python
    if least(units) < 1 or most(units) > n_units:
        wrong = units[(units < 1) | (units > n_units)][0]
        raise ValueError(f"units must lie in 1..{n_units}, not {wrong}.")
    if offsets.dtype.kind not in "iuf":
        raise ValueError(f"offsets must be real numbers, seconds, not {offsets.dtype}.")
    units, offsets = units.astype(np.int64, copy=False), offsets.astype(np.float64, copy=False)
    if not (least(offsets) >= 0 and most(offsets) < bin_width_s):  # a NaN fails both comparisons
        wrong = offsets[~((offsets >= 0) & (offsets < bin_width_s))][0]
        raise ValueError(f"offsets must lie in 0 <= offset < {bin_width_s} s, not {wrong}.")
    return units, offsets


def copied_weights(model) -> dict[str, np.ndarray]:
    """The state dict as NumPy arrays of their own: training that goes on must not reach into a stream."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in model.state_dict().items()}


class _OneAtATime:
    """Lets one call in; one that comes meanwhile is told so, instead of mixing its numbers with those of the first."""

    def __init__(self):
        self._lock = Lock()

    def __enter__(self):
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("a step of this stream is under way: give each thread a StreamingDecoder of its own.")

    def __exit__(self, *_):
        self._lock.release()

    def __reduce__(self):
        return type(self), ()  # the copy of a stream is a stream by itself


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Over the first axis."""
    weights = np.exp(scores - np.maximum.reduce(scores))
    weights /= np.add.reduce(weights)
    return weights
