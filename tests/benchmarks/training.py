"""Time and memory of a training step, ragged and padded, and its rate relative to the machine's peak."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.textbook import forward_textbook
from possm_lite.spikes import SpikeBatch

from .machine import in_new_process, matmul_rate, peak_memory_mib, ratio, threads, time_in_turns
from .page import Item, Note, Table, row

N_UNITS, N_WINDOWS, N_SPIKES, N_QUERIES = 182, 64, 34_000, 100  # windows of 1 s
RAGGED, PADDED = FORMS = ("ragged", "padded")
WINDOWS, SPIKES_PER_WINDOW = (1, 4, 16, 64, 128), (50, 100, 250, 531, 1000, 2000)


def measure(short: bool = False) -> Iterator[Item]:
    n_windows, n_spikes, rounds = (4, 400, 2) if short else (N_WINDOWS, N_SPIKES, 30)
    times = _times(n_windows, n_spikes, rounds)
    faster = ratio(times[PADDED], times[RAGGED])
    ms = {form: 1e3 * float(np.median(each)) for form, each in times.items()}
    what = f"{n_windows} windows of 1 s, {n_spikes:,} spikes: {ms[RAGGED]:.0f} ms ragged, {ms[PADDED]:.0f} ms padded"
    yield row(what, faster, "{:.2f} x faster", ">= 3 x", faster >= 3)
    for n, limit in ((1, 75), (2, 45)):
        with threads(n):
            took = 1e3 * float(np.median(_times(n_windows, n_spikes, rounds)[RAGGED]))
        yield row(f"the same step, ragged, threads: {n}", took, "{:.1f} ms", f"<= {limit} ms", took <= limit)
    mib = _peaks(n_windows, n_spikes)
    less = mib[RAGGED] / mib[PADDED]
    what = f"peak memory: {mib[RAGGED]:.0f} MiB ragged, {mib[PADDED]:.0f} MiB padded"
    yield row(what, less, "ratio {:.2f}", "<= 0.5", less <= 0.5)
    with FlopCounterMode(display=False) as counter:
        training_step(RAGGED, n_windows, n_spikes)()
    flop = counter.get_total_flops()
    rate, peak = 1e3 * flop / ms[RAGGED], matmul_rate()
    what = f"rate of its {flop / 1e9:.1f} GFLOP, relative to products of large matrices"
    yield row(what, 100 * rate / peak, f"{rate / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s, {{:.0f}} %")
    yield Note(
        "FLOP are those of the matrix products of the ragged form; softmax, norms, gates, sines and gathers take time "
        "but are not counted."
    )
    per_window = n_spikes // n_windows
    grids = {
        "Against windows": [(n, n * per_window) for n in WINDOWS],
        "Against spikes in a window": [(n_windows, n_windows * n) for n in SPIKES_PER_WINDOW],
    }
    for title, grid in grids.items():
        rows = [_grid_row(*sizes, 1 if short else 7) for sizes in (grid[:1] if short else grid)]
        forms = [f"{form}, {what}" for what in ("spikes/s", "MiB") for form in FORMS]
        yield Table(title, ["windows", "spikes", *forms, "times faster"], rows)


def _grid_row(n_windows: int, n_spikes: int, rounds: int) -> list[str]:
    """Spikes a second and peak memory of both forms, and the ratio of their times."""
    times, mib = _times(n_windows, n_spikes, rounds), _peaks(n_windows, n_spikes)
    values = [*(n_spikes / np.median(times[form]) for form in FORMS), *(mib[form] for form in FORMS)]
    faster = ratio(times[PADDED], times[RAGGED])
    return [str(n_windows), f"{n_spikes:,}", *(f"{value:,.0f}" for value in values), f"{faster:.1f}"]


def _times(n_windows: int, n_spikes: int, rounds: int) -> dict[str, np.ndarray]:
    return time_in_turns({form: training_step(form, n_windows, n_spikes) for form in FORMS}, rounds)


def _peaks(n_windows: int, n_spikes: int) -> dict[str, float]:
    """MiB by form, each in a new process."""
    return {form: in_new_process(peak_of_step, form, n_windows, n_spikes) for form in FORMS}


def peak_of_step(form: str, n_windows: int, n_spikes: int) -> float:
    """Peak memory of one training step beyond that of the process before it, in MiB."""
    step = training_step(form, n_windows, n_spikes)
    before = peak_memory_mib()
    step()
    return peak_memory_mib() - before


def training_step(form: str, n_windows: int, n_spikes: int) -> Callable[[], None]:
    """A forward and backward pass over windows of 1 s; the units' rates are log-normal, as in recordings."""
    rng = np.random.default_rng(0)
    rates = rng.lognormal(0.0, 1.0, N_UNITS)
    unit = 1 + rng.choice(N_UNITS, n_spikes, p=rates / rates.sum())
    batch = SpikeBatch.from_events(rng.integers(0, n_windows, n_spikes), unit, rng.random(n_spikes), n_windows, 1.0)
    times = torch.arange(N_QUERIES, dtype=torch.float64).expand(n_windows, N_QUERIES) / N_QUERIES
    session, target = torch.ones(n_windows, dtype=torch.int64), torch.randn(n_windows, N_QUERIES, 2)
    model = POSSM(POSSMConfig(n_units=N_UNITS))
    padded = batch.padded()  # made before: padding is not timed

    def step():
        model.zero_grad()
        velocity = model(batch, times, session) if form == RAGGED else forward_textbook(model, padded, times, session)
        (velocity - target).square().mean().backward()

    return step
