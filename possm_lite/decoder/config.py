"""Every size and switch of the decoder, in one frozen place."""

from __future__ import annotations

from dataclasses import dataclass

from .backbones import BACKBONES

DECODES = ("continuous", "classes")
READINGS = ("softmax", "softmax_blank", "sigmoid", "sum")

# what a field may be; every field of `POSSMConfig` is in one of these four
COUNTS = (
    "n_units",
    "n_sessions",
    "dim",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "n_latents",
    "n_freqs",
    "expansion",
    "hidden",
    "n_layers",
    "context_bins",
    "n_outputs",
)
POSITIVE = ("shortest_period_s", "longest_period_s", "bin_width_s")
CHOICES = {"backbone": BACKBONES, "reading": READINGS, "decodes": DECODES}
SWITCHES = ("feed_forward",)


@dataclass(frozen=True)
class POSSMConfig:
    """Sizes and switches of a POSSM. The defaults are the published ones, but for `reading`.

    Attributes:
        n_units: U, units of all sessions together; embedding row 0 is the blank token, units count
            from 1.
        n_sessions: sessions, likewise counted from 1.
        dim: D, size of tokens, latents and queries.
        n_heads: H, heads of both cross-attentions.
        n_kv_heads: G, heads of keys and values; where fewer than n_heads, heads share them
            (grouped-query attention).
        head_dim: d, size of a head, even.
        n_latents: L, latent queries per bin; their outputs are concatenated for the backbone.
        n_freqs: F, rotated pairs per head; the other head_dim - 2F dimensions are not rotated.
        shortest_period_s: of the rotation, s; periods are log-spaced up to the longest.
        longest_period_s: of the rotation, s.
        reading: weight of a spike in its bin, one of `READINGS`. "softmax" of the scores, as
            published, averages; "softmax_blank" adds a blank token to every bin; "sigmoid" is
            gain * sigmoid(score + bias), which counts; "sum" is the gain alone and has no scores.
        feed_forward: whether a gated feed-forward layer follows each attention.
        expansion: hidden size of the feed-forward layers over D.
        backbone: one of `BACKBONES`.
        hidden: h, units in a layer of the backbone.
        n_layers: layers of the backbone.
        context_bins: k, hidden states an output query sees: its own bin's and the k - 1 before.
        bin_width_s: width of a bin, s.
        n_outputs: C, columns of behaviour that are decoded; or K, classes.
        decodes: what the readout gives, one of `DECODES`: "continuous" behaviour, or a logit for
            each of the "classes" of labels.

    Raises:
        ValueError: names a field whose value is not possible, and what is.
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
    feed_forward: bool = True
    expansion: int = 4
    backbone: str = "gru"
    hidden: int = 256
    n_layers: int = 1
    context_bins: int = 3
    bin_width_s: float = 0.05
    n_outputs: int = 2
    decodes: str = "continuous"

    def __post_init__(self):
        for name in COUNTS:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be a whole number of 1 or more, not {value!r}.")
        for name in POSITIVE:
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} must be a positive number, not {value!r}.")
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_kv_heads must divide n_heads: {self.n_kv_heads} does not divide {self.n_heads}."
            )
        if self.head_dim % 2 or 2 * self.n_freqs > self.head_dim:
            raise ValueError(
                f"head_dim must be even and at least 2 x {self.n_freqs}, not {self.head_dim}."
            )
