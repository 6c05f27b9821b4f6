"""What training costs, from sizes alone: parameters, bytes, operations, and what processes send each other.

Pure arithmetic. What a machine makes of it, seconds for a spike or a byte, has to be measured on that machine: chapter
17 does, and puts the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..decoder.config import POSSMConfig

# gates of a cell: each is a product with the input and one with the state
_GATES = {"rnn": 1, "gru": 3, "lstm": 4}


@dataclass(frozen=True)
class Parameters:
    """How many numbers a POSSM learns.

    Args:
        of_sessions: unit and session embeddings, which grow with the sessions.
        common: all other weights, which do not.
    """

    of_sessions: int
    common: int

    @property
    def total(self) -> int:
        return self.of_sessions + self.common


@dataclass(frozen=True)
class Operations:
    """Floating-point operations of a forward pass, a product and a sum counted as two.

    Args:
        unit: for each unit the model knows, once a pass: its key and its value.
        spike: turning and weighting a token.
        bin_unit: for each unit in each bin: what is not turned of the values.
        bin: the rest of reading a bin, the backbone, and the bin's key and value.
        query: an answer that scores the k bins it may see. (Trials of few bins are scored whole, in one product.)
    """

    unit: int
    spike: int
    bin_unit: int
    bin: int
    query: int

    def forward(self, n_units: int, n_spikes: int, n_bins: int, n_queries: int) -> int:
        """Of a batch, by a model of `n_units` units."""
        return (
            self.unit * (n_units + 1)
            + self.spike * n_spikes
            + self.bin_unit * n_bins * (n_units + 1)
            + self.bin * n_bins
            + self.query * n_queries
        )

    def step(self, n_units: int, n_spikes: int, n_bins: int, n_queries: int) -> int:
        """Forward and backward: on the way back a product y = W x becomes two, one for dW and one for dx."""
        return 3 * self.forward(n_units, n_spikes, n_bins, n_queries)


def parameters(config: POSSMConfig) -> Parameters:
    """Count what is learned.

        of_sessions = (U + 1) D + (S + 1) D

    Raises:
        ValueError: for a backbone that is no recurrent cell.
    """
    d = config.dim
    own = (config.n_units + 1 + config.n_sessions + 1) * d
    backbone, inputs = 0, config.n_latents * d
    for _ in range(config.n_layers):
        backbone += _gates(config) * config.hidden * (inputs + config.hidden + 2)  # two biases
        inputs = config.hidden
    asked = max(round(config.bin_width_s * 1000), 1) * d if config.query == "per_ms" else 0
    task, readout = d, 2 * d + 2
    attentions = _attention_parameters(config, d) + config.n_latents * d + _attention_parameters(config, config.hidden)
    return Parameters(own, backbone + asked + task + readout + attentions)


def operations(config: POSSMConfig) -> Operations:
    """Count the products of `decoder.attention`, which forms keys and values of units, not of spikes.

        spike:     H L (4F + 8F + 2F)     score 4F, turned value 6F, its weight 2F, its sum 2F
        bin, GRU:  6 h (L D + h)          and feed-forward, projections, key and value of its state

    Softmax, norms and gates are left out: they are small beside the products, though not always beside their time.

    Raises:
        ValueError: for a backbone that is no recurrent cell.
    """
    d, heads, latents = config.dim, config.n_heads * config.head_dim, config.n_latents
    key_value = 2 * config.n_kv_heads * config.head_dim
    turned = config.n_freqs if config.rotate_values else 0
    finish = 2 * heads * d + (2 * d * 3 * config.expansion * d if config.feed_forward else 0)
    recurrent, inputs = 0, latents * d
    for _ in range(config.n_layers):
        recurrent += 2 * _gates(config) * config.hidden * (inputs + config.hidden)
        inputs = config.hidden
    per_query = 2 * d * heads if config.query == "per_ms" else 0  # else one query for a whole trial
    return Operations(
        unit=2 * d * key_value,
        spike=config.n_heads * latents * (4 * config.n_freqs + 10 * turned),
        bin_unit=2 * config.n_heads * latents * (config.head_dim - 2 * turned),
        bin=latents * finish + recurrent + 2 * config.hidden * key_value,
        query=per_query + 4 * config.context_bins * heads + finish + 2 * d * 2,
    )


def training_bytes(n_parameters: int, n_processes: int = 1, bytes_each: int = 4) -> int:
    """Memory of what is learned, in each process: weights, gradients, and the two moments of AdamW.

    Several processes hold the gradients twice: once more in the buckets that are sent.
    """
    return (4 + (n_processes > 1)) * bytes_each * n_parameters


def ring_bytes(n_bytes: float, n_processes: int) -> float:
    """What each process sends, and receives, until all have the sum of n tensors of `n_bytes`.

        2 (n - 1) / n * bytes                                                                       (17.3)

    Source: Patarasuk & Yuan 2009, section 3: no algorithm does with less.
    """
    return 2 * (n_processes - 1) / n_processes * n_bytes


def exchange_s(n_bytes: float, n_processes: int, bits_per_s: float, latency_s: float = 0.0) -> float:
    """Seconds of a ring all-reduce: 2 (n - 1) rounds, each with its latency; nothing else done meanwhile."""
    return 2 * (n_processes - 1) * latency_s + 8 * ring_bytes(n_bytes, n_processes) / bits_per_s


def recording_bytes(n_spikes: float, n_samples: float) -> float:
    """Memory of a `Recording`: time and unit of each spike, time and two velocities of each sample, 8 bytes each."""
    return 16 * n_spikes + 24 * n_samples


def _gates(config: POSSMConfig) -> int:
    if config.backbone not in _GATES:
        raise ValueError(f"backbone must be one of {', '.join(_GATES)} here, not {config.backbone!r}.")
    return _GATES[config.backbone]


def _attention_parameters(config: POSSMConfig, context_dim: int) -> int:
    d, heads = config.dim, config.n_heads * config.head_dim
    norms = 2 * d + 2 * context_dim
    projections = d * heads + context_dim * 2 * config.n_kv_heads * config.head_dim + heads * d + d
    hidden = config.expansion * d
    feed_forward = 2 * d + d * 2 * hidden + 2 * hidden + hidden * d + d
    return norms + projections + (feed_forward if config.feed_forward else 0)
