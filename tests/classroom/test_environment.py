"""The environment check on computers that lack something, and with nothing installed at all."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import nbformat
import pytest
from packaging.requirements import Requirement

from possm_lite.classroom import environment

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHAPTER = NOTEBOOKS / "00_start_here.ipynb"
REQUIREMENTS = [Requirement(line) for line in importlib.metadata.requires("possm-lite")]


def test_complete_environment_has_a_line_each(capsys):
    environment.check_environment()
    printed = capsys.readouterr().out
    for name in ("Python", "possm_lite", *environment.PACKAGES, "CPU cores", "memory"):
        assert re.search(rf"^[✓·✗] .*{name}", printed, re.MULTILINE), name
    assert str(ROOT) not in printed and sys.prefix not in printed


def test_nothing_installed_gives_a_line_each():
    """No site-packages: only the standard library and the folder of the course."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from possm_lite.classroom.environment import check_environment\ncheck_environment()"
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", code]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert result.returncode == 0 and result.stderr == ""
    for name in ("possm_lite is here but not installed", *(f"{name} is missing" for name in environment.PACKAGES)):
        assert len(re.findall(rf"^✗ {name}\. In a terminal", result.stdout, re.M)) == 1
    assert "Everything" not in result.stdout


def test_minimum_versions_are_the_declared_ones():
    minimum = {r.name: environment.minimum_version(r.name) for r in REQUIREMENTS}
    assert minimum == {r.name: str(r.specifier).removeprefix(">=") for r in REQUIREMENTS}
    assert set(environment.PACKAGES) == {r.name for r in REQUIREMENTS if r.marker is None} | {"ipywidgets", "joblib"}


@pytest.mark.parametrize(
    ("version", "error", "line"),
    [
        ("2.4", None, "✓ torch 2.4"),
        ("2.13.0+cpu", None, "✓ torch 2.13.0"),
        ("2.4.0rc1", None, "✓ torch 2.4.0rc1"),
        ("3", None, "✓ torch 3"),
        ("2.1", None, '✗ torch 2.1: at least 2.4 is needed. In a terminal: pip install -U "torch>=2.4", then restart'),
        ("2.3.9", None, "✗ torch 2.3.9: at least 2.4 is needed."),
        ("2.4", OSError("/home/somebody/lib.so"), "✗ torch is installed but does not load (OSError). In a terminal: "),
    ],
)
def test_package_line(monkeypatch, version, error, line):
    monkeypatch.setattr(environment, "minimum_version", lambda name: "2.4")
    monkeypatch.setattr(environment.metadata, "version", lambda name: version)
    monkeypatch.setattr(environment, "import_module", Mock(side_effect=error))
    printed = environment.package_line("torch")
    assert printed.startswith(line) and "/home" not in printed


@pytest.mark.parametrize(
    ("available_kb", "line"),
    [
        (8_000_000, "✓ 8 GB of memory free"),
        (1_500_000, "✗ 1.5 GB of memory free: 3 GB are needed."),
        (None, "· memory"),
    ],
)
def test_memory_line(monkeypatch, tmp_path, available_kb, line):
    monkeypatch.setattr(environment, "MEMINFO", tmp_path / "meminfo")
    if available_kb:
        environment.MEMINFO.write_text(f"MemTotal:       16000000 kB\nMemAvailable:    {available_kb} kB\n")
    assert environment.memory_line().startswith(line)


@pytest.mark.parametrize(("torch", "accepted"), [("99.1rc1", True), ("2.1.2+cpu", False)])
def test_checks_report_an_outdated_package_in_one_line(tmp_path, torch, accepted):
    metadata = tmp_path / f"torch-{torch}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n")
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", "from possm_lite.classroom.checks import load_exercises"]
    result = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=60)
    assert (result.returncode == 0) == accepted
    assert accepted or result.stderr.splitlines()[-1] == (
        "ImportError: torch 2.1.2: at least 2.6 is needed. In a terminal: "
        'pip install -U "torch>=2.6", then restart the kernel.'
    )


@pytest.mark.parametrize("name", environment.PACKAGES)
def test_every_package_version_is_checked(name, monkeypatch):
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda asked: "0.0.9" if asked == name else version(asked))
    with pytest.raises(ImportError, match=rf"^{name} 0\.0\.9: at least [\d.]+ is needed\. In a terminal: ") as error:
        environment.check_versions()
    assert error.value.name == name


@pytest.mark.parametrize("missing", [environment.PACKAGES, [environment.PROJECT]], ids=["packages", "project"])
def test_missing_packages_are_left_to_their_import(monkeypatch, missing):
    def version(name):
        if name in missing:
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.0.9"

    monkeypatch.setattr(importlib.metadata, "version", version)
    environment.check_versions()


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
    linked = re.findall(r"^\| \[.*?\]\((\w+\.ipynb)\)", source, re.MULTILINE)
    chapters = sorted(path.name for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    assert [CHAPTER.name, *linked] == chapters and len(chapters) == 19
