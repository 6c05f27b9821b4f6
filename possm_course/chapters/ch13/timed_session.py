"""A simulated session in which spike times carry the signal and rates do not (chapter 13).

All units follow a common irregular rhythm. In a cycle that begins at c, a unit fires once with a
fixed probability, whatever the hand does, so counts are noise. The velocity v is in the time of a
spike relative to the reference units:

    reference unit:  t = c + jitter
    tuned unit:      t = c + delay + gain v . e(direction) + jitter

with delay + gain v . e clipped to 0 .. 2 delay. experiments/ch13_timed_session.py has trained the
two decoders of deeper 13 on it.
"""

import json

import numpy as np
import torch

from possm_course.chapters.ch13.time_codes import make_model
from possm_course.stored import result
from possm_lite.recordings import Recording
from possm_lite.simulate.neurons import TICKS_PER_SECOND
from possm_lite.simulate.reaches import TaskConfig, hand_at, plan_reaches, sample_times
from possm_lite.training import FitConfig, evaluate, fit

N_UNITS = 20
N_REFERENCE = 5  # units that mark the beginning of a cycle; the others are tuned
CYCLE_S = (0.04, 0.06)  # shortest and longest cycle, uniform
FIRING_SHARE = 0.6  # of the cycles, in which a unit fires
# of a tuned unit at rest; at most half of the shortest cycle, so that a spike lies in its own
DELAY_S = 0.01
GAIN_S2_PER_MM = 0.008 / 200  # delay per mm/s in the preferred direction
JITTER_S = 0.0005  # standard deviation


def simulate_timed_session(seed: int = 0, n_trials: int = 150) -> Recording:
    """Simulates single slow reaches, under three minutes of them, always the same for a seed.

    Args:
        seed: of all random numbers.
        n_trials: number of trials, without gaps between them.

    Returns:
        The recording: spikes of `N_UNITS` units, velocity in mm/s at 1 kHz.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    task = TaskConfig(n_trials, random_target_share=1.0, n_random_reaches=1, reach_base_s=0.5)
    reaches = plan_reaches(rng, task)
    end = reaches.trials[-1, 1]
    cycles = np.cumsum(rng.uniform(*CYCLE_S, size=int(end / CYCLE_S[0])))
    cycles = cycles[cycles < end - CYCLE_S[1]]  # (M,)
    direction = rng.uniform(-np.pi, np.pi, N_UNITS)
    tuned = np.arange(N_UNITS) >= N_REFERENCE
    _, velocity = hand_at(reaches, cycles)  # (M, 2)
    along = velocity @ np.stack([np.cos(direction), np.sin(direction)])  # (M, U), mm/s
    delay = np.clip(DELAY_S + GAIN_S2_PER_MM * along, 0, 2 * DELAY_S) * tuned
    times = cycles[:, None] + delay + JITTER_S * rng.standard_normal(delay.shape)
    times = np.round(times * TICKS_PER_SECOND) / TICKS_PER_SECOND
    fires = rng.random(delay.shape) < FIRING_SHARE
    trains = {}
    for unit, is_tuned in enumerate(tuned):
        kind = "tuned" if is_tuned else "reference"
        trains[f"{kind}{unit:02d}"] = times[fires[:, unit], unit]
    samples = sample_times(reaches)
    _, behavior = hand_at(reaches, samples)
    return Recording.from_trains(
        trains,
        samples,
        behavior,
        behavior_unit="mm/s",
        trials=reaches.trials,
        session_id=f"timed-{seed}",
        notes=("Simulated: no animal was recorded.",),
    )


def learned(code: str, timed) -> float:
    """R² on the test trials after a short training.

    Args:
        code: of time, see `time_codes.py`.
        timed: the session of a recording of `simulate_timed_session`, as from `prepare`.

    Returns:
        R².
    """
    torch.manual_seed(0)
    periods = {"shortest_period_s": 0.01, "longest_period_s": 0.2}
    network = make_model(code, reading="sum", n_units=N_UNITS, hidden=64, **periods)
    fit(
        network,
        timed,
        FitConfig(epochs=14, window_s=1.0, batch=12, samples=10, validations=0),
        progress=False,
    )
    return evaluate(network, timed).r2


def stored() -> dict[str, float]:
    """R² of each code of time, by experiments/ch13_timed_session.py."""
    return json.loads(result("ch13_timed_session.json").read_text(encoding="utf-8"))
