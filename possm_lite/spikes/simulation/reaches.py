"""The behaviour of a simulated session: position and velocity of the hand.

A trial is a chain of reaches, each after a hold. Positions are millimetres from the centre of the workspace, reaches
start and stop on whole milliseconds and follow a circular arc to the target with the minimum-jerk speed profile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SAMPLE_RATE_HZ = 1000  # behaviour samples per second; plans of reaches are whole samples


@dataclass(frozen=True)
class TaskConfig:
    """The reaching task. Times in s, lengths in mm, angles in degrees.

    Args:
        n_trials: trials of the session; they follow each other without a gap.
        random_target_share: share of trials that chain random targets; the rest are centre-out.
        n_directions: centre-out targets, evenly on a circle (8: Georgopoulos et al. 1982).
        radius_mm: of that circle (80 mm: Georgopoulos et al. 1982).
        workspace_mm: half the side of the square that random targets are drawn from.
        n_random_reaches: reaches in a random-target trial.
        min_reach_mm: a random target closer to the hand than this is drawn again.
        hold_s: shortest and longest rest before a reach, uniform.
        end_hold_s: rest after the last reach of a trial.
        reach_base_s, reach_slope_s_per_mm: the typical reach takes `reach_base_s + reach_slope_s_per_mm * distance`:
            0.25 s for 80 mm, which peaks at 610 mm/s. Brisk: a reach then lasts about five bins of 50 ms.
        reach_time_spread: standard deviation of the logarithm of a reach's time around the typical one.
        bend_deg: standard deviation of the angle between a reach's first heading and the straight line to its target.
            12 degrees bow the path by 5 % of its length.
    """

    n_trials: int = 360
    random_target_share: float = 0.5
    n_directions: int = 8
    radius_mm: float = 80.0
    workspace_mm: float = 100.0
    n_random_reaches: int = 3
    min_reach_mm: float = 40.0
    hold_s: tuple[float, float] = (0.2, 0.5)
    end_hold_s: float = 0.1
    reach_base_s: float = 0.15
    reach_slope_s_per_mm: float = 0.0012
    reach_time_spread: float = 0.15
    bend_deg: float = 12.0

    def __post_init__(self):
        for name in ("n_trials", "n_directions", "n_random_reaches"):
            check_range(name, getattr(self, name), 1)
        check_range("random_target_share", self.random_target_share, 0, 1)
        check_range("radius_mm", self.radius_mm, 1e-9)
        # wherever the hand is, the farthest corner is more than workspace_mm away, so a target is always found
        check_range("min_reach_mm", self.min_reach_mm, 1e-9, self.workspace_mm)
        check_range("hold_s[0]", self.hold_s[0], 0, self.hold_s[1])


def check_range(name: str, value: float, low: float, high: float = float("inf")):
    """Raise a ValueError that names the field unless low <= value <= high."""
    if not low <= value <= high:
        raise ValueError(f"{name} must lie between {low} and {high}, not {value}.")


@dataclass(frozen=True)
class Reaches:
    """The plan of R reaches in n trials.

    Args:
        start_s, stop_s: start and stop of each reach, shape (R,), s.
        origin_mm, target_mm: position at its start and stop, shape (R, 2), mm from the centre.
        bend_rad: initial heading minus the direction of the target, shape (R,), rad. Zero is a straight reach.
        trial: index of its trial, shape (R,).
        trials: start and stop of each trial, shape (n, 2), s.
        random_target: True where a trial chains random targets, False where it is centre-out, shape (n,).
    """

    start_s: np.ndarray
    stop_s: np.ndarray
    origin_mm: np.ndarray
    target_mm: np.ndarray
    bend_rad: np.ndarray
    trial: np.ndarray
    trials: np.ndarray
    random_target: np.ndarray


def minimum_jerk(progress: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimum-jerk position profile: share of the path covered at a share `progress` of the time, and its derivative.

        s(u) = 10 u^3 - 15 u^4 + 6 u^5,    s'(u) = 30 u^2 (1 - u)^2

    Returns:
        s and s', in the shape of `progress`. A reach of length l and duration d has speed l s'(u) / d, at most
        1.875 l / d.

    Source: Flash & Hogan 1985, J Neurosci 5:1688.
    """
    u = np.asarray(progress, dtype=np.float64)
    return u**3 * (10 - 15 * u + 6 * u**2), 30 * u**2 * (1 - u) ** 2


