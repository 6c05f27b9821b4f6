"""Draws the decoder figure of the README and writes what the first page of the site plays: python site/pictures.py

Trains on the embedded session as `make decode` does, streams the test part bin by bin, draws three seconds of it, and
writes ten for decoded.js. The figures of the two widgets are screenshots of chapters 01 and 04 in JupyterLab.
"""

import json
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from possm_lite.app.commands import EMBEDDED
from possm_lite.course.style import GRAY, INK, ORANGE, use_style
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.recordings import load_recording
from possm_lite.training import fit, prepare
from possm_lite.training.evaluate import Replay, replay, slot_offsets
from possm_lite.training.session import Session

TARGET = Path(__file__).parent / "_static" / "decoder.png"
PLAYED = TARGET.with_name("decoded_data.js")
SECONDS, PLAYED_SECONDS = 3.0, 10.0


def main() -> None:
    use_style()
    session = prepare(load_recording(EMBEDDED))
    torch.manual_seed(0)
    model = POSSM(POSSMConfig(n_units=session.recording.n_units))
    fit(model, session)
    played = replay(StreamingDecoder(model, 1, slot_offsets(session)), session)
    draw(session, played).savefig(TARGET)
    data = json.dumps(excerpt(session, played), separators=(",", ":"))
    PLAYED.write_text(f"const decoded = {data};\n", encoding="utf-8")
    print(f"{TARGET.name}: R² {played.r2:.3f}, {np.median(played.step_us):.0f} µs a bin")


def draw(session: Session, played: Replay) -> Figure:
    """Spikes, velocity and path in the first seconds of the test part."""
    start = played.times_s[0]
    now = played.times_s < start + SECONDS
    time_s, true, decoded = played.times_s[now] - start, played.true[now], played.decoded[now]
    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    axes = figure.subplot_mosaic(
        [["spikes", "path"], ["x", "path"], ["y", "path"]], width_ratios=[2, 1], height_ratios=[2, 1, 1]
    )
    recording = session.recording
    shown = (recording.spike_times >= start) & (recording.spike_times < start + SECONDS)
    axes["spikes"].plot(
        recording.spike_times[shown] - start, recording.spike_units[shown], "|", color=INK, ms=2.5, mew=0.7
    )
    axes["spikes"].set(ylabel="unit", title="spikes in")
    for axis, name in enumerate("xy"):
        axes[name].plot(time_s, true[:, axis], color=GRAY, lw=3, label="recorded")
        axes[name].plot(time_s, decoded[:, axis], color=ORANGE, lw=1.6, label="decoded")
        axes[name].set_ylabel(f"{name} ({recording.behavior_unit})")
    for name in ("spikes", "x"):
        axes[name].sharex(axes["y"])
        axes[name].tick_params(labelbottom=False)
    axes["y"].set(xlabel="time (s)", xlim=(0, SECONDS))
    step = np.diff(time_s, append=2 * time_s[-1] - time_s[-2])[:, None]
    for velocity, look in ((true, {"color": GRAY, "lw": 3}), (decoded, {"color": ORANGE, "lw": 1.6})):
        axes["path"].plot(*(velocity * step).cumsum(0).T, **look)
    axes["path"].set(title="movement out", xlabel="hand, x (mm)", ylabel="y (mm)")
    axes["path"].set_aspect("equal", "datalim")
    axes["path"].legend(*axes["x"].get_legend_handles_labels(), loc="best")
    return figure


def excerpt(session: Session, played: Replay) -> dict:
    """Spikes, and velocities recorded and decoded, in the first seconds of the test part, as whole numbers."""
    start, recording = played.times_s[0], session.recording
    now = played.times_s < start + PLAYED_SECONDS
    spikes = (recording.spike_times >= start) & (recording.spike_times < start + PLAYED_SECONDS)

    def ms(times_s: np.ndarray) -> list[int]:
        return np.rint(1e3 * (times_s - start)).astype(int).tolist()

    return {
        "r2": round(played.r2, 3),  # of the whole test part
        "unit": recording.behavior_unit,
        "n_units": recording.n_units,
        "times_ms": ms(played.times_s[now]),
        "recorded": np.rint(played.true[now]).astype(int).tolist(),
        "decoded": np.rint(played.decoded[now]).astype(int).tolist(),
        "spike_times_ms": ms(recording.spike_times[spikes]),
        "spike_units": recording.spike_units[spikes].tolist(),
    }


if __name__ == "__main__":
    main()
