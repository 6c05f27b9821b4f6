"""The rivals of chapter 13, its ablations and its null, which experiments/ch13_rivals.py has trained at full length."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from possm_course.chapters.ch13.time_codes import make_model
from possm_course.stored import result
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedGRU, BinnedMLP
from possm_lite.recordings import Recording, SpikeBatch

LAGS, SEEDS = (0.0, 0.1), (0, 1, 2)
GRID = [{"lr": lr, **w} for lr in (1e-3, 2e-3) for w in ({"window_s": 2.0, "batch": 16}, {"window_s": 4.0, "batch": 8})]
HISTORIES = (5, 10, 15, 20)  # bins of a Wiener filter, of which the validation trials choose
SHIFTS_S = (40.0,)
SOFTMAX, SIGMOID, GRU, MLP = "POSSM, softmax", "POSSM, sigmoid", "GRU on counts", "MLP on counts"
NULL = "spikes shifted"


class EachBinAlone(nn.Module):
    """In place of the GRU: one layer, no memory."""

    def __init__(self, config: POSSMConfig):
        super().__init__()
        self.mix = nn.Linear(config.dim, config.hidden)

    def forward(self, x, state=None):
        return torch.tanh(self.mix(x)), None


class InTheMiddle(POSSM):
    """POSSM that sees each spike in the middle of its bin; the output query knows its time."""

    def encode(self, batch: SpikeBatch) -> torch.Tensor:
        return super().encode(replace(batch, offset=torch.full_like(batch.offset, batch.bin_width_s / 2)))


def no_memory(n_units: int) -> POSSM:
    """POSSM that reads each bin alone: one layer for the GRU, one state for the output query."""
    model = POSSM(POSSMConfig(n_units, context_bins=1))
    model.backbone = EachBinAlone(model.config)
    return model


NETWORKS: dict[str, Callable] = {
    MLP: lambda n_units: BinnedMLP(n_units, n_slots=5),
    GRU: lambda n_units: BinnedGRU(n_units, n_slots=5),
    SOFTMAX: lambda n_units: POSSM(POSSMConfig(n_units, reading="softmax")),
    SIGMOID: lambda n_units: POSSM(POSSMConfig(n_units, reading="sigmoid")),
}
ABLATIONS: dict[str, Callable] = {
    "no memory": no_memory,
    "no times of spikes": lambda n_units: InTheMiddle(POSSMConfig(n_units)),
    "no code of time": lambda n_units: make_model("none", n_units=n_units),  # nor does the output query know its time
    "sum": lambda n_units: POSSM(POSSMConfig(n_units, reading="sum")),
}


def shifted(recording: Recording, shift_s: float) -> Recording:
    """The recording with its spikes moved round by `shift_s`: what leaves at the end comes in at the beginning."""
    first, last = recording.trials[0, 0], recording.trials[-1, 1]
    times = first + (recording.spike_times - first + shift_s) % (last - first)
    order = np.argsort(times, kind="stable")
    return replace(recording, spike_times=times[order], spike_units=recording.spike_units[order])


def sums_of_trials(true: np.ndarray, decoded: np.ndarray, times_s: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Of each trial and axis, (n, 4, 2): samples, sum of v, sum of v squared, sum of squared errors."""
    columns = np.stack([np.ones_like(true), true, true**2, (true - decoded) ** 2], 1)  # (T, 4, 2)
    inside = [columns[(times_s >= start) & (times_s < stop)] for start, stop in trials]
    return np.stack([x[~np.isnan(x).any((1, 2))].sum(0) for x in inside])


def bootstrap(sums: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """R², mean of the axes, of trials drawn with replacement: sums (n, 4, 2), draws (K, n) to (K,)."""
    n, v, squares, error = sums[draws].sum(1).transpose(1, 0, 2)  # (K, 2) each
    return (1 - error / (squares - v**2 / n)).mean(1)


def load() -> tuple[dict, dict]:
    """What was stored: the search, and by decoder and lag the R² of its seeds and the mean of their sums."""
    stored = json.loads(result("ch13_rivals.json").read_text(encoding="utf-8"))
    runs = {}
    for lag, of_lag in stored["runs"].items():
        truth = np.array(of_lag.pop("truth"))  # (2, n, 3, 2): asked and displayed, trials, columns, axes
        for name, run in of_lag.items():
            if "error" in run:
                run["sums"] = np.concatenate([truth, np.array(run.pop("error"))[:, :, None]], 2)  # (2, n, 4, 2)
            runs[name, float(lag)] = run
    return {float(lag): valid for lag, valid in stored["searched"].items()}, runs
