"""POSSM as a textbook writes it: dense padded tensors, a key and a value for every spike, masks.

Read this first. `POSSM.forward` gives the same numbers without padding, several times as fast, and
`StreamingDecoder` gives them bin by bin; tests hold all three equal.

The parameters of a model, with U units, S sessions, tokens of size D and C columns of behaviour:

    unit_embedding        E      (U+1, D)    a token for each unit; row 0: the blank token
    session_embedding            (S+1, D)    added to task_embedding (D,): the query of a trial
    encoder                                  cross-attention: latents (L, D) read a bin's spikes
    backbone                                 recurrent over bins: L D features in, h out
    decoder                                  cross-attention: the query reads k hidden states (h,)
    readout               W, b   (C, D)      of standardised behaviour
    behavior_mean, _std          (S+1, C)    of each session: behaviour = mean + std * readout

Those of a cross-attention with H heads of size d, whose context has C features; G key-value heads,
each shared by H / G heads:

    norm_query                   (D,)        LayerNorm of what asks, x
    to_q                  W_q    (H d, D)    queries W_q LN(x)
    norm_context                 (C,)        LayerNorm of what is read, c
    to_kv                 W_kv   (2 G d, C)  the keys of all G heads, then their values
    to_out                W_o, b (D, H d)    back to size D, added to x
    feed_forward                             x + W_2 (a * gelu(b)) + b_2,  [a, b] = W_1 LN(x) + b_1
    gain, bias                   (H,)        of the encoder, for the readings that have them

The reading "sum" has no queries and no keys: norm_query and to_q are missing and to_kv is (G d, C).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from ..nn.attention import masked_softmax
from ..nn.positions import Rotation, rotate
from ..recordings.batch import BLANK, PaddedBatch
from .cross_attention import CrossAttention, scale_queries
from .possm import POSSM, query_bins


def forward_textbook(
    model: POSSM, padded: PaddedBatch, output_times_s: Tensor, session: Tensor
) -> Tensor:
    """Behaviour at the output times, equal to `POSSM.forward`.

    Args:
        model: its parameters are listed at the top of this file.
        padded: the spikes of B trials, T bins of at most M spikes each.
        output_times_s: where behaviour is wanted, s since the start of each trial, float64, (B, Q).
        session: of each trial, from 1, shape (B,).

    Returns:
        Behaviour in the unit of its session, shape (B, Q, C).
    """
    hidden, _ = model.backbone(encode_textbook(model, padded))  # (B, T, h)
    return decode_textbook(model, hidden, output_times_s, session)


def encode_textbook(model: POSSM, padded: PaddedBatch) -> Tensor:
    """The input of the backbone: the latents read the tokens of each bin.

    Args:
        model: as in `forward_textbook`.
        padded: as in `forward_textbook`.

    Returns:
        The latents of each bin side by side, shape (B, T, L D), zeros after a trial's last bin.
    """
    unit = padded.padded_bin[..., 0].long()  # (B, T, M)
    offset = padded.padded_bin[..., 1]  # (B, T, M), s since the bin began
    spike_mask = padded.spike_mask  # (B, T, M)
    if model.config.reading == "softmax_blank":  # a further column: a blank token in every bin
        unit = F.pad(unit, (0, 1), value=BLANK)
        offset = F.pad(offset, (0, 1))
        spike_mask = F.pad(spike_mask, (0, 1), value=True)
    tokens = model.unit_embedding(unit)  # (B, T, M, D)
    middle = offset.new_tensor(padded.bin_width_s / 2)  # the time of the latents
    latents = cross_attention(
        model.encoder, model.rotation, model.encoder.latents, middle, tokens, offset, spike_mask
    )  # (B, T, L, D)
    return latents.flatten(2) * padded.bin_mask[..., None]


def decode_textbook(
    model: POSSM, hidden: Tensor, output_times_s: Tensor, session: Tensor
) -> Tensor:
    """Each output query reads the hidden states of its own bin and of the k - 1 before it.

    Args:
        model: as in `forward_textbook`.
        hidden: states of the backbone, shape (B, T, h).
        output_times_s: as in `forward_textbook`, shape (B, Q).
        session: as in `forward_textbook`, shape (B,).

    Returns:
        Behaviour in the unit of its session, shape (B, Q, C).
    """
    width, k = model.config.bin_width_s, model.config.context_bins
    back = torch.arange(1 - k, 1, device=hidden.device)  # (k,): the oldest bin first
    bins = query_bins(output_times_s, width)[..., None] + back  # (B, Q, k), negative: none
    trial = torch.arange(len(hidden), device=hidden.device)[:, None, None]
    states = hidden[trial, bins.clamp(min=0)]  # (B, Q, k, h)
    ends = (bins.to(torch.float64) + 1) * width  # (B, Q, k): the time of a hidden state
    query = model.query(session)[:, None]  # (B, 1, 1, D): task and session embedding
    times = output_times_s[..., None]  # (B, Q, 1)
    decoded = cross_attention(
        model.decoder, model.rotation, query, times, states, ends, bins >= 0
    )  # (B, Q, 1, D)
    return model.unstandardize(decoded[:, :, 0], session)  # mean + std * readout


def cross_attention(
    layer: CrossAttention,
    rotation: Rotation,
    x: Tensor,
    x_times: Tensor,
    context: Tensor,
    context_times: Tensor,
    mask: Tensor,
) -> Tensor:
    """Pre-norm cross-attention with rotated queries, keys and values, and its feed-forward layer.

        q = W_q LN(x),   k_m, v_m = W_kv LN(c_m)
        s_m = (R_t q) . (R_{t_m} k_m) / sqrt(d)
        w = softmax(s) or gain * sigmoid(s + bias) or gain
        z = R_{-t} sum_m w_m R_{t_m} v_m
        x <- x + W_o z,   x <- x + feed-forward(x)

    Args:
        layer: the parameters, listed at the top of this file.
        rotation: gives the phasors e^{i omega t} of times.
        x: what asks, shape (..., Q, D).
        x_times: t, s, shape (..., Q).
        context: what is read, c_m, shape (..., M, C).
        context_times: t_m, s, shape (..., M).
        mask: True where the context may be read, shape (..., M).

    Returns:
        x after both residuals, shape (..., Q, D).
    """
    # the phasors are the same for every head
    x_phase = rotation(x_times, context.dtype)[..., None, :]  # (..., Q, 1, F)
    context_phase = rotation(context_times, context.dtype)[..., None, :]  # (..., M, 1, F)

    heads = (-1, layer.n_kv_heads, layer.head_dim)
    kv = layer.to_kv(layer.norm_context(context)).unflatten(-1, heads)  # (..., M, 2, G, d)
    kv = kv.repeat_interleave(layer.n_heads // layer.n_kv_heads, -2)  # (..., M, 2, H, d)
    keys_values = kv.unbind(-3)  # keys and values, (..., M, H, d) each; "sum": values alone

    mask = mask[..., None, None, :]  # (..., 1, 1, M)
    if layer.scored:
        heads = (layer.n_heads, layer.head_dim)
        queries = layer.to_q(layer.norm_query(x)).unflatten(-1, heads)  # (..., Q, H, d)
        q = rotate(scale_queries(queries), x_phase)
        k = rotate(keys_values[0], context_phase)  # (..., M, H, d)
        scores = torch.einsum("...qhd, ...mhd -> ...hqm", q, k)
    if layer.reading == "sigmoid":
        gain, bias = layer.gain[:, None, None], layer.bias[:, None, None]  # (H, 1, 1)
        weights = mask * gain * torch.sigmoid(scores + bias)  # (..., H, Q, M)
    elif layer.reading == "sum":
        weights = mask * layer.gain[:, None, None]  # (..., H, 1, M)
    else:
        weights = masked_softmax(scores, mask)  # (..., H, Q, M)

    v = rotate(keys_values[-1], context_phase)  # (..., M, H, d)
    pooled = torch.einsum("...hqm, ...mhd -> ...qhd", weights, v)  # (..., Q, H, d)
    z = rotate(pooled, x_phase.conj())
    x = x + layer.to_out(z.flatten(-2))
    return x if layer.feed_forward is None else x + layer.feed_forward(x)
