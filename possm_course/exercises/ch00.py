"""Exercises of chapter 00: a firing rate, the angle of a rotation, counts without the mean of each unit, a decoder."""

import math

import torch

from possm_course.checks import ValueCheck, exercise


# Exercise 0.1: firing rate
def _times(*seconds):
    """Times in s, (n_spikes,)."""
    return torch.tensor(seconds, dtype=torch.float64)


@exercise(
    cases={  # halves and quarters, which a computer represents exactly
        "six spikes within 2 s": lambda: (_times(0.25, 0.5, 0.75, 1.0, 1.5, 1.75), 0.0, 2.0),
        "a window in the middle of the spikes": lambda: (_times(0.5, 1.25, 1.5, 1.75, 2.0, 2.75, 3.5), 1.0, 3.0),
        "a spike exactly at start, which counts": lambda: (_times(0.5, 1.0, 1.25, 1.5, 3.0), 1.0, 2.0),
        "a spike exactly at stop, which no longer counts": lambda: (_times(1.25, 1.5, 2.0), 1.0, 2.0),
        "a window without a spike": lambda: (_times(0.5, 3.5), 1.0, 3.0),
        "a window of a quarter of a second": lambda: (_times(1.0, 1.125, 1.5), 1.0, 1.25),
        "five spikes in 1.5 s, no whole number of Hz": lambda: (_times(0.5, 0.75, 1.0, 1.25, 1.75, 2.0), 0.5, 2.0),
    },
    mistakes={
        " / (stop - start) → ": "this is how many spikes there are, not how many per second.",
        "inside = (spike_times >= start) & (spike_times < stop) → inside = torch.ones_like(spike_times)": (
            "you count spikes outside the window too. Only those between start and stop belong to it."
        ),
        "< stop → <= stop": "a spike exactly at stop was counted. It belongs to the next window.",
        ">= start → > start": "a spike exactly at start was not counted. The window begins with it.",
        "(stop - start) → stop": "you divide by stop. How long is the window, when it does not begin at 0?",
        "(spike_times >= start) & (spike_times < stop) → spike_times >= start & spike_times < stop": (
            "`&` comes before `>=` and `<`: put brackets around each comparison."
        ),
        "(spike_times >= start) & (spike_times < stop) → (spike_times > start) & (spike_times <= stop)": (
            "both ends are the wrong ones: a spike at start counts, a spike at stop belongs to the next window."
        ),
        "inside.sum().item() / (stop - start) → inside.double().mean().item()": (
            "this is the share of all spikes that are inside. Per second means divided by the length of the window."
        ),
        "inside.sum().item() / (stop - start) → (stop - start) / max(inside.sum().item(), 1)": (
            "this is seconds per spike. A rate is the other way round."
        ),
        "return inside.sum().item() / (stop - start) → s = spike_times[inside]; "
        "return (1 / s.diff().mean()).item() if len(s) > 1 else 0.0": (
            "this is one over the mean interval, which has one spike less and forgets the rest of the window."
        ),
        "return inside.sum().item() / (stop - start) → s = spike_times[inside]; "
        "return len(s) / (s[-1] - s[0]).item() if len(s) > 1 else 0.0": (
            "you divide by the time from the first spike to the last. The window is stop - start long, spikes or not."
        ),
    },
)
def firing_rate(spike_times, start, stop):
    """Spikes per second with start <= t < stop. spike_times (n_spikes,) in s; start and stop in s."""
    inside = (spike_times >= start) & (spike_times < stop)  # (n_spikes,), True or False
    return inside.sum().item() / (stop - start)


# Exercise 0.2: the angle of a rotation, 50 of 80 ms of 360 degrees
my_angle = ValueCheck(
    "my_angle",
    expected=225.0,
    tolerance=0.5,
    mistakes={
        0.625: "that is the share of a whole rotation. How many degrees has a whole one?",
        3.927: "that is in radians. The question asks for degrees: a whole rotation has 360, or 2π radians.",
        135.0: "that many degrees are missing to the whole rotation. How far has the arrow come?",
        -135.0: "it points there. But how far has it come, the long way round?",
        576.0: "that is 80/50 of a rotation, the wrong way round: the time that has passed is divided by the period.",
        1.6: "that is 80 / 50, the wrong way round, and not yet in degrees.",
    },
    hint="Of how many milliseconds is a whole rotation, and what share of it has passed? A whole one has 360 degrees.",
)


# Exercise 0.3: subtract the mean of each unit
def _counts(n_trials, n_units):
    """Counts (n_trials, n_units), in which each unit has a rate of its own."""
    rates = torch.linspace(1.0, 9.0, n_units).expand(n_trials, n_units)
    return torch.poisson(rates, generator=torch.Generator().manual_seed(n_trials))


