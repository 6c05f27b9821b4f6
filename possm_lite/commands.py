"""Implements the commands."""

import shlex
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from .decoder.config import POSSMConfig
from .decoder.possm import POSSM
from .decoder.streaming.decoder import StreamingDecoder
from .errors import DistributedError, PossmError, RecordingError, prefix_errors
from .spikes.arrays import write_arrays
from .spikes.data_report import data_report
from .spikes.io import load_recording
from .spikes.io.contents import Selection
from .spikes.io.download import download as download_recording
from .spikes.recording import Recording
from .training import experiment, run_dir
from .training.baselines import search_lag
from .training.check import check_recording
from .training.checkpoint import TrainedOn, TrainingCheckpoint, check_ranges, load_checkpoint
from .training.distributed import ProcessGroup, process_group
from .training.evaluate import batch_decode, replay, slot_offsets
from .training.fit import FitConfig
from .training.predict import match
from .training.predict import predict as predict_recording
from .training.report import table
from .training.session import Session, prepare
from .training.transfer import ADAPTATION
from .training.windows import sessions_of_rank

_DATA = Path(__file__).resolve().parent / "data"  # of an installed package; in the repository it is one folder up
EMBEDDED = (_DATA if _DATA.is_dir() else _DATA.parents[1] / "data") / "simulated_session.npz"


def decode(options: Namespace) -> int:
    """Train on one or several recordings, test, print and save; under `torchrun` as one of several processes.

    Raises:
        PossmError: the input is unusable, or the run was interrupted: the message then says how to resume it.
    """
    if options.quick and options.epochs is None:
        options.epochs = 3
    folder, arguments = None, _arguments(options)
    try:
        with process_group() as group:
            start = _start(options)
            config, sizes = _settings(options)
            sources = options.recording or [EMBEDDED]
            if start and len(sources) > 1:
                raise PossmError(f"--from adapts a decoder to one recording, not to {len(sources)}.")
            device = _device(options.device, group)
            indices = sessions_of_rank(group, len(sources), config.batch)
            recordings = {i: _read(sources[i - 1], options.selection, group.is_main) for i in indices}
            if options.lag == "auto":
                options.lag = _best_lag(recordings, options, group)
            jobs = {i: _job(recording, sources[i - 1], options) for i, recording in recordings.items()}
            ids = group.all_gather({i: trained_on.session_id for i, (_, trained_on) in jobs.items()})
            descriptions = group.all_gather(
                {i: _description(session, sources[i - 1]) for i, (session, _) in jobs.items()}
            )
            columns = group.all_gather({i: trained_on.behavior_columns for i, (_, trained_on) in jobs.items()})
            _check_columns(columns, sources, start)
            if group.is_main:
                arguments.append(f"--lag={options.lag}")  # the last one counts
                folder = _prepare_run_dir(options, arguments, _run_name(ids, sources))
                print(*descriptions.values(), sep="\n", flush=True)
            folder = group.broadcast(folder)
            checkpoints = [TrainingCheckpoint(folder / name) for name in run_dir.TRAINING_FILES]
            results = experiment.run_experiment(jobs, config, sizes, checkpoints, group, device, start)
            if group.is_main:
                _finish(options, folder, results)
    except (KeyboardInterrupt, DistributedError, OSError) as exc:
        if folder is None or not run_dir.is_unfinished(folder):
            raise
        message = "interrupted" if isinstance(exc, KeyboardInterrupt) else exc
        raise PossmError(f"{message}; to go on: possm-lite decode --resume {shlex.quote(str(folder))}") from exc
    return 0


def stream(options: Namespace) -> int:
    """Replay held-out trials through the streaming decoder; print latency, R², and the difference to the batch form."""
    model, trained_on = load_checkpoint(options.run / "checkpoint.npz")
    source = options.recording or Path(trained_on.source or EMBEDDED)
    recording = match(_read(source, trained_on.selection), trained_on, source)
    with prefix_errors(source):
        session = prepare(recording, trained_on.split, trained_on.lag_s, model.config.bin_width_s, trained_on.seed)
    print(_description(session, source), flush=True)
    played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session, progress="streaming")
    difference = abs(played.outputs - batch_decode(model, session, played)).max()
    print(f"{sum(played.bins)} bins of {session.timeline.bin_width_s:g} s, {len(played.outputs)} answers")
    print("latency  " + "  ".join(f"p{q:g} {played.percentile_us(q):.0f} µs" for q in (50, 90, 99, 99.9)))
    print(f"largest difference to the batch answer  {difference:.1e} {recording.behavior_unit}")
    print(f"R²  {played.r2:.3f}")
    return 0


