import json
from pathlib import Path

import nbformat

from tools import execute
from tools.site import colab

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path.relative_to(ROOT) for path in (ROOT / "notebooks").rglob("[0-9][0-9]_*.ipynb"))


def test_copies_differ_by_a_first_cell_that_installs_the_package(tmp_path):
    colab.main(tmp_path / "colab", "owner/name")
    written = sorted(path.relative_to(tmp_path / "colab") for path in (tmp_path / "colab").rglob("*.ipynb"))
    assert written == NOTEBOOKS
    for path in NOTEBOOKS:
        copy = execute.read(tmp_path / "colab" / path)
        nbformat.validate(copy)
        first = copy.cells.pop(0).source
        assert "github.com/owner/name /content/name" in first and "pip install" in first
        assert first.endswith(f"%cd /content/name/{path.parent.as_posix()}")
        assert json.dumps(copy, sort_keys=True) == json.dumps(execute.read(ROOT / path), sort_keys=True)
