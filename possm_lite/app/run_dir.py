"""The folder of a run.

Until there are results:
    unfinished.json                     the command
    training-units.pt, training.pt      states of training
Results; of several sessions, in a folder for each:
    checkpoint.npz, metrics.json, decoded.npz, decoded.png
"""

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

# of unit identification, in `decode --from`; of the training of all weights
TRAINING_FILES = ("training-units.pt", "training.pt")
_COMMAND_FILE = "unfinished.json"


def write_json(path: Path, value):
    """Write a JSON file, as a whole or not at all.

    Args:
        path: the file.
        value: what JSON can hold.

    Raises:
        CheckpointError: the file could not be written.
    """
    with prefix_errors(path, CheckpointError), atomic_write(path) as partial:
        partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def safe_name(name: str) -> str:
    """A `name` as that of a folder, of up to 60 letters, digits, "-", "_" and "."."""
    allowed = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
    shortened = allowed.strip(".")[:60].rstrip(".")
    return shortened or "run"


def check_new(*paths: Path | None):
    """Raises FileExistsError if one of the `paths` exists; None is passed over."""
    for path in paths:
        if path and os.path.lexists(path):
            raise FileExistsError(
                f"{path} exists already and is not overwritten: choose another name."
            )


def new_path(name: str, suffix: str = "") -> Path:
    """The first of NAME-1, NAME-2, ... that does not exist.

    Args:
        name: the path before the number.
        suffix: what follows the number, such as ".png".

    Returns:
        A path at which there is neither file nor folder.
    """
    number = 1
    while os.path.lexists(f"{name}-{number}{suffix}"):
        number += 1
    return Path(f"{name}-{number}{suffix}")


@contextmanager
def name_out(path: Path) -> Iterator[None]:
    """Say where else to write, where a path cannot be written, as in a folder that is read-only.

    Args:
        path: the file or folder that is written.

    Raises:
        PossmError: the path, why it cannot be written, and the option --out.
    """
    try:
        yield
    except OSError as exc:
        raise PossmError(
            f"{path} cannot be written ({exc.strerror or exc}): "
            "name a place where you may write, with --out."
        ) from exc


@contextmanager
def new_folder(out: Path | None, name: str) -> Iterator[tuple[Path, Path]]:
    """A folder that is there as a whole or not at all.

    Args:
        out: its path; None: runs/NAME-1, -2, ..., the first that is free.
        name: NAME, such as that of a session.

    Yields:
        A folder to write to, and the path that it gets when all is written.
    """
    folder = out or new_path(f"runs/{safe_name(name)}")
    with name_out(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = TemporaryDirectory(
            prefix=".", suffix=".partial", dir=folder.parent, ignore_cleanup_errors=True
        )
    with temporary as partial:
        new = Path(partial, "run")
        new.mkdir()
        yield new, folder
        new.rename(folder)


def create_run(out: Path | None, name: str, arguments: list[str]) -> Path:
    """Make the folder of a new run, which can be resumed.

    Args:
        out: its path; None: the first of runs/NAME-1, -2, ... that is free.
        name: NAME.
        arguments: those of the command; their paths are relative to the working directory.

    Returns:
        The path of the folder.
    """
    command = {"folder": str(Path.cwd()), "arguments": arguments}
    with new_folder(out, name) as (new, folder):
        write_json(new / _COMMAND_FILE, command)
    return folder


def is_unfinished(run: Path) -> bool:
    """Whether a folder, `run`, is of a run that can be resumed."""
    return (run / _COMMAND_FILE).exists()


def load_command(run: Path) -> tuple[Path, list[str]]:
    """The command of an unfinished run; what was half written is removed.

    Args:
        run: folder of the run.

    Returns:
        The directory that the command was started in, and its arguments.

    Raises:
        CheckpointError: there is nothing to resume, or the file of the command is damaged.
    """
    if not is_unfinished(run):
        if not run.exists():
            raise CheckpointError(f"{run}: there is no such folder.")
        state = "is finished"
        if not (run / "metrics.json").exists():
            state += ", or is not the folder of a run"
        raise CheckpointError(f"{run} {state}: there is nothing to resume.")
    for partial in list(run.rglob(".*.partial")):
        partial.unlink(missing_ok=True)
    path = run / _COMMAND_FILE
    with prefix_errors(path, CheckpointError), wrap_errors("is damaged"):
        command = json.loads(path.read_text(encoding="utf-8"))
        return Path(command["folder"]), command["arguments"]


@contextmanager
def resumable(options: Namespace) -> Iterator[None]:
    """Say how to go on, where an error or an interruption ends an unfinished run.

    Args:
        options: those of `decode`; `resume` is the folder of the run, once there is one.

    Raises:
        PossmError: the error and the command to go on with.
    """
    try:
        yield
    except (KeyboardInterrupt, PossmError, OSError) as exc:
        if options.resume is None or not is_unfinished(options.resume):
            raise
        message = "interrupted" if isinstance(exc, KeyboardInterrupt) else exc
        command = f"possm-lite decode --resume {shlex.quote(str(options.resume))}"
        raise PossmError(f"{message}; to go on: {command}") from exc


def mark_finished(run: Path):
    """Remove what only an unfinished run has from its folder, `run`."""
    for name in (_COMMAND_FILE, *TRAINING_FILES):
        (run / name).unlink(missing_ok=True)


def load_run(run: Path) -> tuple[POSSM, TrainedOn]:
    """The decoder of a run.

    Args:
        run: the folder of a run of one session, or a file of `save_checkpoint`.

    Returns:
        The decoder, and what it was trained on.

    Raises:
        CheckpointError: there is no decoder; the message names the folder or command that is meant.
    """
    if is_unfinished(run):
        raise CheckpointError(
            f"{run} is not finished: possm-lite decode --resume {shlex.quote(str(run))}"
        )
    if of_sessions := sorted(str(path.parent) for path in run.glob("*/checkpoint.npz")):
        raise CheckpointError(
            f"{run} is of several sessions: name the folder of one, {', '.join(of_sessions)[:300]}"
        )
    return load_checkpoint(run if run.is_file() else run / "checkpoint.npz")
