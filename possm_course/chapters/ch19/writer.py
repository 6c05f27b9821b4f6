"""A writer: a shorthand of twelve letters, whose pen strokes are reaches of the simulator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from possm_lite.recordings import SpikeBatch
from possm_lite.simulate.neurons import (
    TICKS_PER_SECOND,
    SimulationConfig,
    draw_common,
    draw_spikes,
    draw_units,
)
from possm_lite.simulate.reaches import Reaches

LETTERS = "adehilnorstu"
SIGNS = "-" + LETTERS  # the blank is sign 0
N_UNITS, BIN_S = 60, 0.05
_E, _N, _W, _S = (1, 0), (0, 1), (-1, 0), (0, -1)
# corners that the pen passes; it starts from the middle of its field and goes back there
CORNERS = {
    "a": (_E, _N),
    "d": (_E, _S),
    "e": (_N,),
    "h": (_N, _W),
    "i": (_S,),
    "l": (_W, _N),
    "n": (_W, _S),
    "o": (_S, _W),
    "r": (_N, _S),
    "s": (_W, _E),
    "t": (_E,),
    "u": (_S, _E),
}
SIZE_MM = 80.0  # from the middle to a corner
_TABLE = """
and are all did end her his its let not old one our out see she sun tea the too toe hand head hear
heat here hide hold hole hour into lead less line list load lost need neon nine noon note rate
read rest root rule salt sand seed sell send shed soul steel still tell than that then there these
thin this those three tone tree tune turn under unit until adult annual dendrite easel hello
hidden latent learn lesson letter little neuron noise onset order sense shell shoulder silent
sound state street thread trial train
"""
WORDS = tuple(_TABLE.split())


@dataclass(frozen=True)
class Writing:
    """Words as they were written, and the spikes meanwhile.

    Attributes:
        texts: n words.
        reaches: all strokes of the pen.
        ends_s: when each letter was finished, seconds since its word began; for pictures alone, no
            decoder gets it.
        spikes: of each unit, seconds.
    """

    texts: tuple[str, ...]
    reaches: Reaches
    ends_s: tuple[tuple[float, ...], ...]
    spikes: tuple[np.ndarray, ...]

    def batch(self, rows: Sequence[int], units: np.ndarray | None = None) -> SpikeBatch:
        """The spikes of some words.

        Args:
            rows: which words.
            units: True for units that are read, (U,); None: all.
        """
        trials, seconds, unit_of = [], [], []
        for place, row in enumerate(rows):
            start, stop = self.reaches.trials[row]
            for unit, times in enumerate(self.spikes):
                if units is None or units[unit]:
                    within = times[slice(*np.searchsorted(times, (start, stop)))] - start
                    seconds.append(within)
                    trials.append(np.full(len(within), place))
                    unit_of.append(np.full(len(within), unit + 1))
        duration = np.diff(self.reaches.trials[list(rows)])[:, 0]
        flat = (np.concatenate(x) for x in (trials, unit_of, seconds))
        return SpikeBatch.from_events(*flat, n_trials=len(rows), duration_s=duration)


def tokens(text: str) -> list[int]:
    """Places of the letters of a text in `SIGNS`."""
    return [SIGNS.index(letter) for letter in text]


def nonsense(rng: np.random.Generator, n: int) -> list[str]:
    """Words of one to six letters at random, of which one in five is the letter before once more.

    Args:
        rng: the generator.
        n: of words.
    """
    words = []
    for _ in range(n):
        word = ""
        for _ in range(rng.integers(1, 7)):
            word += word[-1] if word and rng.random() < 0.2 else rng.choice(list(LETTERS))
        words.append(word)
    return words


def plan_strokes(
    rng: np.random.Generator, texts: Sequence[str]
) -> tuple[Reaches, list[tuple[float, ...]]]:
    """The strokes of the pen for some words, one after the other.

    Args:
        rng: of pauses, tempo and bends.
        texts: words of `LETTERS`.

    Returns:
        The plan, and the ends of the letters of each word, seconds since it began.
    """
    clock, pen = 0.0, np.zeros(2)
    rows, trials, ends = [], [], []
    for trial, text in enumerate(texts):
        start, clock = clock, clock + 0.2
        pace = np.exp(0.1 * rng.standard_normal())  # of this word
        ends.append([])
        for letter in text:
            for corner in (*CORNERS[letter], (0, 0)):
                target = SIZE_MM * np.array(corner, float)
                typical_s = pace * (0.15 + 0.0012 * np.hypot(*(target - pen)))
                stop = clock + np.round(typical_s * np.exp(0.1 * rng.standard_normal()), 3)
                bend = np.radians(12) * rng.standard_normal()
                rows.append((clock, stop, pen, target, bend, trial))
                clock, pen = stop + np.round(rng.uniform(0, 0.03), 3), target
            ends[-1].append(stop - start)
            clock += np.round(rng.uniform(0.1, 0.25), 3)
        clock += 0.2
        trials.append((start, clock))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    reaches = Reaches(*columns, np.array(trials), np.ones(len(texts), bool))
    return reaches, [tuple(row) for row in ends]


def write(texts: Sequence[str], seed: int) -> Writing:
    """Words, and the spikes of 60 units while they are written. The units are always the same.

    Args:
        texts: words of `LETTERS`.
        seed: of the movements and the spikes.
    """
    config = SimulationConfig(n_units=N_UNITS)
    units = draw_units(np.random.default_rng(19), config)
    rng = np.random.default_rng((19, seed))
    reaches, ends = plan_strokes(rng, texts)
    common = draw_common(rng, reaches.trials[-1, 1], config)
    spikes = [
        draw_spikes(rng, units, unit, reaches, common, config) / TICKS_PER_SECOND
        for unit in range(N_UNITS)
    ]
    return Writing(tuple(texts), reaches, tuple(ends), tuple(spikes))
