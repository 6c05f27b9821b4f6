"""Results of a run for people: a table and a figure."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from .evaluate import Decoded
from .session import Session

_NAMES = {"possm": "POSSM", "wiener": "Wiener filter", "gru": "GRU on counts"}
_TRUE, _DECODED = "#333333", "#d55e00"  # black and vermilion of Okabe and Ito, distinct with colour blindness


def table(models: dict[str, dict], columns: Sequence[str]) -> str:
    """The models of `metrics.json` as lines of text, one model a line; from five columns on, R² in a table below."""
    short = len(columns) <= 4
    header = [f"R² {column}" for column in columns] if short and len(columns) > 1 else []
    rows = [("model", *header, "R² mean", "parameters", "train s", "µs/bin p50", "µs/bin p99")]
    for name, m in models.items():
        scores = (_score(r2) for r2 in (*(m["r2_columns"] if header else ()), m["r2"]))
        costs = (f"{m[key]:.1f}" for key in ("train_s", "step_us_p50", "step_us_p99"))
        rows.append((_NAMES.get(name, name), *scores, f"{m['params']:,}", *costs))
    if short:
        return _aligned(rows)
    r2_rows = [("R²", *(_NAMES.get(name, name) for name in models))]
    r2_rows += [(c, *(_score(m["r2_columns"][i]) for m in models.values())) for i, c in enumerate(columns)]
    return f"{_aligned(rows)}\n\n{_aligned(r2_rows)}"


def _score(r2: float | None) -> str:
    return "-" if r2 is None else f"{r2:.3f}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:{'>' if i else '<'}{widths[i]}}" for i, cell in enumerate(row)) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def plot_decoded(decoded: Decoded, session: Session, n_trials: int = 4, max_columns: int = 6) -> Figure:
    """Recorded and decoded behaviour of some held-out trials against time; of a planar velocity also the paths.

    Trials are spread over the test part, columns over all of them. Without trials, segments of four seconds are shown.
    A path is the integral of velocity from the start of the trial. The notes of the recording are below the figure.
    """
    recording, intervals = session.recording, session.split.test
    if len(recording.trials):
        intervals = intervals[np.unique(np.linspace(0, len(intervals) - 1, n_trials).round().astype(int))]
    else:
        start, stop = intervals[0]
        starts = np.linspace(start, max(stop - 4.0, start), n_trials)
        intervals = np.stack([starts, np.minimum(starts + 4.0, stop)], 1)
    trials = [(start, (decoded.times_s >= start) & (decoded.times_s < stop)) for start, stop in intervals]
    # a line needs two samples; if all trials are shorter, show the whole part
    trials = [trial for trial in trials if trial[1].sum() > 1] or [(decoded.times_s[0], slice(None))]
    unit, n_columns = recording.behavior_unit, recording.n_columns
    shown = np.unique(np.linspace(0, n_columns - 1, max_columns).round().astype(int))
    has_path = n_columns == 2 and unit.endswith("/s")
    n_rows = len(shown) + has_path
    figure = Figure(figsize=(2.6 * max(len(trials), 2), 1.2 + 2.0 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, len(trials), squeeze=False)
    for column, (start, inside) in enumerate(trials):
        time_axes, time = axes[: len(shown), column], decoded.times_s[inside] - start
        for values, color, label in (
            (decoded.true[inside], _TRUE, "recorded"),
            (decoded.decoded[inside], _DECODED, "decoded"),
        ):
            for ax, v in zip(time_axes, values[:, shown].T, strict=True):
                ax.plot(time, v, color=color, lw=1.3, label=label)
            if has_path:
                path = np.cumsum(values * np.gradient(time)[:, None] if len(time) > 1 else 0 * values, 0)
                axes[-1, column].plot(*path.T, color=color, lw=1.4)
                axes[-1, column].plot(*path[-1], "o", color=color, ms=4)
        for row, ax in enumerate(time_axes):
            ax.sharey(axes[row, 0])
            ax.tick_params(labelleft=column == 0)
        for ax in time_axes[:-1]:
            ax.sharex(time_axes[-1])
            ax.tick_params(labelbottom=False)
        time_axes[-1].set_xlabel("time in trial (s)" if len(recording.trials) else "time (s)")
        if has_path:
            axes[-1, column].set_aspect("equal", adjustable="datalim")
            axes[-1, column].set_xlabel(f"{recording.behavior_columns[0]} ({unit.removesuffix('/s')})")
    for ax, label in zip(axes[:, 0], recording.behavior_columns[shown], strict=False):
        ax.set_ylabel(f"{label} ({unit})")
    if has_path:
        axes[-1, 0].set_ylabel(f"path: {recording.behavior_columns[1]} ({unit.removesuffix('/s')})")
    part = f", {len(shown)} of {n_columns} columns" if len(shown) < n_columns else ""
    figure.suptitle(
        f"{recording.session_id}: {recording.behavior_name}{part}\nheld-out, R² = {decoded.r2:.3f} over all of it"
    )
    axes[0, 0].legend(frameon=False, fontsize="small", loc="best")
    if recording.notes:
        lines = [line for note in recording.notes for line in textwrap.wrap(note, width=30 * max(len(trials), 2))]
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize="x-small", color="#555555")
    return figure
