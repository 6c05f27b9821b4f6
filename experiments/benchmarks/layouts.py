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

from . import field
from .page import Item, Note, Table, row

# units with cosine tuning and nothing else, so that a short session is enough
NONE = ("untuned_share", "turning_deg", "common_turning_deg", "position_gain", "common_gain", "shared_gain")
COSINE = {"depth": 2.0, "baseline_hz": 8.0, **dict.fromkeys(NONE, 0.0)}
CLOSE = 0.02  # R² of one content read in two ways, after rounding and derivatives


def measure(short: bool = False) -> Iterator[Item]:
    """The rows of the section; `short`: a small session, one epoch."""
    n_trials, n_units, epochs = (16, 10, 1) if short else (80, 40, 20)
    session = simulate_session(3, SimulationConfig(n_units=n_units, n_trials=n_trials, **COSINE)).recording
    pairs, refused = read_all(session)
    rows = [[title, "", "", "", "", f"refused: {reason}"] for title, reason in refused.items()]
    scores = in_parallel(score, [(recording, epochs) for pair in pairs.values() for recording in pair])
    n_equal = 0
    for title, here, own in zip(pairs, scores[::2], scores[1::2], strict=True):
        is_equal = all(abs(r2 - own_r2) <= CLOSE for r2, own_r2 in zip(here, own, strict=True))
        n_equal += is_equal
        rows.append([title, *(f"{r2:.3f}" for r2 in (*here, *own)), "yes" if is_equal else "**no**"])
    head = ["layout", "POSSM R²", "Wiener R²", "own format, POSSM", "own format, Wiener", f"within {CLOSE}"]
    yield row("layouts that decode as in our own format", n_equal, f"{{}} of {len(rows)}", "all", n_equal == len(rows))
    seconds = session.span[1] - session.span[0]
    yield Table(f"One session of {seconds:.0f} s, {n_units} units, {n_trials} trials; {epochs} epochs", head, rows)
    yield Note(
        "Each layout keeps other parts of the session: counts lose the times of spikes, files without trials are split "
        "by time. It is compared with the same content in our own format."
    )
    yield from field.measure_read()


def read_all(session: Recording) -> tuple[dict[str, tuple[Recording, Recording]], dict[str, str]]:
    """The session written in every layout and read again.

    Returns:
        By title of the layout: the recording with the same content in our own format, and why others were refused.
    """
    pairs, refused = {}, {}
    for title, write in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            layout = write(Path(folder), session)
            try:
                pairs[title] = layouts.read(title, layout, Path(folder)), layout.expected
            except PossmError as exc:
                refused[title] = str(exc).replace(folder, "")
    return pairs, refused


def score(recording: Recording, epochs: int) -> tuple[float, float]:
    """R² of POSSM, trained for so many epochs, and of the Wiener filter."""
    session = prepare(recording)
    torch.manual_seed(0)
    model = POSSM(POSSMConfig(n_units=recording.n_units, n_outputs=recording.n_columns))
    fit(model, session, FitConfig(epochs=epochs), progress=False)
    return evaluate(model, session).r2, evaluate(fit_wiener(session), session).r2
