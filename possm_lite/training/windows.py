"""Training windows: cut at random from one session, or from several for the slots of a batch."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..errors import DistributedError
from ..recordings.batch import SpikeBatch
from .distributed import ProcessGroup
from .session import Session

_JITTER_S = 0.5  # of the start of a window around that of a trial


class WindowSampler:
    """Training windows at random positions of the training part, each with some units hidden.

    Where there is one label a trial, a window begins up to half a second before or after a trial
    does; its samples are those up to the stop of this trial, with the end of one before. Windows
    that all begin with their trials are soon known by heart, by when their first spikes come: with
    700 trials of eight targets POSSM then decodes 0.17 of the test trials rightly at their ends,
    with such shifts 0.83, as a GRU does.

    Args:
        session: the session that windows are cut from.
        config: a `FitConfig`, of which `window_s`, `samples`, `unit_dropout` and `seed` count.

    Attributes:
        window_s: length of a window, seconds.
        n_windows: number of windows in the training part, laid end to end; not a whole number.
        rng: generator of all draws.
    """

    def __init__(self, session: Session, config):
        self._session = session
        self._config = config
        # the first session of several gets the windows that it gets alone
        seed = config.seed if session.index == 1 else [config.seed, session.index]
        self.rng = np.random.default_rng(seed)
        segments = session.segments("train")
        self._starts = segments[:, 0]
        lengths = segments[:, 1] - segments[:, 0]
        # segments with nine tenths of the time must hold a window; shorter ones get none, the
        # others in proportion
        longest_first = np.sort(lengths)[::-1]
        enough = np.searchsorted(np.cumsum(longest_first), 0.9 * lengths.sum())
        self.window_s = min(config.window_s, float(longest_first[enough]))
        self._lengths = None
        if session.recording.trial_labels is not None:
            self._lengths = lengths
            self.window_s = min(config.window_s, float(longest_first[0]) + _JITTER_S)
            lengths = np.full(len(lengths), self.window_s)
        self._slack = lengths - self.window_s  # where it is negative no window is drawn
        usable = np.where(lengths >= self.window_s, lengths, 0.0)
        self.n_windows = float(usable.sum() / self.window_s)
        self._probability = usable / usable.sum()

    def __call__(self, n: int, local: slice | np.ndarray = slice(None)) -> SpikeBatch:
        """Draws windows, the same in every process, and cuts some of them.

        Args:
            n: number of windows to draw.
            local: which of them are cut, an index of n windows; by default all.

        Returns:
            The windows that were cut, with `samples` behaviour samples each, at most.
        """
        config = self._config
        rng = self.rng
        segment = rng.choice(len(self._starts), n, p=self._probability)
        starts = self._starts[segment] + rng.random(n) * self._slack[segment]
        if self._lengths is not None:
            shift = (2 * rng.random(n) - 1) * _JITTER_S
            starts += shift
        hidden_share = rng.random((n, 1)) * config.unit_dropout
        shown = rng.random((n, self._session.recording.n_units)) >= hidden_share  # (n, U)
        batch = self._session.cut(starts[local], self.window_s, shown[local])
        if self._lengths is not None:
            stop = torch.from_numpy(self._lengths[segment] - shift)[local][:, None]
            batch = replace(batch, mask=batch.mask & (batch.times_s < stop - 1e-6))
        n_samples = batch.times_s.shape[1]
        samples = rng.permutation(n_samples)[: config.samples]
        return batch.with_samples(np.sort(samples))


def sessions_of_slots(n_sessions: int, batch: int) -> list[np.ndarray]:
    """The sessions that each slot of a step takes its windows from.

    With at most as many sessions as slots, a slot has one. With more, every step takes one of the
    several of a slot.

    Args:
        n_sessions: number of sessions, S.
        batch: number of slots, the windows in a step.

    Returns:
        For each of the `batch` slots, indices of sessions from 1.
    """
    if n_sessions > batch:
        return [np.arange(slot, n_sessions, batch) + 1 for slot in range(batch)]
    session_of_slot = sorted(slot % n_sessions for slot in range(batch))
    return [np.array([session + 1]) for session in session_of_slot]


def slots_of_rank(group: ProcessGroup, batch: int) -> np.ndarray:
    """The slots of a step that a process fills: neighbours, for few sessions.

    Args:
        group: the process.
        batch: number of slots, the windows in a step.

    Returns:
        Slots, from 0.

    Raises:
        DistributedError: there are more processes than slots.
    """
    if group.size > batch:
        raise DistributedError(
            f"{group.size} processes cannot share a batch of {batch} windows: start fewer."
        )
    return np.array_split(np.arange(batch), group.size)[group.rank]


def sessions_of_rank(group: ProcessGroup, n_sessions: int, batch: int) -> list[int]:
    """The sessions that a process must load.

    Args:
        group: the process.
        n_sessions: number of sessions, S.
        batch: number of slots, the windows in a step.

    Returns:
        Indices of sessions, from 1, rising.

    Raises:
        DistributedError: there are more processes than slots.
    """
    sessions = sessions_of_slots(n_sessions, batch)
    own = [sessions[slot] for slot in slots_of_rank(group, batch)]
    return np.unique(np.concatenate(own)).tolist()


class MultiSessionSampler:
    """The windows of a step that this process cuts.

    Draws depend on the seed and the sessions alone: any number of processes together make the same
    global batch.

    Args:
        sessions: those of this process, of `combine_sessions`.
        config: a `FitConfig`.
        group: the processes of the training.

    Attributes:
        stats: mean (C,), standard deviation (C,) and `n_windows` of the sessions of all processes,
            by index.
        steps_per_epoch: steps in which as many windows are drawn as all sessions hold.
    """

    def __init__(self, sessions: Sequence[Session], config, group: ProcessGroup):
        self._group = group
        self._samplers = {s.index: WindowSampler(s, config) for s in sessions}
        self.stats = group.all_gather(
            {s.index: (s.mean, s.std, self._samplers[s.index].n_windows) for s in sessions}
        )
        self._sessions_of_slot = sessions_of_slots(len(self.stats), config.batch)
        self._slots = slots_of_rank(group, config.batch)
        of_sessions = {f"session {n}": sampler.rng for n, sampler in self._samplers.items()}
        of_slots = {
            f"slot {slot}": np.random.default_rng([config.seed, 0, slot]) for slot in self._slots
        }
        self._rngs = of_sessions | of_slots
        n_windows = sum(n for _, _, n in self.stats.values())
        self.steps_per_epoch = max(1, round(n_windows / config.batch))

    def __call__(self) -> tuple[SpikeBatch, Tensor]:
        """Windows, and the session index of each, (B,)."""
        session_of_slot = self._draw_sessions()
        own = session_of_slot[self._slots].tolist()
        batches = []
        for session in dict.fromkeys(own):
            slots = np.flatnonzero(session_of_slot == session)  # of all processes
            is_own = np.isin(slots, self._slots)
            batches.append(self._samplers[session](len(slots), is_own))
        return SpikeBatch.concatenate(batches), torch.tensor(own)

    def _draw_sessions(self) -> np.ndarray:
        """The session of each slot of a step, (batch,); of slots of other processes the first."""
        session_of_slot = np.array([sessions[0] for sessions in self._sessions_of_slot])
        for slot in self._slots:
            sessions = self._sessions_of_slot[slot]
            if len(sessions) > 1:  # then no session is in two slots
                n_windows = np.array([self.stats[s][2] for s in sessions])
                rng = self._rngs[f"slot {slot}"]
                session_of_slot[slot] = rng.choice(sessions, p=n_windows / n_windows.sum())
        return session_of_slot

    def state_dict(self) -> dict[str, dict]:
        """States of the random generators of all processes. Collective."""
        return self._group.all_gather(
            {name: rng.bit_generator.state for name, rng in self._rngs.items()}
        )

    def load_state_dict(self, state: dict[str, dict]):
        """Set the random generators of this process to their states in `state`, by name."""
        for name, rng in self._rngs.items():
            rng.bit_generator.state = state[name]
