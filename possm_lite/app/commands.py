"""The commands, each from its options to what it prints."""

import itertools
import os
import shlex
from argparse import Namespace
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import torch

from ..decoder.config import POSSMConfig
from ..decoder.stream import StreamingDecoder
from ..errors import PossmError, prefix_errors
from ..recordings.data_report import data_report
from ..recordings.formats import load_recording
from ..recordings.formats.assemble import Selection
from ..recordings.formats.download import download as download_recording
from ..recordings.split import SplitConfig
from ..training import FitConfig, prepare
from ..training.distributed import ProcessGroup, process_group
from ..training.evaluate import batch_decode, replay, slot_offsets
from ..training.fit import check_ranges
from ..training.session import Session
from ..training.transfer import ADAPTATION
from . import experiment, run_dir
from .check import check_recording
from .experiment import EMBEDDED, SessionResult, Settings
from .live import decode_live
from .lsl import play
from .predict import predict as predict_recording
from .predict import read_for_prediction, read_matching
from .report import table


def decode(options: Namespace) -> int:
    """Read, prepare, train, test, save, print; with `--resume` training goes on from the state in the run's folder."""
    with run_dir.resumable(options), process_group() as group:
        settings = _settings(options, group)
        run_dir.check_new(options.json, None if options.resume else options.out)
        recordings = experiment.read(settings, group)
        sessions = experiment.prepare_sessions(recordings, settings, group)
        if group.is_main:
            options.resume = _run_folder(options, sessions)
        options.resume = group.broadcast(options.resume)
        possm, history = experiment.train(sessions, settings, options.resume, group)
        results = experiment.compare(possm, history, sessions, settings, group)
        if group.is_main:
            experiment.save_results(results, options.resume)
            _print_metrics(results, options.resume, options.json)
    return 0


def _settings(options: Namespace, group: ProcessGroup) -> Settings:
    """What the options ask for; what they leave open is with `--from` that of its run. Raises PossmError."""
    sizes = _given(POSSMConfig, options)
    training = _given(FitConfig, options)
    selection = _given(Selection, options)
    given = _given(Settings, options) | {"device": _device(options.device, group)}
    sources = options.recording or [EMBEDDED]
    run = options.from_run
    try:
        check_ranges(vars(options))
        model = POSSMConfig(1, **sizes)
        SplitConfig.parse(options.split or Settings.split)
    except ValueError as exc:
        raise PossmError(str(exc)) from exc
    baselines = FitConfig(**training)
    if run is None:
        return Settings(sources, model, baselines, baselines, Selection(**selection), **given)
    if len(sources) > 1 or sizes:
        surplus = ", ".join(sizes) or "the others"
        raise PossmError(f"--from adapts {run}, sizes as they are, to one recording: leave out {surplus}.")
    start, trained_on = run_dir.load_run(run)
    selection = replace(trained_on.selection, **selection)
    stored = {"split": trained_on.split, "lag_s": trained_on.lag_s, "start": start, "adapted_from": str(run.resolve())}
    return Settings(sources, start.config, replace(ADAPTATION, **training), baselines, selection, **stored | given)


