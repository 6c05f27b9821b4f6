"""Hypothesis strategy for decoders of any shape with spikes to decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import torch
from hypothesis import strategies as st

from possm_lite.decoder import POSSM, StreamingDecoder
from possm_lite.decoder.config import BACKBONES
from possm_lite.decoder.cross_attention import InputAttention
from possm_lite.decoder.textbook import forward_textbook
from possm_lite.recordings import SpikeBatch
from tests.decoder.helpers import make_model

from .streams import batch_of

FORMS = {
    "ragged": lambda model, batch, *queries: model(batch, *queries),
    "padded": lambda model, batch, *queries: forward_textbook(model, batch.padded(), *queries),
}

Spikes = tuple[np.ndarray, np.ndarray]  # units and offsets of a bin


@dataclass(frozen=True)
class DecodingCase:
    """A model, spikes and query times."""

    model: POSSM  # random weights
    trials: list[list[Spikes]]  # the spikes of each bin of each trial; bins, and whole trials, may be empty
    query_s: np.ndarray  # query times in every bin, seconds from its start, (Q,)
    session: list[int]  # of each trial
    chunk: int  # tokens that the decoder reads at a time

    def batch(self) -> SpikeBatch:
        return batch_of(self.trials, self.model.config.bin_width_s)

    def times(self) -> torch.Tensor:
        """Query times in every bin, (trials, Q times the bins of the longest).

        All trials of a batch have equally many queries: those beyond the end of a shorter trial are in its last bin.
        """
        n_bins, width = [len(bins) for bins in self.trials], self.model.config.bin_width_s
        times = (np.arange(max(n_bins))[:, None] * width + self.query_s).reshape(1, -1)
        return torch.from_numpy(np.minimum(times, (np.array(n_bins)[:, None] - 0.01) * width))

    def decode(self, form: str) -> torch.Tensor:
        """Velocity at `times`."""
        with mock.patch.object(InputAttention, "CHUNK", self.chunk):
            return FORMS[form](self.model, self.batch(), self.times(), torch.tensor(self.session))

    def velocity(self, form: str) -> list[np.ndarray]:
        """Velocity in every bin of each trial, (bins, Q, 2) each; form is one of `FORMS`, or "streaming"."""
        if form == "streaming":
            streams = [StreamingDecoder(self.model, session, self.query_s) for session in self.session]
            trials = zip(streams, self.trials, strict=True)
            return [np.stack([stream.step(*spikes)[1] for spikes in bins]) for stream, bins in trials]
        with torch.no_grad():
            velocities = self.decode(form).unflatten(1, (-1, len(self.query_s))).numpy()
        return [velocity[: len(bins)] for velocity, bins in zip(velocities, self.trials, strict=True)]

    def only(self, i: int) -> DecodingCase:
        """Trial i by itself."""
        return replace(self, trials=[self.trials[i]], session=[self.session[i]])

    def changed(self, i: int, bin_: int, change: Callable[[Spikes], Spikes]) -> DecodingCase:
        """The same with other spikes in one bin of trial i."""
        trials = [list(bins) for bins in self.trials]
        trials[i][bin_] = change(trials[i][bin_])
        return replace(self, trials=trials)


@st.composite
def decoding_cases(draw, dtype: torch.dtype = torch.float64) -> DecodingCase:
    """All sizes from the smallest, all options, up to four trials of up to seven bins."""
    n_kv_heads = draw(st.integers(1, 2))
    head_dim = 2 * draw(st.integers(1, 6))
    n_units = draw(st.integers(1, 6))
    n_sessions = draw(st.integers(1, 3))
    width = draw(st.sampled_from([0.05, 0.01, 0.03, 0.1]))
    counts = draw(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=7), min_size=1, max_size=4))
    largest = {"hidden": 9, "dim": 10, "n_latents": 3, "expansion": 3, "n_layers": 2, "context_bins": 6}
    sizes = {name: draw(st.integers(1, size)) for name, size in largest.items()}
    seed = draw(st.integers(0, 2**31))
    torch.manual_seed(seed)
    model = make_model(
        dtype,
        n_units,
        n_sessions,
        n_kv_heads=n_kv_heads,
        n_heads=n_kv_heads * draw(st.integers(1, 3)),
        head_dim=head_dim,
        n_freqs=draw(st.integers(1, head_dim // 2)),
        feed_forward=draw(st.booleans()),
        backbone=draw(st.sampled_from(BACKBONES)),
        bin_width_s=width,
        **sizes,
    )
    rng = np.random.default_rng(seed)
    return DecodingCase(
        model=model,
        trials=[[(rng.integers(1, n_units + 1, n), rng.random(n) * width) for n in bins] for bins in counts],
        query_s=np.array(draw(st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.98]), min_size=1, max_size=3))) * width,
        session=[draw(st.integers(1, n_sessions)) for _ in counts],
        chunk=draw(st.sampled_from([1, 5, InputAttention.CHUNK])),
    )
