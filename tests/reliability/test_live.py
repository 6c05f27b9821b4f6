"""A source of live spikes that misbehaves at random: what cannot be used is counted, and decoding goes on."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from possm_lite.app.lsl import spike_outlet
from possm_lite.training import TrainedOn, prepare, save_checkpoint

from ..training.helpers import small_possm

SECONDS = 3600
RNG = np.random.default_rng()
FAULTS = {  # times of events, from now, seconds; and how many `live` must report, by kind
    "unknown unit": lambda: ([0.0], {"of unknown units": 1}),
    "lost": lambda: ([0.0], {"lost": int(RNG.integers(1, 1000))}),
    "backwards": lambda: ([0.0, -RNG.uniform(0.001, 0.04)], {}),
    "late": lambda: ([0.0, -RNG.uniform(10, 1e6)], {"late": 1}),
    "ahead": lambda: ([RNG.uniform(1, 1e6)], {"off the clock": 1}),
    "burst": lambda: ([0.0] * 5000, {}),
    "silence": lambda: ([], {}),
    "restart": lambda: ([], {}),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of another process is read from /proc")
def test_a_misbehaving_source_is_decoded_and_counted(small_recording, tmp_path, pylsl, rounds, record):
    if not rounds(0, 1):
        pytest.skip("only at length: make soak")
    session = prepare(small_recording)
    save_checkpoint(tmp_path / "checkpoint.npz", small_possm(session), TrainedOn.from_session(session))
    units = [*small_recording.unit_ids.tolist(), "other"]
    name = f"test-{tmp_path.name}"
    # waits so long that a machine that stands still for a moment makes no event late
    command = [sys.executable, "-m", "possm_lite", "live", str(tmp_path), "--stream", name, "--wait", "5"]
    expected, sent, restarts, number, pages = Counter(), 0, 0, 0, []
    with (tmp_path / "stderr").open("w") as errors:
        live = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def send(place: int, age_s: float = 0.0):
        nonlocal number, sent
        outlet.push_sample([place, number], pylsl.local_clock() - age_s)
        number += 1
        sent += 1

    try:
        outlet = spike_outlet(name, units)
        assert outlet.wait_for_consumers(60)
        send(0)
        start = time.monotonic()
        todo = list(FAULTS)
        while time.monotonic() < start + SECONDS or todo:
            fault = todo.pop() if todo else str(RNG.choice(list(FAULTS)))
            times, counts = FAULTS[fault]()
            expected.update(counts)
            number += counts.get("lost", 0)
            for time_s in times:
                place = RNG.choice([len(units), len(units) + 1, -1]) if fault == "unknown unit" else RNG.integers(1, 13)
                send(int(place), -time_s)
            if fault == "silence":
                time.sleep(RNG.uniform(1, 3))
            if fault == "restart":
                time.sleep(1.0)  # what is under way arrives
                del outlet
                outlet, number, restarts = spike_outlet(name, units), 0, restarts + 1
                assert outlet.wait_for_consumers(60)
            for pause_s in RNG.exponential(0.01, 150):  # after a restart the first event must be sound
                send(int(RNG.integers(1, 13)))
                time.sleep(pause_s)
            pages.append(int(Path(f"/proc/{live.pid}/statm").read_text().split()[1]))
        time.sleep(1.0)
        live.send_signal(signal.SIGINT)
        out, _ = live.communicate(timeout=60)
    finally:
        live.kill()
    lines = (tmp_path / "stderr").read_text().splitlines()
    assert live.returncode == 0 and all(re.fullmatch(r"possm-lite: \S+: \S.*", line) for line in lines)
    assert sum("the source stopped" in line for line in lines) == restarts
    counted = {kind: int(n.replace(",", "")) for n, kind in re.findall(r"([\d,]+) ([a-z ]+)(?=[,;\n])", out)}
    assert counted["late"] >= expected.pop("late"), out  # what runs back by milliseconds may be late, too
    assert {kind: counted[kind] for kind in expected} == dict(expected), out
    assert max(pages) < pages[len(pages) // 10] + 30e6 / os.sysconf("SC_PAGE_SIZE")
    assert counted["bins"] > 10 * (time.monotonic() - start - 15)  # of 20 a second, less the breaks
    tried = f"{sent:,} events, {restarts} restarts: each fault counted, {counted['bins']:,} bins decoded"
    record(f"live input from a source that misbehaves for {SECONDS:,} s", tried)
