"""The folder of a run: what it needs to go on while it is unfinished, and then its results.

unfinished.json                                the command it was started with, until the results are there
training.npz                                   the state of training, from the first epoch on, until then too
checkpoint.npz, metrics.json, decoded.png      the results; of several runs, in a folder for each
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import CheckpointError, prefix_errors, wrap_errors
from ..spikes.arrays import atomic_write, check_readable
from .checkpoint import save_checkpoint
from .experiment import Run
from .report import picture

STATE = "training.npz"
_COMMAND = "unfinished.json"


def begin_folder(folder: Path, arguments: Sequence[str]):
    """Make the folder of a run, with what it was started with in it, or not at all.

    Raises:
        FileExistsError: there is a folder already with something in it.
        CheckpointError, OSError: it could not be written; nothing is left behind.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _partial_folder(folder.parent) as partial:
        with prefix_errors(folder / _COMMAND, CheckpointError), atomic_write(partial / _COMMAND) as path:
            path.write_text(json.dumps(list(arguments), indent=2) + "\n", encoding="utf-8")
        try:
            partial.rename(folder)
        except OSError as trouble:
            if trouble.errno == errno.ENOTEMPTY:
                raise FileExistsError(f"{folder} exists already") from trouble
            raise


def is_unfinished(folder: Path) -> bool:
    """Whether a run was begun there that can go on."""
    return (folder / _COMMAND).exists()


def arguments_of(folder: Path) -> list[str]:
    """What an unfinished run was started with.

    Raises:
        CheckpointError: it is finished, never was, or what stands there cannot be read.
    """
    if not is_unfinished(folder):
        finished = any(folder.glob("**/metrics.json"))
        raise CheckpointError(f"{folder}: {'is finished' if finished else 'is no run'}; there is nothing to resume.")
    path = folder / _COMMAND
    with prefix_errors(path, CheckpointError):
        check_readable(path)
        with wrap_errors("is damaged"):
            return [str(argument) for argument in json.loads(path.read_text(encoding="utf-8"))]


def sweep(folder: Path):
    """Remove what was being written when the run was killed."""
    for partial in folder.glob(".*.partial"):
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


def save_runs(finished: Sequence[Run], folder: Path):
    """Write checkpoint, metrics and picture into the folder of a run, and with that the run is finished.

    Of several runs, each gets a folder in it with the name of its session.

    Raises:
        OSError: something could not be written; the run is unfinished then, and all that it needs to go on is there.
    """
    with _partial_folder(folder) as partial:
        for one in finished:
            own = partial if len(finished) == 1 else partial / safe_name(one.trained_on.session_id)
            own.mkdir(exist_ok=True)
            save_checkpoint(own / "checkpoint.npz", one.model, one.trained_on)
            (own / "metrics.json").write_text(json.dumps(one.metrics, indent=2) + "\n", encoding="utf-8")
            picture(one.decoded, one.session).savefig(own / "decoded.png", dpi=120)
        for file in (path for path in partial.rglob("*") if path.is_file()):
            place = folder / file.relative_to(partial)
            place.parent.mkdir(exist_ok=True)
            os.replace(file, place)
    (folder / _COMMAND).unlink(missing_ok=True)  # that it is finished; whoever is killed here leaves too much behind
    (folder / STATE).unlink(missing_ok=True)


@contextlib.contextmanager
def _partial_folder(parent: Path) -> Iterator[Path]:
    """A new folder to write in; what is left in it at the end goes with it."""
    partial = parent / f".{uuid.uuid4().hex}.partial"
    partial.mkdir()
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def safe_name(name: str) -> str:
    """A name that can be a folder's anywhere."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".")[:60] or "run"


def next_folder(parent: Path, name: str) -> Path:
    """The first of parent/name-1, parent/name-2, ... that does not exist."""
    number = 1
    while os.path.lexists(parent / f"{name}-{number}"):
        number += 1
    return parent / f"{name}-{number}"
