"""A decoder that knows the simulator: a particle filter over plans of reaches (chapter 13).

A particle is one complete guess of what the network cannot know for certain: the reach that the
hand is on, with its target, time and bend, and the common fluctuations of the units. Every guess
moves on as the simulator itself would move it, and its weight grows when the spikes that come are
those that its guess makes likely. The decoded velocity is the weighted mean over the particles.

Nothing is learned: tuning, lags and the distributions of reaches are those of the simulation. With
many particles, and copies that are varied little, no decoder of the same spikes can have a smaller
mean squared error. With few, the filter is a lower bound of what is possible.

Source: Gordon, Salmond & Smith 1993, IEE Proc F 140:107 (the bootstrap filter, and "roughening":
copies of a guess are made different); Doucet & Johansen 2009 (a tutorial, with resampling).
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from possm_lite.recordings import Recording
from possm_lite.recordings.batch import bin_index
from possm_lite.simulate.reaches import TaskConfig
from possm_lite.simulate.session import GroundTruth

STEP_S = 0.01  # spikes are counted in steps of 10 ms
FINE_S = 0.005  # the hand is sampled twice as finely, since the units lead it by different times
BIN_S = 0.05  # bins of the networks; the common fluctuations have a knot every 50 ms, too
KNOT_STEPS = 5
KEPT = 14  # fine steps of the path that are kept: a bin and a little more
WARM_UP_S = 2.0  # before the first bin that is decoded
JITTER = 0.1
TARGET_SPREAD_MM = 50.0
START_SPREAD_S = 0.08


@dataclass
class Plans:
    """The last reach that each of N particles has begun; after it the hand rests.

    Attributes:
        start_s: of the reach, seconds since the filter began, shape (N,).
        stop_s: of the reach, shape (N,).
        origin_mm: shape (N, 2).
        target_mm: shape (N, 2).
        bend_rad: shape (N,).
        leg: index of the reach in its trial, shape (N,).
        random_target: True in a trial that chains random targets, shape (N,).
    """

    start_s: Tensor
    stop_s: Tensor
    origin_mm: Tensor
    target_mm: Tensor
    bend_rad: Tensor
    leg: Tensor
    random_target: Tensor

    def choose(self, which: Tensor) -> "Plans":
        """Some of the plans.

        Args:
            which: their indices, or a mask that is True for them, shape (N,).
        """
        return Plans(*(value[which] for value in vars(self).values()))

    def replace(self, where: Tensor, by: "Plans"):
        """Write the plans `by` to the rows where the mask is True."""
        for name, value in vars(self).items():
            value[where] = getattr(by, name)


def trial_over(plans: Plans, task: TaskConfig) -> Tensor:
    """Whether the reach of each plan is the last of its trial, (N,).

    Args:
        plans: N plans.
        task: with the number of reaches in a trial of random targets.
    """
    return plans.leg + 1 >= torch.where(plans.random_target, task.n_random_reaches, 2)


def begins(plans: Plans, time_s: float, step_s: float, task: TaskConfig, rng) -> Tensor:
    """Draw whether each hand sets off within the next step, (N,).

    A rest is uniform between its limits. So of the hands that rest still, a share of
    step / (limit - rest so far) sets off in each step: all may be drawn step by step.

    Args:
        plans: N plans, of which those whose reach is not over do not set off.
        time_s: now, seconds since the filter began.
        step_s: the length of the step, seconds.
        task: with the limits of a rest.
        rng: the generator.
    """
    rest = time_s - plans.stop_s - trial_over(plans, task) * task.end_hold_s
    left = (task.hold_s[1] - rest).clamp(min=1e-6)
    return (rest >= task.hold_s[0]) & (torch.rand(len(rest), generator=rng) < step_s / left)


def next_reaches(before: Plans, start_s: float, task: TaskConfig, rng: torch.Generator) -> Plans:
    """Draw the reach after each of these, as the simulation draws it.

    Args:
        before: N plans, after whose rest the hand sets off now.
        start_s: now.
        task: distributions of targets and times.
        rng: the generator.
    """
    n = len(before.leg)
    over = trial_over(before, task)
    kind = torch.rand(n, generator=rng) < task.random_target_share
    kind = torch.where(over, kind, before.random_target)
    leg = torch.where(over, 0, before.leg + 1)
    hand = before.target_mm
    target = _targets(hand, kind, leg, task, rng)
    time = typical_s(hand, target, task)
    time = time * torch.exp(task.reach_time_spread * torch.randn(n, generator=rng))
    start = start_s + FINE_S * torch.rand(n, generator=rng)
    bend = float(np.radians(task.bend_deg)) * torch.randn(n, generator=rng)
    return Plans(start, start + time, hand, target, bend, leg, kind)


def typical_s(origin_mm: Tensor, target_mm: Tensor, task: TaskConfig) -> Tensor:
    """The typical time of a reach, seconds, (N,).

    Args:
        origin_mm: where it begins, (N, 2).
        target_mm: where it ends, (N, 2).
        task: with the typical time as a function of the distance.
    """
    return task.reach_base_s + task.reach_slope_s_per_mm * (target_mm - origin_mm).norm(dim=1)


def _targets(hand: Tensor, kind: Tensor, leg: Tensor, task: TaskConfig, rng) -> Tensor:
    """Targets (N, 2): the centre, then one of the circle; or a random place that is far enough."""
    n = len(hand)
    direction = torch.randint(task.n_directions, (n,), generator=rng)
    angle = 2 * np.pi * direction / task.n_directions
    circle = task.radius_mm * torch.stack([angle.cos(), angle.sin()], -1)
    target = torch.where(leg[:, None] == 0, 0.0, circle)
    again = kind.clone()
    while again.any():
        drawn = task.workspace_mm * (2 * torch.rand(int(again.sum()), 2, generator=rng) - 1)
        target[again] = drawn
        again = kind & ((target - hand).norm(dim=1) < task.min_reach_mm)
    return target


def hand_of(plans: Plans, time_s: Tensor) -> Tensor:
    """Position and velocity of the hand of each plan, mm and mm/s, shape (..., N, 4).

    Args:
        plans: N plans.
        time_s: broadcast against (N,).

    The formula is that of `possm_lite.simulate.reaches.hand_at`.
    """
    duration = plans.stop_s - plans.start_s
    chord = plans.target_mm - plans.origin_mm
    length = chord.norm(dim=1) / torch.sinc(plans.bend_rad / np.pi)
    heading = torch.atan2(chord[:, 1], chord[:, 0]) + plans.bend_rad
    u = ((time_s - plans.start_s) / duration).clamp(0, 1)
    s = u**3 * (10 - 15 * u + 6 * u**2)
    slope = 30 * u**2 * (1 - u) ** 2
    turned = plans.bend_rad * s
    covered = length * s * torch.sinc(turned / np.pi)
    speed = length * slope / duration
    place = heading - turned
    way = heading - 2 * turned
    x = plans.origin_mm[:, 0] + covered * place.cos()
    y = plans.origin_mm[:, 1] + covered * place.sin()
    return torch.stack([x, y, speed * way.cos(), speed * way.sin()], -1)


def log_rates(path: Tensor, slots: Tensor, common: Tensor, units: dict[str, Tensor]) -> Tensor:
    """Log rate in Hz of every unit for each guess, (N, U).

    The formula is that of `possm_lite.simulate.neurons.firing_rate`.

    Args:
        path: position and velocity of the hand of N guesses at each fine step, (steps, N, 4).
        slots: the fine step that each unit sees, (U,).
        common: the common fluctuations, (N, C).
        units: the fields of a `UnitTuning`.
    """
    u = {name: value[:, None] for name, value in units.items() if value.ndim == 1}
    turning = units["turning_rad_per_mm"]  # (U, 2)
    position = units["position_gain_per_mm"]  # (U, 2)
    x, y, vx, vy = path[slots].unbind(-1)  # (U, N) each
    preferred = u["preferred_direction_rad"] + turning[:, :1] * x + turning[:, 1:] * y
    along = vx * preferred.cos() + vy * preferred.sin()
    drive = u["depth_s_per_mm"] * along + u["speed_gain_s_per_mm"] * torch.hypot(vx, vy)
    drive = drive + position[:, :1] * x + position[:, 1:] * y
    drive = drive + units["common_gain"] @ common.T
    ceiling = u["saturation_hz"]
    odds = ceiling / u["baseline_hz"] - 1
    return (ceiling.log() - torch.log1p(odds * torch.exp(-drive))).T


class ParticleFilter:
    """Weighted guesses of the hand and of the common fluctuations, given the spikes so far.

    Args:
        truth: what the simulation knows: tuning of the U units and distributions of reaches.
        n_particles: N.
        seed: of the guesses.
        jitter: by how much copies of a guess are made different, as a share of the spread of all
            guesses. With 0 the copies stay copies, and few guesses are left.
    """

    def __init__(self, truth: GroundTruth, n_particles: int, seed: int = 0, jitter: float = JITTER):
        self.task = truth.config
        self.units = {
            name: torch.as_tensor(value, dtype=torch.float32)
            for name, value in vars(truth.units).items()
        }
        self.n = n_particles
        self.jitter = jitter
        self.rng = torch.Generator().manual_seed(seed)
        self.lead = np.round(truth.units.lag_s / FINE_S).astype(int)  # of each unit, in fine steps
        self.n_ahead = int(self.lead.max()) + 1
        decay = np.exp(-1 / (self.task.common_time_s * self.task.common_rate_hz))
        self.decay, self.spread = float(decay), float(np.sqrt(1 - decay**2))
        self.step = 0  # the next to be absorbed
        self.fine = 0  # the next fine step of the path
        self._begin()

    def _begin(self):
        """Guesses before the first spike: a hand at rest anywhere, before a new trial."""
        n, edge = self.n, self.task.workspace_mm
        hand = edge * (2 * torch.rand(n, 2, generator=self.rng) - 1)
        self.plans = Plans(
            start_s=torch.full((n,), -1.0),
            stop_s=torch.zeros(n),
            origin_mm=hand.clone(),
            target_mm=hand,
            bend_rad=torch.zeros(n),
            leg=torch.full((n,), self.task.n_random_reaches),
            random_target=torch.zeros(n, dtype=torch.bool),
        )
        self.common = torch.randn(2, n, self.task.n_common, generator=self.rng)  # two knots
        self.log_weight = torch.zeros(n)
        self.path = torch.zeros(self.n_ahead + KEPT, n, 4)  # a ring over fine steps
        self._extend_to(self.n_ahead)

    def _extend_to(self, fine: int):
        """Move every guess on to this fine step; where a rest is over, the next reach is drawn."""
        while self.fine <= fine:
            time_s = self.fine * FINE_S
            off = begins(self.plans, time_s, FINE_S, self.task, self.rng)
            if off.any():
                after = next_reaches(self.plans.choose(off), time_s, self.task, self.rng)
                self.plans.replace(off, after)
            self.path[self.fine % len(self.path)] = hand_of(self.plans, torch.tensor(time_s))
            self.fine += 1

    def absorb(self, counts: Tensor):
        """Weigh the guesses by the spikes of the next step, and draw them anew if few have weight.

        Args:
            counts: spikes of each unit in the next 10 ms, shape (U,).
        """
        middle = round((self.step + 0.5) * STEP_S / FINE_S)
        self._extend_to(middle + self.n_ahead)
        share = (self.step % KNOT_STEPS + 0.5) / KNOT_STEPS
        common = (1 - share) * self.common[0] + share * self.common[1]  # (N, C)
        log_rate = self.log_rates(middle, common)  # (N, U)
        # for a while after a spike there cannot be another
        open_s = (STEP_S - self.task.refractory_s * counts).clamp(min=0)
        self.log_weight += log_rate @ counts - log_rate.exp() @ open_s
        self.log_weight -= self.log_weight.max()
        self.step += 1
        if self.step % KNOT_STEPS == 0:
            self._next_knot()
        if self.n_effective() < self.n / 2:
            self._resample()

    def _next_knot(self):
        """Draw the next value of the common fluctuations."""
        noise = torch.randn(self.common[1].shape, generator=self.rng)
        after = self.decay * self.common[1] + self.spread * noise
        self.common = torch.stack([self.common[1], after])

    def log_rates(self, fine: int, common: Tensor) -> Tensor:
        """Log rate in Hz of every unit for each guess, (N, U).

        Args:
            fine: the fine step at which the spikes are; each unit sees the hand one lag later.
            common: the common fluctuations, (N, C).
        """
        slots = torch.as_tensor((fine + self.lead) % len(self.path))
        return log_rates(self.path, slots, common, self.units)

    def weights(self) -> Tensor:
        """The normalised weights of the guesses, (N,)."""
        return self.log_weight.softmax(0)

    def n_effective(self) -> float:
        """By how many equal guesses the weighted ones could be replaced: 1 / sum of squares."""
        return 1 / float(self.weights().square().sum())

    def _resample(self):
        """Draw the guesses anew by their weights, at even distances, and make the weights equal."""
        at = (torch.arange(self.n) + torch.rand(1, generator=self.rng)) / self.n
        upper = self.weights().double().cumsum(0)
        which = torch.searchsorted(upper, at.double()).clamp(max=self.n - 1)
        self.plans = self.plans.choose(which)
        self.common = self.common[:, which]
        self.path = self.path[:, which]
        self.log_weight = torch.zeros(self.n)
        self._vary()

    def _vary(self):
        """Shift the reaches under way a little, so that copies of a guess become different guesses.

        Time and bend keep the distribution that they have in the task. The path since the start of
        the reach, as far as units still see it, becomes that of the new plan.
        """
        plans, task = self.plans, self.task
        now = (self.fine - 1) * FINE_S
        keep = (1 - self.jitter**2) ** 0.5

        def draw(*shape: int) -> Tensor:
            return self.jitter * torch.randn(self.n, *shape, generator=self.rng)

        target = plans.target_mm + TARGET_SPREAD_MM * draw(2)
        inside = target.abs().amax(1) <= task.workspace_mm
        far = (target - plans.origin_mm).norm(dim=1) >= task.min_reach_mm
        moves = plans.random_target & inside & far
        target = torch.where(moves[:, None], target, plans.target_mm)
        typical = typical_s(plans.origin_mm, plans.target_mm, task)
        slowness = ((plans.stop_s - plans.start_s) / typical).log() / task.reach_time_spread
        slowness = keep * slowness + draw()
        start = (plans.start_s + START_SPREAD_S * draw()).clamp(max=now)
        time = typical_s(plans.origin_mm, target, task) * (task.reach_time_spread * slowness).exp()
        bend = keep * plans.bend_rad + float(np.radians(task.bend_deg)) * draw()
        shifted = replace(
            plans, start_s=start, stop_s=start + time, target_mm=target, bend_rad=bend
        )
        under_way = (now < plans.stop_s) & (now < shifted.stop_s)
        plans.replace(under_way, shifted.choose(under_way))
        fine = torch.arange(max(self.fine - self.n_ahead - 1, 0), self.fine)
        times = fine[:, None] * FINE_S
        changed = (under_way & (times >= plans.start_s))[..., None]
        slots = fine % len(self.path)
        self.path[slots] = torch.where(changed, hand_of(plans, times), self.path[slots])

    def velocity(self, times_s: np.ndarray) -> np.ndarray:
        """The velocity of each guess at times of the last 50 ms.

        Args:
            times_s: seconds since the filter began, shape (T,).

        Returns:
            Velocity, mm/s, shape (T, N, 2). Their mean by `weights` is what is decoded.
        """
        velocity = self.path[..., 2:].numpy()  # (slots, N, 2)
        at = times_s / FINE_S
        before = np.floor(at).astype(int)
        share = (at - before)[:, None, None]
        slots = len(velocity)
        return (1 - share) * velocity[before % slots] + share * velocity[(before + 1) % slots]


def decode(
    recording: Recording,
    start_s: float,
    times_s: np.ndarray,
    guesses: ParticleFilter,
    within: tuple[float, ...] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Decode velocity at given times as the networks do: each after the spikes of its bin of 50 ms.

    Args:
        recording: the simulated session of the filter.
        start_s: where the first bin begins.
        times_s: seconds since then, increasing, shape (T,).
        guesses: a filter that has absorbed nothing yet; it begins two seconds earlier.
        within: shares between 0 and 1.

    Returns:
        The mean velocity of the guesses, mm/s, shape (T, 2), and their quantiles at the shares
        `within`, shape (shares, T, 2).
    """
    counts = counts_of(recording, start_s - WARM_UP_S, start_s + times_s[-1] + BIN_S)
    since = times_s + WARM_UP_S
    bin_of = bin_index(since, BIN_S)
    decoded = np.zeros((len(times_s), 2))
    quantiles = np.zeros((len(within), len(times_s), 2))
    for step, row in enumerate(counts, start=1):
        guesses.absorb(row)
        if step % KNOT_STEPS == 0:
            asked = bin_of == step // KNOT_STEPS - 1
            velocity, weight = guesses.velocity(since[asked]), guesses.weights().numpy()
            decoded[asked] = np.einsum("n,tnc->tc", weight, velocity)
            for i, share in enumerate(within):
                quantiles[i, asked] = weighted_quantile(velocity, weight, share)
    return decoded, quantiles


