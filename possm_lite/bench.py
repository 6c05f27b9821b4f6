"""What the README claims, measured: `possm-lite bench [NAME ...]`."""

from __future__ import annotations

import json
import multiprocessing
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from .decoder import POSSM, POSSMConfig, StreamingDecoder
from .decoder.textbook import encode_textbook, forward_textbook
from .spikes import SpikeBatch, load_recording
from .training import FitConfig, evaluate, fit, prepare
from .training.baselines import fit_wiener

SHARED = Path(__file__).resolve().parents[2] / "shared"
Row = tuple[str, str, str, bool]  # what, measured, limit, whether it holds


def main(only: list[str]) -> int:
    """Measure and print; 1 if a limit is missed, 2 for a name that is none of the benchmarks."""
    unknown = sorted(set(only) - set(BENCHMARKS))
    if unknown:
        print(f"possm-lite: bench knows {', '.join(BENCHMARKS)}, not {unknown[0]!r}", file=sys.stderr)
        return 2
    print(f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    missed = 0
    for name in only or BENCHMARKS:
        for what, measured, limit, holds in BENCHMARKS[name]():
            missed += not holds
            print(f"{'ok  ' if holds else 'MISS'}  {name:9}  {what:52}  {measured:>24}  {limit}", flush=True)
    return 1 if missed else 0


def oracle() -> Iterator[Row]:
    """The numbers of the authors' implementation, through both forms and in both precisions."""
    path = SHARED / "oracle" / "possm_small.npz"
    if not path.exists():
        yield "authors' numbers", "not here, skipped", "", True
        return
    with np.load(path, allow_pickle=False) as file:
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
            yield f"largest error, {form}, {dtype}", f"{error:.1e}", f"< {limit:g}", error < limit
            gradients.append(torch.autograd.grad(outputs["velocity"].square().sum(), list(model.parameters())))
        if dtype == torch.float64:
            apart = max(float((a - b).abs().max()) for a, b in zip(*gradients, strict=True))
            yield "gradients of the two forms apart", f"{apart:.1e}", "< 1e-9", apart < 1e-9


def decode() -> Iterator[Row]:
    """The main job, as a command, on the embedded session."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.json"
        began = time.perf_counter()
        command = [sys.executable, "-m", "possm_lite", "decode", "--out", f"{folder}/run", "--json", str(path)]
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - began
        models = json.loads(path.read_text(encoding="utf-8"))["models"]
    possm, wiener, gru = (models[name]["r2"] for name in ("possm", "wiener", "gru"))
    yield "decode, all of it", f"{seconds:.0f} s", "< 60 s", seconds < 60
    yield "Wiener filter R²", f"{wiener:.3f}", "0.65 to 0.80", 0.65 <= wiener <= 0.80
    yield "POSSM R²", f"{possm:.3f}", f">= {wiener + 0.1:.3f}, Wiener + 0.10", possm >= wiener + 0.1
    yield "GRU on counts R²", f"{gru:.3f}", "<= POSSM", gru <= possm


def real() -> Iterator[Row]:
    """A recording of motor cortex (Stevenson et al. 2011), three seeds."""
    path = SHARED / "data" / "m1_stevenson_2011.mat"
    if not path.exists():
        yield "real recording", "not here, skipped", "", True
        return
    session = prepare(load_recording(path))
    yield "Wiener filter R²", f"{evaluate(fit_wiener(session), session).r2:.3f}", "", True
    scores, seconds = [], []
    for seed in range(3):
        torch.manual_seed(seed)
        model = POSSM(POSSMConfig(n_units=session.recording.n_units))
        seconds.append(fit(model, session, FitConfig(epochs=60, seed=seed), progress=False).seconds)
        scores.append(evaluate(model, session).r2)
    each = " ".join(f"{score:.3f}" for score in scores)
    yield f"POSSM R², mean of {each}", f"{np.mean(scores):.3f}", ">= 0.88", np.mean(scores) >= 0.88
    yield "longest training", f"{max(seconds):.0f} s", "<= 120 s", max(seconds) <= 120


def training() -> Iterator[Row]:
    """One training step, ragged beside padded: 64 windows of 1 s, 182 units, 34,000 spikes, 100 queries a window."""
    steps = {form: _training_step(form) for form in ("ragged", "padded")}
    times = {form: [] for form in steps}
    for step in steps.values():
        step()
    for _ in range(15):  # in turn, so that a slow moment of the machine falls on both
        for form, step in steps.items():
            began = time.perf_counter()
            step()
            times[form].append(time.perf_counter() - began)
    ragged, padded = (1e3 * float(np.median(t)) for t in times.values())
    ratio = float(np.median(np.array(times["padded"]) / np.array(times["ragged"])))
    yield f"step {ragged:.0f} ms ragged, {padded:.0f} ms padded", f"{ratio:.2f} x faster", ">= 3 x", ratio >= 3
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        peaks = [pool.apply(_peak_mib, (form,)) for form in steps]
    what = f"peak {peaks[0]:.0f} MiB ragged, {peaks[1]:.0f} MiB padded"
    yield what, f"{peaks[0] / peaks[1]:.2f} of it", "<= 0.5", peaks[0] <= 0.5 * peaks[1]


def streaming() -> Iterator[Row]:
    """One step of the streaming decoder beside a bare GRU cell: 182 units, 26 spikes a bin, 5 queries, one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    model = POSSM(POSSMConfig(n_units=182))
    offsets = np.arange(5) * 0.01
    bins = [(rng.integers(1, 183, 26), rng.random(26) * 0.05) for _ in range(100)]
    stream, cell = StreamingDecoder(model, 1, offsets), _bare_cell(model)
    ours, bare = np.empty((40, 100)), np.empty((40, 100))
    for round_ in range(40):  # in turn, as above
        ours[round_] = [_seconds(stream.step, *spikes) for spikes in bins]
        bare[round_] = [_seconds(cell) for _ in bins]
    p50, p99 = (1e6 * float(np.percentile(ours[1:], q)) for q in (50, 99))
    ratio = float(np.median(np.median(ours[1:], 1) / np.median(bare[1:], 1)))
    torch.set_num_threads(threads)
    yield f"step p50 (p99 {p99:.0f} µs)", f"{p50:.0f} µs", "<= 150 µs", p50 <= 150
    what = f"step beside torch.gru_cell, {1e6 * float(np.median(bare[1:])):.0f} µs"
    yield what, f"{ratio:.1f} x", "<= 5 x", ratio <= 5
    for dtype, limit in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
        apart = _streamed_and_batch_apart(model.to(dtype), bins, offsets)
        yield f"streamed and batch answers apart, {dtype}", f"{apart:.1e}", f"< {limit:g}", apart < limit


def widgets() -> Iterator[Row]:
    """From the move of a slider to its new picture, for the two named figures of the course."""
    try:
        from .classroom.figures import kernel_width, rotation_angle
        from .classroom.widgets import Slider, explore
    except ModuleNotFoundError as missing:
        yield "slider step", f"no {missing.name}, skipped", "", True
        return
    rng = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(57, generator=rng)
    y = 400 * torch.sin(4 * x) + 40 * torch.randn(57, generator=rng)  # mm/s
    width, query = Slider("w (1/s)", 1.0, 300.0, log=True), Slider("query (s)", 0.0, 2.0)
    turns = {name: Slider(name, 0, 20) for name in ("m", "n", "theta")}
    for name, explorer in (
        ("kernel width", explore(kernel_width.picture(x, y, (0.0, 2.0), (1.0, 300.0)), w=width, query=query)),
        ("rotation angle", explore(rotation_angle.picture(q=(1.2, 0.5), k=(0.9, 1.0)), **turns)),
    ):
        step = explorer.step_ms()
        yield f"slider step, {name}, median", f"{step:.0f} ms", "<= 100 ms", step <= 100


BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "oracle": oracle,
    "streaming": streaming,
    "training": training,
    "widgets": widgets,
    "decode": decode,
    "real": real,
}


