"""Trains the two decoders of deeper 13 on the session of spike times, and writes their R²: ch13_timed_session.json.

python experiments/ch13_timed_session.py
"""

import json
from pathlib import Path

import torch

from possm_course.chapters.ch13.timed_session import learned, simulate_timed_session
from possm_lite.training import prepare

FILE = Path(__file__).with_suffix(".json")

if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {code: round(learned(code, prepare(simulate_timed_session())), 4) for code in ("sinusoid", "rotation")}
    FILE.write_text(json.dumps(found) + "\n", encoding="utf-8")
    print(found)
