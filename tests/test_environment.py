"""pyproject.toml, environment.yml and the locks agree, and the locks can be installed on every machine."""

import re
import sys
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {"main": ["lab", "recordings", "test"], "site": ["site", "browser"], "bench": ["bench"]}  # by lock
LOCKS = {name: (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8") for name in [*EXTRAS, "oldest"]}
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
SYSTEMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"},
    "macos": {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": "arm64"},
    "windows": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": "AMD64"},
}


def declared(lock: str = "main") -> list[Requirement]:
    """The requirements in pyproject.toml that a lock is made of."""
    own = PROJECT["dependencies"] if lock == "main" else []
    return [Requirement(line) for line in sum((PROJECT["optional-dependencies"][e] for e in EXTRAS[lock]), own)]


def locked(lock: str) -> list[Requirement]:
    lines = (line.split("#")[0].strip() for line in LOCKS[lock].splitlines())
    return [Requirement(line) for line in lines if line]


def on(python: str, system: str, requirements: list[Requirement]) -> dict[str, str]:
    """{name: specifier} of those that pip would install on such a machine."""
    versions = {"python_version": python, "python_full_version": f"{python}.9", "implementation_version": f"{python}.9"}
    there = default_environment() | versions | SYSTEMS[system]
    found = [r for r in requirements if r.marker is None or r.marker.evaluate(there)]
    specifiers = {canonicalize_name(r.name): r.specifier for r in found}
    assert len(specifiers) == len(found), "a package is named twice"
    return specifiers


def test_conda_environment_has_the_same_floors():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    *packages, pip = conda["dependencies"]
    floors = {r.name: str(r.specifier) for r in map(Requirement, packages)}
    assert floors.pop("python") == PROJECT["requires-python"]
    del floors["pip"], floors["setuptools"]
    assert floors == {CONDA_NAMES.get(r.name, r.name): str(r.specifier) for r in declared()}
    assert pip == {"pip": ["-e ."]} and conda["channels"][0] == "conda-forge"


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_is_exact_and_portable(lock):
    """Exact versions, no GPU libraries (pip adds those that its build of torch requires), no hashes, URLs or paths."""
    for pin in locked(lock):
        assert re.fullmatch(r"==[\w.+!]+", str(pin.specifier)) and not pin.url and not pin.extras, pin
        assert not re.match(r"nvidia|cuda|triton|rocm|pytorch-triton", pin.name), pin
    assert re.findall(r"--hash|\w+://\S*|--?[\w-]*(?:index|find-links)\S*|(?:^|\s)[~/]\S+", LOCKS[lock]) == []


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_locks_satisfy_the_project_and_each_other(python, system):
    installed = {}
    for lock in EXTRAS:
        pinned = {name: str(pin).removeprefix("==") for name, pin in on(python, system, locked(lock)).items()}
        for name, floor in on(python, system, declared(lock)).items():
            assert floor.contains(pinned[name]), name
        # make site and make bench must not change the packages that are installed already
        assert {name: version for name, version in pinned.items() if installed.get(name, version) != version} == {}
        installed |= pinned
    assert installed["torch"] == "2.13.0"
