"""Tables of units and impossible spikes."""

from .case import FieldCase

CASES: list[FieldCase] = []
