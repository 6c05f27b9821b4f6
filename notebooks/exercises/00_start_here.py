"""Exercises of chapter 00: a firing rate, the turn of a clock hand, counts without what is usual for each unit."""

import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck


# --------------------------------------------------------------------------------------------------- firing_rate
def _rate(spike_times, start, stop):
    return _n(spike_times, start, stop) / (stop - start)


def _n(t, start, stop):
    return int(((t >= start) & (t < stop)).sum())


def _without_window(spike_times, start, stop):
    return len(spike_times) / (stop - start)


def _both_ends(spike_times, start, stop):
    return int(((spike_times >= start) & (spike_times <= stop)).sum()) / (stop - start)


def _neither_end(spike_times, start, stop):
    return int(((spike_times > start) & (spike_times < stop)).sum()) / (stop - start)


def _wrong_end(spike_times, start, stop):
    return int(((spike_times > start) & (spike_times <= stop)).sum()) / (stop - start)


def _over_stop(spike_times, start, stop):
    return _n(spike_times, start, stop) / stop


def _over_spread(spike_times, start, stop):
    inside = spike_times[(spike_times >= start) & (spike_times < stop)]
    return len(inside) / float(inside[-1] - inside[0])


def _over_intervals(spike_times, start, stop):
    inside = spike_times[(spike_times >= start) & (spike_times < stop)]
    return 1 / float(inside.diff().mean())


def _upside_down(spike_times, start, stop):
    return (stop - start) / _n(spike_times, start, stop)


def _per_ms(spike_times, start, stop):
    return _rate(spike_times, start, stop) / 1000


def _times(*seconds: float) -> torch.Tensor:
    return torch.tensor(seconds, dtype=torch.float64)


firing_rate = Check(
    "firing_rate",
    reference=_rate,
    cases=[  # halves and quarters, which a computer holds exactly
        Case("six spikes within 2 s", lambda: (_times(0.25, 0.5, 0.75, 1.0, 1.5, 1.75), 0.0, 2.0)),
        Case("a window in the middle of the spikes", lambda: (_times(0.5, 1.25, 1.5, 1.75, 2.0, 2.75, 3.5), 1.0, 3.0)),
        Case("a spike exactly at start, which counts", lambda: (_times(0.5, 1.0, 1.25, 1.5, 3.0), 1.0, 2.0)),
        Case("a spike exactly at stop, which no longer counts", lambda: (_times(1.25, 1.5, 2.0), 1.0, 2.0)),
        Case("a window without a spike", lambda: (_times(0.5, 3.5), 1.0, 3.0)),
        Case("a window of a quarter of a second", lambda: (_times(1.0, 1.125, 1.5), 1.0, 1.25)),
    ],
    traps={
        "this is how many spikes there are, not how many per second. By how many seconds do you divide?": _n,
        "you count spikes outside the window too. Only those between start and stop belong to it.": _without_window,
        "a spike exactly at stop was counted. The window ends just before it: it belongs to the next one, "
        "or it would be counted twice.": _both_ends,
        "a spike exactly at start was not counted. The window begins with it.": _neither_end,
        "the ends are the wrong way round: a spike at start belongs to the window, one at stop no longer.": _wrong_end,
        "you divide by stop. How long is the window, when it does not begin at 0?": _over_stop,
        "you divide by the time from the first spike to the last. The window is as long as it is, "
        "wherever its spikes are.": _over_spread,
        "you go by the time between spikes. That says nothing where there is one spike or none: count, and divide "
        "by how long the window is.": _over_intervals,
        "this is seconds per spike: it is upside down.": _upside_down,
        "this is spikes per millisecond. Times here are in seconds.": _per_ms,
    },
)


# -------------------------------------------------------------------------------------------------------- center
def _center(x):
    return x - x.mean(0)


def _within_trial(x):
    return x - x.mean(1, keepdim=True)


def _axis_lost(x):
    return x - x.mean(1)


def _one_mean(x):
    return x - x.mean()


def _in_place(x):
    x -= x.mean(0)
    return x


def _divided(x):
    return (x - x.mean(0)) / (x.std(0) if len(x) > 1 else torch.nan)  # of one trial there is no spread


def _only_mean(x):
    return x.mean(0)


def _mean_minus(x):
    return x.mean(0) - x


def _sum(x):
    return x - x.sum(0)


def _counts(n_trials: int, n_units: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n_trials)
    usual = torch.linspace(1.0, 9.0, n_units)  # each unit has its own
    return torch.poisson(usual.expand(n_trials, n_units), generator=generator)


center = Check(
    "center",
    reference=_center,
    cases=[
        Case("two trials of two units", lambda: (torch.tensor([[1.0, 5.0], [3.0, 9.0]]),)),
        Case("two trials of three units", lambda: (torch.tensor([[1.0, 5.0, 2.0], [3.0, 9.0, 2.0]]),)),
        Case("seven trials of four units", lambda: (_counts(7, 4),)),
        Case("a single trial, which is just as usual", lambda: (_counts(1, 3),)),
    ],
    traps={
        "x itself was changed: `x -= ...` writes into the numbers of your caller. Give back a new tensor.": _in_place,
        "you took the mean over the units of each trial. The mean of a unit goes over the trials, and they are "
        "axis 0.": _within_trial,
        "you took the mean over axis 1, the units, and its shape does not fit x either. Trials are axis 0.": _axis_lost,
        "you subtract one mean for all. Each unit has its own: over which axis must the mean go?": _one_mean,
        "you also divide by the spread. Only the mean is to go.": _divided,
        "these are the means themselves. Subtract them from x.": _only_mean,
        "the sign is turned: x minus the mean, not the mean minus x.": _mean_minus,
        "you subtract the sum over trials. A mean is the sum divided by their number.": _sum,
    },
)


# ------------------------------------------------------------------------------------------------------ my_angle
my_angle = ValueCheck(
    "my_angle",
    expected=225.0,  # 50 of 80 ms of 360 degrees
    tolerance=0.5,
    traps={
        "that is in turns. How many degrees has a whole turn?": 0.625,
        "that is in radians. Here degrees are wanted: a whole turn has 360, or 2π radians.": 3.927,
        "that many degrees are missing to the whole turn. How far has the hand come?": 135.0,
        "the hand points that way, but say how far it has turned, counter-clockwise from 0.": -135.0,
        "it is upside down: after 50 ms a hand of period 80 ms has not made a whole turn yet.": 576.0,
    },
)
