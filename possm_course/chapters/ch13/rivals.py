"""The rivals of chapter 13, its ablations and its null, trained by experiments/ch13_rivals.py."""

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
GRID = [
    {"lr": lr, **w}
    for lr in (1e-3, 2e-3)
    for w in ({"window_s": 2.0, "batch": 16}, {"window_s": 4.0, "batch": 8})
]
HISTORIES = (5, 10, 15, 20)  # bins of a Wiener filter, of which the validation trials choose
SHIFTS_S = (40.0,)
SOFTMAX, SIGMOID, GRU, MLP = "POSSM, softmax", "POSSM, sigmoid", "GRU on counts", "MLP on counts"
NULL = "spikes shifted"


class EachBinAlone(nn.Module):
    """In place of the GRU: one layer, no memory.

    Args:
        config: of the decoder.
    """

    def __init__(self, config: POSSMConfig):
        super().__init__()
        self.mix = nn.Linear(config.dim, config.hidden)

    def forward(self, x, state=None):
        """The bins (B, T, h), each alone, for x (B, T, D), and None; the state is not used."""
        return torch.tanh(self.mix(x)), None


class InTheMiddle(POSSM):
    """POSSM that sees each spike in the middle of its bin; the output query knows its time."""

    def encode(self, batch: SpikeBatch) -> torch.Tensor:
        """`POSSM.encode` of a batch, with each of its spikes in the middle of its bin."""
        return super().encode(
            replace(batch, offset=torch.full_like(batch.offset, batch.bin_width_s / 2))
        )


def no_memory(n_units: int) -> POSSM:
    """POSSM that reads each bin alone: one layer for the GRU, one state for the output query.

    Args:
        n_units: number of units.

    Returns:
        The decoder, untrained.
    """
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
    "no code of time": lambda n_units: make_model(
        "none", n_units=n_units
    ),  # nor does the output query know its time
    "sum": lambda n_units: POSSM(POSSMConfig(n_units, reading="sum")),
}


def shifted(recording: Recording, shift_s: float) -> Recording:
    """A recording with its spikes moved round: what leaves at the end comes in at the beginning.

    Args:
        recording: from the start of its first trial to the end of its last.
        shift_s: in s.

    Returns:
        The new recording.
    """
    first, last = recording.trials[0, 0], recording.trials[-1, 1]
    times = first + (recording.spike_times - first + shift_s) % (last - first)
    order = np.argsort(times, kind="stable")
    return replace(recording, spike_times=times[order], spike_units=recording.spike_units[order])


def sums_of_trials(
    true: np.ndarray, decoded: np.ndarray, times_s: np.ndarray, trials: np.ndarray
) -> np.ndarray:
    """Sums over the samples of each trial, of which R² of any selection of trials can be made.

    Args:
        true: velocity v, shape (T, 2), NaN where it is not known.
        decoded: shape (T, 2).
        times_s: in s, shape (T,).
        trials: start and stop in s, shape (n, 2).

    Returns:
        Of each trial and axis: samples, sum of v, of v squared, of squared errors; (n, 4, 2).
    """
    columns = np.stack([np.ones_like(true), true, true**2, (true - decoded) ** 2], 1)  # (T, 4, 2)
    sums = []
    for start, stop in trials:
        inside = columns[(times_s >= start) & (times_s < stop)]
        known = ~np.isnan(inside).any((1, 2))
        sums.append(inside[known].sum(0))
    return np.stack(sums)


def bootstrap(sums: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """R² of trials drawn with replacement, mean of the axes.

    Args:
        sums: of n trials, as from `sums_of_trials`, shape (n, 4, 2).
        draws: numbers of the trials of each of K draws, shape (K, n).

    Returns:
        R², shape (K,).
    """
    n, v, squares, error = sums[draws].sum(1).transpose(1, 0, 2)  # (K, 2) each
    return (1 - error / (squares - v**2 / n)).mean(1)


def load() -> tuple[dict, dict]:
    """What experiments/ch13_rivals.py has stored.

    Returns:
        The search: lag in s to what the validation trials gave. The runs: (name of a decoder, lag
        in s) to the R² of its seeds and the mean of their sums, "sums" (2, n, 4, 2), as asked and
        as displayed.
    """
    stored = json.loads(result("ch13_rivals.json").read_text(encoding="utf-8"))
    searched = {float(lag): valid for lag, valid in stored["searched"].items()}
    runs = {}
    for lag, of_lag in stored["runs"].items():
        # asked and displayed, trials, columns, axes: the sums that are the same for all decoders
        truth = np.array(of_lag.pop("truth"))  # (2, n, 3, 2)
        for name, run in of_lag.items():
            if "error" in run:
                error = np.array(run.pop("error"))  # (2, n, 2)
                run["sums"] = np.concatenate([truth, error[:, :, None]], 2)  # (2, n, 4, 2)
            runs[name, float(lag)] = run
    return searched, runs
