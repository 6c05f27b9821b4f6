"""POSSM as a textbook writes it: dense padded tensors, a key and a value for every spike, masks. Read this first.

`POSSM.forward` gives the same numbers without padding, several times as fast, `StreamingDecoder` bin by bin.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ..nn.attention import masked_softmax
from ..nn.positions import Rotation, rotate
from ..recordings.batch import BLANK, PaddedBatch
from .cross_attention import CrossAttention
from .possm import POSSM, query_bins


def forward_textbook(
    model: POSSM, padded: PaddedBatch, output_times_s: Tensor, session: Tensor
) -> Tensor:
    """Behaviour at the output times, (B, Q, C), as `POSSM.forward`, from a padded batch."""
    hidden, _ = model.backbone(encode_textbook(model, padded))  # (B, T, h)
    return decode_textbook(model, hidden, output_times_s, session)


def encode_textbook(model: POSSM, padded: PaddedBatch) -> Tensor:
    """Cross-attention of the latents over the tokens of each bin: (B, T, L D), zeros after the last bin of a trial."""
    unit, offset = padded.padded_bin[..., 0].long(), padded.padded_bin[..., 1]  # (B, T, M) each
    spike_mask = padded.spike_mask
    if model.config.reading == "softmax_blank":  # a further column of tokens
        unit, offset = F.pad(unit, (0, 1), value=BLANK), F.pad(offset, (0, 1))
        spike_mask = F.pad(spike_mask, (0, 1), value=True)
    tokens = model.unit_embedding(unit)  # (B, T, M, D)
    middle = offset.new_tensor(padded.bin_width_s / 2)
    queries = model.encoder.latents
    latents = cross_attention(
        model.encoder, model.rotation, queries, middle, tokens, offset, spike_mask
    )
    return latents.flatten(2) * padded.bin_mask[..., None]


def decode_textbook(
    model: POSSM, hidden: Tensor, output_times_s: Tensor, session: Tensor
) -> Tensor:
    """Each output query gathers its k hidden states and attends to them: (B, Q, C)."""
    width, k = model.config.bin_width_s, model.config.context_bins
    bins = query_bins(output_times_s, width)[..., None] + torch.arange(
        1 - k, 1, device=hidden.device
    )  # (B, Q, k)
    trial = torch.arange(len(hidden), device=hidden.device)[:, None, None]
    states = hidden[trial, bins.clamp(min=0)]  # (B, Q, k, h)
    ends = (bins.to(torch.float64) + 1) * width  # (B, Q, k)
    query, times = (
        model.query(session)[:, None],
        output_times_s[..., None],
    )  # (B, 1, 1, D), (B, Q, 1)
    decoded = cross_attention(
        model.decoder, model.rotation, query, times, states, ends, bins >= 0
    )  # (B, Q, 1, D)
    return model.unstandardize(decoded[:, :, 0], session)


def cross_attention(
    layer: CrossAttention, rotation: Rotation, x, x_times, context, context_times, mask
) -> Tensor:
    """Queries x (..., Q, D) read a context (..., M, C) where the mask (..., M) is True: (..., Q, D).

        z = R_{-t} sum_m w_m R_{t_m} v_m,   w = softmax(s) or gain * sigmoid(s + bias) or gain
        s_m = (R_t q) . (R_{t_m} k_m) / sqrt(d),   x <- x + W_o z,   x <- x + feed-forward(x)

    The times, of the queries t (..., Q) and of the context t_m (..., M), are in seconds.
    """
    x_phase = rotation(x_times, context.dtype)[
        ..., None, :
    ]  # (..., Q, 1, F): the same for every head
    context_phase = rotation(context_times, context.dtype)[..., None, :]  # (..., M, 1, F)
    keys, values = layer.keys_values(context)  # (..., M, H, d)
    mask = mask[..., None, None, :]  # (..., 1, 1, M)
    if layer.scored:
        q = rotate(layer.queries(x), x_phase)  # (..., Q, H, d)
        k = rotate(keys, context_phase)
        scores = torch.einsum("...qhd, ...mhd -> ...hqm", q, k) / math.sqrt(layer.head_dim)
    if layer.reading == "sigmoid":
        weights = (
            mask * layer.gain[:, None, None] * torch.sigmoid(scores + layer.bias[:, None, None])
        )
    elif layer.reading == "sum":
        weights = mask * layer.gain[:, None, None]  # (..., H, 1, M)
    else:
        weights = masked_softmax(scores, mask)
    pooled = torch.einsum("...hqm, ...mhd -> ...qhd", weights, rotate(values, context_phase))
    return layer.project_out(x, rotate(pooled, x_phase.conj()))
