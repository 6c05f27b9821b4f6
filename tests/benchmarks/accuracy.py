"""R² on held-out velocity of every decoder, tuned alike, over several seeds."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from possm_lite.classroom.style import BLUE, ORANGE
from possm_lite.decoder.config import BACKBONES

from .comparison import (
    GRU,
    KALMAN,
    MLP,
    REAL,
    RECORDINGS,
    SIMULATED,
    WIENER,
    Decoder,
    job,
    present,
    search,
    table_of_settings,
    tables,
    train,
)
from .page import Item, Plot, Row, row

POSSM_GRU = "POSSM, gru"
LEARNED: dict[str, Decoder] = {f"POSSM, {b}": {"backbone": b} for b in BACKBONES} | {MLP: MLP, GRU: GRU}


def measure(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    learned = {name: LEARNED[name] for name in ("POSSM, rnn", POSSM_GRU, GRU)} if short else LEARNED
    n_seeds = dict.fromkeys(learned, 2 if short else 5) | {WIENER: 1, KALMAN: 1}
    found, missing = present(recordings)
    yield from missing
    best = search(found, learned, 1, short)
    yield table_of_settings(found, learned, best, 1)
    keys = [(s, d, seed) for s, d in product(found, n_seeds) for seed in range(n_seeds[d])]
    jobs = [job(found, s, learned.get(d, d), seed, short, **best.get((s, d), {})) for s, d, seed in keys]
    of: dict[tuple[str, str], list[dict]] = {}
    for (source, decoder, _), score in zip(keys, train(jobs), strict=True):
        of.setdefault((source, decoder), []).append(score)
    for source in found:
        yield from limits(source, {d: of[source, d] for d in n_seeds})
    yield from tables("All decoders", found, n_seeds, of, POSSM_GRU)
    yield Plot("accuracy", "R² of each decoder on held-out velocity, a dot per seed", _plot(list(found), of))


def limits(source: str, scores: dict[str, list[dict]]) -> Iterator[Row]:
    possm, gru, wiener = (np.mean([score["r2"] for score in scores[d]]) for d in (POSSM_GRU, GRU, WIENER))
    floor, words = (wiener + 0.1, ", Wiener + 0.10") if source == SIMULATED else (gru, ", GRU on counts")
    if source == REAL:
        floor, words = 0.88, ""
        longest = max(score["seconds"] for score in scores[POSSM_GRU])
        yield row(f"{source}, POSSM, longest training", longest, "{:.0f} s", "<= 120 s", longest <= 120)
    yield row(f"{source}, POSSM R², mean of seeds", possm, "{:.3f}", f">= {floor:.3f}{words}", possm >= floor)
    yield row(f"{source}, GRU on counts R²", gru, "{:.3f}", f"<= {possm:.3f}, POSSM", gru <= possm)


def _plot(sources: list[str], of: dict[tuple[str, str], list[dict]]) -> Figure:
    decoders = [d for d in [KALMAN, WIENER, *reversed(LEARNED)] if (sources[0], d) in of]
    figure = Figure(figsize=(3.6 * len(sources) + 1.5, 3.4), layout="constrained")
    for panel, source in zip(figure.subplots(1, len(sources), sharey=True, squeeze=False)[0], sources, strict=True):
        for y, decoder in enumerate(decoders):
            r2 = [score["r2"] for score in of[source, decoder]]
            color = ORANGE if decoder.startswith("POSSM") else BLUE
            panel.plot(r2, [y] * len(r2), "o", color=color, ms=5, alpha=0.6)
        panel.set_yticks(range(len(decoders)), decoders)
        panel.set_xlabel("R²")
        panel.set_title(source, fontsize="medium")
        panel.grid(alpha=0.3)
    return figure
