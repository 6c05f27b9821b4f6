"""R² of the readings of a bin, and of the codes of time, where learned weights might pay."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from matplotlib.figure import Figure

from possm_course.chapters.ch13 import timed_session as timed
from possm_course.chapters.ch16 import study as new_sessions
from possm_course.parallel import in_parallel
from possm_course.style import BLUE, GRAY, ORANGE
from possm_lite.decoder.baselines import BinnedGRU
from possm_lite.recordings import Recording
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.simulate.session import SimulatedSession
from possm_lite.training import FitConfig, Session, combine_sessions, evaluate, fit, prepare
from possm_lite.training.evaluate import slot_offsets
from possm_lite.training.linear import fit_wiener
from possm_lite.training.windows import WindowSampler

from .comparison import GRU, WIENER, time_codes
from .page import Item, Note, Plot, Row, Table, row, with_spread

SESSION = SimulationConfig(n_trials=72, n_units=40)  # two minutes
SPLIT = "chronological:60/10/30"
HIDDEN = 64
FIT = FitConfig(batch=8, samples=20, validations=0)  # epochs: as many as N_STEPS takes
N_STEPS = {"timed": 600, "three sessions": 300}
DEFAULT_STEPS = 200
N_FEW = 20

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
TRAINED = [(training, decoder) for training in TRAININGS for decoder in (*READINGS, GRU, WIENER)]
TRAINED += [(training, f"softmax, {code}") for training in ("one session", "timed") for code in time_codes.CODES[1:]]
CONDITIONS = [condition for conditions in TRAININGS.values() for condition in conditions]
# pairs that differ in one thing; the first two in the weights alone
EFFECTS = {
    "weights: softmax - mean": ("softmax", "mean", ORANGE),
    "weights: sigmoid - sum": ("sigmoid", "sum", BLUE),
    "number of spikes: sum - mean": ("sum", "mean", GRAY),
}
# of all seeds, by condition and decoder: a reading, `GRU` or `WIENER`, and for other codes of time "softmax, CODE"
R2 = dict[tuple[str, str], np.ndarray]


def measure(short: bool = False) -> Iterator[Item]:
    """The items of the section; `short`: one seed, two steps of each training."""
    n_seeds = 1 if short else 3
    calls = [(*pair, seed, short) for pair in TRAINED for seed in range(n_seeds)]
    found = defaultdict(list)
    for (training, decoder, *_), scores in zip(calls, in_parallel(train_and_score, calls), strict=True):
        for condition, r2 in zip(TRAININGS[training], scores, strict=True):
            found[condition, decoder].append(r2)
    yield from report({key: np.array(scores) for key, scores in found.items()})


def report(r2: R2) -> Iterator[Item]:
    """Rows, tables, note and figure from R² of all seeds."""
    yield from limits(r2)
    decoders = (*READINGS, GRU, WIENER)
    head = ["R², mean of seeds ± standard deviation", *CONDITIONS]
    yield Table("How a bin is read", head, [[d, *_scores(r2, d, CONDITIONS)] for d in decoders])
    head = ["difference of R²", *CONDITIONS]
    rows = [[name, *_differences(r2, a, b)] for name, (a, b, _) in EFFECTS.items()]
    yield Table("What the weights add, and what the number of spikes adds", head, rows)
    codes = {code: "softmax" if code == "rotation" else f"softmax, {code}" for code in time_codes.CODES}
    rows = [[code, *_scores(r2, decoder, (CLEAN, TIMED))] for code, decoder in codes.items()]
    yield Table("The code of time, reading softmax", ["", CLEAN, TIMED], rows)
    yield Note(
        f"{len(r2[CLEAN, 'softmax'])} seeds, each with its own session, initial weights and windows; "
        f"differences are of the same seed. Simulated sessions of {SESSION.n_units} units and "
        f"{SESSION.n_trials} trials, split {SPLIT.split(':')[1]}, R² on the last part. Every training: {DEFAULT_STEPS} "
        f"steps of {FIT.batch} windows ({N_STEPS['timed']} on the timed session, {N_STEPS['three sessions']} on three "
        f"sessions), hidden size {HIDDEN}, nothing tuned."
    )
    yield Plot("weights", "Differences of R² between readings in each condition, a dot per seed", _plot(r2))


def _scores(r2: R2, decoder: str, conditions: Iterable[str]) -> list[str]:
    return [with_spread(r2[condition, decoder]) for condition in conditions]


def _differences(r2: R2, a: str, b: str) -> list[str]:
    """How much better `a` is than `b` in each condition, of the same seeds."""
    return [with_spread(r2[condition, a] - r2[condition, b], "+") for condition in CONDITIONS]


def limits(r2: R2) -> Iterator[Row]:
    """The timed session is what it claims to be: counts say nothing, times do."""
    counts = max(r2[TIMED, GRU].mean(), r2[TIMED, WIENER].mean())
    yield row("timed session, better of GRU and Wiener filter on counts, R²", counts, "{:.3f}", "<= 0.1", counts <= 0.1)
    gain = r2[TIMED, "softmax"].mean() - max(r2[TIMED, "softmax, none"].mean(), 0)
    yield row("timed session, R² of POSSM with a code of time minus without", gain, "{:.3f}", ">= 0.2", gain >= 0.2)


def train_and_score(training: str, decoder: str, seed: int, short: bool) -> list[float]:
    """R² in every condition of this training.

    Args:
        training: one of `TRAININGS`.
        decoder: a reading, `GRU` or `WIENER`; for other codes of time "softmax, CODE".
        seed: of the sessions, of initial weights and of windows.
        short: two steps on a small session.
    """
    sessions = training_sessions(training, seed, short)
    if decoder == WIENER:
        sessions = [replace(session, index=1, first_unit=1) for session in sessions]
        models = [fit_wiener(session) for session in sessions]  # one for each session
    else:
        n_steps = 2 if short else N_STEPS.get(training, DEFAULT_STEPS)
        models = [trained(decoder, sessions, seed, n_steps)] * len(sessions)
    scores = []
    for condition in TRAININGS[training]:
        tested = [_changed(session, condition, seed, short) for session in sessions]
        r2 = [evaluate(model, session).r2 for model, session in zip(models, tested, strict=True)]
        scores.append(float(np.mean(r2)))
    return scores


def trained(decoder: str, sessions: list[Session], seed: int, n_steps: int) -> torch.nn.Module:
    """One network, trained on all sessions for `n_steps`, rounded up to whole epochs."""
    torch.manual_seed(seed)
    model = new_model(decoder, sessions)
    n_windows = sum(WindowSampler(session, FIT).n_windows for session in sessions)
    steps_per_epoch = max(1, round(n_windows / FIT.batch))
    config = replace(FIT, epochs=math.ceil(n_steps / steps_per_epoch), seed=seed)
    fit(model, sessions, config, progress=False)
    return model


def new_model(decoder: str, sessions: list[Session]) -> torch.nn.Module:
    """An untrained network for the units of all sessions; `decoder` as for `train_and_score`, but `WIENER`."""
    n_units = sum(session.recording.n_units for session in sessions)
    if decoder == GRU:
        model = BinnedGRU(n_units, sessions[0].timeline.bin_width_s, len(slot_offsets(sessions[0])), hidden=HIDDEN)
        for name in ("behavior_mean", "behavior_std"):  # a row for each session, as in POSSM
            model.register_buffer(name, getattr(model, name)[:1].repeat(len(sessions) + 1, 1))
        return model
    reading, _, code = decoder.partition(", ")
    sizes = {"n_units": n_units, "n_sessions": len(sessions), "hidden": HIDDEN}
    return time_codes.make_model(code or "rotation", reading=reading, **sizes)


def training_sessions(training: str, seed: int, short: bool) -> list[Session]:
    """What is trained on; arguments as for `train_and_score`."""
    if training == "timed":
        return [prepare(timed.simulate_timed_session(seed, 12 if short else 150), SPLIT)]
    if training == "three sessions":
        return combine_sessions([prepare(simulated(3 * seed + i, short).recording, SPLIT) for i in range(3)])
    recording = simulated(seed, short).recording
    if training == "noise":
        recording = add_noise(recording, seed)
    session = prepare(recording, SPLIT)
    if training == "few":
        session = session.first_trials(2 if short else N_FEW)
    return [session]


@cache
def simulated(seed: int, short: bool) -> SimulatedSession:
    """The session of a seed, with what is known of it; `short`: small."""
    config = replace(SESSION, n_trials=10, n_units=8) if short else SESSION
    return simulate_session(seed, config)


def add_noise(recording: Recording, seed: int, share: float = 1 / 3) -> Recording:
    """A share of the units replaced by Poisson processes of the same number of spikes."""
    rng = np.random.default_rng(seed)
    noisy = rng.permutation(recording.n_units)[: round(share * recording.n_units)]
    is_noise = np.isin(recording.spike_units, noisy)
    times = recording.spike_times.copy()
    times[is_noise] = rng.uniform(*recording.span, is_noise.sum())
    order = np.argsort(times, kind="stable")
    return replace(recording, spike_times=times[order], spike_units=recording.spike_units[order])


def silence(recording: Recording, seed: int, share: float = 1 / 4) -> Recording:
    """The recording without the spikes of a share of its units."""
    silent = np.random.default_rng(seed).permutation(recording.n_units)[: round(share * recording.n_units)]
    kept = ~np.isin(recording.spike_units, silent)
    return replace(recording, spike_times=recording.spike_times[kept], spike_units=recording.spike_units[kept])


def drift(seed: int, short: bool) -> Recording:
    """The same movements with drifted tuning, see `drift_tuning`."""
    truth = simulated(seed, short).truth
    units = new_sessions.drift_tuning(truth.units, np.random.default_rng(seed), config=truth.config)
    return simulate_session(seed, truth.config, units).recording


def _changed(session: Session, condition: str, seed: int, short: bool) -> Session:
    """The session to test on; a trained model has the scale of behaviour of the one that it was trained on."""
    if condition == SILENT:
        return prepare(silence(session.recording, seed), SPLIT)
    if condition == DRIFTED:
        return prepare(drift(seed, short), SPLIT)
    return session


def _plot(r2: R2) -> Figure:
    figure = Figure(figsize=(7.5, 3.8), layout="constrained")
    panel = figure.subplots()
    panel.axvline(0, color="black", lw=0.8)
    for i, (name, (a, b, color)) in enumerate(EFFECTS.items()):
        for y, condition in enumerate(reversed(CONDITIONS)):
            difference = r2[condition, a] - r2[condition, b]
            height = np.full(len(difference), y + 0.2 * (1 - i))
            panel.plot(difference, height, "os^"[i], color=color, ms=5, alpha=0.7, label=name if y == 0 else None)
    panel.set_yticks(range(len(CONDITIONS)), reversed(CONDITIONS))
    panel.set_xlabel("difference of R²")
    panel.legend(fontsize="small")
    panel.grid(alpha=0.3, axis="x")
    return figure
