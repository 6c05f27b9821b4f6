"""What a run leaves behind for people: a table, numbers, a picture."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from .evaluate import Decoded
from .session import Session

_INK, _DECODED = "#333333", "#d55e00"  # black and vermilion of Okabe and Ito, told apart by the colour-blind


def table(models: dict[str, dict]) -> str:
    """The models of `metrics.json` as lines of text, one model a line."""
    head = ("model", "R² x", "R² y", "R² mean", "parameters", "train s", "µs/bin p50", "µs/bin p99")
    rows = [head]
    for name, m in models.items():
        scores = [_number(r, ".3f") for r in (*m["r2_xy"], m["r2"])]
        costs = [f"{m['params']:,}", *(_number(m[key], ".1f") for key in ("train_s", "step_us_p50", "step_us_p99"))]
        rows.append((_NAMES.get(name, name), *scores, *costs))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


_NAMES = {"possm": "POSSM", "wiener": "Wiener filter", "gru": "GRU on counts"}


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or math.isnan(value) else format(value, form)


def picture(decoded: Decoded, session: Session, n_trials: int = 4) -> Figure:
    """True and decoded velocity over time for some held-out trials, and below them the paths of the hand.

    Paths are the summed velocity, each from where its trial began. Without trials, four seconds stand for one.
    """
    trials = [_of_trial(decoded, *trial) for trial in _some_trials(session, n_trials)]
    # a trial of one sample has nothing to draw a line through; where all are like that, the whole part stands for one
    trials = [trial for trial in trials if len(trial[0]) > 1] or [_of_trial(decoded, decoded.times_s[0], np.inf)]
    figure = Figure(figsize=(2.6 * len(trials), 7.2), layout="constrained")
    axes = figure.subplots(3, len(trials), squeeze=False)
    for row, axis_name in enumerate("xy"):
        for column, (time, true, answer) in zip(axes[row], trials, strict=True):
            column.plot(time, true[:, row], color=_INK, lw=1.4, label="recorded")
            column.plot(time, answer[:, row], color=_DECODED, lw=1.2, label="decoded")
            column.sharey(axes[row, 0])
            column.tick_params(labelleft=column is axes[row, 0])
        axes[row, 0].set_ylabel(f"velocity {axis_name} ({session.recording.velocity_unit})")
    for column, (time, true, answer) in zip(axes[2], trials, strict=True):
        for velocity, color in ((true, _INK), (answer, _DECODED)):
            path = _path(time, velocity)
            column.plot(*path.T, color=color, lw=1.4)
            column.plot(*path[-1], "o", color=color, ms=4)
        column.set_aspect("equal", adjustable="datalim")
        column.set_xlabel(f"x ({_length_unit(session)})")
    for upper, lower in zip(*axes[:2], strict=True):
        upper.sharex(lower)
        upper.tick_params(labelbottom=False)
        lower.set_xlabel("time in trial (s)")
    axes[2, 0].set_ylabel(f"hand path y ({_length_unit(session)})")
    figure.suptitle(f"{session.recording.session_id}: held-out trials, R² = {decoded.r2:.3f} over all of them")
    axes[0, 0].legend(frameon=False, fontsize="small", loc="best")
    return figure


def _some_trials(session: Session, n: int) -> np.ndarray:
    """`n` trials spread over the test part, or as many stretches of four seconds."""
    trials = session.split.test
    if not len(session.recording.trials):
        start, stop = trials[0]
        starts = np.linspace(start, max(stop - 4.0, start), n)
        return np.stack([starts, np.minimum(starts + 4.0, stop)], 1)
    return trials[np.unique(np.linspace(0, len(trials) - 1, n).round().astype(int))]


def _of_trial(decoded: Decoded, start: float, stop: float):
    inside = (decoded.times_s >= start) & (decoded.times_s < stop)
    return decoded.times_s[inside] - start, decoded.true[inside], decoded.decoded[inside]


def _path(time: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    step = np.gradient(time) if len(time) > 1 else np.zeros(len(time))
    return np.cumsum(velocity * step[:, None], 0)


def _length_unit(session: Session) -> str:
    return session.recording.velocity_unit.removesuffix("/s")
