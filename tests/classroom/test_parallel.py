"""Calls on several cores return what the same calls return one after another."""

import os
import signal
import sys
import threading
import time

import joblib
import pytest
import torch

from possm_lite.classroom import parallel
from possm_lite.classroom.parallel import in_parallel, start_processes


@pytest.fixture(params=[1, 2])
def cores(request, monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: request.param)
    return request.param


def test_results_are_in_the_order_of_the_calls(cores, tmp_path):
    def drawn(seed: int, n: int) -> tuple[torch.Tensor, int, int]:  # as in a notebook: no process can import it
        (tmp_path / str(os.getpid())).touch()
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < cores and time.monotonic() < deadline:  # until all work on it
            time.sleep(0.01)
        torch.manual_seed(seed)
        return torch.randn(n), os.getpid(), torch.get_num_threads()

    calls = [(seed, 2 + seed) for seed in range(4)]
    with torch.random.fork_rng([]):
        here = [torch.randn(n, generator=torch.manual_seed(seed)) for seed, n in calls]
        after = torch.random.get_rng_state()
        results = in_parallel(drawn, calls)
        assert torch.equal(torch.random.get_rng_state(), after)  # what a call seeds is its own
    for expected, (values, _, _) in zip(here, results, strict=True):
        torch.testing.assert_close(values, expected, rtol=0, atol=0)
    pids = {pid for _, pid, _ in results}
    assert len(pids) == cores and os.getpid() in pids and {n for _, _, n in results} == {1}


def test_the_number_of_threads_is_as_before(cores):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        in_parallel(abs, [(-1,)])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_error_of_a_call_arrives(cores):
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda x: 1 / x, [(1,), (0,)])


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    start_processes()
    (worker,) = parallel._workers()
    return worker


def test_a_process_begins_with_torch_and_its_compiler(worker):
    assert worker.run(lambda: "torch._dynamo" in sys.modules)


def test_what_a_call_prints_is_not_taken_for_its_result(worker):
    def prints():
        print("from Python", flush=True)
        os.write(1, b"from C")
        return "the result"

    assert worker.run(prints) == "the result"


def test_an_error_in_another_process_says_where(worker):
    def fails():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        worker.run(fails)
    assert "in fails" in str(caught.value.__cause__)
    with pytest.raises(TypeError):
        worker.run(lambda: threading.Lock())  # cannot be sent
    assert worker.run(lambda: 1) == 1


def test_a_killed_process_is_reported_and_replaced(worker):
    with pytest.raises(RuntimeError, match="killed: exit status 3"):
        worker.run(lambda: os._exit(3))
    assert parallel._workers()[0].run(lambda: 1) == 1


@pytest.mark.skipif(os.name == "nt", reason="a signal ends the process there")
def test_ctrl_c_does_not_wait_for_the_other_calls(cores):
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_parallel(time.sleep, [(30,)] * 4)
    assert time.monotonic() - began < 15


@pytest.mark.skipif(os.name == "nt", reason="no groups of processes there")
def test_no_kernel_waits_for_the_process_at_its_end(worker):
    """ipykernel waits for child processes of its own group, also for one that has ended, and is killed meanwhile."""
    assert os.getpgid(worker.process.pid) != os.getpgrp()
