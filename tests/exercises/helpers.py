"""Shared by the tests of the exercises."""

from pathlib import Path
from types import ModuleType

from possm_lite.classroom.checks import load_exercises

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def load(chapter: str) -> ModuleType:
    """The exercises of a chapter."""
    return load_exercises(chapter, NOTEBOOKS)


def assert_verdict(exercise, answer, words):
    """The message contains `words`; these are "✓" for an answer that is right, else it must be wrong."""
    assert_right(exercise, answer) if words == "✓" else assert_wrong(exercise, answer, words)


def assert_right(exercise, answer):
    verdict = exercise.examine(answer)
    assert (verdict.status, verdict.message) == ("right", f"✓ {exercise.name}")


def assert_wrong(exercise, answer, words):
    verdict = exercise.examine(answer)
    assert verdict.status == "wrong" and words in verdict.message, verdict.message
    assert verdict.message.startswith(f"✗ {exercise.name}: ")
