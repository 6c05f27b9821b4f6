"""The command line: `possm-lite decode` and `stream`."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shlex
import sys
from pathlib import Path

# A streamed step multiplies vectors by small matrices: handing these to a second thread costs more than it saves.
# It must be said before NumPy is loaded. Torch has its own threads and keeps them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(argv: list[str] | None = None) -> int:
    """Run a command; 0 when it is done, 2 with one line on stderr for input that cannot be used."""
    options = _parse(argv)
    try:
        return options.command(options)
    except _bad_input() as trouble:
        print(f"possm-lite: {' '.join(str(trouble).split())}{_way_on(options, trouble)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as trouble:
        print(f"possm-lite: interrupted{_way_on(options, trouble) or '; nothing was written'}", file=sys.stderr)
        return 130


def _way_on(options: argparse.Namespace, trouble: BaseException) -> str:
    """What to do about a run that was cut short by something that need not happen again."""
    begun = getattr(options, "begun", None)
    if begun is None:
        return ""

    from .errors import DistributedError
    from .training.run_dir import is_unfinished

    if not isinstance(trouble, (KeyboardInterrupt, DistributedError, OSError)) or not is_unfinished(begun):
        return ""
    return f"; to go on: possm-lite decode --resume {shlex.quote(str(begun))}"


def _parse(argv: list[str] | None) -> argparse.Namespace:
    if "TORCHELASTIC_RUN_ID" not in os.environ or os.environ["RANK"] == "0":
        return _options(argv)
    with _silence():
        return _options(argv)  # of the processes of torchrun, the first tells what is wrong


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(argv)
    resume = getattr(options, "resume", None)
    if resume is not None and options != parser.parse_args(["decode", f"--resume={resume}"]):
        parser.error("--resume goes on with the recordings and options of the run; give no others")
    return options


def _options_of(run: Path) -> dict:
    """The options that an unfinished run was started with."""
    from .errors import CheckpointError
    from .training.run_dir import arguments_of

    arguments = arguments_of(run)
    try:
        with _silence():
            return vars(_parser().parse_args(["decode", *arguments])) | {"resume": run}
    except SystemExit:
        raise CheckpointError(f"{run}: its command is damaged: {' '.join(arguments)[:200]}") from None


@contextlib.contextmanager
def _silence():
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere), contextlib.redirect_stdout(nowhere):
        yield


def _bad_input() -> tuple[type[Exception], ...]:
    from .errors import CheckpointError, DistributedError, RecordingError

    return RecordingError, CheckpointError, DistributedError, OSError


def _parser() -> argparse.ArgumentParser:
    from .decoder.config import BACKBONES

    parser = argparse.ArgumentParser(prog="possm-lite", description="Decode the movement of a hand from spikes.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    decode = commands.add_parser("decode", help="train POSSM on a recording and test it beside two baselines")
    decode.set_defaults(command=_decode)
    decode.add_argument(
        "recording",
        nargs="*",
        type=Path,
        help=".npz, .mat or .nwb; several make one model; default: the simulated one",
    )
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
    decode.add_argument(
        "--resume", type=Path, metavar="RUN", help="go on with a run that was interrupted, as it was started"
    )

    stream = commands.add_parser("stream", help="replay held-out trials through the streaming decoder, bin by bin")
    stream.set_defaults(command=_stream)
    stream.add_argument("run", type=Path, metavar="RUN", help="folder that decode wrote")
    stream.add_argument("recording", nargs="?", type=Path, help="default: the recording it was trained on")
    return parser


def _decode(options) -> int:
    from .commands import decode

    if options.resume is not None:
        vars(options).update(_options_of(options.resume))
    return decode(options)


def _stream(options) -> int:
    from .commands import stream

    return stream(options)


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
    from .spikes.split import SplitConfig

    try:
        return str(SplitConfig.parse(text))
    except ValueError as trouble:
        raise argparse.ArgumentTypeError(str(trouble)) from None


if __name__ == "__main__":
    sys.exit(main())
