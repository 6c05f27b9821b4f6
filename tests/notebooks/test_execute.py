import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools import execute

WIDGET = """\
import ipywidgets
ipywidgets.interact(lambda x: print(x), x=(0, 3));"""


def write_notebook(path, *sources):
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    notebook.cells[0].metadata["tags"] = ["nbval-check-output"]
    nbformat.write(notebook, path)
    return path


def test_second_run_changes_nothing(tmp_path):
    """Two executions leave the same bytes, whatever cells do with time, progress bars and widgets."""
    progress = "import time\nfor i in range(3):\n    print(f'\\r{i} of 2', end='', flush=True)\n    time.sleep(0.05)"
    path = write_notebook(tmp_path / "chapter.ipynb", "6 * 7", progress, WIDGET)
    before = nbformat.read(path, as_version=4)
    assert execute.main([str(path)]) == 0
    once = path.read_bytes()
    assert execute.main([str(path)]) == 0
    assert path.read_bytes() == once
    assert [p.name for p in tmp_path.iterdir()] == ["chapter.ipynb"]

    after = nbformat.read(path, as_version=4)
    assert [(c.id, c.source, c.metadata) for c in after.cells] == [(c.id, c.source, c.metadata) for c in before.cells]
    assert after.cells[0].outputs[0].data == {"text/plain": "42"}
    assert [o.text for o in after.cells[1].outputs] == ["2 of 2"]
    assert after.cells[2].outputs == []
    assert set(after.metadata) == {"kernelspec", "language_info", "possm_lite"}
    assert "version" not in after.metadata.language_info
    assert after.metadata.possm_lite.outputs_of == execute.fingerprint(before)


@pytest.mark.parametrize("cell", ["1 / 0", "import time; time.sleep(60)", "import os; os._exit(1)"])
def test_failing_notebook_is_not_changed(tmp_path, capsys, cell):
    path = write_notebook(tmp_path / "chapter.ipynb", "6 * 7", cell)
    before = path.read_bytes()
    assert execute.main([str(path), "--timeout", "3"]) == 1
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["chapter.ipynb"]
    assert str(path) in capsys.readouterr().err
