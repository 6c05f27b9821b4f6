"""ReFIT (chapter 14): a decoder is driven in the closed loop, and fitted once more on what the user must have meant.

`python notebooks/figures/14_refit.py` does it for five seeds, in some minutes, and writes 14_refit.json beside it.
"""

import copy
import json
from pathlib import Path

import numpy as np
import torch

from possm_lite.course.load import load_exercises, load_figures
from possm_lite.course.parallel import in_parallel
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.recordings import Recording, load_recording
from possm_lite.simulate import load_ground_truth
from possm_lite.training import FitConfig, fit, prepare

NOTEBOOKS = Path(__file__).resolve().parents[1]
KAPPAS = (2.0, 3.0)  # 1/s: each decoder gets the user who suits it
AGAIN = FitConfig(epochs=15, window_s=1.0, samples=20, lr=2e-3, validations=0)


class Driven:
    """A run of the loop, with all that went through it: a decoder and a population that write down what they do."""

    def __init__(self, decoder, truth, seed, n_reaches=48, kappa=3.0):
        sim = load_figures("14_closed_loop", NOTEBOOKS)
        self._decoder, self._population = decoder, sim.Population(truth, seed)
        for name in ("n_units", "n_steps", "bin_width_s"):
            setattr(self, name, getattr(self._population, name))
        user, task = sim.SimulatedUser(gain_per_s=kappa), sim.ReachingTask(sim.circle_targets())
        loop = sim.ClosedLoop(self, self, task, user).run(n_reaches=n_reaches)
        self.cursor, self.target = (torch.from_numpy(x) for x in (loop.cursor_mm, loop.targets_mm))  # (T, 2)
        self.decoded = torch.from_numpy(np.repeat(self.velocities, len(self.cursor) // len(self.velocities), 0))
        self.times_s = (np.arange(len(self.cursor)) + 0.5) * sim.TIME_STEP_S
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
    sim, means = load_figures("14_closed_loop", NOTEBOOKS), []
    user, task = sim.SimulatedUser(gain_per_s=kappa), sim.ReachingTask(sim.circle_targets())
    for seed in seeds:
        loop = sim.ClosedLoop(stream, sim.Population(truth, seed), task, user, latency_s).run(n_reaches=8)
        means.append(np.mean([reach.seconds for reach in loop.reaches]))
    return np.array(means)


def one_seed(seed):
    """Time to a target at the best kappa: of a decoder, and fitted once more; then the same, rotated by 45°."""
    path = NOTEBOOKS.parent / "data" / "simulated_session.npz"
    recording, truth = load_recording(path), load_ground_truth(path)
    meant = load_exercises("14_real_time", NOTEBOOKS).meant.reference
    torch.manual_seed(seed)
    trained = POSSM(POSSMConfig(n_units=recording.n_units))
    config = FitConfig(epochs=6, window_s=1.0, samples=20, lr=3e-3, validations=0, seed=seed)
    fit(trained, prepare(recording), config, progress=False)
    found = {}
    for kind, first in (("straight", trained), ("rotated", rotated(trained, 45))):
        driven = Driven(StreamingDecoder(first, 1, 0.04), truth, 100 + seed)
        labels = {"as decoded": driven.decoded, "relabelled": meant(driven.decoded, driven.cursor, driven.target, 20.0)}
        decoders = {"as trained": first}
        for name, velocity in labels.items():
            torch.manual_seed(seed)
            decoders[name] = copy.deepcopy(first)
            fit(decoders[name], driven.session(velocity), AGAIN, progress=False)
        for name, model in decoders.items():
            stream = StreamingDecoder(model, 1, 0.04)
            runs = [seconds_per_target(stream, truth, kappa).mean() for kappa in KAPPAS]
            found[f"{kind}, {name}"] = float(min(runs))
        print(seed, found, flush=True)
    return found


def main():
    runs = in_parallel(one_seed, [(seed,) for seed in range(5)])
    found = {name: [round(run[name], 3) for run in runs] for name in runs[0]}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
