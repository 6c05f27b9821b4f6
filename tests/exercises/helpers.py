"""Shared by the tests of the chapters' checks."""

from pathlib import Path
from types import ModuleType

from possm_lite.classroom.checks import load_exercises

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def load(chapter: str) -> ModuleType:
    """The exercises of a chapter."""
    return load_exercises(chapter, NOTEBOOKS)


def assert_right(exercise, answer):
    """A right answer is called right, in one line."""
    verdict = exercise.examine(answer)
    assert (verdict.status, verdict.message) == ("right", f"✓ {exercise.name}")


def assert_wrong(exercise, answer, words):
    """A planted mistake is found, and told with these words."""
    verdict = exercise.examine(answer)
    assert verdict.status == "wrong" and words in verdict.message, verdict.message
