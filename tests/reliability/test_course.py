"""Chapters with other hash seeds and numbers of threads: no cell may depend on the order of a set or on one core."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import execute
import nbformat
import pytest

CHAPTERS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))
PROBE = nbformat.v4.new_code_cell("import torch\nprint(hash('spike'), torch.get_num_threads())")


def run(notebooks, seed, monkeypatch):
    """Executes all cells, two notebooks at a time, with this hash seed; on two threads where it is odd, else on one."""
    monkeypatch.setenv("PYTHONHASHSEED", str(seed))
    monkeypatch.setenv("OMP_NUM_THREADS", str(1 + seed % 2))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda notebook: execute.run(notebook, CHAPTERS[0].parent, timeout_s=300), notebooks))


def test_hash_seed_and_threads_reach_the_kernel(monkeypatch):
    notebook = nbformat.v4.new_notebook(cells=[PROBE.copy()])
    run([notebook], 1, monkeypatch)
    expected = subprocess.check_output([sys.executable, "-c", "print(hash('spike'), 2)"], text=True)  # same environment
    assert notebook.cells[0].outputs[0]["text"] == expected


def test_chapters_run_with_any_hash_seed(rounds, record, monkeypatch):
    if not rounds(0, 10):
        pytest.skip("only in make soak")
    for seed in range(rounds(0, 10)):
        run([execute.read(path) for path in CHAPTERS], seed, monkeypatch)
    record("all chapters, ten times with other hash seeds, on one thread and on two", f"{10 * len(CHAPTERS)} runs")
