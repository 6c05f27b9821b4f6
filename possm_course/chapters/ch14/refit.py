"""ReFIT (chapter 14): a decoder is driven in the closed loop, and fitted once more on what the user must have meant.

experiments/ch14_refit.py has done it for five seeds.
"""

import copy

import numpy as np
import torch

from possm_course.chapters.ch14 import closed_loop
from possm_lite.recordings import Recording
from possm_lite.training import FitConfig, prepare

AGAIN = FitConfig(epochs=15, window_s=1.0, samples=20, lr=2e-3, validations=0)


class Driven:
    """A run of the loop, with all that went through it: a decoder and a population that write down what they do."""

    def __init__(self, decoder, truth, seed, n_reaches=48, kappa=3.0):
        self._decoder, self._population = decoder, closed_loop.Population(truth, seed)
        for name in ("n_units", "n_steps", "bin_width_s"):
            setattr(self, name, getattr(self._population, name))
        user, task = closed_loop.SimulatedUser(gain_per_s=kappa), closed_loop.ReachingTask(closed_loop.circle_targets())
        loop = closed_loop.ClosedLoop(self, self, task, user).run(n_reaches=n_reaches)
        self.cursor, self.target = (torch.from_numpy(x) for x in (loop.cursor_mm, loop.targets_mm))  # (T, 2)
        self.decoded = torch.from_numpy(np.repeat(self.velocities, len(self.cursor) // len(self.velocities), 0))
        self.times_s = (np.arange(len(self.cursor)) + 0.5) * closed_loop.TIME_STEP_S
        starts = [reach.shown_s for reach in loop.reaches]
        self.trials = np.stack([starts, [*starts[1:], loop.seconds]], 1)

    def reset(self):
        self._decoder.reset()
        self._population.reset()
        self.spikes, self.velocities = [], []

    def fire(self, seen, intended):
        units, offsets = self._population.fire(seen, intended)
        self.spikes.append((units - 1, len(self.spikes) * self.bin_width_s + offsets))
        return units, offsets

    def step(self, units, offsets):
        times, velocity = self._decoder.step(units, offsets)
        self.velocities.append(velocity[-1].astype(float))
        return times, velocity

    def session(self, velocity):
        """These spikes as a recording, with this velocity (T, 2), ready for `fit`."""
        units, times = (np.concatenate([spikes[i] for spikes in self.spikes]) for i in (0, 1))
        order = np.argsort(times, kind="stable")
        recorded = {"behavior_times": self.times_s, "behavior": velocity, "trials": self.trials}
        return prepare(Recording(times[order], units[order], np.arange(self.n_units), behavior_unit="mm/s", **recorded))


def rotated(model, degrees):
    """A copy of the decoder whose velocity is rotated, in standard deviations."""
    angle, copied = np.radians(degrees), copy.deepcopy(model)
    R = torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]], dtype=torch.float32)
    for weight in copied.readout.parameters():
        weight.data = R @ weight.data
    return copied


def seconds_per_target(stream, truth, kappa, latency_s=0.0, seeds=range(3)):
    """Mean time to a target in a run of eight, for each seed of the spikes."""
    means = []
    user, task = closed_loop.SimulatedUser(gain_per_s=kappa), closed_loop.ReachingTask(closed_loop.circle_targets())
    for seed in seeds:
        loop = closed_loop.ClosedLoop(stream, closed_loop.Population(truth, seed), task, user, latency_s).run(
            n_reaches=8
        )
        means.append(np.mean([reach.seconds for reach in loop.reaches]))
    return np.array(means)
