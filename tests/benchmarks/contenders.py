"""Decoders fed one bin at a time, to be timed beside the streaming one on the same spikes."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch

from possm_lite.decoder import POSSM
from possm_lite.decoder.textbook import decode_textbook, encode_textbook
from possm_lite.spikes.batch import PaddedBatch


class PaddedEager:
    """Our own POSSM as a textbook writes it, in torch operators, with the state of the backbone kept.

    Args:
        model: a POSSM.
        offsets_s: as `query_offsets_s` of `StreamingDecoder`.
    """

    def __init__(self, model: POSSM, offsets_s: np.ndarray):
        self._model, self._offsets = model, torch.as_tensor(offsets_s)
        self._session, self._state, self._recent = torch.ones(1, dtype=torch.int64), None, None

    @torch.no_grad()
    def step(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Velocity at the wanted times of the bin, (Q, 2); a bin holds a spike at least."""
        config = self._model.config
        tokens = torch.stack([torch.from_numpy(units).double(), torch.from_numpy(offsets)], -1)[None, None]
        there = torch.ones(1, 1, len(units), dtype=torch.bool)
        padded = PaddedBatch(tokens, there[..., 0], there, None, None, config.bin_width_s)
        entered = encode_textbook(self._model, padded)[:, 0]  # (1, L D)
        hidden, self._state = self._model.backbone.step(entered, self._state)
        before = [] if self._recent is None else [self._recent[:, 1 - config.context_bins :]]
        self._recent = torch.cat([*before, hidden[:, None]], 1)  # (1, k or fewer, h), oldest first
        times = (self._recent.shape[1] - 1) * config.bin_width_s + self._offsets[None]
        return decode_textbook(self._model, self._recent, times, self._session)[0].numpy()


class Poyo:
    """POYO of torch_brain, which keeps no state: each bin is answered from the whole window of 1 s that it ends.

    The tokens that are the same in every window are made once, and nothing is padded: the fastest way to ask it.

    Args:
        n_units: of the population.
        offsets_s: times since the start of the bin at which velocity is wanted.
        bin_width_s: seconds.

    Raises:
        ModuleNotFoundError: without torch_brain, the extra `bench`.

    Source: Azabou et al. 2023; sizes are those of torch_brain's configuration of 1.3 M parameters.
    """

    WINDOW_S = 1.0

    def __init__(self, n_units: int, offsets_s: np.ndarray, bin_width_s: float = 0.05):
        from torch_brain.models.poyo import POYO, create_linspace_latent_tokens, create_start_end_unit_tokens

        sizes = {"latent_step": 0.125, "num_latents_per_step": 16, "dim": 64, "depth": 6, "dim_head": 64}
        self._model = POYO(sequence_length=self.WINDOW_S, dim_out=2, cross_heads=2, self_heads=8, **sizes).eval()
        units = [str(unit) for unit in range(1, n_units + 1)]  # row 0 of its embedding is for padding
        self._model.unit_emb.initialize_vocab(units)
        self._model.session_emb.initialize_vocab(["session"])
        latents = create_linspace_latent_tokens(0, self.WINDOW_S, sizes["latent_step"], sizes["num_latents_per_step"])
        kind, unit, time_s = create_start_end_unit_tokens(np.array(units), 0, self.WINDOW_S)
        self._latents = [torch.from_numpy(x)[None] for x in latents]
        self._ends = torch.from_numpy(kind), torch.from_numpy(unit + 1), torch.from_numpy(time_s)
        self._n_bins, self._width = round(self.WINDOW_S / bin_width_s), bin_width_s
        self._bins = deque([(np.zeros(0, np.int64), np.zeros(0))] * self._n_bins, maxlen=self._n_bins)
        self._asked = torch.from_numpy(self.WINDOW_S - bin_width_s + offsets_s)[None]
        self._session = torch.ones(1, dtype=torch.int64)
        self.n_parameters = sum(p.numel() for p in self._model.parameters())

    @torch.no_grad()
    def step(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Velocity at the wanted times of the bin, (Q, 2)."""
        self._bins.append((units, offsets))
        unit = torch.from_numpy(np.concatenate([u for u, _ in self._bins]))
        time_s = torch.from_numpy(np.concatenate([i * self._width + o for i, (_, o) in enumerate(self._bins)]))
        kinds, ends_unit, ends_s = self._ends
        return self._model(
            input_unit_index=torch.cat([ends_unit, unit])[None],
            input_timestamps=torch.cat([ends_s, time_s])[None],
            input_token_type=torch.cat([kinds, torch.zeros_like(unit)])[None],
            latent_index=self._latents[0],
            latent_timestamps=self._latents[1],
            session_index=self._session,
            output_timestamps=self._asked,
        )[0].numpy()


class BareCell:
    """The backbone's GRU cell and nothing else, in torch: no decoder of this size can be faster than its state.

    Args:
        model: a POSSM with a GRU.
    """

    def __init__(self, model: POSSM):
        config = model.config
        self._x, self._h = torch.randn(1, config.n_latents * config.dim), torch.randn(1, config.hidden)
        self._weights = model.backbone.all_weights[0]

    @torch.no_grad()
    def step(self, units=None, offsets=None) -> torch.Tensor:
        return torch.gru_cell(self._x, self._h, *self._weights)


class Products:
    """The two matrix products of that cell, in NumPy: the limit of our limit."""

    def __init__(self, model: POSSM):
        w_x, w_h = (w.detach().numpy() for w in model.backbone.all_weights[0][:2])
        self._w_x, self._w_h = np.ascontiguousarray(w_x.T), np.ascontiguousarray(w_h.T)
        self._x, self._h = np.ones(len(self._w_x), w_x.dtype), np.ones(len(self._w_h), w_h.dtype)

    def step(self, units=None, offsets=None) -> np.ndarray:
        return self._x @ self._w_x + self._h @ self._w_h
