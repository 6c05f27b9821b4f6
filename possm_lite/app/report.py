"""Results of a run for people: a table and a figure."""

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ..training.evaluate import Decoded
from ..training.session import Session

_NAMES = {"possm": "POSSM", "wiener": "Wiener filter", "gru": "GRU on counts"}
_COSTS = {"train s": "train_s", "µs/bin p50": "step_us_p50", "µs/bin p99": "step_us_p99"}
_TRUE, _DECODED = "#333333", "#d55e00"  # black and vermilion of Okabe and Ito, distinct with colour blindness
_N_TRIALS, _N_COLUMNS = 4, 6  # that are drawn
_SHOWN_S = 4.0  # of each stretch, in a recording without trials


def table(models: dict[str, dict], columns: Sequence[str]) -> str:
    """The models of `metrics.json` side by side, as lines of text: R² of each column of behaviour, costs."""
    results = models.values()
    rows = [("", *(_NAMES.get(name, name) for name in models))]
    if len(columns) > 1:
        rows += [(f"R² {name}", *(f"{m['r2_columns'][i]:.3f}" for m in results)) for i, name in enumerate(columns)]
    rows.append(("R² mean", *(f"{m['r2']:.3f}" for m in results)))
    rows.append(("R² displayed", *(f"{m['r2_displayed']:.3f}" for m in results)))
    rows.append(("parameters", *(f"{m['params']:,}" for m in results)))
    rows += [(label, *(f"{m[key]:.1f}" for m in results)) for label, key in _COSTS.items()]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


@rc_context({"text.parse_math": False})  # a "$" in a name is drawn
def plot_decoded(decoded: Decoded, session: Session) -> Figure:
    """Recorded and decoded behaviour of some held-out trials against time; of a planar velocity also its integral."""
    recording = session.recording
    names = recording.behavior_columns
    unit = recording.behavior_unit
    trials = _shown_trials(decoded, session)
    shown = _spread(len(names), _N_COLUMNS)
    has_path = len(names) == 2 and unit.endswith("/s")
    n_rows = len(shown) + has_path
    n_columns = len(trials)
    figure = Figure(figsize=(2.6 * max(n_columns, 2), 1.2 + 2.0 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, sharey="row", squeeze=False)
    for values, color, label in ((decoded.true, _TRUE, "recorded"), (decoded.decoded, _DECODED, "decoded")):
        for column, (start, inside) in enumerate(trials):
            time = decoded.times_s[inside] - start
            for ax, v in zip(axes[:, column], values[inside][:, shown].T, strict=False):
                ax.plot(time, v, color=color, lw=1.3, label=label)
            if has_path:
                path = np.cumsum(values[inside] * np.diff(time, prepend=time[0])[:, None], 0)
                axes[-1, column].plot(*path.T, color=color, lw=1.4)
                axes[-1, column].plot(*path[-1], "o", color=color, ms=4)
    for ax, name in zip(axes[:, 0], names[shown], strict=False):
        ax.set_ylabel(f"{name} ({unit})")
    for ax in axes[len(shown) - 1]:
        ax.set_xlabel("time in trial (s)" if len(recording.trials) else "time (s)")
    for ax in axes[len(shown) :].flat:
        ax.set_aspect("equal", adjustable="datalim")
        ax.set(xlabel=f"path: {names[0]} ({unit.removesuffix('/s')})", ylabel=names[1])
    title = f"{recording.session_id}: {recording.behavior_name}, {len(shown)} of {len(names)} columns"
    figure.suptitle(f"{title}\nheld-out, R² = {decoded.r2:.3f} over all of it")
    axes[0, 0].legend(frameon=False, fontsize="small", loc="best")
    return figure


def _shown_trials(decoded: Decoded, session: Session) -> list[tuple[float, np.ndarray | slice]]:
    """Start and samples of some trials of the test part; without trials, of stretches of it."""
    intervals = session.split.test
    if len(session.recording.trials):
        intervals = intervals[_spread(len(intervals), _N_TRIALS)]
    else:
        starts = np.linspace(*intervals[0], _N_TRIALS, endpoint=False)
        intervals = np.stack([starts, starts + _SHOWN_S], 1)
    trials = [(start, (decoded.times_s >= start) & (decoded.times_s < stop)) for start, stop in intervals]
    # a line needs two samples; if all trials are shorter, the whole part is shown
    return [trial for trial in trials if trial[1].sum() > 1] or [(decoded.times_s[0], slice(None))]


def _spread(n: int, n_shown: int) -> np.ndarray:
    """Up to `n_shown` indices below n, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, n_shown).round().astype(int))
