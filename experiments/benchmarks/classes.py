"""Decoded classes: targets of the simulated session, and directions of reaches of motor cortex, beside chance."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from scipy.signal import find_peaks
from torch import nn

from possm_course.parallel import in_parallel
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedGRU
from possm_lite.recordings import Recording, load_recording
from possm_lite.recordings.labels import label_trials
from possm_lite.training import FitConfig, Session, decode_classes, fit, prepare
from possm_lite.training.linear import fit_logistic

from .comparison import EPOCHS, REAL, RECORDINGS, SIMULATED, present
from .page import Item, Note, Table, with_spread

TASKS = {SIMULATED: "eight targets", REAL: "eight directions of reaches"}
POSSM_CLASSES, GRU, LOGISTIC = DECODERS = ("POSSM", "GRU on counts", "logistic regression")
GRID = [{"lr": lr, "unit_dropout": share} for lr, share in product((1e-3, 2e-3), (0.3, 0.5))]
N_SEEDS, N_SECTORS = 5, 8
BEFORE_S, AFTER_S = 0.3, 0.1  # of the moment at which a reach is fastest
SLOWEST = 0.1  # m/s: how fast the hand is then, at least


def measure(short: bool = False) -> Iterator[Item]:
    """The items of the section; `short`: one seed, two settings, one epoch."""
    recordings = {name: RECORDINGS[name] for name in TASKS}
    found, notes = present(recordings)
    yield from notes
    best, table = search(found, short)
    yield table
    n_seeds = 1 if short else N_SEEDS
    for source in found:
        rows = []
        for decoder in DECODERS:
            seeds = range(1 if decoder == LOGISTIC else n_seeds)
            calls = [(found[source], source, decoder, best.get((source, decoder), {}), seed, short) for seed in seeds]
            rows.append([decoder, *cells(in_parallel(train_and_score, calls))])
        head = ["", "balanced accuracy", "lowest to highest", "at the end of a trial", "log loss", "chance", "95 %"]
        yield Table(f"{TASKS[source]}: {source}, {n_seeds} seeds", head, rows)
    yield Note(
        "Test part, all samples of a trial from its first on; ± over seeds, of which logistic regression has none. "
        "Chance: mean of 1,000 shuffles of the labels of the test trials, and their 95 % point, mean of the seeds. "
        "Simulated session: the target of the last reach of a trial. Motor cortex: a trial is a reach, "
        f"from {BEFORE_S:g} s before to {AFTER_S:g} s after the moment at which the hand is fastest, and its class "
        "the sector of 45° of its velocity then."
    )


def recording_of(path: Path, source: str) -> Recording:
    """The recording of a task, with its labels."""
    if source == SIMULATED:
        return load_recording(path, "target")
    return label_reaches(load_recording(path))


def label_reaches(recording: Recording) -> Recording:
    """A recording whose trials are fast reaches, and whose labels are their directions.

    Args:
        recording: with two columns of velocity, m/s.

    Returns:
        The recording, with classes named by the middle of their sector, such as "45°".
    """
    velocity = recording.behavior
    interval_s = float(np.median(np.diff(recording.behavior_times)))
    apart = round((BEFORE_S + AFTER_S) / interval_s) + 1  # samples, so that no two trials overlap
    speed = np.hypot(*velocity.T)
    peaks, _ = find_peaks(speed, height=SLOWEST, distance=apart)
    peak_s = recording.behavior_times[peaks]
    angle = np.degrees(np.arctan2(velocity[peaks, 1], velocity[peaks, 0]))
    sector = np.round(angle / (360 / N_SECTORS)).astype(int) % N_SECTORS
    labels = [f"{each * 360 // N_SECTORS}°" for each in sector]
    trials = np.column_stack([peak_s - BEFORE_S, peak_s + AFTER_S])
    return label_trials(replace(recording, trials=trials), labels, "direction")


def search(found: dict[str, Path], short: bool) -> tuple[dict[tuple[str, str], dict], Table]:
    """The settings of `GRID` with the least log loss on the validation part, of one training each.

    Args:
        found: the recordings.
        short: two settings, one epoch.

    Returns:
        Settings by recording and decoder, and a table of them. Logistic regression has its own search.
    """
    grid = GRID[:2] if short else GRID
    keys = list(product(found, (POSSM_CLASSES, GRU)))
    calls = [(found[source], source, decoder, settings, 100, short) for (source, decoder) in keys for settings in grid]
    losses = [score["valid"] for score in in_parallel(train_and_score, calls)]
    choice = np.reshape(losses, (len(keys), len(grid))).argmin(1)
    best = {key: grid[i] for key, i in zip(keys, choice, strict=True)}
    form = "lr {lr:g}, up to {unit_dropout:.0%} of units hidden"
    rows = [[decoder, *(form.format(**best[source, decoder]) for source in found)] for decoder in (POSSM_CLASSES, GRU)]
    return best, Table(f"Settings with the least validation log loss, of {len(grid)}", ["", *found], rows)


def train_and_score(path: Path, source: str, decoder: str, settings: dict, seed: int, short: bool) -> dict:
    """Train a decoder of the classes of a task.

    Args:
        path: the recording.
        source: its name.
        decoder: of `DECODERS`.
        settings: fields of `FitConfig`.
        seed: of weights, windows and hidden units.
        short: one epoch.

    Returns:
        Scores of the test part, and "valid", the log loss of the validation part.
    """
    session = prepare(recording_of(path, source))
    model = trained(decoder, session, FitConfig(epochs=1 if short else EPOCHS[source], seed=seed, **settings))
    test = decode_classes(model, session)
    null = test.null()
    return {
        "balanced": test.balanced_accuracy,
        "at_end": test.at_end.balanced_accuracy,
        "log_loss": test.log_loss,
        "chance": null.mean(),
        "chance_95": np.percentile(null, 95),
        "valid": decode_classes(model, session, "valid").log_loss,
    }


def trained(decoder: str, session: Session, config: FitConfig) -> nn.Module:
    """A decoder of the classes of a session, trained with `config`; logistic regression has settings of its own."""
    if decoder == LOGISTIC:
        return fit_logistic(session)
    torch.manual_seed(config.seed)
    n_units, n_classes = session.recording.n_units, len(session.recording.classes)
    if decoder == POSSM_CLASSES:
        model = POSSM(POSSMConfig(n_units=n_units, n_outputs=n_classes, decodes="classes"))
    else:
        model = BinnedGRU(n_units, n_outputs=n_classes, decodes="classes")
    fit(model, session, replace(config, validations=0), progress=False)
    return model


def cells(scores: list[dict]) -> list[str]:
    """The cells of a row, from the scores of each seed."""
    of = {name: np.array([score[name] for score in scores]) for name in scores[0]}
    balanced = of["balanced"]
    ends = f"{balanced.min():.3f} to {balanced.max():.3f}" if len(balanced) > 1 else ""
    spreads = [with_spread(of[name]) for name in ("at_end", "log_loss")]
    return [with_spread(balanced), ends, *spreads, *(f"{of[name].mean():.3f}" for name in ("chance", "chance_95"))]
