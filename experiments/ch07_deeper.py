"""Trains the networks that deeper/07 tells of but does not train itself, and writes ch07_deeper.json. About a minute.

python experiments/ch07_deeper.py
"""

import json
from pathlib import Path

import numpy as np

from possm_course.chapters.ch07 import alignment, deeper, task
from possm_course.parallel import in_parallel

FILE = Path(__file__).with_suffix(".json")


def rounded(x):
    """Numbers as lists, rounded to four decimals."""
    return np.round(np.asarray(x, float), 4).tolist()


def main():
    means = in_parallel(alignment.mean_alignment, deeper.KINDS.values())
    mistakes, lies, changes = zip(*in_parallel(deeper.german, [(seed,) for seed in task.SEEDS]), strict=True)
    sorted_ = in_parallel(deeper.sorting, [(repeats, seed) for repeats in (False, True) for seed in task.SEEDS])
    shares, gaps = zip(*sorted_, strict=True)
    found = {
        "alignments": {title: rounded(mean) for title, mean in zip(deeper.KINDS, means, strict=True)},
        "explained": {name: rounded(picture) for name, picture in changes[2].items()},
        "mistakes": rounded(mistakes),  # (seeds, 3)
        "lies": {name: rounded(np.mean([lie[name] for lie in lies], 0)) for name in lies[0]},  # (7,) each
        "sorted": rounded(np.reshape(shares, (2, 3, -1))),  # (kinds, seeds, lengths)
        "gaps": rounded(np.reshape(gaps, (2, 3, -1))),  # (kinds, seeds, groups)
    }
    FILE.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
