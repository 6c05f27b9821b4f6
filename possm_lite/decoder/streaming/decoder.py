"""POSSM in real time: the spikes of one bin in, behaviour out, in NumPy and SciPy.

`precompute.py` computes the constants from a model. Symbols as in `attention.py`. A score table holds
[Re q_1 conj(k_1), Im q_1 conj(k_1), ..., rest], so that the score at a time difference t is its dot product with
`fourier_basis(t)`. Matrices are transposed, to be used as x @ A.

A rig calls a step every 50 ms, and by then its code has left the caches. To fetch it takes longer than to run it, so
fewer different functions of NumPy count for more than fewer calls: sums and means are dot products, ranges are checked
in lists, heads and states are loops.
"""

from functools import reduce

import numpy as np
from scipy.special import expit, ndtr

from ..config import POSSMConfig
from .cells import LAYER_NORM_EPS, FeedForwardConstants, normalize

_BLANK = (np.zeros(1, np.int64), np.zeros(1))  # the token of a silent bin: unit 0 at offset 0
_WEIGHTS = {"sigmoid": expit, "sum": np.ones_like}  # of the scores of a bin; other readings: softmax


class StreamingDecoder:
    """A trained POSSM that decodes one bin at a time.

    Holds the state of the backbone and the projections of the last k hidden states; equal to `POSSM.forward` on the
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
        from .precompute import precompute_constants  # needs torch; a decoder that is unpickled to stream does not

        config: POSSMConfig = model.config
        width, offsets = config.bin_width_s, np.array(query_offsets_s, dtype=np.float64, ndmin=1)
        if session not in range(1, config.n_sessions + 1):
            raise ValueError(f"session must lie in 1..{config.n_sessions}, not {session}.")
        if offsets.ndim != 1 or not len(offsets) or not ((offsets >= 0) & (offsets < width)).all():
            raise ValueError(f"query_offsets_s must lie in 0 <= offset < {width} s, not {query_offsets_s}.")
        self.config, self.query_offsets_s, self._lock = config, offsets, _NonBlockingLock()
        self._constants = precompute_constants(model, int(session), offsets)
        output = self._constants.output
        self._dtype = output.rows.dtype
        self._scores_shape = config.context_bins, len(offsets), config.n_heads, 1
        self._ones = np.ones(self._constants.cycles.shape[1], self._dtype)
        self.reset()

    def reset(self):
        """Back to before the first bin. Raises RuntimeError during a step."""
        with self._lock:
            self._state = self._constants.backbone.start()
            self._recent = ()  # projections of the last hidden states, oldest first
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
            x = self._encode(*self._tokens(units, offsets))
            hidden, state = self._constants.backbone.step(x, self._state)
            recent = (*self._recent, self._project(hidden))[-self.config.context_bins :]
            decoded = self._decode(recent)
            times = self._n_bins * self.config.bin_width_s + self.query_offsets_s
            # the decoder changes only from here on, so an exception above leaves it as it was
            self._state, self._recent = state, recent
            self._n_bins += 1
            return times, decoded

    def _tokens(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """The spikes of a bin, or its blank token."""
        units, offsets = checked_spikes(units, offsets, self.config.n_units, self.config.bin_width_s)
        if self.config.reading == "softmax_blank":
            return np.append(units, _BLANK[0]), np.append(offsets, _BLANK[1])
        return (units, offsets) if len(units) else _BLANK

    def _encode(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Input attention: the input of the backbone, (L D,)."""
        c, config = self._constants.input, self.config
        basis = fourier_basis(offsets, self._constants.cycles, self._dtype)  # (n, 2F+1)
        products = c.scores.take(units, 0) * basis[:, None]  # (n, L H, 2F+1); their sums are the scores
        scores = products.reshape(-1, len(self._ones)).dot(self._ones).reshape(-1, config.n_latents, config.n_heads)
        weights = _WEIGHTS.get(config.reading, _softmax)(scores)  # (n, L, H)
        values = c.values.take(units, 0) * basis.take(c.columns, 1)[:, None]  # rotated, (n, H, R)
        # the feed-forward layer needs x centred and the backbone needs it plain: both in one product
        x, width = c.start, len(c.columns)  # (L, 2 D)
        for head in range(config.n_heads):
            x = x + weights[:, :, head].T.dot(values[:, head]).dot(c.out[head * width : (head + 1) * width])
        plain = x[:, config.dim :]
        if c.feed_forward is not None:
            plain = plain + self._feed_forward(x[:, : config.dim], c.feed_forward)
        return plain.reshape(-1)

    def _project(self, hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores at each age, the newest last, (k, Q, H, 1), and values (H, R) of a hidden state."""
        c, shape = self._constants.output, self._scores_shape
        row = normalize(hidden, c.mean).dot(c.rows) + c.rows_bias
        n = len(row) - c.out.shape[0]
        return row[:n].reshape(shape), row[n:].reshape(shape[2], -1)

    def _decode(self, recent: tuple[tuple[np.ndarray, np.ndarray], ...]) -> np.ndarray:
        """Output attention: behaviour (Q, C) from the projections of up to k hidden states, oldest first."""
        c, config = self._constants.output, self.config
        ages = range(config.context_bins - len(recent), config.context_bins)
        scores = [each[age] for age, (each, _) in zip(ages, recent, strict=True)]
        largest, total, pooled = reduce(np.maximum, scores), 0.0, 0.0
        for age, score, (_, values) in zip(ages, scores, recent, strict=True):
            weight = np.exp(score - largest)  # of a softmax, (Q, H, 1)
            total, pooled = total + weight, pooled + weight * (c.rotations[age] * values)
        x = (pooled / total).reshape(len(pooled), -1).dot(c.out)  # (Q, D + C): centred, and the output
        x += c.start
        decoded = x[:, config.dim :]
        return decoded if c.feed_forward is None else decoded + self._feed_forward(x[:, : config.dim], c.feed_forward)

    def _feed_forward(self, centred: np.ndarray, c: FeedForwardConstants) -> np.ndarray:
        """The gated layer of (n, D), centred."""
        variance = (centred * centred).dot(c.mean)
        expanded = (centred / np.sqrt(variance + LAYER_NORM_EPS)[:, None]).dot(c.expand)
        expanded += c.expand_bias  # in place, as below: a step is mostly overhead of small arrays
        half = expanded.shape[1] // 2
        values, gate = expanded[:, :half], expanded[:, half:]
        gated = ndtr(gate)  # gelu(gate) = gate ndtr(gate)
        gated *= gate
        gated *= values
        return gated.dot(c.contract)


def checked_spikes(units, offsets, n_units: int, bin_width_s: float) -> tuple[np.ndarray, np.ndarray]:
    """The spikes of a bin as arrays of int64 and float64, (n,) each.

    Raises:
        ValueError: naming the argument and the first wrong value.
    """
    units, offsets = np.asarray(units), np.asarray(offsets)
    if units.shape != offsets.shape or units.ndim != 1:
        raise ValueError(f"units and offsets must be flat and alike, not {units.shape} and {offsets.shape}.")
    if not len(units):
        return np.zeros(0, np.int64), np.zeros(0)
    if units.dtype.kind not in "iu":
        raise ValueError(f"units must be whole numbers, not {units.dtype}.")
    if not all(1 <= unit <= n_units for unit in units.tolist()):
        wrong = units[(units < 1) | (units > n_units)][0]
        raise ValueError(f"units must lie in 1..{n_units}, not {wrong}: `spike_units` of a recording, plus 1.")
    if offsets.dtype.kind not in "iuf":
        raise ValueError(f"offsets must be real numbers, seconds, not {offsets.dtype}.")
    units, offsets = units.astype(np.int64, copy=False), offsets.astype(np.float64, copy=False)
    if not all(0 <= offset < bin_width_s for offset in offsets.tolist()):
        wrong = offsets[~((offsets >= 0) & (offsets < bin_width_s))][0]
        raise ValueError(f"offsets must lie in 0 <= offset < {bin_width_s} s, not {wrong}.")
    return units, offsets


class _NonBlockingLock:
    """A lock that raises RuntimeError where it is held already, also by the same thread."""

    def __init__(self):
        self._free = [True]  # its one item is taken and put back: atomic, and sooner than a lock of `threading`

    def __enter__(self):
        try:
            self._free.pop()
        except IndexError:
            busy = "a step of this stream is under way: give each thread a StreamingDecoder of its own."
            raise RuntimeError(busy) from None

    def __exit__(self, *_):
        self._free.append(True)

    def __reduce__(self):
        return type(self), ()  # the copy of a stream has a lock of its own


def fourier_basis(times: np.ndarray, cycles: np.ndarray, dtype) -> np.ndarray:
    """[cos omega_1 t, sin omega_1 t, cos omega_2 t, ..., 1] of each time, (..., 2F + 1); cycles as in `Constants`.

    Only the rest after whole cycles is rounded to `dtype`, as in `blocks.positions.phasors`.
    """
    phase = times[..., None] * cycles[0]
    phase += cycles[1]
    phase -= np.rint(phase)
    phase *= 2 * np.pi
    return np.cos(phase.astype(dtype))


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Over the first axis."""
    weights = np.exp(scores - np.maximum.reduce(scores))
    weights /= np.add.reduce(weights)
    return weights
