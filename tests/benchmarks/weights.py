"""R² of the readings of a bin, and of the codes of time, where learned weights might pay."""

import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from tqdm import tqdm

from possm_lite.classroom.style import BLUE, GRAY, ORANGE
from possm_lite.decoder.baselines import BinnedGRU
from possm_lite.spikes import Recording, simulate_session
from possm_lite.spikes.simulation.drift import drift_tuning
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.spikes.simulation.session import SimulatedSession
from possm_lite.spikes.simulation.timed import TimedConfig, simulate_timed_session
from possm_lite.training import FitConfig, Session, combine_sessions, evaluate, fit, prepare
from possm_lite.training.baselines import fit_wiener
from possm_lite.training.evaluate import slot_offsets
from possm_lite.training.windows import WindowSampler

from .comparison import time_codes
from .machine import SPAWN, threads
from .page import Item, Note, Plot, Row, Table, row

SESSION = SimulationConfig(n_trials=72, n_units=40)  # two minutes
SPLIT = "chronological:60/10/30"
HIDDEN = 64
FIT = FitConfig(batch=8, samples=20, validations=0)  # epochs: as many as N_STEPS takes
N_STEPS = {"timed": 600, "three sessions": 300}
DEFAULT_STEPS = 200
N_FEW = 20

GRU, WIENER = "GRU on counts", "Wiener filter"
READINGS = ("softmax", "mean", "sigmoid", "sum")
CLEAN, SILENT, DRIFTED, TIMED = "clean", "a quarter silent in the test", "drifted in the test", "timed"
# the trainings, with the conditions that each is tested in
TRAININGS = {
    "one session": (CLEAN, SILENT, DRIFTED),
    "noise": ("a third are noise",),
    "few": (f"{N_FEW} training trials",),
    "three sessions": ("three sessions in one model",),
    "timed": (TIMED,),
}
CONDITIONS = [condition for conditions in TRAININGS.values() for condition in conditions]
# pairs that differ in one thing; the first two in the weights alone
EFFECTS = {
    "weights: softmax - mean": ("softmax", "mean", ORANGE),
    "weights: sigmoid - sum": ("sigmoid", "sum", BLUE),
    "number of spikes: sum - mean": ("sum", "mean", GRAY),
}


class Score(NamedTuple):
    """`decoder` is a reading, `GRU` or `WIENER`; `code` the time code of a POSSM."""

    condition: str
    decoder: str
    code: str
    seed: int
    r2: float


def measure(short: bool = False) -> Iterator[Item]:
    n_seeds = 1 if short else 3
    trained = [(training, decoder, "rotation") for training in TRAININGS for decoder in (*READINGS, GRU, WIENER)]
    trained += [(training, "softmax", code) for training in ("one session", "timed") for code in time_codes.CODES[1:]]
    jobs = [(*job, seed, short) for seed in range(n_seeds) for job in trained]
    n_processes = os.cpu_count() or 1
    if short:
        scores = [score for job in jobs for score in train_and_score(*job)]
    else:
        with ProcessPoolExecutor(n_processes, SPAWN) as pool:
            done = as_completed([pool.submit(train_and_score, *job) for job in jobs])
            scores = [s for job in tqdm(done, total=len(jobs), unit="decoder", disable=None) for s in job.result()]
    yield from report(scores)
    yield Note(f"{n_processes} processes at once, each with one thread.")


def report(scores: list[Score]) -> Iterator[Item]:
    r2 = partial(select, scores)
    yield from limits(r2)
    head = ["R², mean of seeds ± standard deviation", *CONDITIONS]
    rows = [[d, *(_cell(r2(c, d)) for c in CONDITIONS)] for d in (*READINGS, GRU, WIENER)]
    yield Table("How a bin is read", head, rows)
    rows = [[name, *(_cell(r2(c, a) - r2(c, b), "+") for c in CONDITIONS)] for name, (a, b, _) in EFFECTS.items()]
    yield Table("What the weights add, and what the number of spikes adds", ["difference of R²", *CONDITIONS], rows)
    rows = [[code, *(_cell(r2(c, "softmax", code)) for c in (CLEAN, TIMED))] for code in time_codes.CODES]
    yield Table("The code of time, reading softmax", ["", CLEAN, TIMED], rows)
    yield Note(
        f"{len(r2(CLEAN, 'softmax'))} seeds, each with its own session, initial weights and windows; "
        f"differences are of the same seed. Simulated sessions of {SESSION.n_units} units and "
        f"{SESSION.n_trials} trials, split {SPLIT.split(':')[1]}, R² on the last part. Every training: {DEFAULT_STEPS} "
        f"steps of {FIT.batch} windows ({N_STEPS['timed']} on the timed session, {N_STEPS['three sessions']} on three "
        f"sessions), hidden size {HIDDEN}, nothing tuned."
    )
    yield Plot("weights", "Differences of R² between readings in each condition, a dot per seed", _plot(r2))


def limits(r2) -> Iterator[Row]:
    """The timed session is what it claims to be: counts say nothing, times do."""
    counts, times = max(r2(TIMED, GRU).mean(), r2(TIMED, WIENER).mean()), r2(TIMED, "softmax").mean()
    without = r2(TIMED, "softmax", "none").mean()
    yield row("timed session, better of GRU and Wiener filter on counts, R²", counts, "{:.3f}", "<= 0.1", counts <= 0.1)
    gain = times - max(without, 0)
    yield row("timed session, R² of POSSM with a code of time minus without", gain, "{:.3f}", ">= 0.2", gain >= 0.2)


