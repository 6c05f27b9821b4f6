"""One session in every layout that is read or converted by CONVERTERS.md: does it decode as in our own format?"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from possm_course.parallel import in_parallel
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.errors import PossmError
from possm_lite.recordings import Recording
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.training import FitConfig, evaluate, fit, prepare
from possm_lite.training.linear import fit_wiener
from tests.recordings import layouts
from tests.recordings.layout_files import LAYOUTS

from .page import Item, Note, Table, row

# units with cosine tuning and nothing else, so that a short session is enough
NONE = ("untuned_share", "turning_deg", "common_turning_deg", "position_gain", "common_gain", "shared_gain")
COSINE = {"depth": 2.0, "baseline_hz": 8.0, **dict.fromkeys(NONE, 0.0)}
CLOSE = 0.02  # R² of one content read in two ways, after rounding and derivatives


def measure(short: bool = False) -> Iterator[Item]:
    n_trials, n_units, epochs = (16, 10, 1) if short else (80, 40, 20)
    session = simulate_session(3, SimulationConfig(n_units=n_units, n_trials=n_trials, **COSINE)).recording
    rows, pairs = [], {}  # of layouts that are read: the recording, and the same content in our own format
    for title, write in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            layout = write(Path(folder), session)
            try:
                pairs[title] = layouts.read(title, layout, Path(folder)), layout.expected
            except PossmError as exc:
                rows.append([title, "", "", "", "", f"refused: {str(exc).replace(folder, '')}"])
    scores = in_parallel(score, [(recording, epochs) for pair in pairs.values() for recording in pair])
    n_equal = 0
    for title, (possm, wiener), (own_possm, own_wiener) in zip(pairs, scores[::2], scores[1::2], strict=True):
        equal = max(abs(possm - own_possm), abs(wiener - own_wiener)) <= CLOSE
        n_equal += equal
        r2 = (possm, wiener, own_possm, own_wiener)
        rows.append([title, *(f"{x:.3f}" for x in r2), "yes" if equal else "**no**"])
    head = ["layout", "POSSM R²", "Wiener R²", "own format, POSSM", "own format, Wiener", f"within {CLOSE}"]
    yield row("layouts that decode as in our own format", n_equal, f"{{}} of {len(rows)}", "all", n_equal == len(rows))
    seconds = session.span[1] - session.span[0]
    yield Table(f"One session of {seconds:.0f} s, {n_units} units, {n_trials} trials; {epochs} epochs", head, rows)
    yield Note(
        "Each layout keeps other parts of the session: counts lose the times of spikes, files without trials are split "
        "by time. It is compared with the same content in our own format."
    )


def score(recording: Recording, epochs: int) -> tuple[float, float]:
    """R² of POSSM and of the Wiener filter."""
    session = prepare(recording)
    torch.manual_seed(0)
    model = POSSM(POSSMConfig(n_units=recording.n_units, n_outputs=recording.n_columns))
    fit(model, session, FitConfig(epochs=epochs), progress=False)
    return evaluate(model, session).r2, evaluate(fit_wiener(session), session).r2
