"""How well the velocity of the hand is read: POSSM with each backbone, and the decoders of counts; several seeds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from tqdm import tqdm

from possm_lite.classroom.style import BLUE, ORANGE
from possm_lite.commands import EMBEDDED
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedGRU, BinnedMLP, WienerFilter, history
from possm_lite.decoder.config import BACKBONES
from possm_lite.spikes import load_recording
from possm_lite.training import FitConfig, Session, evaluate, fit, prepare
from possm_lite.training.baselines import RIDGES, binned, fit_kalman, fit_wiener
from possm_lite.training.evaluate import slot_offsets

from .machine import apart, threads
from .parts import Note, Part, Picture, Row, Table, row

RECORDING = Path(__file__).resolve().parents[3] / "shared" / "data" / "m1_stevenson_2011.mat"
SIMULATED, REAL = "simulated session", "motor cortex (Stevenson et al. 2011)"
SOURCES = {SIMULATED: EMBEDDED, REAL: RECORDING}
EPOCHS = {SIMULATED: FitConfig.epochs, REAL: 60}
WIENER, KALMAN, MLP, GRU = "Wiener filter", "Kalman filter", "MLP on counts", "GRU on counts"
LEARNED = [*(f"POSSM, {backbone}" for backbone in BACKBONES), MLP, GRU]
POSSM_GRU = "POSSM, gru"


@dataclass(frozen=True)
class Score:
    """What one decoder, trained once, reached.

    Args:
        place: name of the session.
        model: name of the decoder.
        r2: of held-out velocity, mean of x and y.
        n_parameters: it has.
        seconds: of training, on one thread, while the other processes trained too.
    """

    place: str
    model: str
    r2: float
    n_parameters: int
    seconds: float


def measure(short: bool = False, sources: dict[str, Path] = SOURCES) -> Iterator[Part]:
    seeds, epochs = (2, dict.fromkeys(EPOCHS, 1)) if short else (5, EPOCHS)
    learned = ["POSSM, rnn", POSSM_GRU, GRU] if short else LEARNED
    places = [name for name, path in sources.items() if path.exists()]
    for name in sources:
        if name not in places:
            yield Note(f"{name}: not here, skipped.")
    yield ridge_row(prepare(load_recording(sources[SIMULATED])))
    models = [*(dict.fromkeys(learned, seeds)).items(), (WIENER, 1), (KALMAN, 1)]
    tasks = [
        (place, sources[place], model, seed, epochs[place])
        for place in places
        for model, n in models
        for seed in range(n)
    ]
    tasks.sort(key=lambda task: (task[0] == REAL) + ("mamba" in task[2]), reverse=True)  # the longest first
    processes = os.cpu_count() or 1
    scores = list(tqdm(apart(score, tasks, processes), total=len(tasks), unit="decoder", disable=None))
    for place in places:
        yield from _limits(place, scores)
        yield _table(place, scores, [model for model, _ in models], f"{seeds} seeds, epochs: {epochs[place]}")
    yield Note(
        f"{processes} processes at once, each with one thread. ± is the standard deviation of the seeds, which change "
        "initial weights, windows and hidden units; the two filters have none. "
        "R² is the mean of x and y on the last 20 %, decoded causally."
    )
    yield Picture("accuracy", "R² of each decoder on held-out velocity, a dot a seed", _drawn(places, scores))


def score(place: str, path: Path, model: str, seed: int, epochs: int) -> Score:
    """Train a decoder on one thread, and test it."""
    with threads(1):
        session = prepare(load_recording(path))
        began = time.perf_counter()
        if model in (WIENER, KALMAN):
            trained = {WIENER: fit_wiener, KALMAN: fit_kalman}[model](session)
            seconds = time.perf_counter() - began
        else:
            torch.manual_seed(seed)
            trained = _new(model, session)
            seconds = fit(trained, session, FitConfig(epochs=epochs, seed=seed, validations=0), progress=False).seconds
        n_parameters = sum(p.numel() for p in trained.parameters())
        return Score(place, model, evaluate(trained, session).r2, n_parameters, seconds)


def ridge_row(session: Session) -> Row:
    """Our Wiener filter beside scikit-learn's Ridge on the same history of counts, with the penalty that ours chose."""
    from sklearn.linear_model import Ridge

    ours, (counts, velocity) = fit_wiener(session), binned(session, "train")
    solutions = ours.solve(counts, velocity, RIDGES)
    penalty = next(r for r, (w, _) in zip(RIDGES, solutions, strict=True) if torch.equal(w, ours.weight))
    x, y = _rows(ours, counts), np.concatenate([v.reshape(len(v), -1) for v in velocity])
    known = np.isfinite(y).all(1)
    theirs = Ridge(alpha=penalty).fit(x[known].astype(np.float64), y[known])
    test = _rows(ours, binned(session, "test")[0])
    error = np.abs(test @ ours.weight.numpy() + ours.offset.numpy() - theirs.predict(test)).max()
    what = f"Wiener filter and scikit-learn's Ridge ({penalty:g}) apart, standard deviations of velocity"
    return row(what, error, "{:.1e}", "< 1e-4", error < 1e-4)


