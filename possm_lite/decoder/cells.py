"""One step of each backbone and of the feed-forward layer, in NumPy and SciPy: formulas as in `nn`.

A cell is made of one layer of a `frozen` model. It has `start`, the arrays of its first state, and
`step`, from an input (d,) and those arrays to an output (h,) and the new ones. The page
`docs/live/decoder.js` uses the same constants: what changes here changes there.
"""

from copy import deepcopy
from importlib import import_module

import numpy as np
import scipy  # `scipy.special` is imported where it is first used


def frozen(model):
    """A copy of the torch module `model` on the CPU, in float64, that NumPy reads like arrays."""
    import_module("scipy.special")  # a third of a second: not in the first step
    return deepcopy(model).cpu().double().requires_grad_(False)


def constant(x, dtype) -> np.ndarray:
    """A contiguous copy of an array in another precision.

    Args:
        x: a tensor or an array, real or complex, or a number.
        dtype: float32 or float64; where `x` is complex, the complex type of that precision is used.

    Returns:
        The copy, of the shape of `x`.
    """
    if np.iscomplexobj(x):
        dtype = np.result_type(dtype, np.complex64)
    return np.asarray(x).astype(dtype, "C")


class LayerNorm:
    """gain * (x - mean) / sqrt(variance + eps) + shift over the last axis of x (..., n).

    Args:
        norm: the torch module of the same name.
        dtype: precision.
    """

    def __init__(self, norm, dtype):
        self.eps = constant(norm.eps, dtype)  # NumPy 1 adds a float to one float32 as float64
        self.gain = constant(norm.weight, dtype)
        self.shift = constant(norm.bias, dtype)
        # a product with it starts sooner than a mean
        self.average = np.full_like(self.gain, 1 / len(self.gain))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x = x - x.dot(self.average)[..., None]
        deviation = np.sqrt((x * x).dot(self.average) + self.eps)
        return x / deviation[..., None] * self.gain + self.shift


class Linear:
    """x @ W + b.

    Args:
        dtype: precision.
        weight: as torch keeps it, shape (outputs, inputs).
        bias: shape (outputs,), or None for zeros.
    """

    def __init__(self, dtype, weight, bias=None):
        self.weight = constant(weight.T, dtype)
        self.bias = np.zeros(len(weight), dtype) if bias is None else constant(bias, dtype)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x.dot(self.weight) + self.bias


class FeedForward:
    """The feed-forward layer and its residual, of x (n, D).

        x + W_2 (a * gelu(b)) + b_2,   [a, b] = W_1 LN(x) + b_1

    Args:
        layer: a `GatedFeedForward`.
        dtype: precision.
    """

    def __init__(self, layer, dtype):
        self.norm = LayerNorm(layer.norm, dtype)
        self.expand = Linear(dtype, layer.expand.weight, layer.expand.bias)
        self.contract = Linear(dtype, layer.contract.weight, layer.contract.bias)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        expanded = self.expand(self.norm(x))
        half = expanded.shape[1] // 2
        value, gate = expanded[:, :half], expanded[:, half:]
        return x + self.contract(value * gate * scipy.special.ndtr(gate))  # gelu(b) = b ndtr(b)


class RNNCell:
    """One layer of `nn.recurrent.RNN`, the formula of `rnn_cell`; the state is h.

    Args:
        weights: W_x, W_h, b_x and b_h, a row of `all_weights` of the torch module.
        dtype: precision.
    """

    n_states = 1  # arrays in a state

    def __init__(self, weights, dtype):
        w_x, w_h, b_x, b_h = weights
        self.from_x = Linear(dtype, w_x, b_x)
        self.from_h = Linear(dtype, w_h, b_h)
        self.start = self.n_states * (np.zeros(len(self.from_h.weight), dtype),)

    def step(self, x, h):
        h = np.tanh(self.from_x(x) + self.from_h(h))
        return h, (h,)


class GRUCell(RNNCell):
    """One layer of `nn.recurrent.GRU`, the formula of `gru_cell`; the state is h."""

    def step(self, x, h):
        n = len(h)
        from_x = self.from_x(x)  # (3 h,): reset, update, new
        from_h = self.from_h(h)
        gates = scipy.special.expit(from_x[: 2 * n] + from_h[: 2 * n])
        reset, update = gates[:n], gates[n:]
        new = np.tanh(from_x[2 * n :] + reset * from_h[2 * n :])
        h = new + update * (h - new)
        return h, (h,)


