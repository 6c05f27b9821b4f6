"""What `pip install` of a wheel puts beside the modules: the embedded session."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SESSION = "data/simulated_session.npz"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
PRINT_EMBEDDED = "from possm_lite.commands import EMBEDDED; print(EMBEDDED)"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder with the contents of a wheel, built without a network from a copy of the project."""
    pytest.importorskip("setuptools", minversion="77.0.3")
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "LICENSE-TEXT.md"):
        shutil.copy(ROOT / name, folder)
    for name in ("possm_lite", "data"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "recordings"))
    subprocess.run([sys.executable, "-c", BUILD, "built"], cwd=folder, check=True, capture_output=True)
    with zipfile.ZipFile(*folder.glob("built/*.whl")) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def test_wheel_has_all_modules_and_the_session(site):
    modules = {path.relative_to(ROOT) for path in ROOT.glob("possm_lite/**/*.py")}
    assert {path.relative_to(site) for path in site.glob("possm_lite/**/*.py")} == modules
    assert (site / "possm_lite" / SESSION).read_bytes() == (ROOT / SESSION).read_bytes()


def test_installed_commands_find_the_session(site, tmp_path):
    """In an empty folder, and not that of the repository."""
    command, environment = [sys.executable, "-c", PRINT_EMBEDDED], os.environ | {"PYTHONPATH": str(site)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert Path(run.stdout.strip()).samefile(site / "possm_lite" / SESSION)
