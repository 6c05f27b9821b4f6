"""R² against the number of trials: of a session with new units, and of the same units after five days of drift.

The sessions and decoders are those of chapter 16, and each way has the learning rate that was tuned there.
"""

import copy
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from tqdm import tqdm

from possm_lite.blocks.recurrent import GRU
from possm_lite.classroom.style import BLUE, GRAY, GREEN, ORANGE, PURPLE, SKY
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedDecoder
from possm_lite.spikes import simulate_session
from possm_lite.spikes.simulation.drift import drift_tuning
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.training import (
    FitConfig,
    Session,
    combine_sessions,
    evaluate,
    fit,
    for_new_session,
    freeze_backbone,
    prepare,
)
from possm_lite.training.baselines import fit_wiener

from .machine import SPAWN, threads
from .page import Item, Note, Plot, Table

A = SimulationConfig(n_units=40, n_trials=600, random_target_share=1.0, n_random_reaches=1)
B = replace(A, lag_s=0.13, common_turning_deg=-25.0, bend_deg=20.0)
NEW = replace(B, n_trials=200)
SPLIT = "chronological:70/3/27"
N_TRIALS, DAYS = (5, 10, 20, 40, 80, 140), 5
SLOTS = 5  # velocities per bin of 50 ms, one every 10 ms
EMBEDDINGS = ("unit_embedding.weight", "session_embedding.weight")
IDENTIFIED, TABLE, DAY_LAYER = "POSSM, units identified", "GRU with a table of units", "GRU, a layer of its own"
SCRATCH, TABLE_SCRATCH, WIENER = "POSSM, from scratch", "GRU with a table, from scratch", "Wiener filter"
STYLES = {
    IDENTIFIED: (ORANGE, "o-"),
    SCRATCH: (ORANGE, "o:"),
    TABLE: (BLUE, "s-"),
    TABLE_SCRATCH: (BLUE, "s:"),
    DAY_LAYER: (PURPLE, "^--"),
    WIENER: (GREEN, "x-."),
    "POSSM, untouched": (SKY, "o-"),
    "GRU, untouched": (GRAY, "s-"),
}


class TableGRU(BinnedDecoder):
    """A GRU on counts with a table of unit embeddings and one of sessions, as POSSM has them.

    x_t = day(sqrt(n_t)) E + e_s. `day` is the identity, or for a day of its own a layer that begins as the identity.
    """

    def __init__(self, n_units: int, n_sessions: int = 1, dim: int = 32, hidden: int = 128):
        super().__init__(n_units, n_slots=SLOTS)
        self.unit_embedding, self.session_embedding = nn.Embedding(1 + n_units, dim), nn.Embedding(1 + n_sessions, dim)
        for table in (self.unit_embedding, self.session_embedding):
            nn.init.normal_(table.weight, std=0.1)
        self.gru, self.readout = GRU(dim, hidden), nn.Linear(hidden, 2 * SLOTS)
        self.behavior_mean, self.behavior_std = torch.zeros(1 + n_sessions, 2), torch.ones(1 + n_sessions, 2)
        self.day: nn.Module = nn.Identity()

    def forward(self, batch, output_times_s: Tensor, session: Tensor) -> Tensor:
        self._session = session
        return super().forward(batch, output_times_s, session)

    def decode_counts(self, counts: Tensor) -> Tensor:
        x = self.day(counts) @ self.unit_embedding.weight[1:] + self.session_embedding(self._session)[:, None]
        return self.readout(self.gru(x)[0]).unflatten(-1, (SLOTS, 2))


