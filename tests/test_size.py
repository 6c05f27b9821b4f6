"""Small is a property that one keeps: one number, what the package does, counted without what explains it."""

from pathlib import Path

from experiments.benchmarks.suite import count_statements

PACKAGE = Path(__file__).parents[1] / "possm_lite"
STATEMENTS = 6_950  # public reports of recordings are met, and behaviour may be classes: choices, targets, states


def test_statements_of_the_package():
    n = sum(count_statements(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))
    assert 0 < n <= STATEMENTS, (
        f"possm_lite has {n:,} statements outside docstrings, {STATEMENTS:,} are allowed. Take something out that "
        "nobody meets, or raise the number in this commit and say in its message what a user gets for it."
    )
