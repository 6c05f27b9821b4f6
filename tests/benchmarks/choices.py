"""How a bin is read and how time is coded: R² on held-out velocity over seeds. POSSM and the GRU are tuned alike; the
readings are trained with POSSM's settings, the codes of time with the defaults."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from possm_lite.decoder import POSSMConfig
from possm_lite.decoder.config import READINGS
from possm_lite.training import FitConfig

from .comparison import (
    GRU,
    REAL,
    RECORDINGS,
    SENSORY,
    SIMULATED,
    Decoder,
    job,
    present,
    search,
    table_of_settings,
    tables,
    time_codes,
    train,
)
from .page import Item, row

DEFAULTS = dict(lr=FitConfig.lr, window_s=FitConfig.window_s, batch=FitConfig.batch)
GOALS = {REAL: 0.905, SENSORY: 0.79, SIMULATED: 0.86}
_DEFAULT = POSSMConfig(n_units=1)
# the other variants replace one of these
POSSM_DEFAULT = f"POSSM: {_DEFAULT.reading}, rotation"


def measure(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """The readings, and a GRU on counts tuned with the same effort."""
    n_searches, n_seeds = (1, 1) if short else (2, 5)
    found, missing = present(recordings)
    yield from missing
    decoders: dict[str, Decoder] = {POSSM_DEFAULT: {}, GRU: GRU}
    best = search(found, decoders, n_searches, short)
    yield table_of_settings(found, decoders, best, n_searches)
    others = {f"reading: {name}": {"reading": name} for name in (*READINGS, "mean") if name != _DEFAULT.reading}
    variants = decoders | (dict(list(others.items())[:1]) if short else others)
    settings = {(s, v): best[s, GRU if v == GRU else POSSM_DEFAULT] for s, v in product(found, variants)}
    of = _scores(found, variants, n_seeds, settings, short)
    for source in found:
        possm, gru = (np.mean([score["r2"] for score in of[source, d]]) for d in decoders)
        goal = GOALS[source]
        yield row(f"{source}, POSSM R², mean of seeds", possm, "{:.3f}", f">= {goal}", possm >= goal)
        yield row(f"{source}, above the GRU on counts by", possm - gru, "{:+.3f}", ">= 0.010", possm - gru >= 0.01)
    yield from tables("How a bin is read", found, variants, of, POSSM_DEFAULT)


def measure_codes(short: bool = False, recordings: dict[str, Path] = RECORDINGS) -> Iterator[Item]:
    """The codes of time, with the default settings of training, which the search of `measure` chooses too."""
    found, missing = present(recordings)
    yield from missing
    others = {f"code of time: {name}": {"code": name} for name in time_codes.CODES if name != "rotation"}
    others |= {"a learned query per millisecond": {"per_ms": True}}
    variants: dict[str, Decoder] = {POSSM_DEFAULT: {}} | (dict(list(others.items())[:1]) if short else others)
    settings = dict.fromkeys(product(found, variants), DEFAULTS)
    of = _scores(found, variants, 1 if short else 3, settings, short)
    yield from tables("The code of time", found, variants, of, POSSM_DEFAULT)


def _scores(found: dict[str, Path], variants: dict[str, Decoder], n_seeds: int, settings: dict, short: bool) -> dict:
    """The scores of all seeds by recording and variant."""
    keys = list(product(found, variants))
    jobs = [job(found, s, variants[v], seed, short, **settings[s, v]) for s, v in keys for seed in range(n_seeds)]
    scores = train(jobs)
    return {key: scores[i * n_seeds : (i + 1) * n_seeds] for i, key in enumerate(keys)}