def measure(short: bool = False) -> Iterator[Item]:
    n_seeds, n_trials = (1, N_TRIALS[:1]) if short else (5, N_TRIALS)
    with ProcessPoolExecutor(os.cpu_count() or 1, SPAWN) as pool:
        jobs = [(function, seed, n_trials, short) for seed in range(n_seeds) for function in (new_units, drifted_units)]
        done = (map if short else pool.map)(_on_one_thread, *zip(*jobs, strict=True))
        found = list(tqdm(done, total=len(jobs), unit="session", disable=None))
    panels = {}
    titles = ("A session with new units", f"The same units after {DAYS} days of drift")
    for title, seeds in zip(titles, (found[::2], found[1::2]), strict=True):
        ways = {way: np.array([r2[way] for r2 in seeds]) for way in seeds[0]}  # (seeds, trials)
        head = [f"R², mean of {n_seeds} seeds ± standard deviation", *(f"{n} trials" for n in n_trials)]
        yield Table(title, head, [[way, *map(_cell, r2.T)] for way, r2 in ways.items()])
        others = [way for way in ways if way != IDENTIFIED]
        rows = [[f"minus {way}", *(_cell(d, "+") for d in (ways[IDENTIFIED] - ways[way]).T)] for way in others]
        yield Table(f"{title}: {IDENTIFIED}, seed by seed", ["difference of R²", *head[1:]], rows)
        panels[title] = ways
    yield Note(
        "Simulated sessions of 40 units; a seed has its own three sessions of the past, new session, drift and first "
        "weights. 'Units identified': the embeddings alone learn, all other weights stay. For a GRU on counts a table "
        "of units is a linear map of the counts of that session, so with new units a day-specific layer in its place "
        "is the same. After drift the two differ: the table goes on learning, or a layer in front of it does, from the "
        "identity. From scratch has more than twice the steps. The number of steps does not depend on that of trials. "
        "The settings are those of chapter 16."
    )
    yield Plot("trials", "R² against the number of trials for each way, with new units and after drift", _plot(panels))


def _on_one_thread(function: Callable, *arguments) -> dict[str, list[float]]:
    with threads(1):
        return function(*arguments)


def new_units(seed: int, n_trials: tuple[int, ...], short: bool) -> dict[str, list[float]]:
    """R² of each way on the test part of a new session, by number of trials."""
    possm, table = _pasts(seed, short)
    new = _simulated(100 * seed + 4, NEW, short)
    ways: dict[str, Callable] = {
        IDENTIFIED: lambda some: _identified(possm, some, seed, _steps(100, short)),
        SCRATCH: lambda some: _from_scratch(POSSM(_sizes(new)), some, 4e-3, seed, short),
        TABLE: lambda some: _identified(table, some, seed, _steps(100, short)),
        TABLE_SCRATCH: lambda some: _from_scratch(TableGRU(new.recording.n_units), some, 8e-3, seed, short),
        WIENER: fit_wiener,
    }
    return _scores(ways, new, n_trials, seed)


def drifted_units(seed: int, n_trials: tuple[int, ...], short: bool) -> dict[str, list[float]]:
    """The same for a session whose units the decoders knew before they drifted."""
    pasts, config = _pasts(seed, short), _config(NEW, short)
    first = simulate_session(100 * seed + 4, config)
    known = prepare(first.recording, SPLIT)
    possm, table = (_identified(past, known, seed, _steps(120, short)) for past in pasts)
    units, rng = first.truth.units, np.random.default_rng(seed)
    for _ in range(DAYS):
        units = drift_tuning(units, rng, config=config)
    today = prepare(simulate_session(100 * seed + 5, config, units).recording, SPLIT)
    n_steps = _steps(50, short)

    def layer_of_the_day(some: Session) -> nn.Module:
        model = copy.deepcopy(table).requires_grad_(False)
        model.day = nn.Linear(n_units := some.recording.n_units, n_units)
        model.day.load_state_dict({"weight": torch.eye(n_units), "bias": torch.zeros(n_units)})
        return _train(model, some, n_steps, 1e-2, seed)

    ways: dict[str, Callable] = {
        IDENTIFIED: lambda some: _train(copy.deepcopy(possm), some, n_steps, 1e-2, seed),
        SCRATCH: lambda some: _from_scratch(POSSM(_sizes(today)), some, 4e-3, seed, short),
        TABLE: lambda some: _train(copy.deepcopy(table), some, n_steps, 1e-2, seed),
        DAY_LAYER: layer_of_the_day,
        TABLE_SCRATCH: lambda some: _from_scratch(TableGRU(today.recording.n_units), some, 8e-3, seed, short),
        WIENER: fit_wiener,
        "POSSM, untouched": lambda _: possm,
        "GRU, untouched": lambda _: table,
    }
    return _scores(ways, today, n_trials, seed)


