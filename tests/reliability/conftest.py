"""How long an attack goes on: a short round by default, as in CI; a long one with POSSM_SOAK=1, as `make soak` sets."""

import os
from collections.abc import Callable

import pytest

from .mutations import write_good


@pytest.fixture(scope="session")
def rounds() -> Callable[[int, int], int]:
    """`rounds(short, long)`: how many cases or seconds, as the run asks for."""
    asked = os.environ.get("POSSM_SOAK", "0")
    if asked not in ("0", "1"):
        raise ValueError(f"POSSM_SOAK must be 0 or 1, not {asked!r}")
    return (lambda short, long: long) if asked == "1" else (lambda short, long: short)


@pytest.fixture
def write_all(tmp_path) -> Callable[[str], None]:
    """`write_all(suffix)`: the good files of a kind into the test's folder."""

    def write(suffix: str):
        if suffix == ".nwb":
            pytest.importorskip("pynwb")
        write_good(tmp_path, suffix)

    return write
