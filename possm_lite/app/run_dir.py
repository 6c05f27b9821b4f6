"""The folder of a run.

unfinished.json, training-units.pt, training.pt             the command, and states of training, until there are results
checkpoint.npz, metrics.json, decoded.npz, decoded.png      results; of several sessions, in a folder for each
"""

import itertools
import json
import os
import shlex
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ..decoder.possm import POSSM
from ..errors import CheckpointError, PossmError, prefix_errors, wrap_errors
from ..recordings.arrays import atomic_write
from ..training.checkpoint import TrainedOn, load_checkpoint

TRAINING_FILES = (
    "training-units.pt",
    "training.pt",
)  # of unit identification, in `decode --from`; of all weights
_COMMAND_FILE = "unfinished.json"


def write_json(path: Path, value):
    """Write a JSON file, as a whole or not at all. Raises CheckpointError."""
    with prefix_errors(path, CheckpointError), atomic_write(path) as partial:
        partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def safe_name(name: str) -> str:
    """The name of a folder, of up to 60 letters, digits, "-", "_" and "."."""
    return (
        "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".")[:60].rstrip(".")
        or "run"
    )


def check_new(*paths: Path | None):
    """Raises FileExistsError if one of the paths exists."""
    for path in paths:
        if path and os.path.lexists(path):
            raise FileExistsError(
                f"{path} exists already and is not overwritten: choose another name."
            )


def new_path(name: str, suffix: str = "") -> Path:
    """The first of NAME-1, NAME-2, ... that does not exist."""
    paths = (Path(f"{name}-{i}{suffix}") for i in itertools.count(1))
    return next(path for path in paths if not os.path.lexists(path))


@contextmanager
def new_folder(out: Path | None, name: str) -> Iterator[tuple[Path, Path]]:
    """Yields a folder to write to, and the path that it gets when all is written: `out`, or runs/NAME-1, -2, ..."""
    folder = out or new_path(f"runs/{safe_name(name)}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(
        prefix=".", suffix=".partial", dir=folder.parent, ignore_cleanup_errors=True
    ) as partial:
        new = Path(partial, "run")
        new.mkdir()
        yield new, folder
        new.rename(folder)


def create_run(out: Path | None, name: str, arguments: list[str]) -> Path:
    """A new run, which can be resumed with these arguments of the command; their paths are relative to this folder."""
    with new_folder(out, name) as (new, folder):
        write_json(new / _COMMAND_FILE, {"folder": str(Path.cwd()), "arguments": arguments})
    return folder


def is_unfinished(run: Path) -> bool:
    """Whether the folder is of a run that can be resumed."""
    return (run / _COMMAND_FILE).exists()


def load_command(run: Path) -> tuple[Path, list[str]]:
    """Folder and arguments of the command of an unfinished run; what was half written goes. Raises CheckpointError."""
    if not is_unfinished(run):
        raise CheckpointError(
            f"{run} is finished, or is not a run folder: there is nothing to resume."
        )
    for partial in list(run.rglob(".*.partial")):
        partial.unlink(missing_ok=True)
    path = run / _COMMAND_FILE
    with prefix_errors(path, CheckpointError), wrap_errors("is damaged"):
        command = json.loads(path.read_text(encoding="utf-8"))
        return Path(command["folder"]), command["arguments"]


@contextmanager
def resumable(options: Namespace) -> Iterator[None]:
    """Where an interruption or another error ends the unfinished run `options.resume`, PossmError says how to go on."""
    try:
        yield
    except (KeyboardInterrupt, PossmError, OSError) as exc:
        if options.resume is None or not is_unfinished(options.resume):
            raise
        message = "interrupted" if isinstance(exc, KeyboardInterrupt) else exc
        command = f"possm-lite decode --resume {shlex.quote(str(options.resume))}"
        raise PossmError(f"{message}; to go on: {command}") from exc


def mark_finished(run: Path):
    """Remove what only an unfinished run has."""
    for name in (_COMMAND_FILE, *TRAINING_FILES):
        (run / name).unlink(missing_ok=True)


def load_run(run: Path) -> tuple[POSSM, TrainedOn]:
    """The decoder of a run's folder, or of a file. CheckpointError names the folder or command that is meant."""
    if is_unfinished(run):
        raise CheckpointError(
            f"{run} is not finished: possm-lite decode --resume {shlex.quote(str(run))}"
        )
    if of_sessions := sorted(str(path.parent) for path in run.glob("*/checkpoint.npz")):
        raise CheckpointError(
            f"{run} is of several sessions: name the folder of one, {', '.join(of_sessions)[:300]}"
        )
    return load_checkpoint(run if run.is_file() else run / "checkpoint.npz")
