"""The folder of a run.

unfinished.json                                arguments of the command, until the results are there
training-units.pt, training.pt                 states of training, from the first epoch on, until then too
checkpoint.npz, metrics.json, decoded.npz,     results; of several sessions, in a folder for each
decoded.png
"""

import itertools
import json
import os
import shlex
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import CheckpointError, DistributedError, PossmError, prefix_errors, wrap_errors
from ..spikes.arrays import atomic_write

TRAINING_FILES = ("training-units.pt", "training.pt")  # of unit identification, in `decode --from`; of all weights
ARGUMENTS_FILE = "unfinished.json"


def write_json(path: Path, value):
    """Write a JSON file, as a whole or not at all. Raises CheckpointError."""
    with prefix_errors(path, CheckpointError), atomic_write(path) as partial:
        partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def create_folder(out: Path | None, name: str, write: Callable[[Path], object]) -> Path:
    """Create the folder `out`, or else the first of runs/NAME-1, runs/NAME-2, ... that does not exist.

    `write` fills it while it has another name, so that nothing is left if that fails; its errors and OSError pass.
    """
    names = (Path("runs", f"{safe_name(name)}-{i}") for i in itertools.count(1))
    path = out or next(path for path in names if not os.path.lexists(path))
    check_target(path)  # an empty folder would be replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", suffix=".partial", dir=path.parent, ignore_cleanup_errors=True) as partial:
        new = Path(partial, "run")
        new.mkdir()
        write(new)
        new.rename(path)
    return path


def load_arguments(run_dir: Path) -> list[str]:
    """Arguments of the command of an unfinished run. CheckpointError if it is finished, no run, or damaged."""
    if not is_unfinished(run_dir):
        reason = "is finished" if any(run_dir.glob("**/metrics.json")) else "is not a run folder"
        raise CheckpointError(f"{run_dir}: {reason}; there is nothing to resume.")
    path = run_dir / ARGUMENTS_FILE
    with prefix_errors(path, CheckpointError), wrap_errors("is damaged"):
        return [str(argument) for argument in json.loads(path.read_text(encoding="utf-8"))]


def is_unfinished(run_dir: Path) -> bool:
    """Whether the folder is of a run that can be resumed."""
    return (run_dir / ARGUMENTS_FILE).exists()


@contextmanager
def resumable(options: Namespace) -> Iterator[None]:
    """Where an interruption, a full disk or a dead process ends the run `options.resume`, PossmError says how to go on.

    Other errors pass as they are: a state of another training, for one, would be met again.
    """
    try:
        yield
    except (KeyboardInterrupt, DistributedError, OSError, CheckpointError) as exc:
        run_dir = options.resume
        is_other_training = isinstance(exc, CheckpointError) and not _caused_by_system(exc)
        if run_dir is None or not is_unfinished(run_dir) or is_other_training:
            raise
        message = "interrupted" if isinstance(exc, KeyboardInterrupt) else exc
        is_saved = any((run_dir / name).exists() for name in TRAINING_FILES)
        again = "go on" if is_saved else "start again, as nothing was saved yet"
        raise PossmError(f"{message}; to {again}: possm-lite decode --resume {shlex.quote(str(run_dir))}") from exc


def _caused_by_system(exc: BaseException | None) -> bool:
    return exc is not None and (isinstance(exc, OSError) or _caused_by_system(exc.__cause__))


def remove_partial_files(run_dir: Path):
    """Remove what a killed process was writing."""
    for partial in list(run_dir.rglob(".*.partial")):
        shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)


def mark_finished(run_dir: Path):
    """Remove what only an unfinished run has."""
    for name in (ARGUMENTS_FILE, *TRAINING_FILES):
        (run_dir / name).unlink(missing_ok=True)


def check_target(path: Path):
    """Raises OSError if the path exists or cannot be created."""
    if os.path.lexists(path):
        remedy = f"Go on with --resume {path}" if is_unfinished(path) else "Move it away"
        raise FileExistsError(f"{path} exists already; nothing is overwritten. {remedy}, or choose another name.")
    parent = next(p for p in path.absolute().parents if os.path.lexists(p))
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise NotADirectoryError(f"{path} cannot be written: {parent} is not a writable folder.")


def safe_name(name: str) -> str:
    """The name of a folder, of up to 60 letters, digits, "-", "_" and "."."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".")[:60].rstrip(".") or "run"
