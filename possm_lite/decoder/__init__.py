"""The spike decoder: as a textbook writes it, in batches, and in real time, with one result."""

from importlib import import_module

_MODULES = {"POSSM": "possm", "POSSMConfig": "config", "StreamingDecoder": "stream"}
__all__ = list(_MODULES)


def __getattr__(name):
    # imported at first use, so that streaming does not import torch
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
