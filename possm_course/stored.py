"""Where the files of the course are: what `experiments/` computed for long, and what a student saved."""

from pathlib import Path

FIRST_CHAPTER = Path("notebooks", "00_start_here.ipynb")


def project_root() -> Path:
    """The project's folder: the one with the notebook that is running, else the one that this package lies in.

    Raises:
        FileNotFoundError: neither has the chapters. An installed package comes without them.
    """
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[1]):
        if (folder / FIRST_CHAPTER).is_file():
            return folder
    raise FileNotFoundError(f"{FIRST_CHAPTER} is not in {here} or above it: run the notebook where it is.")


def result(name: str) -> Path:
    """The path of the file `name` in `experiments/`, which a script beside it has written."""
    return project_root() / "experiments" / name


def embedded_session() -> Path:
    """The path of the simulated session of the course, data/simulated_session.npz."""
    return project_root() / "data" / "simulated_session.npz"
