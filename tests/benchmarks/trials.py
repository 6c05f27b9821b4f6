"""R² against the number of trials: of a session with new units, and of the same units after five days of drift.

The sessions and decoders are those of chapter 16, and each way has the learning rate that was tuned there.
"""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from possm_lite.course.load import load_figures
from possm_lite.course.parallel import in_parallel
from possm_lite.course.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, SKY
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedDecoder
from possm_lite.nn.recurrent import GRU
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.simulate.session import SimulatedSession
from possm_lite.training import FitConfig, Session, evaluate, fit, prepare
from possm_lite.training.linear import fit_wiener
from possm_lite.training.transfer import ADAPTATION, adapt, combine_sessions, for_new_session, freeze_backbone

from .page import ROOT, Item, Note, Plot, Table, with_spread

drift_tuning = load_figures("16_new_sessions", ROOT / "notebooks").drift_tuning

A = SimulationConfig(n_units=40, n_trials=600, random_target_share=1.0, n_random_reaches=1)
B = replace(A, lag_s=0.13, common_turning_deg=-25.0, bend_deg=20.0)
NEW = replace(B, n_trials=200)
SPLIT = "chronological:70/3/27"
N_TRIALS, DAYS = (5, 10, 20, 40, 80, 140), 5
SLOTS = 5  # velocities per bin of 50 ms, one every 10 ms
EMBEDDINGS = ("unit_embedding.weight", "session_embedding.weight")
IDENTIFIED, TABLE, DAY_LAYER = "POSSM, units identified", "GRU with a table of units", "GRU, a layer of its own"
SCRATCH, TABLE_SCRATCH, WIENER = "POSSM, from scratch", "GRU with a table, from scratch", "Wiener filter"
UNTOUCHED, TABLE_UNTOUCHED, ADAPTED = "POSSM, untouched", "GRU, untouched", "POSSM, adapt"
STYLES = {
    IDENTIFIED: (ORANGE, "o-"),
    SCRATCH: (ORANGE, "o:"),
    TABLE: (BLUE, "s-"),
    TABLE_SCRATCH: (BLUE, "s:"),
    DAY_LAYER: (PURPLE, "^--"),
    WIENER: (GREEN, "x-."),
    UNTOUCHED: (SKY, "o-"),
    TABLE_UNTOUCHED: (GRAY, "s-"),
    ADAPTED: (INK, "d-"),
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

    def add_day_layer(self) -> "TableGRU":
        """Make a layer in front of the table, which begins as the identity, all that learns; in place."""
        n_units = len(self.unit_embedding.weight) - 1
        self.requires_grad_(False).day = nn.Linear(n_units, n_units)
        self.day.load_state_dict({"weight": torch.eye(n_units), "bias": torch.zeros(n_units)})
        return self

    def forward(self, batch, output_times_s: Tensor, session: Tensor) -> Tensor:
        self._session = session
        return super().forward(batch, output_times_s, session)

    def decode_counts(self, counts: Tensor) -> Tensor:
        x = self.day(counts) @ self.unit_embedding.weight[1:] + self.session_embedding(self._session)[:, None]
        return self.readout(self.gru(x)[0]).unflatten(-1, (SLOTS, 2))


def measure(short: bool = False) -> Iterator[Item]:
    n_seeds, n_trials = (1, N_TRIALS[:1]) if short else (5, N_TRIALS)
    calls = [(drifted, seed, n_trials, short) for drifted in (False, True) for seed in range(n_seeds)]
    found = in_parallel(r2_of_all_ways, calls)
    panels = {}
    titles = ("A session with new units", f"The same units after {DAYS} days of drift")
    for title, seeds in zip(titles, (found[:n_seeds], found[n_seeds:]), strict=True):
        ways = {way: np.array([r2[way] for r2 in seeds]) for way in seeds[0]}  # (seeds, trials)
        head = [f"R², mean of {n_seeds} seeds ± standard deviation", *(f"{n} trials" for n in n_trials)]
        yield Table(title, head, [[way, *map(with_spread, r2.T)] for way, r2 in ways.items()])
        others = [way for way in ways if way != IDENTIFIED]
        rows = [[f"minus {way}", *(with_spread(d, "+") for d in (ways[IDENTIFIED] - ways[way]).T)] for way in others]
        yield Table(f"{title}: {IDENTIFIED}, seed by seed", ["difference of R²", *head[1:]], rows)
        panels[title] = ways
    yield Note(
        "Simulated sessions of 40 units; a seed has its own three sessions of the past, new session, drift and first "
        "weights. 'Units identified': the embeddings alone learn, all other weights stay. `adapt` is what `--from` "
        "does, with its defaults. For a GRU on counts a table of units is a linear map of the counts of that session, "
        "so with new units a day-specific layer in its place is the same. After drift the two differ: the table goes "
        "on learning, or a layer in front of it does, from the identity. From scratch has more than twice the steps. "
        "The number of steps does not depend on that of trials. The settings are those of chapter 16."
    )
    yield Plot("trials", "R² against the number of trials for each way, with new units and after drift", _plot(panels))


def r2_of_all_ways(drifted: bool, seed: int, n_trials: tuple[int, ...], short: bool) -> dict[str, list[float]]:
    """R² of each way on the test part of a new session, or after drift of one that is known, by number of trials."""
    study = Study(seed, short)
    session, ways = study.after_drift() if drifted else study.new_units()
    found: dict[str, list[float]] = {way: [] for way in ways}
    for n in n_trials:
        some = session.first_trials(min(n, len(session.split.train)))
        for way, learn in ways.items():
            torch.manual_seed(seed)
            found[way].append(evaluate(learn(some), session).r2)
    return found


@dataclass(frozen=True)
class Study:
    """One seed: its sessions and decoders. A short one only tests that it runs."""

    seed: int
    short: bool

    def new_units(self) -> tuple[Session, dict[str, Callable]]:
        """A session with new units, and the ways to a decoder from some of its trials."""
        possm, table = self.pasts()
        session = prepare(self.simulate(4, NEW).recording, SPLIT)
        defaults = replace(ADAPTATION, seed=self.seed)
        settings = (replace(defaults, epochs=1), 2) if self.short else (defaults,)
        ways = {
            IDENTIFIED: lambda some: self.identify(possm, some, steps=100),
            TABLE: lambda some: self.identify(table, some, steps=100),
            ADAPTED: lambda some: adapt(possm, some, *settings, progress=False)[0],
        }
        return session, ways | self.from_scratch()

    def after_drift(self) -> tuple[Session, dict[str, Callable]]:
        """The same for a session whose units the decoders knew before they drifted."""
        pasts = self.pasts()
        first = self.simulate(4, NEW)
        known = prepare(first.recording, SPLIT)
        possm, table = (self.identify(past, known, steps=120) for past in pasts)
        units, rng = first.truth.units, np.random.default_rng(self.seed)
        for _ in range(DAYS):
            units = drift_tuning(units, rng, config=first.truth.config)
        session = prepare(self.simulate(5, NEW, units).recording, SPLIT)
        ways = {
            IDENTIFIED: lambda some: self.train(copy.deepcopy(possm), some, 50, 1e-2),
            TABLE: lambda some: self.train(copy.deepcopy(table), some, 50, 1e-2),
            DAY_LAYER: lambda some: self.train(copy.deepcopy(table).add_day_layer(), some, 50, 1e-2),
            UNTOUCHED: lambda _: possm,
            TABLE_UNTOUCHED: lambda _: table,
        }
        return session, ways | self.from_scratch()

    def from_scratch(self) -> dict[str, Callable]:
        return {
            SCRATCH: lambda some: self.train(POSSM(_sizes(some)), some, 240, 4e-3),
            TABLE_SCRATCH: lambda some: self.train(TableGRU(some.recording.n_units), some, 240, 8e-3),
            WIENER: fit_wiener,
        }

    def pasts(self) -> tuple[nn.Module, nn.Module]:
        """A POSSM and a GRU with a table, trained on three sessions of two subjects together."""
        sessions = [prepare(self.simulate(i, config).recording, SPLIT) for i, config in ((1, A), (2, A), (3, B))]
        n_units = sum(s.recording.n_units for s in sessions)
        torch.manual_seed(self.seed)
        possm = POSSM(replace(_sizes(sessions[0]), n_units=n_units, n_sessions=3))
        table = TableGRU(n_units, 3)
        old = combine_sessions(sessions)
        return tuple(self.train(m, old, 290, lr, window_s=2.0) for m, lr in ((possm, 4e-3), (table, 8e-3)))

    def identify(self, past: nn.Module, session: Session, steps: int) -> nn.Module:
        """The decoder with fresh embeddings, which alone learn."""
        n_units = session.recording.n_units
        torch.manual_seed(self.seed)
        if isinstance(past, POSSM):
            model = for_new_session(past, n_units)
        else:
            model = TableGRU(n_units)
            own = {name: model.state_dict()[name] for name in (*EMBEDDINGS, "behavior_mean", "behavior_std")}
            model.load_state_dict(past.state_dict() | own)
        return self.train(freeze_backbone(model), session, steps, 1e-2)

    def train(self, model: nn.Module, sessions, steps: int, lr: float, window_s: float = 1.0) -> nn.Module:
        """Fit in place, for about so many steps of eight windows."""
        listed = sessions if isinstance(sessions, list) else [sessions]
        seconds = sum(np.diff(s.segments("train")).sum() for s in listed)
        epochs = math.ceil((2 if self.short else steps) / max(1, round(seconds / window_s / 8)))
        config = FitConfig(epochs, window_s, 8, samples=20, lr=lr, unit_dropout=0.3, validations=0, seed=self.seed)
        fit(model, sessions, config, progress=False)
        return model

    def simulate(self, number: int, config: SimulationConfig, units=None) -> SimulatedSession:
        config = replace(config, n_trials=20, n_units=6) if self.short else config
        return simulate_session(100 * self.seed + number, config, units)


def _sizes(session: Session) -> POSSMConfig:
    return POSSMConfig(session.recording.n_units, dim=32, head_dim=24, n_freqs=8, hidden=128)


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
