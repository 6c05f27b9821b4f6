"""Fixtures of the tests in a browser: the system's Chromium, without a network. They skip where it is missing."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make .venv/.site")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    flags = "no-sandbox disable-gpu no-first-run disable-background-networking disable-component-update disable-sync"
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=[f"--{flag}" for flag in flags.split()])
        yield browser
        browser.close()


@pytest.fixture
def offline_page(chromium):
    """A page without a network; its list `problems` has requests to other hosts, failed requests and script errors."""
    context = chromium.new_context(viewport={"width": 1280, "height": 720}, offline=True)
    context.set_default_timeout(60_000)  # a busy machine takes long for a page with many formulas
    page, problems = context.new_page(), []
    local = ("file:", "data:", "about:")
    context.on("request", lambda r: None if r.url.startswith(local) else problems.append(r.url))
    context.on("requestfailed", lambda r: problems.append(f"{r.url} failed"))
    context.on("weberror", lambda failed: problems.append(str(failed.error)))
    page.problems = problems
    yield page
    context.close()


@pytest.fixture(scope="session")
def pages() -> Path:
    return _built("html", "index.html", "make site")


@pytest.fixture(scope="session")
def slides() -> Path:
    return _built("html/slides", "lib", "make slides")


def _built(name: str, content: str, command: str) -> Path:
    folder = ROOT / "docs" / "_build" / name
    if not (folder / content).exists():
        pytest.skip(f"{folder} is not built: {command}")
    return folder
