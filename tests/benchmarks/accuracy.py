"""R² on held-out velocity: POSSM with each backbone and the decoders of binned counts, over several seeds."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from tqdm import tqdm

from possm_lite.classroom.style import BLUE, ORANGE
from possm_lite.commands import EMBEDDED
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedGRU, BinnedMLP
from possm_lite.decoder.config import BACKBONES
from possm_lite.spikes import load_recording
from possm_lite.training import FitConfig, Session, evaluate, fit, prepare
from possm_lite.training.baselines import fit_kalman, fit_wiener
from possm_lite.training.evaluate import slot_offsets

from .machine import SPAWN, threads
from .page import ROOT, Item, Note, Plot, Row, Table, row

SIMULATED, REAL = "simulated session", "motor cortex (Stevenson et al. 2011)"
SOURCES = {SIMULATED: EMBEDDED, REAL: ROOT.parent / "shared" / "data" / "m1_stevenson_2011.mat"}
EPOCHS = {SIMULATED: FitConfig.epochs, REAL: 60}
WIENER, KALMAN, MLP, GRU, POSSM_GRU = "Wiener filter", "Kalman filter", "MLP on counts", "GRU on counts", "POSSM, gru"
LEARNED = [*(f"POSSM, {backbone}" for backbone in BACKBONES), MLP, GRU]


class Score(NamedTuple):
    """Result of one training on one thread; `r2` is the mean of x and y, `seconds` the time of training."""

    source: str
    model: str
    r2: float
    n_parameters: int
    seconds: float


def measure(short: bool = False, sources: dict[str, Path] = SOURCES) -> Iterator[Item]:
    n_seeds, learned = (2, ["POSSM, rnn", POSSM_GRU, GRU]) if short else (5, LEARNED)
    seeds = dict.fromkeys(learned, n_seeds) | {WIENER: 1, KALMAN: 1}
    epochs = dict.fromkeys(EPOCHS, 1) if short else EPOCHS
    found = {name: path for name, path in sources.items() if path.exists()}
    for name in sources.keys() - found:
        yield Note(f"{name}: the file is missing, skipped.")
    jobs = [(s, found[s], model, seed, epochs[s]) for s in found for model, n in seeds.items() for seed in range(n)]
    jobs.sort(key=lambda job: (job[0] == REAL) + ("mamba" in job[2]), reverse=True)  # the longest first
    n_processes = os.cpu_count() or 1
    with ProcessPoolExecutor(n_processes, SPAWN) as pool:
        done = as_completed([pool.submit(train_and_score, *job) for job in jobs])
        scores = [job.result() for job in tqdm(done, total=len(jobs), unit="decoder", disable=None)]
    for source in found:
        yield from limits(source, scores)
        title = f"{source}: {n_seeds} seeds, epochs: {epochs[source]}"
        head = ["", "R²", "lowest to highest", "parameters", "training s, median"]
        yield Table(title, head, [[model, *_cells(_select(scores, source, model))] for model in seeds])
    yield Note(
        f"{n_processes} processes at once, each with one thread. ± is the standard deviation over seeds, which change "
        "initial weights, windows and dropped units; the two filters have none. "
        "R² is the mean of x and y on the last 20 %, decoded causally."
    )
    yield Plot("accuracy", "R² of each decoder on held-out velocity, a dot per seed", _plot(list(found), scores))


def train_and_score(source: str, path: Path, model: str, seed: int, epochs: int) -> Score:
    with threads(1):
        session = prepare(load_recording(path))
        start = time.perf_counter()
        if model in (WIENER, KALMAN):
            trained = {WIENER: fit_wiener, KALMAN: fit_kalman}[model](session)
            seconds = time.perf_counter() - start
        else:
            torch.manual_seed(seed)
            trained = _new_model(model, session)
            seconds = fit(trained, session, FitConfig(epochs=epochs, seed=seed, validations=0), progress=False).seconds
        n_parameters = sum(p.numel() for p in trained.parameters())
        return Score(source, model, evaluate(trained, session).r2, n_parameters, seconds)


def _new_model(name: str, session: Session) -> torch.nn.Module:
    n_units = session.recording.n_units
    if name in (MLP, GRU):
        kind = {MLP: BinnedMLP, GRU: BinnedGRU}[name]
        return kind(n_units, session.timeline.bin_width_s, len(slot_offsets(session)))
    return POSSM(POSSMConfig(n_units=n_units, backbone=name.removeprefix("POSSM, ")))


def limits(source: str, scores: list[Score]) -> Iterator[Row]:
    possm, gru, wiener = (np.mean([s.r2 for s in _select(scores, source, m)]) for m in (POSSM_GRU, GRU, WIENER))
    if source == SIMULATED:
        floor = wiener + 0.1
        yield row(
            f"{source}, POSSM R², mean of seeds", possm, "{:.3f}", f">= {floor:.3f}, Wiener + 0.10", possm >= floor
        )
        yield row(f"{source}, GRU on counts R²", gru, "{:.3f}", f"<= {possm:.3f}, POSSM", gru <= possm)
    else:
        longest = max(s.seconds for s in _select(scores, source, POSSM_GRU))
        yield row(f"{source}, POSSM R², mean of seeds", possm, "{:.3f}", ">= 0.88", possm >= 0.88)
        yield row(f"{source}, POSSM, longest training", longest, "{:.0f} s", "<= 120 s", longest <= 120)


def _cells(scores: list[Score]) -> list[str]:
    r2, seconds = np.array([s.r2 for s in scores]), float(np.median([s.seconds for s in scores]))
    several = len(r2) > 1
    spread, ends = (f" ± {r2.std(ddof=1):.3f}", f"{r2.min():.3f} to {r2.max():.3f}") if several else ("", "")
    return [f"{r2.mean():.3f}{spread}", ends, f"{scores[0].n_parameters:,}", f"{seconds:.1f}"]


def _select(scores: list[Score], source: str, model: str) -> list[Score]:
    return [s for s in scores if (s.source, s.model) == (source, model)]


def _plot(sources: list[str], scores: list[Score]) -> Figure:
    models = [model for model in [KALMAN, WIENER, *reversed(LEARNED)] if any(s.model == model for s in scores)]
    figure = Figure(figsize=(4 * len(sources) + 1.5, 3.4), layout="constrained")
    for panel, source in zip(figure.subplots(1, len(sources), sharey=True, squeeze=False)[0], sources, strict=True):
        for y, model in enumerate(models):
            r2 = [s.r2 for s in _select(scores, source, model)]
            color = ORANGE if model.startswith("POSSM") else BLUE
            panel.plot(r2, [y] * len(r2), "o", color=color, ms=5, alpha=0.6)
        panel.set_yticks(range(len(models)), models)
        panel.set_xlabel("R²")
        panel.set_title(source, fontsize="medium")
        panel.grid(alpha=0.3)
    return figure
