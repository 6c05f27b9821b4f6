"""One step of each backbone and of the feed-forward layer, in NumPy and SciPy: formulas as in `nn`.

A cell, made of a layer of a `frozen` model, has `start`, the arrays of its first state, and `step`, from input (d,) and
state to output (h,) and new state. `docs/live/decoder.js` uses the same constants: what changes here changes there.
"""

from copy import deepcopy

import numpy as np
from scipy.special import expit, ndtr


def frozen(model):
    """A copy of a torch module on the CPU in float64, whose parameters NumPy reads like arrays."""
    return deepcopy(model).cpu().double().requires_grad_(False)


def constant(x, dtype) -> np.ndarray:
    """A copy of a tensor or an array in the precision of `dtype`, complex where it was."""
    return np.asarray(x).astype(
        np.result_type(dtype, np.complex64) if np.iscomplexobj(x) else dtype, "C"
    )


class LayerNorm:
    """gain * (x - mean) / sqrt(variance + eps) + shift over the last axis of x (..., n)."""

    def __init__(self, norm, dtype):
        self.eps = constant(norm.eps, dtype)  # NumPy 1 adds a float to one float32 as float64
        self.gain = constant(norm.weight, dtype)
        self.shift = constant(norm.bias, dtype)
        self.average = np.full_like(
            self.gain, 1 / len(self.gain)
        )  # a product with it starts sooner than a mean

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x = x - x.dot(self.average)[..., None]
        return x / np.sqrt((x * x).dot(self.average) + self.eps)[..., None] * self.gain + self.shift


class Linear:
    """x @ W + b; `weight` (outputs, inputs) and `bias` (outputs,) are those of torch."""

    def __init__(self, dtype, weight, bias=None):
        self.weight = constant(weight.T, dtype)
        self.bias = np.zeros(len(weight), dtype) if bias is None else constant(bias, dtype)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x.dot(self.weight) + self.bias


class FeedForward:
    """`nn.feedforward` and the residual, of x (n, D): x + W_2 (a * gelu(b)) + b_2, [a, b] = W_1 LN(x) + b_1."""

    def __init__(self, layer, dtype):
        self.norm = LayerNorm(layer.norm, dtype)
        self.expand = Linear(dtype, layer.expand.weight, layer.expand.bias)
        self.contract = Linear(dtype, layer.contract.weight, layer.contract.bias)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        expanded = self.expand(self.norm(x))
        half = expanded.shape[1] // 2
        gate = expanded[:, half:]
        return x + self.contract(expanded[:, :half] * gate * ndtr(gate))  # gelu(b) = b ndtr(b)


class RNNCell:
    n_states = 1

    def __init__(self, weights, dtype):
        w_x, w_h, b_x, b_h = weights
        self.from_x = Linear(dtype, w_x, b_x)
        self.from_h = Linear(dtype, w_h, b_h)
        self.start = self.n_states * (np.zeros(len(self.from_h.weight), dtype),)

    def step(self, x, h):
        h = np.tanh(self.from_x(x) + self.from_h(h))
        return h, (h,)


class GRUCell(RNNCell):
    def step(self, x, h):
        n = len(h)
        from_x = self.from_x(x)  # (3 h,): reset, update, new
        from_h = self.from_h(h)
        gates = expit(from_x[: 2 * n] + from_h[: 2 * n])
        new = np.tanh(from_x[2 * n :] + gates[:n] * from_h[2 * n :])
        h = new + gates[n:] * (h - new)
        return h, (h,)


class LSTMCell(RNNCell):
    n_states = 2

    def step(self, x, h, c):
        i, f, g, o = np.split(self.from_x(x) + self.from_h(h), 4)
        c = expit(f) * c + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
        return h, (h, c)


class S4DCell:
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
        value, gate = np.split(self.out(y * ndtr(y)), 2)  # gelu(y) = y ndtr(y)
        return x + value * expit(gate), (modes,)


class MambaCell:
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
        inner = inner * expit(inner)
        rank, n_states = len(self.dt_proj.weight), self.A.shape[1]
        delta, B, C = np.split(self.x_proj(inner), (rank, rank + n_states))
        delta = np.logaddexp(0, self.dt_proj(delta))
        modes = np.exp(delta[:, None] * self.A) * modes + (delta * inner)[:, None] * B  # (E, N)
        y = (modes.dot(C) + self.D * inner) * gate * expit(gate)
        return x + self.out_proj(y), (window[1:], modes)


class Backbone:
    """The cells of a backbone one after the other, after its projection of the input where it has one."""

    def __init__(self, kind: str, backbone, dtype):
        cell = {
            "rnn": RNNCell,
            "gru": GRUCell,
            "lstm": LSTMCell,
            "s4d": S4DCell,
            "mamba": MambaCell,
        }[kind]
        projection = getattr(backbone, "input_proj", None)
        self.project = (
            None if projection is None else Linear(dtype, projection.weight, projection.bias)
        )
        self.cells = [
            cell(layer, dtype)
            for layer in (backbone.layers if projection else backbone.all_weights)
        ]
        self.start = [cell.start for cell in self.cells]

    def step(self, x: np.ndarray, state: list) -> tuple[np.ndarray, list]:
        x = x if self.project is None else self.project(x)
        new_state = []
        for cell, previous in zip(self.cells, state, strict=True):
            x, new = cell.step(x, *previous)
            new_state.append(new)
        return x, new_state
