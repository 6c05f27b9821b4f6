"""POSSM as a textbook writes it: dense padded tensors, a key and a value for every spike, masks.

Read this first. `POSSM.forward` gives the same numbers from the same weights without padding, several times as fast and
in less memory (`make bench`), and `StreamingDecoder` gives them bin by bin; tests hold the three equal.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ..blocks.attention import masked_softmax
from ..blocks.positions import rotate
from ..spikes.batch import PaddedBatch
from .attention import CrossAttention
from .possm import POSSM, query_bins


def forward_textbook(model: POSSM, padded: PaddedBatch, output_times_s: Tensor, session: Tensor) -> Tensor:
    """Behaviour at the output times, (B, Q, C), as `POSSM.forward`, from a padded batch."""
    hidden, _ = model.backbone(encode_textbook(model, padded))  # (B, T, h)
    return decode_textbook(model, hidden, output_times_s, session)


def encode_textbook(model: POSSM, padded: PaddedBatch) -> Tensor:
    """Cross-attention of the latents over the tokens of each bin: (B, T, L D), zeros after the last bin of a trial."""
    encoder, dtype = model.encoder, model.readout.weight.dtype
    unit, offset = padded.padded_bin[..., 0].long(), padded.padded_bin[..., 1]  # (B, T, S) each
    middle = torch.full((), padded.bin_width_s / 2, dtype=torch.float64, device=offset.device)
    spike_mask = padded.spike_mask
    if encoder.reading == "softmax_blank":  # a further column of tokens
        unit, offset, spike_mask = F.pad(unit, (0, 1)), F.pad(offset, (0, 1)), F.pad(spike_mask, (0, 1), value=True)
    tokens = model.unit_embedding(unit)  # (B, T, S, D)
    pooled = _rotary_attention(
        encoder,
        encoder.queries(encoder.latents) if encoder.scored else None,  # (L, H, r)
        encoder.keys_values(tokens, model.rotation),  # (B, T, S, H, r)
        model.rotation(middle, dtype),  # (F,)
        model.rotation(offset, dtype),  # (B, T, S, F)
        spike_mask[:, :, None, :],  # (B, T, 1, S)
    )
    latents = encoder.project_out(encoder.latents, pooled)  # (B, T, L, D)
    return latents.flatten(2) * padded.bin_mask[..., None]


def decode_textbook(model: POSSM, hidden: Tensor, output_times_s: Tensor, session: Tensor) -> Tensor:
    """Each output query gathers its k hidden states and attends to them: (B, Q, C)."""
    config, decoder = model.config, model.decoder
    times = output_times_s.to(torch.float64)
    query_bin = query_bins(times, config.bin_width_s)  # (B, Q)
    bins = query_bin[..., None] + torch.arange(1 - config.context_bins, 1, device=hidden.device)  # (B, Q, k)
    trial = torch.arange(len(hidden), device=hidden.device)[:, None, None]
    states = hidden[trial, bins.clamp(min=0)]  # (B, Q, k, h)
    ends = (bins.to(torch.float64) + 1) * config.bin_width_s  # (B, Q, k)
    query_times = times[..., None] if config.query == "time" else ends[..., -1:]  # (B, Q, 1)
    query = model.query(times, query_bin, session).expand(-1, times.shape[1], -1)[:, :, None]  # (B, Q, 1, D)
    pooled = _rotary_attention(
        decoder,
        decoder.queries(query),  # (B, Q, 1, H, r)
        decoder.keys_values(states, model.rotation),  # (B, Q, k, H, r)
        model.rotation(query_times, hidden.dtype),  # (B, Q, 1, F)
        model.rotation(ends, hidden.dtype),  # (B, Q, k, F)
        (bins >= 0)[:, :, None],  # (B, Q, 1, k)
    )
    return model.unstandardize(decoder.project_out(query, pooled)[:, :, 0], session)


def _rotary_attention(
    layer: CrossAttention, queries: Tensor | None, keys_values: tuple, q_phase: Tensor, kv_phase: Tensor, mask: Tensor
) -> Tensor:
    """Heads of queries (..., Q, H, r) over keys and values (..., M, H, r), rotated by their times: (..., Q, H, r)."""
    q_phase, kv_phase = q_phase[..., None, :], kv_phase[..., None, :]  # the same for every head
    keys, values = keys_values
    v = (rotate(values, kv_phase) if layer.rotate_values else values).transpose(-2, -3)  # (..., H, M, r)
    scores = v.new_zeros(())
    if layer.scored:
        q, k = (rotate(x, phase).transpose(-2, -3) for x, phase in ((queries, q_phase), (keys, kv_phase)))
        scores = q @ k.transpose(-1, -2) / math.sqrt(layer.head_dim)  # (..., H, Q, M)
    pooled = (_weights(layer, scores, mask.unsqueeze(-3)) @ v).transpose(-2, -3)  # one mask for all heads
    return rotate(pooled, q_phase.conj()) if layer.rotate_values else pooled


def _weights(layer: CrossAttention, scores: Tensor, mask: Tensor) -> Tensor:
    """The weight of each token from its score, as `reading` says; zero where the mask is False."""
    if layer.reading == "sigmoid":
        return mask * layer.gain[:, None, None] * torch.sigmoid(scores + layer.bias[:, None, None])
    if layer.reading == "sum":
        return mask * layer.gain[:, None, None]
    return masked_softmax(scores.expand(mask.shape) if not layer.scored else scores, mask)
