"""Results for people: table and figure of a run, and what `check` prints and draws."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib import rc_context, rcParams
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

from ..errors import listed
from ..recordings import quality
from ..recordings.data_report import data_report
from ..recordings.recording import Recording
from ..training.evaluate import Decoded

_NAMES = {"possm": "POSSM", "wiener": "Wiener filter", "gru": "GRU on counts"}
_COSTS = {"train s": "train_s", "µs/bin p50": "step_us_p50", "µs/bin p99": "step_us_p99"}
_N_COLUMNS = 6  # that are drawn
_SHOWN_S = 10.0


def table(models: dict[str, dict], columns: Sequence[str]) -> str:
    """The models of `metrics.json` side by side: R² of each column of behaviour, and costs.

    Args:
        models: the results of each model, by its name in `metrics.json`.
        columns: names of the columns of behaviour.

    Returns:
        Lines of text, one for each result, with a column for each model.
    """
    results = models.values()
    rows = [("", *(_NAMES.get(name, name) for name in models))]
    if len(columns) > 1:
        for i, name in enumerate(columns):
            rows.append((f"R² {name}", *(f"{m['r2_columns'][i]:.3f}" for m in results)))
    rows.append(("R² mean", *(f"{m['r2']:.3f}" for m in results)))
    rows.append(("R² displayed", *(f"{m['r2_displayed']:.3f}" for m in results)))
    rows.append(("parameters", *(f"{m['params']:,}" for m in results)))
    for label, key in _COSTS.items():
        rows.append((label, *(f"{m[key]:.1f}" for m in results)))
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Lines of text from `rows` of cells, columns under each other, all but the first at right."""
    widths = [max(len(cell) for cell in cells) for cells in zip(*rows, strict=True)]
    lines = []
    for label, *values in rows:
        cells = [value.rjust(width) for value, width in zip(values, widths[1:], strict=True)]
        lines.append("  ".join([label.ljust(widths[0]), *cells]))
    return "\n".join(lines)


def plot(
    recording: Recording, interval: tuple[float, float], decoded: Decoded | None = None
) -> Figure:
    """A figure of the beginning of an interval: spikes, units by their rate, above behaviour.

    Args:
        recording: its spikes and its behaviour as recorded are drawn.
        interval: start and stop, seconds.
        decoded: behaviour as decoded, drawn over it; its R² is in the title.

    Returns:
        The figure, to be saved. Names in Chinese and others are in a font that has them; a
        character that none has is a "?", and so a column is called by its number.
    """
    families, lost = _fonts_for(_drawn_names(recording))
    settings = {
        "text.parse_math": False,  # a "$" in a name is drawn
        "font.family": [*rcParams["font.family"], *families],
    }
    with rc_context(settings):
        return _plot(_spelled(recording, lost), interval, decoded)


def undrawn_characters(recording: Recording) -> str:
    """The characters in names of a recording that no font of this computer has.

    Args:
        recording: what `plot` draws.
    """
    return "".join(_fonts_for(_drawn_names(recording))[1])


def _drawn_names(recording: Recording) -> list[str]:
    """The names that are drawn."""
    columns = recording.behavior_columns[:_N_COLUMNS].tolist()
    return [recording.session_id, recording.behavior_name, recording.behavior_unit, *columns]


def _spelled(recording: Recording, lost: Sequence[str]) -> Recording:
    """The recording with names that can be drawn, without these characters."""
    if not lost:
        return recording
    to_mark = str.maketrans(dict.fromkeys(lost, "?"))
    columns = []
    for i, name in enumerate(recording.behavior_columns.tolist()):
        columns.append(f"column {i}" if set(name) & set(lost) else name)
    return replace(
        recording,
        session_id=recording.session_id.translate(to_mark),
        behavior_name=recording.behavior_name.translate(to_mark),
        behavior_unit=recording.behavior_unit.translate(to_mark),
        behavior_columns=columns,
    )


