"""The command line: `possm-lite decode`, `stream` and `bench`."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path

# A streamed step multiplies vectors by small matrices: handing these to a second thread costs more than it saves.
# It must be said before NumPy is loaded. Torch has its own threads and keeps them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

EMBEDDED = Path(__file__).resolve().parent.parent / "data" / "simulated_session.npz"


def main(argv: list[str] | None = None) -> int:
    """Run a command; 0 when it is done, 2 with one line on stderr for input that cannot be used."""
    options = _parser().parse_args(argv)
    try:
        return options.command(options)
    except _bad_input() as trouble:
        print(f"possm-lite: {' '.join(str(trouble).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("possm-lite: interrupted; nothing was written", file=sys.stderr)
        return 130


def _bad_input() -> tuple[type[Exception], ...]:
    from .spikes.recording import RecordingError
    from .training.checkpoint import CheckpointError

    return RecordingError, CheckpointError, OSError


def _parser() -> argparse.ArgumentParser:
    from .decoder.config import BACKBONES

    parser = argparse.ArgumentParser(prog="possm-lite", description="Decode the movement of a hand from spikes.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    decode = commands.add_parser("decode", help="train POSSM on a recording and test it beside two baselines")
    decode.set_defaults(command=_decode)
    decode.add_argument("recording", nargs="?", type=Path, help=".npz, .mat or .nwb; default: the simulated session")
    decode.add_argument("--backbone", choices=BACKBONES, default="gru")
    decode.add_argument("--epochs", type=_whole(1), help="passes over the training part (default 40; 3 with --quick)")
    decode.add_argument("--seed", type=_whole(0, 2**63 - 1), default=0)
    decode.add_argument(
        "--lag", type=_seconds(-10, 10), default=0.0, metavar="S", help="behaviour minus spikes, seconds"
    )
    decode.add_argument(
        "--bin-width", type=_seconds(0.001, 10), default=0.05, metavar="S", help="seconds (default 0.05)"
    )
    decode.add_argument("--split", type=_split, default="chronological:70/10/20", help="default chronological:70/10/20")
    decode.add_argument("--behavior", default=None, metavar="NAME", help="series of an .nwb file to decode")
    decode.add_argument("--out", type=Path, metavar="DIR", help="new folder for the results (default runs/SESSION-N)")
    decode.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    decode.add_argument("--quick", action="store_true", help="train for a moment only: does it run?")

    stream = commands.add_parser("stream", help="replay held-out trials through the streaming decoder, bin by bin")
    stream.set_defaults(command=_stream)
    stream.add_argument("run", type=Path, metavar="RUN", help="folder that decode wrote")
    stream.add_argument("recording", nargs="?", type=Path, help="default: the recording it was trained on")

    bench = commands.add_parser("bench", help="measure what the README claims, beside its limits")
    bench.set_defaults(command=_bench)
    bench.add_argument("only", nargs="*", metavar="NAME", help="default: all of them")
    return parser


def _decode(options) -> int:
    from .spikes.arrays import naming
    from .spikes.files import load_recording
    from .training.checkpoint import TrainedOn
    from .training.fit import FitConfig
    from .training.report import table
    from .training.run import next_folder, run, save_run
    from .training.session import prepare

    source = options.recording or EMBEDDED
    recording = load_recording(source, options.behavior)
    with naming(source):
        session = prepare(recording, options.split, options.lag, options.bin_width, options.seed)
    folder = options.out or next_folder(Path("runs"), recording.session_id)
    _check_targets(folder, options.json)
    _say_what(session)
    epochs = options.epochs or (3 if options.quick else FitConfig.epochs)
    about = TrainedOn(
        source=str(options.recording.resolve()) if options.recording else "",
        behavior=options.behavior or "",
        session_id=recording.session_id,
        unit_ids=tuple(recording.unit_ids.tolist()),
        velocity_unit=recording.velocity_unit,
        lag_s=options.lag,
        split=options.split,
        seed=options.seed,
    )
    with naming(source):
        finished = run(session, about, FitConfig(epochs=epochs, seed=options.seed), options.backbone)
    save_run(finished, folder)
    if options.json:
        _write_json(options.json, finished.metrics)
    print(table(finished.metrics["models"]))
    print(f"\n{folder}: checkpoint.npz, metrics.json, decoded.png")
    return 0


def _stream(options) -> int:
    from .decoder.streaming import StreamingDecoder
    from .spikes.arrays import naming
    from .spikes.files import load_recording
    from .training.checkpoint import load_checkpoint
    from .training.replay import batch_answer, replay, slot_offsets
    from .training.session import prepare

    model, about = load_checkpoint(options.run / "checkpoint.npz")
    source = options.recording or (Path(about.source) if about.source else EMBEDDED)
    recording = load_recording(source, about.behavior or None)
    _check_units(source, recording, about)
    with naming(source):
        session = prepare(recording, about.split, about.lag_s, model.config.bin_width_s, about.seed)
        played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    difference = abs(played.velocity - batch_answer(model, session, played)).max()
    unit = recording.velocity_unit
    _say_what(session)
    print(f"{sum(played.bins)} bins of {session.timeline.bin_width_s:g} s, {len(played.times_s)} answers")
    print("latency  " + "  ".join(f"p{q:g} {played.percentile_us(q):.0f} µs" for q in (50, 90, 99, 99.9)))
    print(f"largest difference to the batch answer  {difference:.1e} {unit}")
    print(f"R²  {played.r2:.3f}")
    return 0


def _bench(options) -> int:
    from .bench import main

    return main(options.only)


def _say_what(session):
    recording, parts = session.recording, session.parts
    what = "trials" if len(recording.trials) > 1 else "stretch of time"
    print(
        f"{recording.session_id}: {recording.n_units} units, {len(recording.spike_times):,} spikes; "
        f"{session.split} of {what}: {len(parts.train)}, {len(parts.valid)}, {len(parts.test)}; "
        f"lag {session.timeline.lag_s:g} s, bins of {session.timeline.bin_width_s:g} s"
    )
    for note in recording.notes:
        print(f"note: {note}")


def _check_targets(folder: Path, json_path: Path | None):
    """Found out before the training, not after it."""
    for path in filter(None, (folder, json_path)):
        if path.exists():
            raise FileExistsError(f"{path} exists already; nothing is overwritten. Choose another name.")
        above = next(p for p in path.absolute().parents if p.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise NotADirectoryError(f"{path} cannot be written: {above} is no folder that can be written to.")
    if json_path is not None and json_path.absolute() == folder.absolute():
        raise FileExistsError(f"{folder} cannot be both the folder of the run and the file of --json.")


def _check_units(source, recording, about):
    from .spikes.recording import RecordingError

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
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


def _whole(least: int, most: int = 10**6):
    def parse(text: str) -> int:
        if not text.strip().isdecimal() or len(text) > 20 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number between {least} and {most}, not {text!r}")
        return int(text)

    return parse


def _seconds(least: float, most: float):
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be seconds between {least} and {most}, not {text!r}")
        return value

    return parse


def _split(text: str) -> str:
    from .spikes.split import Split

    try:
        return str(Split.parse(text))
    except ValueError as trouble:
        raise argparse.ArgumentTypeError(str(trouble)) from None


if __name__ == "__main__":
    sys.exit(main())
