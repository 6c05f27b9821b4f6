"""A source of live spikes that misbehaves at random: what cannot be used is counted, and decoding goes on."""

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from possm_lite.spikes.io.lsl import spike_outlet
from possm_lite.training import TrainedOn, prepare, save_checkpoint

from ..training.helpers import small_possm

SECONDS, RATE_HZ = 3600, 100
WAIT_S = 5.0  # of `live`, so that a machine that stands still for a moment makes no event late
LINE = re.compile(r"possm-lite: \S+: \S.*")
RNG = np.random.default_rng()
FAULTS = {  # times of events, from now, seconds; and how many `live` must report, by kind
    "unknown unit": lambda: ([0.0], {"of unknown units": 1}),
    "lost": lambda: ([0.0], {"lost": int(RNG.integers(1, 1000))}),
    "backwards": lambda: ([0.0, -RNG.uniform(0.001, 0.04)], {"backwards in time": 1}),
    "late": lambda: ([0.0, -RNG.uniform(10, 1e6)], {"late": 1, "backwards in time": 1}),
    "ahead": lambda: ([RNG.uniform(1, 1e6)], {"off the clock": 1}),
    "burst": lambda: ([0.0] * 5000, {}),
    "silence": lambda: ([], {}),
    "restart": lambda: ([], {}),
}


class Source:
    """A stream of spikes; `expected` counts the events that `live` must report, by kind."""

    def __init__(self, pylsl, name: str, unit_ids: list[str]):
        self.clock, self.name, self.unit_ids = pylsl.local_clock, name, [*unit_ids, "other"]
        self.expected, self.sent, self.restarts = Counter(), 0, 0
        self.connect()

    def connect(self):
        self.outlet, self.number = spike_outlet(self.name, self.unit_ids), 0
        assert self.outlet.wait_for_consumers(60)

    def send(self, time_s: float, unit: int | None = None):
        unit = int(RNG.integers(1, len(self.unit_ids))) if unit is None else unit
        self.outlet.push_sample([unit, self.number], time_s)
        self.number, self.sent = self.number + 1, self.sent + 1

    def behave(self, seconds: float):
        """Spikes of known units at random times."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.send(self.clock())
            time.sleep(RNG.exponential(1 / RATE_HZ))

    def misbehave(self, fault: str):
        times, counts = FAULTS[fault]()
        self.expected.update(counts)
        self.number += counts.get("lost", 0)
        now = self.clock()
        for time_s in times:
            n = len(self.unit_ids)
            self.send(now + time_s, int(RNG.choice([n, n + 1, -1, 2**31 - 1])) if fault == "unknown unit" else None)
        if fault == "silence":
            time.sleep(RNG.uniform(1, 3))
        if fault == "restart":
            time.sleep(1.0)  # what is under way arrives
            del self.outlet
            time.sleep(RNG.uniform(0, 1))
            self.connect()
            self.restarts += 1
        self.behave(RNG.uniform(0.2, 3.0))  # after a restart the first event sets the start, and must be sound


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to another process there")
def test_a_misbehaving_source_is_decoded_and_counted(small_recording, tmp_path, pylsl, rounds, record):
    if not rounds(0, 1):
        pytest.skip("only at length: make soak")
    session, log = prepare(small_recording), tmp_path / "stderr"
    save_checkpoint(tmp_path / "checkpoint.npz", small_possm(session), TrainedOn.from_session(session))
    command = [sys.executable, "-m", "possm_lite", "live", str(tmp_path), "--stream", name := f"test-{tmp_path.name}"]
    start = time.monotonic()
    with log.open("w") as errors:
        live = subprocess.Popen([*command, "--wait", str(WAIT_S)], stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            source = Source(pylsl, name, small_recording.unit_ids.tolist())
            source.behave(0.2)
            todo, megabytes = list(FAULTS), []
            while time.monotonic() < start + SECONDS or todo:
                source.misbehave(todo.pop() if todo else str(RNG.choice(list(FAULTS))))
                assert live.poll() is None
                megabytes.append(resident_mb(live.pid))
            time.sleep(1.0)
            live.send_signal(signal.SIGINT)
            out, _ = live.communicate(timeout=60)
        finally:
            live.kill()
    lines = log.read_text().splitlines()
    assert live.returncode == 0 and all(LINE.fullmatch(line) for line in lines)
    assert sum("the source stopped" in line for line in lines) == source.restarts
    counted = {kind: int(n.replace(",", "")) for n, kind in re.findall(r"([\d,]+) ([a-z ]+)(?=[,;\n])", out)}
    late = source.expected.pop("late")
    assert {kind: counted[kind] for kind in source.expected} == dict(source.expected), out
    assert counted["late"] >= late, out  # what runs backwards by milliseconds is late too if its bin has just ended
    assert counted["bins"] > 10 * (time.monotonic() - start - 15)  # of 20 a second, less the breaks
    assert max(megabytes) < megabytes[len(megabytes) // 10] + 30
    faults = sum(source.expected.values()) - source.expected["lost"]
    record(
        f"live input from a source that misbehaves for {SECONDS:,} s",
        f"{source.sent:,} events, {faults} faulty ones, {source.expected['lost']:,} lost, {source.restarts} restarts: "
        f"each counted, {counted['bins']:,} bins decoded",
    )


def resident_mb(pid: int) -> float:
    """Memory of a process in use; 0 where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    return int(status.read_text().split("VmRSS:")[1].split()[0]) / 1e3 if status.exists() else 0.0
