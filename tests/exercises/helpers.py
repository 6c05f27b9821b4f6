"""Shared by the tests of the exercises."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def load(chapter: str):
    """The exercises of a chapter, given as "ch04"."""
    return import_module(f"possm_course.exercises.{chapter}")


def answers(exercises, *rows: tuple) -> Callable:
    """A test of (name of the exercise, right answer in another style) or (name, wrong answer, words of its message)."""

    @pytest.mark.parametrize("row", rows, ids=lambda row: row[0])
    def test(row):
        name, answer, *words = row
        verdict = getattr(exercises, name).examine(answer)
        assert (verdict.status == "right") == (not words), verdict.message
        assert all(each in verdict.message for each in words), verdict.message

    return test
