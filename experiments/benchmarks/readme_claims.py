"""What `make decode` prints, and how long it takes."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .page import Item, Row, row


def measure(short: bool = False) -> Iterator[Item]:
    """The rows of the section; `short`: with `--quick`."""
    yield from decode(["--quick"] if short else [])


def decode(options: list[str]) -> Iterator[Row]:
    """Time and R² of `possm-lite decode` on the embedded session, with these options."""
    models, seconds = run_decode(options)
    possm, wiener, gru = (models[name]["r2"] for name in ("possm", "wiener", "gru"))
    floor = wiener + 0.1
    yield row("`make decode`, without set-up", seconds, "{:.0f} s", "<= 35 s", seconds <= 35)
    yield row("`make decode`, R² of the Wiener filter", wiener, "{:.3f}", "0.65 to 0.80", 0.65 <= wiener <= 0.80)
    yield row("`make decode`, R² of POSSM", possm, "{:.3f}", f">= {floor:.3f}, Wiener + 0.10", possm >= floor)
    yield row("`make decode`, R² of the GRU on counts", gru, "{:.3f}", f"<= {possm:.3f}, POSSM", gru <= possm)


def run_decode(options: list[str]) -> tuple[dict[str, dict], float]:
    """`possm-lite decode` on the embedded session: what it measured of each model, and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "possm_lite", "decode", f"--out={folder}/run", *options]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - start
        metrics = json.loads(Path(folder, "run", "metrics.json").read_text(encoding="utf-8"))
    return metrics["models"], seconds
