"""The course under other hash seeds and numbers of threads: no cell may live off the order of a set or off one core."""

from pathlib import Path

import nbformat
import pytest

from possm_lite.classroom import execute

CHAPTERS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))
SHORT = "04_positions"  # the one that takes the least time
A_KERNEL = nbformat.v4.new_code_cell("import torch\nprint(hash('spike'), torch.get_num_threads())")


def run(notebook, folder, seed, monkeypatch):
    """All of its cells, with this hash seed and, every other time, on two threads."""
    monkeypatch.setenv("PYTHONHASHSEED", str(seed))
    monkeypatch.setenv("OMP_NUM_THREADS", str(1 + seed % 2))
    execute.run(notebook, folder, timeout_s=300)
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def test_seed_and_threads_reach_the_kernel(tmp_path, monkeypatch):
    said = []
    for seed in (0, 1, 1):
        (cell,) = run(nbformat.v4.new_notebook(cells=[A_KERNEL.copy()]), tmp_path, seed, monkeypatch)
        said.append(cell.outputs[0]["text"].split())
    assert [threads for _, threads in said] == ["1", "2", "2"]
    assert said[0][0] != said[1][0] == said[2][0]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=[path.stem for path in CHAPTERS])
def test_no_cell_of_a_chapter_fails_now_and_then(chapter, rounds, monkeypatch):
    runs = rounds(2 if chapter.stem == SHORT else 0, 10)
    if not runs:
        pytest.skip("only at length: make soak")
    for seed in range(runs):
        cells = run(execute.read(chapter), chapter.parent, seed, monkeypatch)
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
        assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
