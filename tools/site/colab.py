"""Copies of the notebooks for Google Colab: GITHUB_REPOSITORY=OWNER/NAME python -m tools.site.colab FOLDER

Colab opens a notebook without the files beside it. So each copy begins with a cell that clones the repository, installs
the package, and goes to the folder of the notebook. The workflow of the pages pushes them to the branch `colab`.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tools.execute import read
from tools.site.chapters import ROOT

BRANCH = "colab"


def main(folder: Path, repository: str) -> None:
    """Write the copies into `folder`; `repository` is OWNER/NAME."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted((ROOT / "notebooks").rglob("[0-9][0-9]_*.ipynb")):
        relative = path.relative_to(ROOT)
        copy = colab_copy(read(path), repository, relative.parent)
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(copy, folder / relative)


def colab_copy(notebook: NotebookNode, repository: str, folder: Path) -> NotebookNode:
    """The notebook with a first cell that installs the package of `repository` and changes to `folder` of its clone."""
    clone = repository.split("/")[1]
    lines = [
        "# Colab only: fetches the course, installs the package (a minute), and goes to the folder of this notebook.",
        f"![ -d /content/{clone} ] || git clone --quiet --depth 1 https://github.com/{repository} /content/{clone}",
        f'%pip install --quiet "/content/{clone}[recordings]" ipywidgets joblib',
        f"%cd /content/{clone}/{folder.as_posix()}",
    ]
    notebook.cells.insert(0, new_code_cell("\n".join(lines), id="install-in-colab"))
    return notebook


def buttons(path: Path, repository: str | None) -> str:
    """Links, in Markdown, that run a chapter elsewhere; none where the address of the repository is not known."""
    if not repository:
        return ""
    relative = path.relative_to(ROOT).as_posix()
    colab = f"https://colab.research.google.com/github/{repository}/blob/{BRANCH}/{relative}"
    binder = f"https://mybinder.org/v2/gh/{repository}/HEAD?urlpath=lab/tree/{relative}"
    links = f'<a href="{colab}">Open in Colab</a> <a href="{binder}">Open in Binder</a>'
    return f'<p class="run-elsewhere">Run this chapter: {links}</p>'


if __name__ == "__main__":
    if len(sys.argv) != 2 or "/" not in os.environ.get("GITHUB_REPOSITORY", ""):
        sys.exit("usage: GITHUB_REPOSITORY=OWNER/NAME python -m tools.site.colab FOLDER")
    main(Path(sys.argv[1]), os.environ["GITHUB_REPOSITORY"])
