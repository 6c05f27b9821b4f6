"""POSSM: spikes of a population in, velocity of the hand or any other continuous behaviour out, bin by bin."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ..nn.mamba import Mamba
from ..nn.positions import Rotation, log_spaced_frequencies
from ..nn.recurrent import GRU, LSTM, RNN
from ..nn.s4d import S4D
from ..recordings.batch import SpikeBatch
from .config import POSSMConfig
from .cross_attention import InputAttention, OutputAttention

_BACKBONES = {"rnn": RNN, "gru": GRU, "lstm": LSTM, "s4d": S4D, "mamba": Mamba}


def query_bins(times_s: Tensor, bin_width_s: float) -> Tensor:
    """The bin with start <= time < end of each time since trial start; edges as in `recordings.batch.bin_index`."""
    return torch.floor(times_s.to(torch.float64) / bin_width_s + 1e-6).to(torch.int64)


def check_arguments(sizes, batch: SpikeBatch, times: Tensor, session: Tensor):
    """ValueError if the arguments of `forward` do not fit each other, or a decoder with attributes as `sizes` has."""
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
        output time     -> cross-attention over the last k hidden states -> feed-forward -> behaviour

    The same in padded tensors: `textbook.py`, to be read first; one bin at a time, in NumPy: `StreamingDecoder`.
    """

    def __init__(self, config: POSSMConfig):
        super().__init__()
        self.config = config
        self.unit_embedding = nn.Embedding(config.n_units + 1, config.dim)  # row 0: the blank token
        self.session_embedding = nn.Embedding(
            config.n_sessions + 1, config.dim
        )  # row 0: no session
        self.task_embedding = nn.Parameter(torch.zeros(config.dim))
        periods_s = (config.shortest_period_s, config.longest_period_s)
        self.rotation = Rotation(log_spaced_frequencies(config.n_freqs, *periods_s))
        self.encoder = InputAttention(config)
        self.backbone = _BACKBONES[config.backbone](
            config.n_latents * config.dim, config.hidden, config.n_layers
        )
        self.decoder = OutputAttention(config, context_dim=config.hidden)
        self.readout = nn.Linear(config.dim, config.n_outputs)
        # per session, behaviour = mean + std * readout; set from the training data by `fit`
        self.register_buffer("behavior_mean", torch.zeros(config.n_sessions + 1, config.n_outputs))
        self.register_buffer("behavior_std", torch.ones(config.n_sessions + 1, config.n_outputs))
        for embedding in (self.unit_embedding, self.session_embedding):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, batch: SpikeBatch, output_times_s: Tensor, session: Tensor) -> Tensor:
        """Behaviour (B, Q, C) at the output times, in the unit of the recording that the model was fitted to.

        `output_times_s` are seconds since the start of each trial, (B, Q), float64; `session` counts from 1, (B,).
        """
        check_arguments(self.config, batch, output_times_s, session)
        hidden, _ = self.backbone(self.encode(batch))  # (B, T, h)
        return self.decode(hidden, output_times_s, session)

    def encode(self, batch: SpikeBatch) -> Tensor:
        """The input of the backbone: (B, T, L D), zeros after the last bin of a shorter trial."""
        latents, _ = self.encoder(
            self.rotation, self.unit_embedding.weight, batch
        )  # (sum of bins, L, D)
        latents = latents.flatten(1)
        if len(batch.n_bins.unique()) == 1:  # as in training: no copy
            return latents.unflatten(0, (batch.n_trials, -1))
        return pad_sequence(latents.split(batch.n_bins.tolist()), batch_first=True)

    def attention_weights(self, batch: SpikeBatch) -> Tensor:
        """How much each latent and head reads each token of the batch, (N, L, H)."""
        return self.encoder(self.rotation, self.unit_embedding.weight, batch)[1]

    def decode(self, hidden: Tensor, output_times_s: Tensor, session: Tensor) -> Tensor:
        """Behaviour (B, Q, C) from hidden states (B, T, h)."""
        width, k = self.config.bin_width_s, self.config.context_bins
        bins = query_bins(output_times_s, width)[..., None] + torch.arange(
            1 - k, 1, device=hidden.device
        )  # (B, Q, k)
        # in float64: an integer tensor times 0.05 would be float32
        ends = (
            torch.arange(1, hidden.shape[1] + 1, dtype=torch.float64, device=hidden.device) * width
        )  # (T,)
        decoded = self.decoder(
            self.rotation, self.query(session), output_times_s, hidden, ends, bins
        )  # (B, Q, D)
        return self.unstandardize(decoded, session)

    def query(self, session: Tensor) -> Tensor:
        """Task and session embedding of each trial, (B, 1, D)."""
        return (self.task_embedding + self.session_embedding(session))[:, None]

    def unstandardize(self, decoded: Tensor, session: Tensor) -> Tensor:
        """Readout: (B, Q, D) to behaviour (B, Q, C), in the unit of each trial's session."""
        return self.behavior_mean[session][:, None] + self.behavior_std[session][
            :, None
        ] * self.readout(decoded)

    @classmethod
    def from_torch_brain(cls, params: dict) -> POSSM:
        """A float64 model with the authors' weights: arrays under the names of torch_brain's POSSM."""
        from .torch_brain import convert

        return convert(params, cls)

    def to_torch_brain(self) -> dict:
        """NumPy arrays under the names of torch_brain's POSSM, see `torch_brain.export`."""
        from .torch_brain import export

        return export(self)
