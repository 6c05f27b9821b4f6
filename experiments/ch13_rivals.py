"""Trains the rivals of chapter 13, its ablations and its null at full length, and writes ch13_rivals.json.

python experiments/ch13_rivals.py

Every network gets the best of four settings by the validation trials, from seed 0, at a lag of 0; those on counts
search again at a lag of 100 ms. Then three seeds. An ablation gets the setting of the sigmoid. Half an hour.
"""

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch13.rivals import (
    ABLATIONS,
    GRID,
    GRU,
    HISTORIES,
    LAGS,
    MLP,
    NETWORKS,
    NULL,
    SEEDS,
    SHIFTS_S,
    SIGMOID,
    shifted,
    sums_of_trials,
)
from possm_course.parallel import in_parallel
from possm_course.stored import embedded_session
from possm_lite.recordings import load_recording
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.linear import fit_kalman, fit_wiener

FILE = Path(__file__).with_suffix(".json")


def train(name: str, lag_s: float, seed: int, setting: dict, shift_s: float = 0.0) -> dict:
    """A training at full length: R² of the parts, and what the bootstrap needs.

    Args:
        name: a network or an ablation.
        lag_s: how much later the velocity is than the spikes, in s.
        seed: of weights and windows.
        setting: one of `GRID`.
        shift_s: by which the spikes are moved round, in s.
    """
    recording = load_recording(embedded_session())
    session = prepare(shifted(recording, shift_s) if shift_s else recording, lag_s=lag_s)
    torch.manual_seed(seed)
    model = (NETWORKS | ABLATIONS)[name](recording.n_units)
    fit(model, session, FitConfig(seed=seed, validations=0, **setting), progress=False)
    return score(model, session)


def score(model, session) -> dict:
    """R² of a decoder on the validation and the test trials, and the sums of each test trial."""
    of = evaluate(model, session)
    trials = session.split.test
    asked = sums_of_trials(of.true, of.decoded, of.times_s, trials)
    displayed = sums_of_trials(of.true, of.displayed, of.times_s, trials)
    valid = evaluate(model, session, "valid").r2
    return {"valid": valid, "asked": of.r2, "displayed": of.r2_displayed, "sums": np.stack([asked, displayed])}


def best_wiener(session):
    """The Wiener filter whose history is the best on the validation trials."""
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
    session = prepare(load_recording(embedded_session()), lag_s=lag_s)
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


def store(searched: dict[float, dict[str, list[float]]], measured: dict[float, dict[str, list[dict]]]) -> None:
    """Write what `search` and `measure` gave for each lag in s.

    R² is linear in the errors: the sums of the seeds of a decoder are stored as their mean.
    """
    by_lag = {}
    for lag, of_lag in measured.items():
        truth = of_lag[GRU][0]["sums"][:, :, :3]
        by_lag[lag] = {"truth": shorter(truth, 6)}
        for name, runs in of_lag.items():
            entry = {key: [round(run[key], 4) for run in runs] for key in ("valid", "asked", "displayed")}
            if name not in (*ABLATIONS, NULL):
                entry["error"] = shorter(np.mean([run["sums"][:, :, 3] for run in runs], 0), 4)
            by_lag[lag][name] = entry
    lags = []
    for lag, of_lag in by_lag.items():  # a line for each decoder
        entries = ",\n".join(f'"{name}": {json.dumps(entry)}' for name, entry in of_lag.items())
        lags.append(f'"{lag}": {{\n{entries}}}')
    runs = ",\n".join(lags)
    FILE.write_text(f'{{"searched": {json.dumps(searched)},\n"runs": {{{runs}}}}}\n', encoding="utf-8")


def shorter(x: np.ndarray, n_digits: int) -> list:
    """Each number of x with `n_digits` digits; whole ones without a point."""

    def shortened(number: float) -> float | int:
        rounded = float(f"{number:.{n_digits}g}")
        return json.loads(f"{rounded:.15g}")  # a whole number is read as an int

    return np.vectorize(shortened, otypes=[object])(x).tolist()


if __name__ == "__main__":
    searched = {LAGS[0]: search(LAGS[0], NETWORKS), LAGS[1]: search(LAGS[1], (MLP, GRU))}
    store(searched, {lag_s: measure(lag_s, searched[LAGS[0]] | searched[lag_s]) for lag_s in LAGS})
