"""Time of one bin: StreamingDecoder, padded form, POYO, GRU cell; in a loop, at the pace of a rig, at many sizes."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle

import numpy as np

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder

from .competitors import PaddedPossm, Poyo, gru_cell
from .machine import ratio, threads, time_in_turns
from .page import Item, Note, Table, row

SIZES = {"units": 182, "spikes": 26, "hidden": 256}
OFFSETS_S = np.arange(5) * 0.01  # five outputs a bin
BIN_S = 0.05
OTHER_SIZES = (("units", 50), ("units", 2000), ("spikes", 5), ("spikes", 500), ("hidden", 64), ("hidden", 1024))
STREAMING, GRU = "streaming step", "torch.gru_cell"
PADDED, POYO = "POSSM, padded, eager torch", "POYO, 1.27 M parameters, last 1 s"


def measure(short: bool = False) -> Iterator[Item]:
    """The rows of the section; `short`: few bins."""
    with threads(1):
        if short:
            yield from _comparison(rounds=3, n_bins=4)
            yield from _paced(rounds=2, n_bins=2)
            yield from _at_other_sizes(rounds=2, n_bins=2)
        else:
            yield from _comparison(rounds=200, n_bins=100)
            yield from _paced(rounds=16, n_bins=25)
            yield from _at_other_sizes(rounds=15, n_bins=30)


def _comparison(rounds: int, n_bins: int) -> Iterator[Item]:
    """Percentiles of each decoder at the standard sizes."""
    times = time_in_turns(_calls(SIZES), rounds, n_bins)
    us = {name: 1e6 * np.percentile(each, (50, 99, 99.9)) for name, each in times.items()}
    p50, over_gru = us[STREAMING][0], ratio(times[STREAMING], times[GRU])
    yield row("streaming step, p50", p50, "{:.0f} µs", "<= 150 µs", p50 <= 150)
    yield row("streaming step over a bare torch.gru_cell, p50", over_gru, "{:.1f} x", "<= 5 x", over_gru <= 5)
    if POYO not in times:
        yield Note("torch_brain is not installed: POYO was skipped (`make bench` installs it).")
    else:
        faster = ratio(times[POYO], times[STREAMING])
        yield row("times faster than POYO on its window of 1 s, p50", faster, "{:.0f} x", ">= 100 x", faster >= 100)
    size = f"{SIZES['units']} units, {SIZES['spikes']} spikes a bin, {len(OFFSETS_S)} outputs"
    title = f"{size}, one thread, {times[STREAMING].size:,} bins each"
    table = Table(title, ["", "p50 µs", "p99 µs", "p99.9 µs", "times the streaming step"], [])
    for name, each in times.items():
        values = [*us[name], ratio(each, times[STREAMING])]
        table.rows.append([name, *map(_digits, values)])
    yield table


def _paced(rounds: int, n_bins: int) -> Iterator[Item]:
    """Called once a bin, as at a rig, sleeping in between, beside one call right after the other."""
    calls = {name: call for name, call in _calls(SIZES).items() if name in (STREAMING, GRU)}
    title = f"Called every 50 ms, as at a rig, one thread, {rounds * n_bins:,} bins each"
    table = Table(title, ["", "called", "p50 µs", "p99 µs"], [])
    pauses = {"one after the other": lambda: None, "sleeping in between": _sleep_to_next_bin}
    for how, pause in pauses.items():
        times = time_in_turns(calls, rounds, n_bins, pause)
        us = {name: 1e6 * np.percentile(each, (50, 99)) for name, each in times.items()}
        table.rows.extend([name, how, *map(_digits, us[name])] for name in calls)
    p50, over_gru = us[STREAMING][0], ratio(times[STREAMING], times[GRU])  # of the calls with sleep in between
    yield row("streaming step, called every 50 ms, p50", p50, "{:.0f} µs", "<= 2,000 µs", p50 <= 2000)
    what = "the same over a torch.gru_cell called every 50 ms"
    yield row(what, over_gru, "{:.1f} x", "<= 1.6 x", over_gru <= 1.6)
    yield table
    cause = "the shorter the cell's own time there, the nearer it comes to the ratio in a loop"
    yield Note(f"The ratio at 50 ms varies from run to run: {cause}.")


def _sleep_to_next_bin() -> None:
    time.sleep(BIN_S - time.perf_counter() % BIN_S)


def _at_other_sizes(rounds: int, n_bins: int) -> Iterator[Item]:
    """Median times where one size is another."""
    head = [f"{n:,} {size}" for size, n in OTHER_SIZES]
    found: dict[str, list[str]] = {}
    for size, n in OTHER_SIZES:
        calls = _calls(SIZES | {size: n})
        repeats = dict.fromkeys(calls, n_bins) | {POYO: 1}
        for name, each in time_in_turns(calls, rounds, repeats).items():
            found.setdefault(name, []).append(_digits(1e6 * float(np.median(each))))
    yield Table("With other sizes, p50 in µs", ["", *head], [[name, *us] for name, us in found.items()])


def _calls(sizes: dict[str, int]) -> dict[str, Callable]:
    """Functions that decode one bin after the other, the same spikes for all; POYO's window is full on return.

    Args:
        sizes: with the keys of `SIZES`.

    Returns:
        By name; without POYO where it is not installed.
    """
    model = POSSM(POSSMConfig(n_units=sizes["units"], hidden=sizes["hidden"])).eval()
    steps = {
        STREAMING: StreamingDecoder(model, 1, OFFSETS_S).step,
        GRU: gru_cell(model),
        PADDED: PaddedPossm(model, OFFSETS_S).step,
    }
    with suppress(ImportError):  # torch_brain or one of its dependencies
        steps[POYO] = Poyo(sizes["units"], OFFSETS_S).step
    rng = np.random.default_rng(0)
    n = sizes["spikes"]
    bins = [(rng.integers(1, sizes["units"] + 1, n), rng.random(n) * BIN_S) for _ in range(100)]
    calls = {name: _stepper(step, bins) for name, step in steps.items()}
    for call in calls.values():
        for _ in range(20):
            call()
    return calls


def _stepper(step: Callable, bins: list) -> Callable:
    coming = cycle(bins)
    return lambda: step(*next(coming))


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 20 else f"{value:.2g}"
