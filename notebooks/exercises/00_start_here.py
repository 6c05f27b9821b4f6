"""Exercises of chapter 00: a firing rate, counts without the mean of each unit, the angle of a rotation, a decoder."""

import math
from functools import partial

import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck

# Exercise 0.1: firing rate


def _rate(t, start, stop, *, inside=lambda t, a, b: (t >= a) & (t < b), seconds=lambda t, a, b: b - a):
    t = t[inside(t, start, stop)]
    return len(t) / seconds(t, start, stop)


def _times(*seconds):
    return torch.tensor(seconds, dtype=torch.float64)


firing_rate = Check(
    "firing_rate",
    reference=_rate,
    cases=[  # halves and quarters, which a computer represents exactly
        Case("six spikes within 2 s", lambda: (_times(0.25, 0.5, 0.75, 1.0, 1.5, 1.75), 0.0, 2.0)),
        Case("a window in the middle of the spikes", lambda: (_times(0.5, 1.25, 1.5, 1.75, 2.0, 2.75, 3.5), 1.0, 3.0)),
        Case("a spike exactly at start, which counts", lambda: (_times(0.5, 1.0, 1.25, 1.5, 3.0), 1.0, 2.0)),
        Case("a spike exactly at stop, which no longer counts", lambda: (_times(1.25, 1.5, 2.0), 1.0, 2.0)),
        Case("a window without a spike", lambda: (_times(0.5, 3.5), 1.0, 3.0)),
        Case("a window of a quarter of a second", lambda: (_times(1.0, 1.125, 1.5), 1.0, 1.25)),
        Case(
            "five spikes in 1.5 s, no whole number of Hz", lambda: (_times(0.5, 0.75, 1.0, 1.25, 1.75, 2.0), 0.5, 2.0)
        ),
    ],
    traps={
        "this is how many spikes there are, not how many per second. By how many seconds do you divide?": (
            partial(_rate, seconds=lambda t, a, b: 1)
        ),
        "you count spikes outside the window too. Only those between start and stop belong to it.": (
            partial(_rate, inside=lambda t, a, b: slice(None))
        ),
        "a spike exactly at stop was counted. The window ends just before it: it belongs to the next one, "
        "or it would be counted twice.": partial(_rate, inside=lambda t, a, b: (t >= a) & (t <= b)),
        "a spike exactly at start was not counted. The window begins with it.": (
            partial(_rate, inside=lambda t, a, b: (t > a) & (t < b))
        ),
        "the ends are the wrong way round: a spike at start belongs to the window, a spike at stop does not.": (
            partial(_rate, inside=lambda t, a, b: (t > a) & (t <= b))
        ),
        "you divide by stop. How long is the window, when it does not begin at 0?": (
            partial(_rate, seconds=lambda t, a, b: b)
        ),
        "you divide by the time from the first spike to the last. The length of the window does not depend on where "
        "its spikes are.": partial(_rate, seconds=lambda t, a, b: float(t[-1] - t[0])),
        "you use the time between spikes. That says nothing if there is one spike or none: count, and divide by the "
        "length of the window.": partial(_rate, seconds=lambda t, a, b: len(t) * float(t.diff().mean())),
        "this is seconds per spike: it is upside down.": lambda t, a, b: 1 / _rate(t, a, b),
        "this is spikes per millisecond. Times here are in seconds.": (
            partial(_rate, seconds=lambda t, a, b: 1000 * (b - a))
        ),
    },
)

# Exercise 0.2: subtract the mean of each unit


def _center(x, *, mean=lambda x: x.mean(0)):
    return x - mean(x)


def _counts(n_trials, n_units):
    rates = torch.linspace(1.0, 9.0, n_units).expand(n_trials, n_units)  # each unit has its own
    return torch.poisson(rates, generator=torch.Generator().manual_seed(n_trials))


center = Check(
    "center",
    reference=_center,
    cases=[
        Case("two trials of two units", lambda: (torch.tensor([[1.0, 5.0], [3.0, 9.0]]),)),
        Case("two trials of three units", lambda: (torch.tensor([[1.0, 5.0, 2.0], [3.0, 9.0, 2.0]]),)),
        Case("seven trials of four units", lambda: (_counts(7, 4),)),
        Case("a single trial, which is its own mean", lambda: (_counts(1, 3),)),
    ],
    traps={
        "x itself was changed: `x -= ...` overwrites the tensor of the caller. Return a new one.": (
            lambda x: x.sub_(x.mean(0))
        ),
        "you took the mean over the units of each trial. The mean of a unit goes over the trials, and they are "
        "axis 0.": partial(_center, mean=lambda x: x.mean(1, keepdim=True)),
        "you took the mean over axis 1, the units, and its shape does not fit x either. Trials are axis 0.": (
            partial(_center, mean=lambda x: x.mean(1))
        ),
        "you subtract one mean for all. Each unit has its own: over which axis must the mean go?": (
            partial(_center, mean=torch.mean)
        ),
        "you also divide by the spread. Only subtract the mean.": (  # a single trial has no spread
            lambda x: _center(x) / (x.std(0) if len(x) > 1 else torch.nan)
        ),
        "these are the means themselves. Subtract them from x.": lambda x: x.mean(0),
        "the sign is wrong: x minus the mean, not the mean minus x.": lambda x: -_center(x),
        "you subtract the sum over trials. A mean is the sum divided by their number.": (
            partial(_center, mean=lambda x: x.sum(0))
        ),
        "you divide the sum by the number of trials less one, as in a variance. A mean divides by their number.": (
            partial(_center, mean=lambda x: x.sum(0) / max(len(x) - 1, 1))
        ),
    },
)

