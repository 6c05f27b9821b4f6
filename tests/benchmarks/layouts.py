"""One session in every layout that is read or converted by CONVERTERS.md: does it decode as in our own format?"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.errors import PossmError
from possm_lite.spikes import Recording, simulate_session
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.baselines import fit_wiener
from tests.spikes import layouts
from tests.spikes.layout_files import LAYOUTS

from .machine import SPAWN, threads
from .page import Item, Note, Table, row

# units with cosine tuning and nothing else, so that a short session is enough
NONE = ("untuned_share", "turning_deg", "common_turning_deg", "position_gain", "common_gain", "shared_gain")
COSINE = {"depth": 2.0, "baseline_hz": 8.0, **dict.fromkeys(NONE, 0.0)}
CLOSE = 0.02  # R² of one content read in two ways, after rounding and derivatives


def measure(short: bool = False) -> Iterator[Item]:
    n_trials, n_units, epochs = (16, 10, 1) if short else (80, 40, 20)
    session = simulate_session(3, SimulationConfig(n_units=n_units, n_trials=n_trials, **COSINE)).recording
    read, expected = {}, {}  # by layout; a refusal is a text
    for title, write in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            layout = write(Path(folder), session)
            try:
                read[title] = layouts.read(title, layout, Path(folder))
            except PossmError as exc:
                read[title] = str(exc).replace(folder, "")
            expected[title] = layout.expected
    pairs = [(a, expected[title]) for title, a in read.items() if isinstance(a, Recording)]
    scores = _score_all([recording for pair in pairs for recording in pair], epochs)
    rows, n_equal = [], 0
    for title, recording in read.items():
        if isinstance(recording, str):
            rows.append([title, "", "", "", "", f"refused: {recording}"])
            continue
        (possm, wiener), (own_possm, own_wiener) = (scores[_digest(r)] for r in (recording, expected[title]))
        equal = max(abs(possm - own_possm), abs(wiener - own_wiener)) <= CLOSE
        n_equal += equal
        cells = [f"{r2:.3f}" for r2 in (possm, wiener, own_possm, own_wiener)]
        rows.append([title, *cells, "yes" if equal else "**no**"])
    head = ["layout", "POSSM R²", "Wiener R²", "own format, POSSM", "own format, Wiener", f"within {CLOSE}"]
    yield row("layouts that decode as in our own format", n_equal, f"{{}} of {len(rows)}", "all", n_equal == len(rows))
    seconds = session.span[1] - session.span[0]
    yield Table(f"One session of {seconds:.0f} s, {n_units} units, {n_trials} trials; {epochs} epochs", head, rows)
    yield Note(
        "Each layout keeps other parts of the session: counts lose the times of spikes, files without trials are split "
        "by time. It is compared with the same content in our own format."
    )


def _score_all(recordings: list[Recording], epochs: int) -> dict[str, tuple[float, float]]:
    """R² of POSSM and of the Wiener filter by digest; each content is decoded once."""
    distinct = {_digest(recording): recording for recording in recordings}
    with ProcessPoolExecutor(os.cpu_count() or 1, SPAWN) as pool:
        scores = pool.map(score, distinct.values(), [epochs] * len(distinct))
        return dict(zip(distinct, scores, strict=True))


def score(recording: Recording, epochs: int) -> tuple[float, float]:
    with threads(1):
        session = prepare(recording)
        torch.manual_seed(0)
        model = POSSM(POSSMConfig(n_units=recording.n_units, n_outputs=recording.n_columns))
        fit(model, session, FitConfig(epochs=epochs), progress=False)
        return evaluate(model, session).r2, evaluate(fit_wiener(session), session).r2


def _digest(recording: Recording) -> str:
    """Equal for recordings with bitwise equal numbers."""
    names = ("spike_times", "spike_units", "behavior_times", "behavior", "trials")
    return hashlib.sha256(b"".join(getattr(recording, name).tobytes() for name in names)).hexdigest()