@exercise(
    cases={
        "two trials of two units": lambda: (torch.tensor([[1.0, 5.0], [3.0, 9.0]]),),
        "two trials of three units": lambda: (torch.tensor([[1.0, 5.0, 2.0], [3.0, 9.0, 2.0]]),),
        "seven trials of four units": lambda: (_counts(7, 4),),
        "a single trial, which is its own mean": lambda: (_counts(1, 3),),
    },
    mistakes={
        "x - x.mean(0) → x.sub_(x.mean(0))": "x itself was changed: `x -= ...` overwrites the tensor of the caller.",
        "x.mean(0) → x.mean(1, keepdim=True)": "you took the mean over the units of each trial. Trials are axis 0.",
        "x.mean(0) → x.mean(1)": "you took the mean over the units of each trial. Trials are axis 0.",
        "x.mean(0) → x.mean()": "you subtract one mean for all. Each unit has its own.",
        "x - x.mean(0) → x.mean(0)": "these are the means themselves. Subtract them from x.",
        "x - x.mean(0) → (x - x.mean(0)) / x.std(0)": "divided by the spread as well: only the mean should go.",
        (
            "x - x.mean(0) → (x - x.mean(0)) / x.std(0, correction=0)"
        ): "divided by the spread, too: only the mean should go.",
        "x - x.mean(0) → x.mean(0) - x": "the other way round: the mean of a unit is subtracted from x.",
        "x.mean(0) → x.median(0).values": "this is the median of each unit. Subtract its mean.",
        "x.mean(0) → x.sum(0)": "this is the sum over the trials, not the mean.",
        "x - x.mean(0) → x / x.mean(0)": "you divide by the mean. Subtract it.",
    },
)
def center(x):
    """x (trials, units) minus the mean of each unit over trials."""
    return x - x.mean(0)  # (trials, units) minus (units,)


# Exercise 0.4: preferred directions by least squares, and the sum of the votes
def _reaches(angles_deg, new_deg, n_units, noise=0.0, seed=0):
    """Rates of units with other baselines, depths and preferred directions: what was seen, and new reaches."""

    def make():
        generator = torch.Generator().manual_seed(seed)
        preferred = math.tau * torch.rand(n_units, generator=generator, dtype=torch.float64)
        usual, depth = 5 + 10 * torch.rand(2, n_units, generator=generator, dtype=torch.float64)
        seen = torch.tensor(angles_deg, dtype=torch.float64).deg2rad()
        new = torch.tensor(new_deg, dtype=torch.float64).deg2rad()
        seen_rates = usual + depth * torch.cos(seen[:, None] - preferred)  # (R, n_units)
        new_rates = usual + depth * torch.cos(new[:, None] - preferred)
        chance = noise * torch.randn(len(seen), n_units, generator=generator, dtype=torch.float64)
        return seen_rates + chance, seen, new_rates

    return make


@exercise(
    cases={
        "three units, eight directions, no chance": _reaches([*range(0, 360, 45)], [20, 100, 250], 3),
        "a single new reach": _reaches([*range(0, 360, 45)], [-70], 4, seed=1),
        "rates with chance": _reaches([*range(0, 360, 30)], [10, 80, 200, 300], 6, noise=2.0, seed=2),
        "most reaches to the right, so that the mean of a unit is not its b": _reaches(
            [0, 10, 20, 30, 40, 90, 180, 270], [-40, 60, 140], 5, seed=3
        ),
    },
    mistakes={
        "(new - b) → new": "the votes count with the whole rate: what says a unit that fires as usual?",
        "new - b → new - rates.mean(0)": (
            "you take away the mean of each unit, which is b only where reaches go to all sides alike."
        ),
        " / torch.hypot(x, y) → ": "the votes of strongly tuned units are longer: each has length one.",
        "atan2(y, x) → atan2(x, y)": "cosine and sine have changed places: atan2 wants y first.",
        "atan2(y, x) → atan2(y, x).remainder(math.tau)": "the range is wrong: it is from -π to π, not from 0 to 2π.",
        "atan2(y, x) → atan(y / x)": "atan of y / x cannot tell a direction from the opposite one: use atan2.",
        "torch.atan2(y, x) → torch.atan2(y, x).rad2deg()": "the directions are in degrees, and should be in radians.",
        "(new - b) → (b - new)": (
            "the votes point the wrong way: a unit that fires *more* than usual votes for its direction."
        ),
        "rates).solution → rates - rates.mean(0)).solution": (
            "the mean of each unit was taken off before the fit, so that b is not what the unit fires without a "
            "direction."
        ),
        "(new - b).T → (new > b).double().T": (
            "every vote counts alike. A vote weighs how much more than usual the unit fires."
        ),
        "angles.cos(), angles.sin() → angles.deg2rad().cos(), angles.deg2rad().sin()": (
            "the angles are in radians already: converted once more they are all near 0."
        ),
    },
)
def first_decoder(rates, angles, new):
    """Directions (S,) in rad, from votes along (0.3). rates (R, U), angles (R,) in rad, new (S, U)."""
    design = torch.stack([torch.ones_like(angles), angles.cos(), angles.sin()], -1)  # (R, 3)
    b, x, y = torch.linalg.lstsq(design, rates).solution  # (U,) each
    votes = torch.stack([x, y]) / torch.hypot(x, y)  # (2, U), of length one
    x, y = votes @ (new - b).T  # (S,) each
    return torch.atan2(y, x)
