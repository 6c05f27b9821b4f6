"""A simulated session in which spike times carry the signal and rates do not.

All units follow a common irregular rhythm. In a cycle that begins at c, a unit fires once with a fixed probability,
whatever the hand does, so counts are noise. The velocity v is in the time of a spike relative to the reference units:

    reference unit:  t = c + jitter
    tuned unit:      t = c + delay + gain v . e(direction) + jitter,  delay + gain v . e clipped to 0 .. 2 delay
"""

from dataclasses import dataclass

import numpy as np

from ..recording import Recording
from .neurons import TICKS_PER_SECOND
from .reaches import TaskConfig, hand_at, plan_reaches, sample_times


@dataclass(frozen=True)
class TimedConfig(TaskConfig):
    """The task, by default single slow reaches for under three minutes, and the units. Times in s."""

    n_trials: int = 150
    random_target_share: float = 1.0
    n_random_reaches: int = 1
    reach_base_s: float = 0.5
    n_units: int = 20
    reference_share: float = 0.25  # units that mark the beginning of a cycle; the others are tuned
    cycle_s: tuple[float, float] = (0.04, 0.06)  # shortest and longest cycle, uniform
    firing_share: float = 0.6  # of the cycles, in which a unit fires
    delay_s: float = 0.01  # of a tuned unit at rest; at most half of the shortest cycle
    gain_s: float = 0.008  # of delay per `reference_speed_mm_s` in the preferred direction
    reference_speed_mm_s: float = 200.0
    jitter_s: float = 0.0005  # standard deviation


def simulate_timed_session(seed: int = 0, config: TimedConfig | None = None) -> Recording:
    """Simulate such a session, deterministically: velocity in mm/s at 1 kHz, trials without gaps."""
    config = config or TimedConfig()
    rng = np.random.Generator(np.random.PCG64(seed))
    reaches = plan_reaches(rng, config)
    end = reaches.trials[-1, 1]
    cycles = np.cumsum(rng.uniform(*config.cycle_s, size=int(end / config.cycle_s[0])))
    cycles = cycles[cycles < end - config.cycle_s[1]]  # (M,)
    direction = rng.uniform(-np.pi, np.pi, config.n_units)
    tuned = np.arange(config.n_units) >= round(config.reference_share * config.n_units)
    along = hand_at(reaches, cycles)[1] @ np.stack([np.cos(direction), np.sin(direction)])  # (M, U), mm/s
    delay = config.delay_s + config.gain_s / config.reference_speed_mm_s * along
    delay = np.clip(delay, 0, 2 * config.delay_s) * tuned
    times = cycles[:, None] + delay + config.jitter_s * rng.standard_normal(delay.shape)
    times = np.round(times * TICKS_PER_SECOND) / TICKS_PER_SECOND
    fires = rng.random(delay.shape) < config.firing_share
    names = [f"{'tuned' if is_tuned else 'reference'}{unit:02d}" for unit, is_tuned in enumerate(tuned)]
    samples = sample_times(reaches)
    return Recording.from_trains(
        {name: times[fires[:, unit], unit] for unit, name in enumerate(names)},
        samples,
        hand_at(reaches, samples)[1],
        behavior_unit="mm/s",
        trials=reaches.trials,
        session_id=f"timed-{seed}",
        notes=("Simulated: no animal was recorded.",),
    )
