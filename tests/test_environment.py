"""pyproject.toml, environment.yml and the locks agree, and the locks can be installed on every machine."""

import itertools
import re
import sys
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import possm_lite

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {"": ["lab", "recordings", "test"], "-site": ["site", "browser"], "-bench": ["bench"]}  # by lock
LOCKS = {name: (ROOT / f"requirements{name}.lock").read_text(encoding="utf-8") for name in [*EXTRAS, "-oldest"]}
REPOSITORY = [".pre-commit-config.yaml", ".github/workflows/ci.yml", "CITATION.cff"]
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
SYSTEMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"},
    "macos": {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": "arm64"},
    "windows": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": "AMD64"},
}
on_every_machine = pytest.mark.parametrize(("python", "system"), list(itertools.product(PYTHONS, SYSTEMS)))


def declared(lock: str = "") -> list[Requirement]:
    """The requirements in pyproject.toml that a lock is made of."""
    own = [] if lock else PROJECT["dependencies"]
    return [Requirement(line) for line in sum((PROJECT["optional-dependencies"][e] for e in EXTRAS[lock]), own)]


def locked(lock: str) -> list[Requirement]:
    lines = (line.split("#")[0].strip() for line in LOCKS[lock].splitlines())
    return [Requirement(line) for line in lines if line]


def markers(python: str, system: str) -> dict[str, str]:
    """pip's marker environment on another machine."""
    versions = {"python_version": python, "python_full_version": f"{python}.9", "implementation_version": f"{python}.9"}
    return default_environment() | versions | SYSTEMS[system]


def pins(lock: str, python: str, system: str) -> dict[str, str]:
    """{name: version} that pip installs there."""
    there = markers(python, system)
    found = [pin for pin in locked(lock) if pin.marker is None or pin.marker.evaluate(there)]
    versions = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in found}
    assert len(versions) == len(found), "a package is pinned twice"
    return versions


def test_conda_environment_has_the_same_floors():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    *packages, pip = conda["dependencies"]
    floors = {r.name: str(r.specifier) for r in map(Requirement, packages)}
    assert floors.pop("python") == PROJECT["requires-python"]
    del floors["pip"], floors["setuptools"]
    assert floors == {CONDA_NAMES.get(r.name, r.name): str(r.specifier) for r in declared()}
    assert pip == {"pip": ["-e ."]} and conda["channels"][0] == "conda-forge"


def test_dependencies_have_a_floor_only():
    assert [str(r) for lock in EXTRAS for r in declared(lock) if not re.fullmatch(r">=[\d.]+", str(r.specifier))] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_is_exact_and_portable(lock):
    """Exact versions, no GPU libraries (pip adds those that its build of torch requires), no hashes, URLs or paths."""
    for pin in locked(lock):
        assert re.fullmatch(r"==[\w.+!]+", str(pin.specifier)) and not pin.url and not pin.extras, pin
        assert not re.match(r"nvidia|cuda|triton|rocm|pytorch-triton", pin.name), pin
    assert re.findall(r"--hash|\w+://\S*|--?[\w-]*(?:index|find-links)\S*|(?:^|\s)[~/]\S+", LOCKS[lock]) == []


@on_every_machine
def test_locks_satisfy_the_project_and_each_other(python, system):
    installed, there = {}, markers(python, system)
    for lock in EXTRAS:
        pinned = pins(lock, python, system)
        for wanted in declared(lock):
            if wanted.marker is None or wanted.marker.evaluate(there):
                assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), wanted
        # make site and make bench must not change the packages that are installed already
        assert {name: version for name, version in pinned.items() if installed.get(name, version) != version} == {}
        installed |= pinned
    assert installed["torch"] == "2.13.0"


@pytest.mark.parametrize("python", PYTHONS[:2])
def test_oldest_lock_pins_the_floors(python):
    pinned, there = pins("-oldest", python, "linux"), markers(python, "linux")
    for wanted in declared():
        if wanted.marker is None or wanted.marker.evaluate(there):
            floor = str(wanted.specifier).removeprefix(">=")
            assert Version(pinned[canonicalize_name(wanted.name)]) == Version(floor), wanted


def test_package_has_the_version_of_its_project():
    assert possm_lite.__version__ == PROJECT["version"]


def test_files_of_the_repository_name_these_versions():
    read = {name: yaml.safe_load((ROOT / name).read_text(encoding="utf-8")) for name in REPOSITORY}
    hooks, workflow, citation = (read[name] for name in REPOSITORY)
    assert hooks["repos"][0]["rev"] == f"v{pins('', '3.11', 'linux')['ruff']}"
    assert workflow["jobs"]["linux"]["strategy"]["matrix"]["python"] == PYTHONS
    assert citation["version"] == possm_lite.__version__ == PROJECT["version"]
