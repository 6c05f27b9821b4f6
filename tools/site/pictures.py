"""Makes the still of the live page, for the README and for links that are shared: python -m tools.site.pictures

It is a screenshot of what `make site` has built, by the system's Chromium. The figures of the two widgets in the README
are screenshots of chapters 01 and 04 in JupyterLab.
"""

import base64
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from tools.execute import fewer_colors

DOCS = Path(__file__).resolve().parents[2] / "docs"
STILL = DOCS / "site/_static/preview.png"


def main() -> None:
    """Write the live page during its demonstration, 1200 x 630 pixels as previews of links are."""
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 630})
        page.goto(f"file://{DOCS / '_build/html/live.html'}")
        page.wait_for_timeout(15_000)  # the second round of the demonstration, which begins with circles
        page.screenshot(path=STILL)
        browser.close()
    data = fewer_colors(base64.b64encode(STILL.read_bytes()).decode())
    STILL.write_bytes(base64.b64decode(data))


if __name__ == "__main__":
    main()
