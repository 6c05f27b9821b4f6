"""Everything in a trained POSSM that does not depend on spikes, computed in float64 with the model's own parts.

It needs torch; a finished `StreamingDecoder` does without.
"""

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from ...blocks.feedforward import GatedFeedForward
from ...blocks.mamba import MambaLayer
from ...blocks.recurrent import GRU, LSTM, RNN
from ...blocks.s4d import S4DLayer
from ...blocks.ssm import ResidualStack
from ..attention import CrossAttention, as_real, precompute_scores
from ..possm import POSSM
from . import cells


@torch.no_grad()
def precompute_constants(model: POSSM, session: int, query_offsets_s: np.ndarray) -> cells.Constants:
    """The constants of a streaming decoder, in the precision of the model and sharing nothing with it.

    Args:
        model: a trained POSSM.
        session: session whose embedding and scale are used.
        query_offsets_s: times inside a bin at which behaviour is wanted, seconds, (Q,).
    """
    dtype, model = model.readout.weight.dtype, deepcopy(model).cpu().double()
    ff, config = model.encoder.feed_forward, model.config
    # the last bias of the input attention goes straight into the first one of the backbone
    bias = torch.zeros(config.dim).double() if ff is None else ff.contract.bias
    parts = (
        _input_constants(model),
        backbone_constants(model.backbone, bias.tile(config.n_latents)),
        _output_constants(model, torch.tensor([session]), torch.from_numpy(query_offsets_s)),
    )
    omega = model.rotation.omega.numpy()
    cycles = np.zeros((2, 2 * len(omega) + 1))
    cycles[0, :-1] = np.repeat(omega / (2 * np.pi), 2)
    cycles[1] = -cycles[0] * (config.bin_width_s / 2)  # time counts from the middle of the bin
    cycles[1, 1:-1:2] -= 0.25  # a sine is a cosine a quarter of a cycle later
    return cells.Constants(cycles, *to_numpy(parts, dtype))


def to_numpy(constants, dtype: torch.dtype):
    """The tensors in nested tuples as copied arrays in C order and the precision of `dtype`, complex if they were."""
    if isinstance(constants, Tensor):
        constants = constants.detach()
        return np.array(constants.to(dtype.to_complex() if constants.is_complex() else dtype).numpy(), order="C")
    if isinstance(constants, tuple):
        items = (to_numpy(item, dtype) for item in constants)
        return type(constants)(*items) if hasattr(constants, "_fields") else tuple(items)
    return constants


def _input_constants(model: POSSM) -> cells.InputConstants:
    encoder, eye = model.encoder, torch.eye(model.config.dim).double()
    keys, values = encoder.keys_values(model.unit_embedding.weight, model.rotation)  # (U+1, H, r)
    if encoder.scored:
        scores = _score_table(encoder.queries(encoder.latents), keys[:, None], model)  # (U+1, L, H, 2F+1)
    else:
        scores = values.new_zeros(len(values), len(encoder.latents), encoder.n_heads, 2 * len(model.rotation.omega) + 1)
    if encoder.reading == "sigmoid":
        scores[..., -1] += encoder.bias
    if encoder.reading in ("sigmoid", "sum"):
        values = encoder.gain[:, None] * values
    centred_and_plain = torch.cat([eye - eye.mean(0), eye], 1)  # (D, 2D)
    return cells.InputConstants(
        scores=scores.flatten(1, 2),
        values=_with_turns(values, model),
        columns=_columns(values.shape[-1], model),
        out=_out_matrix(encoder, values.shape[-1], model) @ centred_and_plain,
        start=(encoder.latents + encoder.to_out.bias) @ centred_and_plain,
        feed_forward=_feed_forward_constants(encoder.feed_forward),
    )


def _output_constants(model: POSSM, session: Tensor, offsets: Tensor) -> cells.OutputConstants:
    """Scores and values are linear in the normalised hidden state, and behaviour is linear in what is pooled."""
    config, decoder, norm = model.config, model.decoder, model.decoder.norm_context
    k, width, eye = config.context_bins, config.bin_width_s, torch.eye(config.dim).double()
    query_times = offsets if config.query == "time" else torch.full_like(offsets, width)
    ends = torch.arange(2 - k, 2).double() * width  # of each bin, oldest first, from the start of the current one
    phase = model.rotation(ends - query_times[:, None], torch.float64)  # (Q, k, F)

    decoder.norm_context = nn.Identity()  # its gain and shift become part of the projection
    states = torch.cat([norm.weight.diag(), norm.bias[None], torch.zeros(1, config.hidden)]).double()
    keys_values = decoder.keys_values(states, model.rotation)  # (h + 2, H, r) each
    # what does not depend on the state counts once, with the shift of the norm
    keys, values = (torch.cat([x[:-2] - x[-1], x[-2:-1]]) for x in keys_values)  # (h + 1, H, r)
    query = model.query(offsets[None], torch.zeros(1, len(offsets)), session)[0]  # (1 or Q, D)
    table = _score_table(decoder.queries(query)[:, None], keys, model).expand(len(offsets), -1, -1, -1)
    basis = torch.cat([as_real(phase), torch.ones(*phase.shape[:2], 1)], -1)  # (Q, k, 2F+1)
    scores = torch.einsum("qkf,qxhf->xkqh", basis, table)  # (h + 1, k, Q, H)
    rows = torch.cat([scores.flatten(1), _with_turns(values, model).flatten(1)], 1)  # (h + 1, k Q H + H R)

    std = model.behavior_std[session].T  # (C, 1)
    readout = (model.readout.weight * std).T  # (D, C)
    centred_and_readout = torch.cat([eye - eye.mean(0), readout], 1)  # (D, D + C)
    start = (query + decoder.to_out.bias) @ centred_and_readout
    bias = model.readout.bias * std[:, 0] + model.behavior_mean[session][0]
    feed_forward = _feed_forward_constants(decoder.feed_forward)
    if feed_forward is not None:  # the readout directly follows, so the two are one matrix
        bias = bias + decoder.feed_forward.contract.bias @ readout
        feed_forward = feed_forward._replace(contract=feed_forward.contract @ readout)
    start[:, config.dim :] += bias
    return cells.OutputConstants(
        mean=_mean_weights(norm),
        rows=rows[:-1],
        rows_bias=rows[-1],
        rotations=basis[..., _columns(values.shape[-1], model)].transpose(0, 1)[:, :, None],
        out=_out_matrix(decoder, values.shape[-1], model) @ centred_and_readout,
        start=start,
        feed_forward=feed_forward,
    )