# Exercise 0.3: the angle of a rotation, 50 of 80 ms of 360 degrees

my_angle = ValueCheck(
    "my_angle",
    expected=225.0,
    tolerance=0.5,
    traps={
        "that is the share of a whole rotation. How many degrees has a whole one?": 0.625,
        "that is in radians. The question asks for degrees: a whole rotation has 360, or 2π radians.": 3.927,
        "that many degrees are missing to the whole rotation. How far has the arrow come?": 135.0,
        "the arrow points that way, but say how far it has rotated, counter-clockwise from 0.": -135.0,
        "that is one whole rotation too many.": 585.0,
        "it is upside down: after 50 ms an arrow of period 80 ms has not gone round once yet.": 576.0,
    },
)

# Exercise 0.4: preferred directions by least squares, and the sum of the votes


def _least_squares(rates, angles):
    """b (U,) and votes (2, U) of (0.4)."""
    design = torch.stack([torch.ones_like(angles), angles.cos(), angles.sin()], -1)  # (R, 3)
    usual, *votes = torch.linalg.lstsq(design, rates).solution
    return usual, torch.stack(votes)


def _of_length_one(votes):
    return votes / votes.norm(dim=0)


def _decode(
    rates,
    angles,
    new,
    *,
    usual=lambda rates, b: b,
    length=_of_length_one,
    angle=lambda x, y: torch.atan2(y, x),
):
    b, votes = _least_squares(rates, angles)
    x, y = ((new - usual(rates, b)) @ length(votes).T).T
    return angle(x, y)


def _reaches(angles_deg, new_deg, n_units, noise=0.0, seed=0):
    """Rates of units with other baselines, depths and preferred directions: what was seen, and new reaches."""

    def make():
        generator = torch.Generator().manual_seed(seed)
        preferred = math.tau * torch.rand(n_units, generator=generator, dtype=torch.float64)
        usual, depth = 5 + 10 * torch.rand(2, n_units, generator=generator, dtype=torch.float64)
        seen, new = (torch.tensor(deg, dtype=torch.float64).deg2rad() for deg in (angles_deg, new_deg))
        rates, others = (usual + depth * torch.cos(angle[:, None] - preferred) for angle in (seen, new))
        chance = noise * torch.randn(len(seen), n_units, generator=generator, dtype=torch.float64)
        return rates + chance, seen, others

    return make


first_decoder = Check(
    "first_decoder",
    reference=_decode,
    cases=[
        Case("three units, eight directions, no chance", _reaches([*range(0, 360, 45)], [20, 100, 250], 3)),
        Case("a single new reach", _reaches([*range(0, 360, 45)], [-70], 4, seed=1)),
        Case("rates with chance", _reaches([*range(0, 360, 30)], [10, 80, 200, 300], 6, noise=2.0, seed=2)),
        Case(
            "most reaches to the right, so that the mean of a unit is not its b",
            _reaches([0, 10, 20, 30, 40, 90, 180, 270], [-40, 60, 140], 5, seed=3),
        ),
    ],
    traps={
        "the votes count with the whole rate. A unit that fires as usual says nothing: take its b away.": partial(
            _decode, usual=lambda rates, b: 0.0
        ),
        "you take away the mean of each unit, which is b only where reaches go to all sides alike.": partial(
            _decode, usual=lambda rates, b: rates.mean(0)
        ),
        "the votes of strongly tuned units are longer. Divide each by its length: all have length one.": partial(
            _decode, length=lambda votes: votes
        ),
        "cosine and sine have changed places: atan2 wants y first.": partial(_decode, angle=torch.atan2),
        "this is in degrees. The angles here are in rad.": partial(
            _decode, angle=lambda x, y: torch.atan2(y, x).rad2deg()
        ),
        "these angles go from 0 to 2π. Wanted is from -π to π.": partial(
            _decode, angle=lambda x, y: torch.atan2(y, x) % math.tau
        ),
        "atan of y / x cannot tell a direction from the opposite one: use atan2.": partial(
            _decode, angle=lambda x, y: torch.atan(y / x)
        ),
    },
)