def _scores(ways: dict[str, Callable], session: Session, n_trials: tuple[int, ...], seed: int) -> dict:
    found: dict[str, list[float]] = {way: [] for way in ways}
    for n in n_trials:
        some = session.first_trials(min(n, len(session.split.train)))
        for way, learn in ways.items():
            torch.manual_seed(seed)
            found[way].append(evaluate(learn(some), session).r2)
    return found


def _pasts(seed: int, short: bool) -> tuple[nn.Module, nn.Module]:
    """A POSSM and a GRU with a table, trained on three sessions of two subjects together."""
    sessions = [_simulated(100 * seed + i, config, short) for i, config in ((1, A), (2, A), (3, B))]
    n_units, steps = sum(s.recording.n_units for s in sessions), _steps(290, short)
    torch.manual_seed(seed)
    models = POSSM(replace(_sizes(sessions[0]), n_units=n_units, n_sessions=3)), TableGRU(n_units, 3)
    rates = 4e-3, 8e-3
    old = combine_sessions(sessions)
    return tuple(_train(m, old, steps, lr, seed, window_s=2.0) for m, lr in zip(models, rates, strict=True))


def _identified(past: nn.Module, session: Session, seed: int, steps: int) -> nn.Module:
    """The decoder with fresh embeddings, which alone learn."""
    n_units = session.recording.n_units
    torch.manual_seed(seed)
    if isinstance(past, POSSM):
        model = for_new_session(past, n_units)
    else:
        model = TableGRU(n_units)
        own = (*EMBEDDINGS, "behavior_mean", "behavior_std")
        model.load_state_dict(past.state_dict() | {name: model.state_dict()[name] for name in own})
    return _train(freeze_backbone(model), session, steps, 1e-2, seed)


def _from_scratch(model: nn.Module, session: Session, lr: float, seed: int, short: bool) -> nn.Module:
    return _train(model, session, _steps(240, short), lr, seed)


def _train(model: nn.Module, sessions, steps: int, lr: float, seed: int, window_s: float = 1.0) -> nn.Module:
    """Fit in place, for about so many steps of eight windows."""
    listed = sessions if isinstance(sessions, list) else [sessions]
    seconds = sum(np.diff(s.segments("train")).sum() for s in listed)
    epochs = math.ceil(steps / max(1, round(seconds / window_s / 8)))
    config = FitConfig(epochs, window_s, 8, samples=20, lr=lr, unit_dropout=0.3, validations=0, seed=seed)
    fit(model, sessions, config, progress=False)
    return model


def _simulated(seed: int, config: SimulationConfig, short: bool) -> Session:
    return prepare(simulate_session(seed, _config(config, short)).recording, SPLIT)


def _config(config: SimulationConfig, short: bool) -> SimulationConfig:
    return replace(config, n_trials=20, n_units=6) if short else config


def _sizes(session: Session) -> POSSMConfig:
    return POSSMConfig(session.recording.n_units, dim=32, head_dim=24, n_freqs=8, hidden=128)


def _steps(n: int, short: bool) -> int:
    return 2 if short else n


def _cell(r2: np.ndarray, sign: str = "") -> str:
    return f"{r2.mean():{sign}.3f}" + (f" ± {r2.std(ddof=1):.3f}" if len(r2) > 1 else "")


def _plot(panels: dict[str, dict[str, np.ndarray]]) -> Figure:
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    handles = {}
    for axes, (title, ways) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        for way, r2 in ways.items():
            color, style = STYLES[way]
            n = N_TRIALS[: r2.shape[1]]
            (handles[way],) = axes.plot(n, r2.mean(0), style, color=color, mfc="none", lw=1.6, ms=5, label=way)
        axes.set_xscale("log")
        axes.set_xticks(N_TRIALS, N_TRIALS)
        axes.minorticks_off()
        axes.set(xlabel="trials to learn from", title=title, ylim=(0, None))
    figure.axes[0].set_ylabel("R² on the test trials")
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=4, fontsize=9)
    return figure
