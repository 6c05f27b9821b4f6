"""Implements the `decode`, `stream` and `download` commands."""

import itertools
import os
import shlex
from collections import Counter
from pathlib import Path

from .decoder.streaming.decoder import StreamingDecoder
from .errors import DistributedError, PossmError, RecordingError, prefix_errors
from .spikes.data_report import data_report
from .spikes.io import load_recording
from .spikes.io.download import download as download_recording
from .training import experiment
from .training.checkpoint import TrainedOn, TrainingCheckpoint, load_checkpoint
from .training.distributed import process_group
from .training.evaluate import batch_decode, replay, slot_offsets
from .training.fit import FitConfig
from .training.report import table
from .training.session import Session, prepare
from .training.windows import sessions_of_rank

_DATA = Path(__file__).resolve().parent / "data"  # of an installed package; in the repository it is one folder up
EMBEDDED = (_DATA if _DATA.is_dir() else _DATA.parents[1] / "data") / "simulated_session.npz"


def decode(options) -> int:
    """Train on one or several recordings, test, print and save; under `torchrun` as one of several processes.

    Raises:
        PossmError: the input is unusable, or the run was interrupted: the message then says how to resume it.
    """
    run_dir = None
    try:
        with process_group() as group:
            config = FitConfig(epochs=options.epochs or (3 if options.quick else FitConfig.epochs), seed=options.seed)
            sources = options.recording or [EMBEDDED]
            jobs = {i: _load(sources[i - 1], options) for i in sessions_of_rank(group, len(sources), config.batch)}
            ids = group.all_gather({i: trained_on.session_id for i, (_, trained_on) in jobs.items()})
            descriptions = group.all_gather(
                {i: _description(session, sources[i - 1]) for i, (session, _) in jobs.items()}
            )
            if group.is_main:
                run_dir = _prepare_run_dir(options, config.epochs, _run_name(ids, sources))
                print(*descriptions.values(), sep="\n", flush=True)
            run_dir = group.broadcast(run_dir)
            checkpoint = TrainingCheckpoint(run_dir / experiment.TRAINING_FILE)
            results = experiment.run_experiment(jobs, config, options.backbone, group, checkpoint)
            if group.is_main:
                _finish(options, run_dir, results)
    except (KeyboardInterrupt, DistributedError, OSError) as exc:
        if run_dir is None or not experiment.is_unfinished(run_dir):
            raise
        message = "interrupted" if isinstance(exc, KeyboardInterrupt) else exc
        raise PossmError(f"{message}; to go on: possm-lite decode --resume {shlex.quote(str(run_dir))}") from exc
    return 0


def stream(options) -> int:
    """Replay held-out trials through the streaming decoder; print latency, R², and the difference to the batch form."""
    model, trained_on = load_checkpoint(options.run / "checkpoint.npz")
    source = options.recording or Path(trained_on.source or EMBEDDED)
    recording = load_recording(source, trained_on.behavior or None)
    with prefix_errors(source):
        units, trained = recording.unit_ids.tolist(), list(trained_on.unit_ids)
        if units != trained:
            first = next(i for i, (a, b) in enumerate(itertools.zip_longest(units, trained)) if a != b)
            raise RecordingError(
                f"unit_ids are not those the decoder was trained on: {len(units)} against {len(trained)} units, "
                f"first different at unit_ids[{first}]."
            )
        session = prepare(recording, trained_on.split, trained_on.lag_s, model.config.bin_width_s, trained_on.seed)
    print(_description(session, source), flush=True)
    played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    difference = abs(played.outputs - batch_decode(model, session, played)).max()
    print(f"{sum(played.bins)} bins of {session.timeline.bin_width_s:g} s, {len(played.outputs)} answers")
    print("latency  " + "  ".join(f"p{q:g} {played.percentile_us(q):.0f} µs" for q in (50, 90, 99, 99.9)))
    print(f"largest difference to the batch answer  {difference:.1e} {recording.behavior_unit}")
    print(f"R²  {played.r2:.3f}")
    return 0


def download(options) -> int:
    """Download a public recording."""
    path = download_recording(options.name, options.to)
    print(f"{path}: complete. To decode it: possm-lite decode {shlex.quote(str(path))}")
    return 0


def _load(source: Path, options) -> tuple[Session, TrainedOn]:
    recording = load_recording(source, options.behavior)
    with prefix_errors(source):
        session = prepare(recording, options.split, options.lag, options.bin_width, options.seed)
    return session, TrainedOn(
        source="" if source == EMBEDDED else str(source.resolve()),
        behavior=options.behavior or "",
        session_id=recording.session_id,
        unit_ids=tuple(recording.unit_ids.tolist()),
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


def _run_name(session_ids: dict[int, str], sources: list[Path]) -> str:
    """Name of the folder of a run. Raises RecordingError if two sessions, which get a folder each, have one name."""
    names = {i: experiment.safe_name(session_id) for i, session_id in session_ids.items()}
    name, count = Counter(names.values()).most_common(1)[0]
    if count > 1:
        same = " and ".join(str(sources[i - 1]) for i in names if names[i] == name)
        raise RecordingError(f"{same}: session_id is {name!r} in each; sessions must have different names.")
    return name if len(names) == 1 else "joint"


def _prepare_run_dir(options, epochs: int, name: str) -> Path:
    """Create the folder of a run, or clean up that of a resumed one. Raises OSError if something cannot be written."""
    if options.json:
        _check_target(options.json)
    if options.resume:
        experiment.remove_partial_files(options.resume)
        return options.resume
    values = vars(options) | {"epochs": epochs, "json": options.json and options.json.absolute()}
    flags = ("epochs", "backbone", "seed", "lag", "bin_width", "split", "behavior", "json")
    arguments = [str(path.resolve()) for path in options.recording]  # with the same meaning in any folder
    arguments += [f"--{flag.replace('_', '-')}={values[flag]}" for flag in flags if values[flag] is not None]
    for run_dir in [options.out] if options.out else (Path("runs", f"{name}-{i}") for i in itertools.count(1)):
        if options.json and options.json.absolute() == run_dir.absolute():
            raise FileExistsError(f"{run_dir} cannot be both the folder of the run and the file of --json.")
        try:
            _check_target(run_dir)
            experiment.create_run_dir(run_dir, arguments)
            return run_dir
        except OSError:
            if options.out or not os.path.lexists(run_dir):  # else the number is taken, maybe by another run just now
                raise


def _check_target(path: Path):
    """Raises OSError if the path exists or cannot be created."""
    if os.path.lexists(path):
        remedy = f"Go on with --resume {path}, or choose" if experiment.is_unfinished(path) else "Choose"
        raise FileExistsError(f"{path} exists already; nothing is overwritten. {remedy} another name.")
    parent = next(p for p in path.absolute().parents if os.path.lexists(p))
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise NotADirectoryError(f"{path} cannot be written: {parent} is not a writable folder.")


def _finish(options, run_dir: Path, results: list):
    """Save and print."""
    experiment.save_results(results, run_dir)
    metrics = [result.metrics for result in results]
    single = len(results) == 1
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        experiment.write_json(options.json, metrics[0] if single else {"sessions": metrics})
    for m in metrics:
        print("" if single else f"{m['session']}:", table(m["models"], m["columns"]), sep="\n")
    where = "" if single else f" in each of {', '.join(experiment.safe_name(m['session']) for m in metrics)}"
    print(f"\n{run_dir}: checkpoint.npz, metrics.json, decoded.png{where}")
