"""R² on held-out velocity over seeds: of every decoder, tuned alike; of the readings of a bin; of the codes of time."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from matplotlib.figure import Figure

from possm_lite.course.style import BLUE, ORANGE
from possm_lite.decoder import POSSMConfig
from possm_lite.decoder.config import BACKBONES, READINGS

from . import comparison
from .comparison import GRU, KALMAN, MLP, REAL, RECORDINGS, SENSORY, SIMULATED, WIENER, Decoder, Scores, r2_of
from .page import Item, Plot, Row, row

POSSM_GRU = "POSSM, gru"
LEARNED: dict[str, Decoder] = {f"POSSM, {b}": {"backbone": b} for b in BACKBONES} | {MLP: MLP, GRU: GRU}
FILTERS: dict[str, Decoder] = {WIENER: WIENER, KALMAN: KALMAN}
GOALS = {REAL: 0.903, SENSORY: 0.788, SIMULATED: 0.86}  # of the readings
POSSM_DEFAULT = f"POSSM: {POSSMConfig.reading}, rotation"  # the other variants replace one of these


def measure(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """All decoders, each with its own best settings."""
    learned = {name: LEARNED[name] for name in ("POSSM, rnn", POSSM_GRU, GRU)} if short else LEARNED
    n_seeds = dict.fromkeys(learned, 2 if short else 5) | dict.fromkeys(FILTERS, 1)
    found, missing = comparison.present(recordings)
    yield from missing
    best, searched = comparison.search(found, learned, 1, short)
    yield searched
    of = comparison.score_all(found, learned | FILTERS, best, n_seeds, short)
    for source in found:
        yield from limits(source, {d: of[source, d] for d in n_seeds})
    yield from comparison.tables("All decoders", found, n_seeds, of, POSSM_GRU)
    yield Plot("accuracy", "R² of each decoder on held-out velocity, a dot per seed", _plot(list(found), of))


def limits(source: str, scores: dict[str, list[dict]]) -> Iterator[Row]:
    possm, gru, wiener = (r2_of(scores[d]).mean() for d in (POSSM_GRU, GRU, WIENER))
    floor, words = (wiener + 0.1, ", Wiener + 0.10") if source == SIMULATED else (gru, ", GRU on counts")
    if source == REAL:
        floor, words = 0.88, ""
        longest = max(score["seconds"] for score in scores[POSSM_GRU])
        yield row(f"{source}, POSSM, longest training", longest, "{:.0f} s", "<= 120 s", longest <= 120)
    yield row(f"{source}, POSSM R², mean of seeds", possm, "{:.3f}", f">= {floor:.3f}{words}", possm >= floor)
    yield row(f"{source}, GRU on counts R²", gru, "{:.3f}", f"<= {possm:.3f}, POSSM", gru <= possm)


def measure_readings(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """The readings, all with the settings that are best for the default one, and a GRU on counts with its own."""
    n_trainings, n_seeds = (1, 1) if short else (2, 5)
    found, missing = comparison.present(recordings)
    yield from missing
    tuned: dict[str, Decoder] = {POSSM_DEFAULT: {}, GRU: GRU}
    best, searched = comparison.search(found, tuned, n_trainings, short)
    yield searched
    others = {f"reading: {name}": {"reading": name} for name in (*READINGS, "mean") if name != POSSMConfig.reading}
    variants = tuned | (_first(others) if short else others)
    settings = {(s, v): best[s, v if v == GRU else POSSM_DEFAULT] for s, v in product(found, variants)}
    of = comparison.score_all(found, variants, settings, dict.fromkeys(variants, n_seeds), short)
    for source in found:
        possm, gru = (r2_of(of[source, d]).mean() for d in tuned)
        goal = GOALS[source]
        yield row(f"{source}, POSSM R², mean of seeds", possm, "{:.3f}", f">= {goal}", possm >= goal)
        yield row(f"{source}, above the GRU on counts by", possm - gru, "{:+.3f}", ">= 0.010", possm - gru >= 0.01)
    yield from comparison.tables("How a bin is read", found, variants, of, POSSM_DEFAULT)


def measure_codes(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """The codes of time, with the default settings of training, which the search among the readings chooses too."""
    found, missing = comparison.present(recordings)
    yield from missing
    others = {f"code of time: {name}": {"code": name} for name in comparison.time_codes.CODES if name != "rotation"}
    others["a learned query per millisecond"] = {"per_ms": True}
    variants: dict[str, Decoder] = {POSSM_DEFAULT: {}} | (_first(others) if short else others)
    of = comparison.score_all(found, variants, {}, dict.fromkeys(variants, 1 if short else 3), short)
    yield from comparison.tables("The code of time", found, variants, of, POSSM_DEFAULT)


def _first(variants: dict[str, Decoder]) -> dict[str, Decoder]:
    return dict(list(variants.items())[:1])


def _plot(sources: list[str], of: Scores) -> Figure:
    decoders = [d for d in [KALMAN, WIENER, *reversed(LEARNED)] if (sources[0], d) in of]
    figure = Figure(figsize=(3.6 * len(sources) + 1.5, 3.4), layout="constrained")
    for panel, source in zip(figure.subplots(1, len(sources), sharey=True, squeeze=False)[0], sources, strict=True):
        for y, decoder in enumerate(decoders):
            r2 = r2_of(of[source, decoder])
            color = ORANGE if decoder.startswith("POSSM") else BLUE
            panel.plot(r2, [y] * len(r2), "o", color=color, ms=5, alpha=0.6)
        panel.set_yticks(range(len(decoders)), decoders)
        panel.set_xlabel("R²")
        panel.set_title(source, fontsize="medium")
        panel.grid(alpha=0.3)
    return figure
