"""Closed loop: a simulated user, the spikes of simulated units, a decoder, a cursor, and visual feedback to the user.

A bin of the decoder has time steps of 10 ms; in it the cursor moves with the velocity decoded at the end of the bin
before. Positions are mm, velocities mm/s, (..., 2); `ClosedLoop.step` uses complex numbers, faster than small arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from possm_lite.decoder import StreamingDecoder
from possm_lite.simulate.neurons import TICKS_PER_SECOND, block_refractory, draw_common, firing_rate
from possm_lite.simulate.session import GroundTruth

TIME_STEP_S = 0.01


class Population:
    """The simulated units of a session, driven by the user's intention, bin by bin; a share `silent` does not fire.

    A movement is planned as far ahead as the earliest unit fires. A unit with lag L fires for the intention that is
    max(lag) - L old: early units first, as in the recording.
    """

    def __init__(self, truth: GroundTruth, seed: int = 0, bin_width_s: float = 0.05, silent: float = 0.0):
        self.truth, self.seed, self.bin_width_s = truth, seed, bin_width_s
        self.n_units, self.n_steps = len(truth.units.tuned), round(bin_width_s / TIME_STEP_S)
        age = np.rint((truth.units.lag_s.max() - truth.units.lag_s) / TIME_STEP_S).astype(int)  # of intentions, (U,)
        self._index = age.max() + np.arange(self.n_steps)[:, None] - age  # (time steps, U)
        self._bin_ticks = round(bin_width_s * TICKS_PER_SECOND)
        self.silence(silent)
        self.reset()

    def silence(self, share: float):
        """From now on this share of the units does not fire; their order depends on the seed alone."""
        order = np.random.default_rng(self.seed).permutation(self.n_units)
        self._silent = np.isin(np.arange(self.n_units), order[: round(share * self.n_units)])

    def reset(self):
        """Back to rest before the first bin; the same intentions give the same spikes again."""
        self._rng = np.random.default_rng([self.seed, 1])
        self._common = draw_common(self._rng, 60.0, self.truth.config)  # repeats after a minute
        self._intentions = np.zeros((self._index.max() + 1, 4))  # position and velocity, the last ones
        self._last = np.full(self.n_units, -self._bin_ticks)  # last spike of each unit, ticks since the bin started
        self._n_bins = 0

    def fire(self, position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The spikes of one bin, where the user sees the cursor at `position` and intends `velocity`, (time steps, 2).

        Returns the arguments of a decoder's step: units, from 1, and times since the bin started in seconds, (n,) each.
        """
        edge = self.truth.config.workspace_mm  # the tuning is not defined outside of it
        intentions = np.concatenate([np.clip(position, -edge, edge), velocity], 1)
        self._intentions = np.concatenate([self._intentions[self.n_steps :], intentions])
        time_s = (self._n_bins + (np.arange(self.n_steps) + 0.5) / self.n_steps) * self.bin_width_s
        index = time_s * self.truth.config.common_rate_hz % (len(self._common) - 1)
        low = index.astype(int)
        common = self._common[low] + (index - low)[:, None] * (self._common[low + 1] - self._common[low])
        now = self._intentions[self._index]  # (time steps, U, 4)
        rates = firing_rate(self.truth.units, slice(None), now[..., :2], now[..., 2:], common[:, None])

        # a Poisson process, blocked after each of its spikes
        counts = self._rng.poisson(np.where(self._silent, 0.0, rates) * TIME_STEP_S)
        time_step, unit = np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), self.n_units)
        ticks = ((time_step + self._rng.random(len(unit))) * (TIME_STEP_S * TICKS_PER_SECOND)).astype(int)
        ticks = np.minimum(ticks, self._bin_ticks - 1)
        # all units in one long row, each started by its last spike, so that one call blocks them all
        start = (3 * np.arange(self.n_units) + 1) * self._bin_ticks
        refractory = int(np.ceil(self.truth.config.refractory_s * TICKS_PER_SECOND))
        row = block_refractory(np.sort(np.concatenate([self._last + start, ticks + start[unit]])), refractory)
        unit, ticks = np.divmod(row, 3 * self._bin_ticks)
        ticks -= self._bin_ticks
        self._last[unit] = ticks  # sorted, so the latest of each unit is stored
        self._last = np.maximum(self._last - self._bin_ticks, -self._bin_ticks)
        self._n_bins += 1
        fired = ticks >= 0
        return unit[fired] + 1, ticks[fired] / TICKS_PER_SECOND


@dataclass(frozen=True)
class SimulatedUser:
    """Proportional feedback control with a visual delay.

    intended(t) = gain (target - seen), at most max_speed,     seen = screen(t - visual_delay)
    """

    visual_delay_s: float = 0.1
    gain_per_s: float = 5.0
    max_speed_mm_s: float = 400.0


