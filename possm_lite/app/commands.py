"""The commands besides `decode`, `live` and `simulate`, each from its options to what it prints."""

import shlex
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..decoder.possm import POSSM
from ..decoder.stream import StreamingDecoder
from ..errors import RecordingError, listed, prefix_errors
from ..recordings.data_report import data_report
from ..recordings.formats import load_recording
from ..recordings.formats.assemble import Selection
from ..recordings.formats.download import download as download_recording
from ..recordings.recording import Recording
from ..recordings.split import Split, SplitConfig, recorded_time
from ..recordings.timeline import Timeline
from ..training import TrainedOn, prepare
from ..training.evaluate import Replay, batch_decode, even_offsets, replay, slot_offsets
from ..training.session import Session
from . import run_dir
from .experiment import EMBEDDED, decode, describe, given, save_decoded
from .lsl import live, simulate
from .report import check_recording, plot

__all__ = ["check", "decode", "download", "live", "predict", "simulate", "stream"]


def stream(options: Namespace) -> int:
    """Replay held-out trials through the streaming decoder; print latency, R², and the difference to the batch form."""
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
    print(
        f"{sum(played.bins)} bins of {session.timeline.bin_width_s:g} s, {len(played.outputs)} outputs"
    )
    latency = np.percentile(played.step_us, (50, 90, 99, 99.9))
    print("latency  p50 {:.0f} µs  p90 {:.0f} µs  p99 {:.0f} µs  p99.9 {:.0f} µs".format(*latency))
    print(f"largest difference to the batch form  {difference:.1e} {recording.behavior_unit}")
    print(f"R²  {played.r2:.3f}")
    return 0


def read_matching(source: Path, trained_on: TrainedOn, **selection) -> Recording:
    """The recording, read as for the training but for `selection`, with the units of the decoder in its order.

    RecordingError for other units, or behaviour with other columns or in another unit.
    """
    selection = {**vars(trained_on.selection), **selection, "units": ""}
    recording = load_recording(source, **selection)
    with prefix_errors(source):
        unit_ids = tuple(recording.unit_ids.tolist())
        missing = [name for name in trained_on.unit_ids if name not in unit_ids]
        unknown = [name for name in unit_ids if name not in trained_on.unit_ids]
        if missing or (
            unknown and not trained_on.selection.units
        ):  # a filter leaves out others in each file
            surplus = f"missing: {listed(missing) or 'none'}; unknown: {listed(unknown) or 'none'}"
            raise RecordingError(
                f"unit_ids are not those of the decoder, {surplus}. decode --from RUN adapts it."
            )
        for name in ("behavior_columns", "behavior_unit") if len(recording.behavior_times) else ():
            found, theirs = (
                np.array(getattr(one, name)).tolist() for one in (recording, trained_on)
            )
            if found != theirs:
                raise RecordingError(
                    f"{name} is {str(found)[:99]}, the decoder was trained on {str(theirs)[:99]}."
                )
    if unit_ids == trained_on.unit_ids:
        return recording
    index = {name: unit for unit, name in enumerate(trained_on.unit_ids)}
    units = np.array([index.get(name, -1) for name in unit_ids])[recording.spike_units]
    return replace(
        recording,
        spike_times=recording.spike_times[units >= 0],
        spike_units=units[units >= 0],
        unit_ids=trained_on.unit_ids,
        notes=(*recording.notes, "Units were taken by name, in the order of the decoder."),
    )


def predict(options: Namespace) -> int:
    """Apply a trained decoder to a recording; write the output, and print R² if the file has the behaviour."""
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
    columns = trained_on.behavior_columns
    with run_dir.new_folder(options.out, f"{recording.session_id}-predicted") as (new, folder):
        save_decoded(new / "decoded.npz", trained_on, times, decoded)
        header = ",".join(column.replace(",", ";") for column in ("time", *columns))
        form = "%.6f" + ",%.7g" * len(columns)
        np.savetxt(
            new / "decoded.csv",
            np.c_[times, decoded],
            form,
            header=header,
            comments="",
            encoding="utf-8",
        )
    print(*report, *(f"note: {note}" for note in recording.notes), sep="\n")
    if len(played.times_s):
        scores = "  ".join(
            f"{column} {r2:.3f}" for column, r2 in zip(columns, played.r2_columns, strict=True)
        )
        seen = (
            "; RUN was trained on this session"
            if recording.session_id == trained_on.session_id
            else ""
        )
        print(f"R²  {scores}  mean {played.r2:.3f}, of all {len(played.times_s):,} samples{seen}")
    else:
        print("only spikes were used: no behaviour was read")
    print(f"{folder}: decoded.npz, decoded.csv, {len(times):,} times")
    return 0


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
    scale = np.zeros(recording.n_columns)
    session = Session(
        Timeline(recording, lag_s, width), SplitConfig(), Split(*[intervals] * 3), scale, scale
    )
    played = replay(StreamingDecoder(model, 1, offsets), session)
    starts, stops = (
        np.repeat(edge, played.bins) for edge in session.segments("test").T
    )  # of the segment of each bin
    bins = np.concatenate([np.arange(n) for n in played.bins])
    times = (starts + bins * width)[:, None] + offsets
    inside = (times < stops[:, None]).ravel()  # the last bin ends after the segment
    return times.ravel()[inside], played.outputs[inside], played


def check(options: Namespace) -> int:
    """Measure the quality of a recording; print it and save a picture."""
    path = options.out or run_dir.new_path(f"{options.recording.stem}-check", ".png")
    run_dir.check_new(path)
    recording = load_recording(options.recording, **given(Selection, options))
    with prefix_errors(options.recording):
        lines = check_recording(recording)
    print(*lines, *(f"note: {note}" for note in recording.notes), sep="\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    stretches = recording.trials if len(recording.trials) else [recording.span]
    plot(recording, stretches[len(stretches) // 2]).savefig(
        path, dpi=120, format="png"
    )  # whatever its suffix
    print(f"{path}: picture")
    return 0


def download(options: Namespace) -> int:
    """Download a public recording."""
    path = download_recording(options.name, options.to)
    print(f"{path}: complete. To decode it: possm-lite decode {shlex.quote(str(path))}")
    return 0