def weighted_quantile(values: np.ndarray, weight: np.ndarray, share: float) -> np.ndarray:
    """The value below which a share of the weight lies.

    Args:
        values: shape (T, N, C).
        weight: of each of the N, with the sum 1, shape (N,).
        share: between 0 and 1.

    Returns:
        The quantiles, shape (T, C).
    """
    order = values.argsort(axis=1)
    below = weight[order].cumsum(axis=1)  # (T, N, C)
    at = (below < share).sum(axis=1, keepdims=True).clip(max=len(weight) - 1)
    return np.take_along_axis(np.take_along_axis(values, order, 1), at, 1)[:, 0]


def counts_of(recording: Recording, start_s: float, stop_s: float) -> Tensor:
    """Spikes of each unit in steps of 10 ms, shape (steps, U).

    Args:
        recording: with U units.
        start_s: where the first step begins.
        stop_s: where the last step ends, or a little earlier.
    """
    n_steps = int(np.ceil((stop_s - start_s) / STEP_S - 1e-6))
    step = bin_index(recording.spike_times - start_s, STEP_S)
    inside = (step >= 0) & (step < n_steps)
    cell = step[inside] * recording.n_units + recording.spike_units[inside]
    counts = np.bincount(cell, minlength=n_steps * recording.n_units)
    return torch.as_tensor(counts.reshape(n_steps, -1), dtype=torch.float32)
