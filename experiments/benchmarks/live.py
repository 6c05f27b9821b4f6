"""`possm-lite simulate` and `live` beside each other: output equal to that of `stream`, and latency, through LSL."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from possm_lite.app.experiment import EMBEDDED
from possm_lite.app.lsl import import_pylsl
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.errors import PossmError
from possm_lite.recordings import load_recording
from possm_lite.recordings.formats.assemble import Selection
from possm_lite.training import prepare
from possm_lite.training.checkpoint import TrainedOn, save_checkpoint
from possm_lite.training.evaluate import even_offsets, replay
from possm_lite.training.session import Session

from .page import Item, Note, row

BIN_S, N_SLOTS = 0.05, len(even_offsets(0.05))
# Only streams of this computer, whatever its network; LSL logs nothing.
SETTINGS = "[multicast]\nResolveScope = machine\n[lab]\nKnownPeers = {127.0.0.1}\n[log]\nlevel = -3\n"


def measure(short: bool = False) -> Iterator[Item]:
    """The rows of the section; `short`: two seconds. A note where Lab Streaming Layer is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "lsl_api.cfg")
        settings.write_text(SETTINGS)
        os.environ["LSLAPICFG"] = str(settings)
        try:
            import_pylsl()
        except PossmError as exc:
            yield Note(f"Skipped: {exc}")
            return
        session = prepare(load_recording(EMBEDDED), lag_s=0.05)
        torch.manual_seed(0)
        model = POSSM(POSSMConfig(session.recording.n_units))  # nothing here depends on the weights
        save_checkpoint(Path(folder, "checkpoint.npz"), model, TrainedOn.from_session(session, "", Selection()))
        expected = replay(StreamingDecoder(model, 1, even_offsets(BIN_S)), session).outputs
        seconds = 2.0 if short else 60.0
        played = play_and_decode(folder, session, seconds)
    size = f"{session.recording.n_units} units, {seconds:.0f} s"
    largest = np.abs(played.decoded - expected[: len(played.decoded)]).max()
    difference = float(largest / np.abs(expected).max())
    what = f"{size}: largest difference to the replay of `stream`, over the largest output"
    yield row(what, difference, "{:.1e}", "<= 1e-6", difference <= 1e-6)
    for kind in ("late", "lost"):
        count = int(re.search(rf"([\d,]+) {kind}", played.summary)[1].replace(",", ""))
        yield row(f"{size}: {kind} events", count, "{:d}", "0", count == 0)
    published = [float(ms) for ms in re.search(r"p50 ([\d.]+) ms, p99 ([\d.]+) ms", played.summary).groups()]
    received = 1e3 * np.percentile(played.delays_s, (50, 99))
    after = 1e3 * np.percentile(played.after_s, (50, 99))
    for i, percentile in enumerate(("p50", "p99")):
        yield row(f"last event of a bin to its published output, {percentile}", published[i], "{:.1f} ms")
        yield row(f"to its arrival in a third process, {percentile}", received[i], "{:.1f} ms")
        yield row(f"first event of a later bin to that arrival, {percentile}", after[i], "{:.1f} ms")


class Played(NamedTuple):
    """What arrived of a session that was played and decoded.

    Attributes:
        decoded: the output, (n, C).
        delays_s: for each bin with a spike, the seconds from its last to the arrival of its output here.
        after_s: the same from the first spike of a later bin, by which the bin is over.
        summary: the last line of `live`.
    """

    decoded: np.ndarray
    delays_s: np.ndarray
    after_s: np.ndarray
    summary: str


def play_and_decode(run: str, session: Session, seconds: float) -> Played:
    """Decode the beginning of the test part of a session that another process plays.

    Args:
        run: the folder of the checkpoint.
        session: the embedded one.
        seconds: how long.
    """
    pylsl, name = import_pylsl(), f"bench-{os.getpid()}"
    start_s = session.segments("test")[0, 0] - session.timeline.lag_s
    # --wait 1: where a busy machine holds the source up, its events take longer, but none is late
    live = start_command("live", run, "--stream", name, "--wait", 1)
    processes = [live]
    try:
        inlet = pylsl.StreamInlet(pylsl.resolve_byprop("name", f"{name}-decoded", timeout=60)[0])
        inlet.open_stream(30.0)
        processes.append(start_command("simulate", EMBEDDED, "--stream", name, "--start", start_s))
        decoded, stamps, arrivals = [], [], []
        while len(arrivals) < seconds / BIN_S:
            outputs, times = inlet.pull_chunk(30.0, N_SLOTS)
            arrivals.append(pylsl.local_clock())
            assert len(outputs) == N_SLOTS, "no output for 30 s"
            decoded += outputs
            stamps += times
        live.send_signal(signal.SIGINT)
        summary, _ = live.communicate(timeout=30)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    spikes_s = session.timeline.spike_times - start_s
    bins = np.arange(len(arrivals))
    later = np.searchsorted(spikes_s, BIN_S * (bins + 1) - 1e-6)  # the first spike after each bin
    arrivals_s = np.array(arrivals) - (stamps[0] - session.timeline.lag_s)  # bin 0 begins with the first stamp
    fired = spikes_s[later - 1] > BIN_S * bins
    delays_s = (arrivals_s - spikes_s[later - 1])[fired]
    after_s = (arrivals_s - spikes_s[later])[fired]
    return Played(np.array(decoded), delays_s, after_s, summary)


def start_command(command: str, *arguments) -> subprocess.Popen:
    """`possm-lite COMMAND ARGUMENTS` in a process of its own."""
    line = [sys.executable, "-m", "possm_lite", command, *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