def _textbook(model: POSSM):
    return lambda batch, times, session: forward_textbook(model, batch.padded(), times, session)


def _training_step(form: str) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    rates = rng.lognormal(0.0, 1.0, 182)
    n = 34_000
    unit = 1 + rng.choice(182, n, p=rates / rates.sum())
    batch = SpikeBatch.from_events(rng.integers(0, 64, n), unit, rng.random(n), 64, 1.0)
    times = torch.arange(100, dtype=torch.float64).expand(64, 100) * 0.01
    session, target = torch.ones(64, dtype=torch.int64), torch.randn(64, 100, 2)
    model = POSSM(POSSMConfig(n_units=182))
    padded = batch.padded()  # made once: its making is not counted

    def step():
        model.zero_grad()
        answer = model(batch, times, session) if form == "ragged" else forward_textbook(model, padded, times, session)
        (answer - target).square().mean().backward()

    return step


def _peak_mib(form: str) -> float:
    """Memory of a training step beyond what the process held before it; in a process of its own."""
    step = _training_step(form)
    before = _high_water_mib()
    step()
    return _high_water_mib() - before


def _high_water_mib() -> float:
    """Most memory this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux, where ru_maxrss of a new process begins at that of its parent
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes


def _bare_cell(model: POSSM) -> Callable:
    x, h, weights = torch.randn(1, 64), torch.randn(1, 256), model.backbone.all_weights[0]

    @torch.no_grad()
    def cell():
        return torch.gru_cell(x, h, *weights)

    return cell


def _seconds(call: Callable, *arguments) -> float:
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began


@torch.no_grad()
def _streamed_and_batch_apart(model: POSSM, bins, offsets: np.ndarray) -> float:
    stream = StreamingDecoder(model, 1, offsets)
    answers = [stream.step(*spikes) for spikes in bins]
    unit = np.concatenate([u for u, _ in bins])
    time_s = np.concatenate([i * 0.05 + o for i, (_, o) in enumerate(bins)])
    batch = SpikeBatch.from_events(np.zeros(len(unit), int), unit, time_s, 1, len(bins) * 0.05)
    times = torch.from_numpy(np.concatenate([t for t, _ in answers]))[None]
    whole = model(batch, times, torch.ones(1, dtype=torch.int64))[0].numpy()
    return float(np.abs(np.concatenate([v for _, v in answers]) - whole).max())
