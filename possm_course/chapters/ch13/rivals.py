"""The rivals of chapter 13, its ablations and its null, all trained at full length: writes 13_rivals.json.

python notebooks/figures/13_rivals.py

Every network gets the best of four settings by the validation trials, from seed 0, at a lag of 0; those on counts
search again at a lag of 100 ms. Then three seeds. An ablation gets the setting of the sigmoid. Half an hour.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import nn

from possm_lite.course.load import load_figures
from possm_lite.course.parallel import in_parallel
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedGRU, BinnedMLP
from possm_lite.recordings import Recording, SpikeBatch, load_recording
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.linear import fit_kalman, fit_wiener

HERE = Path(__file__).parent
SESSION = HERE.parents[1] / "data" / "simulated_session.npz"
LAGS, SEEDS = (0.0, 0.1), (0, 1, 2)
GRID = [{"lr": lr, **w} for lr in (1e-3, 2e-3) for w in ({"window_s": 2.0, "batch": 16}, {"window_s": 4.0, "batch": 8})]
HISTORIES = (5, 10, 15, 20)  # bins of a Wiener filter, of which the validation trials choose
SHIFTS_S = (40.0,)
SOFTMAX, SIGMOID, GRU, MLP = "POSSM, softmax", "POSSM, sigmoid", "GRU on counts", "MLP on counts"
NULL = "spikes shifted"

make_model = load_figures("13_time_codes", HERE.parent).make_model


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


def train(name: str, lag_s: float, seed: int, setting: dict, shift_s: float = 0.0) -> dict:
    """A training at full length: R² of the parts, and what the bootstrap needs."""
    recording = load_recording(SESSION)
    session = prepare(shifted(recording, shift_s) if shift_s else recording, lag_s=lag_s)
    torch.manual_seed(seed)
    model = (NETWORKS | ABLATIONS)[name](recording.n_units)
    fit(model, session, FitConfig(seed=seed, validations=0, **setting), progress=False)
    return score(model, session)


def score(model, session) -> dict:
    """R² of a decoder on the validation and the test trials, and the sums of each test trial."""
    of = evaluate(model, session)
    sums = [sums_of_trials(of.true, x, of.times_s, session.split.test) for x in (of.decoded, of.displayed)]
    valid = evaluate(model, session, "valid").r2
    return {"valid": valid, "asked": of.r2, "displayed": of.r2_displayed, "sums": np.stack(sums)}


def best_wiener(session):
    filters = [fit_wiener(session, n_history) for n_history in HISTORIES]
    return max(filters, key=lambda model: evaluate(model, session, "valid").r2)


def search(lag_s: float, names: Iterable[str]) -> dict[str, list[float]]:
    """Validation R² of each network with each setting of the grid."""
    found = in_parallel(train, [(name, lag_s, SEEDS[0], setting) for name, setting in product(names, GRID)])
    valid = np.reshape([run["valid"] for run in found], (-1, len(GRID)))
    return dict(zip(names, valid.round(4).tolist(), strict=True))


def measure(lag_s: float, searched: dict[str, list[float]]) -> dict[str, list[dict]]:
    """Runs of every decoder at a lag, of a network with its best setting."""
    setting_of = {name: GRID[int(np.argmax(valid))] for name, valid in searched.items()}
    session = prepare(load_recording(SESSION), lag_s=lag_s)
    calls = [(name, lag_s, seed, setting_of[name]) for name, seed in product(NETWORKS, SEEDS)]
    ablations = ABLATIONS if lag_s else ["no memory"]
    calls += [(name, lag_s, seed, setting_of[SIGMOID]) for name, seed in product(ablations, SEEDS)]
    if not lag_s:
        calls += [(SIGMOID, lag_s, 0, setting_of[SIGMOID], shift_s) for shift_s in SHIFTS_S]
    runs = {
        "Kalman filter": [score(fit_kalman(session), session)],
        "Wiener filter": [score(best_wiener(session), session)],
    }
    for call, run in zip(calls, in_parallel(train, calls), strict=True):
        runs.setdefault(NULL if len(call) > 4 else call[0], []).append(run)
    return runs


def load() -> tuple[dict, dict]:
    """What was stored: the search, and by decoder and lag the R² of its seeds and the mean of their sums."""
    stored = json.loads((HERE / "13_rivals.json").read_text(encoding="utf-8"))
    runs = {}
    for lag, of_lag in stored["runs"].items():
        truth = np.array(of_lag.pop("truth"))  # (2, n, 3, 2): asked and displayed, trials, columns, axes
        for name, run in of_lag.items():
            if "error" in run:
                run["sums"] = np.concatenate([truth, np.array(run.pop("error"))[:, :, None]], 2)  # (2, n, 4, 2)
            runs[name, float(lag)] = run
    return {float(lag): valid for lag, valid in stored["searched"].items()}, runs


def store(searched: dict[float, dict[str, list[float]]], measured: dict[float, dict[str, list[dict]]]) -> None:
    """R² is linear in the errors: the sums of the seeds of a decoder are stored as their mean."""
    by_lag = {}
    for lag, of_lag in measured.items():
        truth = of_lag[GRU][0]["sums"][:, :, :3]
        by_lag[lag] = {"truth": shorter(truth, 6)}
        for name, runs in of_lag.items():
            entry = {key: [round(run[key], 4) for run in runs] for key in ("valid", "asked", "displayed")}
            if name not in (*ABLATIONS, NULL):
                entry["error"] = shorter(np.mean([run["sums"][:, :, 3] for run in runs], 0), 4)
            by_lag[lag][name] = entry
    lines = [
        f'"{lag}": {{\n' + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in of.items()) + "}"
        for lag, of in by_lag.items()
    ]
    text = f'{{"searched": {json.dumps(searched)},\n"runs": {{' + ",\n".join(lines) + "}}\n"
    (HERE / "13_rivals.json").write_text(text, encoding="utf-8")


def shorter(x: np.ndarray, n_digits: int) -> list:
    """Each number with so many digits; whole ones without a point."""
    return np.vectorize(lambda number: json.loads(f"{float(f'{number:.{n_digits}g}'):.15g}"), otypes=[object])(
        x
    ).tolist()


if __name__ == "__main__":
    searched = {LAGS[0]: search(LAGS[0], NETWORKS), LAGS[1]: search(LAGS[1], (MLP, GRU))}
    store(searched, {lag_s: measure(lag_s, searched[LAGS[0]] | searched[lag_s]) for lag_s in LAGS})
