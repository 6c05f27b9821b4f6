"""The command line: `possm-lite` decode, stream, predict, live, simulate, check and download."""

import argparse
import codecs
import contextlib
import os
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

from .. import __version__
from ..errors import PossmError

# To be set before NumPy and torch are loaded. A second thread slows streaming down; in training it
# gains a third, but beside another busy process the two wait for each other, and training takes
# several times longer.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Options that set a field of `POSSMConfig`; its other numbers follow from the recordings.
_MODEL_OPTIONS = {
    "dim": "D, size of tokens, latents and queries",
    "n_heads": "heads of both cross-attentions",
    "n_kv_heads": "fewer than n_heads: heads share keys and values (grouped-query attention)",
    "head_dim": "size of a head, even",
    "n_latents": "L, latent queries per bin; their outputs are concatenated for the backbone",
    "n_freqs": "F, rotated pairs per head; the other head_dim - 2F dimensions are not rotated",
    "shortest_period_s": "of the rotation, seconds; periods are log-spaced up to the longest",
    "longest_period_s": "likewise",
    "expansion": "hidden size of the feed-forward layers over D",
    "hidden": "units in a layer of the backbone",
    "n_layers": "layers of the backbone",
    "context_bins": "k, hidden states an output query sees: its own bin's and the k - 1 before",
}
# Options that set a field of `FitConfig`.
_TRAINING_OPTIONS = {
    "epochs": "passes over the training part",
    "window_s": (
        "length of a training window, seconds; shorter if most segments of trials are shorter"
    ),
    "batch": "windows in a step",
    "samples": "behaviour samples of a window used in a step, drawn anew each time",
    "lr": (
        "peak learning rate of AdamW; "
        "it warms up over the first tenth and falls to zero along a cosine; of classes 0.001"
    ),
    "weight_decay": "of AdamW",
    "unit_dropout": (
        "largest share of units hidden from a window, the share is drawn for every window; of "
        "classes 0.5"
    ),
}


