"""POSSM: spikes of a population in, velocity or any other continuous behaviour out, bin by bin."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ..nn.positions import Rotation, log_spaced_frequencies
from ..recordings.batch import SpikeBatch
from .backbones import REGISTRY
from .config import POSSMConfig
from .cross_attention import InputAttention, OutputAttention


def query_bins(times_s: Tensor, bin_width_s: float) -> Tensor:
    """The bin with start <= time < end; edges as in `recordings.batch.bin_index`.

    Args:
        times_s: s since the start of the trial, any shape.
        bin_width_s: width of a bin, s.

    Returns:
        Bins from 0, int64, the shape of `times_s`.
    """
    return torch.floor(times_s.to(torch.float64) / bin_width_s + 1e-6).to(torch.int64)


def check_arguments(sizes, batch: SpikeBatch, times: Tensor, session: Tensor):
    """Refuses arguments of `forward` that do not fit each other or the decoder.

    Args:
        sizes: has `bin_width_s`, `n_units` and `n_sessions` of the decoder.
        batch: spikes of B trials.
        times: output times, s since the start of each trial, shape (B, Q).
        session: of each trial, from 1, shape (B,).

    Raises:
        ValueError: names the argument, its value and what it must be.
    """
    if batch.bin_width_s != sizes.bin_width_s:
        raise ValueError(
            f"bin_width_s of the batch is {batch.bin_width_s}, of the model {sizes.bin_width_s}."
        )
    if len(batch.unit) and int(batch.unit.max()) > sizes.n_units:
        raise ValueError(
            f"unit must be at most n_units = {sizes.n_units}, not {int(batch.unit.max())}."
        )
    if times.dtype != torch.float64:
        raise ValueError(f"output_times_s must be float64, not {times.dtype}.")
    if not len(times) == len(session) == batch.n_trials:
        raise ValueError(
            f"output_times_s and session must have one row per trial, of {batch.n_trials}."
        )
    if bool(((session < 1) | (session > sizes.n_sessions)).any()):
        raise ValueError(f"session must lie in 1..{sizes.n_sessions}, not {session.tolist()}.")
    query_bin = query_bins(times, sizes.bin_width_s)
    outside = times[(query_bin < 0) | (query_bin >= batch.n_bins[:, None])]
    if len(outside):
        raise ValueError(f"output_times_s: {float(outside[0]):g} s lies outside the trial.")


class POSSM(nn.Module):
    """The spike decoder of Ryoo et al. 2025 (arXiv 2506.05320).

        spikes of a bin -> cross-attention of a latent -> feed-forward -> backbone over bins
        output time -> cross-attention over the last k hidden states -> feed-forward -> behaviour

    The same in padded tensors is `textbook.py`, to be read first: it lists the parameters with
    their shapes. The same one bin at a time, in NumPy, is `StreamingDecoder`.

    Args:
        config: sizes and switches.

    Attributes:
        config: as given.
        encoder: the `InputAttention`.
        backbone: made by the row of `REGISTRY` that `config.backbone` names.
        decoder: the `OutputAttention`.
        behavior_mean: of each session, row 0 of none, shape (S + 1, C), in the recording's unit.
        behavior_std: likewise; behaviour = mean + std * readout. Both are set by `fit`, for classes
            to 0 and 1.
    """

    def __init__(self, config: POSSMConfig):
        super().__init__()
        self.config = config
        self.unit_embedding = nn.Embedding(config.n_units + 1, config.dim)  # row 0: the blank token
        # row 0: no session
        self.session_embedding = nn.Embedding(config.n_sessions + 1, config.dim)
        self.task_embedding = nn.Parameter(torch.zeros(config.dim))
        omega = log_spaced_frequencies(
            config.n_freqs, config.shortest_period_s, config.longest_period_s
        )
        self.rotation = Rotation(omega)
        self.encoder = InputAttention(config)
        make_layers = REGISTRY[config.backbone].make_layers
        self.backbone = make_layers(config.n_latents * config.dim, config.hidden, config.n_layers)
        self.decoder = OutputAttention(config, context_dim=config.hidden)
        self.readout = nn.Linear(config.dim, config.n_outputs)
        # per session, behaviour = mean + std * readout; set from the training data by `fit`
        self.register_buffer("behavior_mean", torch.zeros(config.n_sessions + 1, config.n_outputs))
        self.register_buffer("behavior_std", torch.ones(config.n_sessions + 1, config.n_outputs))
        for embedding in (self.unit_embedding, self.session_embedding):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, batch: SpikeBatch, output_times_s: Tensor, session: Tensor) -> Tensor:
        """Behaviour at the output times.

        Args:
            batch: spikes of B trials.
            output_times_s: s since the start of each trial, inside it, float64, shape (B, Q).
            session: of each trial, from 1, shape (B,).

        Returns:
            Behaviour in the unit of the recording that the model was fitted to, shape (B, Q, C);
            where `config.decodes` is "classes", their logits, shape (B, Q, K).

        Raises:
            ValueError: the arguments do not fit each other or the model.
        """
        check_arguments(self.config, batch, output_times_s, session)
        hidden, _ = self.backbone(self.encode(batch))  # (B, T, h)
        return self.decode(hidden, output_times_s, session)

    def encode(self, batch: SpikeBatch) -> Tensor:
        """The input of the backbone: the latents of each bin, which have read its spikes.

        Args:
            batch: spikes of B trials.

        Returns:
            Shape (B, T, L D), zeros after the last bin of a shorter trial.
        """
        latents, _ = self.encoder(self.rotation, self.unit_embedding.weight, batch)
        latents = latents.flatten(1)  # (bins of all trials, L D)
        if len(batch.n_bins.unique()) == 1:  # as in training: no copy
            return latents.unflatten(0, (batch.n_trials, -1))
        return pad_sequence(latents.split(batch.n_bins.tolist()), batch_first=True)

    def attention_weights(self, batch: SpikeBatch) -> Tensor:
        """How much each latent and head reads each of the N tokens of `batch`, shape (N, L, H)."""
        return self.encoder(self.rotation, self.unit_embedding.weight, batch)[1]

    def decode(self, hidden: Tensor, output_times_s: Tensor, session: Tensor) -> Tensor:
        """Behaviour from the states of the backbone.

        Args:
            hidden: shape (B, T, h).
            output_times_s: as in `forward`, shape (B, Q).
            session: as in `forward`, shape (B,).

        Returns:
            Behaviour in the unit of the recording, shape (B, Q, C).
        """
        width, k = self.config.bin_width_s, self.config.context_bins
        back = torch.arange(1 - k, 1, device=hidden.device)  # (k,)
        bins = query_bins(output_times_s, width)[..., None] + back  # (B, Q, k)
        # in float64: an integer tensor times 0.05 would be float32
        n_bins = hidden.shape[1]
        number = torch.arange(1, n_bins + 1, dtype=torch.float64, device=hidden.device)
        ends = number * width  # (T,)
        query = self.query(session)
        decoded = self.decoder(self.rotation, query, output_times_s, hidden, ends, bins)
        return self.unstandardize(decoded, session)

    def query(self, session: Tensor) -> Tensor:
        """Task and session embedding of each trial: `session` (B,) to (B, 1, D)."""
        return (self.task_embedding + self.session_embedding(session))[:, None]

    def unstandardize(self, decoded: Tensor, session: Tensor) -> Tensor:
        """The readout, scaled: mean + std * (W x + b).

        Args:
            decoded: what the output attention gives, shape (B, Q, D).
            session: of each trial, from 1, shape (B,).

        Returns:
            Behaviour in the unit of each trial's session, shape (B, Q, C).
        """
        mean = self.behavior_mean[session][:, None]  # (B, 1, C)
        std = self.behavior_std[session][:, None]
        return mean + std * self.readout(decoded)

    @classmethod
    def from_torch_brain(cls, params: dict) -> POSSM:
        """A float64 model with the weights of the authors' implementation.

        Args:
            params: arrays under the names of torch_brain's POSSM, see `torch_brain.convert`.

        Raises:
            ValueError: names the arrays that are missing, or that this model has no use for.
        """
        from .torch_brain import convert

        return convert(params, cls)

    def to_torch_brain(self) -> dict:
        """NumPy arrays under the names of torch_brain's POSSM, see `torch_brain.export`.

        Raises:
            ValueError: names a setting that torch_brain's POSSM does not have.
        """
        from .torch_brain import export

        return export(self)
