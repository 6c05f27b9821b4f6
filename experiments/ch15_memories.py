"""Trains the four memories of chapter 15 on both tasks, three seeds each, and writes ch15_memories.json. Ten minutes.

python experiments/ch15_memories.py
"""

import json
from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch15.toy import MEMORIES, RATES, SEEDS, STEPS, TASKS, learn

FILE = Path(__file__).with_suffix(".json")

if __name__ == "__main__":
    torch.set_num_threads(1)
    results: dict = {}
    for task in TASKS:
        for name in MEMORIES:
            searched = [learn(name, task, 100, rate, STEPS[task])[1][-1] for rate in RATES]
            rate = RATES[int(np.argmin(searched))]
            errors = [learn(name, task, seed, rate, STEPS[task])[1][-1] for seed in SEEDS]
            results.setdefault(task, {})[name] = {"rate": rate, "errors": np.round(errors, 5).tolist()}
            print(task, name, np.round(searched, 3), results[task][name], flush=True)
            FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name, task, n_steps, rate, seeds in (("S4D", "flags", 3000, 0.1, SEEDS), ("GRU", "delay", 1500, 0.03, (0,))):
        errors = [learn(name, task, seed, rate, n_steps)[1][-1] for seed in seeds]
        results[f"{task}, {n_steps} steps"] = {name: {"rate": rate, "errors": np.round(errors, 5).tolist()}}
    FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