def main(argv: list[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: name of the command and its options; None: those of this process.

    Returns:
        The exit status: 0, or 2 with one line on stderr for unusable input, or 130 if interrupted.
    """
    _print_in_any_code_page()
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
    # written at once, as two processes may write into one terminal
    sys.stderr.write(f"possm-lite: {message}\n")
    return 130 if is_interrupted else 2


def _print_in_any_code_page():
    """Let the output of this process spell what its encoding has no character for.

    SpikeInterface #3429: output redirected on Chinese Windows is in GBK, which has no "²".
    """
    codecs.register_error("possm_lite.spell", _spell)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not in a notebook
            with contextlib.suppress(OSError, ValueError):  # a pipe in the place of a file; closed
                stream.reconfigure(errors="possm_lite.spell")


def _spell(error: UnicodeError) -> tuple[str, int]:
    """What is written for characters that cannot be encoded: R2 for R², us for µs, else ?."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    spelled = ""
    for character in error.object[error.start : error.end]:
        letter = unicodedata.normalize("NFKD", character.replace("µ", "u"))[0]
        spelled += letter if letter.isascii() else "?"
    return spelled, error.end


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
    """Paths are relative to the folder. Options have the names of the fields that they set."""
    parser = argparse.ArgumentParser(
        prog="possm-lite",
        description="Decode the movement of a hand, or a choice, from spikes.",
        epilog="A class's answers in one table: python -m possm_course.grade FOLDER",
    )
    parser.add_argument("--version", action="version", version=f"possm-lite {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    decode = commands.add_parser("decode", help="train POSSM and test it beside two baselines")
    stream = commands.add_parser(
        "stream", help="replay held-out trials through the streaming decoder, bin by bin"
    )
    predict = commands.add_parser(
        "predict", help="apply a trained decoder to a recording; spikes alone are enough"
    )
    live = commands.add_parser(
        "live", help="decode spike events of Lab Streaming Layer until Ctrl-C"
    )
    simulate = commands.add_parser(
        "simulate", help="send the spikes of a recording by Lab Streaming Layer"
    )
    check = commands.add_parser("check", help="measure the quality of a recording, with a picture")
    download = commands.add_parser("download", help="download a public recording")
    path = folder.joinpath
    _add_decode(decode, path)
    _add_stream(stream, path)
    _add_predict(predict, path)
    _add_live(live, path)
    _add_simulate(simulate, path)
    _add_check(check, path)
    _add_download(download, path)
    return parser


def _add_decode(parser: argparse.ArgumentParser, path: Callable[[str], Path]):
    """Options of `decode`; `path` makes a path of the text of an option, here and below."""
    from ..decoder.config import BACKBONES, READINGS, POSSMConfig
    from ..training.fit import FitConfig

    parser.usage = "possm-lite decode [options] [recording ...]"
    add = parser.add_argument
    add(
        "recording",
        nargs="*",
        type=path,
        help=".npz, .mat, .nwb, ...; several: one model; default: the simulated one",
    )
    _add_selection(parser)
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
    sizes = parser.add_argument_group("sizes of the model")
    _add_fields(sizes, POSSMConfig, _MODEL_OPTIONS)
    training = parser.add_argument_group("training, of the baseline GRU too")
    _add_fields(training, FitConfig, _TRAINING_OPTIONS)


def _add_stream(parser: argparse.ArgumentParser, path: Callable[[str], Path]):
    """Options of `stream`."""
    _add_run(parser, path)
    parser.add_argument(
        "recording", nargs="?", type=path, help="default: the recording it was trained on"
    )


def _add_predict(parser: argparse.ArgumentParser, path: Callable[[str], Path]):
    """Options of `predict`."""
    _add_run(parser, path)
    parser.add_argument("recording", type=path, help="of the same units")
    parser.add_argument(
        "--out", type=path, metavar="DIR", help="new folder (default runs/SESSION-predicted-N)"
    )


def _add_live(parser: argparse.ArgumentParser, path: Callable[[str], Path]):
    """Options of `live`."""
    _add_run(parser, path)
    parser.add_argument(
        "--wait",
        dest="wait_s",
        type=float,
        default=0.05,
        metavar="S",
        help="after a bin, for late events (default 0.05)",
    )
    _add_stream_name(parser)
    parser.add_argument(
        "--source",
        metavar="ID",
        help="host, source id or number of the stream, where several have its name",
    )


def _add_simulate(parser: argparse.ArgumentParser, path: Callable[[str], Path]):
    """Options of `simulate`."""
    parser.add_argument("recording", nargs="?", type=path, help="default: the simulated one")
    parser.add_argument(
        "--start", dest="start_s", type=float, metavar="S", help="where in it to start, seconds"
    )
    _add_stream_name(parser)


def _add_check(parser: argparse.ArgumentParser, path: Callable[[str], Path]):
    """Options of `check`."""
    parser.add_argument("recording", type=path)
    _add_selection(parser)
    parser.add_argument(
        "--out", type=path, metavar="PNG", help="new picture (default RECORDING-check-N.png)"
    )


def _add_download(parser: argparse.ArgumentParser, path: Callable[[str], Path]):
    """Options of `download`."""
    from ..recordings.formats.download import ADDRESSES, FOLDER

    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(ADDRESSES)}")
    parser.add_argument("--to", type=path, default=FOLDER, metavar="DIR", help=f"default {FOLDER}")


def _add_run(parser: argparse.ArgumentParser, path: Callable[[str], Path]):
    """The decoder of a command."""
    parser.add_argument(
        "run", type=path, metavar="RUN", help="folder that decode wrote, or a checkpoint"
    )


def _add_stream_name(parser: argparse.ArgumentParser):
    """The stream of Lab Streaming Layer that a command reads or sends."""
    parser.add_argument(
        "--stream", required=True, metavar="NAME", help="the stream of spike events"
    )


def _add_selection(parser: argparse.ArgumentParser):
    """Options for what of a file is read."""
    add = parser.add_argument
    add(
        "--behavior",
        action="append",
        metavar="NAME",
        help="series to decode, or labels of trials, as classes; several times: together",
    )
    add(
        "--columns",
        type=_names,
        metavar="A,B",
        help="its columns, by name or number (all)",
    )
    add("--units", metavar="EXPR", help='only units with, e.g., "quality == \'good\'"; "": all')
    add(
        "--trials",
        metavar="EXPR",
        help='only trials with, e.g., "result == \'R\' and duration > 0.3"; "": all',
    )


def _names(text: str) -> list[str]:
    """The names in "A, B"."""
    return [name.strip() for name in text.split(",")]


def _add_fields(group, config: type, helps: dict[str, str]):
    """Options for numbers in a configuration, with the type and the default of their fields."""
    for name, text in helps.items():
        flag = "--" + name.removesuffix("_s").replace("_", "-")
        default = getattr(config, name)
        group.add_argument(
            flag,
            dest=name,
            type=type(default),
            metavar="N",
            help=f"{text} (default {default})",
        )


def seconds_or_auto(text: str) -> float | str:
    """A number of seconds from the `text` of an option, or "auto" as it is."""
    return text if text == "auto" else float(text)
