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
GRID = [
    {"lr": 1e-3, "window_s": 2.0, "batch": 16},
    {"lr": 1e-3, "window_s": 4.0, "batch": 8},
    {"lr": 2e-3, "window_s": 2.0, "batch": 16},
    {"lr": 2e-3, "window_s": 4.0, "batch": 8},
]
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
    """The settings of `GRID` with the best validation R² of one training.

    Args:
        found: the recordings.
        decoders: by name.
        short: two settings, one epoch.

    Returns:
        Settings by recording and decoder, and a table of them.
    """
    grid = GRID[:2] if short else GRID
    keys = list(product(found, decoders))
    calls = []
    for (source, decoder), settings in product(keys, grid):
        calls.append(call(found, source, decoders[decoder], 100, short, **settings))
    valid = [score["valid"] for score in in_parallel(train_and_score, calls)]
    choice = np.reshape(valid, (len(keys), len(grid))).argmax(-1)
    best = {key: grid[i] for key, i in zip(keys, choice, strict=True)}
    title = f"Settings of training with the best validation R², of {len(GRID)}, one training of each"
    form = "lr {lr:g}, {batch} windows of {window_s:g} s"
    rows = [[decoder, *(form.format(**best[source, decoder]) for source in found)] for decoder in decoders]
    return best, Table(title, ["", *found], rows)


def score_all(
    found: dict[str, Path], decoders: dict[str, Decoder], settings: dict, n_seeds: dict[str, int], short: bool
) -> Scores:
    """Train every decoder on every recording from the seeds 0, 1, ...

    Args:
        found: the recordings.
        decoders: by name.
        settings: of training, by recording and decoder; the defaults where there are none.
        n_seeds: by decoder.
        short: one epoch.
    """
    keys, calls = [], []
    for source, decoder in product(found, decoders):
        for seed in range(n_seeds[decoder]):
            keys.append((source, decoder))
            calls.append(call(found, source, decoders[decoder], seed, short, **settings.get((source, decoder), {})))
    of: Scores = {}
    for key, score in zip(keys, in_parallel(train_and_score, calls), strict=True):
        of.setdefault(key, []).append(score)
    return of


def call(found: dict[str, Path], source: str, decoder: Decoder, seed: int, short: bool, **settings) -> tuple:
    """Arguments of `train_and_score`; `settings` are fields of `FitConfig`."""
    epochs = 1 if short else EPOCHS[source]
    return found[source], decoder, FitConfig(epochs=epochs, seed=seed, validations=0, **settings)


def train_and_score(path: Path, decoder: Decoder, settings: FitConfig) -> dict:
    """Train a decoder on the recording at `path`.

    Returns:
        R² on the test part ("r2", "displayed") and on the validation part ("valid"), "seconds" of the core that it
        took, number of "parameters".
    """
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
    decoders = list(decoders)
    head = ["", "R²", "lowest to highest", f"against {reference}", "R² displayed", "parameters", "core s"]
    for source in found:
        rows = []
        for decoder in decoders:
            against = None if decoder == reference else of[source, reference]
            rows.append([decoder, *_cells(of[source, decoder], against)])
        yield Table(f"{title}: {source}, {len(of[source, reference])} seeds", head, rows)


def _cells(scores: list[dict], reference: list[dict] | None) -> list[str]:
    r2 = r2_of(scores)
    ends = f"{r2.min():.3f} to {r2.max():.3f}" if len(r2) > 1 else ""
    against = "" if reference is None else _difference(r2, r2_of(reference))
    displayed = np.mean([s["displayed"] for s in scores])
    seconds = np.median([s["seconds"] for s in scores])
    return [with_spread(r2), ends, against, f"{displayed:.3f}", f"{scores[0]['parameters']:,}", f"{seconds:.1f}"]


def _difference(r2: np.ndarray, other: np.ndarray) -> str:
    """The difference of the means, and whether it is larger than the spread over seeds."""
    difference = r2.mean() - other.mean()
    variance = sum(x.var(ddof=1) for x in (r2, other) if len(x) > 1)
    compared = "larger than" if abs(difference) > variance**0.5 else "within"
    return f"{difference:+.3f}, {compared} the spread"


def r2_of(scores: list[dict]) -> np.ndarray:
    """R² of each seed, (n,)."""
    return np.array([score["r2"] for score in scores])
