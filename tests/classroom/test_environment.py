"""What the environment check says of machines that lack something, and that it can say it with nothing installed."""

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


@pytest.fixture
def modules(monkeypatch):
    """Packages of made-up versions instead of those that are here; an exception is what importing them raises."""
    there = {}

    def load(name):
        if isinstance(there[name], Exception):
            raise there[name]
        return there[name]

    monkeypatch.setattr(environment.importlib, "import_module", load)
    return there


def files(monkeypatch, tmp_path, **texts):
    """The small files of the system, as texts; one that is not given is not there."""
    for name in ("CPU_LIMIT", "MEMORY_LIMIT", "MEMORY_USED", "MEMINFO"):
        path = tmp_path / name
        if name in texts:
            path.write_text(texts[name])
        monkeypatch.setattr(environment, name, path)


def test_here_everything_is_in_place(capsys):
    environment.check_environment()
    told = capsys.readouterr().out
    for name in ("Python", "torch", "numpy", "matplotlib", "ipywidgets", "possm_lite", "GB of memory", "CPU core"):
        assert re.search(rf"^[✓·✗] .*{name}", told, re.MULTILINE), name
    assert f"✓ possm_lite {possm_lite.__version__}" in told
    assert str(ROOT) not in told and sys.prefix not in told


def test_with_nothing_installed_each_package_gets_one_line():
    """No site-packages: what is left is the standard library, and the folder of the course."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from possm_lite.classroom.environment import check_environment\ncheck_environment()"
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", code]
    told = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert told.returncode == 0 and told.stderr == ""
    assert "✗ possm_lite 0.1.0: it lies here but is not installed" in told.stdout
    for name in environment.PACKAGES:
        assert len(re.findall(rf"^✗ {name} is missing\. In a terminal: pip install {name},", told.stdout, re.M)) == 1
    assert "PyTorch" not in told.stdout


def test_floors_are_those_of_the_installed_project():
    python, floors = environment.declared_floors()
    wanted = [Requirement(line) for line in importlib.metadata.requires("possm-lite")]
    assert floors == {r.name: str(r.specifier).removeprefix(">=") for r in wanted}
    assert python == importlib.metadata.metadata("possm-lite")["Requires-Python"].removeprefix(">=")


def test_every_package_that_possm_lite_needs_is_looked_for():
    wanted = [Requirement(line) for line in importlib.metadata.requires("possm-lite")]
    always = {r.name for r in wanted if r.marker is None}
    assert set(environment.PACKAGES) == always | {"ipywidgets"}


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("2.4", "✓ torch 2.4"),
        ("2.13.0+cpu", "✓ torch 2.13.0"),
        ("2.4.0rc1", "✓ torch 2.4.0rc1"),
        ("3", "✓ torch 3"),
        ("2.1", '✗ torch 2.1: at least 2.4 is needed. In a terminal: pip install -U "torch>=2.4", then restart'),
        ("2.3.9", "✗ torch 2.3.9: at least 2.4 is needed."),
    ],
)
def test_a_version_is_held_against_its_floor(modules, version, line):
    modules["torch"] = SimpleNamespace(__version__=version)
    assert environment.package_line("torch", "2.4").startswith(line)


@pytest.mark.parametrize(
    ("version", "floor", "enough"), [("2.10", "2.9", True), ("2.4", "2.4.0", True), ("1.9", "1.10", False)]
)
def test_versions_are_numbers_not_texts(version, floor, enough):
    assert environment.reaches(version, floor) is enough


def test_a_missing_package_is_not_a_broken_one(modules):
    modules["torch"] = ModuleNotFoundError("No module named 'torch'", name="torch")
    assert environment.package_line("torch", "2.4").startswith(
        '✗ torch is missing. In a terminal: pip install "torch>=2.4"'
    )
    modules["torch"] = ModuleNotFoundError("No module named 'sympy'", name="sympy")
    assert environment.package_line("torch", "2.4").startswith("✗ torch is installed but does not load")
    modules["torch"] = OSError("a library of /home/somebody cannot be loaded")
    line = environment.package_line("torch", "2.4")
    assert "does not load (OSError)" in line and "/home" not in line
    assert environment.threads_lines(2) == []


def test_an_old_python_is_told():
    assert environment.python_line("3.10", "3.9.18").startswith("✗ Python 3.9.18: at least 3.10 is needed.")
    assert environment.python_line("3.10", "3.10.0") == "✓ Python 3.10.0"


def test_an_install_of_another_version_is_told(monkeypatch):
    monkeypatch.setattr(possm_lite, "__version__", "0.2.0")
    assert environment.project_line().startswith("✗ possm_lite 0.2.0: it was installed as 0.1.0. In a terminal, ")


@pytest.mark.parametrize(("limit", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", 3), ("", 3)])
def test_a_container_may_use_fewer_cores_than_it_sees(monkeypatch, tmp_path, limit, cores):
    files(monkeypatch, tmp_path, CPU_LIMIT=limit)
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    assert environment.usable_cores() == cores


def test_memory_of_a_machine_and_of_a_container(monkeypatch, tmp_path):
    meminfo = "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n"
    files(monkeypatch, tmp_path, MEMINFO=meminfo, MEMORY_LIMIT="max", MEMORY_USED="5")
    assert environment.memory_line(*environment.free_memory()) == "✓ 8 GB of memory free"
    files(monkeypatch, tmp_path, MEMINFO=meminfo, MEMORY_LIMIT="2000000000", MEMORY_USED="500000000")
    assert environment.memory_line(*environment.free_memory()).startswith("✗ 1.5 GB of memory free: 2 GB are needed.")


def test_memory_where_there_is_no_proc(monkeypatch, tmp_path):
    files(monkeypatch, tmp_path)
    answers = {"SC_PHYS_PAGES": 4_000_000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(environment.os, "sysconf", answers.__getitem__, raising=False)
    assert environment.memory_line(*environment.free_memory()) == "✓ 16 GB of memory in all"
    monkeypatch.delattr(environment.os, "sysconf")
    assert environment.memory_line(*environment.free_memory()).startswith("· memory: this system does not say")


@pytest.mark.parametrize(
    ("threads", "line"),
    [
        (1, "✓ PyTorch computes on 1 thread"),
        (4, "✓ PyTorch computes on 4 threads. If other notebooks compute at the same time, set OMP_NUM_THREADS=1"),
        (8, "✗ PyTorch computes on 8 threads, more than there are cores"),
    ],
)
def test_threads_fit_the_cores(modules, threads, line):
    modules["torch"] = SimpleNamespace(get_num_threads=lambda: threads)
    assert environment.threads_lines(4)[0].startswith(line)


def checks_with(folder, **versions) -> list[str]:
    """What a new Python says to the import of a chapter's checks, where pip has noted these versions of packages."""
    for name, version in versions.items():
        noted = folder / f"{name}-{version}.dist-info" / "METADATA"
        noted.parent.mkdir()
        noted.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    command = [sys.executable, "-c", "from possm_lite.classroom.checks import scoring"]
    told = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, encoding="utf-8", timeout=60
    )
    return told.stderr.splitlines()


