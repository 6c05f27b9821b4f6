"""The lag that is searched for when no decoder finds a relation, and what is said then."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.app.experiment import no_relation
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.training import prepare
from possm_lite.training.offset import search_offset


@pytest.fixture(scope="module")
def recording():
    return simulate_session(3, SimulationConfig(n_trials=60, n_units=20)).recording


def shifted(recording, seconds):
    return replace(recording, behavior_times=recording.behavior_times + seconds, trials=recording.trials + seconds)


@pytest.mark.parametrize("seconds", [-25.0, 0.0, 12.3])
def test_a_clock_that_differs_is_found(recording, seconds):
    assert search_offset(shifted(recording, seconds)) == pytest.approx(seconds + 0.1, abs=0.11)


def test_nothing_is_found_where_nothing_is_related(recording, rng):
    times = np.sort(rng.uniform(*recording.span, len(recording.spike_times)))
    assert search_offset(replace(recording, spike_times=times)) is None
    walk = rng.normal(size=recording.behavior.shape).cumsum(axis=0)
    assert search_offset(replace(recording, behavior=walk)) is None


def test_the_sentence_says_what_to_do(recording, rng):
    line = no_relation(prepare(shifted(recording, 12.3)))
    assert "12.4 s later than the spikes" in line and "subtract 12.4 s from the times of behaviour" in line
    assert "related, at a lag of 0.1 s" in no_relation(prepare(recording))
    times = np.sort(rng.uniform(*recording.span, len(recording.spike_times)))
    assert "finds no lag that is better" in no_relation(prepare(replace(recording, spike_times=times)))
