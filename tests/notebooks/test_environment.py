"""The first cell of chapter 00 on computers that lack something, and with nothing installed at all."""

import importlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import nbformat
from packaging.requirements import Requirement

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTER = NOTEBOOKS / "00_start_here.ipynb"
CELLS = nbformat.read(CHAPTER, as_version=4).cells
CHECK = next(cell.source for cell in CELLS if cell.cell_type == "code")


def test_complete_environment_has_a_line_each(capsys):
    exec(CHECK, names := {})
    printed = capsys.readouterr().out
    for name in ("Python", *names["PACKAGES"], "CPU cores"):
        assert re.search(rf"^[✓✗] .*{name}", printed, re.MULTILINE), name
    assert "✗ torch" not in printed and sys.prefix not in printed
    required = {r.name for r in map(Requirement, importlib.metadata.requires("possm-lite")) if r.marker is None}
    assert set(names["PACKAGES"]) == required | {"possm-lite", "ipywidgets", "joblib"}


def test_nothing_installed_gives_a_line_each():
    """No site-packages: only the standard library."""
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", CHECK]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert result.returncode == 0 and result.stderr == ""
    assert len(re.findall(r"^✗ \S+ is not installed\. In a terminal", result.stdout, re.M)) == 8
    assert "Everything" not in result.stdout


def test_first_chapter_links_every_chapter():
    source = "\n".join(cell.source for cell in CELLS)
    linked = re.findall(r"^\* \[.*?\]\((\w+\.ipynb)\)", source, re.MULTILINE)
    chapters = sorted(path.name for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    assert [CHAPTER.name, *linked] == chapters and len(chapters) == 20
