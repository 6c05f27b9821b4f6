"""Training windows: cut at random places of one session, and dealt to the places of a batch where there are several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..errors import DistributedError
from ..spikes.batch import SpikeBatch
from .distributed import ProcessGroup
from .session import Session


class WindowSampler:
    """Training windows at random places of the training part, some units hidden from each.

    A window begins anywhere, so the edges of its bins fall anywhere too; hiding units keeps the decoder from leaning
    on a few.

    Args:
        session: from `prepare`, or from `combine_sessions`.
        config: a `FitConfig`.

    Attributes:
        window_s: seconds of a window.
        n_windows: how many windows the training part would make, laid end to end.
        rng: what it draws from.
    """

    def __init__(self, session: Session, config):
        self._session, self._config = session, config
        # the first session has the numbers that it has alone
        self.rng = np.random.default_rng(config.seed if session.index == 1 else [config.seed, session.index])
        spans = session.segments("train")
        self._starts, lengths = spans[:, 0], spans[:, 1] - spans[:, 0]
        # nine of ten stretches shall hold a window; one that does not gets none, the others by their length
        self.window_s = min(config.window_s, float(np.quantile(lengths, 0.1, method="lower")))
        self._room = np.maximum(lengths - self.window_s, 0.0)
        self._share = np.where(lengths >= self.window_s, lengths, 0.0)
        self.n_windows = float(self._share.sum() / self.window_s)
        self._share = self._share / self._share.sum()

    def __call__(self, n: int, mine: slice = slice(None)) -> SpikeBatch:
        """Draw `n` windows and cut those that are mine; whoever cuts which, the draws are the same."""
        config, rng = self._config, self.rng
        stretch = rng.choice(len(self._starts), n, p=self._share)
        starts = self._starts[stretch] + rng.random(n) * self._room[stretch]
        hidden = rng.random((n, 1)) * config.unit_dropout
        shown = rng.random((n, self._session.recording.n_units)) >= hidden
        batch = self._session.cut(starts[mine], self.window_s, shown[mine])
        n_samples = batch.times_s.shape[1]
        return batch.with_samples(np.sort(rng.permutation(n_samples)[: config.samples]))


def sessions_of_slots(n_sessions: int, batch: int) -> list[np.ndarray]:
    """Which sessions, from 1, each of the `batch` places of a step takes its windows from.

    With fewer sessions than places a place keeps to one session, and sessions get equal numbers of places, give or
    take one. With more, each place has several sessions, of which every step takes one.
    """
    if n_sessions > batch:
        return [np.arange(place, n_sessions, batch) + 1 for place in range(batch)]
    return [np.array([session + 1]) for session in sorted(place % n_sessions for place in range(batch))]


def slots_of_rank(crew: ProcessGroup, batch: int) -> np.ndarray:
    """The places of a step that a process fills: neighbours, so that it needs few sessions.

    Raises:
        DistributedError: more processes than places.
    """
    if crew.size > batch:
        raise DistributedError(f"{crew.size} processes cannot share a batch of {batch} windows; start at most {batch}.")
    return np.array_split(np.arange(batch), crew.size)[crew.rank]


def sessions_of_rank(crew: ProcessGroup, n_sessions: int, batch: int) -> list[int]:
    """The sessions, from 1, that a process must have."""
    sessions = sessions_of_slots(n_sessions, batch)
    return sorted({int(s) for place in slots_of_rank(crew, batch) for s in sessions[place]})


class MultiSessionSampler:
    """The windows of a step that this process cuts, whichever sessions they are of.

    What is drawn depends on the seed and the sessions alone, not on the crew: any number of processes together make
    the same global batch.

    Args:
        sessions: those this process holds, each with its place in the model, see `combine_sessions`.
        config: a `FitConfig`.
        crew: this process among the others.

    Attributes:
        known: what the other processes must know of each session: index -> (mean, std, n_windows).
    """

    def __init__(self, sessions: Sequence[Session], config, crew: ProcessGroup):
        self._crew, self._samplers = crew, {s.index: WindowSampler(s, config) for s in sessions}
        self.known = crew.collect({s.index: (s.mean, s.std, self._samplers[s.index].n_windows) for s in sessions})
        self._of_place = sessions_of_slots(len(self.known), config.batch)
        self._places = slots_of_rank(crew, config.batch)
        self._choice = {p: np.random.default_rng([config.seed, 0, p]) for p in self._places}
        total = sum(n_windows for _, _, n_windows in self.known.values())
        self.steps_per_epoch = max(1, round(total / config.batch))

    def __call__(self) -> tuple[SpikeBatch, Tensor]:
        """Windows, and the session of each, (B,)."""
        pieces, sessions = [], []
        for session, n, mine in self._draws():
            piece = self._samplers[session](n, mine)
            pieces.append(piece)
            sessions += [session] * piece.n_trials
        return SpikeBatch.concatenate(pieces), torch.tensor(sessions)

    def state(self) -> dict[str, dict]:
        """Where the random generators of all processes stand, in numbers and text; every process must ask."""
        return self._crew.collect({name: rng.bit_generator.state for name, rng in self._generators().items()})

    def restore(self, state: dict[str, dict]):
        """Draw on from there. Raises ValueError, KeyError or TypeError for what is no state."""
        for name, rng in self._generators().items():
            rng.bit_generator.state = state[name]
            if rng.bit_generator.state != state[name]:  # older versions of NumPy take a negative number for another
                raise ValueError(f"{name}: no generator stands at {state[name]}.")

    def _generators(self) -> dict[str, np.random.Generator]:
        of_sessions = {f"session {n}": sampler.rng for n, sampler in self._samplers.items()}
        return of_sessions | {f"place {p}": rng for p, rng in self._choice.items()}

    def _draws(self):
        """(session, windows drawn of it, which of these are mine) for this step."""
        if len(self.known) > len(self._of_place):
            for place in self._places:
                sessions = self._of_place[place]
                weight = np.array([self.known[int(s)][2] for s in sessions])
                yield int(self._choice[place].choice(sessions, p=weight / weight.sum())), 1, slice(None)
            return
        session_at = np.concatenate(self._of_place)
        for session in np.unique(session_at[self._places]):
            first, n = np.searchsorted(session_at, session), int((session_at == session).sum())
            mine = self._places[session_at[self._places] == session] - first
            yield int(session), n, slice(int(mine[0]), int(mine[-1]) + 1)
