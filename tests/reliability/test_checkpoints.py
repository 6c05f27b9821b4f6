"""Training that is killed again and again, or finds the disk full, ends with the weights of one that was left alone."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from possm_lite.spikes import simulate_session
from possm_lite.spikes.arrays import read_arrays
from possm_lite.spikes.simulation.neurons import SimulationConfig

pytest.importorskip("resource")
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "TORCHELASTIC_RUN_ID"} | {
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
}
UNTIL_THEN = 300  # seconds; nothing here takes as long
EPOCHS = 8
RESULTS = ["checkpoint.npz", "decoded.png", "metrics.json"]


class Decoder:
    """Runs possm-lite in a folder, and remembers how long it took to the end."""

    def __init__(self, folder: Path):
        self.folder, self.seconds = folder, 0.0
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("decoding.py")],
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, run: str, after=None, limit=None, kill=False) -> dict:
        """Begin a run, or go on with it where it is there already; see `decoding.py` for its end."""
        new = ["a.npz", "--epochs", str(EPOCHS), "--out", run]
        command = ["decode", *(["--resume", run] if (self.folder / run).exists() else new)]
        order = {"command": command, "after": after, "bytes": limit, "kill": kill}
        began = time.perf_counter()
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        self.seconds = time.perf_counter() - began
        return answer

    def close(self):
        self._process.stdin.close()
        self._process.wait(UNTIL_THEN)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def decode(tmp_path_factory):
    """A decoder, with the run `whole` that nobody disturbed, and `begun`, killed as soon as there was a state."""
    folder = tmp_path_factory.mktemp("killed")
    simulate_session(0, SimulationConfig(n_trials=8, n_units=4)).recording.save(folder / "a.npz")
    decoder = Decoder(folder)
    assert decoder("begun", after="begun/training.npz")["status"] == -signal.SIGKILL
    assert decoder("whole")["status"] == 0
    yield decoder
    decoder.close()


def assert_like_whole(folder: Path, run: str):
    assert names(folder / run) == RESULTS
    ours, theirs = (read_arrays(folder / name / "checkpoint.npz") for name in (run, "whole"))
    assert list(ours) == list(theirs)
    for name, array in ours.items():
        assert array.tobytes() == theirs[name].tobytes(), name


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".partial"))


def epochs_saved(run: Path) -> int:
    """How many epochs the newest state has behind it. It can always be read."""
    if not (run / "training.npz").exists():
        return 0
    return len(json.loads(str(read_arrays(run / "training.npz")["about"]))["history"]["loss"])


def test_killed_at_random_moments_it_ends_with_the_same_weights(decode, rounds):
    """Every second kill is in the middle of writing a file, the others at any moment, of loading and of the end too."""
    rng, folder, usual = np.random.default_rng(), decode.folder, decode.seconds
    size = (folder / "begun" / "training.npz").stat().st_size
    wanted, kills, cut_off, number = rounds(8, 50), 0, 0, 0
    while kills < wanted:
        number, saved = number + 1, 0
        run = folder / f"run-{number}"
        ended = None
        while ended is None or ended["status"]:
            if kills == wanted:
                ended = decode(run.name)
            elif kills % 2:
                ended = decode(run.name, limit=int(rng.integers(1, size)), kill=True)
            else:
                ended = decode(run.name, after=rng.uniform(0, 0.7 * usual))
            if ended["status"] == 0:
                break
            assert ended["status"] in (-signal.SIGKILL, -signal.SIGXFSZ), ended["stderr"]
            kills += 1
            if not run.exists():  # nothing was begun
                continue
            if not (run / "unfinished.json").exists():  # all was done
                assert names(run)[:3] == RESULTS
                (run / "training.npz").unlink(missing_ok=True)
                break
            cut_off += any(p.is_file() and p.suffix == ".partial" for p in run.iterdir())
            before, saved = saved, epochs_saved(run)
            assert before <= saved <= EPOCHS
        assert_like_whole(folder, run.name)
    assert cut_off >= wanted // 4


def test_a_full_disk_loses_nothing(decode, rounds):
    """What cannot be saved is said in one line; the state before stands, and no half of a file is left.

    The limit on the size of a file stands for the disk: a write beyond it fails in the middle.
    """
    rng, run = np.random.default_rng(), decode.folder / "begun"
    before = {name: (run / name).read_bytes() for name in names(run)}
    assert sorted(before) == ["training.npz", "unfinished.json"]
    for _ in range(rounds(2, 20)):
        ended = decode("begun", limit=int(rng.integers(0, len(before["training.npz"]) - 100)))
        assert ended["status"] == 2
        said = [line for line in ended["stderr"].splitlines() if line.startswith("possm-lite: ")]
        assert said == ["possm-lite: begun/training.npz: could not be written: File too large"]
        assert {p.name: p.read_bytes() for p in run.iterdir()} == before
    assert decode("begun")["status"] == 0
    assert_like_whole(decode.folder, "begun")


def test_a_real_disk_that_is_full(decode):
    """The first state fits on it, the second beside it does not."""
    disk = decode.folder / "disk"
    disk.mkdir()
    kilobytes = int(1.5 * (decode.folder / "whole" / "checkpoint.npz").stat().st_size * 3 / 1024)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(disk)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        ended = decode("disk/run")
        assert ended["status"] == 2 and "training.npz: could not be written: No space left" in ended["stderr"]
        assert sorted(p.name for p in (disk / "run").iterdir()) == ["training.npz", "unfinished.json"]
        assert epochs_saved(disk / "run") == 1
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        assert decode("disk/run")["status"] == 0
        assert_like_whole(decode.folder, "disk/run")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_two_processes_go_on_as_two(decode, rounds):
    """One of torchrun's processes is killed; with two that go on, gradients are added up as they were before."""
    if not rounds(0, 1):
        pytest.skip("only at length: make soak")
    folder, two = (
        decode.folder,
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    )
    simulate_session(1, SimulationConfig(n_trials=8, n_units=5)).recording.save(folder / "b.npz")

    def run(*arguments):
        return subprocess.Popen([*two, "-m", "possm_lite", "decode", *arguments], cwd=folder, env=ENVIRONMENT)

    begin = ["a.npz", "b.npz", "--epochs", "200", "--out"]
    assert run(*begin, "two").wait(UNTIL_THEN) == 0
    cut_short, gives_up = run(*begin, "again"), time.monotonic() + UNTIL_THEN
    while not (folder / "again" / "training.npz").exists() and time.monotonic() < gives_up:
        time.sleep(0.01)
    children = Path(f"/proc/{cut_short.pid}/task/{cut_short.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    assert cut_short.wait(UNTIL_THEN) != 0
    assert 1 <= epochs_saved(folder / "again") < 200
    assert run("--resume", "again").wait(UNTIL_THEN) == 0
    for session in ("simulated-0", "simulated-1"):
        ours, theirs = (read_arrays(folder / name / session / "checkpoint.npz") for name in ("again", "two"))
        assert all(array.tobytes() == theirs[name].tobytes() for name, array in ours.items())