class LSTMCell(RNNCell):
    """One layer of `nn.recurrent.LSTM`, the formula of `lstm_cell`; the state is h and c."""

    n_states = 2

    def step(self, x, h, c):
        i, f, g, o = np.split(self.from_x(x) + self.from_h(h), 4)
        c = scipy.special.expit(f) * c + scipy.special.expit(i) * np.tanh(g)
        h = scipy.special.expit(o) * np.tanh(c)
        return h, (h, c)


class S4DCell:
    """One step of an `S4DLayer`, with its residual; the state is the modes (h, N).

    Args:
        layer: the torch module.
        dtype: precision.
    """

    def __init__(self, layer, dtype):
        decay, drive, C = layer.system()
        self.norm = LayerNorm(layer.norm, dtype)
        self.decay = constant(decay, dtype)  # (h, N)
        self.readout = constant(2 * C * drive, dtype)  # the drive only scales a mode; (h, N)
        self.D = constant(layer.D, dtype)
        self.out = Linear(dtype, layer.output_linear.weight, layer.output_linear.bias)
        self.start = (np.zeros_like(self.decay),)

    def step(self, x, modes):
        u = self.norm(x)
        modes = self.decay * modes + u[:, None]
        y = (self.readout * modes).sum(1).real + self.D * u
        value, gate = np.split(self.out(y * scipy.special.ndtr(y)), 2)  # y ndtr(y): gelu
        return x + value * scipy.special.expit(gate), (modes,)


class MambaCell:
    """One step of a `MambaLayer`, with its residual.

    The state is the last inputs of the convolution (K - 1, E) and the modes (E, N).

    Args:
        layer: the torch module.
        dtype: precision.
    """

    def __init__(self, layer, dtype):
        self.norm = LayerNorm(layer.norm, dtype)
        self.in_proj = Linear(dtype, layer.in_proj.weight)
        self.conv = constant(layer.conv1d_weight, dtype)  # oldest step first, (K, E)
        self.conv_bias = constant(layer.conv1d_bias, dtype)
        self.x_proj = Linear(dtype, layer.x_proj.weight)
        self.dt_proj = Linear(dtype, layer.dt_proj.weight, layer.dt_proj.bias)
        self.A = constant(-layer.A_log.exp(), dtype)  # (E, N)
        self.D = constant(layer.D, dtype)
        self.out_proj = Linear(dtype, layer.out_proj.weight)
        self.start = (np.zeros_like(self.conv[1:]), np.zeros_like(self.A))

    def step(self, x, recent, modes):
        inner, gate = np.split(self.in_proj(self.norm(x)), 2)
        window = np.concatenate([recent, inner[None]])  # (K, E)
        inner = (window * self.conv).sum(0) + self.conv_bias
        inner = inner * scipy.special.expit(inner)  # silu
        rank, n_states = len(self.dt_proj.weight), self.A.shape[1]
        delta, B, C = np.split(self.x_proj(inner), (rank, rank + n_states))
        delta = np.logaddexp(0, self.dt_proj(delta))  # softplus, (E,)
        decay = np.exp(delta[:, None] * self.A)
        modes = decay * modes + (delta * inner)[:, None] * B  # (E, N)
        y = (modes.dot(C) + self.D * inner) * gate * scipy.special.expit(gate)
        return x + self.out_proj(y), (window[1:], modes)


class Backbone:
    """The cells of a backbone one after the other, after its projection of the input if it has one.

    Args:
        cell: the class of its cells, see `backbones.REGISTRY`.
        layers: the torch module of the whole backbone, `frozen`.
        dtype: precision.

    Attributes:
        cells: one for each layer.
        start: the state before the first step, a tuple of arrays for each layer.
    """

    def __init__(self, cell: type, layers, dtype):
        if hasattr(layers, "input_proj"):
            self.project = Linear(dtype, layers.input_proj.weight, layers.input_proj.bias)
            self.cells = [cell(layer, dtype) for layer in layers.layers]
        else:
            self.project = None
            self.cells = [cell(weights, dtype) for weights in layers.all_weights]
        self.start = [cell.start for cell in self.cells]

    def step(self, x: np.ndarray, state: list) -> tuple[np.ndarray, list]:
        """One step of all layers.

        Args:
            x: the input, shape (d,).
            state: as `start`.

        Returns:
            The output, shape (h,), and the new state.
        """
        if self.project is not None:
            x = self.project(x)
        new_state = []
        for cell, previous in zip(self.cells, state, strict=True):
            x, new = cell.step(x, *previous)
            new_state.append(new)
        return x, new_state
