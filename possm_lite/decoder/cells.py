"""One step of each recurrent backbone in NumPy, on vectors; the formulas stand in `blocks.recurrent`.

Weights are transposed against torch's, (inputs, gates), to be used as x @ W; gates in torch's order.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit


def rnn_cell(x, h, w_x, w_h, b_x, b_h):
    return (np.tanh(x @ w_x + b_x + h @ w_h + b_h),)


def gru_cell(x, h, w_x, w_h, b_x, b_h):
    n = len(h)
    from_x, from_h = x @ w_x + b_x, h @ w_h + b_h
    gates = expit(from_x[: 2 * n] + from_h[: 2 * n])  # reset, update
    new = np.tanh(from_x[2 * n :] + gates[:n] * from_h[2 * n :])
    return (new + gates[n:] * (h - new),)


def lstm_cell(x, h, c, w_x, w_h, b_x, b_h):
    i, f, g, o = np.split(x @ w_x + b_x + h @ w_h + b_h, 4)
    c = expit(f) * c + expit(i) * np.tanh(g)
    return expit(o) * np.tanh(c), c


class Backbone:
    """A stack of layers with their state.

    Args:
        kind: "rnn", "gru" or "lstm".
        layers: (w_x, w_h, b_x, b_h) of each layer, as arrays of one precision.
    """

    def __init__(self, kind: str, layers: list[tuple[np.ndarray, ...]]):
        self._cell, self._parts = {"rnn": (rnn_cell, 1), "gru": (gru_cell, 1), "lstm": (lstm_cell, 2)}[kind]
        self._layers = layers

    def start(self) -> list[tuple[np.ndarray, ...]]:
        """The state before the first bin."""
        return [(np.zeros(w_h.shape[0], w_h.dtype),) * self._parts for _, w_h, _, _ in self._layers]

    def step(self, x: np.ndarray, state: list) -> tuple[np.ndarray, list]:
        """Input (d,) and state to hidden state of the last layer (h,) and the new state."""
        new = []
        for weights, before in zip(self._layers, state, strict=True):
            after = self._cell(x, *before, *weights)
            new.append(after)
            x = after[0]
        return x, new
