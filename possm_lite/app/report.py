"""Results for people: the table and the figure of a run, and what `check` prints and draws of a recording."""

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ..recordings import quality
from ..recordings.data_report import data_report
from ..recordings.recording import Recording
from ..training.evaluate import Decoded

_NAMES = {"possm": "POSSM", "wiener": "Wiener filter", "gru": "GRU on counts"}
_COSTS = {"train s": "train_s", "µs/bin p50": "step_us_p50", "µs/bin p99": "step_us_p99"}
_N_COLUMNS = 6  # that are drawn
_SHOWN_S = 10.0


def table(models: dict[str, dict], columns: Sequence[str]) -> str:
    """The models of `metrics.json` side by side, as lines of text: R² of each column of behaviour, costs."""
    results = models.values()
    rows = [("", *(_NAMES.get(name, name) for name in models))]
    if len(columns) > 1:
        rows += [
            (f"R² {name}", *(f"{m['r2_columns'][i]:.3f}" for m in results))
            for i, name in enumerate(columns)
        ]
    rows.append(("R² mean", *(f"{m['r2']:.3f}" for m in results)))
    rows.append(("R² displayed", *(f"{m['r2_displayed']:.3f}" for m in results)))
    rows.append(("parameters", *(f"{m['params']:,}" for m in results)))
    rows += [(label, *(f"{m[key]:.1f}" for m in results)) for label, key in _COSTS.items()]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


@rc_context({"text.parse_math": False})  # a "$" in a name is drawn
def plot(
    recording: Recording, interval: tuple[float, float], decoded: Decoded | None = None
) -> Figure:
    """The beginning of an interval: spikes, units by their rate, above behaviour as recorded and, if given, decoded."""
    shown = (interval[0], min(interval[1], interval[0] + _SHOWN_S))
    names = recording.behavior_columns[:_N_COLUMNS]
    figure = Figure(figsize=(10.4, 4.0 + 1.5 * len(names)), layout="constrained")
    ratios = [2] + [1] * len(names)
    raster, *axes = figure.subplots(len(ratios), sharex=True, squeeze=False, height_ratios=ratios)[
        :, 0
    ]
    spikes = slice(*np.searchsorted(recording.spike_times, shown))
    order = np.argsort(quality.firing_rates(recording), kind="stable")
    row = np.argsort(order)[recording.spike_units[spikes]]
    raster.plot(recording.spike_times[spikes], row, "|", color="black", ms=2, mew=0.6)
    raster.set(xlim=shown, ylim=(-1, recording.n_units), ylabel="unit, by rate")
    lines = [("recorded", "#333333", recording.behavior_times, recording.behavior)]
    if decoded:
        lines.append(
            ("decoded", "#d55e00", decoded.times_s, decoded.decoded)
        )  # distinct with colour blindness
    for label, color, times, values in lines:
        samples = slice(*np.searchsorted(times, shown))
        for column, ax in enumerate(axes):
            ax.plot(
                times[samples],
                values[samples, column],
                ".-",
                color=color,
                ms=2,
                lw=1.2,
                label=label,
            )
    for ax, name in zip(axes, names, strict=True):
        ax.set_ylabel(f"{name} ({recording.behavior_unit})")
    axes[0].legend(frameon=False, fontsize="small", loc="best")
    axes[-1].set_xlabel("time (s)")
    title = f"{recording.session_id}: {recording.behavior_name}, {len(names)} of {recording.n_columns} columns"
    figure.suptitle(
        f"{title}\nheld-out, R² = {decoded.r2:.3f} over all of it" if decoded else title
    )
    return figure


def check_recording(recording: Recording) -> list[str]:
    """What is in a recording, and what is odd about it. RecordingError if nothing can be decoded."""
    lines = data_report(recording)
    if not quality.times_are_resolved(recording):
        return [
            *lines,
            "warning: spike times are too coarse, or too few, for ISI violations and duplicates",
        ]
    violations = 100 * np.nanmedian(quality.isi_violations(recording))
    foreign = recording.unit_ids[quality.contaminated_units(recording)]
    return [
        *lines,
        f"intervals below {1e3 * quality.REFRACTORY_S:g} ms: {violations:.2g} % in the median unit",
        f"units with more than a tenth of foreign spikes: {', '.join(foreign) or 'none'}",
    ]
