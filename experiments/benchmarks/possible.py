"""How good the decoder is, how good it could be, and what would buy more: what experiments/ch13_how_good.py stored."""

import json
from collections.abc import Iterator
from itertools import groupby

import numpy as np

from possm_course.chapters.ch13 import figures
from possm_course.stored import result

from .page import Item, Note, Plot, Table, with_spread

ALT = "R² of a particle filter that knows the simulator, by its particles; R² of POSSM by the minutes of its training"


def measure(short: bool = False) -> Iterator[Item]:
    """The tables and the figure of the section; `short` changes nothing: all is stored."""
    stored = json.loads(result("ch13_how_good.json").read_text(encoding="utf-8"))
    yield Table("Trained on more of the same units", ["minutes", "R²", "seeds"], by_minutes(stored["longer"]))
    joint = np.array([run["r2"] for run in stored["joint"].values()])
    rows = [["POSSM, and 4 sessions of other units", with_spread(joint), str(len(joint))]]
    filters = sorted(stored["filter"].items(), key=particles_of)
    for n, runs in groupby(filters, particles_of):
        r2 = np.array([run["r2"] for _, run in runs])
        rows.append([f"particle filter, {n:,} particles", f"{r2.min():.3f} to {r2.max():.3f}", str(len(r2))])
    yield Table("Of others, and by who knows", ["", "R²", "seeds"], rows)
    yield Note(
        "Test part of the embedded session. The filter knows the simulator: tuning of each unit, how reaches are "
        "drawn. Computed by `python experiments/ch13_how_good.py filter`, `longer` and `joint`."
    )
    yield Plot("possible", ALT, figures.how_good(stored))


def by_minutes(runs: dict[str, dict[str, float]]) -> list[list[str]]:
    """A row for each length of the training part: minutes, R², number of seeds."""
    rows = []
    for minutes in sorted({run["minutes"] for run in runs.values()}):
        r2 = np.array([run["r2"] for run in runs.values() if run["minutes"] == minutes])
        rows.append([f"{minutes:.0f}", with_spread(r2), str(len(r2))])
    return rows


def particles_of(entry: tuple[str, dict]) -> int:
    """The number of particles of a result, whose key is "particles seed"."""
    return int(entry[0].split()[0])