def test_a_chapter_says_in_one_line_that_a_package_is_too_old(tmp_path):
    *_, last = checks_with(tmp_path, torch="2.1.2+cpu")
    wanted = 'torch 2.1.2: at least 2.5 is needed. In a terminal: pip install -U "torch>=2.5", then restart the kernel.'
    assert last == f"ImportError: {wanted}"


def test_a_chapter_says_nothing_of_packages_that_are_new_enough(tmp_path):
    assert checks_with(tmp_path, torch="2.5", numpy="99.1rc1") == []


@pytest.mark.parametrize("name", environment.PACKAGES)
def test_each_package_may_be_the_one_that_is_too_old(name, monkeypatch):
    found = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda asked: "0.0.9" if asked == name else found(asked))
    with pytest.raises(ImportError, match=rf"^{name} 0\.0\.9: at least [\d.]+ is needed\. In a terminal: ") as told:
        environment.require()
    assert told.value.name == name


def test_what_is_not_installed_is_left_to_its_import(monkeypatch):
    def nothing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", nothing)
    environment.require()
    monkeypatch.setattr(importlib.metadata, "metadata", nothing)  # the project itself: nobody says what it needs
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.9")
    environment.require()


def test_what_is_to_be_done_is_counted(monkeypatch, capsys):
    monkeypatch.setattr(environment, "examine", lambda: ["✓ a", "✗ b: do this", "· c"])
    environment.check_environment()
    assert "1 line needs you." in capsys.readouterr().out


def test_the_first_cell_says_in_one_line_that_possm_lite_is_missing(monkeypatch, capsys):
    first = next(cell for cell in nbformat.read(CHAPTER, as_version=4).cells if cell.cell_type == "code")
    for name in [name for name in sys.modules if name.split(".")[0] == "possm_lite"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "possm_lite", None)  # importing it raises ModuleNotFoundError
    exec(first.source, {})
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("possm_lite is not installed in this kernel: ")


def test_the_map_of_the_course_links_every_chapter():
    source = "\n".join(cell.source for cell in nbformat.read(CHAPTER, as_version=4).cells)
    linked = re.findall(r"^\| \[.*?\]\((\w+\.ipynb)\)", source, re.MULTILINE)
    chapters = sorted(path.name for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    assert [CHAPTER.name, *linked] == chapters and len(chapters) == 18