@dataclass(frozen=True)
class ReachingTask:
    """Targets, one after the other; one is reached when the cursor has stayed within it for `hold_s`."""

    targets_mm: Sequence[tuple[float, float]]  # centres, repeated in this order; the cursor starts at the origin
    radius_mm: float = 20.0
    hold_s: float = 0.2
    timeout_s: float = 3.0  # after this time the next target is shown


def circle_targets(n_targets: int = 8, step: int = 3, radius_mm: float = 80.0) -> list[tuple[float, float]]:
    """`n_targets` targets on a circle, each `step` positions after the last: long reaches in many directions."""
    angle = 2 * np.pi * step / n_targets * np.arange(n_targets)
    return list(zip((radius_mm * np.cos(angle)).tolist(), (radius_mm * np.sin(angle)).tolist(), strict=True))


@dataclass(frozen=True)
class Reach:
    """One target: when it was shown, and the time until the successful hold started (or the timeout)."""

    shown_s: float
    seconds: float
    reached: bool
    target_mm: tuple[float, float]


@dataclass(eq=False)
class ClosedLoop:
    """User, units, decoder and cursor, one bin at a time."""

    decoder: StreamingDecoder  # its last velocity of a bin moves the cursor
    population: Population
    task: ReachingTask
    user: SimulatedUser = SimulatedUser()
    latency_s: float = 0.0  # added between decoder and screen; may be changed while the loop runs
    gain: float = 1.0  # cursor velocity over decoded velocity; may be changed too

    def __post_init__(self):
        self.reset()

    def reset(self):
        self.decoder.reset()
        self.population.reset()
        self.reaches: list[Reach] = []
        self.cursor_mm = np.zeros((0, 2))  # on the screen, (time steps, 2)
        self.targets_mm = np.zeros((0, 2))
        self.intended_mm_s = np.zeros((0, 2))  # velocity
        self._cursor, self._velocity = [0j], 0j  # before the latency; decoded in the last bin
        self._n_steps = self._target_shown = self._outside = 0  # time steps: all, until the target, last outside of it

    @property
    def seconds(self) -> float:
        return self._n_steps * TIME_STEP_S

    @property
    def target_mm(self) -> tuple[float, float]:
        return self.task.targets_mm[len(self.reaches) % len(self.task.targets_mm)]

    def run(self, seconds: float = np.inf, n_reaches: int = 10**9) -> ClosedLoop:
        """Continue until this time or this number of targets; at least one of them must be finite."""
        while self.seconds < seconds - 1e-9 and len(self.reaches) < n_reaches:
            self.step()
        return self

    def step(self) -> np.ndarray:
        """One bin: the user sees the cursor and intends, the units fire, the decoder decodes a velocity, (2,)."""
        rows = []
        for _ in range(self.population.n_steps):
            self._cursor.append(self._cursor[-1] + TIME_STEP_S * self.gain * self._velocity)
            shown, seen = self._on_screen(0.0), self._on_screen(self.user.visual_delay_s)
            target = complex(*self.target_mm)
            self._update_task(abs(shown - target))
            error = complex(*self.target_mm) - seen
            speed_limit = self.user.max_speed_mm_s / max(abs(error), 1e-9)
            rows.append([shown, target, seen, error * min(self.user.gain_per_s, speed_limit)])
        shown, target, seen, intended = np.array(rows).view(float).reshape(-1, 4, 2).swapaxes(0, 1)
        self.cursor_mm = np.concatenate([self.cursor_mm, shown])
        self.targets_mm = np.concatenate([self.targets_mm, target])
        self.intended_mm_s = np.concatenate([self.intended_mm_s, intended])
        velocity = self.decoder.step(*self.population.fire(seen, intended))[1][-1]
        self._velocity = complex(*velocity)
        return velocity

    def _on_screen(self, delay_s: float) -> complex:
        """The cursor on the screen `delay_s` ago; at rest before the start."""
        return self._cursor[max(0, len(self._cursor) - 1 - round((delay_s + self.latency_s) / TIME_STEP_S))]

    def _update_task(self, distance: float):
        """After a time step; after a reached target or a timeout, show the next target."""
        self._n_steps += 1
        if distance > self.task.radius_mm:
            self._outside = self._n_steps
        held_s, shown_s = ((self._n_steps - start) * TIME_STEP_S for start in (self._outside, self._target_shown))
        reached = held_s >= self.task.hold_s - 1e-9
        if reached or shown_s >= self.task.timeout_s - 1e-9:
            seconds = shown_s - held_s if reached else shown_s
            self.reaches.append(Reach(self._target_shown * TIME_STEP_S, seconds, reached, self.target_mm))
            self._target_shown = self._outside = self._n_steps
