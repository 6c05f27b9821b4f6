"""What the commands `decode` and `stream` do, from their options to what they print."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from .decoder.streaming.decoder import StreamingDecoder
from .errors import RecordingError, prefix_errors
from .spikes.arrays import atomic_write
from .spikes.io import load_recording
from .spikes.recording import Recording
from .training.checkpoint import TrainedOn, load_checkpoint
from .training.distributed import crew
from .training.experiment import Task, run
from .training.fit import FitConfig
from .training.replay import batch_decode, replay, slot_offsets
from .training.report import table
from .training.resume import TrainingCheckpoint
from .training.run_dir import STATE, begin_folder, is_unfinished, next_folder, safe_name, save_runs, sweep
from .training.session import Session, prepare
from .training.windows import sessions_of_rank

EMBEDDED = Path(__file__).resolve().parent.parent / "data" / "simulated_session.npz"


def decode(options) -> int:
    """Train on one recording or several, test, print and save; under `torchrun` as one of several processes.

    `options.begun` becomes the folder of the run as soon as it is there.
    """
    sources = options.recording or [None]
    config = FitConfig(epochs=_epochs(options), seed=options.seed)
    with crew() as us:
        tasks = {n: _open(sources[n - 1], options) for n in sessions_of_rank(us, len(sources), config.batch)}
        names = us.collect({n: safe_name(task.session.recording.session_id) for n, task in tasks.items()})
        about = us.collect({n: _description(task.session) for n, task in tasks.items()})
        if us.leads:
            _check_names(names, sources)
            options.begun = _folder(options, names[1] if len(names) == 1 else "joint")
            print(*about.values(), sep="\n", flush=True)
        folder = options.begun = us.collect({"": options.begun} if us.leads else {})[""]
        finished = run(tasks, config, options.backbone, crew=us, saved=TrainingCheckpoint(folder / STATE))
        if not us.leads:
            return 0
        save_runs(finished, folder)
        if options.json:
            metrics = [one.metrics for one in finished]
            _write_json(options.json, metrics[0] if len(metrics) == 1 else {"sessions": metrics})
        for one in finished:
            print(f"{one.metrics['session']}:" if len(finished) > 1 else "", table(one.metrics["models"]), sep="\n")
        below = "" if len(finished) == 1 else f" in each of {', '.join(names.values())}"
        print(f"\n{folder}: checkpoint.npz, metrics.json, decoded.png{below}")
    return 0


def stream(options) -> int:
    """Replay held-out trials through the streaming decoder and print how fast, how exact and how good it is."""
    model, about = load_checkpoint(options.run / "checkpoint.npz")
    source = options.recording or (Path(about.source) if about.source else EMBEDDED)
    recording = load_recording(source, about.behavior or None)
    _check_units(source, recording, about)
    with prefix_errors(source):
        session = prepare(recording, about.split, about.lag_s, model.config.bin_width_s, about.seed)
        played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    difference = abs(played.velocity - batch_decode(model, session, played)).max()
    print(_description(session))
    print(f"{sum(played.bins)} bins of {session.timeline.bin_width_s:g} s, {len(played.times_s)} answers")
    print("latency  " + "  ".join(f"p{q:g} {played.percentile_us(q):.0f} µs" for q in (50, 90, 99, 99.9)))
    print(f"largest difference to the batch answer  {difference:.1e} {recording.velocity_unit}")
    print(f"R²  {played.r2:.3f}")
    return 0


def _open(source: Path | None, options) -> Task:
    recording = load_recording(source or EMBEDDED, options.behavior)
    with prefix_errors(source or EMBEDDED):
        session = prepare(recording, options.split, options.lag, options.bin_width, options.seed)
    about = TrainedOn(
        source=str(source.resolve()) if source else "",
        behavior=options.behavior or "",
        session_id=recording.session_id,
        unit_ids=tuple(recording.unit_ids.tolist()),
        velocity_unit=recording.velocity_unit,
        lag_s=options.lag,
        split=options.split,
        seed=options.seed,
    )
    return Task(session, about, str(source or EMBEDDED))


def _description(session: Session) -> str:
    recording, split = session.recording, session.split
    what = "trials" if len(recording.trials) > 1 else "stretch of time"
    line = (
        f"{recording.session_id}: {recording.n_units} units, {len(recording.spike_times):,} spikes; "
        f"{session.split_config} of {what}: {len(split.train)}, {len(split.valid)}, {len(split.test)}; "
        f"lag {session.timeline.lag_s:g} s, bins of {session.timeline.bin_width_s:g} s"
    )
    return "\n".join([line, *(f"note: {note}" for note in recording.notes)])


def _check_names(names: dict[int, str], sources: list[Path | None]):
    """Each session gets a folder of its own name."""
    name, times = Counter(names.values()).most_common(1)[0]
    if times > 1:
        same = " and ".join(str(sources[n - 1]) for n, other in names.items() if other == name)
        raise RecordingError(f"{same}: session_id is {name!r} in each; sessions must have names of their own.")


def _folder(options, name: str) -> Path:
    """The folder of the run: made, or as it was left. What cannot be written is found out here, before the training."""
    if options.json:
        _check_target(options.json)
    if options.resume:
        sweep(options.resume)
        return options.resume
    while True:
        folder = options.out or next_folder(Path("runs"), name)
        if options.json and options.json.absolute() == folder.absolute():
            raise FileExistsError(f"{folder} cannot be both the folder of the run and the file of --json.")
        try:
            _check_target(folder)
            begin_folder(folder, _arguments(options))
            return folder
        except FileExistsError:
            if options.out:  # otherwise another run was quicker, and the next number is free
                raise


def _arguments(options) -> list[str]:
    """The options on a command line that means the same wherever and whenever it is given."""
    given = {
        "epochs": _epochs(options),
        "backbone": options.backbone,
        "seed": options.seed,
        "lag": options.lag,
        "bin-width": options.bin_width,
        "split": options.split,
        "behavior": options.behavior,
        "json": options.json and options.json.absolute(),
    }
    paths = [str(path.resolve()) for path in options.recording]
    return [*paths, *(f"--{name}={value}" for name, value in given.items() if value is not None)]


def _epochs(options) -> int:
    return options.epochs or (3 if options.quick else FitConfig.epochs)


def _check_target(path: Path):
    if os.path.lexists(path):
        cure = f"Go on with --resume {path}, or choose" if is_unfinished(path) else "Choose"
        raise FileExistsError(f"{path} exists already; nothing is overwritten. {cure} another name.")
    above = next(p for p in path.absolute().parents if os.path.lexists(p))
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise NotADirectoryError(f"{path} cannot be written: {above} is no folder that can be written to.")


def _check_units(source: Path, recording: Recording, about: TrainedOn):
    ours, theirs = tuple(recording.unit_ids.tolist()), about.unit_ids
    if ours != theirs:
        differ = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
        )
        raise RecordingError(
            f"{source}: unit_ids are not those the decoder was trained on: {len(ours)} against {len(theirs)} units, "
            f"first different at unit_ids[{differ}]."
        )


def _write_json(path: Path, metrics: dict):
    path.parent.mkdir(parents=True, exist_ok=True)
    with prefix_errors(path), atomic_write(path) as partial:
        partial.write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
