"""A closed loop: a simulated user, the spikes of simulated units, a decoder, a cursor, and back to the user's eyes.

Time goes in bins of the decoder, and inside a bin in moments of 10 ms. During a bin the cursor moves on with the
velocity that was decoded at the end of the bin before. Positions are mm, velocities mm/s, (..., 2); inside `ClosedLoop`
a point of the plane is one complex number, since Python's own numbers are faster than arrays of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..spikes.simulation.neurons import TICKS_PER_SECOND, block_refractory, draw_common, firing_rate
from ..spikes.simulation.session import GroundTruth

MOMENT_S = 0.01


class Population:
    """The simulated units of a session, fed with what the user intends, bin by bin.

    A movement is planned as far ahead as the earliest unit fires. A unit with lag L fires for the intention that is
    max(lag) - L old: early units first, as in the recording.

    Args:
        truth: of the simulated session.
        seed: of the spikes, the common fluctuations and the units that are lost.
        bin_width_s: seconds.
        lost: share of units that are silent, 0 to 1.
    """

    def __init__(self, truth: GroundTruth, seed: int = 0, bin_width_s: float = 0.05, lost: float = 0.0):
        self.truth, self.seed, self.bin_width_s = truth, seed, bin_width_s
        self.n_units, self.n_moments = len(truth.units.tuned), round(bin_width_s / MOMENT_S)
        age = np.rint((truth.units.lag_s.max() - truth.units.lag_s) / MOMENT_S).astype(int)  # of intentions, (U,)
        self._n_old = int(age.max())
        self._pick = self._n_old + np.arange(self.n_moments)[:, None] - age  # (moments, U)
        self._refractory = int(np.ceil(truth.config.refractory_s * TICKS_PER_SECOND))
        self._bin_ticks = round(bin_width_s * TICKS_PER_SECOND)
        self._order = np.random.default_rng(seed).permutation(self.n_units)
        self.lose(lost)
        self.reset()

    def lose(self, share: float):
        """From now on this share of the units is silent; which ones come first depends on the seed alone."""
        self._silent = np.isin(np.arange(self.n_units), self._order[: round(share * self.n_units)])

    def reset(self):
        """Back to rest, before the first bin; the same spikes come again for the same intentions."""
        self._rng = np.random.default_rng([self.seed, 1])
        self._common = draw_common(self._rng, 60.0, self.truth.config)  # begins again after a minute
        self._intended = np.zeros((self._n_old, 4))
        self._last = np.full(self.n_units, -self._bin_ticks)  # the last spike of each, ticks since the bin began
        self._n_bins = 0

    def fire(self, position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The spikes of one bin.

        Args:
            position: where the user sees the cursor at each moment of the bin, mm, (moments, 2).
            velocity: what it intends there, mm/s, (moments, 2).

        Returns:
            unit of each spike, from 1, and seconds since the bin began, (n,) each: what a decoder's `step` takes.
        """
        edge = self.truth.config.workspace_mm  # nobody knows what a unit does beyond it
        plan = np.concatenate([self._intended, np.concatenate([np.clip(position, -edge, edge), velocity], 1)])
        self._intended = plan[len(plan) - self._n_old :]
        time_s = (self._n_bins + (np.arange(self.n_moments) + 0.5) / self.n_moments) * self.bin_width_s
        place = time_s * self.truth.config.common_rate_hz % (len(self._common) - 1)
        low = place.astype(int)
        common = self._common[low] + (place - low)[:, None] * (self._common[low + 1] - self._common[low])
        now = plan[self._pick]  # (moments, U, 4)
        rates = firing_rate(self.truth.units, slice(None), now[..., :2], now[..., 2:], common[:, None])  # (moments, U)
        self._n_bins += 1
        return self._spikes(np.where(self._silent, 0.0, rates))

    def _spikes(self, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A Poisson process at `rates`, constant for a moment, blocked after each of its spikes."""
        cell = np.repeat(np.arange(rates.size), self._rng.poisson(rates * MOMENT_S).ravel())
        moment, unit = np.divmod(cell, self.n_units)
        ticks = ((moment + self._rng.random(len(moment))) * (MOMENT_S * TICKS_PER_SECOND)).astype(int)
        ticks = np.minimum(ticks, self._bin_ticks - 1)
        # units one behind the other on one long line, each led by its last spike, so that one call blocks them all
        line = np.sort(np.concatenate([self._last + self._row(np.arange(self.n_units)), ticks + self._row(unit)]))
        line = block_refractory(line, self._refractory)
        unit, ticks = np.divmod(line, 3 * self._bin_ticks)
        ticks -= self._bin_ticks
        self._last[unit] = ticks  # sorted, so the latest of each unit stays
        self._last = np.maximum(self._last - self._bin_ticks, -self._bin_ticks)
        fired = ticks >= 0
        return unit[fired] + 1, ticks[fired] / TICKS_PER_SECOND

    def _row(self, unit: np.ndarray) -> np.ndarray:
        return (3 * unit + 1) * self._bin_ticks


@dataclass(frozen=True)
class User:
    """What somebody intends who wants the cursor on a target, and sees it late.

        intended(t) = gain (target - seen), at most max_speed,     seen = screen(t - visual)

    Args:
        visual_s: from the screen to an intention.
        gain_per_s, max_speed_mm_s: how eagerly the distance is closed.
    """

    visual_s: float = 0.1
    gain_per_s: float = 5.0
    max_speed_mm_s: float = 400.0


@dataclass(frozen=True)
class Task:
    """Targets, one after the other. One counts as reached when the cursor has stayed within it for `hold_s`.

    Args:
        targets_mm: centres, in turn, over and over; the cursor starts at the origin.
        radius_mm, hold_s: of a target, and the stay that counts.
        patience_s: after that time a target is given up.
    """

    targets_mm: Sequence[tuple[float, float]]
    radius_mm: float = 20.0
    hold_s: float = 0.2
    patience_s: float = 3.0


def star(n_targets: int = 8, jump: int = 3, radius_mm: float = 80.0) -> list[tuple[float, float]]:
    """`n_targets` targets on a circle, each `jump` places on from the last: long reaches in many directions."""
    angle = 2 * np.pi * jump / n_targets * np.arange(n_targets)
    return [(float(x), float(y)) for x, y in zip(radius_mm * np.cos(angle), radius_mm * np.sin(angle), strict=True)]


@dataclass(frozen=True)
class Reach:
    """One target: when it was shown, how long it took until the stay that counted began (or patience ended)."""

    shown_s: float
    seconds: float
    reached: bool
    target_mm: tuple[float, float]


class ClosedLoop:
    """User, units, decoder and cursor, one bin at a time.

    Args:
        stream: a streaming decoder with `step` and `reset`; the last of its answers in a bin drives the cursor.
        population: the units.
        task, user: who steers where.
        latency_s: added between the decoder's answer and the screen; may be changed while the loop runs.
        gain: cursor velocity over decoded velocity; likewise.
    """

    def __init__(
        self,
        stream,
        population: Population,
        task: Task,
        user: User | None = None,
        latency_s: float = 0.0,
        gain: float = 1.0,
    ):
        self.stream, self.population, self.task, self.user = stream, population, task, user or User()
        self.latency_s, self.gain = latency_s, gain
        self.reset()

    def reset(self):
        self.stream.reset()
        self.population.reset()
        self._cursor, self._shown, self._wanted, self._intended = [0j], [], [], []  # by moments
        self._velocity, self._target, self.reaches = 0j, 0, []
        self._since, self._inside = 0, 0  # moments since the target was shown, and of the present stay in it

    def decode_with(self, stream):
        """From now on with this decoder; another one than before begins anew."""
        if stream is not self.stream:
            stream.reset()
            self.stream = stream

    @property
    def seconds(self) -> float:
        return len(self._shown) * MOMENT_S

    @property
    def target_mm(self) -> tuple[float, float]:
        return self.task.targets_mm[self._target % len(self.task.targets_mm)]

    @property
    def shown_mm(self) -> np.ndarray:
        """The path of the cursor on the screen, (moments, 2)."""
        return _plane(self._shown)

    @property
    def targets_mm(self) -> np.ndarray:
        """The target that was to be reached at each moment, (moments, 2)."""
        return _plane(self._wanted)

    @property
    def intended_mm_s(self) -> np.ndarray:
        """What the user intended, (moments, 2)."""
        return _plane(self._intended)

    def step(self) -> np.ndarray:
        """One bin: the user looks and intends, the units fire, the decoder answers. Returns its answer, (2,)."""
        seen = []
        for _ in range(self.population.n_moments):
            self._cursor.append(self._cursor[-1] + MOMENT_S * self.gain * self._velocity)
            self._shown.append(self._before(0.0))
            self._wanted.append(complex(*self.target_mm))
            self._judge()
            seen.append(self._intend())
        velocity = _plane(self._intended[-self.population.n_moments :])
        units, offsets = self.population.fire(_plane(seen), velocity)
        answer = self.stream.step(units, offsets)[1][-1]
        self._velocity = complex(*answer)
        return answer

    def run(self, seconds: float = np.inf, n_reaches: int = 10**9) -> ClosedLoop:
        """Go on for some seconds or until so many targets are done; at least one limit must be finite."""
        while self.seconds < seconds - 1e-9 and len(self.reaches) < n_reaches:
            self.step()
        return self

    def _before(self, seconds: float) -> complex:
        """The cursor on the screen so long ago; before the start it stood still."""
        return self._cursor[max(0, len(self._cursor) - 1 - round((seconds + self.latency_s) / MOMENT_S))]

    def _intend(self) -> complex:
        """Add the intention of this moment, and return where the user sees the cursor."""
        user, seen = self.user, self._before(self.user.visual_s)
        way = complex(*self.target_mm) - seen
        self._intended.append(way * min(user.gain_per_s, user.max_speed_mm_s / max(abs(way), 1e-9)))
        return seen

    def _judge(self):
        """Whether the target is reached or given up; then comes the next."""
        task, far = self.task, abs(self._shown[-1] - complex(*self.target_mm))
        self._since += 1
        self._inside = self._inside + 1 if far <= task.radius_mm else 0
        reached = self._inside * MOMENT_S >= task.hold_s - 1e-9
        if reached or self._since * MOMENT_S >= task.patience_s - 1e-9:
            shown_s = self.seconds - self._since * MOMENT_S
            took = self._since - self._inside if reached else self._since
            self.reaches.append(Reach(shown_s, took * MOMENT_S, reached, self.target_mm))
            self._target, self._since, self._inside = self._target + 1, 0, 0


def _plane(points) -> np.ndarray:
    """Complex numbers to (n, 2)."""
    return np.array(points, dtype=complex).view(float).reshape(-1, 2)
