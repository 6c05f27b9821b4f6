"""Files that a library cannot open, and text in other encodings."""

from .case import FieldCase

CASES: list[FieldCase] = []
