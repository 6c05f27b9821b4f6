"""What the README claims beside speed and accuracy: the authors' numbers, the main job, sliders, imports."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.decoder.textbook import encode_textbook, forward_textbook
from possm_lite.spikes import SpikeBatch

from .parts import Note, Part, Row, row

ORACLE = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "possm_small.npz"
README_IMPORTS = (
    "from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder; "
    "from possm_lite.spikes import SpikeBatch, load_recording, simulate_session; "
    "from possm_lite.training import evaluate, fit, for_new_session, freeze_backbone, prepare"
)


def measure(short: bool = False) -> Iterator[Part]:
    yield from oracle()
    yield from streamed_and_batch(n_bins=10 if short else 100)
    yield from imports(rounds=1 if short else 7)
    yield from sliders()
    yield from decode(["--quick"] if short else [])


def oracle() -> Iterator[Part]:
    """The numbers of the authors' implementation, through both forms and in both precisions."""
    if not ORACLE.exists():
        yield Note("The authors' numbers are not here, skipped.")
        return
    with np.load(ORACLE, allow_pickle=False) as file:
        known = {name: file[name] for name in file}
    batch = SpikeBatch.from_events(known["spike_trial"], known["spike_unit"], known["spike_time_s"], 3, 1.0)
    asked = torch.from_numpy(known["output_time_s"]), torch.from_numpy(known["session"])
    params = {name[6:]: array for name, array in known.items() if name.startswith("param.")}
    for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
        model = POSSM.from_torch_brain(params).to(dtype)
        gradients = []
        for form, encode, answer in (
            ("ragged", model.encode, model),
            ("padded", lambda b, m=model: encode_textbook(m, b.padded()), _textbook(model)),
        ):
            entered = encode(batch)
            outputs = {"encoder_out": entered, "backbone_out": model.backbone(entered)[0]}
            outputs["velocity"] = answer(batch, *asked)
            error = max(np.abs(o.detach().numpy() - known[name]).max() for name, o in outputs.items())
            yield _below(f"largest error against the authors' numbers, {form}, {_bits(dtype)}", error, limit)
            gradients.append(torch.autograd.grad(outputs["velocity"].square().sum(), list(model.parameters())))
        if dtype == torch.float64:
            error = max(float((a - b).abs().max()) for a, b in zip(*gradients, strict=True))
            yield _below("gradients of the two forms apart, float64", error, 1e-9)


def streamed_and_batch(n_bins: int) -> Iterator[Row]:
    """The streaming decoder and the batch form on the same spikes."""
    rng, offsets = np.random.default_rng(0), np.arange(5) * 0.01
    bins = [(rng.integers(1, 183, 26), rng.random(26) * 0.05) for _ in range(n_bins)]
    model = POSSM(POSSMConfig(n_units=182))
    for dtype, limit in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
        error = streamed_and_batch_apart(model.to(dtype), bins, offsets)
        yield _below(f"streamed and batch answers apart, {_bits(dtype)}", error, limit)


@torch.no_grad()
def streamed_and_batch_apart(model: POSSM, bins: list, offsets: np.ndarray) -> float:
    """Largest difference of the answers, in the unit of velocity; `bins` holds units and offsets of each bin."""
    stream = StreamingDecoder(model, 1, offsets)
    answers = [stream.step(*spikes) for spikes in bins]
    unit = np.concatenate([u for u, _ in bins])
    time_s = np.concatenate([i * 0.05 + o for i, (_, o) in enumerate(bins)])
    batch = SpikeBatch.from_events(np.zeros(len(unit), int), unit, time_s, 1, len(bins) * 0.05)
    times = torch.from_numpy(np.concatenate([t for t, _ in answers]))[None]
    whole = model(batch, times, torch.ones(1, dtype=torch.int64))[0].numpy()
    return float(np.abs(np.concatenate([v for _, v in answers]) - whole).max())


def imports(rounds: int) -> Iterator[Row]:
    """What importing the package takes beyond importing torch, in fresh processes."""
    added = {"import possm_lite": [], README_IMPORTS: []}
    for _ in range(rounds):
        for statement, times in added.items():
            times.append(_import_s(statement))
    package, all_of_it = (float(np.median(times)) for times in added.values())
    yield row("`import possm_lite`, on top of `import torch`", package, "{:.3f} s", "<= 0.3 s", package <= 0.3)
    yield row("all that the README's example imports, on top of `import torch`", all_of_it, "{:.2f} s")


def _import_s(statement: str) -> float:
    """Seconds of an import in a new process that has torch already."""
    code = f"import time, torch; began = time.perf_counter(); {statement}; print(time.perf_counter() - began)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def sliders() -> Iterator[Part]:
    """From the move of a slider to its new picture, for the two named figures of the course."""
    try:
        from possm_lite.classroom.figures import kernel_width, rotation_angle
        from possm_lite.classroom.widgets import Slider, explore
    except ModuleNotFoundError as missing:
        yield Note(f"Sliders: no {missing.name}, skipped.")
        return
    rng = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(57, generator=rng)
    y = 400 * torch.sin(4 * x) + 40 * torch.randn(57, generator=rng)  # mm/s
    width, query = Slider("w (1/s)", 1.0, 300.0, log=True), Slider("query (s)", 0.0, 2.0)
    turns = {name: Slider(name, 0, 20) for name in ("m", "n", "theta")}
    for name, explorer in (
        ("kernel width", explore(kernel_width.make_draw(x, y, (0.0, 2.0), (1.0, 300.0)), w=width, query=query)),
        ("rotation angle", explore(rotation_angle.make_draw(q=(1.2, 0.5), k=(0.9, 1.0)), **turns)),
    ):
        step = explorer.step_ms()
        yield row(f"from the move of a slider to its picture, {name}", step, "{:.0f} ms", "<= 100 ms", step <= 100)


def decode(options: list[str]) -> Iterator[Row]:
    """The main job, as a command, on the embedded session."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.json"
        began = time.perf_counter()
        command = [sys.executable, "-m", "possm_lite", "decode", "--out", f"{folder}/run", "--json", str(path)]
        subprocess.run(command + options, check=True, capture_output=True)
        seconds = time.perf_counter() - began
        models = json.loads(path.read_text(encoding="utf-8"))["models"]
    possm, wiener, gru = (models[name]["r2"] for name in ("possm", "wiener", "gru"))
    yield row("`make decode`, set-up aside", seconds, "{:.0f} s", "< 60 s", seconds < 60)
    yield row("its Wiener filter, R²", wiener, "{:.3f}", "0.65 to 0.80", 0.65 <= wiener <= 0.80)
    yield row("its POSSM, R²", possm, "{:.3f}", f">= {wiener + 0.1:.3f}, Wiener + 0.10", possm >= wiener + 0.1)
    yield row("its GRU on counts, R²", gru, "{:.3f}", f"<= {possm:.3f}, POSSM", gru <= possm)


def _below(what: str, error: float, limit: float) -> Row:
    return row(what, error, "{:.1e}", f"< {limit:g}", error < limit)


def _bits(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _textbook(model: POSSM) -> Callable:
    return lambda batch, times, session: forward_textbook(model, batch.padded(), times, session)
