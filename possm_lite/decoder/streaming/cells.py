"""One step of each backbone in NumPy, on vectors; the formulas stand in `blocks.recurrent`, `.s4d` and `.mamba`.

A cell takes the input, the state, which is one or two flat arrays, and its constants; it gives the output and the new
state. `step_constants` makes the constants out of a model's weights. Matrices are transposed against torch's,
(inputs, outputs), to be used as x @ W, written as x.dot(W), which NumPy starts sooner; gates stand in torch's order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import erf, expit

LAYER_NORM_EPS = 1e-5  # torch's default, which the model uses throughout


def rnn_cell(x, h, w_x, w_h, b_x, b_h):
    h = np.tanh(x.dot(w_x) + b_x + h.dot(w_h) + b_h)
    return h, (h,)


def gru_cell(x, h, w_x, w_h, b_x, b_h):
    n = len(h)
    from_x, from_h = x.dot(w_x) + b_x, h.dot(w_h) + b_h
    gates = expit(from_x[: 2 * n] + from_h[: 2 * n])  # reset, update
    new = np.tanh(from_x[2 * n :] + gates[:n] * from_h[2 * n :])
    h = new + gates[n:] * (h - new)
    return h, (h,)


def lstm_cell(x, h, c, w_x, w_h, b_x, b_h):
    i, f, g, o = np.split(x.dot(w_x) + b_x + h.dot(w_h) + b_h, 4)
    c = expit(f) * c + expit(i) * np.tanh(g)
    h = expit(o) * np.tanh(c)
    return h, (h, c)


def s4d_cell(x, state, gain, shift, decay, readout, skip, w_mix, b_mix):
    u = normal(x) * gain + shift
    modes = decay * state.view(decay.dtype).reshape(decay.shape) + u[:, None]  # (h, N)
    y = np.einsum("hn,hn->h", readout, modes).real + skip * u
    mixed = (y * (1 + erf(y / math.sqrt(2)))).dot(w_mix) + b_mix
    half = len(mixed) // 2
    return x + mixed[:half] * expit(mixed[half:]), (modes.view(state.dtype).reshape(-1),)


def mamba_cell(x, seen, modes, w_in, b_in, conv, b_conv, w_select, w_step, b_step, a, skip, w_out):
    inner, gate = np.split(normal(x).dot(w_in) + b_in, 2)
    seen = np.concatenate([seen, inner])  # what the convolution sees, oldest first
    inner = _silu(np.einsum("ke,ke->e", seen.reshape(conv.shape), conv) + b_conv)
    rank, n_states = len(w_step), a.shape[1]
    step, b, c = np.split(inner.dot(w_select), (rank, rank + n_states))
    step = np.logaddexp(0, step.dot(w_step) + b_step)
    modes = np.exp(step[:, None] * a) * modes.reshape(a.shape) + (step * inner)[:, None] * b  # (E, N)
    y = (modes.dot(c) + skip * inner) * _silu(gate)
    return x + y.dot(w_out), (seen[len(inner) :], modes.reshape(-1))


def normal(x: np.ndarray) -> np.ndarray:
    """Mean 0 and variance 1; gain and shift of the layer norm stand in what comes after."""
    centred = x - np.add.reduce(x) / len(x)
    return centred * (1 / math.sqrt(centred.dot(centred) / len(x) + LAYER_NORM_EPS))


def _silu(x: np.ndarray) -> np.ndarray:
    return x * expit(x)


class _Kind(NamedTuple):
    """A backbone in NumPy.

    Args:
        cell: one step of one layer.
        fields: the constants of a layer, in the order of the cell's arguments.
        constants: constants(weights, i) of layer i, by field; weights without "backbone.", as float64.
        sizes: sizes(*constants) of the arrays of the state.
    """

    cell: Callable
    fields: str
    constants: Callable[[dict, int], dict]
    sizes: Callable[..., tuple[int, ...]]


def _recurrent_constants(w: dict, i: int) -> dict:
    names = {"w_x": "weight_ih", "w_h": "weight_hh", "b_x": "bias_ih", "b_h": "bias_hh"}
    return {field: w[f"{name}_l{i}"].T for field, name in names.items()}


def _s4d_constants(w: dict, i: int) -> dict:
    """`drive` goes into the readout, as it only scales a mode; so does 2 Re. The half of gelu goes into the mix."""
    w = _layer(w, i)
    a = -np.exp(w["log_decay"]) + 1j * w["frequency"]
    decay = np.exp(a * np.exp(w["log_step"])[:, None])
    return {
        "gain": w["norm.weight"],
        "shift": w["norm.bias"],
        "decay": decay,
        "readout": 2 * (w["readout"][..., 0] + 1j * w["readout"][..., 1]) * (decay - 1) / a,
        "skip": w["skip"],
        "w_mix": w["mix.weight"].T / 2,
        "b_mix": w["mix.bias"],
    }


def _mamba_constants(w: dict, i: int) -> dict:
    w = _layer(w, i)
    return {
        "w_in": w["norm.weight"][:, None] * w["expand.weight"].T,
        "b_in": w["expand.weight"] @ w["norm.bias"],
        "conv": w["conv_weight"],
        "b_conv": w["conv_bias"],
        "w_select": w["select.weight"].T,
        "w_step": w["to_step.weight"].T,
        "b_step": w["to_step.bias"],
        "a": -np.exp(w["log_decay"]),
        "skip": w["skip"],
        "w_out": w["contract.weight"].T,
    }


def _layer(w: dict, i: int) -> dict:
    return {name.removeprefix(f"layers.{i}."): array for name, array in w.items() if name.startswith(f"layers.{i}.")}


def _recurrent(cell: Callable, n_states: int) -> _Kind:
    return _Kind(cell, "w_x w_h b_x b_h", _recurrent_constants, lambda w_x, w_h, *_: (len(w_h),) * n_states)


_KINDS = {
    "rnn": _recurrent(rnn_cell, 1),
    "gru": _recurrent(gru_cell, 1),
    "lstm": _recurrent(lstm_cell, 2),
    "s4d": _Kind(
        s4d_cell,
        "gain shift decay readout skip w_mix b_mix",
        _s4d_constants,
        lambda gain, shift, decay, *_: (2 * decay.size,),  # real and imaginary parts in turn
    ),
    "mamba": _Kind(
        mamba_cell,
        "w_in b_in conv b_conv w_select w_step b_step a skip w_out",
        _mamba_constants,
        lambda w_in, b_in, conv, b_conv, w_select, w_step, b_step, a, *_: (conv[1:].size, a.size),
    ),
}


def step_constants(kind: str, weights: dict[str, np.ndarray], n_layers: int, before: np.ndarray | None = None) -> dict:
    """What `Backbone.from_constants` needs.

    Args:
        kind: the backbone's name.
        weights: the backbone's state dict as float64 arrays.
        n_layers: how many.
        before: a constant (d,) that is added to every input, kept out of the input and put into the first bias.

    Returns:
        Arrays by name, "0.w_x" being w_x of the first layer; "enter.w" and "enter.b" where there is a way in.
    """
    constants = {
        f"{i}.{field}": array for i in range(n_layers) for field, array in _KINDS[kind].constants(weights, i).items()
    }
    if "enter.weight" in weights:
        constants |= {"enter.w": weights["enter.weight"].T, "enter.b": weights["enter.bias"]}
    if before is not None:
        w, b = ("enter.w", "enter.b") if "enter.w" in constants else ("0.w_x", "0.b_x")
        constants[b] = constants[b] + before @ constants[w]
    return constants


class Backbone:
    """A stack of layers.

    Args:
        kind: "rnn", "gru", "lstm", "s4d" or "mamba".
        layers: constants of each layer, in the order of its cell's arguments, as arrays of one precision.
        enter: matrix and bias of the way into the first layer, where there is one.
    """

    def __init__(self, kind: str, layers: list[tuple[np.ndarray, ...]], enter: tuple[np.ndarray, ...] | None = None):
        self._kind, self._layers, self._enter = _KINDS[kind], layers, enter

    @classmethod
    def from_constants(cls, kind: str, constants: dict[str, np.ndarray], n_layers: int) -> Backbone:
        """Out of what `step_constants` gives, cast to one precision."""
        fields = _KINDS[kind].fields.split()
        layers = [tuple(constants[f"{i}.{field}"] for field in fields) for i in range(n_layers)]
        enter = (constants["enter.w"], constants["enter.b"]) if "enter.w" in constants else None
        return cls(kind, layers, enter)

    def start(self) -> list[tuple[np.ndarray, ...]]:
        """The state before the first bin: flat arrays of zeros for each layer."""
        # the first constant of every kind is real
        return [tuple(np.zeros(n, layer[0].dtype) for n in self._kind.sizes(*layer)) for layer in self._layers]

    def step(self, x: np.ndarray, state: list) -> tuple[np.ndarray, list]:
        """Input (d,) and state to the output of the last layer (h,) and the new state."""
        if self._enter is not None:
            x = x.dot(self._enter[0]) + self._enter[1]
        new = []
        for constants, before in zip(self._layers, state, strict=True):
            x, after = self._kind.cell(x, *before, *constants)
            new.append(after)
        return x, new
