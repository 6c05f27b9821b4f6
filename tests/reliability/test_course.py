"""Chapters with other hash seeds, numbers of threads and rounding: no cell may depend on the order of a set, on the
number of cores or on the last bits of a number, which differ between processors."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools import execute

CHAPTERS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))


def test_chapters_run_with_any_hash_seed(rounds, record, monkeypatch):
    """Of four seeds, 1 and 3 have two threads, and 2 and 3 round differently: torch without vector instructions."""
    if not rounds(0, 10):
        pytest.skip("only in make soak")
    for seed in range(10):
        monkeypatch.setenv("PYTHONHASHSEED", str(seed))
        monkeypatch.setenv("OMP_NUM_THREADS", str(1 + seed % 2))
        monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
        if seed % 4 > 1:
            monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
        with ThreadPoolExecutor(2) as pool:  # two notebooks at a time
            notebooks = map(execute.read, CHAPTERS)
            list(pool.map(lambda notebook: execute.run(notebook, CHAPTERS[0].parent, timeout_s=300), notebooks))
    record("all chapters, ten times with other hash seeds, on one thread and on two", f"{10 * len(CHAPTERS)} runs")
