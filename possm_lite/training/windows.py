"""Training windows: cut at random from one session, or dealt to the slots of a batch from several."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..errors import DistributedError
from ..recordings.batch import SpikeBatch
from .distributed import ProcessGroup
from .session import Session


class WindowSampler:
    """Training windows at random positions of the training part, each with some units hidden.

    `config` is a `FitConfig`; `n_windows` is the number of windows in the training part, laid end to end.
    """

    def __init__(self, session: Session, config):
        self._session = session
        self._config = config
        # the first session of several gets the windows that it gets alone
        self.rng = np.random.default_rng(
            config.seed if session.index == 1 else [config.seed, session.index]
        )
        segments = session.segments("train")
        self._starts = segments[:, 0]
        lengths = segments[:, 1] - segments[:, 0]
        # segments with nine tenths of the time must hold a window; shorter ones get none, the others in proportion
        longest_first = np.sort(lengths)[::-1]
        enough = np.searchsorted(np.cumsum(longest_first), 0.9 * lengths.sum())
        self.window_s = min(config.window_s, float(longest_first[enough]))
        self._slack = lengths - self.window_s  # where it is negative no window is drawn
        usable = np.where(lengths >= self.window_s, lengths, 0.0)
        self.n_windows = float(usable.sum() / self.window_s)
        self._probability = usable / usable.sum()

    def __call__(self, n: int, local: slice | np.ndarray = slice(None)) -> SpikeBatch:
        """Draws n windows, the same in every process, and cuts those that `local` selects."""
        config, rng = self._config, self.rng
        segment = rng.choice(len(self._starts), n, p=self._probability)
        starts = self._starts[segment] + rng.random(n) * self._slack[segment]
        hidden_share = rng.random((n, 1)) * config.unit_dropout
        shown = rng.random((n, self._session.recording.n_units)) >= hidden_share
        batch = self._session.cut(starts[local], self.window_s, shown[local])
        n_samples = batch.times_s.shape[1]
        return batch.with_samples(np.sort(rng.permutation(n_samples)[: config.samples]))


def sessions_of_slots(n_sessions: int, batch: int) -> list[np.ndarray]:
    """Sessions, from 1, that each of the `batch` slots of a step takes its windows from.

    With at most as many sessions as slots, a slot has one. With more, every step takes one of the several of a slot.
    """
    if n_sessions > batch:
        return [np.arange(slot, n_sessions, batch) + 1 for slot in range(batch)]
    return [
        np.array([session + 1]) for session in sorted(slot % n_sessions for slot in range(batch))
    ]


def slots_of_rank(group: ProcessGroup, batch: int) -> np.ndarray:
    """The slots of a step that a process fills: neighbours, for few sessions. DistributedError if it gets none."""
    if group.size > batch:
        raise DistributedError(
            f"{group.size} processes cannot share a batch of {batch} windows: start fewer."
        )
    return np.array_split(np.arange(batch), group.size)[group.rank]


def sessions_of_rank(group: ProcessGroup, n_sessions: int, batch: int) -> list[int]:
    """The sessions, from 1, that a process must load."""
    sessions = sessions_of_slots(n_sessions, batch)
    return sorted({int(s) for slot in slots_of_rank(group, batch) for s in sessions[slot]})


class MultiSessionSampler:
    """The windows of a step that this process cuts, from its `sessions`, those of `combine_sessions`.

    Draws depend on the seed and the sessions alone: any number of processes together make the same global batch.
    `stats` has the (mean, std, n_windows) of the sessions of all processes, by index.
    """

    def __init__(self, sessions: Sequence[Session], config, group: ProcessGroup):
        self._group = group
        self._samplers = {s.index: WindowSampler(s, config) for s in sessions}
        self.stats = group.all_gather(
            {s.index: (s.mean, s.std, self._samplers[s.index].n_windows) for s in sessions}
        )
        self._sessions_of_slot = sessions_of_slots(len(self.stats), config.batch)
        self._slots = slots_of_rank(group, config.batch)
        self._rngs = {f"session {n}": sampler.rng for n, sampler in self._samplers.items()}
        self._rngs |= {
            f"slot {slot}": np.random.default_rng([config.seed, 0, slot]) for slot in self._slots
        }
        self.steps_per_epoch = max(
            1, round(sum(n for _, _, n in self.stats.values()) / config.batch)
        )

    def __call__(self) -> tuple[SpikeBatch, Tensor]:
        """Windows, and the session index of each, (B,)."""
        session_of_slot = np.array([sessions[0] for sessions in self._sessions_of_slot])
        for slot in self._slots:
            sessions = self._sessions_of_slot[slot]
            if len(sessions) > 1:  # then no session is in two slots
                n_windows = np.array([self.stats[s][2] for s in sessions])
                session_of_slot[slot] = self._rngs[f"slot {slot}"].choice(
                    sessions, p=n_windows / n_windows.sum()
                )
        own = session_of_slot[self._slots].tolist()
        batches = []
        for session in dict.fromkeys(own):
            slots = np.flatnonzero(session_of_slot == session)  # of all processes
            batches.append(self._samplers[session](len(slots), np.isin(slots, self._slots)))
        return SpikeBatch.concatenate(batches), torch.tensor(own)

    def state_dict(self) -> dict[str, dict]:
        """States of the random generators of all processes. Collective."""
        return self._group.all_gather(
            {name: rng.bit_generator.state for name, rng in self._rngs.items()}
        )

    def load_state_dict(self, state: dict[str, dict]):
        for name, rng in self._rngs.items():
            rng.bit_generator.state = state[name]
