"""Time of `possm-lite decode` on the embedded session, alone and beside another process that keeps a core busy."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from .page import Item, Note, row
from .readme_claims import run_decode

SETTINGS = {"as it is": {}, "OMP_NUM_THREADS=2": {"OMP_NUM_THREADS": "2"}}


def measure(short: bool = False) -> Iterator[Item]:
    rounds, options = (1, ["--epochs=1"]) if short else (5, ["--epochs=6"])
    quiet, busy = ({name: [] for name in SETTINGS} for _ in range(2))
    for _ in range(rounds):  # the four in turns, so that a slow moment of the machine affects all of them
        for name, environment in SETTINGS.items():
            quiet[name].append(decode_seconds(options, environment))
            with busy_process():
                busy[name].append(decode_seconds(options, environment))
    for name in SETTINGS:
        alone, beside = np.array(quiet[name]).T, np.array(busy[name]).T  # (2, rounds)
        for part, a, b in zip(("training", "whole command"), alone, beside, strict=True):
            slower = float(np.median(b / a))
            what = f"{name}, {part}: {np.median(a):.1f} s alone, {np.median(b):.1f} s beside a busy process"
            limit = ("<= 1.3 x", slower <= 1.3) if name == "as it is" else ()
            yield row(what, slower, "{:.2f} x", *limit)
    with busy_process():
        _, whole = decode_seconds(options if short else [], {})
    yield row("all of `make decode`, without set-up, beside a busy process", whole, "{:.0f} s", "<= 60 s", whole <= 60)
    note = f"`possm-lite decode {options[0]}`, median of {rounds} rounds."
    yield Note(f"{note} The ratio is that of runs one after the other.")


def decode_seconds(options: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of POSSM's training, and of the whole command."""
    others = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    models, seconds = run_decode(options, others | environment)
    return models["possm"]["train_s"], seconds


@contextmanager
def busy_process() -> Iterator[None]:
    """Keep one core busy inside the context."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
