"""What the tests in a browser need: Chromium of the system, without a network. Skipped where there is none."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "site" / "_build" / "html"


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not here: make .venv/.site")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    quiet = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync"]
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=quiet)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pages() -> Path:
    if not (PAGES / "index.html").exists():
        pytest.skip("the web pages are not built: make site")
    return PAGES


@pytest.fixture
def screenshots() -> Path:
    """Where CI finds them."""
    folder = ROOT / "site" / "_build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
