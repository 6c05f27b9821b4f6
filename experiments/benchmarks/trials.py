"""R² against the number of trials: of a session with new units, and of the same units after five days of drift.

The sessions and decoders are those of chapter 16, and each way has the learning rate that was tuned there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from possm_course.chapters.ch16 import study as chapter
from possm_course.parallel import in_parallel
from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, SKY
from possm_lite.decoder import POSSM
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.simulate.session import SimulatedSession
from possm_lite.training import Session, evaluate, prepare
from possm_lite.training.linear import fit_wiener
from possm_lite.training.transfer import ADAPTATION, adapt, combine_sessions

from .page import Item, Note, Plot, Table, with_spread

N_TRIALS, DAYS = (5, 10, 20, 40, 80, 140), 5
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


def measure(short: bool = False) -> Iterator[Item]:
    """The items of the section; `short`: one seed, five trials, two steps of each training."""
    n_seeds, n_trials = (1, N_TRIALS[:1]) if short else (5, N_TRIALS)
    calls = [(drifted, seed, n_trials, short) for drifted in (False, True) for seed in range(n_seeds)]
    found = in_parallel(r2_of_all_ways, calls)
    panels = {
        "A session with new units": by_way(found[:n_seeds]),
        f"The same units after {DAYS} days of drift": by_way(found[n_seeds:]),
    }
    columns = [f"{n} trials" for n in n_trials]
    for title, ways in panels.items():
        head = [f"R², mean of {n_seeds} seeds ± standard deviation", *columns]
        yield Table(title, head, [[way, *map(with_spread, r2.T)] for way, r2 in ways.items()])
        rows = []
        for way in ways:
            if way != IDENTIFIED:
                difference = ways[IDENTIFIED] - ways[way]  # (seeds, trials)
                rows.append([f"minus {way}", *(with_spread(each, "+") for each in difference.T)])
        yield Table(f"{title}: {IDENTIFIED}, seed by seed", ["difference of R²", *columns], rows)
    yield Note(
        "Simulated sessions of 40 units; a seed has its own three sessions of the past, new session, drift and first "
        "weights. 'Units identified': the embeddings alone learn, all other weights stay. `adapt` is what `--from` "
        "does, with its defaults. For a GRU on counts a table of units is a linear map of the counts of that session, "
        "so with new units a day-specific layer in its place is the same. After drift the two differ: the table goes "
        "on learning, or a layer in front of it does, from the identity. From scratch has more than twice the steps. "
        "The number of steps does not depend on that of trials. The settings are those of chapter 16."
    )
    yield Plot("trials", "R² against the number of trials for each way, with new units and after drift", _plot(panels))


def by_way(seeds: list[dict[str, list[float]]]) -> dict[str, np.ndarray]:
    """R² of each way, (seeds, trials), from what `r2_of_all_ways` found of each seed."""
    return {way: np.array([r2[way] for r2 in seeds]) for way in seeds[0]}


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
    """One seed: its sessions and decoders.

    Attributes:
        seed: of sessions, drift and first weights.
        short: it only tests that it runs: small sessions, two steps of each training.
    """

    seed: int
    short: bool

    def new_units(self) -> tuple[Session, dict[str, Callable]]:
        """A session with new units, and the ways to a decoder from some of its trials."""
        possm, table = self.pasts()
        session = prepare(self.simulate(4, chapter.NEW).recording, chapter.SPLIT)
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
        first = self.simulate(4, chapter.NEW)
        known = prepare(first.recording, chapter.SPLIT)
        possm, table = (self.identify(past, known, steps=120) for past in pasts)
        units = chapter.drifted(first.truth.units, DAYS, self.seed)
        session = prepare(self.simulate(5, chapter.NEW, units).recording, chapter.SPLIT)
        ways = {
            IDENTIFIED: lambda some: chapter.old_table(possm, some, self.steps(50), self.seed),
            TABLE: lambda some: chapter.old_table(table, some, self.steps(50), self.seed),
            DAY_LAYER: lambda some: chapter.day_layer(table, some, self.steps(50), self.seed),
            UNTOUCHED: lambda _: possm,
            TABLE_UNTOUCHED: lambda _: table,
        }
        return session, ways | self.from_scratch()

    def from_scratch(self) -> dict[str, Callable]:
        """The ways that know no other session."""
        return {
            SCRATCH: lambda some: chapter.from_scratch(POSSM, some, self.steps(240), self.seed),
            TABLE_SCRATCH: lambda some: chapter.from_scratch(chapter.CountGRU, some, self.steps(240), self.seed),
            WIENER: fit_wiener,
        }

    def pasts(self) -> tuple[nn.Module, nn.Module]:
        """A POSSM and a GRU with a table, trained on three sessions of two subjects together."""
        simulated = [
            self.simulate(number, config) for number, config in ((1, chapter.A), (2, chapter.A), (3, chapter.B))
        ]
        old = combine_sessions([prepare(s.recording, chapter.SPLIT) for s in simulated])
        possm = chapter.pretrained(POSSM, old, self.steps(290), self.seed)
        table = chapter.pretrained(chapter.CountGRU, old, self.steps(290), self.seed)
        return possm, table

    def identify(self, past: nn.Module, session: Session, steps: int) -> nn.Module:
        """The decoder with fresh embeddings, which alone learn."""
        return chapter.identify(past, session, self.steps(steps), self.seed)

    def steps(self, n: int) -> int:
        """The steps of a training of `n`."""
        return 2 if self.short else n

    def simulate(self, number: int, config: SimulationConfig, units=None) -> SimulatedSession:
        """Session `number` of this seed; `units`: their tuning, drawn anew where it is None."""
        if self.short:
            config = replace(config, n_trials=20, n_units=6)
        return simulate_session(100 * self.seed + number, config, units)


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
