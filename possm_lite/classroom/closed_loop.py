"""Closed loop: a simulated user, the spikes of simulated units, a decoder, a cursor, and visual feedback to the user.

Time is counted in bins of the decoder and, within a bin, in time steps of 10 ms. During a bin the cursor moves with the
velocity that was decoded at the end of the bin before. Positions are mm, velocities mm/s, (..., 2); in `ClosedLoop`
a point is one complex number, as Python's own numbers are faster than arrays of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..spikes.simulation.neurons import TICKS_PER_SECOND, block_refractory, draw_common, firing_rate
from ..spikes.simulation.session import GroundTruth

TIME_STEP_S = 0.01


class Population:
    """The simulated units of a session, driven by the user's intention, bin by bin.

    A movement is planned as far ahead as the earliest unit fires. A unit with lag L fires for the intention that is
    max(lag) - L old: early units first, as in the recording.

    Args:
        truth: of the simulated session.
        seed: of the spikes, the common fluctuations and the order in which units are silenced.
        bin_width_s: seconds.
        silent: share of units that do not fire, 0 to 1.
    """

    def __init__(self, truth: GroundTruth, seed: int = 0, bin_width_s: float = 0.05, silent: float = 0.0):
        self.truth, self.seed, self.bin_width_s = truth, seed, bin_width_s
        self.n_units, self.n_steps = len(truth.units.tuned), round(bin_width_s / TIME_STEP_S)
        age = np.rint((truth.units.lag_s.max() - truth.units.lag_s) / TIME_STEP_S).astype(int)  # of intentions, (U,)
        self._n_past = int(age.max())
        self._index = self._n_past + np.arange(self.n_steps)[:, None] - age  # (time steps, U)
        self._refractory = int(np.ceil(truth.config.refractory_s * TICKS_PER_SECOND))
        self._bin_ticks = round(bin_width_s * TICKS_PER_SECOND)
        self._order = np.random.default_rng(seed).permutation(self.n_units)
        self.silence(silent)
        self.reset()

    def silence(self, share: float):
        """From now on this share of the units does not fire; their order depends on the seed alone."""
        self._silent = np.isin(np.arange(self.n_units), self._order[: round(share * self.n_units)])

    def reset(self):
        """Back to rest before the first bin; the same intentions give the same spikes again."""
        self._rng = np.random.default_rng([self.seed, 1])
        self._common = draw_common(self._rng, 60.0, self.truth.config)  # repeats after a minute
        self._past = np.zeros((self._n_past, 4))
        self._last = np.full(self.n_units, -self._bin_ticks)  # last spike of each unit, ticks since the bin started
        self._n_bins = 0

    def fire(self, position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The spikes of one bin.

        Args:
            position: where the user sees the cursor at each time step of the bin, mm, (time steps, 2).
            velocity: the intended velocity there, mm/s, (time steps, 2).

        Returns:
            unit of each spike, from 1, and seconds since the bin started, (n,) each: the arguments of a decoder's step.
        """
        edge = self.truth.config.workspace_mm  # the tuning is not defined outside of it
        plan = np.concatenate([self._past, np.concatenate([np.clip(position, -edge, edge), velocity], 1)])
        self._past = plan[len(plan) - self._n_past :]
        time_s = (self._n_bins + (np.arange(self.n_steps) + 0.5) / self.n_steps) * self.bin_width_s
        index = time_s * self.truth.config.common_rate_hz % (len(self._common) - 1)
        low = index.astype(int)
        common = self._common[low] + (index - low)[:, None] * (self._common[low + 1] - self._common[low])
        now = plan[self._index]  # (time steps, U, 4)
        rates = firing_rate(self.truth.units, slice(None), now[..., :2], now[..., 2:], common[:, None])
        self._n_bins += 1
        return self._spikes(np.where(self._silent, 0.0, rates))

    def _spikes(self, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A Poisson process at `rates` (time steps, U), blocked after each of its spikes."""
        cell = np.repeat(np.arange(rates.size), self._rng.poisson(rates * TIME_STEP_S).ravel())
        time_step, unit = np.divmod(cell, self.n_units)
        ticks = ((time_step + self._rng.random(len(unit))) * (TIME_STEP_S * TICKS_PER_SECOND)).astype(int)
        ticks = np.minimum(ticks, self._bin_ticks - 1)
        # all units in one long row, each started by its last spike, so that one call blocks them all
        start = (3 * np.arange(self.n_units) + 1) * self._bin_ticks
        row = block_refractory(np.sort(np.concatenate([self._last + start, ticks + start[unit]])), self._refractory)
        unit, ticks = np.divmod(row, 3 * self._bin_ticks)
        ticks -= self._bin_ticks
        self._last[unit] = ticks  # sorted, so the latest of each unit is stored
        self._last = np.maximum(self._last - self._bin_ticks, -self._bin_ticks)
        fired = ticks >= 0
        return unit[fired] + 1, ticks[fired] / TICKS_PER_SECOND


@dataclass(frozen=True)
class SimulatedUser:
    """Proportional feedback control with a visual delay.

        intended(t) = gain (target - seen), at most max_speed,     seen = screen(t - visual_delay)

    Args:
        visual_delay_s: from the screen to an intention.
        gain_per_s, max_speed_mm_s: how fast the distance is closed.
    """

    visual_delay_s: float = 0.1
    gain_per_s: float = 5.0
    max_speed_mm_s: float = 400.0


@dataclass(frozen=True)
class ReachingTask:
    """Targets, one after the other; one is reached when the cursor has stayed within it for `hold_s`.

    Args:
        targets_mm: centres, repeated in this order; the cursor starts at the origin.
        radius_mm, hold_s: of a target.
        timeout_s: after this time the next target is shown.
    """

    targets_mm: Sequence[tuple[float, float]]
    radius_mm: float = 20.0
    hold_s: float = 0.2
    timeout_s: float = 3.0


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


class ClosedLoop:
    """User, units, decoder and cursor, one bin at a time.

    Args:
        decoder: a streaming decoder with `step` and `reset`; the last velocity of a bin moves the cursor.
        population: the units.
        task, user: targets, and the user who steers to them.
        latency_s: added between decoder and screen; may be changed while the loop runs.
        gain: cursor velocity over decoded velocity; may be changed too.
    """

    def __init__(
        self,
        decoder,
        population: Population,
        task: ReachingTask,
        user: SimulatedUser | None = None,
        latency_s: float = 0.0,
        gain: float = 1.0,
    ):
        self.decoder, self.population, self.task, self.user = decoder, population, task, user or SimulatedUser()
        self.latency_s, self.gain = latency_s, gain
        self.reset()

    def reset(self):
        self.decoder.reset()
        self.population.reset()
        self._cursor, self._shown, self._targets, self._intended = [0j], [], [], []  # by time step
        self._velocity, self._target, self.reaches = 0j, 0, []
        self._since_shown, self._held = 0, 0  # time steps

    def set_decoder(self, decoder):
        """Decode with this decoder from now on; a different one is reset first."""
        if decoder is not self.decoder:
            decoder.reset()
            self.decoder = decoder

    @property
    def seconds(self) -> float:
        return len(self._shown) * TIME_STEP_S

    @property
    def target_mm(self) -> tuple[float, float]:
        return self.task.targets_mm[self._target % len(self.task.targets_mm)]

    @property
    def cursor_mm(self) -> np.ndarray:
        """The path of the cursor on the screen, (time steps, 2)."""
        return _to_xy(self._shown)

    @property
    def targets_mm(self) -> np.ndarray:
        """The target at each time step, (time steps, 2)."""
        return _to_xy(self._targets)

    @property
    def intended_mm_s(self) -> np.ndarray:
        """The user's intended velocity, (time steps, 2)."""
        return _to_xy(self._intended)

    def step(self) -> np.ndarray:
        """One bin: the user sees the cursor and intends, the units fire, the decoder decodes a velocity, (2,)."""
        seen = []
        for _ in range(self.population.n_steps):
            self._cursor.append(self._cursor[-1] + TIME_STEP_S * self.gain * self._velocity)
            self._shown.append(self._on_screen(0.0))
            self._targets.append(complex(*self.target_mm))
            self._update_task()
            seen.append(self._on_screen(self.user.visual_delay_s))
            error = complex(*self.target_mm) - seen[-1]
            speed_limit = self.user.max_speed_mm_s / max(abs(error), 1e-9)
            self._intended.append(error * min(self.user.gain_per_s, speed_limit))
        spikes = self.population.fire(_to_xy(seen), _to_xy(self._intended[-len(seen) :]))
        velocity = self.decoder.step(*spikes)[1][-1]
        self._velocity = complex(*velocity)
        return velocity

    def run(self, seconds: float = np.inf, n_reaches: int = 10**9) -> ClosedLoop:
        """Continue until this time or this number of targets; at least one of them must be finite."""
        while self.seconds < seconds - 1e-9 and len(self.reaches) < n_reaches:
            self.step()
        return self

    def _on_screen(self, delay_s: float) -> complex:
        """The cursor on the screen `delay_s` ago; at rest before the start."""
        return self._cursor[max(0, len(self._cursor) - 1 - round((delay_s + self.latency_s) / TIME_STEP_S))]

    def _update_task(self):
        """Count the hold; after a reached target or a timeout, show the next target."""
        distance = abs(self._shown[-1] - complex(*self.target_mm))
        self._since_shown += 1
        self._held = self._held + 1 if distance <= self.task.radius_mm else 0
        reached = self._held * TIME_STEP_S >= self.task.hold_s - 1e-9
        if reached or self._since_shown * TIME_STEP_S >= self.task.timeout_s - 1e-9:
            shown_s = self.seconds - self._since_shown * TIME_STEP_S
            n_steps = self._since_shown - self._held if reached else self._since_shown
            self.reaches.append(Reach(shown_s, n_steps * TIME_STEP_S, reached, self.target_mm))
            self._target, self._since_shown, self._held = self._target + 1, 0, 0


def _to_xy(points) -> np.ndarray:
    """Complex numbers to (n, 2)."""
    return np.array(points, dtype=complex).view(float).reshape(-1, 2)
