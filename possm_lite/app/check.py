"""What `possm-lite check` prints and draws of a recording."""

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ..recordings import quality
from ..recordings.data_report import data_report
from ..recordings.recording import Recording

_SHOWN_S = 10.0


@rc_context({"text.parse_math": False})  # a "$" in a name is drawn
def check_recording(recording: Recording) -> tuple[list[str], Figure]:
    """Lines of text, and a figure: a raster, behaviour, ISI violations. RecordingError if nothing can be decoded."""
    lines = data_report(recording)
    rates = quality.firing_rates(recording)
    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(recording.session_id)
    (raster, isi), (behavior, empty) = figure.subplots(2, 2, width_ratios=(3, 2))
    empty.set_axis_off()
    start = recording.trials[len(recording.trials) // 2, 0] if len(recording.trials) else np.mean(recording.span)
    shown = (start, min(start + _SHOWN_S, recording.span[1]))

    spikes = slice(*np.searchsorted(recording.spike_times, shown))
    row = np.argsort(np.argsort(rates, kind="stable"))[recording.spike_units[spikes]]
    raster.plot(recording.spike_times[spikes], row, "|", color="black", ms=2, mew=0.6)
    raster.set(xlim=shown, ylim=(-1, recording.n_units), xlabel="time (s)", ylabel="unit, by rate")

    samples = slice(*np.searchsorted(recording.behavior_times, shown))
    columns = recording.behavior_columns[:6].tolist()
    behavior.plot(recording.behavior_times[samples], recording.behavior[samples, :6], ".-", ms=2, lw=1, label=columns)
    behavior.set(xlim=shown, xlabel="time (s)", ylabel=f"{recording.behavior_name} ({recording.behavior_unit})")
    behavior.legend(frameon=False, ncols=6, fontsize="small")

    if not quality.times_are_resolved(recording):
        isi.set_axis_off()
        return [*lines, "warning: spike times are too coarse, or too few, for ISI violations and duplicates"], figure

    violations = 100 * quality.isi_violations(recording)
    ms = 1e3 * quality.REFRACTORY_S
    foreign = np.isin(np.arange(recording.n_units), quality.contaminated_units(recording))
    isi.plot(rates[~foreign], violations[~foreign], "o", color="#0072b2", ms=4, label="unit")
    isi.plot(rates[foreign], violations[foreign], "o", color="#d55e00", ms=4, label="> a tenth of foreign spikes")
    grid = np.linspace(0, rates.max(), 100)
    isi.plot(grid, -100 * np.expm1(-grid * quality.REFRACTORY_S), "--", color="gray", label="Poisson process")
    isi.set(xlabel="rate (Hz)", ylabel=f"intervals below {ms:g} ms (%)")
    isi.legend(frameon=False, fontsize="small")

    names = f": {', '.join(recording.unit_ids[foreign])}" if foreign.any() else ""
    return [
        *lines,
        f"intervals below {ms:g} ms: {np.nanmedian(violations):.2g} % in the median unit",
        f"{foreign.sum()} of {recording.n_units} units have more than a tenth of foreign spikes{names}",
    ], figure
