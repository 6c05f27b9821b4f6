"""ReFIT (chapter 14): a decoder is driven in the closed loop, then fitted to what the user meant.

experiments/ch14_refit.py has done it for five seeds.
"""

import copy
from collections.abc import Iterable

import numpy as np
import torch

from possm_course.chapters.ch14 import closed_loop
from possm_lite.decoder import POSSM
from possm_lite.recordings import Recording
from possm_lite.training import FitConfig, prepare

AGAIN = FitConfig(epochs=15, window_s=1.0, samples=20, lr=2e-3, validations=0)


class Driven:
    """A run of the loop with all that went through it: decoder and population, written down.

    Args:
        decoder: a streaming decoder.
        truth: tuning of the units.
        seed: of the spikes.
        n_reaches: number of targets.
        kappa: gain of the user in 1/s.

    Attributes:
        cursor: in mm, shape (T, 2), T time steps.
        target: in mm, shape (T, 2).
        decoded: velocity that moved the cursor, in mm/s, shape (T, 2).
        times_s: of the time steps, in s, shape (T,).
        trials: start and stop of each target in s, shape (n, 2).
    """

    def __init__(self, decoder, truth, seed: int, n_reaches: int = 48, kappa: float = 3.0):
        self._decoder = decoder
        self._population = closed_loop.Population(truth, seed)
        self.n_units = self._population.n_units
        self.n_steps = self._population.n_steps
        self.bin_width_s = self._population.bin_width_s
        user = closed_loop.SimulatedUser(gain_per_s=kappa)
        task = closed_loop.ReachingTask(closed_loop.circle_targets())
        loop = closed_loop.ClosedLoop(self, self, task, user).run(n_reaches=n_reaches)
        self.cursor = torch.from_numpy(loop.cursor_mm)
        self.target = torch.from_numpy(loop.targets_mm)
        steps_of_bin = len(self.cursor) // len(self.velocities)
        self.decoded = torch.from_numpy(np.repeat(self.velocities, steps_of_bin, 0))
        self.times_s = (np.arange(len(self.cursor)) + 0.5) * closed_loop.TIME_STEP_S
        starts = [reach.shown_s for reach in loop.reaches]
        self.trials = np.stack([starts, [*starts[1:], loop.seconds]], 1)

    def reset(self):
        """Decoder and population back to the start, nothing written down."""
        self._decoder.reset()
        self._population.reset()
        self.spikes, self.velocities = [], []

    def fire(self, seen: np.ndarray, intended: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The spikes of one bin, as `closed_loop.Population.fire`, written down.

        Args:
            seen: cursor as seen, in mm, shape (time steps, 2).
            intended: velocity in mm/s, shape (time steps, 2).

        Returns:
            Units from 1 and times in the bin in s, shape (n,) each.
        """
        units, offsets = self._population.fire(seen, intended)
        self.spikes.append((units - 1, len(self.spikes) * self.bin_width_s + offsets))
        return units, offsets

    def step(self, units: np.ndarray, offsets: np.ndarray):
        """The step of the decoder, written down.

        Args:
            units: from 1, shape (n,).
            offsets: in s, shape (n,).

        Returns:
            Times and velocity of the decoder's step.
        """
        times, velocity = self._decoder.step(units, offsets)
        self.velocities.append(velocity[-1].astype(float))
        return times, velocity

    def session(self, velocity: np.ndarray):
        """The spikes of the run with another velocity, ready for `fit`.

        Args:
            velocity: in mm/s, shape (T, 2).

        Returns:
            The session.
        """
        units = np.concatenate([units for units, _ in self.spikes])
        times = np.concatenate([times for _, times in self.spikes])
        order = np.argsort(times, kind="stable")
        recording = Recording(
            times[order],
            units[order],
            np.arange(self.n_units),
            behavior_unit="mm/s",
            behavior_times=self.times_s,
            behavior=velocity,
            trials=self.trials,
        )
        return prepare(recording)


def rotated(model: POSSM, degrees: float) -> POSSM:
    """A copy of a decoder whose velocity is rotated, in standard deviations.

    Args:
        model: the decoder; it is not changed.
        degrees: angle in °.

    Returns:
        The copy.
    """
    copied = copy.deepcopy(model)
    angle = np.radians(degrees)
    R = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    R = torch.tensor(R, dtype=torch.float32)
    for weight in copied.readout.parameters():
        weight.data = R @ weight.data
    return copied


def seconds_per_target(
    stream, truth, kappa: float, latency_s: float = 0.0, seeds: Iterable[int] = range(3)
) -> np.ndarray:
    """Mean time to a target in runs of eight targets.

    Args:
        stream: a streaming decoder.
        truth: tuning of the units.
        kappa: gain of the user in 1/s.
        latency_s: added latency in s.
        seeds: of the spikes, one for each run.

    Returns:
        Means in s, shape (runs,).
    """
    user = closed_loop.SimulatedUser(gain_per_s=kappa)
    task = closed_loop.ReachingTask(closed_loop.circle_targets())
    means = []
    for seed in seeds:
        population = closed_loop.Population(truth, seed)
        loop = closed_loop.ClosedLoop(stream, population, task, user, latency_s).run(n_reaches=8)
        means.append(np.mean([reach.seconds for reach in loop.reaches]))
    return np.array(means)
