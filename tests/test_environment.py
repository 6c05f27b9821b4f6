"""pyproject.toml, environment.yml and requirements.lock say the same, and the lock can be installed anywhere."""

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
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
SITE_LOCK = (ROOT / "requirements-site.lock").read_text(encoding="utf-8")
OLDEST_LOCK = (ROOT / "requirements-oldest.lock").read_text(encoding="utf-8")
BENCH_LOCK = (ROOT / "requirements-bench.lock").read_text(encoding="utf-8")
TORCH = "2.13.0"

CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
CONDA_ALONE = {"python", "pip", "setuptools"}  # what conda has to be told and pip brings along

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
SYSTEMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"},
    "macos": {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": "arm64"},
    "windows": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": "AMD64"},
}


LOCKS = {"reader": LOCK, "site": SITE_LOCK, "bench": BENCH_LOCK}
EVERY_LOCK = LOCKS | {"oldest": OLDEST_LOCK}
# extras of make site and its tests, and of make bench, which no reader needs
APART = {"site": "site", "browser": "site", "bench": "bench"}


def declared(lock: str = "reader") -> list[Requirement]:
    """What pyproject.toml asks for, with the extras of a reader, or those of another lock alone."""
    extras = PROJECT["optional-dependencies"]
    asked = [lines for name, lines in extras.items() if APART.get(name, "reader") == lock]
    return [Requirement(line) for line in sum(asked, PROJECT["dependencies"] if lock == "reader" else [])]


def locked(lock: str = LOCK) -> list[Requirement]:
    lines = (line.split("#")[0].strip() for line in lock.splitlines())
    return [Requirement(line) for line in lines if line]


def environment(python: str, system: str) -> dict[str, str]:
    """The markers of pip on another machine."""
    versions = {"python_version": python, "python_full_version": f"{python}.9", "implementation_version": f"{python}.9"}
    return default_environment() | versions | SYSTEMS[system]


def pins(python: str, system: str, lock: str = LOCK) -> dict[str, str]:
    """{name: version} of a lock as pip reads it there; two pins of one name would be an error of the lock."""
    there = environment(python, system)
    found = {}
    for pin in locked(lock):
        if pin.marker is None or pin.marker.evaluate(there):
            name = canonicalize_name(pin.name)
            assert name not in found, f"{name} is pinned twice on Python {python}, {system}"
            found[name] = str(pin.specifier).removeprefix("==")
    return found


def test_conda_asks_for_the_same_floors():
    asked = {str(r.name): str(r.specifier) for r in declared()}
    conda = {
        r.name: str(r.specifier) for r in map(Requirement, (d for d in CONDA["dependencies"] if isinstance(d, str)))
    }
    assert {CONDA_NAMES.get(name, name): floor for name, floor in asked.items()} == {
        name: floor for name, floor in conda.items() if name not in CONDA_ALONE
    }
    assert conda["python"] == PROJECT["requires-python"]


def test_conda_installs_this_folder():
    assert CONDA["dependencies"][-1] == {"pip": ["-e ."]}
    assert CONDA["channels"][0] == "conda-forge"


def test_every_dependency_has_a_floor_and_nothing_else():
    everything = [wanted for lock in LOCKS for wanted in declared(lock)]
    assert [str(r) for r in everything if not re.fullmatch(r">=[\d.]+", str(r.specifier))] == []


@pytest.mark.parametrize("lock", EVERY_LOCK.values(), ids=EVERY_LOCK)
def test_a_lock_pins_exactly(lock):
    inexact = [r for r in locked(lock) if not re.fullmatch(r"==[\w.+!]+", str(r.specifier)) or r.url or r.extras]
    assert inexact == []


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_holds_every_dependency_above_its_floor(python, system):
    there, pinned = environment(python, system), pins(python, system)
    for wanted in declared():
        if wanted.marker is None or wanted.marker.evaluate(there):
            assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), wanted
    assert pinned["torch"] == TORCH


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", ["site", "bench"])
def test_a_lock_beside_the_readers_goes_with_it(lock, python, system):
    """What make site and make bench install leaves the reader's packages, and each other's, as they are."""
    pinned = pins(python, system, LOCKS[lock])
    for wanted in declared(lock):
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), wanted
    others = pins(python, system, SITE_LOCK) | pins(python, system)
    assert {name: v for name, v in pinned.items() if others.get(name, v) != v} == {}


@pytest.mark.parametrize("python", PYTHONS[:2])
def test_the_oldest_lock_holds_every_dependency_at_its_floor(python):
    there, pinned = environment(python, "linux"), pins(python, "linux", OLDEST_LOCK)
    for wanted in declared():
        if wanted.marker is None or wanted.marker.evaluate(there):
            floor = str(wanted.specifier).removeprefix(">=")
            assert Version(pinned[canonicalize_name(wanted.name)]) == Version(floor), wanted


@pytest.mark.parametrize("lock", EVERY_LOCK.values(), ids=EVERY_LOCK)
def test_a_lock_leaves_the_gpu_to_the_build_of_torch(lock):
    """Where a build of torch wants GPU libraries, pip adds them; the CPU-only build must stay without."""
    assert [str(r) for r in locked(lock) if re.match(r"nvidia|cuda|triton|rocm|pytorch-triton", r.name)] == []


@pytest.mark.parametrize("lock", EVERY_LOCK.values(), ids=EVERY_LOCK)
def test_a_lock_names_no_place(lock):
    """No hash, no address of an index and no path of the machine that made it."""
    assert "--hash" not in lock
    assert re.findall(r"\w+://\S*|--?[\w-]*(?:index|find-links)\S*|(?:^|\s)[~/]\S+", lock) == []


def test_the_package_has_the_version_of_its_project():
    assert possm_lite.__version__ == PROJECT["version"]
