"""The engine of the exercises. The exercises themselves are beside the chapters, in `notebooks/exercises/`."""

from ..environment import check_versions

check_versions()  # chapters load their exercises first, so an outdated package is reported before anything fails

from ..load import load_exercises  # noqa: E402
from .check import Case, Check, ValueCheck, Verdict, exercise, gradient, normal  # noqa: E402
from .compare import as_tensor  # noqa: E402
from .sandbox import Complaint  # noqa: E402

__all__ = [
    "Case",
    "Check",
    "Complaint",
    "ValueCheck",
    "Verdict",
    "as_tensor",
    "exercise",
    "gradient",
    "load_exercises",
    "normal",
]
