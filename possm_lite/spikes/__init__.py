"""Recordings, simulation, binning, batches: NumPy and torch, no knowledge of models."""

from importlib import import_module

from ..errors import RecordingError

_HOME = {
    "Split": "split",
    "Recording": "recording",
    "SpikeBatch": "batch",
    "SplitConfig": "split",
    "Timeline": "timeline",
    "load_ground_truth": "simulation",
    "load_recording": "io",
    "save_recording": "io",
    "simulate_session": "simulation",
}
__all__ = ["RecordingError", *_HOME]


def __getattr__(name):
    # looked up when first asked for: reading a recording then needs no torch
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
