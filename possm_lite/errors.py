"""The exceptions of the package, and context managers that turn errors into one line."""

import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class PossmError(Exception):
    """Base class: input that cannot be used, or training that cannot continue.

    The message is one line.
    """


class FileFormatError(PossmError, ValueError):
    """A file, or what is to be in one, is unusable."""


class RecordingError(FileFormatError):
    """A recording, or the file it is read from, cannot be used.

    The message names field, index, value and remedy.
    """


class CheckpointError(FileFormatError):
    """A checkpoint, or the state of an interrupted training, cannot be used."""


class DistributedError(PossmError, RuntimeError):
    """Several processes cannot train together as asked, or one of them has failed."""


def listed(names: Sequence[str]) -> str:
    """The first six of `names` as text, and how many more there are."""
    text = ", ".join(names[:6])
    if len(names) > 6:
        text += f" and {len(names) - 6} more"
    return text


def as_option(name: str, value: str) -> str:
    """An option with its value as somebody types it, such as --units "rate > 1".

    Args:
        name: of the option, without the dashes.
        value: any text; of a long one the first 200 characters.
    """
    text = value if value.isprintable() else repr(value)[1:-1]
    text = f"{text:.200}"
    if any(not (letter.isalnum() or letter in "_-/:.,") for letter in text) or not text:
        quote = "'" if '"' in text else '"'
        text = f"{quote}{text}{quote}"
    return f"--{name} {text}"


@contextmanager
def locate_guide(name: str = "CONVERTERS.md") -> Iterator[None]:
    """Put where a guide lies, of the project or installed with it, for its name in errors.

    Args:
        name: of the guide; it stays as it is where the guide is not found.
    """
    try:
        yield
    except FileFormatError as exc:
        project, installed = Path(__file__).parents[1] / "docs", Path(sysconfig.get_path("data"))
        for folder in (project, installed / "share" / "doc" / "possm-lite"):
            guide = folder / name
            if guide.is_file() and name in str(exc):
                if guide.is_relative_to(Path.cwd()):
                    guide = guide.relative_to(Path.cwd())
                raise type(exc)(str(exc).replace(name, str(guide))) from exc
        raise


@contextmanager
def prefix_errors(
    path: str | Path, error: type[FileFormatError] = RecordingError
) -> Iterator[None]:
    """Raise a FileFormatError from inside on one line that begins with a path.

    Args:
        path: the file that is read or written.
        error: class of the exception that is raised instead.
    """
    try:
        yield
    except FileFormatError as exc:
        raise error(" ".join(f"{path}: {exc}".split())) from exc


@contextmanager
def wrap_errors(message: str | Callable[[Exception], str]) -> Iterator[None]:
    """Raise any exception of a library's parser, MemoryError included, as FileFormatError.

    Ours pass unchanged.

    Args:
        message: what is wrong with the file, to which the reason is added; or a function that makes
            the whole message of the exception.

    Raises:
        FileFormatError: the message with the reason, or which package is missing.
    """
    try:
        yield
    except FileFormatError:
        raise
    except ImportError as exc:
        package = str(exc.name).partition(".")[0]
        raise FileFormatError(f"needs {package}: pip install {package}") from exc
    except Exception as exc:
        if callable(message):
            raise FileFormatError(message(exc)) from exc
        reason = " ".join(f"{type(exc).__name__} {exc}".split())
        raise FileFormatError(f"{message}: {reason[:200]}") from exc
