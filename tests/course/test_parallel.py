"""Calls on several cores return what the same calls return one after another."""

import os
import time

import joblib
import pytest
import torch

from possm_course.parallel import in_parallel, start_processes


@pytest.fixture(params=[1, 2])
def cores(request, monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: request.param)
    return request.param


def test_results_are_in_the_order_of_the_calls(cores, tmp_path):
    used = []

    def drawn(seed: int, n: int) -> tuple[torch.Tensor, int, int, int]:  # as in a notebook: no process can import it
        (tmp_path / str(os.getpid())).touch()
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < cores and time.monotonic() < deadline:  # until all work on it
            time.sleep(0.01)
        used.append(seed)
        torch.manual_seed(seed)
        return torch.randn(n), os.getpid(), torch.get_num_threads(), len(used)

    calls = [(seed, 2 + seed) for seed in range(4)]
    with torch.random.fork_rng([]):
        expected = [torch.randn(n, generator=torch.manual_seed(seed)) for seed, n in calls]
        state = torch.random.get_rng_state()
        start_processes()
        values, processes, threads, n_used = zip(*in_parallel(drawn, calls), strict=True)
        assert torch.equal(torch.random.get_rng_state(), state)  # what a call seeds is its own
    torch.testing.assert_close(list(values), expected, rtol=0, atol=0)
    assert len(set(processes)) == cores and (os.getpid() in processes) == (cores == 1)
    if cores > 1:
        assert set(threads) == {1} and set(n_used) == {1}  # a copy for every call
