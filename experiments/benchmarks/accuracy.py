"""R² on held-out velocity over seeds: of every decoder, tuned alike; of the readings of a bin; of the codes of time."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from matplotlib.figure import Figure

from possm_course.style import BLUE, ORANGE
from possm_lite.decoder import POSSMConfig
from possm_lite.decoder.config import BACKBONES, READINGS

from . import comparison
from .comparison import GRU, KALMAN, MLP, REAL, RECORDINGS, SENSORY, SIMULATED, WIENER, Decoder, Scores, r2_of
from .page import Item, Note, Plot, Row, row

DEFAULT = "POSSM, gru"
LEARNED: dict[str, Decoder] = {f"POSSM, {b}": {"backbone": b} for b in BACKBONES} | {MLP: MLP, GRU: GRU}
FILTERS: dict[str, Decoder] = {WIENER: WIENER, KALMAN: KALMAN}
# The default with one thing replaced
READ: dict[str, Decoder] = {f"reading: {r}": {"reading": r} for r in (*READINGS, "mean") if r != POSSMConfig.reading}
CODES: dict[str, Decoder] = {f"code of time: {c}": {"code": c} for c in comparison.time_codes.CODES if c != "rotation"}
CODES["a learned query per millisecond"] = {"per_ms": True}
ROTATION = f"POSSM: {POSSMConfig.reading}, rotation"
GOALS = {REAL: 0.903, SENSORY: 0.788, SIMULATED: 0.86}


def measure(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """All decoders, each with its own best settings; the readings, with those of the default."""
    learned, readings = LEARNED, READ
    if short:
        learned, readings = {name: LEARNED[name] for name in ("POSSM, rnn", DEFAULT, GRU)}, _first(READ)
    n_seeds = dict.fromkeys([*learned, *readings], 2 if short else 5) | dict.fromkeys(FILTERS, 1)
    found, missing = comparison.present(recordings)
    yield from missing
    best, searched = comparison.search(found, learned, short)
    yield searched
    settings = best | {(source, reading): best[source, DEFAULT] for source, reading in product(found, readings)}
    of = comparison.score_all(found, learned | FILTERS | readings, settings, n_seeds, short)
    for source in found:
        yield from limits(source, {d: of[source, d] for d in n_seeds})
    yield from comparison.tables("All decoders", found, learned | FILTERS, of, DEFAULT)
    yield from comparison.tables("How a bin is read", found, [DEFAULT, *readings, GRU], of, DEFAULT)
    yield comparison.NOTE
    yield Note("Readings have the settings that are best for the default.")
    yield Plot("accuracy", "R² of each decoder on held-out velocity, a dot per seed", _plot(list(found), of))


def measure_codes(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """The codes of time, with the default settings of training."""
    found, missing = comparison.present(recordings)
    yield from missing
    codes = _first(CODES) if short else CODES
    variants: dict[str, Decoder] = {ROTATION: {}} | codes
    n_seeds = dict.fromkeys(variants, 1 if short else 3)
    of = comparison.score_all(found, variants, {}, n_seeds, short)
    yield from comparison.tables("The code of time", found, variants, of, ROTATION)
    yield comparison.NOTE


def _first(variants: dict[str, Decoder]) -> dict[str, Decoder]:
    """The first of the variants alone."""
    return dict(list(variants.items())[:1])


def limits(source: str, scores: dict[str, list[dict]]) -> Iterator[Row]:
    """The rows with limits of one recording, from the scores of each decoder."""
    possm, gru = (r2_of(scores[d]).mean() for d in (DEFAULT, GRU))
    yield row(f"{source}, POSSM R², mean of seeds", possm, "{:.3f}", f">= {GOALS[source]}", possm >= GOALS[source])
    yield row(f"{source}, above the GRU on counts by", possm - gru, "{:+.3f}", ">= 0.010", possm - gru >= 0.01)
    if source == REAL:
        longest = max(score["seconds"] for score in scores[DEFAULT])
        yield row(f"{source}, POSSM, longest training", longest, "{:.0f} s", "<= 120 s", longest <= 120)


def _plot(sources: list[str], of: Scores) -> Figure:
    decoders = [d for d in [KALMAN, WIENER, *reversed(LEARNED)] if (sources[0], d) in of]
    figure = Figure(figsize=(3.6 * len(sources) + 1.5, 3.4), layout="constrained")
    (panels,) = figure.subplots(1, len(sources), sharey=True, squeeze=False)
    for panel, source in zip(panels, sources, strict=True):
        for y, decoder in enumerate(decoders):
            r2 = r2_of(of[source, decoder])
            color = ORANGE if decoder.startswith("POSSM") else BLUE
            panel.plot(r2, [y] * len(r2), "o", color=color, ms=5, alpha=0.6)
        panel.set_yticks(range(len(decoders)), decoders)
        panel.set_xlabel("R²")
        panel.set_title(source, fontsize="medium")
        panel.grid(alpha=0.3)
    return figure
