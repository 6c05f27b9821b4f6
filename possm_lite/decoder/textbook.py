"""POSSM as a textbook writes it: dense padded tensors, a key and a value for every spike, masks.

Read this first. `POSSM.forward` gives the same numbers from the same weights without padding, several times as fast and
in less memory (`make bench`), and `StreamingDecoder` gives them bin by bin; tests hold the three equal.
"""

import torch
from torch import Tensor

from ..blocks.attention import attend, scaled_dot_score
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
    tokens = model.unit_embedding(unit)  # (B, T, S, D)
    pooled = _rotary_attention(
        encoder,
        encoder.queries(encoder.latents),  # (L, H, d)
        encoder.keys_values(tokens),  # (B, T, S, H, d)
        model.rotation(middle, dtype),  # (F,)
        model.rotation(offset, dtype),  # (B, T, S, F)
        padded.spike_mask[:, :, None, :],  # (B, T, 1, S)
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
        decoder.queries(query),  # (B, Q, 1, H, d)
        decoder.keys_values(states),  # (B, Q, k, H, d)
        model.rotation(query_times, hidden.dtype),  # (B, Q, 1, F)
        model.rotation(ends, hidden.dtype),  # (B, Q, k, F)
        (bins >= 0)[:, :, None],  # (B, Q, 1, k)
    )
    return model.unstandardize(decoder.project_out(query, pooled)[:, :, 0], session)


def _rotary_attention(
    layer: CrossAttention, queries: Tensor, keys_values: tuple[Tensor, Tensor], q_phase: Tensor, kv_phase: Tensor, mask
) -> Tensor:
    """Heads of queries (..., Q, H, d) over keys and values (..., M, H, d), rotated by their times: (..., Q, H, d)."""
    q_phase, kv_phase = q_phase[..., None, :], kv_phase[..., None, :]  # the same for every head
    keys, values = keys_values
    q, k = rotate(queries, q_phase).transpose(-2, -3), rotate(keys, kv_phase).transpose(-2, -3)  # (..., H, Q or M, d)
    v = rotate(values, kv_phase) if layer.rotate_values else values
    pooled, _ = attend(scaled_dot_score(q, k), v.transpose(-2, -3), mask.unsqueeze(-3))  # one mask for all heads
    pooled = pooled.transpose(-2, -3)  # (..., Q, H, d)
    return rotate(pooled, q_phase.conj()) if layer.rotate_values else pooled
