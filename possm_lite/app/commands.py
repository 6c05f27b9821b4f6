"""The commands besides `decode`, `live` and `simulate`, each from its options to what it prints."""

import shlex
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..decoder.possm import POSSM
from ..decoder.stream import StreamingDecoder
from ..errors import RecordingError, listed, prefix_errors
from ..recordings.data_report import data_report, note_lines
from ..recordings.formats import load_recording
from ..recordings.formats.assemble import Selection
from ..recordings.formats.download import download as download_recording
from ..recordings.labels import with_classes
from ..recordings.recording import Recording
from ..recordings.split import Split, SplitConfig, recorded_time
from ..recordings.timeline import Timeline
from ..training import TrainedOn, prepare
from ..training.checkpoint import output_unit
from ..training.classes import balanced_accuracy, confusion
from ..training.evaluate import Replay, batch_decode, even_offsets, replay, slot_offsets
from ..training.session import Session
from . import run_dir
from .experiment import EMBEDDED, decode, describe, given, save_decoded
from .lsl import live, simulate
from .report import check_recording, plot, undrawn_characters

__all__ = ["check", "decode", "download", "live", "predict", "simulate", "stream"]


def stream(options: Namespace) -> int:
    """Replay held-out trials through the streaming decoder.

    Prints latency, R², and the difference to the batch form.

    Args:
        options: those of `stream`.

    Returns:
        The exit status, 0.
    """
    model, trained_on = run_dir.load_run(options.run)
    source = options.recording or Path(trained_on.source or EMBEDDED)
    recording = read_matching(source, trained_on)
    with prefix_errors(source):
        session = prepare(
            recording, trained_on.split, trained_on.lag_s, model.config.bin_width_s, trained_on.seed
        )
        print(describe(session), flush=True)
    played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    difference = abs(played.outputs - batch_decode(model, session, played)).max()
    width = session.timeline.bin_width_s
    print(f"{sum(played.bins)} bins of {width:g} s, {len(played.outputs)} outputs")
    latency = np.percentile(played.step_us, (50, 90, 99, 99.9))
    print("latency  p50 {:.0f} µs  p90 {:.0f} µs  p99 {:.0f} µs  p99.9 {:.0f} µs".format(*latency))
    print(f"largest difference to the batch form  {difference:.1e} {trained_on.behavior_unit}")
    _print_misfit(width, recording.sample_interval)
    if len(recording.classes):
        print(f"balanced accuracy  {_accuracy(played, recording):.3f}")
    else:
        print(f"R²  {played.r2:.3f}")
    return 0


def _print_misfit(width: float, interval: float):
    """Print that bins of `width` s hold no whole number of samples, `interval` s apart, if so."""
    per_bin = width / interval
    if per_bin > 1 and abs(per_bin - round(per_bin)) > 0.01:
        print(
            f"note: bins of {width:g} s hold no whole number of samples, {interval:.3g} s apart: "
            "outputs lie beside the samples, so the score is not quite that of decode."
        )


def read_matching(source: Path, trained_on: TrainedOn, **selection) -> Recording:
    """A recording for a trained decoder, with the units of the decoder in its order.

    Args:
        source: the file.
        trained_on: what the decoder was trained on; the file is read alike.
        selection: fields of `Selection` that are read otherwise.

    Returns:
        The recording; a note says so if units were taken by name.

    Raises:
        RecordingError: other units, or behaviour with other columns or in another unit.
    """
    selection = {**vars(trained_on.selection), **selection, "units": ""}
    recording = load_recording(source, **selection)
    with prefix_errors(source):
        _check_units(recording, trained_on)
        if len(recording.behavior_times):
            if trained_on.behavior_unit == "probability":
                recording = with_classes(recording, trained_on.behavior_columns)
            _check_behavior(recording, trained_on)
    return _in_order(recording, trained_on.unit_ids)


def _check_units(recording: Recording, trained_on: TrainedOn):
    """RecordingError unless the recording has the units of the decoder, and no others."""
    unit_ids = recording.unit_ids.tolist()
    missing = [name for name in trained_on.unit_ids if name not in unit_ids]
    unknown = [name for name in unit_ids if name not in trained_on.unit_ids]
    # a filter leaves out others in each file
    are_others_expected = bool(trained_on.selection.units)
    if missing or (unknown and not are_others_expected):
        surplus = f"missing: {listed(missing) or 'none'}; unknown: {listed(unknown) or 'none'}"
        raise RecordingError(
            f"unit_ids are not those of the decoder, {surplus}. decode --from RUN adapts it."
        )


def _check_behavior(recording: Recording, trained_on: TrainedOn):
    """RecordingError unless behaviour has the columns and the unit of the decoder's outputs."""
    pairs = {
        "behavior_columns": (recording.outputs.tolist(), list(trained_on.behavior_columns)),
        "behavior_unit": (output_unit(recording), trained_on.behavior_unit),
    }
    for name, (found, theirs) in pairs.items():
        if found != theirs:
            raise RecordingError(
                f"{name} is {str(found)[:99]}, the decoder was trained on {str(theirs)[:99]}."
            )


def _in_order(recording: Recording, unit_ids: tuple[str, ...]) -> Recording:
    """The recording with these units alone, in this order."""
    names = recording.unit_ids.tolist()
    if tuple(names) == unit_ids:
        return recording
    index = {name: unit for unit, name in enumerate(unit_ids)}
    new_of_old = np.array([index.get(name, -1) for name in names])  # -1: left out
    units = new_of_old[recording.spike_units]
    is_kept = units >= 0
    return replace(
        recording,
        spike_times=recording.spike_times[is_kept],
        spike_units=units[is_kept],
        unit_ids=unit_ids,
        notes=(*recording.notes, "Units were taken by name, in the order of the decoder."),
    )


