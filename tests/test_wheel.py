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
PRINT_EMBEDDED = "from possm_lite.app.commands import EMBEDDED; print(EMBEDDED)"


def test_a_wheel_has_all_modules_and_the_session_that_the_commands_find(tmp_path):
    """Built without a network from a copy of the project, run in an empty folder."""
    pytest.importorskip("setuptools", minversion="77.0.3")
    project, site, empty = (tmp_path / name for name in ("project", "site", "empty"))
    project.mkdir()
    empty.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "LICENSE-TEXT.md"):
        shutil.copy(ROOT / name, project)
    for name, left_out in (("possm_lite", "__pycache__"), ("data", "recordings")):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns(left_out))
    subprocess.run([sys.executable, "-c", BUILD, "built"], cwd=project, check=True, capture_output=True)
    with zipfile.ZipFile(*project.glob("built/*.whl")) as wheel:
        wheel.extractall(site)
    modules = {path.relative_to(ROOT) for path in ROOT.glob("possm_lite/**/*.py")}
    assert {path.relative_to(site) for path in site.glob("possm_lite/**/*.py")} == modules
    assert (site / "possm_lite" / SESSION).read_bytes() == (ROOT / SESSION).read_bytes()
    command, environment = [sys.executable, "-c", PRINT_EMBEDDED], os.environ | {"PYTHONPATH": str(site)}
    run = subprocess.run(command, cwd=empty, env=environment, check=True, capture_output=True, text=True)
    assert Path(run.stdout.strip()).samefile(site / "possm_lite" / SESSION)
