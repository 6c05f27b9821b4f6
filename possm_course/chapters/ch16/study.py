"""The sessions and the drift of chapter 16 (path and deeper), and what the ways to a decoder reach with few trials.

`RESULTS` is what experiments/ch16_new_sessions.py has measured.
"""

import json
from dataclasses import replace

import numpy as np

from possm_course.chapters.ch16.alignment import aligned, moments_of_counts, moments_of_latents
from possm_course.chapters.ch16.models import (
    CountGRU,
    day_layer,
    from_scratch,
    identify,
    old_table,
    pretrained,
)
from possm_course.stored import result
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig, UnitTuning, draw_units
from possm_lite.training import Session, combine_sessions, evaluate, prepare

RESULTS: dict = json.loads(result("ch16_new_sessions.json").read_text(encoding="utf-8"))
# Two subjects, and a shorter session of the second
A = SimulationConfig(n_units=40, n_trials=600, random_target_share=1.0, n_random_reaches=1)
B = replace(A, lag_s=0.13, common_turning_deg=-25.0, bend_deg=20.0)
NEW = replace(B, n_trials=200)
SPLIT = "chronological:70/3/27"  # % of trials for training, validation, test; little is decided by validation here


def imagined(session: Session, timing: bool = False) -> Session:
    """The session as if only targets were known, in training trials: a straight reach, of minimum jerk or as timed."""
    r, velocity = session.recording, np.zeros_like(session.recording.behavior)
    for start, stop in session.split.train:
        inside = (r.behavior_times >= start) & (r.behavior_times < stop)
        t = (r.behavior_times[inside] - start) / (stop - start)  # 0..1
        speed = np.linalg.norm(r.behavior[inside], axis=1) if timing else t**2 * (1 - t) ** 2
        velocity[inside] = (
            r.behavior[inside].mean(0) * (speed / speed.mean())[:, None]
        )  # the same way in the same time
    return prepare(replace(r, behavior=velocity), SPLIT)


def drift_tuning(
    units: UnitTuning,
    rng: np.random.Generator,
    rotation_deg: float = 20.0,
    gain_spread: float = 0.15,
    replaced_share: float = 0.1,
    config: SimulationConfig | None = None,
) -> UnitTuning:
    """The tuning of the same electrodes on a later day; `units` is not changed.

        preferred direction + rotation_deg z,    baseline and depth x exp(gain_spread z),    z standard normal

    A random share of the units is replaced by others, drawn from `config`, under the same names. How long units stay
    was measured by Chestek et al. 2007 and Dickey et al. 2009; the defaults are a choice of this course.
    """
    n = len(units.tuned)
    config = replace(config or SimulationConfig(), n_units=n, n_common=units.common_gain.shape[1])
    baseline = units.baseline_hz * np.exp(gain_spread * rng.standard_normal(n))
    later = replace(
        units,
        preferred_direction_rad=units.preferred_direction_rad
        + np.radians(rotation_deg) * rng.standard_normal(n),
        baseline_hz=baseline,
        saturation_hz=np.maximum(units.saturation_hz, 2 * baseline),
        depth_s_per_mm=units.depth_s_per_mm * np.exp(gain_spread * rng.standard_normal(n)),
    )
    new_units = draw_units(rng, config)
    is_replaced = rng.permutation(n) < round(replaced_share * n)
    pairs = zip(vars(later).values(), vars(new_units).values(), strict=True)
    return UnitTuning(*(np.where(is_replaced, new.T, old.T).T for old, new in pairs))


def drifted(units: UnitTuning, days: int, seed: int, **amounts: float) -> UnitTuning:
    """The units after so many days, each on top of the days before."""
    rng = np.random.default_rng(seed)
    for _ in range(days):
        units = drift_tuning(units, rng, config=NEW, **amounts)
    return units


# What is stored
SEEDS, N_TRIALS = range(3), (5, 10, 20, 40, 80, 140)
PAST_SEEDS, N_PAST = range(6), (1, 2, 4, 8)


def past_sessions(seed: int, n: int) -> list[Session]:
    """So many sessions of the two subjects in turn; with even seeds A begins."""
    configs = [(A, B)[(i + seed) % 2] for i in range(n)]
    return combine_sessions(
        [
            prepare(simulate_session(1000 * seed + 1 + i, config).recording, SPLIT)
            for i, config in enumerate(configs)
        ]
    )


def after_five_days(seed: int, n_trials=N_TRIALS, scale: float = 1.0) -> dict[str, list[float]]:
    """R² of the GRU on counts on day 5, by way and number of trials.

    A table takes 100 steps, a decoder without a past 240; from 80 trials on twice as many. Three ways have 20 alone.
    """
    past = pretrained(CountGRU, past_sessions(seed, 3), round(400 * scale), seed)
    first = simulate_session(1000 * seed + 90, NEW)
    day_0 = prepare(first.recording, SPLIT)
    units = drifted(first.truth.units, 5, seed)
    day_5 = prepare(simulate_session(1000 * seed + 95, NEW, units).recording, SPLIT)
    known = identify(past, day_0, round(200 * scale), seed)
    found = {"day 0": [evaluate(known, day_0).r2], "untouched": [evaluate(known, day_5).r2]}
    for n in n_trials:
        today, steps = day_5.first_trials(n), round(100 * scale * (2 if n >= 80 else 1))
        made = {
            "old table": old_table(known, today, steps, seed),
            "fresh table": identify(past, today, steps, seed),
            "from scratch": from_scratch(CountGRU, today, round(2.4 * steps), seed),
            "alignment (CCA)": aligned(known, today, day_0),
            "moments of counts": moments_of_counts(known, today, day_0),
            "moments of latents": moments_of_latents(known, today, day_0),
        }
        if n == 20:
            made["day-specific layer"] = day_layer(known, today, steps, seed)
            for name, timing in (("targets alone", False), ("targets and speed", True)):
                made[name] = old_table(known, imagined(day_5, timing).first_trials(n), steps, seed)
        for way, model in made.items():
            found.setdefault(way, []).append(evaluate(model, day_5).r2)
    return {way: np.round(r2, 4).tolist() for way, r2 in found.items()}


def by_past(seed: int, n_past=N_PAST) -> dict[str, list[float]]:
    """R² of the GRU on counts on a session with new units, from 5 and from 20 trials, by the sessions of its past.

    Each past has 600 steps, a fresh table 100.
    """
    sessions = past_sessions(seed, max(n_past))
    new = prepare(simulate_session(1000 * seed + 90, NEW).recording, SPLIT)
    found: dict[str, list[float]] = {"5 trials": [], "20 trials": []}
    for n in n_past:
        past = pretrained(CountGRU, combine_sessions(sessions[:n]), 600, seed)
        for k, r2 in ((5, found["5 trials"]), (20, found["20 trials"])):
            r2.append(round(evaluate(identify(past, new.first_trials(k), 100, seed), new).r2, 4))
    return found