def predict(options: Namespace) -> int:
    """Apply a trained decoder to a recording and write the output.

    Prints R² if the file has the behaviour.

    Args:
        options: those of `predict`.

    Returns:
        The exit status, 0.
    """
    model, trained_on = run_dir.load_run(options.run)
    run_dir.check_new(options.out)
    try:
        recording = read_matching(options.recording, trained_on)
    except RecordingError as exc:
        recording = read_matching(options.recording, trained_on, trials="", spikes_only=True)
        recording = replace(recording, notes=(*recording.notes, f"behaviour was not read: {exc}"))
    with prefix_errors(options.recording):
        report = data_report(recording, model.config.bin_width_s)
        times, decoded, played = _decode_all(model, recording, trained_on.lag_s)
    with run_dir.new_folder(options.out, f"{recording.session_id}-predicted") as (new, folder):
        save_decoded(new / "decoded.npz", trained_on, times, decoded)
        _write_csv(new / "decoded.csv", trained_on.behavior_columns, times, decoded)
    _print_lines(report, recording)
    if len(played.times_s):
        is_same = recording.session_id == trained_on.session_id
        _print_scores(played, recording, is_same)
    else:
        print("only spikes were used: no behaviour was read")
    print(f"{folder}: decoded.npz, decoded.csv, {len(times):,} times")
    return 0


def _write_csv(path: Path, columns: tuple[str, ...], times: np.ndarray, decoded: np.ndarray):
    """Times (T,) and decoded behaviour (T, C) as a table with a line of names."""
    names = [column.replace(",", ";") for column in columns]
    np.savetxt(
        path,
        np.c_[times, decoded],
        fmt="%.6f" + ",%.7g" * len(columns),
        header=",".join(["time", *names]),
        comments="",
        encoding="utf-8",
    )


def _print_lines(lines: list[str], recording: Recording):
    """Print lines about a recording, and its notes."""
    print(*lines, *note_lines(recording), sep="\n")


def _print_scores(played: Replay, recording: Recording, is_same_session: bool):
    """Print R² of each column and their mean, or the balanced accuracy of classes."""
    if len(recording.classes):
        line = f"balanced accuracy  {_accuracy(played, recording):.3f}"
    else:
        scores = []
        for column, r2 in zip(recording.behavior_columns, played.r2_columns, strict=True):
            scores.append(f"{column} {r2:.3f}")
        line = f"R²  {'  '.join(scores)}  mean {played.r2:.3f}"
    line += f", of all {len(played.times_s):,} samples"
    if is_same_session:
        line += "; RUN was trained on this session"
    print(line)


def _accuracy(played: Replay, recording: Recording) -> float:
    """Balanced accuracy of a replay, whose recording has classes."""
    true = played.true[:, 0].astype(int)
    counts = confusion(true, played.decoded.argmax(1), len(recording.classes))
    return float(balanced_accuracy(counts))


def _decode_all(
    model: POSSM, recording: Recording, lag_s: float
) -> tuple[np.ndarray, np.ndarray, Replay]:
    """Decode a recording bin by bin: where it has behaviour, or else all of it.

    Returns times (T,) on the clock of behaviour; behaviour decoded there (T, C); and the replay.
    """
    width = model.config.bin_width_s
    if len(recording.behavior_times):
        intervals = recorded_time(recording)
    else:
        intervals = np.array([recording.span]) + [lag_s, lag_s + width]
    offsets = even_offsets(width)
    unused = np.zeros(recording.n_columns)  # the decoder has the scale of its training
    session = Session(
        timeline=Timeline(recording, lag_s, width),
        split_config=SplitConfig(),
        split=Split(train=intervals, valid=intervals, test=intervals),
        mean=unused,
        std=unused,
    )
    played = replay(StreamingDecoder(model, 1, offsets), session)
    of_bins = np.repeat(session.segments("test"), played.bins, axis=0)  # (n_bins, 2)
    start = of_bins[:, 0]
    stop = of_bins[:, 1]
    place = np.concatenate([np.arange(n) for n in played.bins])  # of a bin in its segment
    times = (start + place * width)[:, None] + offsets  # (n_bins, n_slots)
    inside = (times < stop[:, None]).ravel()  # the last bin ends after the segment
    return times.ravel()[inside], played.outputs[inside], played


def check(options: Namespace) -> int:
    """Measure the quality of a recording; print it and save a picture.

    Args:
        options: those of `check`.

    Returns:
        The exit status, 0.
    """
    path = options.out or run_dir.new_path(f"{options.recording.stem}-check", ".png")
    run_dir.check_new(path)
    recording = load_recording(options.recording, **given(Selection, options))
    with prefix_errors(options.recording):
        lines = check_recording(recording)
    _print_lines(lines, recording)
    stretches = recording.trials if len(recording.trials) else [recording.span]
    figure = plot(recording, stretches[len(stretches) // 2])
    with run_dir.name_out(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, format="png")  # whatever its suffix
    print(f"{path}: picture")
    if lost := undrawn_characters(recording):
        print(
            f"note: no font of this computer has {lost}; the picture has ? in their place. "
            "Install one that has them, such as Noto Sans CJK."
        )
    return 0


def download(options: Namespace) -> int:
    """Download a public recording.

    Args:
        options: those of `download`.

    Returns:
        The exit status, 0.
    """
    path = download_recording(options.name, options.to)
    print(f"{path}: complete. To decode it: possm-lite decode {shlex.quote(str(path))}")
    return 0
