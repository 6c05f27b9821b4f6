"""Makes the moving picture of the first page and the still of the live page: python -m tools.site.pictures

Trains on the embedded session as `make decode` does, streams the test part bin by bin, and writes ten seconds of it for
decoded.js. The still, for the README and for links that are shared, is a screenshot of what `make site` has built, by
the system's Chromium. The figures of the two widgets are screenshots of chapters 01 and 04 in JupyterLab.
"""

import base64
import json
import shutil
from pathlib import Path

import numpy as np
import torch
from playwright.sync_api import sync_playwright

from possm_lite.app.commands import EMBEDDED
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.recordings import load_recording
from possm_lite.training import fit, prepare
from possm_lite.training.evaluate import Replay, replay, slot_offsets
from possm_lite.training.session import Session
from tools.execute import fewer_colors

DOCS = Path(__file__).resolve().parents[2] / "docs"
PLAYED, STILL = DOCS / "site/_static/decoded_data.js", DOCS / "site/_static/preview.png"
PLAYED_SECONDS = 10.0


def main() -> None:
    """Write the data of the moving picture, and the still."""
    session = prepare(load_recording(EMBEDDED))
    torch.manual_seed(0)
    model = POSSM(POSSMConfig(n_units=session.recording.n_units))
    fit(model, session)
    played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    data = json.dumps(excerpt(session, played), separators=(",", ":"))
    PLAYED.write_text(f"const decoded = {data};\n", encoding="utf-8")
    print(f"R² {played.r2:.3f}, {np.median(played.step_us):.0f} µs a bin")
    still()


def still() -> None:
    """The live page during its demonstration, 1200 x 630 pixels as previews of links are."""
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 630})
        page.goto(f"file://{DOCS / '_build/html/live.html'}")
        page.wait_for_timeout(15_000)  # the second round of the demonstration, which begins with circles
        page.screenshot(path=STILL)
        browser.close()
    data = fewer_colors(base64.b64encode(STILL.read_bytes()).decode())
    STILL.write_bytes(base64.b64decode(data))


def excerpt(session: Session, played: Replay) -> dict:
    """Spikes, and velocities recorded and decoded, in the first seconds of the test part, as whole numbers.

    Args:
        session: the embedded one.
        played: its test part, decoded.
    """
    recording = session.recording
    start = played.times_s[0]
    now = played.times_s < start + PLAYED_SECONDS
    spikes = (recording.spike_times >= start) & (recording.spike_times < start + PLAYED_SECONDS)

    def ms(times_s: np.ndarray) -> list[int]:
        return np.rint(1e3 * (times_s - start)).astype(int).tolist()

    directions = np.degrees(np.load(EMBEDDED)["truth_units_preferred_direction_rad"])
    return {
        "r2": round(played.r2, 3),  # of the whole test part
        "unit": recording.behavior_unit,
        "n_units": recording.n_units,
        "times_ms": ms(played.times_s[now]),
        "recorded": np.rint(played.true[now]).astype(int).tolist(),
        "decoded": np.rint(played.decoded[now]).astype(int).tolist(),
        "spike_times_ms": ms(recording.spike_times[spikes]),
        "directions_deg": (np.rint(directions).astype(int) % 360).tolist(),
        "spike_units": recording.spike_units[spikes].tolist(),
    }


if __name__ == "__main__":
    main()
