"""What long runs wrote beside their scripts says what chapters say of it: who is ahead, and by how much at least."""

import json

import numpy as np

from possm_course.stored import result


def stored(name: str) -> dict:
    return json.loads(result(name).read_text(encoding="utf-8"))


def test_the_filter_that_knows_is_above_every_decoder():
    found = stored("ch13_how_good.json")
    r2 = {}
    for key, run in found["filter"].items():
        r2.setdefault(int(key.split()[0]), []).append(run["r2"])
    means = [np.mean(r2[n]) for n in sorted(r2)]
    most = r2[max(r2)]
    assert means == sorted(means) and len(most) == 2 and np.ptp(most) < 0.005
    assert min(most) > max(run["r2"] for part in ("longer", "joint") for run in found[part].values()) + 0.02


def test_a_decoder_with_a_past_is_ahead_with_few_trials():
    """Chapter 16: R² of a session with new units, with 5 to 140 of its trials."""
    ways = stored("ch16_new_sessions.json")["new units"]
    identified, anew = (np.array(ways[f"POSSM, {way}"]) for way in ("units identified", "from scratch"))
    assert (identified[:3] > anew[:3] + 0.05).all() and abs(identified[-1] - anew[-1]) < 0.03


def test_who_solves_flags_and_who_the_delay():
    """Chapter 15: an error of 1 is that of a constant answer."""
    memories = stored("ch15_memories.json")
    worst = {task: {name: max(run["errors"]) for name, run in memories[task].items()} for task in ("flags", "delay")}
    assert all(worst["flags"][name] < 0.02 for name in ("GRU", "attention", "Mamba")) and worst["flags"]["S4D"] > 0.1
    assert all(worst["delay"][name] < 0.01 for name in ("attention", "S4D")) and worst["delay"]["Mamba"] > 0.9
    assert 0.1 < worst["delay"]["GRU"] < 0.9
