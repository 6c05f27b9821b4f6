"""Competitors of StreamingDecoder, timed on the same spikes: each decodes one bin in `step(units, offsets)`."""

from collections import deque
from collections.abc import Callable

import numpy as np
import torch

from possm_lite.decoder import POSSM
from possm_lite.decoder.textbook import decode_textbook, encode_textbook
from possm_lite.recordings.batch import PaddedBatch


class PaddedPossm:
    """POSSM in its textbook form, in eager torch, with the state of the backbone kept between bins.

    Args:
        model: with one session.
        offsets_s: query times since the start of the bin, (Q,) in s.
    """

    def __init__(self, model: POSSM, offsets_s: np.ndarray):
        self._model = model
        self._offsets = torch.as_tensor(offsets_s)
        self._session = torch.ones(1, dtype=torch.int64)
        self._state = None  # of the backbone
        self._recent = None  # its last outputs

    @torch.no_grad()
    def step(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Velocity at the query times of the bin, (Q, 2), from the units, (N,), and offsets, (N,) in s, of its spikes.

        A bin must have at least one spike.
        """
        config = self._model.config
        tokens = torch.stack([torch.from_numpy(units).double(), torch.from_numpy(offsets)], -1)[
            None, None
        ]  # (1, 1, N, 2)
        mask = torch.ones(1, 1, len(units), dtype=torch.bool)
        padded = PaddedBatch(tokens, mask[..., 0], mask, None, config.bin_width_s)
        encoded = encode_textbook(self._model, padded)[:, 0]  # (1, L D)
        hidden, self._state = self._model.backbone.step(encoded, self._state)
        before = [] if self._recent is None else [self._recent[:, 1 - config.context_bins :]]
        self._recent = torch.cat([*before, hidden[:, None]], 1)  # (1, k or fewer, h), oldest first
        times = (self._recent.shape[1] - 1) * config.bin_width_s + self._offsets[None]
        return decode_textbook(self._model, self._recent, times, self._session)[0].numpy()


class Poyo:
    """POYO of torch_brain. It keeps no state: each bin is decoded from the whole window of 1 s that it ends.

    The tokens that are the same in every window are made once and nothing is padded: the fastest way to call it.

    Args:
        n_units: their number.
        offsets_s: query times since the start of the bin, (Q,) in s.
        bin_width_s: of a bin.

    Raises:
        ImportError: torch_brain, the extra `bench`, is not installed.

    Source: Azabou et al. 2023; sizes from torch_brain's configuration of 1.3 M parameters.
    """

    WINDOW_S = 1.0

    def __init__(self, n_units: int, offsets_s: np.ndarray, bin_width_s: float = 0.05):
        from torch_brain.models.poyo import POYO, create_linspace_latent_tokens, create_start_end_unit_tokens

        sizes = {"latent_step": 0.125, "num_latents_per_step": 16, "dim": 64, "depth": 6, "dim_head": 64}
        self.model = POYO(sequence_length=self.WINDOW_S, dim_out=2, cross_heads=2, self_heads=8, **sizes).eval()
        units = [str(unit) for unit in range(1, n_units + 1)]  # row 0 of its embedding is for padding
        self.model.unit_emb.initialize_vocab(units)
        self.model.session_emb.initialize_vocab(["session"])
        latents = create_linspace_latent_tokens(0, self.WINDOW_S, sizes["latent_step"], sizes["num_latents_per_step"])
        kind, unit, time_s = create_start_end_unit_tokens(np.array(units), 0, self.WINDOW_S)
        self._latents = [torch.from_numpy(x)[None] for x in latents]
        self._ends = torch.from_numpy(kind), torch.from_numpy(unit + 1), torch.from_numpy(time_s)
        self._width = bin_width_s
        n_bins = round(self.WINDOW_S / bin_width_s)
        empty = np.zeros(0, np.int64), np.zeros(0)
        self._bins = deque([empty] * n_bins, maxlen=n_bins)
        self._query_times = torch.from_numpy(self.WINDOW_S - bin_width_s + offsets_s)[None]
        self._session = torch.ones(1, dtype=torch.int64)
        self.n_parameters = sum(p.numel() for p in self.model.parameters())

    @torch.no_grad()
    def step(self, units: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Velocity at the query times of the bin, (Q, 2), from the units and offsets of its spikes, (N,), s."""
        self._bins.append((units, offsets))
        unit = torch.from_numpy(np.concatenate([units for units, _ in self._bins]))
        times = [i * self._width + offsets for i, (_, offsets) in enumerate(self._bins)]
        time_s = torch.from_numpy(np.concatenate(times))
        end_kinds, end_units, end_times = self._ends
        decoded = self.model(
            input_unit_index=torch.cat([end_units, unit])[None],
            input_timestamps=torch.cat([end_times, time_s])[None],
            input_token_type=torch.cat([end_kinds, torch.zeros_like(unit)])[None],
            latent_index=self._latents[0],
            latent_timestamps=self._latents[1],
            session_index=self._session,
            output_timestamps=self._query_times,
        )
        return decoded[0].numpy()


def gru_cell(model: POSSM) -> Callable:
    """Step of the backbone's GRU cell alone, in torch: a lower bound for any decoder with this state."""
    config, weights = model.config, model.backbone.all_weights[0]
    x = torch.ones(1, config.n_latents * config.dim)
    h = torch.ones(1, config.hidden)

    @torch.no_grad()
    def step(units: np.ndarray, offsets: np.ndarray) -> torch.Tensor:
        return torch.gru_cell(x, h, *weights)

    return step
