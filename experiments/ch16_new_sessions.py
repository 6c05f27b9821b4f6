"""Measures what the ways of chapter 16 reach with few trials, and writes ch16_new_sessions.json.

python experiments/ch16_new_sessions.py

About twenty minutes on two cores; or one of its two studies alone: python experiments/ch16_new_sessions.py past
"""

import json
import sys
from pathlib import Path

import torch

from possm_course.chapters.ch16.study import PAST_SEEDS, SEEDS, after_five_days, by_past
from possm_course.parallel import in_parallel

FILE = Path(__file__).with_suffix(".json")
TRIALS = Path(__file__).with_name("benchmarks") / "results" / "trials.json"


def by_trials() -> dict[str, list[float]]:
    """R² on a session with new units, by way and number of trials: what `make bench ARGS="trials"` has measured."""
    items = json.loads(TRIALS.read_text(encoding="utf-8"))["items"]
    table = next(item for item in items if item.get("title") == "A session with new units")
    return {way: [float(r2.split(" ± ")[0]) for r2 in row] for way, *row in table["rows"]}


STUDIES = {
    "day 5": (after_five_days, [(seed,) for seed in SEEDS]),
    "past": (by_past, [(seed,) for seed in PAST_SEEDS]),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    results: dict = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    results["new units"] = by_trials()
    for name in sys.argv[1:] or STUDIES:
        study, calls = STUDIES[name]
        runs = in_parallel(study, calls)
        results[name] = {way: [run[way] for run in runs] for way in runs[0]}
        FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
