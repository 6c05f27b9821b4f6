"""Decoders compared over seeds: the recordings, one search of the settings of training for all, tables of R²."""

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from possm_lite.classroom.load import load_figures
from possm_lite.commands import EMBEDDED
from possm_lite.decoder.baselines import BinnedGRU, BinnedMLP
from possm_lite.spikes import load_recording
from possm_lite.training import FitConfig, Session, evaluate, fit, prepare
from possm_lite.training.baselines import fit_kalman, fit_wiener
from possm_lite.training.evaluate import slot_offsets

from .machine import SPAWN, threads
from .page import ROOT, Item, Note, Table

SIMULATED, REAL = "simulated session", "motor cortex (Stevenson et al. 2011)"
SENSORY = "somatosensory cortex, 1,050 s"
DATA = ROOT.parent / "shared" / "data"
RECORDINGS = {SIMULATED: EMBEDDED, REAL: DATA / "m1_stevenson_2011.mat", SENSORY: DATA / "s1_first_1050s.mat"}
EPOCHS = {SIMULATED: 40, REAL: 60, SENSORY: 40}
GRID = [dict(lr=lr, **w) for lr in (1e-3, 2e-3) for w in (dict(window_s=2.0, batch=16), dict(window_s=4.0, batch=8))]
HISTORIES = [5, 10, 15, 20]  # bins that a Wiener filter reads: as many settings as the others have
MLP, GRU, WIENER, KALMAN = "MLP on counts", "GRU on counts", "Wiener filter", "Kalman filter"

time_codes = load_figures("13_time_codes", ROOT / "notebooks")

# a decoder: the switches of `time_codes.make_model`, or one of the four names above
Decoder = dict | str


def present(recordings: dict[str, Path]) -> tuple[dict[str, Path], list[Note]]:
    """The recordings that are there, and a note for each that is not."""
    found = {name: path for name, path in recordings.items() if path.exists()}
    return found, [Note(f"{name}: the file is missing, skipped.") for name in recordings if name not in found]


def search(found: dict[str, Path], decoders: dict[str, Decoder], n_trainings: int, short: bool = False) -> dict:
    """The settings of `GRID` with the best mean validation R² of `n_trainings`, by recording and decoder."""
    grid = GRID[:2] if short else GRID
    keys = list(product(found, decoders, range(len(grid)), range(n_trainings)))
    scores = train([job(found, s, decoders[d], 100 + seed, short, **grid[i]) for s, d, i, seed in keys])
    valid = np.reshape([score["valid"] for score in scores], (len(found), len(decoders), len(grid), n_trainings))
    choice = valid.mean(-1).argmax(-1)
    return {(s, d): grid[choice[i, j]] for i, s in enumerate(found) for j, d in enumerate(decoders)}


def table_of_settings(found: Iterable[str], decoders: Iterable[str], best: dict, n_trainings: int) -> Table:
    title = f"Settings of training with the best mean validation R², of {len(GRID)}, trainings of each: {n_trainings}"
    return Table(title, ["", *found], [[d, *(_settings(**best[s, d]) for s in found)] for d in decoders])


def _settings(lr: float, window_s: float, batch: int) -> str:
    return f"lr {lr:g}, {batch} windows of {window_s:g} s"


def job(found: dict[str, Path], source: str, decoder: Decoder, seed: int, short: bool, **settings) -> tuple:
    """Arguments of `train_and_score`."""
    epochs = 1 if short else EPOCHS[source]
    return found[source], decoder, FitConfig(epochs=epochs, seed=seed, validations=0, **settings)


def train(jobs: list[tuple]) -> list[dict]:
    """`train_and_score` of each job, in the order of the jobs, as many at once as there are cores."""
    with ProcessPoolExecutor(os.cpu_count() or 1, SPAWN) as pool:
        futures = [pool.submit(train_and_score, *job) for job in jobs]
        for _ in tqdm(as_completed(futures), total=len(futures), unit="decoder", disable=None):
            pass
        return [future.result() for future in futures]


def train_and_score(path: Path, decoder: Decoder, settings: FitConfig) -> dict:
    """Train a decoder on one thread: R² on the test and on the validation part, seconds of the core it took."""
    with threads(1):
        session = prepare(load_recording(path))
        torch.manual_seed(settings.seed)
        start = time.process_time()
        model = _trained(decoder, session, settings)
        seconds = time.process_time() - start
        decoded = evaluate(model, session)
        return {
            "r2": decoded.r2,
            "displayed": decoded.r2_displayed,
            "valid": evaluate(model, session, "valid").r2,
            "seconds": seconds,
            "parameters": sum(p.numel() for p in model.parameters()),
        }


def _trained(decoder: Decoder, session: Session, settings: FitConfig) -> torch.nn.Module:
    recording, slots = session.recording, len(slot_offsets(session))
    if decoder == WIENER:
        filters = [fit_wiener(session, n_history) for n_history in HISTORIES]
        return max(filters, key=lambda model: evaluate(model, session, "valid").r2)
    if decoder == KALMAN:
        return fit_kalman(session)
    if isinstance(decoder, dict):
        model = time_codes.make_model(n_units=recording.n_units, n_outputs=recording.n_columns, **decoder)
    else:
        kind = {GRU: BinnedGRU, MLP: BinnedMLP}[decoder]
        model = kind(recording.n_units, session.timeline.bin_width_s, slots, recording.n_columns)
    fit(model, session, settings, progress=False)
    return model


def tables(title: str, found: Iterable[str], decoders: Iterable[str], of: dict, reference: str) -> Iterator[Item]:
    """A table for each recording.

    Args:
        title: before the name of the recording.
        found, decoders: names of recordings and of decoders, the rows.
        of: the scores of all seeds by recording and decoder.
        reference: the decoder that the others are compared with.
    """
    for source in found:
        rows = [[d, *_cells(of[source, d], None if d == reference else of[source, reference])] for d in decoders]
        head = ["", "R²", "lowest to highest", f"against {reference}", "R² displayed", "parameters", "core s"]
        yield Table(f"{title}: {source}, {len(of[source, reference])} seeds", head, rows)
    yield Note(
        "± is the standard deviation over seeds, which change initial weights, windows and hidden units; filters have "
        "none. A difference from the reference is said to be larger than the spread if it exceeds the standard "
        "deviation of the difference of two trainings, (s₁² + s₂²)^½. R² is the mean of x and y on the last 20 %, "
        "decoded causally, at the moments asked; displayed: of the newest finished output at each moment, that of the "
        "end of the last finished bin. The lag is 0. Core s: seconds of one core for the training, median."
    )


def _cells(scores: list[dict], reference: list[dict] | None) -> list[str]:
    r2, displayed = np.array([s["r2"] for s in scores]), np.mean([s["displayed"] for s in scores])
    several = len(r2) > 1
    spread, ends = (f" ± {r2.std(ddof=1):.3f}", f"{r2.min():.3f} to {r2.max():.3f}") if several else ("", "")
    seconds = np.median([s["seconds"] for s in scores])
    return [f"{r2.mean():.3f}{spread}", ends, _compared(r2, reference), f"{displayed:.3f}"] + [
        f"{scores[0]['parameters']:,}",
        f"{seconds:.1f}",
    ]


def _compared(r2: np.ndarray, reference: list[dict] | None) -> str:
    if reference is None:
        return ""
    other = np.array([s["r2"] for s in reference])
    variance = sum(x.var(ddof=1) for x in (r2, other) if len(x) > 1)
    difference = r2.mean() - other.mean()
    return f"{difference:+.3f}, {'larger than' if abs(difference) > variance**0.5 else 'within'} the spread"
