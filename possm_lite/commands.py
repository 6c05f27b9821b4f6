"""Implements the commands."""

import itertools
import os
import shlex
from argparse import Namespace
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import torch

from .decoder.config import POSSMConfig
from .decoder.possm import POSSM
from .decoder.stream import StreamingDecoder
from .errors import CheckpointError, PossmError, prefix_errors
from .spikes.data_report import data_report
from .spikes.io.contents import Selection
from .spikes.io.download import download as download_recording
from .spikes.io.lsl import play
from .spikes.split import SplitConfig
from .training import FitConfig, TrainedOn, experiment, load_checkpoint, loading, prepare, run_dir
from .training.check import check_recording
from .training.distributed import ProcessGroup, process_group
from .training.evaluate import batch_decode, replay, slot_offsets
from .training.experiment import EMBEDDED, SessionResult, Settings
from .training.fit import check_ranges
from .training.live import decode_live
from .training.predict import predict as predict_recording
from .training.predict import read_for_prediction, read_matching
from .training.report import names_as_they_are, table
from .training.session import Session
from .training.transfer import ADAPTATION

_ANY_RUN = Path("runs", ".run")  # in place of the name that a run gets when it is written


def decode(options: Namespace) -> int:
    """Train on one or several recordings, test, save and print; under `torchrun` as one of several processes.

    With `--resume` the options are those that the run was started with. Raises PossmError for unusable input, or an
    interruption: the message then says how to resume the run.
    """
    with run_dir.resumable(options), process_group() as group:
        settings = _settings(options, group)
        _check_targets(options)
        recordings = loading.read_recordings(settings, group)
        sessions = loading.prepare_sessions(recordings, settings, group)
        if group.is_main and options.resume:
            run_dir.remove_partial_files(options.resume)
        elif group.is_main:
            options.resume = _create_run(options, sessions)  # from here on the run can be resumed
        folder = options.resume = group.broadcast(options.resume)
        possm, history = experiment.train(sessions, settings, folder, group)  # resumed from the state in the folder
        results = experiment.compare(possm, history, sessions, settings, group)
        if group.is_main:
            experiment.save_results(results, folder)
            _print_metrics(results, folder, options.json)
    return 0


def _settings(options: Namespace, group: ProcessGroup) -> Settings:
    """What the options and the run of `--from` ask for. PossmError if it cannot be."""
    sizes = _given(POSSMConfig, options)
    training = _given(FitConfig, options)
    run = vars(options)["from"]
    given = _given(Settings, options) | {"device": _device(options.device, group)}
    sources = options.recording or [EMBEDDED]
    selected = {name: value for name, value in vars(_selection(options)).items() if value}
    selected |= {name: "" for name in ("units", "trials") if getattr(options, name) == ""}  # not those of --from
    try:
        check_ranges(vars(options))
        model = POSSMConfig(1, **sizes)
        SplitConfig.parse(options.split or Settings.split)
    except ValueError as exc:
        raise PossmError(str(exc)) from exc
    if not run:
        return Settings(sources, model, FitConfig(**training), FitConfig(**training), Selection(**selected), **given)
    if len(sources) > 1:
        raise PossmError(f"--from adapts a decoder to one recording, not to {len(sources)}.")
    if sizes:
        raise PossmError(f"--from takes {', '.join(sizes)} from {run}: leave out such options.")
    start, trained_on = _load_run(run)
    stored = {
        "split": trained_on.split,
        "lag_s": trained_on.lag_s,
        "selection": replace(trained_on.selection, **selected),
        "start": start,
        "adapted_from": str(run.resolve()),
    }
    adaptation = replace(ADAPTATION, **training)
    return Settings(sources, start.config, adaptation, FitConfig(**training), **stored | given)


