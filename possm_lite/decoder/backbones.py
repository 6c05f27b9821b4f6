"""The backbones: one row for each, with its layers in torch and its cell in NumPy.

To add a backbone:

1. Write its layers in `possm_lite/nn`, as a module made of `(input_size, hidden_size, n_layers)`
   whose `forward(x, state=None)` gives (B, T, h) and a state, from x (B, T, d). A `ResidualStack`
   of layers is one.
2. Write one layer's step in `cells.py`, as a class made of `(layer, dtype)` with `start` and
   `step`. Where the module has a projection `input_proj`, `layer` is one of its `layers`, else one
   row of its `all_weights`, as torch's recurrent modules have them.
3. Write here the function that makes the layers, and the row of `REGISTRY`.

The configuration, the options of the commands and the tests (batch form equals stream, gradients,
several layers) go through this table and need no change. The functions import torch only when they
are called: a stream runs without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .cells import GRUCell, LSTMCell, MambaCell, RNNCell, S4DCell

if TYPE_CHECKING:
    from torch import nn


class BackboneKind(NamedTuple):
    """The two forms of a backbone, which are equal to each other.

    Attributes:
        make_layers: makes the torch module of `(input_size, hidden_size, n_layers)`.
        cell: the class of one layer's step in NumPy.
    """

    make_layers: Callable[[int, int, int], nn.Module]
    cell: type


def _rnn(input_size: int, hidden_size: int, n_layers: int) -> nn.Module:
    from ..nn.recurrent import RNN

    return RNN(input_size, hidden_size, n_layers)


def _gru(input_size: int, hidden_size: int, n_layers: int) -> nn.Module:
    from ..nn.recurrent import GRU

    return GRU(input_size, hidden_size, n_layers)


def _lstm(input_size: int, hidden_size: int, n_layers: int) -> nn.Module:
    from ..nn.recurrent import LSTM

    return LSTM(input_size, hidden_size, n_layers)


def _s4d(input_size: int, hidden_size: int, n_layers: int) -> nn.Module:
    from ..nn.s4d import S4D

    return S4D(input_size, hidden_size, n_layers)


def _mamba(input_size: int, hidden_size: int, n_layers: int) -> nn.Module:
    from ..nn.mamba import Mamba

    return Mamba(input_size, hidden_size, n_layers)


REGISTRY: dict[str, BackboneKind] = {
    "rnn": BackboneKind(_rnn, RNNCell),
    "gru": BackboneKind(_gru, GRUCell),
    "lstm": BackboneKind(_lstm, LSTMCell),
    "s4d": BackboneKind(_s4d, S4DCell),
    "mamba": BackboneKind(_mamba, MambaCell),
}
BACKBONES = tuple(REGISTRY)
