"""One step of each backbone and of the feed-forward layer, in NumPy and SciPy: formulas as in `blocks`.

A cell takes the layer of a backbone that `frozen` returned, or its weights. `start` returns the arrays of its state
before the first bin; `step` takes the input (d,) and the state and returns the output (h,) and the new state.
Matrices are transposed against torch's, (inputs, outputs), for x @ W, written x.dot(W), which NumPy starts sooner.

`site/live/decoder.js` uses the same constants: what changes here changes there.
"""

from copy import deepcopy

import numpy as np
from scipy.special import expit, ndtr

LAYER_NORM_EPS = 1e-5  # torch's default, which the model uses throughout


def frozen(model):
    """A copy of a torch module on the CPU in float64, whose parameters NumPy reads like arrays."""
    return deepcopy(model).cpu().double().requires_grad_(False)


class Constants:
    """Arrays by name, copied in the precision of `dtype`, complex ones in that of its complex type."""

    def __init__(self, dtype, **arrays):
        for name, array in arrays.items():
            array = np.asarray(array)
            kind = np.result_type(dtype, np.complex64) if np.iscomplexobj(array) else dtype
            setattr(self, name, np.array(array, kind, order="C"))


def normalize(x: np.ndarray) -> np.ndarray:
    """x (..., n) with mean 0 and variance 1 over its last axis: a layer norm without its gain and shift."""
    average = np.full(x.shape[-1], 1 / x.shape[-1], x.dtype)  # a product with it is cheaper than `mean`
    x = x - x.dot(average)[..., None]
    return x / np.sqrt((x * x).dot(average) + LAYER_NORM_EPS)[..., None]


def with_norm(norm, linear) -> tuple[np.ndarray, np.ndarray]:
    """W and b of linear(norm(x)) = normalize(x) @ W + b."""
    weight = np.asarray(linear.weight).T
    bias = 0.0 if linear.bias is None else np.asarray(linear.bias)
    return np.asarray(norm.weight)[:, None] * weight, np.asarray(norm.bias) @ weight + bias