def plan_reaches(rng: np.random.Generator, config: TaskConfig) -> Reaches:
    """Draw targets, holds, times and bends of a session. The hand starts at a random position in the workspace."""
    random_target = rng.random(config.n_trials) < config.random_target_share
    hand = _random_target(rng, None, config)
    clock, rows, trials = 0, [], []  # clock in samples
    for trial, is_random in enumerate(random_target):
        trial_start = clock
        for target in _targets_of_trial(rng, hand, is_random, config):
            start = clock + round(rng.uniform(*config.hold_s) * SAMPLE_RATE_HZ)
            clock = start + _draw_reach_samples(rng, np.hypot(*(target - hand)), config)
            rows.append((start, clock, hand, target, np.radians(config.bend_deg) * rng.standard_normal(), trial))
            hand = target
        clock += round(config.end_hold_s * SAMPLE_RATE_HZ)
        trials.append((trial_start, clock))
    start, stop, origin, target, bend, trial_index = (np.array(column) for column in zip(*rows, strict=True))
    return Reaches(
        start_s=start / SAMPLE_RATE_HZ,
        stop_s=stop / SAMPLE_RATE_HZ,
        origin_mm=origin,
        target_mm=target,
        bend_rad=bend,
        trial=trial_index,
        trials=np.array(trials) / SAMPLE_RATE_HZ,
        random_target=random_target,
    )


def _targets_of_trial(rng, hand: np.ndarray, is_random: bool, config: TaskConfig) -> list[np.ndarray]:
    """Centre-out: back to the centre, then out to one of the circle's targets. Else a chain of random targets."""
    if not is_random:
        angle = 2 * np.pi * rng.integers(config.n_directions) / config.n_directions
        return [np.zeros(2), config.radius_mm * np.array([np.cos(angle), np.sin(angle)])]
    targets = []
    for _ in range(config.n_random_reaches):
        hand = _random_target(rng, hand, config)
        targets.append(hand)
    return targets


def _random_target(rng, hand: np.ndarray | None, config: TaskConfig) -> np.ndarray:
    """A position in the workspace, uniform, at least `min_reach_mm` from the hand."""
    while True:
        target = rng.uniform(-config.workspace_mm, config.workspace_mm, size=2)
        if hand is None or np.hypot(*(target - hand)) >= config.min_reach_mm:
            return target


def _draw_reach_samples(rng, distance_mm: float, config: TaskConfig) -> int:
    """Duration of one reach in samples."""
    typical = config.reach_base_s + config.reach_slope_s_per_mm * distance_mm
    return max(1, round(typical * np.exp(config.reach_time_spread * rng.standard_normal()) * SAMPLE_RATE_HZ))


def hand_at(reaches: Reaches, times_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position and velocity of the hand at any times, in closed form.

    A reach of chord D and bend a is an arc of length L = D a / sin a, on which the heading falls from phi + a to
    phi - a. With sinc x = sin x / x and e(angle) the unit vector:

        position = origin + L s sinc(a s) e(phi + a - a s),    velocity = L s' / duration e(phi + a - 2 a s)

    Args:
        times_s: shape (T,), s. The hand is at rest before the first reach and after the last.

    Returns:
        position, mm, and velocity, mm/s, each of shape (T, 2).
    """
    i = np.clip(
        np.searchsorted(reaches.start_s, times_s, side="right") - 1, 0, None
    )  # the last reach that has started, (T,)
    duration = (reaches.stop_s - reaches.start_s)[i]
    s, slope = minimum_jerk(np.clip((times_s - reaches.start_s[i]) / duration, 0, 1))
    chord = (reaches.target_mm - reaches.origin_mm)[i]  # (T, 2)
    phi, bend = np.arctan2(chord[:, 1], chord[:, 0]), reaches.bend_rad[i]
    length = np.hypot(chord[:, 0], chord[:, 1]) / _sinc(bend)  # (T,)
    position = reaches.origin_mm[i] + (length * s * _sinc(bend * s))[:, None] * _unit_vector(phi + bend - bend * s)
    velocity = (length * slope / duration)[:, None] * _unit_vector(phi + bend - 2 * bend * s)
    return position, velocity


def _sinc(x: np.ndarray) -> np.ndarray:
    """sin(x) / x."""
    return np.sinc(x / np.pi)


def _unit_vector(angle: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)
