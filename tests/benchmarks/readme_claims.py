"""Claims of the README other than speed and accuracy: the authors' numbers, `make decode`, figures, imports."""

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
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.decoder.textbook import encode_textbook, forward_textbook
from possm_lite.recordings import SpikeBatch

from .page import ROOT, Item, Row, row

ORACLE = ROOT / "tests" / "decoder" / "authors_one_head.npz"
EXAMPLE = (
    "from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder; "
    "from possm_lite.recordings import SpikeBatch, load_recording; from possm_lite.simulate import simulate_session; "
    "from possm_lite.training import adapt, evaluate, fit, load_checkpoint, prepare"
)


def measure(short: bool = False) -> Iterator[Item]:
    yield from oracle()
    yield from streaming_and_batch(n_bins=10 if short else 100)
    yield from imports(rounds=1 if short else 7)
    yield from sliders()
    yield from decode(["--quick"] if short else [])


def oracle() -> Iterator[Item]:
    """Errors of both forms, in both precisions, against the authors' implementation."""
    with np.load(ORACLE, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file}
    batch = SpikeBatch.from_events(arrays["spike_trial"], arrays["spike_unit"], arrays["spike_time_s"], 3, 1.0)
    padded = batch.padded()
    times, session = torch.from_numpy(arrays["output_time_s"]), torch.from_numpy(arrays["session"])
    params = {name[6:]: array for name, array in arrays.items() if name.startswith("param.")}
    for dtype, limit in (("float64", 1e-9), ("float32", 1e-3)):
        model = POSSM.from_torch_brain(params).to(getattr(torch, dtype))
        gradients = []
        for form, encoded, velocity in (
            ("ragged", model.encode(batch), model(batch, times, session)),
            ("padded", encode_textbook(model, padded), forward_textbook(model, padded, times, session)),
        ):
            outputs = {"encoder_out": encoded, "backbone_out": model.backbone(encoded)[0], "velocity": velocity}
            error = max(np.abs(o.detach().numpy() - arrays[name]).max() for name, o in outputs.items())
            yield _below(f"max. error against the authors' implementation, {form}, {dtype}", error, limit)
            gradients.append(torch.autograd.grad(velocity.square().sum(), list(model.parameters())))
        if dtype == "float64":
            error = max(float((a - b).abs().max()) for a, b in zip(*gradients, strict=True))
            yield _below("max. difference of gradients, ragged and padded, float64", error, 1e-9)


def streaming_and_batch(n_bins: int) -> Iterator[Row]:
    rng, offsets_s = np.random.default_rng(0), np.arange(5) * 0.01
    bins = [(rng.integers(1, 183, 26), rng.random(26) * 0.05) for _ in range(n_bins)]
    model = POSSM(POSSMConfig(n_units=182))
    for dtype, limit in (("float32", 1e-4), ("float64", 1e-9)):
        error = streaming_error(model.to(getattr(torch, dtype)), bins, offsets_s)
        yield _below(f"max. difference of streaming and batch output, {dtype}", error, limit)


@torch.no_grad()
def streaming_error(model: POSSM, bins: list[tuple[np.ndarray, np.ndarray]], offsets_s: np.ndarray) -> float:
    """Max. difference between streaming and batch output; `bins` holds the units and offsets of each bin."""
    stream = StreamingDecoder(model, 1, offsets_s)
    times, streamed = (np.concatenate(each) for each in zip(*(stream.step(*spikes) for spikes in bins), strict=True))
    unit = np.concatenate([u for u, _ in bins])
    time_s = np.concatenate([i * 0.05 + o for i, (_, o) in enumerate(bins)])
    batch = SpikeBatch.from_events(np.zeros(len(unit), int), unit, time_s, 1, len(bins) * 0.05)
    whole = model(batch, torch.from_numpy(times)[None], torch.ones(1, dtype=torch.int64))[0].numpy()
    return float(np.abs(streamed - whole).max())


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


def _below(what: str, error: float, limit: float) -> Row:
    return row(what, error, "{:.1e}", f"< {limit:g}", error < limit)
