"""R² on a new session: `adapt` with its defaults against single trainings of embeddings or of all weights."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from possm_lite.course.parallel import in_parallel
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.training import FitConfig, Session, adapt, evaluate, fit, for_new_session, freeze_backbone, prepare
from possm_lite.training.transfer import ADAPTATION

from .page import Item, Note, Row, Table

# cosine tuning alone and slow single reaches: R² near 0.9, so that a training that got stuck is seen at once
TASK = {"n_trials": 168, "random_target_share": 1.0, "n_random_reaches": 1, "reach_base_s": 0.25}
UNITS = {"n_units": 40, "baseline_hz": 10.0, "saturation_hz": 80.0, "depth": 1.2, "reference_speed_mm_s": 200.0}
NONE = ("untuned_share", "turning_deg", "common_turning_deg", "position_gain", "common_gain", "shared_gain")
SESSION = SimulationConfig(**TASK, **UNITS, **dict.fromkeys(NONE, 0.0))
SPLIT = "chronological:50/10/40"  # 84 training trials, and many to test on
LARGEST_LOSS = 0.03
ADAPT = "adapt"
# a single training with the defaults of `fit` but the learning rate; True: embeddings alone
SINGLE = {
    "embeddings, lr 0.002": (True, 2e-3),
    "embeddings, lr 0.01": (True, 1e-2),
    "all weights, lr 0.002": (False, 2e-3),
    "all weights, lr 0.0005": (False, 5e-4),
}


def measure(short: bool = False) -> Iterator[Item]:
    n_sessions, n_seeds, n_trials = (1, 1, [4]) if short else (3, 6, [28, 84])
    runs = [(session, seed) for session in range(1, n_sessions + 1) for seed in range(n_seeds)]
    calls = [(n, session, seed, way, short) for session, seed in runs for way in [ADAPT, *SINGLE] for n in n_trials]
    r2 = dict(zip(calls, in_parallel(r2_of, calls), strict=True))
    for n in n_trials:
        by_way = {way: np.array([r2[(n, *run, way, short)] for run in runs]) for way in [ADAPT, *SINGLE]}
        loss = np.max(list(by_way.values()), axis=0) - by_way[ADAPT]
        yield limit(n, loss)
        yield Note(f"{n} trials, R² of each run of `adapt`: {', '.join(f'{r:.3f}' for r in by_way[ADAPT])}.")
        rows = [[way, f"{r.mean():.3f}", f"{r.min():.3f}", f"{r.max():.3f}"] for way, r in by_way.items()]
        yield Table(f"A new session with {n} training trials", ["", "mean R²", "lowest", "highest"], rows)
    yield Note(
        f"{len(runs)} runs: {n_sessions} pairs of simulated sessions of {SESSION.n_units} units each, the first to "
        f"train a decoder, the second new to it, and {n_seeds} seeds of new embeddings and windows."
    )


def limit(n_trials: int, loss: np.ndarray) -> Row:
    """`loss`: R² of the best way in each run minus that of `adapt`, (runs,)."""
    close = int((loss <= LARGEST_LOSS).sum())
    what = f"{n_trials} training trials, runs of `adapt` within {LARGEST_LOSS} of the best"
    return Row(what, f"{close} of {len(loss)}", f"{len(loss)} of {len(loss)}", close == len(loss))


def r2_of(n_trials: int, session: int, seed: int, way: str, short: bool) -> float:
    """Test R² after training the decoder of one session on the first trials of another."""
    new = _simulated(100 + session, short).first_trials(n_trials)
    model = _trained(session, short)
    if way == ADAPT:
        config = replace(ADAPTATION, seed=seed)
        settings = (replace(config, epochs=1), 2) if short else (config,)
        return evaluate(adapt(model, new, *settings, progress=False)[0], new).r2
    frozen, lr = SINGLE[way]
    torch.manual_seed(seed)
    copy = for_new_session(model, new.recording.n_units)
    fit(freeze_backbone(copy) if frozen else copy, new, FitConfig(_epochs(short), lr=lr, seed=seed), progress=False)
    return evaluate(copy, new).r2


def _epochs(short: bool) -> int:
    return 1 if short else FitConfig.epochs


@cache
def _simulated(seed: int, short: bool) -> Session:
    config = replace(SESSION, n_trials=10, n_units=8) if short else SESSION
    return prepare(simulate_session(seed, config).recording, SPLIT)


@cache
def _trained(session: int, short: bool) -> POSSM:
    old = _simulated(session, short)
    torch.manual_seed(session)
    model = POSSM(POSSMConfig(old.recording.n_units))
    fit(model, old, FitConfig(_epochs(short), validations=0), progress=False)
    return model
