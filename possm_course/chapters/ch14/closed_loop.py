"""Closed loop: a simulated user, simulated units, a decoder, a cursor, and visual feedback.

A bin of the decoder has time steps of 10 ms; in it the cursor moves with the velocity decoded at
the end of the bin before. Positions are mm, velocities mm/s, (..., 2); `ClosedLoop.step` uses
complex numbers, faster than small arrays.
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
    """The simulated units of a session, driven by the user's intention, bin by bin.

    A movement is planned as far ahead as the earliest unit fires. A unit with lag L fires for the
    intention that is max(lag) - L old: early units first, as in the recording.

    Args:
        truth: tuning of U units, and how they were simulated.
        seed: of all random numbers.
        bin_width_s: width of a bin in s.
        silent: share of the units that does not fire.

    Attributes:
        n_units: U.
        n_steps: time steps in a bin.
    """

    def __init__(
        self, truth: GroundTruth, seed: int = 0, bin_width_s: float = 0.05, silent: float = 0.0
    ):
        self.truth = truth
        self.seed = seed
        self.bin_width_s = bin_width_s
        self.n_units = len(truth.units.tuned)
        self.n_steps = round(bin_width_s / TIME_STEP_S)
        lag_s = truth.units.lag_s
        age = np.rint((lag_s.max() - lag_s) / TIME_STEP_S).astype(int)  # of intentions, (U,)
        self._index = age.max() + np.arange(self.n_steps)[:, None] - age  # (time steps, U)
        self._bin_ticks = round(bin_width_s * TICKS_PER_SECOND)
        self.silence(silent)
        self.reset()

    def silence(self, share: float):
        """From now on this `share` of the units does not fire; their order depends on the seed."""
        order = np.random.default_rng(self.seed).permutation(self.n_units)
        n_silent = round(share * self.n_units)
        self._silent = np.isin(np.arange(self.n_units), order[:n_silent])

    def reset(self):
        """Back to rest before the first bin; the same intentions give the same spikes again."""
        self._rng = np.random.default_rng([self.seed, 1])
        self._common = draw_common(self._rng, 60.0, self.truth.config)  # repeats after a minute
        self._intentions = np.zeros((self._index.max() + 1, 4))  # position and velocity, last ones
        # last spike of each unit, ticks since the bin started
        self._last = np.full(self.n_units, -self._bin_ticks)
        self._n_bins = 0

    def fire(self, position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The spikes of one bin.

        Args:
            position: where the user sees the cursor, in mm, shape (time steps, 2).
            velocity: what the user intends, in mm/s, shape (time steps, 2).

        Returns:
            The arguments of a decoder's step: units, from 1, shape (n,), and times since the bin
            started in s, shape (n,).
        """
        rates = self._rates(position, velocity)
        # a Poisson process, blocked after each of its spikes
        counts = self._rng.poisson(np.where(self._silent, 0.0, rates) * TIME_STEP_S)
        time_step, unit = np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), self.n_units)
        ticks_per_step = TIME_STEP_S * TICKS_PER_SECOND
        ticks = ((time_step + self._rng.random(len(unit))) * ticks_per_step).astype(int)
        ticks = np.minimum(ticks, self._bin_ticks - 1)
        unit, ticks = self._block(unit, ticks)
        self._n_bins += 1
        fired = ticks >= 0
        return unit[fired] + 1, ticks[fired] / TICKS_PER_SECOND

    def _rates(self, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """Rates (time steps, U) in Hz, each unit's by the intention as old as its lag asks."""
        edge = self.truth.config.workspace_mm  # the tuning is not defined outside of it
        intentions = np.concatenate([np.clip(position, -edge, edge), velocity], 1)
        self._intentions = np.concatenate([self._intentions[self.n_steps :], intentions])
        now = self._intentions[self._index]  # (time steps, U, 4)

        in_bin = (np.arange(self.n_steps) + 0.5) / self.n_steps
        time_s = (self._n_bins + in_bin) * self.bin_width_s
        index = time_s * self.truth.config.common_rate_hz % (len(self._common) - 1)
        low = index.astype(int)
        slope = self._common[low + 1] - self._common[low]
        common = self._common[low] + (index - low)[:, None] * slope
        return firing_rate(
            self.truth.units, slice(None), now[..., :2], now[..., 2:], common[:, None]
        )

    def _block(self, unit: np.ndarray, ticks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The spikes that no earlier one blocks, after the last one of each unit, with ticks < 0.

        All units are in one long row, each started by its last spike: one call blocks them all.
        """
        start = (3 * np.arange(self.n_units) + 1) * self._bin_ticks
        row = np.sort(np.concatenate([self._last + start, ticks + start[unit]]))
        refractory = int(np.ceil(self.truth.config.refractory_s * TICKS_PER_SECOND))
        unit, ticks = np.divmod(block_refractory(row, refractory), 3 * self._bin_ticks)
        ticks -= self._bin_ticks
        self._last[unit] = ticks  # sorted, so the latest of each unit is stored
        self._last = np.maximum(self._last - self._bin_ticks, -self._bin_ticks)
        return unit, ticks


@dataclass(frozen=True)
class SimulatedUser:
    """Proportional feedback control with a visual delay.

        intended(t) = gain (target - seen), at most max_speed,     seen = screen(t - visual_delay)

    Attributes:
        visual_delay_s: in s.
        gain_per_s: in 1/s.
        max_speed_mm_s: in mm/s.
    """

    visual_delay_s: float = 0.1
    gain_per_s: float = 5.0
    max_speed_mm_s: float = 400.0


@dataclass(frozen=True)
class ReachingTask:
    """Targets, one after the other; one is reached when the cursor has stayed within it.

    Attributes:
        targets_mm: centres in mm, repeated in this order; the cursor starts at the origin.
        radius_mm: of a target, in mm.
        hold_s: how long the cursor must stay, in s.
        timeout_s: time after which the next target is shown, in s.
    """

    targets_mm: Sequence[tuple[float, float]]
    radius_mm: float = 20.0
    hold_s: float = 0.2
    timeout_s: float = 3.0


def circle_targets(
    n_targets: int = 8, step: int = 3, radius_mm: float = 80.0
) -> list[tuple[float, float]]:
    """Targets on a circle, in an order that makes long reaches in many directions.

    Args:
        n_targets: number of targets.
        step: positions on the circle from each target to the next.
        radius_mm: of the circle, in mm.

    Returns:
        Centres in mm.
    """
    angle = 2 * np.pi * step / n_targets * np.arange(n_targets)
    x = radius_mm * np.cos(angle)
    y = radius_mm * np.sin(angle)
    return list(zip(x.tolist(), y.tolist(), strict=True))


@dataclass(frozen=True)
class Reach:
    """One target of a run.

    Attributes:
        shown_s: when it was shown, in s.
        seconds: until the successful hold started, or the timeout, in s.
        reached: whether the cursor has stayed within it.
        target_mm: its centre in mm.
    """

    shown_s: float
    seconds: float
    reached: bool
    target_mm: tuple[float, float]


@dataclass(eq=False)
class ClosedLoop:
    """User, units, decoder and cursor, one bin at a time.

    Attributes:
        decoder: its last velocity of a bin moves the cursor.
        population: the units.
        task: the targets.
        user: the user.
        latency_s: added between decoder and screen, in s; may be changed while the loop runs.
        gain: cursor velocity over decoded velocity; may be changed while the loop runs.
        reaches: the targets done.
        cursor_mm: the cursor on the screen, shape (time steps, 2).
        targets_mm: the target then, shape (time steps, 2).
        intended_mm_s: the velocity intended, shape (time steps, 2).
    """

    decoder: StreamingDecoder
    population: Population
    task: ReachingTask
    user: SimulatedUser = SimulatedUser()
    latency_s: float = 0.0
    gain: float = 1.0

    def __post_init__(self):
        self.reset()

    def reset(self):
        """Back to the start, with decoder and population; the same run would follow."""
        self.decoder.reset()
        self.population.reset()
        self.reaches: list[Reach] = []
        self.cursor_mm = np.zeros((0, 2))
        self.targets_mm = np.zeros((0, 2))
        self.intended_mm_s = np.zeros((0, 2))
        self._cursor = [0j]  # at each time step, before the latency
        self._velocity = 0j  # decoded in the last bin
        self._n_steps = 0  # time steps done
        self._target_shown = 0  # time steps when the target was shown
        self._outside = 0  # time steps when the cursor was last outside of the target

    @property
    def seconds(self) -> float:
        """Time since the start, in s."""
        return self._n_steps * TIME_STEP_S

    @property
    def target_mm(self) -> tuple[float, float]:
        """Centre of the present target in mm."""
        return self.task.targets_mm[len(self.reaches) % len(self.task.targets_mm)]

    def run(self, seconds: float = np.inf, n_reaches: int = 10**9) -> ClosedLoop:
        """Continues until a time or a number of targets; at least one of them must be finite.

        Args:
            seconds: time since the start in s.
            n_reaches: number of targets since the start.

        Returns:
            The loop itself.
        """
        while self.seconds < seconds - 1e-9 and len(self.reaches) < n_reaches:
            self.step()
        return self

    def step(self) -> np.ndarray:
        """One bin: the user sees the cursor and intends, the units fire, the decoder decodes.

        Returns:
            The velocity decoded in mm/s, shape (2,).
        """
        rows = []
        for _ in range(self.population.n_steps):
            self._cursor.append(self._cursor[-1] + TIME_STEP_S * self.gain * self._velocity)
            shown = self._on_screen(0.0)
            seen = self._on_screen(self.user.visual_delay_s)
            target = complex(*self.target_mm)
            self._update_task(abs(shown - target))
            error = complex(*self.target_mm) - seen
            speed_limit = self.user.max_speed_mm_s / max(abs(error), 1e-9)
            intended = error * min(self.user.gain_per_s, speed_limit)
            rows.append([shown, target, seen, intended])
        # each complex number as two real ones: (time steps, 4, 2)
        shown, target, seen, intended = np.array(rows).view(float).reshape(-1, 4, 2).swapaxes(0, 1)
        self.cursor_mm = np.concatenate([self.cursor_mm, shown])
        self.targets_mm = np.concatenate([self.targets_mm, target])
        self.intended_mm_s = np.concatenate([self.intended_mm_s, intended])
        spikes = self.population.fire(seen, intended)
        _, velocities = self.decoder.step(*spikes)
        velocity = velocities[-1]
        self._velocity = complex(*velocity)
        return velocity

    def _on_screen(self, delay_s: float) -> complex:
        """The cursor on the screen `delay_s` ago; at rest before the start."""
        steps_ago = round((delay_s + self.latency_s) / TIME_STEP_S)
        return self._cursor[max(0, len(self._cursor) - 1 - steps_ago)]

    def _update_task(self, distance: float):
        """After a time step; after a reached target or a timeout, show the next target."""
        self._n_steps += 1
        if distance > self.task.radius_mm:
            self._outside = self._n_steps
        held_s = (self._n_steps - self._outside) * TIME_STEP_S
        shown_s = (self._n_steps - self._target_shown) * TIME_STEP_S
        reached = held_s >= self.task.hold_s - 1e-9
        if reached or shown_s >= self.task.timeout_s - 1e-9:
            started_s = self._target_shown * TIME_STEP_S
            seconds = shown_s - held_s if reached else shown_s
            self.reaches.append(Reach(started_s, seconds, reached, self.target_mm))
            self._target_shown = self._outside = self._n_steps
