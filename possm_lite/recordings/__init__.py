"""Recordings, binning, batches: NumPy and torch, no knowledge of models."""

from importlib import import_module

from ..errors import RecordingError

_MODULES = {
    "Recording": "recording",
    "Split": "split",
    "SplitConfig": "split",
    "SpikeBatch": "batch",
    "Timeline": "timeline",
    "load_recording": "formats",
}
__all__ = ["RecordingError", *_MODULES]


def __getattr__(name):  # imported on first access: reading a recording then needs no torch
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
