"""POSSM: spikes of a population in, velocity of the hand or any other continuous behaviour out, bin by bin."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..blocks.mamba import Mamba
from ..blocks.recurrent import GRU, LSTM, RNN
from ..blocks.s4d import S4D
from ..spikes.batch import SpikeBatch
from .attention import InputAttention, OutputAttention
from .config import POSSMConfig
from .time_code import make_time_code

_BACKBONES = {"rnn": RNN, "gru": GRU, "lstm": LSTM, "s4d": S4D, "mamba": Mamba}


def query_bins(times_s: Tensor, bin_width_s: float) -> Tensor:
    """The bin with start <= time < end of each time since trial start; edges as in `spikes.batch.bin_index`."""
    return torch.floor(times_s.to(torch.float64) / bin_width_s + 1e-6).to(torch.int64)


def check_arguments(
    batch: SpikeBatch, times: Tensor, session: Tensor, n_units: int, n_sessions: int, bin_width_s: float
):
    """ValueError if the arguments of `POSSM.forward` do not fit each other, or a decoder of these sizes."""
    if batch.bin_width_s != bin_width_s:
        raise ValueError(f"bin_width_s of the batch is {batch.bin_width_s}, of the model {bin_width_s}.")
    if len(batch.unit) and int(batch.unit.max()) > n_units:
        raise ValueError(f"unit must be at most n_units = {n_units}, not {int(batch.unit.max())}.")
    if times.dtype != torch.float64:
        raise ValueError(f"output_times_s must be float64, not {times.dtype}.")
    if times.shape[:1] != session.shape or len(session) != batch.n_trials:
        shapes = f"{tuple(times.shape)}, {tuple(session.shape)}, {batch.n_trials} trials"
        raise ValueError(f"output_times_s and session must have one row per trial: {shapes}.")
    if bool(((session < 1) | (session > n_sessions)).any()):
        raise ValueError(f"session must lie in 1..{n_sessions}, not {session.tolist()}.")
    query_bin = query_bins(times, bin_width_s)
    outside = (query_bin < 0) | (query_bin >= batch.n_bins[:, None])
    if bool(outside.any()):
        trial, i = outside.nonzero()[0].tolist()
        wrong, stop = float(times[trial, i]), int(batch.n_bins[trial]) * bin_width_s
        outside = f"output_times_s[{trial}, {i}] = {wrong:g} s lies outside the trial"
        raise ValueError(f"{outside}, whose bins end at {stop:g} s.")


class POSSM(nn.Module):
    """The spike decoder of Ryoo et al. 2025 (arXiv 2506.05320).

        spikes of a bin -> cross-attention of a latent -> feed-forward -> backbone over bins
        output time     -> cross-attention over the last k hidden states -> feed-forward -> behaviour

    `textbook.py` is the same in padded tensors with a key per spike, to be read first; here spikes are never padded,
    and `attention.py` says how; `streaming/` is the same in NumPy, one bin at a time.
    """

    def __init__(self, config: POSSMConfig):
        super().__init__()
        self.config = config
        self.unit_embedding = nn.Embedding(config.n_units + 1, config.dim)  # row 0: the blank token
        self.session_embedding = nn.Embedding(config.n_sessions + 1, config.dim)  # row 0: no session
        self.task_embedding = nn.Parameter(torch.zeros(config.dim))
        self.rotation = make_time_code(config)
        self.encoder = InputAttention(config)
        self.backbone = _BACKBONES[config.backbone](config.n_latents * config.dim, config.hidden, config.n_layers)
        self.decoder = OutputAttention(config, context_dim=config.hidden)
        if config.query == "per_ms":
            self.ms_embedding = nn.Embedding(max(round(config.bin_width_s * 1000), 1), config.dim)
        self.readout = nn.Linear(config.dim, config.n_outputs)
        # per session, behaviour = mean + std * readout; set from the training data by `fit`
        self.register_buffer("behavior_mean", torch.zeros(config.n_sessions + 1, config.n_outputs))
        self.register_buffer("behavior_std", torch.ones(config.n_sessions + 1, config.n_outputs))
        for embedding in (m for m in self.modules() if isinstance(m, nn.Embedding)):
            nn.init.normal_(embedding.weight, std=0.02)

    @classmethod
    def from_torch_brain(cls, params: dict) -> POSSM:
        """A model with the authors' weights: arrays under the names of torch_brain's POSSM; sizes are inferred.

        Their readout is standardised, and so is the output, unless the arrays are from `to_torch_brain`.

        Raises:
            ValueError: an array of this architecture is missing, or sizes do not fit; the message names it.
        """
        from .torch_brain import convert

        config, state, omega = convert(params)
        model = cls(config).double()
        try:
            missing = model.load_state_dict(state, strict=False).missing_keys
        except RuntimeError as error:
            raise ValueError(f"params do not fit together: {str(error).splitlines()[-1].strip()}") from None
        for name in set(missing) - {"behavior_mean", "behavior_std", "rotation.omega"}:
            raise ValueError(f"params lacks an array for {name!r}, which torch_brain's POSSM has.")
        model.rotation.omega = omega
        return model

    def to_torch_brain(self) -> dict:
        """NumPy arrays under the names of torch_brain's POSSM. `from_torch_brain` makes the model of them, in float64.

        Two arrays are not of theirs: `behavior_mean` and `behavior_std`, with a row for each session, from 1. Their
        readout is standardised: put the two rows into the configuration of a recording, as `normalize_mean` and
        `normalize_std`, and remove both arrays before `load_state_dict`. It also expects the names of the rows of the
        embeddings, `unit_emb.vocab` and `session_emb.vocab`: dicts from name to row, with "NA" for row 0.

        Raises:
            ValueError: the configuration has a value that torch_brain's POSSM lacks; the message names it.
        """
        from .torch_brain import export

        return export(self.config, self.state_dict())

    def forward(self, batch: SpikeBatch, output_times_s: Tensor, session: Tensor) -> Tensor:
        """Behaviour at the output times.

        Args:
            batch: the spikes of B trials.
            output_times_s: seconds since the start of each trial, shape (B, Q), float64.
            session: session of each trial, from 1, shape (B,).

        Returns:
            Shape (B, Q, C), in the unit of the recording the model was fitted to.

        Raises:
            ValueError: for a unit or session the model has no embedding for, a time outside its trial or not float64,
                bins of another width, or a number of rows that is not that of the trials.
        """
        config = self.config
        check_arguments(batch, output_times_s, session, config.n_units, config.n_sessions, config.bin_width_s)
        hidden, _ = self.backbone(self.encode(batch))  # (B, T, h)
        return self.decode(hidden, output_times_s, session)

    def encode(self, batch: SpikeBatch) -> Tensor:
        """The input of the backbone: (B, T, L D), zeros after the last bin of a shorter trial."""
        latents, _ = self.encoder(self.rotation, self.unit_embedding.weight, batch)  # (sum of bins, L, D)
        latents = latents.flatten(1)
        if bool((batch.n_bins == batch.n_bins[0]).all()):
            return latents.unflatten(0, (batch.n_trials, -1))
        padded = latents.new_zeros(batch.n_trials, int(batch.n_bins.max()), latents.shape[-1])
        bin_mask = torch.arange(padded.shape[1], device=latents.device) < batch.n_bins[:, None]
        return padded.masked_scatter(bin_mask[..., None], latents)

    def attention_weights(self, batch: SpikeBatch) -> Tensor:
        """How much each latent and head reads each token of the batch, (N, L, H)."""
        return self.encoder(self.rotation, self.unit_embedding.weight, batch)[1]

    def decode(self, hidden: Tensor, output_times_s: Tensor, session: Tensor) -> Tensor:
        """Behaviour (B, Q, C) from hidden states (B, T, h)."""
        width, k = self.config.bin_width_s, self.config.context_bins
        times = output_times_s.to(torch.float64)
        query_bin = query_bins(times, width)  # (B, Q)
        bins = query_bin[..., None] + torch.arange(1 - k, 1, device=times.device)  # (B, Q, k)
        # in float64: an integer tensor times 0.05 would be float32
        ends = torch.arange(1, hidden.shape[1] + 1, dtype=torch.float64, device=times.device) * width
        query_times = times if self.config.query == "time" else ends[query_bin]
        phases = (self.rotation(t, hidden.dtype) for t in (ends, query_times))  # (T, F), (B, Q, F)
        query = self.query(times, query_bin, session)
        decoded = self.decoder(self.rotation, query, hidden, bins, *phases)  # (B, Q, D)
        return self.unstandardize(decoded, session)

    def unstandardize(self, decoded: Tensor, session: Tensor) -> Tensor:
        """Readout: (B, Q, D) to behaviour (B, Q, C), in the unit of each trial's session."""
        mean, std = self.behavior_mean[session][:, None], self.behavior_std[session][:, None]
        return mean + std * self.readout(decoded)

    def query(self, times: Tensor, query_bin: Tensor, session: Tensor) -> Tensor:
        """Task and session embedding of each trial, (B, 1, D); per millisecond, one for each time, (B, Q, D)."""
        query = (self.task_embedding + self.session_embedding(session))[:, None]
        if self.config.query == "time":
            return query
        ms = torch.floor((times - query_bin.to(torch.float64) * self.config.bin_width_s) * 1000 + 1e-3).to(torch.int64)
        return query + self.ms_embedding(ms.clamp(0, self.ms_embedding.num_embeddings - 1))
