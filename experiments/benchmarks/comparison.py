"""Decoders compared over seeds: the recordings, one search of the settings of training for all, tables of R²."""

import time
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch13 import time_codes
from possm_course.parallel import in_parallel
from possm_lite.app.commands import EMBEDDED
from possm_lite.decoder.baselines import BinnedGRU, BinnedMLP
from possm_lite.recordings import load_recording
from possm_lite.training import FitConfig, Session, evaluate, fit, prepare
from possm_lite.training.evaluate import slot_offsets
from possm_lite.training.linear import fit_kalman, fit_wiener

from .page import ROOT, Item, Note, Table, with_spread

SIMULATED, REAL = "simulated session", "motor cortex (Stevenson et al. 2011)"
SENSORY = "somatosensory cortex, 1,050 s"
DATA = ROOT.parent / "shared" / "data"
RECORDINGS = {SIMULATED: EMBEDDED, REAL: DATA / "m1_stevenson_2011.mat", SENSORY: DATA / "s1_first_1050s.mat"}
EPOCHS = {SIMULATED: 40, REAL: 60, SENSORY: 40}
GRID = [dict(lr=lr, **w) for lr in (1e-3, 2e-3) for w in (dict(window_s=2.0, batch=16), dict(window_s=4.0, batch=8))]
HISTORIES = [5, 10, 15, 20]  # bins that a Wiener filter reads: as many settings as the others have
MLP, GRU, WIENER, KALMAN = "MLP on counts", "GRU on counts", "Wiener filter", "Kalman filter"


Decoder = dict | str  # the switches of `time_codes.make_model`, or one of the four names above
Scores = dict[tuple[str, str], list[dict]]  # a score for each seed, by recording and decoder

NOTE = Note(
    "± is the standard deviation over seeds, which change initial weights, windows and hidden units; filters have "
    "none. 'Larger than the spread': than the standard deviation of the difference of two trainings, (s₁² + s₂²)^½. "
    "R² is the mean of x and y on the last 20 %, decoded causally, at the moments asked; displayed: of the newest "
    "finished output at each moment, that of the end of the last finished bin. The lag is 0. Core s: seconds of one "
    "core for the training, median."
)


def present(recordings: dict[str, Path]) -> tuple[dict[str, Path], list[Note]]:
    """The recordings that are there, and a note for each that is not."""
    found = {name: path for name, path in recordings.items() if path.exists()}
    return found, [Note(f"{name}: the file is missing, skipped.") for name in recordings if name not in found]


def search(
    found: dict[str, Path], decoders: dict[str, Decoder], short: bool = False
) -> tuple[dict[tuple[str, str], dict], Table]:
    """The settings of `GRID` with the best validation R² of one training, by recording and decoder."""
    grid = GRID[:2] if short else GRID
    keys = list(product(found, decoders))
    calls = [call(found, s, decoders[d], 100, short, **settings) for (s, d), settings in product(keys, grid)]
    valid = [score["valid"] for score in in_parallel(train_and_score, calls)]
    choice = np.reshape(valid, (len(keys), len(grid))).argmax(-1)
    best = {key: grid[i] for key, i in zip(keys, choice, strict=True)}
    title = f"Settings of training with the best validation R², of {len(GRID)}, one training of each"
    form = "lr {lr:g}, {batch} windows of {window_s:g} s"
    return best, Table(title, ["", *found], [[d, *(form.format(**best[s, d]) for s in found)] for d in decoders])


def score_all(
    found: dict[str, Path], decoders: dict[str, Decoder], settings: dict, n_seeds: dict[str, int], short: bool
) -> Scores:
    """Train every decoder on every recording with the settings for the two, from the seeds 0, 1, ..."""
    keys = [(s, d, seed) for s, d in product(found, decoders) for seed in range(n_seeds[d])]
    calls = [call(found, s, decoders[d], seed, short, **settings.get((s, d), {})) for s, d, seed in keys]
    of: Scores = {}
    for (source, decoder, _), score in zip(keys, in_parallel(train_and_score, calls), strict=True):
        of.setdefault((source, decoder), []).append(score)
    return of


def call(found: dict[str, Path], source: str, decoder: Decoder, seed: int, short: bool, **settings) -> tuple:
    """Arguments of `train_and_score`."""
    epochs = 1 if short else EPOCHS[source]
    return found[source], decoder, FitConfig(epochs=epochs, seed=seed, validations=0, **settings)


def train_and_score(path: Path, decoder: Decoder, settings: FitConfig) -> dict:
    """Train a decoder: R² on the test and on the validation part, seconds of the core it took."""
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
    n_units, n_columns = session.recording.n_units, session.recording.n_columns
    if decoder == WIENER:
        filters = [fit_wiener(session, n_history) for n_history in HISTORIES]
        return max(filters, key=lambda model: evaluate(model, session, "valid").r2)
    if decoder == KALMAN:
        return fit_kalman(session)
    if isinstance(decoder, dict):
        model = time_codes.make_model(n_units=n_units, n_outputs=n_columns, **decoder)
    else:
        kind = {GRU: BinnedGRU, MLP: BinnedMLP}[decoder]
        model = kind(n_units, session.timeline.bin_width_s, len(slot_offsets(session)), n_columns)
    fit(model, session, settings, progress=False)
    return model


def tables(title: str, found: Iterable[str], decoders: Iterable[str], of: Scores, reference: str) -> Iterator[Item]:
    """A table for each recording, with the decoders as rows, each but `reference` compared with that one."""
    for source in found:
        rows = [[d, *_cells(of[source, d], None if d == reference else of[source, reference])] for d in decoders]
        head = ["", "R²", "lowest to highest", f"against {reference}", "R² displayed", "parameters", "core s"]
        yield Table(f"{title}: {source}, {len(of[source, reference])} seeds", head, rows)


def _cells(scores: list[dict], reference: list[dict] | None) -> list[str]:
    r2 = r2_of(scores)
    ends = f"{r2.min():.3f} to {r2.max():.3f}" if len(r2) > 1 else ""
    against = "" if reference is None else _difference(r2, r2_of(reference))
    displayed = np.mean([s["displayed"] for s in scores])
    seconds = np.median([s["seconds"] for s in scores])
    return [with_spread(r2), ends, against, f"{displayed:.3f}", f"{scores[0]['parameters']:,}", f"{seconds:.1f}"]


def _difference(r2: np.ndarray, other: np.ndarray) -> str:
    difference = r2.mean() - other.mean()
    variance = sum(x.var(ddof=1) for x in (r2, other) if len(x) > 1)
    return f"{difference:+.3f}, {'larger than' if abs(difference) > variance**0.5 else 'within'} the spread"


def r2_of(scores: list[dict]) -> np.ndarray:
    return np.array([score["r2"] for score in scores])
