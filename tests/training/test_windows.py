"""Which process cuts which window, and that the windows themselves do not depend on it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from possm_lite.spikes import simulate_session
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.training import FitConfig, combine_sessions, prepare
from possm_lite.training.distributed import ProcessGroup
from possm_lite.training.windows import (
    MultiSessionSampler,
    WindowSampler,
    sessions_of_rank,
    sessions_of_slots,
    slots_of_rank,
)

QUICK = FitConfig(epochs=1, window_s=1.0, batch=6, samples=20)


@pytest.fixture(scope="module")
def sessions():
    """Three of different numbers of units and trials."""
    return combine_sessions(
        [prepare(simulate_session(n, SimulationConfig(6 + n, n_units=4 + n)).recording) for n in (1, 2, 3)]
    )


@given(st.integers(1, 60), st.integers(1, 24))
def test_every_session_has_its_places_and_none_too_many(n_sessions, batch):
    places = sessions_of_slots(n_sessions, batch)
    counts = np.bincount(np.concatenate(places), minlength=n_sessions + 1)
    assert len(places) == batch and counts[0] == 0 and counts[1:].min() >= 1
    assert np.ptp(counts[1:]) <= 1
    assert np.ptp([len(p) for p in places]) <= 1


@given(st.integers(1, 60), st.integers(1, 24), st.data())
def test_the_crew_fills_every_place_once_and_holds_every_session(n_sessions, batch, data):
    size = data.draw(st.integers(1, batch))
    dealt = [slots_of_rank(ProcessGroup(rank, size), batch) for rank in range(size)]
    np.testing.assert_array_equal(np.concatenate(dealt), np.arange(batch))
    held = [sessions_of_rank(ProcessGroup(rank, size), n_sessions, batch) for rank in range(size)]
    assert set().union(*held) == set(range(1, n_sessions + 1))
    if n_sessions <= batch:  # neighbours: each further process shares at most one session with the one before
        assert sum(map(len, held)) <= n_sessions + size - 1


class Told(ProcessGroup):
    """A process of a crew that is told what the others know."""

    def all_gather(self, known):
        return self.everything


@pytest.mark.parametrize("size", [1, 2, 4, 6])
@pytest.mark.parametrize("batch", [2, 6])
def test_the_windows_of_all_processes_are_those_of_one(sessions, size, batch):
    config = replace(QUICK, batch=batch)
    whole = MultiSessionSampler(sessions, config, ProcessGroup())
    if size > batch:
        return
    parts = []
    for rank in range(size):
        us = Told(rank, size)
        object.__setattr__(us, "everything", whole.stats)
        held = [sessions[n - 1] for n in sessions_of_rank(us, 3, batch)]
        parts.append(MultiSessionSampler(held, config, us))
    for _ in range(5):
        together, index = whole()
        pieces = [part() for part in parts]
        np.testing.assert_array_equal(torch.cat([i for _, i in pieces]), index)
        for name in ("unit", "offset", "n_bins"):
            ours = torch.cat([getattr(batch, name) for batch, _ in pieces])
            assert torch.equal(ours, getattr(together, name)), name
        assert torch.equal(torch.cat([b.velocity[b.mask] for b, _ in pieces]), together.velocity[together.mask])


@pytest.mark.parametrize("batch", [2, 6])
def test_what_two_processes_know_of_their_generators_is_what_one_would(sessions, batch):
    """They share sessions, or have several for a place; from that state on one process draws as it would have."""
    config, state = replace(QUICK, batch=batch), {}
    whole = MultiSessionSampler(sessions, config, ProcessGroup())
    for rank in range(2):
        us = Told(rank, 2)
        object.__setattr__(us, "everything", whole.stats)
        part = MultiSessionSampler([sessions[n - 1] for n in sessions_of_rank(us, 3, batch)], config, us)
        for _ in range(3):
            part()
        object.__setattr__(us, "all_gather", lambda known: known)
        state |= part.state()
    for _ in range(3):
        whole()
    state = json.loads(json.dumps(state))
    assert state == whole.state()
    fresh = MultiSessionSampler(sessions, config, ProcessGroup())
    fresh.restore(state)
    for _ in range(3):
        assert torch.equal(whole()[0].offset, fresh()[0].offset)


def test_windows_are_of_their_session(sessions):
    batch, index = MultiSessionSampler(sessions, QUICK, ProcessGroup())()
    assert index.tolist() == [1, 1, 2, 2, 3, 3] and batch.n_trials == 6
    trial = torch.repeat_interleave(torch.arange(6), batch.n_bins)[batch.bin]
    for place, number in enumerate(index.tolist()):
        of_trial = batch.unit[(trial == place) & (batch.unit > 0)]
        session = sessions[number - 1]
        assert session.first_unit <= of_trial.min()
        assert of_trial.max() < session.first_unit + session.recording.n_units


def test_two_sessions_do_not_get_the_same_places(sessions):
    """Of one recording under two numbers: the same draws would waste half of them."""
    ours, theirs = (WindowSampler(s, QUICK)(4) for s in (sessions[0], replace(sessions[0], index=2)))
    assert ours.n_spikes != theirs.n_spikes or not torch.equal(ours.offset, theirs.offset)


def test_an_epoch_is_one_pass_over_all_sessions(sessions):
    seconds = sum(np.diff(s.segments("train"), axis=1).sum() for s in sessions)
    assert MultiSessionSampler(sessions, QUICK, ProcessGroup()).steps_per_epoch == round(seconds / QUICK.batch)
