"""The environment check on computers that lack something, and with nothing installed at all."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import nbformat
from packaging.requirements import Requirement

from possm_lite.course import environment

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHAPTER = NOTEBOOKS / "00_start_here.ipynb"


def test_complete_environment_has_a_line_each(capsys):
    environment.check_environment()
    printed = capsys.readouterr().out
    for name in ("Python", *environment.PACKAGES, "CPU cores"):
        assert re.search(rf"^[✓·✗] .*{name}", printed, re.MULTILINE), name
    assert "✗ torch" not in printed and str(ROOT) not in printed and sys.prefix not in printed
    required = {r.name for r in map(Requirement, importlib.metadata.requires("possm-lite")) if r.marker is None}
    assert set(environment.PACKAGES) == required | {"possm-lite", "ipywidgets", "joblib"}


def test_nothing_installed_gives_a_line_each():
    """No site-packages: only the standard library and the folder of the course."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from possm_lite.course.environment import check_environment\ncheck_environment()"
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", code]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert result.returncode == 0 and result.stderr == ""
    for name in environment.PACKAGES:
        assert len(re.findall(rf"^✗ {name} is not installed\. In a terminal", result.stdout, re.M)) == 1
    assert "Everything" not in result.stdout


def test_broken_package_is_reported(monkeypatch):
    monkeypatch.setattr(environment, "import_module", Mock(side_effect=OSError("/home/somebody/lib.so")))
    line = environment.package_line("torch")
    assert line.startswith("✗ torch is installed but does not load (OSError). In a terminal: ") and "/home" not in line


def test_first_cell_reports_missing_possm_lite(monkeypatch, capsys):
    first = next(cell for cell in nbformat.read(CHAPTER, as_version=4).cells if cell.cell_type == "code")
    for name in [name for name in sys.modules if name.split(".")[0] == "possm_lite"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "possm_lite", None)  # importing it raises ModuleNotFoundError
    exec(first.source, {})
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("possm_lite is not installed in this kernel: ")


def test_first_chapter_links_every_chapter():
    source = "\n".join(cell.source for cell in nbformat.read(CHAPTER, as_version=4).cells)
    linked = re.findall(r"^\* \[.*?\]\((\w+\.ipynb)\)", source, re.MULTILINE)
    chapters = sorted(path.name for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    assert [CHAPTER.name, *linked] == chapters and len(chapters) == 19
