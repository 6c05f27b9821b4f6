"""Every size and switch of the decoder, in one frozen place."""

from __future__ import annotations

from dataclasses import dataclass, fields

BACKBONES = ("rnn", "gru", "lstm", "s4d", "mamba")
QUERIES = ("time", "per_ms")
READINGS = ("softmax", "softmax_blank", "sigmoid", "sum", "mean")
TIME_CODES = ("rotation", "embedding", "sinusoid", "bochner", "mercer", "none")
N_PERIODS = 4  # of the Mercer features; each has n_freqs / 4 harmonics


@dataclass(frozen=True)
class POSSMConfig:
    """Sizes and switches of a POSSM. The defaults are the published small model, but for `reading`.

    Attributes:
        n_units: of all sessions together; embedding row 0 is the blank token, units count from 1.
        n_sessions: likewise counted from 1.
        dim: D, size of tokens, latents and queries.
        n_heads: heads of both cross-attentions.
        n_kv_heads: fewer than n_heads: heads share keys and values (grouped-query attention).
        head_dim: size of a head, even.
        n_latents: L, latent queries per bin; their outputs are concatenated for the backbone.
        n_freqs: F, rotated pairs per head; the other head_dim - 2F dimensions are not rotated.
        shortest_period_s: of the time code, seconds; periods are log-spaced up to the longest, unless learned.
        longest_period_s: of the time code, seconds; for "mercer" at the start of training.
        reading: weight of a spike in its bin.
            "softmax" of the scores, as published, averages; "softmax_blank" adds a blank token to every bin; "sigmoid"
            is gain * sigmoid(score + bias), which counts; "sum" and "mean" have no scores.
        time_code: how the time of a spike in its bin is coded.
            "rotation" rotates queries, keys and values after their projection, "embedding" the embedding before it;
            "sinusoid", "bochner" and "mercer" add features of time before it, the last two with learned frequencies.
        rotate_values: rotate values by their time and their sum back, not only queries and keys.
        feed_forward: a gated feed-forward layer after each attention.
        expansion: hidden size of the feed-forward layers over D.
        backbone: one of `BACKBONES`.
        hidden: units in a layer of the backbone.
        n_layers: layers of the backbone.
        context_bins: k, hidden states an output query sees: its own bin's and the k - 1 before.
        query: "time" rotates the output query by the output time.
            "per_ms" is the lecture-note variant with one learned query per millisecond of a bin, rotated by the end of
            its bin.
        bin_width_s: seconds.
        n_outputs: C, columns of behaviour that are decoded.

    Raises:
        ValueError: naming the field, its value and what it must be.
    """

    n_units: int
    n_sessions: int = 1
    dim: int = 64
    n_heads: int = 1
    n_kv_heads: int = 1
    head_dim: int = 64
    n_latents: int = 1
    n_freqs: int = 16
    shortest_period_s: float = 1e-4
    longest_period_s: float = 10.0
    reading: str = "sigmoid"
    time_code: str = "rotation"
    rotate_values: bool = True
    feed_forward: bool = True
    expansion: int = 4
    backbone: str = "gru"
    hidden: int = 256
    n_layers: int = 1
    context_bins: int = 3
    query: str = "time"
    bin_width_s: float = 0.05
    n_outputs: int = 2

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{field.name} must be a whole number of 1 or more, not {value!r}.")
            if field.type == "float" and not (isinstance(value, (int, float)) and 0 < value < float("inf")):
                raise ValueError(f"{field.name} must be a positive number, not {value!r}.")
            if field.type == "bool" and not isinstance(value, bool):
                raise ValueError(f"{field.name} must be true or false, not {value!r}.")
        choices = {"backbone": BACKBONES, "query": QUERIES, "reading": READINGS, "time_code": TIME_CODES}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}.")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads must divide n_heads: {self.n_kv_heads} does not divide {self.n_heads}.")
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even, as dimensions are rotated in pairs, not {self.head_dim}.")
        if 2 * self.n_freqs > self.head_dim:
            raise ValueError(f"n_freqs rotates pairs: 2 x {self.n_freqs} exceeds head_dim = {self.head_dim}.")
        if self.time_code != "rotation" and not self.rotate_values:
            raise ValueError(f"rotate_values = False needs time_code = 'rotation', not {self.time_code!r}.")
        if self.time_code not in ("rotation", "none") and 2 * self.n_freqs > min(self.dim, self.hidden):
            raise ValueError(f"n_freqs: 2 x {self.n_freqs} exceeds dim = {self.dim} or hidden = {self.hidden}.")
        if self.time_code == "embedding" and (self.dim % 2 or self.hidden % 2):
            raise ValueError(f"time_code 'embedding' rotates pairs: dim = {self.dim}, hidden = {self.hidden}.")
        if self.time_code == "mercer" and self.n_freqs % N_PERIODS:
            raise ValueError(f"n_freqs must be a multiple of {N_PERIODS} for time_code 'mercer', not {self.n_freqs}.")
        if self.longest_period_s <= self.shortest_period_s:
            raise ValueError(f"longest_period_s must exceed {self.shortest_period_s}, not {self.longest_period_s}.")