def _given(kind: type, options: Namespace) -> dict:
    """The fields of a dataclass that are options and have a value."""
    values = {field.name: getattr(options, field.name, None) for field in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def _device(name: str, group: ProcessGroup) -> str:
    """Device to train on. PossmError if there is none as asked for."""
    usable = torch.cuda.is_available() and group.size == 1
    if name == "cuda" and not usable:
        raise PossmError("--device cuda: torch finds no GPU here, or is run by torchrun, which trains on the CPU.")
    return "cuda" if usable and name != "cpu" else "cpu"


def _run_folder(options: Namespace, sessions: list[Session]) -> Path:
    """The folder of the run: a new one, or that of `--resume`, without what was half written."""
    if options.resume:
        for partial in list(options.resume.rglob(".*.partial")):
            partial.unlink()
        return options.resume
    name = "joint" if len(options.recording) > 1 else sessions[0].recording.session_id
    lag = f"--lag={sessions[0].timeline.lag_s}"  # the one that was found: the last one counts
    return run_dir.create_run(options.out, name, [*options.arguments, lag])


def _print_metrics(results: list[SessionResult], folder: Path, json: Path | None):
    """Print the tables of a run and where its results are; write the metrics to `json` too, if given."""
    metrics = [result.metrics for result in results]
    if json:
        json.parent.mkdir(parents=True, exist_ok=True)
        run_dir.write_json(json, metrics[0] if len(metrics) == 1 else {"sessions": metrics})
    for m in metrics:
        print(f"\n{m['session']}", table(m["models"], m["behavior_columns"]), sep="\n")
    print("R² displayed: of what a screen shows at each moment. µs/bin: streaming, median and 99th percentile.")
    where = " for each session" if len(metrics) > 1 else ""
    print(f"\n{folder}: checkpoint.npz, metrics.json, decoded.npz, decoded.png{where}")


def stream(options: Namespace) -> int:
    """Replay held-out trials through the streaming decoder; print latency, R², and the difference to the batch form."""
    model, trained_on = run_dir.load_run(options.run)
    source = options.recording or Path(trained_on.source or EMBEDDED)
    recording = read_matching(source, trained_on)
    with prefix_errors(source):
        session = prepare(recording, trained_on.split, trained_on.lag_s, model.config.bin_width_s, trained_on.seed)
        print(experiment.describe(session), flush=True)
    played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    difference = abs(played.outputs - batch_decode(model, session, played)).max()
    print(f"{sum(played.bins)} bins of {session.timeline.bin_width_s:g} s, {len(played.outputs)} outputs")
    latency = np.percentile(played.step_us, (50, 90, 99, 99.9))
    print("latency  p50 {:.0f} µs  p90 {:.0f} µs  p99 {:.0f} µs  p99.9 {:.0f} µs".format(*latency))
    print(f"largest difference to the batch form  {difference:.1e} {recording.behavior_unit}")
    print(f"R²  {played.r2:.3f}")
    return 0


def predict(options: Namespace) -> int:
    """Apply a trained decoder to a recording; write the output, and print R² if the file has the behaviour."""
    model, trained_on = run_dir.load_run(options.run)
    run_dir.check_new(options.out)
    recording = read_for_prediction(options.recording, trained_on)
    with prefix_errors(options.recording):
        report = data_report(recording, model.config.bin_width_s)
        times, decoded, played = predict_recording(model, recording, trained_on.lag_s)
    columns = trained_on.behavior_columns
    with run_dir.new_folder(options.out, f"{recording.session_id}-predicted") as (new, folder):
        experiment.save_decoded(new / "decoded.npz", trained_on, times, decoded)
        header = ",".join(column.replace(",", ";") for column in ("time", *columns))
        form = "%.6f" + ",%.7g" * len(columns)
        np.savetxt(new / "decoded.csv", np.c_[times, decoded], form, header=header, comments="", encoding="utf-8")
    print(*report, *(f"note: {note}" for note in recording.notes), sep="\n")
    if len(played.times_s):
        scores = "  ".join(f"{column} {r2:.3f}" for column, r2 in zip(columns, played.r2_columns, strict=True))
        seen = "; RUN was trained on this session" if recording.session_id == trained_on.session_id else ""
        print(f"R²  {scores}  mean {played.r2:.3f}, of all {len(played.times_s):,} samples{seen}")
    else:
        print("only spikes were used: no behaviour was read")
    print(f"{folder}: decoded.npz, decoded.csv, {len(times):,} times")
    return 0


def live(options: Namespace) -> int:
    """Decode a stream of spike events while it arrives, until Ctrl-C; print the counts and the latency."""
    print(decode_live(*run_dir.load_run(options.run), options.stream, options.wait_s))
    return 0


def simulate(options: Namespace) -> int:
    """Send the spikes of a recording as a stream, at their own pace, once it is received."""
    recording = load_recording(options.recording or EMBEDDED)
    print(f"{play(recording, options.stream, options.start_s):,} spikes of {recording.n_units} units were sent")
    return 0


def check(options: Namespace) -> int:
    """Measure the quality of a recording; print it and save a picture."""
    names = (Path(f"{options.recording.stem}-check-{i}.png") for i in itertools.count(1))
    path = options.out or next(name for name in names if not os.path.lexists(name))
    run_dir.check_new(path)
    recording = load_recording(options.recording, **_given(Selection, options))
    with prefix_errors(options.recording):
        lines, figure = check_recording(recording)
    print(*lines, *(f"note: {note}" for note in recording.notes), sep="\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, format="png")  # whatever its suffix
    print(f"{path}: picture")
    return 0


def download(options: Namespace) -> int:
    """Download a public recording."""
    path = download_recording(options.name, options.to)
    print(f"{path}: complete. To decode it: possm-lite decode {shlex.quote(str(path))}")
    return 0
