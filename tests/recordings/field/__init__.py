"""Recordings as public reports describe them, by kind: tables of units and spikes, behaviour, files and text."""

from . import behavior, files, units

CASES = [*units.CASES, *behavior.CASES, *files.CASES]
