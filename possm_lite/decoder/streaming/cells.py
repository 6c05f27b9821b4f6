"""The constants of a stream, and one step of each backbone; formulas: `blocks.recurrent`, `.s4d`, `.mamba`.

A cell is a named tuple of constants: `start` gives the arrays of its state before the first bin, `step` takes the input
(d,) and the state and returns the output (h,) and the new state. Matrices are transposed against torch's, (inputs,
outputs), for x @ W, written x.dot(W), which NumPy starts sooner; gates are in torch's order.

`site/live/decoder.js` uses the same constants: what changes here changes there.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr

LAYER_NORM_EPS = 1e-5  # torch's default, which the model uses throughout


class RNNCell(NamedTuple):
    w_x: np.ndarray  # (d, h)
    w_h: np.ndarray  # (h, h)
    b_x: np.ndarray  # (h,)
    b_h: np.ndarray  # (h,)

    def start(self):
        return (np.zeros(len(self.w_h), self.w_h.dtype),)

    def step(self, x, h):
        h = np.tanh(x.dot(self.w_x) + self.b_x + h.dot(self.w_h) + self.b_h)
        return h, (h,)


class GRUCell(RNNCell):
    """Constants as in `RNNCell`, for three gates: (d, 3h), (h, 3h), (3h,), (3h,)."""

    __slots__ = ()

    def step(self, x, h):
        n = len(h)
        from_x, from_h = x.dot(self.w_x) + self.b_x, h.dot(self.w_h) + self.b_h
        gates = expit(from_x[: 2 * n] + from_h[: 2 * n])  # reset, update
        new = np.tanh(from_x[2 * n :] + gates[:n] * from_h[2 * n :])
        h = new + gates[n:] * (h - new)
        return h, (h,)


class LSTMCell(RNNCell):
    """Constants as in `RNNCell`, for four gates: (d, 4h), (h, 4h), (4h,), (4h,)."""

    __slots__ = ()

    def start(self):
        return 2 * super().start()

    def step(self, x, h, c):
        i, f, g, o = np.split(x.dot(self.w_x) + self.b_x + h.dot(self.w_h) + self.b_h, 4)
        c = expit(f) * c + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
        return h, (h, c)


class S4DCell(NamedTuple):
    mean: np.ndarray  # 1 / h each, as in `normalize`, (h,)
    gain: np.ndarray  # of the norm, (h,)
    shift: np.ndarray  # (h,)
    decay: np.ndarray  # complex, (h, N)
    readout: np.ndarray  # 2 C drive: the drive only scales a mode; complex, (h, N)
    D: np.ndarray  # (h,)
    w_out: np.ndarray  # (h, 2h)
    b_out: np.ndarray  # (2h,)

    def start(self):
        return (np.zeros_like(self.decay),)

    def step(self, x, modes):
        u = normalize(x, self.mean) * self.gain + self.shift
        modes = self.decay * modes + u[:, None]
        y = np.einsum("hn,hn->h", self.readout, modes).real + self.D * u
        mixed = (y * ndtr(y)).dot(self.w_out) + self.b_out  # gelu(y) = y ndtr(y)
        half = len(mixed) // 2
        return x + mixed[:half] * expit(mixed[half:]), (modes,)


class MambaCell(NamedTuple):
    mean: np.ndarray  # 1 / h each, (h,)
    in_proj: np.ndarray  # with the gain of the norm, (h, 2E)
    in_bias: np.ndarray  # the shift of the norm, projected, (2E,)
    conv: np.ndarray  # oldest step first, (K, E)
    conv_bias: np.ndarray  # (E,)
    x_proj: np.ndarray  # (E, rank + 2N)
    dt_proj: np.ndarray  # (rank, E)
    dt_bias: np.ndarray  # (E,)
    A: np.ndarray  # (E, N)
    D: np.ndarray  # (E,)
    out_proj: np.ndarray  # (E, h)

    def start(self):
        return np.zeros_like(self.conv[1:]), np.zeros_like(self.A)

    def step(self, x, recent, modes):
        inner, gate = np.split(normalize(x, self.mean).dot(self.in_proj) + self.in_bias, 2)
        window = np.concatenate([recent, inner[None]])  # (K, E)
        inner = _silu(np.einsum("ke,ke->e", window, self.conv) + self.conv_bias)
        rank, n_states = len(self.dt_proj), self.A.shape[1]
        delta, B, C = np.split(inner.dot(self.x_proj), (rank, rank + n_states))
        delta = np.logaddexp(0, delta.dot(self.dt_proj) + self.dt_bias)
        modes = np.exp(delta[:, None] * self.A) * modes + (delta * inner)[:, None] * B  # (E, N)
        y = (modes.dot(C) + self.D * inner) * _silu(gate)
        return x + y.dot(self.out_proj), (window[1:], modes)


class Backbone(NamedTuple):
    """A stack of cells, after a projection of the input where the backbone has one."""

    cells: tuple
    w_in: np.ndarray | None  # (d, h)
    b_in: np.ndarray | None  # (h,)

    def start(self) -> list[tuple[np.ndarray, ...]]:
        return [cell.start() for cell in self.cells]

    def step(self, x: np.ndarray, state: list) -> tuple[np.ndarray, list]:
        if self.w_in is not None:
            x = x.dot(self.w_in) + self.b_in
        new_state = []
        for cell, previous in zip(self.cells, state, strict=True):
            x, new = cell.step(x, *previous)
            new_state.append(new)
        return x, new_state


class FeedForwardConstants(NamedTuple):
    mean: np.ndarray  # 1 / D each, (D,)
    expand: np.ndarray  # with the gain of the norm, (D, 2 E D) for an expansion by E
    expand_bias: np.ndarray  # (2 E D,)
    contract: np.ndarray  # (E D, D); of the output attention (E D, C), with the readout


class InputConstants(NamedTuple):
    scores: np.ndarray  # score table P of each unit, (U+1, L H, 2F+1)
    values: np.ndarray  # with their turns, (U+1, H, R)
    columns: np.ndarray  # entry of `fourier_basis` that rotates each number of a value, (R,)
    out: np.ndarray  # W_o, centred for the norm of the feed-forward and plain for the backbone, (H R, 2D)
    start: np.ndarray  # latents and bias of W_o, likewise, (L, 2D)
    feed_forward: FeedForwardConstants | None


class OutputConstants(NamedTuple):
    mean: np.ndarray  # 1 / h each, (h,)
    rows: np.ndarray  # scores at each age, oldest first, and values of a normalised hidden state, (h, k Q H + H R)
    rows_bias: np.ndarray  # (k Q H + H R,)
    rotations: np.ndarray  # of the values of a state at each age, relative to each query, (k, Q, 1, R)
    out: np.ndarray  # W_o, centred for the norm of the feed-forward, and with the readout, (H R, D + C)
    start: np.ndarray  # query and biases, likewise, (1 or Q, D + C)
    feed_forward: FeedForwardConstants | None


class Constants(NamedTuple):
    """All of a stream.

    A value (r,) is kept with the quarter turn (-b, a) of each pair (a, b) that is rotated, R numbers in all: rotated by
    an angle, the pair is cos (a, b) + sin (-b, a). So each number is multiplied by an entry of `fourier_basis`, and the
    matrix that follows adds the two.
    """

    # cycles per second of each entry of `fourier_basis`, and cycles at the start of the bin; float64, (2, 2F+1)
    cycles: np.ndarray
    input: InputConstants
    backbone: Backbone
    output: OutputConstants


def normalize(x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """x (n,) with mean 0 and variance 1; gain and shift of the layer norm are in the constants that follow.

    `mean` is 1 / n, n times: x.dot(mean) starts sooner than a reduction of NumPy.
    """
    centred = x - x.dot(mean)
    return centred * (1 / math.sqrt(centred.dot(centred) / len(x) + LAYER_NORM_EPS))


def _silu(x: np.ndarray) -> np.ndarray:
    return x * expit(x)
