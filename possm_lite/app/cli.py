"""The command line: `possm-lite decode`, `stream`, `predict`, `live`, `simulate`, `check` and `download`."""

import argparse
import os
import re
import sys
from dataclasses import fields
from pathlib import Path

from .. import __version__
from ..errors import PossmError

# To be set before NumPy and torch are loaded. A second thread slows streaming down; in training it gains a third, but
# beside another busy process the two wait for each other, and training takes several times longer.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")


def main(argv: list[str] | None = None) -> int:
    """Run a command. Returns 0, or 2 with one line on stderr for unusable input, or 130 if interrupted."""
    try:
        options = _parse(sys.argv[1:] if argv is None else argv)
        from . import commands

        return getattr(commands, options.command)(options)
    except (PossmError, OSError, KeyboardInterrupt) as exc:
        is_interrupted = isinstance(exc, KeyboardInterrupt) or isinstance(
            exc.__cause__, KeyboardInterrupt
        )
        message = " ".join(str(exc).split()) or "interrupted"
    # only here: an exception keeps the bar of a download alive, which then writes its last state
    sys.stderr.write(
        f"possm-lite: {message}\n"
    )  # at once, as two processes may write into one terminal
    return 130 if is_interrupted else 2


def _parse(argv: list[str]) -> argparse.Namespace:
    """The options; with `--resume`, those that the run was started with."""
    parser = _parser()
    options = parser.parse_args(argv)
    if run := getattr(options, "resume", None):
        if options != parser.parse_args(["decode", f"--resume={run}"]):
            parser.error(
                "--resume goes on with the recordings and options of the run; give no others"
            )
        from .run_dir import load_command

        folder, argv = load_command(run)
        options = _parser(folder).parse_args(argv)
        options.resume = run
    options.arguments = argv
    return options


def _parser(folder: Path = Path()) -> argparse.ArgumentParser:
    """Paths are relative to the folder. Options have the names of the fields of configurations that they set."""
    from ..decoder.config import BACKBONES, READINGS, POSSMConfig
    from ..recordings.formats.download import ADDRESSES, FOLDER
    from ..training.fit import FitConfig

    path = folder.joinpath
    parser = argparse.ArgumentParser(
        prog="possm-lite", description="Decode the movement of a hand from spikes."
    )
    parser.add_argument("--version", action="version", version=f"possm-lite {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    decode = commands.add_parser("decode", help="train POSSM and test it beside two baselines")
    decode.usage = "possm-lite decode [options] [recording ...]"
    add = decode.add_argument
    add(
        "recording",
        nargs="*",
        type=path,
        help=".npz, .mat, .nwb, ...; several: one model; default: the simulated one",
    )
    _add_selection(decode)
    add(
        "--lag",
        dest="lag_s",
        type=seconds_or_auto,
        metavar="S",
        help="behaviour minus spikes, or auto (default 0)",
    )
    add("--bin-width", dest="bin_width_s", type=float, metavar="S", help="seconds (default 0.05)")
    add("--split", help="default chronological:70/10/20")
    add("--backbone", choices=BACKBONES, help="default gru")
    add("--reading", choices=READINGS, help=f"default {POSSMConfig.reading}; published: softmax")
    add(
        "--from",
        dest="from_run",
        type=path,
        metavar="RUN",
        help="adapt the decoder of this run to a new session",
    )
    add(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="to train on (default auto: cuda if there)",
    )
    add("--seed", type=int, default=0)
    add(
        "--out",
        type=path,
        metavar="DIR",
        help="new folder for the results (default runs/SESSION-N)",
    )
    add("--json", type=path, metavar="PATH", help="write the metrics there too")
    add(
        "--quick",
        dest="epochs",
        action="store_const",
        const=3,
        help="three epochs (--from: 200 steps): does it run?",
    )
    add(
        "--resume",
        type=path,
        metavar="RUN",
        help="go on with a run that was interrupted, as it was started",
    )
    _add_fields(decode.add_argument_group("sizes of the model"), POSSMConfig)
    _add_fields(decode.add_argument_group("training, of the baseline GRU too"), FitConfig)

    stream = commands.add_parser(
        "stream", help="replay held-out trials through the streaming decoder, bin by bin"
    )
    predict = commands.add_parser(
        "predict", help="apply a trained decoder to a recording; spikes alone are enough"
    )
    live = commands.add_parser(
        "live", help="decode spike events of Lab Streaming Layer until Ctrl-C"
    )
    for command in (stream, predict, live):
        command.add_argument(
            "run", type=path, metavar="RUN", help="folder that decode wrote, or a checkpoint"
        )
    stream.add_argument(
        "recording", nargs="?", type=path, help="default: the recording it was trained on"
    )
    predict.add_argument("recording", type=path, help="of the same units")
    predict.add_argument(
        "--out", type=path, metavar="DIR", help="new folder (default runs/SESSION-predicted-N)"
    )
    late = "after a bin, for late events (default 0.05)"
    live.add_argument("--wait", dest="wait_s", type=float, default=0.05, metavar="S", help=late)
    simulate = commands.add_parser(
        "simulate", help="send the spikes of a recording by Lab Streaming Layer"
    )
    simulate.add_argument("recording", nargs="?", type=path, help="default: the simulated one")
    simulate.add_argument(
        "--start", dest="start_s", type=float, metavar="S", help="where in it to start, seconds"
    )
    for command in (live, simulate):
        command.add_argument(
            "--stream", required=True, metavar="NAME", help="the stream of spike events"
        )

    check = commands.add_parser("check", help="measure the quality of a recording, with a picture")
    check.add_argument("recording", type=path)
    _add_selection(check)
    check.add_argument(
        "--out", type=path, metavar="PNG", help="new picture (default RECORDING-check-N.png)"
    )

    download = commands.add_parser("download", help="download a public recording")
    download.add_argument("name", metavar="NAME", help=f"one of {', '.join(ADDRESSES)}")
    download.add_argument(
        "--to", type=path, default=FOLDER, metavar="DIR", help=f"default {FOLDER}"
    )
    return parser


def _add_selection(parser: argparse.ArgumentParser):
    """Options for what of a file is read."""
    add = parser.add_argument
    add(
        "--behavior",
        action="append",
        metavar="NAME",
        help="series to decode; several times: together",
    )
    columns = {"type": lambda text: [name.strip() for name in text.split(",")], "metavar": "A,B"}
    add("--columns", **columns, help="its columns, by name or number (all)")
    add("--units", metavar="EXPR", help='only units with, e.g., "quality == \'good\'"; "": all')
    add(
        "--trials",
        metavar="EXPR",
        help='only trials with, e.g., "result == \'R\' and duration > 0.3"; "": all',
    )


def _add_fields(group, config: type):
    """Options for the numbers in a configuration, each with its line in the docstring."""
    from_recording_or_above = {
        "n_units",
        "n_sessions",
        "n_outputs",
        "bin_width_s",
        "seed",
        "validations",
    }
    words = dict(re.findall(r"^ +(\w+): (.+?)\.?$", config.__doc__ or "", re.MULTILINE))
    for field in fields(config):
        kind = type(field.default)
        if kind in (int, float) and field.name not in from_recording_or_above:
            flag = f"--{field.name.removesuffix('_s').replace('_', '-')}"
            text = f"{words.get(field.name, '')} (default {field.default})".replace("%", "%%")
            group.add_argument(flag, dest=field.name, type=kind, metavar="N", help=text)


def seconds_or_auto(text: str) -> float | str:
    return text if text == "auto" else float(text)
