"""What training costs, computed from sizes: parameters, bytes, operations, and what processes send each other."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM

_GATES = {"rnn": 1, "gru": 3, "lstm": 4}  # each has a product with the input and one with the state


class ParameterCount(NamedTuple):
    """Number of parameters of a POSSM: unit and session embeddings, others, and their sum."""

    embeddings: int
    shared: int
    total: int


class Operations(NamedTuple):
    """Floating-point operations of a forward pass; a multiplication and an addition count as two."""

    unit: int  # of the model, once a pass: its key and its value
    spike: int  # rotating and weighting a token
    bin_unit: int  # per unit and bin: the part of the values that is not rotated
    bin: int  # the rest of encoding a bin, the backbone, and the bin's key and value
    query: int  # an output that scores the k bins it may see (trials of few bins are scored whole, in one product)

    def forward(self, n_units: int, n_spikes: int, n_bins: int, n_queries: int) -> int:
        """Operations for a batch, by a model of `n_units` units."""
        units = (self.unit + self.bin_unit * n_bins) * (n_units + 1)
        return units + self.spike * n_spikes + self.bin * n_bins + self.query * n_queries

    def step(self, n_units: int, n_spikes: int, n_bins: int, n_queries: int) -> int:
        """Forward and backward: in the backward pass a product y = W x becomes two, one for dW and one for dx."""
        return 3 * self.forward(n_units, n_spikes, n_bins, n_queries)


def parameters(config: POSSMConfig) -> ParameterCount:
    """Parameters of a POSSM, counted on torch's meta device, where tensors have shapes but no memory."""
    with torch.device("meta"):
        model = POSSM(config)
    embeddings = model.unit_embedding.weight.numel() + model.session_embedding.weight.numel()
    total = sum(p.numel() for p in model.parameters())
    return ParameterCount(embeddings, total - embeddings, total)


def operations(config: POSSMConfig) -> Operations:
    """Count the products of `decoder.attention`, which forms keys and values of units, not of spikes.

        spike:     H L (4F + 8F + 2F)     score 4F, rotated value 6F, its weight 2F, its sum 2F
        bin, GRU:  6 h (L D + h)          and feed-forward, projections, key and value of its state

    Softmax, norms and gates are left out: they are few beside the products, though not always in time.

    Raises:
        ValueError: for a backbone that is not a recurrent cell.
    """
    if config.backbone not in _GATES:
        raise ValueError(f"backbone must be one of {', '.join(_GATES)} here, not {config.backbone!r}.")
    d, heads, latents = config.dim, config.n_heads * config.head_dim, config.n_latents
    key_value = 2 * config.n_kv_heads * config.head_dim
    rotated = config.n_freqs if config.rotate_values else 0
    output = 2 * heads * d + (2 * d * 3 * config.expansion * d if config.feed_forward else 0)
    inputs = [latents * d] + [config.hidden] * (config.n_layers - 1)  # of each layer
    recurrent = sum(2 * _GATES[config.backbone] * config.hidden * (n + config.hidden) for n in inputs)
    per_query = 2 * d * heads if config.query == "per_ms" else 0  # else one query for a whole trial
    return Operations(
        unit=2 * d * key_value,
        spike=config.n_heads * latents * (4 * config.n_freqs + 10 * rotated),
        bin_unit=2 * config.n_heads * latents * (config.head_dim - 2 * rotated),
        bin=latents * output + recurrent + 2 * config.hidden * key_value,
        query=per_query + 4 * config.context_bins * heads + output + 2 * d * 2,
    )


def training_bytes(n_parameters: int, n_processes: int = 1, bytes_each: int = 4) -> int:
    """Memory per process of weights, gradients (twice where they are also sent), and the two moments of AdamW."""
    return (4 + (n_processes > 1)) * bytes_each * n_parameters


def ring_bytes(n_bytes: float, n_processes: int) -> float:
    """Bytes that each process sends, and receives, in a ring all-reduce of n tensors of `n_bytes`.

        2 (n - 1) / n * bytes                                                                       (17.3)

    Source: Patarasuk & Yuan 2009, section 3: no algorithm needs less.
    """
    return 2 * (n_processes - 1) / n_processes * n_bytes


def exchange_s(n_bytes: float, n_processes: int, bits_per_s: float, latency_s: float = 0.0) -> float:
    """Seconds of a ring all-reduce: 2 (n - 1) rounds, each with its latency, without overlap."""
    return 2 * (n_processes - 1) * latency_s + 8 * ring_bytes(n_bytes, n_processes) / bits_per_s


def recording_bytes(n_spikes: float, n_samples: float) -> float:
    """Memory of a `Recording`: time and unit of each spike, time and two velocities of each sample, 8 bytes each."""
    return 16 * n_spikes + 24 * n_samples
