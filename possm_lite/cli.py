"""The command line: `possm-lite decode`, `possm-lite stream` and `possm-lite download`."""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

from .errors import CheckpointError, PossmError

# To be set before NumPy and torch are loaded. A second thread slows streaming down; in training it gains a third, but
# beside another busy process the two wait for each other, and training takes several times longer.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")


def main(argv: list[str] | None = None) -> int:
    """Run a command. Returns 0, or 2 with one line on stderr for unusable input, or 130 if interrupted."""
    try:
        options = _parse(argv)
        from . import commands

        return getattr(commands, options.command)(options)
    except (PossmError, OSError) as exc:
        message, status = " ".join(str(exc).split()), 130 if isinstance(exc.__cause__, KeyboardInterrupt) else 2
    except KeyboardInterrupt:
        message, status = "interrupted; nothing was written", 130
    print(f"possm-lite: {message}", file=sys.stderr)
    return status


def _parse(argv: list[str] | None) -> argparse.Namespace:
    """The options; with `--resume`, those that the run was started with."""
    main_process = "TORCHELASTIC_RUN_ID" not in os.environ or os.environ["RANK"] == "0"
    with contextlib.nullcontext() if main_process else _no_output():  # one of torchrun's processes reports errors
        parser = _parser()
        options = parser.parse_args(argv)
        run_dir = getattr(options, "resume", None)
        if run_dir is None:
            return options
        if options != parser.parse_args(["decode", f"--resume={run_dir}"]):
            parser.error("--resume goes on with the recordings and options of the run; give no others")
    from .training.experiment import load_arguments

    arguments = load_arguments(run_dir)
    try:
        with _no_output():
            options = parser.parse_args(["decode", *arguments])
    except SystemExit:
        raise CheckpointError(f"{run_dir}: its command is damaged: {' '.join(arguments)[:200]}") from None
    options.resume = run_dir
    return options


@contextlib.contextmanager
def _no_output():
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


def _parser() -> argparse.ArgumentParser:
    from .decoder.config import BACKBONES
    from .spikes.io.download import ADDRESSES, FOLDER

    parser = argparse.ArgumentParser(prog="possm-lite", description="Decode the movement of a hand from spikes.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    more = "Computes on one thread. On a quiet machine, OMP_NUM_THREADS=2 in the environment is faster."
    decode = commands.add_parser("decode", help="train POSSM and test it beside two baselines", epilog=more)
    add = decode.add_argument
    files = ".npz, .mat or .nwb; several make one model; default: the simulated one"
    add("recording", nargs="*", type=Path, help=files)
    add("--backbone", choices=BACKBONES, default="gru")
    whole = _number(int, 1, 10**6, "a whole number")
    add("--epochs", type=whole, help="passes over the training part (default 40; 3 with --quick)")
    add("--seed", type=_number(int, 0, 2**63 - 1, "a whole number"), default=0)
    lag, width = _number(float, -10, 10, "seconds"), _number(float, 0.001, 10, "seconds")
    add("--lag", type=lag, default=0.0, metavar="S", help="behaviour minus spikes, seconds")
    add("--bin-width", type=width, default=0.05, metavar="S", help="seconds (default 0.05)")
    add("--split", type=_split, default="chronological:70/10/20", help="default chronological:70/10/20")
    add("--behavior", metavar="NAME", help="series of an .nwb file to decode")
    add("--out", type=Path, metavar="DIR", help="new folder for the results (default runs/SESSION-N)")
    add("--json", type=Path, metavar="PATH", help="write the metrics there too")
    add("--quick", action="store_true", help="train for a moment only: does it run?")
    add("--resume", type=Path, metavar="RUN", help="go on with a run that was interrupted, as it was started")

    stream = commands.add_parser("stream", help="replay held-out trials through the streaming decoder, bin by bin")
    stream.add_argument("run", type=Path, metavar="RUN", help="folder that decode wrote")
    stream.add_argument("recording", nargs="?", type=Path, help="default: the recording it was trained on")

    download = commands.add_parser("download", help="download a public recording")
    download.add_argument("name", metavar="NAME", help=f"one of {', '.join(ADDRESSES)}")
    download.add_argument("--to", type=Path, default=FOLDER, metavar="DIR", help=f"default {FOLDER}")
    return parser


def _number(kind: type, low: float, high: float, description: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        with contextlib.suppress(ValueError):
            if low <= (value := kind(text)) <= high:
                return value
        raise argparse.ArgumentTypeError(f"must be {description} between {low} and {high}, not {text!r}")

    return parse


def _split(text: str) -> str:
    from .spikes.split import SplitConfig

    try:
        return str(SplitConfig.parse(text))
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None