def select(scores: list[Score], condition: str, decoder: str, code: str = "rotation") -> np.ndarray:
    """R² of all seeds, in their order."""
    found = [s for s in scores if (s.condition, s.decoder, s.code) == (condition, decoder, code)]
    return np.array([s.r2 for s in sorted(found, key=lambda s: s.seed)])


def train_and_score(training: str, decoder: str, code: str, seed: int, short: bool) -> list[Score]:
    """Train on one thread, and score in every condition of this training."""
    with threads(1):
        sessions = training_sessions(training, seed, short)
        if decoder == WIENER:
            sessions = [replace(session, index=1, first_unit=1) for session in sessions]
            models = [fit_wiener(session) for session in sessions]  # one for each session
        else:
            torch.manual_seed(seed)
            model = new_model(decoder, code, sessions)
            n_steps = 2 if short else N_STEPS.get(training, DEFAULT_STEPS)
            per_epoch = max(1, round(sum(WindowSampler(s, FIT).n_windows for s in sessions) / FIT.batch))
            fit(model, sessions, replace(FIT, epochs=math.ceil(n_steps / per_epoch), seed=seed), progress=False)
            models = [model] * len(sessions)
        found = {}
        for condition in TRAININGS[training]:
            tested = [s if condition not in CHANGES else changed(s, condition, seed, short) for s in sessions]
            found[condition] = np.mean([evaluate(m, s).r2 for m, s in zip(models, tested, strict=True)])
        return [Score(condition, decoder, code, seed, float(r2)) for condition, r2 in found.items()]


def new_model(decoder: str, code: str, sessions: list[Session]) -> torch.nn.Module:
    n_units = sum(session.recording.n_units for session in sessions)
    if decoder == GRU:
        model = BinnedGRU(n_units, sessions[0].timeline.bin_width_s, len(slot_offsets(sessions[0])), hidden=HIDDEN)
        for name in ("behavior_mean", "behavior_std"):  # a row for each session, as in POSSM
            model.register_buffer(name, getattr(model, name)[:1].repeat(len(sessions) + 1, 1))
        return model
    return time_codes.make_model(code, reading=decoder, n_units=n_units, n_sessions=len(sessions), hidden=HIDDEN)


def training_sessions(training: str, seed: int, short: bool) -> list[Session]:
    if training == "timed":
        return [prepare(simulate_timed_session(seed, TimedConfig(n_trials=12) if short else None), SPLIT)]
    if training == "three sessions":
        return combine_sessions([prepare(simulated(3 * seed + i, short).recording, SPLIT) for i in range(3)])
    recording = simulated(seed, short).recording
    session = prepare(add_noise(recording, seed) if training == "noise" else recording, SPLIT)
    return [session.first_trials(2 if short else N_FEW) if training == "few" else session]


@cache
def simulated(seed: int, short: bool) -> SimulatedSession:
    return simulate_session(seed, replace(SESSION, n_trials=10, n_units=8) if short else SESSION)


def add_noise(recording: Recording, seed: int, share: float = 1 / 3) -> Recording:
    """A share of the units replaced by Poisson processes of the same number of spikes."""
    rng = np.random.default_rng(seed)
    noisy = rng.permutation(recording.n_units)[: round(share * recording.n_units)]
    is_noise, times = np.isin(recording.spike_units, noisy), recording.spike_times.copy()
    times[is_noise] = rng.uniform(*recording.span, is_noise.sum())
    order = np.argsort(times, kind="stable")
    return replace(recording, spike_times=times[order], spike_units=recording.spike_units[order])


def silence(session: Session, seed: int, short: bool, share: float = 1 / 4) -> Recording:
    """The recording without the spikes of a share of its units."""
    recording = session.recording
    silent = np.random.default_rng(seed).permutation(recording.n_units)[: round(share * recording.n_units)]
    kept = ~np.isin(recording.spike_units, silent)
    return replace(recording, spike_times=recording.spike_times[kept], spike_units=recording.spike_units[kept])


def drift(session: Session, seed: int, short: bool) -> Recording:
    """The same movements with drifted tuning, see `drift_tuning`."""
    truth = simulated(seed, short).truth
    units = drift_tuning(truth.units, np.random.default_rng(seed), config=truth.config)
    return simulate_session(seed, truth.config, units).recording


CHANGES = {SILENT: silence, DRIFTED: drift}


def changed(session: Session, condition: str, seed: int, short: bool) -> Session:
    """The session to test on, with the scale of behaviour of the one that was trained on."""
    return prepare(CHANGES[condition](session, seed, short), SPLIT)


def _cell(r2: np.ndarray, sign: str = "") -> str:
    spread = f" ± {r2.std(ddof=1):.3f}" if len(r2) > 1 else ""
    return f"{r2.mean():{sign}.3f}{spread}"


def _plot(r2) -> Figure:
    figure = Figure(figsize=(7.5, 3.8), layout="constrained")
    panel = figure.subplots()
    panel.axvline(0, color="black", lw=0.8)
    for i, (name, (a, b, color)) in enumerate(EFFECTS.items()):
        for y, condition in enumerate(reversed(CONDITIONS)):
            difference = r2(condition, a) - r2(condition, b)
            height = np.full(len(difference), y + 0.2 * (1 - i))
            panel.plot(difference, height, "os^"[i], color=color, ms=5, alpha=0.7, label=name if y == 0 else None)
    panel.set_yticks(range(len(CONDITIONS)), reversed(CONDITIONS))
    panel.set_xlabel("difference of R²")
    panel.legend(fontsize="small")
    panel.grid(alpha=0.3, axis="x")
    return figure
