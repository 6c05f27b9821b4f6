"""The sessions and the drift of chapter 16 (path and deeper), and what few trials are enough for.

`RESULTS` is what experiments/ch16_new_sessions.py has measured.
"""

import json
from dataclasses import replace

import numpy as np

from possm_course.chapters.ch16.alignment import (
    aligned,
    moments_of_counts,
    moments_of_latents,
    procrustes,
)
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
# % of trials for training, validation, test; little is decided by validation here
SPLIT = "chronological:70/3/27"


def imagined(session: Session, timing: bool = False) -> Session:
    """The session as if only targets were known, in training trials: straight reaches.

    Args:
        session: the session; it is not changed.
        timing: whether the speed is the recorded one; else it is that of minimum jerk.

    Returns:
        The session with imagined velocities.
    """
    recording = session.recording
    velocity = np.zeros_like(recording.behavior)
    for start, stop in session.split.train:
        inside = (recording.behavior_times >= start) & (recording.behavior_times < stop)
        recorded = recording.behavior[inside]
        t = (recording.behavior_times[inside] - start) / (stop - start)  # 0..1
        speed = np.linalg.norm(recorded, axis=1) if timing else t**2 * (1 - t) ** 2
        # the same way in the same time
        velocity[inside] = recorded.mean(0) * (speed / speed.mean())[:, None]
    return prepare(replace(recording, behavior=velocity), SPLIT)


def drift_tuning(
    units: UnitTuning,
    rng: np.random.Generator,
    rotation_deg: float = 20.0,
    gain_spread: float = 0.15,
    replaced_share: float = 0.1,
    config: SimulationConfig | None = None,
) -> UnitTuning:
    """The tuning of the same electrodes on a later day.

        preferred direction + rotation_deg z,    baseline and depth x exp(gain_spread z)

    z is standard normal. How long units stay was measured by Chestek et al. 2007 and Dickey et al.
    2009; the defaults are a choice of this course.

    Args:
        units: the tuning now; it is not changed.
        rng: source of the random numbers.
        rotation_deg: spread of the rotation of preferred directions in °.
        gain_spread: spread of the logarithm of baseline and depth.
        replaced_share: share of the units, chosen at random, that others replace under their
            names.
        config: what the others are drawn from; None is the default.

    Returns:
        The tuning on the later day.
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
    """The units after some days, each on top of the days before.

    Args:
        units: the tuning on day 0; it is not changed.
        days: number of days.
        seed: of the random numbers.
        amounts: of `drift_tuning`.

    Returns:
        The tuning on the last day.
    """
    rng = np.random.default_rng(seed)
    for _ in range(days):
        units = drift_tuning(units, rng, config=NEW, **amounts)
    return units


# What is stored
SEEDS, N_TRIALS = range(3), (5, 10, 20, 40, 80, 140)
PAST_SEEDS, N_PAST = range(6), (1, 2, 4, 8)


def past_sessions(seed: int, n: int) -> list[Session]:
    """Sessions of the two subjects in turn, combined; with an even seed A begins.

    Args:
        seed: of the sessions.
        n: number of sessions.

    Returns:
        The sessions.
    """
    sessions = []
    for i in range(n):
        config = (A, B)[(i + seed) % 2]
        recording = simulate_session(1000 * seed + 1 + i, config).recording
        sessions.append(prepare(recording, SPLIT))
    return combine_sessions(sessions)


def after_five_days(seed: int, n_trials=N_TRIALS, scale: float = 1.0) -> dict[str, list[float]]:
    """R² of the GRU on counts on day 5, by way and number of trials.

    A table takes 100 steps, a decoder without a past 240; from 80 trials on twice as many. Three
    ways have 20 alone.

    Args:
        seed: of sessions and trainings.
        n_trials: numbers of trials.
        scale: of all numbers of steps.

    Returns:
        Way to R² for each number of trials; "day 0" and "untouched" have one value.
    """
    past = pretrained(CountGRU, past_sessions(seed, 3), round(400 * scale), seed)
    first = simulate_session(1000 * seed + 90, NEW)
    day_0 = prepare(first.recording, SPLIT)
    units = drifted(first.truth.units, 5, seed)
    day_5 = prepare(simulate_session(1000 * seed + 95, NEW, units).recording, SPLIT)
    known = identify(past, day_0, round(200 * scale), seed)
    found = {"day 0": [evaluate(known, day_0).r2], "untouched": [evaluate(known, day_5).r2]}
    for n in n_trials:
        today = day_5.first_trials(n)
        steps = round(100 * scale * (2 if n >= 80 else 1))
        made = {
            "old table": old_table(known, today, steps, seed),
            "fresh table": identify(past, today, steps, seed),
            "from scratch": from_scratch(CountGRU, today, round(2.4 * steps), seed),
            "alignment (CCA)": aligned(known, today, day_0),
            "alignment (Procrustes)": aligned(known, today, day_0, procrustes),
            "moments of counts": moments_of_counts(known, today, day_0),
            "moments of latents": moments_of_latents(known, today, day_0),
        }
        if n == 20:
            made["day-specific layer"] = day_layer(known, today, steps, seed)
            for name, timing in (("targets alone", False), ("targets and speed", True)):
                targets = imagined(day_5, timing).first_trials(n)
                made[name] = old_table(known, targets, steps, seed)
        for way, model in made.items():
            found.setdefault(way, []).append(evaluate(model, day_5).r2)
    return {way: np.round(r2, 4).tolist() for way, r2 in found.items()}


def by_past(seed: int, n_past=N_PAST) -> dict[str, list[float]]:
    """R² of the GRU on counts on a session with new units, by the sessions of its past.

    Each past has 600 steps, a fresh table 100.

    Args:
        seed: of sessions and trainings.
        n_past: numbers of sessions.

    Returns:
        "5 trials" and "20 trials" of the new session to R² for each number of sessions.
    """
    sessions = past_sessions(seed, max(n_past))
    new = prepare(simulate_session(1000 * seed + 90, NEW).recording, SPLIT)
    found: dict[str, list[float]] = {"5 trials": [], "20 trials": []}
    for n in n_past:
        past = pretrained(CountGRU, combine_sessions(sessions[:n]), 600, seed)
        for n_trials in (5, 20):
            decoder = identify(past, new.first_trials(n_trials), 100, seed)
            found[f"{n_trials} trials"].append(round(evaluate(decoder, new).r2, 4))
    return found
