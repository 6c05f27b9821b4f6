"""What a training step costs, ragged beside padded: time, memory, and how near it comes to what the machine can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from possm_lite.classroom.style import BLUE, ORANGE
from possm_lite.classroom.training_cost import operations
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.textbook import forward_textbook
from possm_lite.spikes import SpikeBatch

from .machine import apart, high_water_mib, in_turn, product_rate, ratio
from .parts import Note, Part, Picture, Table, row

N_UNITS, N_WINDOWS, N_SPIKES, N_QUERIES = 182, 64, 34_000, 100  # windows of 1 s
RAGGED, PADDED = FORMS = ("ragged", "padded")
INKS = {RAGGED: ORANGE, PADDED: BLUE}


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Args:
        rounds: of the step that the limits are about.
        grid_rounds: of each other one.
        windows: batch sizes, with as many spikes a window as there.
        spikes: a window, with as many windows.
    """

    rounds: int
    grid_rounds: int
    windows: tuple[int, ...]
    spikes: tuple[int, ...]


FULL = Size(30, 7, (1, 4, 16, 64, 128), (50, 100, 250, 531, 1000, 2000))
SHORT = Size(2, 1, (1, 2), (5,))


def measure(short: bool = False) -> Iterator[Part]:
    size = SHORT if short else FULL
    n_windows, n_spikes = (4, 400) if short else (N_WINDOWS, N_SPIKES)
    times = _timed(n_windows, n_spikes, size.rounds)
    faster = ratio(times[PADDED], times[RAGGED])
    ms = {form: 1e3 * float(np.median(each)) for form, each in times.items()}
    what = f"{n_windows} windows of 1 s, {n_spikes:,} spikes: {ms[RAGGED]:.0f} ms ragged, {ms[PADDED]:.0f} ms padded"
    yield row(what, faster, "{:.2f} x faster", ">= 3 x", faster >= 3)
    peaks = _peaks([(n_windows, n_spikes)])[0]
    less = peaks[RAGGED] / peaks[PADDED]
    what = f"its peak memory: {peaks[RAGGED]:.0f} MiB ragged, {peaks[PADDED]:.0f} MiB padded"
    yield row(what, less, "{:.2f} of it", "<= 0.5", less <= 0.5)
    yield from _against_the_machine(n_windows, n_spikes, ms[RAGGED])
    per_window = n_spikes // n_windows
    for axis, grid in (
        ("windows", [(n, n * per_window) for n in size.windows]),
        ("spikes in a window", [(n_windows, n_windows * n) for n in size.spikes]),
    ):
        yield from _grid(axis, grid, size.grid_rounds)


def _against_the_machine(n_windows: int, n_spikes: int, ms: float) -> Iterator[Part]:
    """Operations that a step needs, over those that products of large matrices reach in its time."""
    needed = operations(POSSMConfig(n_units=N_UNITS)).step(N_UNITS, n_spikes, 20 * n_windows, n_windows * N_QUERIES)
    rate, most = needed / (ms / 1e3), product_rate()
    what = f"its {needed / 1e9:.1f} billion operations, a second, over what products of large matrices reach"
    yield row(what, 100 * rate / most, f"{rate / 1e9:.0f} of {most / 1e9:.0f} billion, {{:.0f}} %")
    yield Note(
        "Operations are those of the products of the ragged form (`possm_lite.classroom.training_cost`); softmax, "
        "norms, gates, sines and the gathering of spikes take time and count nothing."
    )


def _grid(axis: str, grid: list[tuple[int, int]], rounds: int) -> Iterator[Part]:
    """Spikes a second and peak memory at each (windows, spikes)."""
    head = ["windows", "spikes", *(f"{form}, {what}" for what in ("spikes/s", "MiB") for form in FORMS), "times faster"]
    table = Table(f"Against {axis}", head)
    rates, peaks = {form: [] for form in FORMS}, _peaks(grid)
    for (windows, spikes), peak in zip(grid, peaks, strict=True):
        times = _timed(windows, spikes, rounds)
        for form in FORMS:
            rates[form].append(spikes / float(np.median(times[form])))
        numbers = [*(rates[form][-1] for form in FORMS), *(peak[form] for form in FORMS)]
        faster = f"{ratio(times[PADDED], times[RAGGED]):.1f}"
        table.rows.append([str(windows), f"{spikes:,}", *(f"{number:,.0f}" for number in numbers), faster])
    yield table
    place = axis == "spikes in a window"
    x = [spikes / windows if place else windows for windows, spikes in grid]
    name, says = f"training_{axis.split()[0]}", f"Spikes a second and peak memory of a training step against {axis}"
    yield Picture(name, says, _drawn(axis, x, rates, peaks))


def _timed(n_windows: int, n_spikes: int, rounds: int) -> dict[str, np.ndarray]:
    return in_turn({form: training_step(form, n_windows, n_spikes) for form in FORMS}, rounds)


def _peaks(grid: list[tuple[int, int]]) -> list[dict[str, float]]:
    """MiB by form, of each (windows, spikes)."""
    tasks = [(place, form, *sizes) for place, sizes in enumerate(grid) for form in FORMS]
    peaks = [{} for _ in grid]
    for place, form, mib in apart(peak_mib, tasks, fresh=True):
        peaks[place][form] = mib
    return peaks


def peak_mib(place: int, form: str, n_windows: int, n_spikes: int) -> tuple[int, str, float]:
    """Memory of a training step beyond what the process held before it; to be called in a process of its own."""
    step = training_step(form, n_windows, n_spikes)
    before = high_water_mib()
    step()
    return place, form, high_water_mib() - before


def training_step(form: str, n_windows: int, n_spikes: int) -> Callable[[], None]:
    """A forward and a backward pass over windows of 1 s of units whose rates differ, as recorded ones do."""
    rng = np.random.default_rng(0)
    rates = rng.lognormal(0.0, 1.0, N_UNITS)
    unit = 1 + rng.choice(N_UNITS, n_spikes, p=rates / rates.sum())
    batch = SpikeBatch.from_events(rng.integers(0, n_windows, n_spikes), unit, rng.random(n_spikes), n_windows, 1.0)
    times = torch.arange(N_QUERIES, dtype=torch.float64).expand(n_windows, N_QUERIES) / N_QUERIES
    session, target = torch.ones(n_windows, dtype=torch.int64), torch.randn(n_windows, N_QUERIES, 2)
    model = POSSM(POSSMConfig(n_units=N_UNITS))
    padded = batch.padded()  # made once: its making is not counted

    def step():
        model.zero_grad()
        answer = model(batch, times, session) if form == RAGGED else forward_textbook(model, padded, times, session)
        (answer - target).square().mean().backward()

    return step


def _drawn(axis: str, x: list[float], rates: dict[str, list[float]], peaks: list[dict[str, float]]) -> Figure:
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    speed, memory = figure.subplots(1, 2)
    for form in FORMS:
        speed.loglog(x, rates[form], "o-", color=INKS[form], ms=4, lw=1, label=form)
        memory.loglog(x, [max(peak[form], 1.0) for peak in peaks], "o-", color=INKS[form], ms=4, lw=1)
    speed.set_ylabel("spikes a second")
    memory.set_ylabel("peak memory (MiB)")
    for panel in (speed, memory):
        panel.set_xticks(x, [f"{value:,.0f}" for value in x], fontsize="small")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.minorticks_off()
        panel.set_xlabel(axis)
        panel.grid(alpha=0.3)
    speed.legend(frameon=False, fontsize="small")
    return figure