def _fonts_for(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Fonts for what the usual one lacks, and what no font of this computer has.

    matplotlib #15062: without a font for Chinese it draws boxes, and warns at each.

    Args:
        texts: all that is to be drawn.

    Returns:
        Names of the fonts, each of which has further characters; the characters that are left.
    """
    usual = get_font(findfont(FontProperties()))
    lost = _absent(usual, sorted(set("".join(texts))))
    families: list[str] = []
    for entry in fontManager.ttflist if lost else ():
        if "LastResort" in entry.name.replace(" ", ""):  # a box for every character
            continue
        try:
            left = _absent(get_font(entry.fname), lost)
        except (RuntimeError, OSError):  # not a font that is drawn
            continue
        if len(left) < len(lost):
            families.append(entry.name)
            lost = left
    return families, lost


def _absent(font, characters: Sequence[str]) -> list[str]:
    """Those of the characters that a font of matplotlib does not have."""
    return [c for c in characters if c != "\n" and not font.get_char_index(ord(c))]


def _plot(
    recording: Recording, interval: tuple[float, float], decoded: Decoded | None = None
) -> Figure:
    """The figure of `plot`, of a recording with names that can be drawn."""
    shown = (interval[0], min(interval[1], interval[0] + _SHOWN_S))
    names = recording.behavior_columns[:_N_COLUMNS]
    figure = Figure(figsize=(10.4, 4.0 + 1.5 * len(names)), layout="constrained")
    ratios = [2] + [1] * len(names)
    grid = figure.subplots(len(ratios), sharex=True, squeeze=False, height_ratios=ratios)
    raster, *axes = grid[:, 0]
    _draw_spikes(raster, recording, shown)
    # two colours that are distinct with colour blindness
    _draw_behavior(axes, shown, recording.behavior_times, recording.behavior, "recorded", "#333333")
    if len(recording.classes):
        axes[0].set_yticks(range(len(recording.classes)), [c[:16] for c in recording.classes])
    if decoded:
        _draw_behavior(axes, shown, decoded.times_s, decoded.decoded, "decoded", "#d55e00")
    for ax, name in zip(axes, names, strict=True):
        ax.set_ylabel(f"{name} ({recording.behavior_unit})")
    axes[0].legend(frameon=False, fontsize="small", loc="best")
    axes[-1].set_xlabel("time (s)")
    title = f"{recording.session_id}: {recording.behavior_name}"
    title += f", {len(names)} of {recording.n_columns} columns"
    if decoded:
        title += f"\nheld-out, R² = {decoded.r2:.3f} over all of it"
    figure.suptitle(title)
    return figure


def _draw_spikes(ax, recording: Recording, shown: tuple[float, float]):
    """A raster of the spikes in an interval, units in the order of their rate."""
    spikes = slice(*np.searchsorted(recording.spike_times, shown))
    order = np.argsort(quality.firing_rates(recording), kind="stable")
    row_of_unit = np.argsort(order)
    rows = row_of_unit[recording.spike_units[spikes]]
    ax.plot(recording.spike_times[spikes], rows, "|", color="black", ms=2, mew=0.6)
    ax.set(xlim=shown, ylim=(-1, recording.n_units), ylabel="unit, by rate")


def _draw_behavior(
    axes: Sequence, shown: tuple[float, float], times: np.ndarray, values: np.ndarray, label, color
):
    """Behaviour (T, C) at times (T,) in an interval, a column on each of the axes."""
    samples = slice(*np.searchsorted(times, shown))
    for column, ax in enumerate(axes):
        series = values[samples, column]
        ax.plot(times[samples], series, ".-", color=color, ms=2, lw=1.2, label=label)


def check_recording(recording: Recording) -> list[str]:
    """What is in a recording, and what is odd about it.

    Args:
        recording: the recording.

    Returns:
        Lines of text.

    Raises:
        RecordingError: nothing can be decoded.
    """
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
        f"units with more than a tenth of foreign spikes: {listed(foreign) or 'none'}",
    ]
