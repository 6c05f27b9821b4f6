"""The windows of all processes together do not depend on the number of processes."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from possm_lite.training import combine_sessions, prepare
from possm_lite.training.distributed import SINGLE_PROCESS, ProcessGroup
from possm_lite.training.windows import MultiSessionSampler, sessions_of_rank, sessions_of_slots, slots_of_rank

from . import helpers
from .helpers import simulated

QUICK = replace(helpers.QUICK, batch=6)


@pytest.fixture(scope="module")
def sessions():
    """Three, with different numbers of units and trials."""
    return combine_sessions([prepare(simulated(n, 4 + n, n_trials=6 + n)) for n in (1, 2, 3)])


@dataclass(frozen=True)
class FakeGroup(ProcessGroup):
    """A process that knows what the others gather."""

    gathered: dict = field(default_factory=dict)

    def all_gather(self, items):
        return items | self.gathered


@given(st.integers(1, 60), st.integers(1, 24), st.data())
def test_slots_and_sessions_are_shared_evenly(n_sessions, batch, data):
    slots = sessions_of_slots(n_sessions, batch)
    counts = np.bincount(np.concatenate(slots), minlength=n_sessions + 1)
    assert len(slots) == batch and counts[0] == 0 and counts[1:].min() >= 1
    assert np.ptp(counts[1:]) <= 1 and np.ptp([len(s) for s in slots]) <= 1
    size = data.draw(st.integers(1, batch))
    groups = [ProcessGroup(rank, size) for rank in range(size)]
    np.testing.assert_array_equal(np.concatenate([slots_of_rank(g, batch) for g in groups]), np.arange(batch))
    held = [sessions_of_rank(g, n_sessions, batch) for g in groups]
    assert set().union(*held) == set(range(1, n_sessions + 1))
    if n_sessions <= batch:  # each further process shares at most one session with the previous one
        assert sum(map(len, held)) <= n_sessions + size - 1


@pytest.mark.parametrize(("batch", "size"), [(2, 1), (2, 2), (6, 1), (6, 2), (6, 4), (6, 6)])
def test_windows_are_independent_of_the_process_count(sessions, batch, size):
    config = replace(QUICK, batch=batch)
    whole, parts = MultiSessionSampler(sessions, config, SINGLE_PROCESS), []
    for group in (FakeGroup(rank, size, dict(whole.stats)) for rank in range(size)):
        own = [sessions[n - 1] for n in sessions_of_rank(group, len(sessions), batch)]
        parts.append(MultiSessionSampler(own, config, group))
    for _ in range(5):
        expected, index = whole()
        drawn = [part() for part in parts]
        np.testing.assert_array_equal(torch.cat([i for _, i in drawn]), index)
        for name in ("unit", "offset", "n_bins"):
            assert torch.equal(torch.cat([getattr(b, name) for b, _ in drawn]), getattr(expected, name)), name
        assert torch.equal(torch.cat([b.behavior[b.mask] for b, _ in drawn]), expected.behavior[expected.mask])


def test_an_epoch_is_one_pass_over_all_sessions(sessions):
    seconds = sum(np.diff(s.segments("train"), axis=1).sum() for s in sessions)
    assert MultiSessionSampler(sessions, QUICK, SINGLE_PROCESS).steps_per_epoch == round(seconds / QUICK.batch)