def _given(kind: type, options: Namespace) -> dict:
    """The fields of a dataclass that are options and have a value."""
    values = {field.name: getattr(options, field.name, None) for field in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def _selection(options: Namespace) -> Selection:
    columns = [column.strip() for column in options.columns.split(",") if column.strip()]
    return Selection(options.behavior, columns, options.units or "", options.trials or "")


def _device(name: str, group: ProcessGroup) -> str:
    """Device to train on. PossmError if there is none as asked for."""
    usable = torch.cuda.is_available() and group.size == 1
    if name == "cuda" and not usable:
        reason = "the processes of torchrun train on the CPU" if group.size > 1 else "torch finds no GPU here"
        raise PossmError(f"--device cuda: {reason}; use --device cpu.")
    return "cuda" if name != "cpu" and usable else "cpu"


def _check_targets(options: Namespace):
    """Raises OSError if what is to be written exists already, or cannot be written."""
    targets = [options.json] if options.resume else [options.out or _ANY_RUN, options.json]
    for target in filter(None, targets):
        run_dir.check_target(target)


def _create_run(options: Namespace, sessions: list[Session]) -> Path:
    """The new folder of a run, with the arguments that give the same options from any other folder."""
    arguments = [str(path.resolve()) for path in options.recording]
    for name, value in vars(options).items():
        if value is not None and name not in ("command", "recording", "out"):
            values = value if isinstance(value, list) else [value.absolute() if isinstance(value, Path) else value]
            arguments += [f"--{name.removesuffix('_s').replace('_', '-')}={value}" for value in values]
    arguments.append(f"--lag={sessions[0].timeline.lag_s}")  # the one that was found: the last one counts
    name = "joint" if len(options.recording) > 1 else sessions[0].recording.session_id

    def write(folder: Path):
        run_dir.write_json(folder / run_dir.ARGUMENTS_FILE, arguments)

    return run_dir.create_folder(options.out, name, write)


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


def _load_run(run: Path) -> tuple[POSSM, TrainedOn]:
    """The decoder in the folder of a run. Raises CheckpointError, which names the folder or command that is meant."""
    path = run / "checkpoint.npz"
    if not path.exists() and run_dir.is_unfinished(run):
        raise CheckpointError(f"{run} is not finished: possm-lite decode --resume {shlex.quote(str(run))}")
    if not path.exists() and (found := sorted(str(one.parent) for one in run.glob("*/checkpoint.npz"))):
        raise CheckpointError(f"{run} is of several sessions: name the folder of one, {', '.join(found)[:300]}")
    return load_checkpoint(path)


def stream(options: Namespace) -> int:
    """Replay held-out trials through the streaming decoder; print latency, R², and the difference to the batch form."""
    model, trained_on = _load_run(options.run)
    source = options.recording or Path(trained_on.source or EMBEDDED)
    recording = read_matching(source, trained_on)
    with prefix_errors(source):
        session = prepare(recording, trained_on.split, trained_on.lag_s, model.config.bin_width_s, trained_on.seed)
        print(loading.describe(session), flush=True)
    played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session, progress="streaming")
    difference = abs(played.outputs - batch_decode(model, session, played)).max()
    print(f"{sum(played.bins)} bins of {session.timeline.bin_width_s:g} s, {len(played.outputs)} outputs")
    print("latency  " + "  ".join(f"p{q:g} {played.percentile_us(q):.0f} µs" for q in (50, 90, 99, 99.9)))
    print(f"largest difference to the batch form  {difference:.1e} {recording.behavior_unit}")
    print(f"R²  {played.r2:.3f}")
    return 0


def predict(options: Namespace) -> int:
    """Apply a trained decoder to a recording; write the output, and print R² if the file has the behaviour."""
    model, trained_on = _load_run(options.run)
    run_dir.check_target(options.out or _ANY_RUN)
    recording, notes = read_for_prediction(options.recording, trained_on)
    with prefix_errors(options.recording):
        report = data_report(recording, model.config.bin_width_s)
        times, decoded, played = predict_recording(model, recording, trained_on.lag_s)
    columns = trained_on.behavior_columns

    def write(folder: Path):
        experiment.save_decoded(folder / "decoded.npz", trained_on, times, decoded)
        header = ",".join(column.replace(",", ";") for column in ("time", *columns))
        form = "%.6f" + ",%.7g" * len(columns)
        np.savetxt(folder / "decoded.csv", np.c_[times, decoded], form, header=header, comments="", encoding="utf-8")

    folder = run_dir.create_folder(options.out, f"{recording.session_id}-predicted", write)
    print(*report, *(f"note: {note}" for note in [*recording.notes, *notes]), sep="\n")
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
    model, trained_on = _load_run(options.run)
    print(decode_live(model, trained_on, options.stream, options.wait_s))
    return 0


def simulate(options: Namespace) -> int:
    """Send the spikes of a recording as a stream, at their own pace, once it is received."""
    recording = loading.read(options.recording or EMBEDDED, Selection())
    print(f"{play(recording, options.stream, options.start_s):,} spikes of {recording.n_units} units were sent")
    return 0


def check(options: Namespace) -> int:
    """Measure the quality of a recording; print it and save a picture."""
    names = (Path(f"{options.recording.stem}-check-{i}.png") for i in itertools.count(1))
    path = options.out or next(name for name in names if not os.path.lexists(name))
    run_dir.check_target(path)
    recording = loading.read(options.recording, _selection(options))
    with prefix_errors(options.recording), names_as_they_are():
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
