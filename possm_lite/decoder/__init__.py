"""The spike decoder: tokens to velocity, in batches, as a textbook writes it, and in real time."""

from importlib import import_module

_HOME = {
    "POSSM": "possm",
    "POSSMConfig": "config",
    "StreamingDecoder": "streaming",
}
__all__ = list(_HOME)


def __getattr__(name):
    # looked up when first asked for: a rig that only streams then runs without importing torch
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
