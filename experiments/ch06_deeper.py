"""Trains the networks that deeper/06 tells of but does not train itself, and writes ch06_deeper.json. About a minute.

python experiments/ch06_deeper.py
"""

import json
from pathlib import Path

import numpy as np

from possm_course.chapters.ch06 import deeper

FILE = Path(__file__).with_suffix(".json")


def rounded(x):
    """Numbers as lists, rounded to four decimals."""
    return np.round(np.asarray(x, float), 4).tolist()


def main():
    settings = [(rate, c) for rate in deeper.RATES for c in deeper.LIMITS]
    clipped = deeper.trained(deeper.clipped_run, settings, 4)
    found = {
        "held": rounded(deeper.trained(deeper.held, [(False,), (True,)], 4)),  # free and held: (2, 4, 3)
        "losses": rounded([[losses for losses, _ in runs] for runs in clipped]),  # (rates and limits, 4, 60)
        "norms": rounded([[norms for _, norms in runs] for runs in clipped]),
        "cut losses": rounded(deeper.trained(deeper.cut_losses, [()], 4)[0]),  # (4, cuts)
        "integrated": rounded(deeper.trained(deeper.integrate, deeper.SIZES.values(), 3)),  # (sizes, 3, 3)
    }
    FILE.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
