"""Results of a run for people: a table and a figure."""

import numpy as np
from matplotlib.figure import Figure

from .evaluate import Decoded
from .session import Session

_NAMES = {"possm": "POSSM", "wiener": "Wiener filter", "gru": "GRU on counts"}
_TRUE, _DECODED = "#333333", "#d55e00"  # black and vermilion of Okabe and Ito, distinct with colour blindness


def table(models: dict[str, dict]) -> str:
    """The models of `metrics.json` as lines of text, one model a line."""
    rows = [("model", "R² x", "R² y", "R² mean", "parameters", "train s", "µs/bin p50", "µs/bin p99")]
    for name, m in models.items():
        scores = ("-" if r is None else f"{r:.3f}" for r in (*m["r2_xy"], m["r2"]))
        costs = (f"{m[key]:.1f}" for key in ("train_s", "step_us_p50", "step_us_p99"))
        rows.append((_NAMES.get(name, name), *scores, f"{m['params']:,}", *costs))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:{'>' if i else '<'}{widths[i]}}" for i, cell in enumerate(row)) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def plot_decoded(decoded: Decoded, session: Session, n_trials: int = 4) -> Figure:
    """True and decoded velocity of some held-out trials against time, and below them the paths of the hand.

    Trials are spread over the test part. Without trials, segments of four seconds are shown. A path is the integral of
    velocity from the start of the trial.
    """
    intervals = session.split.test
    if len(session.recording.trials):
        intervals = intervals[np.unique(np.linspace(0, len(intervals) - 1, n_trials).round().astype(int))]
    else:
        start, stop = intervals[0]
        starts = np.linspace(start, max(stop - 4.0, start), n_trials)
        intervals = np.stack([starts, np.minimum(starts + 4.0, stop)], 1)
    trials = [(start, (decoded.times_s >= start) & (decoded.times_s < stop)) for start, stop in intervals]
    # a line needs two samples; if all trials are shorter, show the whole part
    trials = [trial for trial in trials if trial[1].sum() > 1] or [(decoded.times_s[0], slice(None))]
    figure = Figure(figsize=(2.6 * len(trials), 7.2), layout="constrained")
    axes = figure.subplots(3, len(trials), squeeze=False)
    unit = session.recording.velocity_unit
    for column, (start, inside) in enumerate(trials):
        *velocity_axes, path_axes = axes[:, column]
        time, velocities = decoded.times_s[inside] - start, (decoded.true[inside], decoded.decoded[inside])
        for velocity, color, label in zip(velocities, (_TRUE, _DECODED), ("recorded", "decoded"), strict=True):
            for ax, v in zip(velocity_axes, velocity.T, strict=True):
                ax.plot(time, v, color=color, lw=1.3, label=label)
            path = np.cumsum(velocity * np.gradient(time)[:, None] if len(time) > 1 else 0 * velocity, 0)
            path_axes.plot(*path.T, color=color, lw=1.4)
            path_axes.plot(*path[-1], "o", color=color, ms=4)
        for row, ax in enumerate(velocity_axes):
            ax.sharey(axes[row, 0])
            ax.tick_params(labelleft=column == 0)
        velocity_axes[0].sharex(velocity_axes[1])
        velocity_axes[0].tick_params(labelbottom=False)
        velocity_axes[1].set_xlabel("time in trial (s)")
        path_axes.set_aspect("equal", adjustable="datalim")
        path_axes.set_xlabel(f"x ({unit.removesuffix('/s')})")
    labels = (f"velocity x ({unit})", f"velocity y ({unit})", f"hand path y ({unit.removesuffix('/s')})")
    for ax, label in zip(axes[:, 0], labels, strict=True):
        ax.set_ylabel(label)
    figure.suptitle(f"{session.recording.session_id}: held-out trials, R² = {decoded.r2:.3f} over all of them")
    axes[0, 0].legend(frameon=False, fontsize="small", loc="best")
    return figure
