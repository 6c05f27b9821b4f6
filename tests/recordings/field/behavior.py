"""Behaviour that is no movement, clocks, and the array at fault."""

from .case import FieldCase

CASES: list[FieldCase] = []
