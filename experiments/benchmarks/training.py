"""Time and memory of a training step, ragged and padded."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.textbook import forward_textbook
from possm_lite.recordings import SpikeBatch

from .machine import in_new_process, ratio, threads, time_in_turns
from .page import Item, Note, row

N_UNITS, N_WINDOWS, N_SPIKES, N_QUERIES = 182, 64, 34_000, 100  # windows of 1 s
RAGGED, PADDED = FORMS = ("ragged", "padded")


def measure(short: bool = False) -> Iterator[Item]:
    """The rows of the section; `short`: few windows and spikes."""
    n_windows, n_spikes, rounds = (4, 400, 2) if short else (N_WINDOWS, N_SPIKES, 100)
    times = time_in_turns({form: training_step(form, n_windows, n_spikes) for form in FORMS}, rounds)
    ms = {form: 1e3 * float(np.median(each)) for form, each in times.items()}
    faster = ratio(times[PADDED], times[RAGGED])
    what = f"{n_windows} windows of 1 s, {n_spikes:,} spikes, ragged against padded"
    yield row(what, faster, "{:.2f} x faster", ">= 3 x", faster >= 3)
    for n, limit in ((1, 75), (2, 45)):
        with threads(n):
            step = training_step(RAGGED, n_windows, n_spikes)
            took = 1e3 * float(np.median(time_in_turns({RAGGED: step}, rounds)[RAGGED]))
        yield row(f"the same step, ragged, threads: {n}", took, "{:.1f} ms", f"<= {limit} ms", took <= limit)
    mib = {form: in_new_process(peak_of_step, form, n_windows, n_spikes) for form in FORMS}
    less = mib[RAGGED] / mib[PADDED]
    yield row("peak memory, ragged to padded", less, "ratio {:.2f}", "<= 0.5", less <= 0.5)
    yield Note("; ".join(f"{form}: {ms[form]:.0f} ms, {mib[form]:.0f} MiB" for form in FORMS) + ".")


def peak_of_step(form: str, n_windows: int, n_spikes: int) -> float:
    """Peak memory of one training step beyond that of the process before it, in MiB."""
    step = training_step(form, n_windows, n_spikes)
    before = _peak_memory_mib()
    step()
    return _peak_memory_mib() - before


def _peak_memory_mib() -> float:
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, ru_maxrss of a new process starts at its parent's value
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS


def training_step(form: str, n_windows: int, n_spikes: int) -> Callable[[], None]:
    """A forward and backward pass over windows of 1 s; the units' rates are log-normal, as in recordings.

    Args:
        form: one of `FORMS`.
        n_windows: in the batch.
        n_spikes: of all windows together.
    """
    rng = np.random.default_rng(0)
    rates = rng.lognormal(0.0, 1.0, N_UNITS)
    unit = 1 + rng.choice(N_UNITS, n_spikes, p=rates / rates.sum())
    window, time_s = rng.integers(0, n_windows, n_spikes), rng.random(n_spikes)
    batch = SpikeBatch.from_events(window, unit, time_s, n_windows, 1.0)
    times = torch.arange(N_QUERIES, dtype=torch.float64).expand(n_windows, N_QUERIES) / N_QUERIES
    session = torch.ones(n_windows, dtype=torch.int64)
    target = torch.randn(n_windows, N_QUERIES, 2)
    model = POSSM(POSSMConfig(n_units=N_UNITS))
    padded = batch.padded()  # made before: padding is not timed

    def step():
        model.zero_grad()
        velocity = model(batch, times, session) if form == RAGGED else forward_textbook(model, padded, times, session)
        (velocity - target).square().mean().backward()

    return step
