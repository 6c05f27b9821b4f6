"""The source archive builds the wheel, which has the modules, the embedded session and the command. One version."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from possm_lite import __version__

ROOT = Path(__file__).parents[1]
SESSION = "data/simulated_session.npz"
FILES = "CHANGELOG.md CITATION.cff LICENSE README.md pyproject.toml"
GUIDES = [f"docs/{name}.md" for name in ("CONVERTERS", "LICENSE-TEXT", "LIVE")]
PACKAGES = ("possm_lite", "possm_course")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"
RUN = "from possm_lite.app import cli, experiment; print(experiment.EMBEDDED); cli.main(['--version'])"


def python(folder: Path, *arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_wheel_of_the_source_archive_runs_in_an_empty_folder(tmp_path, monkeypatch):
    """Built without a network from a copy of the project; run without docstrings."""
    pytest.importorskip("setuptools", minversion="77.0.3")
    project, source, site = (tmp_path / name for name in ("project", f"possm_lite-{__version__}", "site"))
    for package in PACKAGES:
        shutil.copytree(ROOT / package, project / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*FILES.split(), *GUIDES, "data/README.md", SESSION):
        (project / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    python(project, "-c", BUILD.format("sdist"), "..")
    shutil.unpack_archive(f"{source}.tar.gz", tmp_path)
    made = {"PKG-INFO", "setup.cfg", "possm_lite.egg-info"}
    assert {path.name for path in source.iterdir()} - made == {*FILES.split(), *PACKAGES, "data", "docs"}
    assert {str(path.relative_to(source)) for path in source.glob("docs/*")} == set(GUIDES)
    python(source, "-c", BUILD.format("wheel"), "..")
    shutil.unpack_archive(f"{source}-py3-none-any.whl", site, "zip")
    for package in PACKAGES:
        modules = {path.relative_to(ROOT) for path in ROOT.glob(f"{package}/**/*.py")}
        assert {path.relative_to(site) for path in site.glob(f"{package}/**/*.py")} == modules
    monkeypatch.setenv("PYTHONPATH", str(site))
    (tmp_path / "empty").mkdir()
    embedded, version = python(tmp_path / "empty", "-OO", "-c", RUN).splitlines()
    assert Path(embedded).read_bytes() == (ROOT / SESSION).read_bytes() and Path(embedded).is_relative_to(site)
    assert version == f"possm-lite {__version__}"


def test_all_name_one_version():
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    latest = next(line for line in (part.splitlines()[0] for part in changes) if line != "Unreleased")
    assert latest == f"{__version__}, {cff['date-released']}" and cff["version"] == __version__