def predict(options: Namespace) -> int:
    """Apply a trained decoder to a recording; write the output, and print R² if the file has the behaviour."""
    model, trained_on = load_checkpoint(options.run / "checkpoint.npz")
    source, selection, reason = options.recording, trained_on.selection, "it has no behaviour"
    if options.out:
        run_dir.check_target(options.out)
    try:
        recording = match(_read(source, selection), trained_on, source)
    except RecordingError as exc:
        recording = _read(source, replace(selection, trials="", spikes_only=True))
        recording, reason = match(recording, trained_on, source), str(exc)
    with prefix_errors(source):
        report = data_report(recording, model.config.bin_width_s)
        times, decoded, played = predict_recording(model, recording, trained_on.lag_s)
    columns = trained_on.behavior_columns

    def write(folder: Path):
        folder.mkdir(parents=True)
        arrays = {"times": times, "decoded": decoded, "columns": columns, "unit": trained_on.behavior_unit}
        write_arrays(folder / "decoded.npz", arrays)
        header = ",".join(column.replace(",", ";") for column in ("time", *columns))
        np.savetxt(folder / "decoded.csv", np.c_[times, decoded], "%.7g", ",", header=header, comments="")

    folder = run_dir.create_numbered(options.out, f"{run_dir.safe_name(recording.session_id)}-predicted", write)
    print(*report, *(f"note: {note}" for note in recording.notes), sep="\n")
    if len(played.times_s):
        scores = "  ".join(f"{column} {r2:.3f}" for column, r2 in zip(columns, played.r2_columns, strict=True))
        print(f"R²  {scores}  mean {played.r2:.3f}, of all {len(played.times_s):,} samples")
    else:
        print(f"only spikes were used: {reason}")
    print(f"{folder}: decoded.npz, decoded.csv, {len(times):,} times")
    return 0


