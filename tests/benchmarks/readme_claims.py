"""Claims of the README other than latency and accuracy: `make decode`, sliders, imports."""

import json
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from possm_lite.course.load import load_figures
from possm_lite.course.widgets import Slider, explore

from .page import ROOT, Item, Row, row

EXAMPLE = (
    "from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder; "
    "from possm_lite.recordings import SpikeBatch, load_recording; from possm_lite.simulate import simulate_session; "
    "from possm_lite.training import adapt, evaluate, fit, load_checkpoint, prepare"
)


def measure(short: bool = False) -> Iterator[Item]:
    yield from imports(rounds=1 if short else 7)
    yield from sliders()
    yield from decode(["--quick"] if short else [])


def imports(rounds: int) -> Iterator[Row]:
    """Import times, in new processes that have imported torch before."""
    package, example = (np.median([_import_seconds(s) for _ in range(rounds)]) for s in ("import possm_lite", EXAMPLE))
    yield row("`import possm_lite`, after `import torch`", package, "{:.3f} s", "<= 0.3 s", package <= 0.3)
    yield row("imports of the README's example, after `import torch`", example, "{:.2f} s")


def _import_seconds(statement: str) -> float:
    code = f"import time, torch; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    return float(subprocess.check_output([sys.executable, "-c", code]))


def sliders() -> Iterator[Row]:
    """Time from a slider's move to the new figure."""
    x = 2 * torch.rand(57)
    y = 400 * torch.sin(4 * x) + 40 * torch.randn(57)  # mm/s
    width, query = Slider("w (1/s)", 1.0, 300.0, log=True), Slider("query (s)", 0.0, 2.0)
    angles = {name: Slider(name, 0, 20) for name in ("m", "n", "theta")}
    one, four = (load_figures(name, ROOT / "notebooks") for name in ("01_kernel_regression", "04_positions"))
    for name, explorer in (
        ("kernel width", explore(one.make_draw(x, y, (0.0, 2.0), (1.0, 300.0)), w=width, query=query)),
        ("rotation angle", explore(four.make_draw(q=(1.2, 0.5), k=(0.9, 1.0)), **angles)),
    ):
        step = 1e3 * float(np.median(timeit.repeat(explorer._update, number=1, repeat=20)))
        yield row(f"slider to new figure, {name}", step, "{:.0f} ms", "<= 100 ms", step <= 100)


def decode(options: list[str]) -> Iterator[Row]:
    """`possm-lite decode` on the embedded session."""
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
