"""How a bin is read and how time is coded: R² on held-out velocity over seeds, each decoder with tuned settings."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedGRU
from possm_lite.decoder.config import READINGS, TIME_CODES
from possm_lite.spikes import load_recording
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.evaluate import slot_offsets

from .accuracy import GRU, REAL, SIMULATED, SOURCES
from .machine import SPAWN, threads
from .page import ROOT, Item, Note, Table, row

SENSORY = "somatosensory cortex, 1,050 s"
RECORDINGS = SOURCES | {SENSORY: ROOT.parent / "shared" / "data" / "s1_first_1050s.mat"}
EPOCHS = {SIMULATED: 40, REAL: 60, SENSORY: 40}
GRID = [dict(lr=lr, **w) for lr in (1e-3, 2e-3) for w in (dict(window_s=2.0, batch=16), dict(window_s=4.0, batch=8))]
DEFAULTS = dict(lr=FitConfig.lr, window_s=FitConfig.window_s, batch=FitConfig.batch)
GOALS = {REAL: 0.905, SENSORY: 0.79, SIMULATED: 0.86}
_DEFAULT = POSSMConfig(n_units=1)
# the other variants replace one of these
POSSM_DEFAULT = f"POSSM: {_DEFAULT.reading}, {_DEFAULT.time_code}"


def measure(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """The readings, and a GRU on counts tuned with the same effort."""
    grid, n_searches, n_seeds = (GRID[:2], 1, 1) if short else (GRID, 2, 5)
    found = {name: path for name, path in recordings.items() if path.exists()}
    yield from (Note(f"{name}: the file is missing, skipped.") for name in recordings.keys() - found)
    decoders = {POSSM_DEFAULT: {}, GRU: None}
    searched = list(product(found, decoders, range(len(grid)), range(n_searches)))
    scores = _train([_job(found, s, decoders[d], 100 + seed, short, **grid[i]) for s, d, i, seed in searched])
    valid = np.reshape([score["valid"] for score in scores], (len(found), len(decoders), len(grid), n_searches))
    choice = valid.mean(-1).argmax(-1)
    best = {(s, d): grid[choice[i, j]] for i, s in enumerate(found) for j, d in enumerate(decoders)}
    yield Table(
        f"Settings of training with the best mean validation R² of {n_searches} trainings, of {len(grid)}",
        ["", *found],
        [[d, *(_settings(best[s, d]) for s in found)] for d in decoders],
    )
    others = {f"reading: {name}": {"reading": name} for name in READINGS if name != _DEFAULT.reading}
    variants = decoders | (dict(list(others.items())[:1]) if short else others)
    keys = list(product(found, variants, range(n_seeds)))
    settings = {(s, v): best[s, GRU if v == GRU else POSSM_DEFAULT] for s, v in product(found, variants)}
    scores = _train([_job(found, s, variants[v], seed, short, **settings[s, v]) for s, v, seed in keys])
    of = dict(zip(keys, scores, strict=True))
    for source in found:
        possm, gru = (np.mean([of[source, v, seed]["r2"] for seed in range(n_seeds)]) for v in decoders)
        goal = GOALS[source]
        yield row(f"{source}, POSSM R², mean of seeds", possm, "{:.3f}", f">= {goal}", possm >= goal)
        yield row(f"{source}, above the GRU on counts by", possm - gru, "{:+.3f}", ">= 0.010", possm - gru >= 0.01)
    yield from _tables("How a bin is read", found, variants, n_seeds, of)


def measure_codes(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """The codes of time, with the default settings of training, which the search of `measure` chooses too."""
    n_seeds = 1 if short else 3
    found = {name: path for name, path in recordings.items() if path.exists()}
    yield from (Note(f"{name}: the file is missing, skipped.") for name in recordings.keys() - found)
    others = {f"code of time: {name}": {"time_code": name} for name in TIME_CODES if name != _DEFAULT.time_code}
    others |= {"a learned query per millisecond": {"query": "per_ms"}}
    variants = {POSSM_DEFAULT: {}} | (dict(list(others.items())[:1]) if short else others)
    keys = list(product(found, variants, range(n_seeds)))
    scores = _train([_job(found, s, variants[v], seed, short, **DEFAULTS) for s, v, seed in keys])
    yield from _tables("The code of time", found, variants, n_seeds, dict(zip(keys, scores, strict=True)))


def _job(found: dict, source: str, switches: dict | None, seed: int, short: bool, **settings) -> tuple:
    epochs = 1 if short else EPOCHS[source]
    return found[source], switches, FitConfig(epochs=epochs, seed=seed, validations=0, **settings)


def _tables(title: str, found: dict, variants: dict, n_seeds: int, of: dict) -> Iterator[Item]:
    for source in found:
        yield Table(
            f"{title}: {source}, {n_seeds} seeds",
            ["", "R²", "lowest to highest", "R² displayed", "parameters", "training s, median"],
            [[v, *_cells([of[source, v, seed] for seed in range(n_seeds)])] for v in variants],
        )
    yield Note(
        "± is the standard deviation over seeds. R² is the mean of x and y on the last 20 %, decoded causally, at the "
        "moments asked; displayed: of the newest finished output at each moment, that of the end of the last finished "
        "bin. The lag is 0."
    )


def _train(jobs: list[tuple]) -> list[dict]:
    with ProcessPoolExecutor(os.cpu_count() or 1, SPAWN) as pool:
        futures = [pool.submit(train_and_score, *job) for job in jobs]
        for _ in tqdm(as_completed(futures), total=len(futures), unit="decoder", disable=None):
            pass
        return [future.result() for future in futures]


def train_and_score(path: Path, switches: dict | None, settings: FitConfig) -> dict:
    """Train a POSSM with these switches, or for None the GRU on counts, on one thread."""
    with threads(1):
        session = prepare(load_recording(path))
        recording, slots = session.recording, len(slot_offsets(session))
        torch.manual_seed(settings.seed)
        if switches is None:
            model = BinnedGRU(recording.n_units, session.timeline.bin_width_s, slots, recording.n_columns)
        else:
            model = POSSM(POSSMConfig(n_units=recording.n_units, n_outputs=recording.n_columns, **switches))
        seconds = fit(model, session, settings, progress=False).seconds
        decoded = evaluate(model, session)
        return {
            "r2": decoded.r2,
            "displayed": decoded.r2_displayed,
            "valid": evaluate(model, session, "valid").r2,
            "seconds": seconds,
            "parameters": sum(p.numel() for p in model.parameters()),
        }


def _settings(settings: dict) -> str:
    return f"lr {settings['lr']:g}, {settings['batch']} windows of {settings['window_s']:g} s"


def _cells(scores: list[dict]) -> list[str]:
    r2 = np.array([s["r2"] for s in scores])
    spread = f" ± {r2.std(ddof=1):.3f}" if len(r2) > 1 else ""
    displayed, seconds = np.mean([s["displayed"] for s in scores]), np.median([s["seconds"] for s in scores])
    return [f"{r2.mean():.3f}{spread}", f"{r2.min():.3f} to {r2.max():.3f}", f"{displayed:.3f}"] + [
        f"{scores[0]['parameters']:,}",
        f"{seconds:.1f}",
    ]