def check(options: Namespace) -> int:
    """Measure the quality of a recording; print it and save a picture."""
    path = options.out or Path(f"{options.recording.stem}-check.png")
    run_dir.check_target(path)
    recording = _read(options.recording, _selection(options))
    with prefix_errors(options.recording):
        lines, figure = check_recording(recording)
    print(*lines, *(f"note: {note}" for note in recording.notes), sep="\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, format="png")  # whatever its suffix
    print(f"{path}: picture")
    return 0


def download(options) -> int:
    """Download a public recording."""
    path = download_recording(options.name, options.to)
    print(f"{path}: complete. To decode it: possm-lite decode {shlex.quote(str(path))}")
    return 0


def _selection(options: Namespace) -> Selection:
    columns = [column.strip() for column in (options.columns or "").split(",") if column.strip()]
    return Selection(options.behavior or (), columns, options.units or "", options.trials or "")


def _start(options: Namespace) -> tuple[POSSM, FitConfig] | None:
    """The decoder of `--from`, if given, and the settings that adapt it.

    Completes the options: lag, split and selection are those of its training, or the defaults.
    """
    start, run, options.selection = None, vars(options)["from"], _selection(options)
    lag, width, split = 0.0, POSSMConfig.bin_width_s, "chronological:70/10/20"
    if run:
        if given := _given(POSSMConfig, options):
            raise PossmError(f"--from takes {', '.join(given)} from {run}: they cannot be options.")
        model, trained_on = load_checkpoint(run / "checkpoint.npz")
        start = model, replace(ADAPTATION, **_given(FitConfig, options))
        lag, width, split = trained_on.lag_s, model.config.bin_width_s, trained_on.split
        if options.selection == Selection():
            options.selection = trained_on.selection
    options.lag = lag if options.lag is None else options.lag
    options.bin_width, options.split = options.bin_width or width, options.split or split
    return start


def _given(kind: type, options: Namespace) -> dict:
    """The fields of a configuration that are options and have a value."""
    values = {field.name: getattr(options, field.name.removesuffix("_s"), None) for field in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def _settings(options: Namespace) -> tuple[FitConfig, dict]:
    """Settings of training, and sizes of the model. PossmError for invalid sizes."""
    sizes = _given(POSSMConfig, options)
    try:
        check_ranges(asdict(POSSMConfig(1, **sizes)))
    except ValueError as exc:
        raise PossmError(f"sizes of the model: {exc}") from exc
    return FitConfig(**_given(FitConfig, options)), sizes


def _device(name: str, group: ProcessGroup) -> str:
    """Device to train on. PossmError if there is none as asked for."""
    if name == "cuda" and group.size > 1:
        raise PossmError("--device cuda trains in one process; the processes of torchrun train on the CPU.")
    if name == "cuda" and not torch.cuda.is_available():
        raise PossmError("--device cuda: torch finds no GPU here; use --device cpu.")
    return "cuda" if name != "cpu" and group.size == 1 and torch.cuda.is_available() else "cpu"


def _best_lag(recordings: Mapping[int, Recording], options: Namespace, group: ProcessGroup) -> float:
    """The lag with the best validation R² of a Wiener filter, mean of the sessions; all are printed."""
    step = max(options.bin_width / 2, 0.01)
    lags = np.round(step * np.arange(np.ceil(-0.2 / step - 1e-6), np.floor(0.3 / step + 1e-6) + 1), 6)
    scores = {}
    for i, recording in recordings.items():
        with tqdm(lags, desc="lag", leave=False, disable=not group.is_main) as tried:
            scores[i] = search_lag(recording, tried, options.split, options.bin_width, options.seed)
    mean = np.mean(list(group.all_gather(scores).values()), axis=0)
    if np.isnan(mean).any():
        raise RecordingError("--lag auto: behaviour does not change in the validation part; give a number.")
    best = float(lags[mean.argmax()])
    if group.is_main:
        curve = " ".join(f"{r2:.2f}" for r2 in mean)
        print(f"lag: validation R² of a Wiener filter at {lags[0]:g} to {lags[-1]:g} s: {curve}; best {best:g} s")
    return best


def _read(source: Path, selection: Selection, say: bool = True) -> Recording:
    if say and source.is_file() and source.stat().st_size > 2e7:
        print(f"reading {source} ...", file=sys.stderr, flush=True)
    return load_recording(source, **asdict(selection))


def _job(recording: Recording, source: Path, options: Namespace) -> tuple[Session, TrainedOn]:
    with prefix_errors(source):
        session = prepare(recording, options.split, options.lag, options.bin_width, options.seed)
    return session, TrainedOn(
        source="" if source == EMBEDDED else str(source.resolve()),
        selection=options.selection,
        session_id=recording.session_id,
        unit_ids=tuple(recording.unit_ids.tolist()),
        behavior_name=recording.behavior_name,
        behavior_columns=tuple(recording.behavior_columns.tolist()),
        behavior_unit=recording.behavior_unit,
        lag_s=options.lag,
        split=options.split,
        seed=options.seed,
    )


def _description(session: Session, source: Path) -> str:
    """What is decoded, for print. Raises RecordingError if the recording cannot be decoded meaningfully."""
    recording, split = session.recording, session.split
    with prefix_errors(source):
        report = data_report(recording, session.timeline.bin_width_s, vars(split))
    what = "trials" if len(recording.trials) >= len(vars(split)) else "recorded time"
    line = (
        f"{recording.session_id}: {recording.n_units} units, {len(recording.spike_times):,} spikes; "
        f"{session.split_config} of {what}: {len(split.train)}, {len(split.valid)}, {len(split.test)}; "
        f"lag {session.timeline.lag_s:g} s, bins of {session.timeline.bin_width_s:g} s"
    )
    return "\n".join([line, *(f"  {text}" for text in report), *(f"  note: {note}" for note in recording.notes)])


def _check_columns(columns: Mapping[int, tuple], sources: list[Path], start: tuple[POSSM, FitConfig] | None):
    """Raise RecordingError if sessions that share a decoder have different columns of behaviour."""
    for i, found in columns.items():
        if found != columns[1]:
            raise RecordingError(f"{sources[i - 1]}: decoded are {found}, but {columns[1]} in {sources[0]}.")
    if start and len(columns[1]) != (n := start[0].config.n_outputs):
        raise RecordingError(f"{sources[0]}: decoded are {columns[1]}, but {n} columns in the run of --from.")


def _run_name(session_ids: dict[int, str], sources: list[Path]) -> str:
    """Name of the folder of a run. Raises RecordingError if two sessions, which get a folder each, have one name."""
    names = {i: run_dir.safe_name(session_id) for i, session_id in session_ids.items()}
    name, count = Counter(names.values()).most_common(1)[0]
    if count > 1:
        same = " and ".join(str(sources[i - 1]) for i in names if names[i] == name)
        raise RecordingError(f"{same}: session_id is {name!r} in each; sessions must have different names.")
    return name if len(names) == 1 else "joint"


def _arguments(options: Namespace) -> list[str]:
    """The arguments that give the same options in any folder; without those of the run's folder."""
    arguments = [str(path.resolve()) for path in options.recording]
    for name, value in vars(options).items():
        if value is not None and name not in ("command", "recording", "out", "resume", "quick"):
            values = value if isinstance(value, list) else [value.absolute() if isinstance(value, Path) else value]
            arguments += [f"--{name.replace('_', '-')}={value}" for value in values]
    return arguments


def _prepare_run_dir(options: Namespace, arguments: list[str], name: str) -> Path:
    """Create the folder of a run, or clean up that of a resumed one. Raises OSError if something cannot be written."""
    if options.json:
        run_dir.check_target(options.json)
    if options.resume:
        run_dir.remove_partial_files(options.resume)
        return options.resume

    def create(folder: Path):
        if options.json and options.json.absolute() == folder.absolute():
            raise FileExistsError(f"{folder} cannot be both the folder of the run and the file of --json.")
        run_dir.create_run_dir(folder, arguments)

    return run_dir.create_numbered(options.out, name, create)


def _finish(options, folder: Path, results: list):
    """Save and print."""
    run = vars(options)["from"]
    for result in results:
        result.metrics["adapted_from"] = str(run.resolve()) if run else ""
    experiment.save_results(results, folder)
    metrics = [result.metrics for result in results]
    single = len(results) == 1
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        run_dir.write_json(options.json, metrics[0] if single else {"sessions": metrics})
    for m in metrics:
        print("" if single else f"{m['session']}:", table(m["models"], m["columns"]), sep="\n")
    where = "" if single else f" in each of {', '.join(run_dir.safe_name(m['session']) for m in metrics)}"
    print(f"\n{folder}: checkpoint.npz, metrics.json, decoded.npz, decoded.png{where}")
