"""How long an answer takes: streaming step, padded eager decoder, POYO, and the GRU cell that none can beat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure

from possm_lite.classroom.style import BLUE, GREEN, INK, ORANGE
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder

from .contenders import BareCell, PaddedEager, Poyo, Products
from .machine import in_turn, ratio, threads
from .parts import Note, Part, Picture, Table, row

N_UNITS, N_SPIKES, HIDDEN = 182, 26, 256
OFFSETS = np.arange(5) * 0.01  # s, five answers a bin
OURS, EAGER, POYO, CELL, PRODUCTS = "streaming step", "padded, eager", "POYO", "torch.gru_cell", "its products, NumPy"
INKS = {OURS: ORANGE, EAGER: BLUE, POYO: GREEN, CELL: INK}


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Args:
        rounds, bins: turns of each decoder, and bins in a turn.
        growth_rounds, growth_bins: the same at each point of the curves; of POYO a turn is one bin.
        axes: what grows: values, and the power of it that the time should grow with.
    """

    rounds: int
    bins: int
    growth_rounds: int
    growth_bins: int
    axes: dict[str, tuple[tuple[int, ...], int]]


FULL = Size(
    rounds=200,
    bins=100,
    growth_rounds=15,
    growth_bins=30,
    axes={
        "units": ((50, 100, 200, 500, 1000, 2000), 1),
        "spikes": ((5, 10, 25, 50, 100, 200, 500), 1),
        "hidden": ((64, 128, 256, 512, 1024), 2),
    },
)
SHORT = Size(3, 4, 2, 2, {"units": ((10, 20, 40), 1), "spikes": ((2, 10, 20), 1), "hidden": ((8, 16, 32), 2)})


def measure(short: bool = False) -> Iterator[Part]:
    size = SHORT if short else FULL
    with threads(1):
        yield from _beside_each_other(size)
        yield from _growth(size)


def _beside_each_other(size: Size) -> Iterator[Part]:
    contenders = _contenders(N_UNITS, HIDDEN)
    if POYO not in contenders:
        yield Note("torch_brain is not installed: POYO was skipped (`make bench` installs it).")
    times = in_turn(_calls(contenders, N_UNITS, N_SPIKES), size.rounds, size.bins)
    us = {name: 1e6 * np.percentile(each, (50, 99, 99.9)) for name, each in times.items()}
    p50 = us[OURS][0]
    over = ratio(times[OURS], times[CELL])
    yield row("streaming step, p50", p50, "{:.0f} µs", "<= 150 µs", p50 <= 150)
    yield row("streaming step over a bare torch.gru_cell, p50", over, "{:.1f} x", "<= 5 x", over <= 5)
    if POYO in times:
        faster = ratio(times[POYO], times[OURS])
        yield row("times faster than POYO on its window of 1 s, p50", faster, "{:.0f} x", ">= 100 x", faster >= 100)
    title = (
        f"{N_UNITS} units, {N_SPIKES} spikes a bin, {len(OFFSETS)} answers, one thread, {times[OURS].size:,} bins each"
    )
    table = Table(title, ["", "p50 µs", "p99 µs", "p99.9 µs", "times the streaming step"])
    for name, each in times.items():
        table.rows.append([_told(name, contenders), *map(_digits, us[name]), _digits(ratio(each, times[OURS]))])
    yield table


def _growth(size: Size) -> Iterator[Part]:
    measured = {axis: _curve(axis, values, size) for axis, (values, _) in size.axes.items()}
    head = ["", "grows from", "p50 µs", "fitted", "farthest point from the fit"]
    table = Table("As units, spikes in a bin or the hidden state grow", head)
    for axis, (values, power) in size.axes.items():
        for name, us in measured[axis].items():
            start, slope, error = fitted(np.array(values, float), us, power)
            formula = f"{_digits(start)} {'+-'[slope < 0]} {_digits(abs(slope))} x {axis}{'²' if power == 2 else ''}"
            ends = f"{_digits(us[0])} to {_digits(us[-1])}"
            table.rows.append(
                [f"{name}, {axis}", f"{values[0]} to {values[-1]:,}", ends, formula, f"{100 * error:.0f} %"]
            )
    yield table
    others = f"Elsewhere {N_UNITS} units, {N_SPIKES} spikes a bin, a hidden state of {HIDDEN}."
    yield Note(f"Medians, in µs; the fit is the one of least squares of relative errors. {others}")
    says = "Microseconds a bin against units, spikes in a bin and hidden size, for each decoder, with the fitted growth"
    yield Picture("latency", says, _drawn(size, measured))


