"""Results of a run for people: a table and a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .evaluate import Decoded
from .session import Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {"possm": "POSSM", "wiener": "Wiener filter", "gru": "GRU on counts"}
_TRUE, _DECODED = "#333333", "#d55e00"  # black and vermilion of Okabe and Ito, distinct with colour blindness


def names_as_they_are():
    """A context in which matplotlib draws a "$" in a name, and does not take what follows for a formula."""
    from matplotlib import rc_context  # slow to import

    return rc_context({"text.parse_math": False})


def table(models: dict[str, dict], columns: Sequence[str]) -> str:
    """The models of `metrics.json` side by side, as lines of text: R² of each column of behaviour, costs."""
    results = models.values()
    rows = [("", *(_NAMES.get(name, name) for name in models))]
    if len(columns) > 1:
        rows += [(f"R² {name}", *(_score(m["r2_columns"][i]) for m in results)) for i, name in enumerate(columns)]
    rows.append(("R² mean", *(_score(m["r2"]) for m in results)))
    rows.append(("R² displayed", *(_score(m.get("r2_displayed")) for m in results)))  # absent from older runs
    rows += [("parameters", *(f"{m['params']:,}" for m in results))]
    for label, key in (("train s", "train_s"), ("µs/bin p50", "step_us_p50"), ("µs/bin p99", "step_us_p99")):
        rows.append((label, *(f"{m[key]:.1f}" for m in results)))
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


def _score(r2: float | None) -> str:
    return "-" if r2 is None else f"{r2:.3f}"


def plot_decoded(decoded: Decoded, session: Session, n_trials: int = 4, max_columns: int = 6) -> Figure:
    """Recorded and decoded behaviour of some held-out trials against time; of a planar velocity also the paths.

    Trials are spread over the test part, columns over all of them. Without trials, segments of four seconds are shown.
    A path is the integral of velocity from the start of the trial. The notes of the recording are below the figure.
    """
    from matplotlib.figure import Figure  # slow to import

    recording = session.recording
    intervals = session.split.test
    if len(recording.trials):
        intervals = intervals[np.unique(np.linspace(0, len(intervals) - 1, n_trials).round().astype(int))]
    else:
        start, stop = intervals[0]
        starts = np.linspace(start, max(stop - 4.0, start), n_trials)
        intervals = np.stack([starts, np.minimum(starts + 4.0, stop)], 1)
    trials = [(start, (decoded.times_s >= start) & (decoded.times_s < stop)) for start, stop in intervals]
    # a line needs two samples; if all trials are shorter, show the whole part
    trials = [trial for trial in trials if trial[1].sum() > 1] or [(decoded.times_s[0], slice(None))]
    unit = recording.behavior_unit
    names = recording.behavior_columns
    shown = np.unique(np.linspace(0, len(names) - 1, max_columns).round().astype(int))
    has_path = len(names) == 2 and unit.endswith("/s")
    n_rows = len(shown) + has_path
    n_columns = len(trials)
    figure = Figure(figsize=(2.6 * max(n_columns, 2), 1.2 + 2.0 * n_rows), layout="constrained")
    top, *bottom = figure.subfigures(1 + has_path, squeeze=False, height_ratios=(len(shown), 1)[: 1 + has_path])[:, 0]
    axes = top.subplots(len(shown), n_columns, sharex="col", sharey="row", squeeze=False)
    path_axes = bottom[0].subplots(1, n_columns, squeeze=False)[0] if has_path else ()
    for values, color, label in ((decoded.true, _TRUE, "recorded"), (decoded.decoded, _DECODED, "decoded")):
        for column, (start, inside) in enumerate(trials):
            time = decoded.times_s[inside] - start
            for ax, v in zip(axes[:, column], values[inside][:, shown].T, strict=True):
                ax.plot(time, v, color=color, lw=1.3, label=label)
            if has_path:
                path = np.cumsum(values[inside] * np.diff(time, prepend=time[0])[:, None], 0)
                path_axes[column].plot(*path.T, color=color, lw=1.4)
                path_axes[column].plot(*path[-1], "o", color=color, ms=4)
    for ax in axes[-1]:
        ax.set_xlabel("time in trial (s)" if len(recording.trials) else "time (s)")
    for ax, name in zip(axes[:, 0], names[shown], strict=True):
        ax.set_ylabel(f"{name} ({unit})")
    for ax in path_axes:
        ax.set_aspect("equal", adjustable="datalim")
        ax.set(xlabel=f"path: {names[0]} ({unit.removesuffix('/s')})", ylabel=names[1])
    part = f", {len(shown)} of {len(names)} columns" if len(shown) < len(names) else ""
    figure.suptitle(
        f"{recording.session_id}: {recording.behavior_name}{part}\nheld-out, R² = {decoded.r2:.3f} over all of it"
    )
    axes[0, 0].legend(frameon=False, fontsize="small", loc="best")
    lines = [line for note in recording.notes for line in textwrap.wrap(note, width=30 * max(n_columns, 2))]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize="x-small", color="#555555")
    return figure
