"""The environment check on computers that lack something, and with nothing installed at all."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from packaging.requirements import Requirement

import possm_lite
from possm_lite.classroom import environment

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHAPTER = NOTEBOOKS / "00_start_here.ipynb"
REQUIREMENTS = [Requirement(line) for line in importlib.metadata.requires("possm-lite")]


@pytest.fixture
def modules(monkeypatch):
    """Fake packages by name; an exception is raised by importing them."""
    fakes = {}

    def load(name):
        if isinstance(fakes[name], Exception):
            raise fakes[name]
        return fakes[name]

    monkeypatch.setattr(environment.importlib, "import_module", load)
    return fakes


def set_system_files(monkeypatch, tmp_path, **texts):
    """The small files of the system; those without a text do not exist."""
    for name in ("CPU_LIMIT", "MEMORY_LIMIT", "MEMORY_USED", "MEMORY_STAT", "MEMINFO"):
        path = tmp_path / name
        if name in texts:
            path.write_text(texts[name])
        monkeypatch.setattr(environment, name, path)


def test_complete_environment_has_a_line_each(capsys):
    environment.check_environment()
    printed = capsys.readouterr().out
    for name in ("Python", "torch", "numpy", "matplotlib", "ipywidgets", "possm_lite", "GB of memory", "CPU core"):
        assert re.search(rf"^[✓·✗] .*{name}", printed, re.MULTILINE), name
    assert f"✓ possm_lite {possm_lite.__version__}" in printed
    assert str(ROOT) not in printed and sys.prefix not in printed


def test_nothing_installed_gives_a_line_each():
    """No site-packages: only the standard library and the folder of the course."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from possm_lite.classroom.environment import check_environment\ncheck_environment()"
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", code]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert result.returncode == 0 and result.stderr == ""
    assert f"✗ possm_lite {possm_lite.__version__}: it is here but not installed" in result.stdout
    for name in environment.PACKAGES:
        assert len(re.findall(rf"^✗ {name} is missing\. In a terminal: pip install {name},", result.stdout, re.M)) == 1
    assert "PyTorch" not in result.stdout
    assert f"\n{result.stdout.count('✗ ')} problems. " in result.stdout


def test_minimum_versions_are_the_declared_ones():
    minimum = {r.name: environment.minimum_version(r.name) for r in REQUIREMENTS}
    assert minimum == {r.name: str(r.specifier).removeprefix(">=") for r in REQUIREMENTS}
    declared = importlib.metadata.metadata("possm-lite")["Requires-Python"]
    assert environment.minimum_version("python") == declared.removeprefix(">=")
    assert set(environment.PACKAGES) == {r.name for r in REQUIREMENTS if r.marker is None} | {"ipywidgets", "joblib"}


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("2.4", "✓ torch 2.4"),
        ("2.13.0+cpu", "✓ torch 2.13.0"),
        ("2.4.0rc1", "✓ torch 2.4.0rc1"),
        ("3", "✓ torch 3"),
        ("2.1", '✗ torch 2.1: at least 2.4 is needed. In a terminal: pip install -U "torch>=2.4", then restart'),
        ("2.3.9", "✗ torch 2.3.9: at least 2.4 is needed."),
        (ModuleNotFoundError("No module", name="torch"), '✗ torch is missing. In a terminal: pip install "torch>=2.4"'),
        (ModuleNotFoundError("No module", name="sympy"), "✗ torch is installed but does not load"),
        (OSError("/home/somebody/lib.so"), "✗ torch is installed but does not load (OSError). In a terminal: "),
    ],
)
def test_package_line(monkeypatch, modules, version, line):
    monkeypatch.setattr(environment, "minimum_version", lambda name: "2.4")
    modules["torch"] = version if isinstance(version, Exception) else SimpleNamespace(__version__=version)
    printed = environment.package_line("torch")
    assert printed.startswith(line) and "/home" not in printed
    if isinstance(version, OSError):
        assert environment.threads_line(2) == []


def test_python_versions_compare_as_numbers(monkeypatch):
    for minimum, version in (("3.10", "3.10.0"), ("3.10.0", "3.10"), ("", "3.9"), ("3.9", "3.10")):
        monkeypatch.setattr(environment, "minimum_version", {"python": minimum}.get)
        assert environment.python_line(version) == f"✓ Python {version}"
    monkeypatch.setattr(environment, "minimum_version", {"python": "3.10"}.get)
    assert environment.python_line("3.9.18").startswith("✗ Python 3.9.18: at least 3.10 is needed.")


def test_other_installed_version_is_reported(monkeypatch):
    installed = possm_lite.__version__
    monkeypatch.setattr(possm_lite, "__version__", "9.2.0")
    assert environment.project_line().startswith(f"✗ possm_lite 9.2.0: version {installed} is installed. In a terminal")


@pytest.mark.parametrize(("limit", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", 3), ("", 3)])
def test_containers_limit_cores(monkeypatch, tmp_path, limit, cores):
    set_system_files(monkeypatch, tmp_path, CPU_LIMIT=limit)
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    assert environment.usable_cores() == cores


MEMINFO = "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n"
CACHE = "anon 100000000\ninactive_file 400000000\n"
CONTAINER = {"MEMORY_LIMIT": "2000000000", "MEMORY_USED": "500000000"}


@pytest.mark.parametrize(
    ("files", "sysconf", "line"),
    [
        ({"MEMINFO": MEMINFO, "MEMORY_LIMIT": "max", "MEMORY_USED": "5"}, None, "✓ 8 GB of memory free"),
        ({"MEMINFO": MEMINFO} | CONTAINER, None, "✗ 1.5 GB of memory free: 3 GB are needed."),
        ({"MEMINFO": MEMINFO, "MEMORY_STAT": CACHE} | CONTAINER, None, "✗ 1.9 GB of memory free"),
        ({}, {"SC_PHYS_PAGES": 4_000_000, "SC_PAGE_SIZE": 4096}, "✓ 16 GB of memory in all"),
        ({}, None, "· memory: this system does not report"),
    ],
)
def test_memory_line(monkeypatch, tmp_path, files, sysconf, line):
    set_system_files(monkeypatch, tmp_path, **files)
    monkeypatch.delattr(environment.os, "sysconf", raising=False)
    if sysconf:
        monkeypatch.setattr(environment.os, "sysconf", sysconf.__getitem__, raising=False)
    assert environment.memory_line().startswith(line)


def test_threads_line(modules):
    lines = ((1, "✓ .* 1 thread$"), (4, "✓ .* 4 threads.* set OMP_NUM_THREADS=1"), (8, "✗ .* 8 threads, more"))
    for threads, line in lines:
        modules["torch"] = SimpleNamespace(get_num_threads=lambda threads=threads: threads)
        assert re.match(line, environment.threads_line(4)[0])


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
