"""Length of the randomised tests: short by default, as in CI; long with POSSM_SOAK=1, as `make soak` sets.

A long run writes what it has tried into the section Reliability of experiments/benchmarks/RESULTS.md.
"""

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from experiments.benchmarks import page


@pytest.fixture(scope="session")
def rounds() -> Callable[[int, int], int]:
    """`rounds(short, long)`: the number of cases or seconds for this run."""
    soak = os.environ.get("POSSM_SOAK") == "1"
    return lambda short, long: long if soak else short


@pytest.fixture(scope="session")
def record(rounds) -> Callable[[str, str], None]:
    """`record(what, measured)`: called at the end of a test, with what has held; saved in long runs alone."""
    return rounds(lambda *_: None, page.record)


@pytest.fixture(scope="session")
def for_all(rounds) -> Callable:
    """`for_all(short, long, *strategies)(check)` runs `check` on `rounds(short, long)` draws; short runs repeat."""

    def decorator(short, long, *strategies):
        chosen = settings(
            max_examples=rounds(short, long),
            derandomize=rounds(True, False),
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        return lambda check: chosen(given(*strategies)(check))()

    return decorator
