"""POSSM in real time: the spikes of one bin in, velocity out, in NumPy alone."""

from __future__ import annotations

import numpy as np
from scipy.special import erf

from .cells import Backbone
from .config import POSSMConfig
from .folding import LAYER_NORM_EPS, backbone_layers, basis, fold


class StreamingDecoder:
    """A trained POSSM that is fed one bin at a time.

    Holds the state of the backbone and what is needed of the last k hidden states; answers as `POSSM.forward` does on
    the whole recording. Times are kept relative to the current bin, so the millionth bin is as exact as the first.
    One decoder serves one stream: it is not thread-safe.

    Args:
        model: a trained POSSM; its weights are copied.
        session: the session whose embedding and scale to answer with, from 1.
        query_offsets_s: times since the start of each bin at which velocity is wanted, 0 <= offset < bin width.

    Raises:
        ValueError: for a session the model does not have, or an offset outside the bin.
    """

    def __init__(self, model, session: int = 1, query_offsets_s=(0.0,)):
        config: POSSMConfig = model.config
        offsets = np.atleast_1d(np.asarray(query_offsets_s, dtype=np.float64))
        if not 1 <= session <= config.n_sessions:
            raise ValueError(f"session must lie in 1..{config.n_sessions}, not {session}.")
        if offsets.ndim != 1 or not len(offsets) or not ((offsets >= 0) & (offsets < config.bin_width_s)).all():
            raise ValueError(
                f"query_offsets_s must lie in 0 <= offset < {config.bin_width_s} s, not {query_offsets_s}."
            )
        weights = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
        self.config, self.query_offsets_s = config, offsets
        self._set_constants(fold(weights, config, session, offsets))
        self.reset()

    def _set_constants(self, arrays: dict[str, np.ndarray]):
        config = self.config
        self._arrays, self._dtype = arrays, arrays["in_values"].dtype
        self._out_phasors = _pairs(arrays["out_phase"][..., :-1])[:, :, None]  # (Q, k, 1, F)
        self._n_tables = arrays["out_rows"].shape[1] - config.n_heads * config.head_dim
        self._backbone = Backbone(config.backbone, backbone_layers(arrays, config.n_layers))

    @property
    def _n_rotated(self) -> int:
        """Dimensions of a value that are rotated."""
        return 2 * self.config.n_freqs if self.config.rotate_values else 0

    def reset(self):
        """Back to before the first bin."""
        self._state = self._backbone.start()
        self._recent = np.zeros(
            (self.config.context_bins, self._arrays["out_rows"].shape[1]), self._dtype
        )  # oldest first
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
        """
        units, offsets = self._checked(units, offsets)
        hidden, state = self._backbone.step(self._read(units, offsets), self._state)
        recent = np.concatenate([self._recent[1:], self._row(hidden)])
        n_known = min(self._n_bins + 1, self.config.context_bins)
        velocity = self._answer(recent[-n_known:])
        times = self._n_bins * self.config.bin_width_s + self.query_offsets_s
        self._state, self._recent = state, recent
        self._n_bins += 1
        return times, velocity

    def _checked(self, units, offsets):
        units, offsets = np.asarray(units), np.asarray(offsets, dtype=np.float64)
        if units.shape != offsets.shape or units.ndim != 1:
            raise ValueError(f"units and offsets must be flat and alike, not {units.shape} and {offsets.shape}.")
        if not len(units):
            return np.zeros(1, np.int64), np.zeros(1)  # the blank token
        if units.dtype.kind not in "iu":
            raise ValueError(f"units must be whole numbers, not {units.dtype}.")
        if units.min() < 1 or units.max() > self.config.n_units:
            wrong = units[(units < 1) | (units > self.config.n_units)][0]
            raise ValueError(f"units must lie in 1..{self.config.n_units}, not {wrong}.")
        width = self.config.bin_width_s
        if not (offsets.min() >= 0 and offsets.max() < width):  # a NaN fails both comparisons
            wrong = offsets[~((offsets >= 0) & (offsets < width))][0]
            raise ValueError(f"offsets must lie in 0 <= offset < {width} s, not {wrong}.")
        return units, offsets

    def _read(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The latents' reading of the bin, ready for the backbone, (L D,)."""
        a, config = self._arrays, self.config
        phase = basis(offsets - config.bin_width_s / 2, a["omega"], self._dtype)  # (n, 2F+1)
        scores = np.matmul(a["in_table"].take(units, 0), phase[:, :, None])[..., 0]  # (n, L H)
        weights = _softmax(scores, 0).reshape(len(units), config.n_latents, config.n_heads)
        values = a["in_values"].take(units, 0)  # (n, H, d), a copy
        if config.rotate_values:
            _pairs(values[..., : self._n_rotated])[...] *= _pairs(phase[:, :-1])[:, None]
        pooled = np.matmul(weights.transpose(2, 1, 0), values.transpose(1, 0, 2))  # (H, L, d)
        x = pooled.transpose(1, 0, 2).reshape(config.n_latents, -1) @ a["in_out"] + a["in_start"]  # (L, D)
        if config.feed_forward:
            x = x + self._gated(_centred(x), "in") @ a["in_contract"]
        return x.reshape(-1)

    def _row(self, hidden: np.ndarray) -> np.ndarray:
        """Score tables and values of a hidden state, (1, rows)."""
        return _scaled(_centred(hidden[None])) @ self._arrays["out_rows"] + self._arrays["out_rows_bias"]

    def _answer(self, recent: np.ndarray) -> np.ndarray:
        """Velocity (Q, 2) from the rows of the last hidden states, oldest first, (k or fewer, rows)."""
        a, config, n = self._arrays, self.config, len(recent)
        phase = a["out_phase"][:, -n:, None]  # (Q, n, 1, 2F+1)
        tables = recent[:, : self._n_tables].reshape(n, -1, config.n_heads, phase.shape[-1]).swapaxes(0, 1)
        weights = _softmax(np.add.reduce(tables * phase, -1), 1)  # (Q, n, H)
        values = np.empty((len(phase), n, config.n_heads, config.head_dim), self._dtype)
        values[...] = recent[:, self._n_tables :].reshape(n, config.n_heads, config.head_dim)
        if config.rotate_values:
            _pairs(values[..., : self._n_rotated])[...] *= self._out_phasors[:, -n:]
        pooled = np.matmul(weights.transpose(0, 2, 1)[:, :, None], values.transpose(0, 2, 1, 3))  # (Q, H, 1, d)
        # the first D columns are what the feed-forward layer reads, already centred, the last two are velocity
        x = pooled.reshape(len(pooled), -1) @ a["out_out"] + a["out_start"]  # (Q, D + 2)
        velocity = x[:, config.dim :]
        return (
            velocity + self._gated(x[:, : config.dim], "out") @ a["out_contract"] if config.feed_forward else velocity
        )

    def _gated(self, centred: np.ndarray, prefix: str) -> np.ndarray:
        """The gated hidden layer of (n, D), centred; the factors of gelu are folded into the matrices on both sides."""
        expanded = _scaled(centred) @ self._arrays[f"{prefix}_expand"] + self._arrays[f"{prefix}_expand_bias"]
        half = expanded.shape[-1] // 2
        gate = expanded[:, half:]
        return expanded[:, :half] * gate * (1 + erf(gate))


def _softmax(scores: np.ndarray, axis: int) -> np.ndarray:
    weights = np.exp(scores - np.maximum.reduce(scores, axis, keepdims=True))
    return weights / np.add.reduce(weights, axis, keepdims=True)


def _centred(x: np.ndarray) -> np.ndarray:
    """(n, d) less the mean of each row."""
    return x - np.add.reduce(x, 1, keepdims=True) * (1 / x.shape[1])


def _scaled(centred: np.ndarray) -> np.ndarray:
    """The rest of layer norm: (n, d) over the standard deviation of each row."""
    variance = np.einsum("nd,nd->n", centred, centred) * (1 / centred.shape[1])
    return centred / np.sqrt(variance + LAYER_NORM_EPS)[:, None]


def _pairs(x: np.ndarray) -> np.ndarray:
    """Adjacent pairs of (..., 2F) as complex numbers (..., F), without copying."""
    return x.view(np.result_type(x.dtype, np.complex64))