class FeedForward(Constants):
    """As `blocks.feedforward`, with the residual: x + W_2 (a * gelu(b)) + b_2,  [a, b] = W_1 LN(x) + b_1."""

    def __init__(self, layer, dtype):
        expand, expand_bias = with_norm(layer.norm, layer.expand)
        contract, contract_bias = layer.contract.weight.T, layer.contract.bias
        super().__init__(dtype, expand=expand, expand_bias=expand_bias, contract=contract, contract_bias=contract_bias)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(n, D) to (n, D)."""
        expanded = normalize(x).dot(self.expand) + self.expand_bias
        half = expanded.shape[1] // 2
        gate = expanded[:, half:]
        gated = expanded[:, :half] * gate * ndtr(gate)  # gelu(b) = b ndtr(b)
        return x + gated.dot(self.contract) + self.contract_bias


class RNNCell(Constants):
    def __init__(self, weights, dtype):
        w_x, w_h, b_x, b_h = weights
        super().__init__(dtype, w_x=w_x.T, w_h=w_h.T, b_x=b_x, b_h=b_h)

    def start(self):
        return (np.zeros(len(self.w_h), self.w_h.dtype),)

    def step(self, x, h):
        h = np.tanh(x.dot(self.w_x) + self.b_x + h.dot(self.w_h) + self.b_h)
        return h, (h,)


class GRUCell(RNNCell):
    def step(self, x, h):
        n = len(h)
        from_x = x.dot(self.w_x) + self.b_x  # (3 h,): reset, update, new
        from_h = h.dot(self.w_h) + self.b_h
        gates = expit(from_x[: 2 * n] + from_h[: 2 * n])
        new = np.tanh(from_x[2 * n :] + gates[:n] * from_h[2 * n :])
        h = new + gates[n:] * (h - new)
        return h, (h,)


class LSTMCell(RNNCell):
    def start(self):
        return 2 * super().start()

    def step(self, x, h, c):
        i, f, g, o = np.split(x.dot(self.w_x) + self.b_x + h.dot(self.w_h) + self.b_h, 4)
        c = expit(f) * c + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
        return h, (h, c)


class InputProjection(Constants):
    """Before the first layer of a state-space backbone, from the size of its input to h."""

    def __init__(self, layer, dtype):
        super().__init__(dtype, weight=layer.weight.T, bias=layer.bias)

    def start(self):
        return ()

    def step(self, x):
        return x.dot(self.weight) + self.bias, ()


class S4DCell(Constants):
    def __init__(self, layer, dtype):
        decay, drive, C = layer.system()
        super().__init__(
            dtype,
            gain=layer.norm.weight,  # (h,)
            shift=layer.norm.bias,
            decay=decay,  # (h, N)
            readout=2 * C * drive,  # the drive only scales a mode; (h, N)
            D=layer.D,
            w_out=layer.output_linear.weight.T,  # (h, 2h)
            b_out=layer.output_linear.bias,
        )

    def start(self):
        return (np.zeros_like(self.decay),)

    def step(self, x, modes):
        u = normalize(x) * self.gain + self.shift
        modes = self.decay * modes + u[:, None]
        y = np.einsum("hn,hn->h", self.readout, modes).real + self.D * u
        value, gate = np.split((y * ndtr(y)).dot(self.w_out) + self.b_out, 2)  # gelu(y) = y ndtr(y)
        return x + value * expit(gate), (modes,)


class MambaCell(Constants):
    def __init__(self, layer, dtype):
        in_proj, in_bias = with_norm(layer.norm, layer.in_proj)
        super().__init__(
            dtype,
            in_proj=in_proj,  # (h, 2E)
            in_bias=in_bias,
            conv=layer.conv1d_weight,  # oldest step first, (K, E)
            conv_bias=layer.conv1d_bias,
            x_proj=layer.x_proj.weight.T,  # (E, rank + 2N)
            dt_proj=layer.dt_proj.weight.T,  # (rank, E)
            dt_bias=layer.dt_proj.bias,
            A=-layer.A_log.exp(),  # (E, N)
            D=layer.D,
            out_proj=layer.out_proj.weight.T,  # (E, h)
        )

    def start(self):
        return np.zeros_like(self.conv[1:]), np.zeros_like(self.A)

    def step(self, x, recent, modes):
        inner, gate = np.split(normalize(x).dot(self.in_proj) + self.in_bias, 2)
        window = np.concatenate([recent, inner[None]])  # (K, E)
        inner = _silu((window * self.conv).sum(0) + self.conv_bias)
        rank, n_states = len(self.dt_proj), self.A.shape[1]
        delta, B, C = np.split(inner.dot(self.x_proj), (rank, rank + n_states))
        delta = np.logaddexp(0, delta.dot(self.dt_proj) + self.dt_bias)
        modes = np.exp(delta[:, None] * self.A) * modes + (delta * inner)[:, None] * B  # (E, N)
        y = (modes.dot(C) + self.D * inner) * _silu(gate)
        return x + y.dot(self.out_proj), (window[1:], modes)


def _silu(x: np.ndarray) -> np.ndarray:
    return x * expit(x)


class Backbone:
    """The cells of a backbone, one after the other; `kind` is one of `config.BACKBONES`."""

    def __init__(self, kind: str, backbone, dtype):
        if kind in ("s4d", "mamba"):
            cell = {"s4d": S4DCell, "mamba": MambaCell}[kind]
            projection = InputProjection(backbone.input_proj, dtype)
            self.cells = [projection, *(cell(layer, dtype) for layer in backbone.layers)]
        else:
            cell = {"rnn": RNNCell, "gru": GRUCell, "lstm": LSTMCell}[kind]
            self.cells = [cell(weights, dtype) for weights in backbone.all_weights]

    def start(self) -> list[tuple[np.ndarray, ...]]:
        return [cell.start() for cell in self.cells]

    def step(self, x: np.ndarray, state: list) -> tuple[np.ndarray, list]:
        new_state = []
        for cell, previous in zip(self.cells, state, strict=True):
            x, new = cell.step(x, *previous)
            new_state.append(new)
        return x, new_state