def _out_matrix(layer: CrossAttention, row: int, model: POSSM) -> Tensor:
    """From what the heads pool, values of `row` numbers and their turns, to the output projection: (H R, D)."""
    pooled = torch.eye(layer.n_heads * row).double().unflatten(-1, (layer.n_heads, row))
    out = (layer.project_values(pooled) @ layer.to_out.weight.T).unflatten(0, (layer.n_heads, row))
    return torch.cat([out, out[:, : 2 * _n_rotated(model)]], 1).flatten(0, 1)


def _n_rotated(model: POSSM) -> int:
    """Pairs of a value that are rotated."""
    return len(model.rotation.omega) if model.config.rotate_values else 0


def _with_turns(values: Tensor, model: POSSM) -> Tensor:
    """Values (..., r) and the quarter turns of their rotated pairs, (..., R)."""
    a, b = values[..., : 2 * _n_rotated(model)].unflatten(-1, (_n_rotated(model), 2)).unbind(-1)
    return torch.cat([values, torch.stack([-b, a], -1).flatten(-2)], -1)


def _columns(row: int, model: POSSM) -> np.ndarray:
    """Entry of `fourier_basis` for each number of a value of `row` numbers with its turns, (R,)."""
    cosines, one = np.repeat(2 * np.arange(_n_rotated(model)), 2), 2 * len(model.rotation.omega)
    return np.concatenate([cosines, np.full(row - len(cosines), one), cosines + 1])


def _score_table(queries: Tensor, keys: Tensor, model: POSSM) -> Tensor:
    """Both results of `precompute_scores` in one: (..., r) to (..., 2F + 1)."""
    table, rest = precompute_scores(queries, keys, len(model.rotation.omega), model.config.head_dim)
    return torch.cat([table, rest[..., None]], -1)


def _mean_weights(norm: nn.LayerNorm) -> Tensor:
    return torch.full_like(norm.weight, 1 / len(norm.weight))


def _feed_forward_constants(layer: GatedFeedForward | None) -> cells.FeedForwardConstants | None:
    if layer is None:
        return None
    expand = (layer.expand.weight * layer.norm.weight).T
    mean = _mean_weights(layer.norm)
    return cells.FeedForwardConstants(mean, expand, layer.expand(layer.norm.bias), layer.contract.weight.T)


@torch.no_grad()
def backbone_constants(backbone: nn.Module, input_bias: Tensor) -> cells.Backbone:
    """The cells of a backbone of `blocks`, with a constant (d,) that is added to every input."""
    if isinstance(backbone, ResidualStack):
        w_in, b_in = backbone.input_proj.weight.T, backbone.input_proj(input_bias)
        layers = (_s4d_cell(layer) if isinstance(layer, S4DLayer) else _mamba_cell(layer) for layer in backbone.layers)
        return cells.Backbone(tuple(layers), w_in, b_in)
    cell = {RNN: cells.RNNCell, GRU: cells.GRUCell, LSTM: cells.LSTMCell}[type(backbone)]
    first, *others = (cell(w_x.T, w_h.T, b_x, b_h) for w_x, w_h, b_x, b_h in backbone.all_weights)
    return cells.Backbone((first._replace(b_x=first.b_x + input_bias @ first.w_x), *others), None, None)


def _s4d_cell(layer: S4DLayer) -> cells.S4DCell:
    decay, drive, C = layer.system()
    norm, out = layer.norm, layer.output_linear
    return cells.S4DCell(
        _mean_weights(norm), norm.weight, norm.bias, decay, 2 * C * drive, layer.D, out.weight.T, out.bias
    )


def _mamba_cell(layer: MambaLayer) -> cells.MambaCell:
    return cells.MambaCell(
        mean=_mean_weights(layer.norm),
        in_proj=(layer.in_proj.weight * layer.norm.weight).T,
        in_bias=layer.in_proj(layer.norm.bias),
        conv=layer.conv1d_weight,
        conv_bias=layer.conv1d_bias,
        x_proj=layer.x_proj.weight.T,
        dt_proj=layer.dt_proj.weight.T,
        dt_bias=layer.dt_proj.bias,
        A=-layer.A_log.exp(),
        D=layer.D,
        out_proj=layer.out_proj.weight.T,
    )
