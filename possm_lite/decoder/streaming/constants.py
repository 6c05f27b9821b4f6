"""The constants of the streaming decoder, as NumPy arrays; `precompute.py` computes them from a model.

Symbols as in `attention.py`. A score table holds [Re q_1 conj(k_1), Im q_1 conj(k_1), ..., rest], so that the score at
a time difference t is its dot product with `fourier_basis(t)`. Matrices are transposed, to be used as x @ A.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .cells import Backbone


class FeedForwardConstants(NamedTuple):
    """With u = g / sqrt 2 for the gate g, gelu(g) = u (1 + erf u) / sqrt 2: both factors are in the matrices."""

    expand: np.ndarray  # with the gain of the norm, (D, 8D)
    expand_bias: np.ndarray  # (8D,)
    contract: np.ndarray  # (4D, D); of the output attention (4D, 2), with the readout


class InputConstants(NamedTuple):
    scores: np.ndarray  # score table P of each unit, (U+1, L H, 2F+1)
    values: np.ndarray  # (U+1, H, d)
    out: np.ndarray  # W_o, centred for the norm of the feed-forward and plain for the backbone, (H d, 2D)
    start: np.ndarray  # latents and bias of W_o, likewise, (L, 2D)
    feed_forward: FeedForwardConstants | None


class OutputConstants(NamedTuple):
    rows: np.ndarray  # scores at each age, oldest first, and values of a normalised hidden state, (h, k Q H + H d)
    rows_bias: np.ndarray  # (k Q H + H d,)
    phasors: np.ndarray  # of each state relative to each query, 1 where a pair is not rotated, (Q, k, d/2)
    out: np.ndarray  # W_o, centred for the norm of the feed-forward, and with the readout, (H d, D + 2)
    start: np.ndarray  # query and biases, likewise, (1 or Q, D + 2)
    feed_forward: FeedForwardConstants | None


class Constants(NamedTuple):
    phase: np.ndarray  # of `phase_constants`, counted from the middle of the bin; float64
    input: InputConstants
    backbone: Backbone
    output: OutputConstants


def phase_constants(omega: np.ndarray, zero_s: float = 0.0) -> np.ndarray:
    """Cycles per second of each entry of `fourier_basis`, and cycles at t = 0 if time counts from `zero_s`."""
    cycles = np.zeros((2, 2 * len(omega) + 1))
    cycles[0, :-1] = np.repeat(omega / (2 * np.pi), 2)
    cycles[1] = -cycles[0] * zero_s
    cycles[1, 1:-1:2] -= 0.25  # a sine is a cosine a quarter of a cycle later
    return cycles


def fourier_basis(times: np.ndarray, cycles: np.ndarray, dtype) -> np.ndarray:
    """[cos omega_1 t, sin omega_1 t, cos omega_2 t, ..., 1] of each time, (..., 2F + 1); cycles of `phase_constants`.

    All but the last, viewed as complex numbers, are the phasors e^{i omega t}. Only the rest after whole cycles is
    rounded to `dtype`, as in `blocks.positions.phasors`.
    """
    phase = times[..., None] * cycles[0]
    phase += cycles[1]
    phase -= np.rint(phase)
    phase *= 2 * np.pi
    return np.cos(phase.astype(dtype))