def _curve(axis: str, values: tuple[int, ...], size: Size) -> dict[str, np.ndarray]:
    """Median microseconds of each decoder at each value."""
    us: dict[str, list[float]] = {}
    for value in values:
        at = {"units": N_UNITS, "spikes": N_SPIKES, "hidden": HIDDEN} | {axis: value}
        contenders = _contenders(at["units"], at["hidden"])
        contenders.pop(PRODUCTS)
        if axis == "hidden":
            contenders.pop(POYO, None)  # it has none
        bins = dict.fromkeys(contenders, size.growth_bins) | {POYO: 1}
        times = in_turn(_calls(contenders, at["units"], at["spikes"]), size.growth_rounds, bins)
        for name, each in times.items():
            us.setdefault(name, []).append(1e6 * float(np.median(each)))
    return {name: np.array(each) for name, each in us.items()}


def fitted(x: np.ndarray, y: np.ndarray, power: int) -> tuple[float, float, float]:
    """`a`, `b` of y = a + b x^power with the least squared relative error, and the largest relative error there is."""
    columns = np.stack([np.ones_like(x), x**power], 1) / y[:, None]
    a, b = np.linalg.lstsq(columns, np.ones_like(x), rcond=None)[0]
    return float(a), float(b), float(np.abs((a + b * x**power) / y - 1).max())


def _contenders(n_units: int, hidden: int) -> dict[str, object]:
    model = POSSM(POSSMConfig(n_units=n_units, hidden=hidden)).eval()
    found = {
        OURS: StreamingDecoder(model, 1, OFFSETS),
        CELL: BareCell(model),
        PRODUCTS: Products(model),
        EAGER: PaddedEager(model, OFFSETS),
    }
    with suppress(ImportError):  # torch_brain or something that it needs
        found[POYO] = Poyo(n_units, OFFSETS)
    return found


def _calls(contenders: dict, n_units: int, n_spikes: int) -> dict[str, Callable]:
    """One bin after the other to each of them, the same spikes to all; POYO's window is full when this is done."""
    rng = np.random.default_rng(0)
    bins = [(rng.integers(1, n_units + 1, n_spikes), rng.random(n_spikes) * 0.05) for _ in range(100)]
    calls = {name: _stepper(contender, bins) for name, contender in contenders.items()}
    for call in calls.values():
        for _ in range(20):
            call()
    return calls


def _stepper(contender, bins: list) -> Callable:
    step, coming = contender.step, cycle(bins)
    return lambda: step(*next(coming))


def _told(name: str, contenders: dict) -> str:
    if name == POYO:
        return f"POYO, {contenders[POYO].n_parameters / 1e6:.2f} M parameters, 1 s anew for each bin"
    return {EAGER: "our own decoder, padded, in torch operators", OURS: "our streaming step"}.get(name, name)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 20 else f"{value:.2g}"


def _drawn(size: Size, measured: dict[str, dict[str, np.ndarray]]) -> Figure:
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = figure.subplots(1, len(measured), sharey=True)
    for panel, (axis, curves) in zip(panels, measured.items(), strict=True):
        values, power = size.axes[axis]
        x, fine = np.array(values, float), np.geomspace(values[0], values[-1], 100)
        for name, us in curves.items():
            panel.loglog(x, us, "o", color=INKS[name], ms=4, label=name)
            start, slope, _ = fitted(x, us, power)
            panel.loglog(fine, start + slope * fine**power, color=INKS[name], lw=1)
        panel.set_xticks(values, [f"{value:,}" for value in values], fontsize="small")
        panel.minorticks_off()
        panel.set_xlabel({"units": "units", "spikes": "spikes in a bin", "hidden": "hidden state"}[axis])
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("one bin (µs, median)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return figure
