"""The behaviour of a simulated session: position and velocity of the hand.

A trial is a chain of reaches, each after a hold. Positions are millimetres from the centre of the
workspace, reaches start and stop on whole milliseconds and follow a circular arc to the target with
the minimum-jerk speed profile.
"""

from dataclasses import dataclass

import numpy as np

_DIRECTIONS = ("right", "up right", "up", "up left", "left", "down left", "down", "down right")
SAMPLE_RATE_HZ = 1000  # behaviour samples per second; plans of reaches are whole samples


@dataclass(frozen=True)
class TaskConfig:
    """The reaching task. Times in s, lengths in mm, angles in degrees.

    Attributes:
        n_trials: n, trials; they follow each other without a gap.
        random_target_share: of trials that chain random targets; the rest are centre-out.
        n_directions: centre-out targets, evenly on a circle (Georgopoulos et al. 1982).
        radius_mm: of the circle.
        workspace_mm: half the side of the square that random targets are drawn from.
        n_random_reaches: reaches in a random-target trial.
        min_reach_mm: a random target closer to the hand is drawn again; at most `workspace_mm`.
        hold_s: shortest and longest rest before a reach, uniform.
        end_hold_s: rest after the last reach of a trial.
        reach_base_s: the typical reach takes this and the slope times the distance: 0.25 s for
            80 mm.
        reach_slope_s_per_mm: the slope.
        reach_time_spread: standard deviation of the logarithm of a reach's time around the typical
            one.
        bend_deg: standard deviation of the angle between a reach's first heading and the straight
            line.
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


@dataclass(frozen=True)
class Reaches:
    """The plan of R reaches in n trials.

    Attributes:
        start_s: of each reach, seconds, shape (R,).
        stop_s: of each reach, seconds, shape (R,).
        origin_mm: position at its start, mm from the centre, shape (R, 2).
        target_mm: position at its stop, mm from the centre, shape (R, 2).
        bend_rad: initial heading minus the direction of the target, radians, shape (R,); 0 is a
            straight reach.
        trial: index of its trial, shape (R,).
        trials: start and stop of each trial, seconds, shape (n, 2).
        random_target: True where a trial chains random targets, False where it is centre-out, shape
            (n,).
    """

    start_s: np.ndarray
    stop_s: np.ndarray
    origin_mm: np.ndarray
    target_mm: np.ndarray
    bend_rad: np.ndarray
    trial: np.ndarray
    trials: np.ndarray
    random_target: np.ndarray


def plan_reaches(rng: np.random.Generator, config: TaskConfig) -> Reaches:
    """Draw targets, holds, times and bends of a session.

    The hand starts at a random position in the workspace.

    Args:
        rng: the generator.
        config: the task.
    """
    random_target = rng.random(config.n_trials) < config.random_target_share
    hand = rng.uniform(-config.workspace_mm, config.workspace_mm, size=2)
    clock = 0  # in samples
    rows, trials = [], []
    for trial, is_random in enumerate(random_target):
        trial_start = clock
        for target in _targets_of_trial(rng, hand, is_random, config):
            start = clock + round(rng.uniform(*config.hold_s) * SAMPLE_RATE_HZ)
            reach_s = _draw_reach_time(rng, hand, target, config)
            clock = start + max(1, round(reach_s * SAMPLE_RATE_HZ))
            row = {
                "start_s": start / SAMPLE_RATE_HZ,
                "stop_s": clock / SAMPLE_RATE_HZ,
                "origin_mm": hand,
                "target_mm": target,
                "bend_rad": np.radians(config.bend_deg) * rng.standard_normal(),
                "trial": trial,
            }
            rows.append(row)
            hand = target
        clock += round(config.end_hold_s * SAMPLE_RATE_HZ)
        trials.append((trial_start / SAMPLE_RATE_HZ, clock / SAMPLE_RATE_HZ))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Reaches(**columns, trials=np.array(trials), random_target=random_target)


def target_names(reaches: Reaches) -> np.ndarray:
    """Where the target of each centre-out trial lies, such as "up right"; "" of random targets.

    Args:
        reaches: the plan of a session.

    Returns:
        Names of eight directions, or of others the angle in degrees, shape (n,), text.
    """
    last = np.append(np.diff(reaches.trial) > 0, True)  # reach of its trial
    angle = np.degrees(np.arctan2(*reaches.target_mm[last].T[::-1])) % 360
    eighth = np.round(angle / 45)
    named = np.array(_DIRECTIONS)[eighth.astype(int) % len(_DIRECTIONS)]
    names = np.where(np.abs(angle - 45 * eighth) < 1e-6, named, np.round(angle, 1).astype(str))
    return np.array(np.where(reaches.random_target, "", names).tolist())


def _draw_reach_time(
    rng: np.random.Generator, hand: np.ndarray, target: np.ndarray, config: TaskConfig
) -> float:
    """Seconds of a reach from the hand to the target, (2,) mm each: log-normal around a line."""
    distance = np.hypot(*(target - hand))
    typical_s = config.reach_base_s + config.reach_slope_s_per_mm * distance
    return typical_s * np.exp(config.reach_time_spread * rng.standard_normal())


def sample_times(reaches: Reaches) -> np.ndarray:
    """Times of the behaviour samples of a session with these `reaches`, seconds, shape (T,)."""
    return np.arange(round(reaches.trials[-1, 1] * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ


def _targets_of_trial(
    rng, hand: np.ndarray, is_random: bool, config: TaskConfig
) -> list[np.ndarray]:
    """The targets of a trial, (2,) mm each: a chain of random ones, or the centre and one outside.

    Centre-out, the hand goes back to the centre, then out to one of the circle's targets.
    """
    if not is_random:
        angle = 2 * np.pi * rng.integers(config.n_directions) / config.n_directions
        return [np.zeros(2), config.radius_mm * _unit_vector(angle)]
    targets = []
    while len(targets) < config.n_random_reaches:
        target = rng.uniform(-config.workspace_mm, config.workspace_mm, size=2)
        if np.hypot(*(target - hand)) >= config.min_reach_mm:
            targets.append(target)
            hand = target
    return targets


def hand_at(reaches: Reaches, times_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position and velocity of the hand at any times, in closed form.

    A reach of chord D and bend a is an arc of length L = D a / sin a, on which the heading falls
    from phi + a to phi - a. With sinc x = sin x / x (NumPy's is of pi x) and e(angle) the unit
    vector:

        position = origin + L s sinc(a s) e(phi + a - a s)
        velocity = L s' / duration e(phi + a - 2 a s)

    At a share u of its time it has covered a share s of its length, with minimum jerk (Flash &
    Hogan 1985):

        s(u) = 10 u^3 - 15 u^4 + 6 u^5,    s'(u) = 30 u^2 (1 - u)^2

    Args:
        reaches: the plan of the session.
        times_s: seconds, shape (T,). The hand is at rest before the first reach and after the last.

    Returns:
        Position, mm from the centre, and velocity, mm/s, shape (T, 2) each.
    """
    duration = reaches.stop_s - reaches.start_s  # (R,)
    chord = reaches.target_mm - reaches.origin_mm  # (R, 2)
    length = np.hypot(chord[:, 0], chord[:, 1]) / np.sinc(reaches.bend_rad / np.pi)
    heading = np.arctan2(chord[:, 1], chord[:, 0]) + reaches.bend_rad  # at the start
    n_started = np.searchsorted(reaches.start_s, times_s, side="right")
    i = np.maximum(n_started - 1, 0)  # the last reach that started, (T,)
    u = np.clip((times_s - reaches.start_s[i]) / duration[i], 0, 1)
    s = u**3 * (10 - 15 * u + 6 * u**2)
    slope = 30 * u**2 * (1 - u) ** 2
    turned = reaches.bend_rad[i] * s
    covered = length[i] * s * np.sinc(turned / np.pi)
    position = reaches.origin_mm[i] + covered[:, None] * _unit_vector(heading[i] - turned)
    velocity = (length[i] * slope / duration[i])[:, None] * _unit_vector(heading[i] - 2 * turned)
    return position, velocity


def _unit_vector(angle: np.ndarray) -> np.ndarray:
    """(..., 2) for angles in radians, (...)."""
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)
