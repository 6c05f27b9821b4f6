"""Calls on several cores return what the same calls return one after another."""

import os
import sys
import threading

import joblib
import pytest
import torch

from possm_lite.classroom.parallel import in_parallel, start_processes


@pytest.fixture(params=[1, 2])
def cores(request, monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: request.param)
    return request.param


def test_results_are_in_the_order_of_the_calls(cores):
    def drawn(seed: int, n: int) -> tuple[torch.Tensor, int, int]:  # as in a notebook: no process can import it
        torch.manual_seed(seed)
        return torch.randn(n), os.getpid(), torch.get_num_threads()

    calls = [(seed, 2 + seed) for seed in range(4)]
    with torch.random.fork_rng([]):
        here = [drawn(*call)[0] for call in calls]
        after = torch.random.get_rng_state()
        results = in_parallel(drawn, calls)
        assert torch.equal(torch.random.get_rng_state(), after)  # what a call seeds is its own
    for expected, (values, _, _) in zip(here, results, strict=True):
        torch.testing.assert_close(values, expected, rtol=0, atol=0)
    if cores == 1:
        assert {pid for _, pid, _ in results} == {os.getpid()}
    else:
        assert os.getpid() not in {pid for _, pid, _ in results} and {n for _, _, n in results} == {1}


def test_an_error_of_a_call_arrives(cores):
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda x: 1 / x, [(1,), (0,)])


def test_processes_started_beforehand_have_imported_torch(cores):
    start_processes()
    started = [thread for thread in threading.enumerate() if thread.name == "start_processes"]
    assert len(started) == cores - 1
    for thread in started:
        thread.join()
    if started:
        assert any(in_parallel(lambda: "torch._dynamo" in sys.modules, [()] * 4))