def _rows(model: WienerFilter, counts: list[np.ndarray]) -> np.ndarray:
    """Each bin with those before it, of all stretches."""
    return np.concatenate([history(torch.from_numpy(c)[None], model.n_history)[0].numpy() for c in counts])


def _new(model: str, session: Session) -> torch.nn.Module:
    n_units, slots = session.recording.n_units, len(slot_offsets(session))
    if model in (MLP, GRU):
        return {MLP: BinnedMLP, GRU: BinnedGRU}[model](n_units, session.timeline.bin_width_s, slots)
    return POSSM(POSSMConfig(n_units=n_units, backbone=model.removeprefix("POSSM, ")))


def _limits(place: str, scores: list[Score]) -> Iterator[Row]:
    r2 = {model: float(np.mean([s.r2 for s in _of(scores, place, model)])) for model in (POSSM_GRU, GRU, WIENER)}
    possm, wiener = r2[POSSM_GRU], r2[WIENER]
    if place == SIMULATED:
        limit = f">= {wiener + 0.1:.3f}, Wiener + 0.10"
        yield row(f"{place}, POSSM R², mean of seeds", possm, "{:.3f}", limit, possm >= wiener + 0.1)
        yield row(f"{place}, GRU on counts R²", r2[GRU], "{:.3f}", f"<= {possm:.3f}, POSSM", r2[GRU] <= possm)
        return
    longest = max(s.seconds for s in _of(scores, place, POSSM_GRU))
    yield row(f"{place}, POSSM R², mean of seeds", possm, "{:.3f}", ">= 0.88", possm >= 0.88)
    yield row(f"{place}, POSSM, longest training", longest, "{:.0f} s", "<= 120 s", longest <= 120)


def _table(place: str, scores: list[Score], models: list[str], how: str) -> Table:
    table = Table(f"{place}: {how}", ["", "R²", "lowest to highest", "parameters", "training s, median"])
    for model in models:
        of = _of(scores, place, model)
        r2 = np.array([s.r2 for s in of])
        spread = f" ± {r2.std(ddof=1):.3f}" if len(r2) > 1 else ""
        ends = f"{r2.min():.3f} to {r2.max():.3f}" if len(r2) > 1 else ""
        seconds = float(np.median([s.seconds for s in of]))
        table.rows.append([model, f"{r2.mean():.3f}{spread}", ends, f"{of[0].n_parameters:,}", f"{seconds:.1f}"])
    return table


def _of(scores: list[Score], place: str, model: str) -> list[Score]:
    return [s for s in scores if (s.place, s.model) == (place, model)]


def _drawn(places: list[str], scores: list[Score]) -> Figure:
    models = [model for model in [*LEARNED, WIENER, KALMAN] if any(s.model == model for s in scores)]
    figure = Figure(figsize=(4 * len(places) + 1.5, 3.4), layout="constrained")
    for panel, place in zip(figure.subplots(1, len(places), sharey=True, squeeze=False)[0], places, strict=True):
        for height, model in enumerate(reversed(models)):
            r2 = [s.r2 for s in _of(scores, place, model)]
            color = ORANGE if model.startswith("POSSM") else BLUE
            panel.plot(r2, [height] * len(r2), "o", color=color, ms=5, alpha=0.6)
        panel.set_yticks(range(len(models)), reversed(models))
        panel.set_xlabel("R²")
        panel.set_title(place, fontsize="medium")
        panel.grid(alpha=0.3)
    return figure
