"""Exercises of chapter 10: bins, the lag of the hand, the price of padding, a loss, the flat list, tokens, windows."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from possm_lite.blocks.positions import log_spaced_frequencies, phasors, rotate, rotate_halves
from possm_lite.classroom.checks import Case, Check, Complaint, ValueCheck, gradient, normal
from possm_lite.spikes import Recording, SpikeBatch, Timeline

# One case per result, so that a message names the result by its meaning


def _n_results(function, *args):
    result = function(*args)
    return (None,) * len(result) if isinstance(result, tuple | list) else result


def _result(index, convert):
    def observe(function, *args):
        result = function(*args)
        return convert(result[index]) if isinstance(result, tuple | list) and len(result) > index else result

    return observe


def _as_returned(value):
    return value


def _whole_numbers(value):
    """Integers in a dtype of any kind: which one is not what the exercise asks."""
    return value.long() if isinstance(value, Tensor) and (value == value.round()).all() else value


def _float64(value):
    return value.double() if isinstance(value, Tensor) else value


def _int(value):
    value = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    return value if isinstance(value, bool | str) or value % 1 else int(value)


def _each_result(situations, results, tolerance=1e-5):
    """Cases from situations, name -> make, and results, name -> conversion, in the order of the returned tuple."""
    observers = {name: _result(i, convert) for i, (name, convert) in enumerate(results.items())}
    return [Case("the number of results", next(iter(situations.values())), _n_results)] + [
        Case(f"{name}: {result}", make, observe, tolerance)
        for name, make in situations.items()
        for result, observe in observers.items()
    ]


# Exercise 10.1: bin and offset of every spike, and how many bins there are


def _bin(time_s, width_s):
    return (time_s / width_s + 1e-6).floor().long()


def _to_bins(
    time_s,
    duration_s,
    width_s,
    *,
    bin_of=_bin,
    start=lambda b, width_s: b.double() * width_s,  # an int64 tensor times a Python float would be float32
    offset=lambda time_s, start, width_s: (time_s - start).clamp(min=0.0),
    n_bins=lambda n: -((1e-6 - n) // 1),
):
    b = bin_of(time_s, width_s)
    return b, offset(time_s, start(b, width_s), width_s), int(n_bins(duration_s / width_s))


def _times(*times_s, duration_s, width_s=0.05):
    return lambda: (torch.tensor(times_s, dtype=torch.float64), duration_s, width_s)


to_bins = Check(
    "to_bins",
    reference=_to_bins,
    cases=_each_result(
        {
            "three spikes in 0.18 s": _times(0.012, 0.061, 0.149, duration_s=0.18),
            "bins of 20 ms": _times(0.012, 0.055, duration_s=0.07, width_s=0.02),
            "a trial of 0.16 s, a fifth of a bin more than three": _times(0.012, 0.155, duration_s=0.16),
            "a trial of exactly two bins, 0.1 s": _times(0.012, 0.061, duration_s=0.1),
            "a trial of 0.1 + 0.05 s, exactly three bins": _times(0.012, duration_s=0.1 + 0.05),
            "spikes on the edges of bins (0.15, 0.3, 0.35, 0.6 and 0.7 s)": _times(
                0.15, 0.3, 0.35, 0.6, 0.7, duration_s=0.98
            ),
            "spikes ten minutes into a recording": _times(597.1234, 597.3411, duration_s=597.4),
            "spikes just before an edge, by 0.4 ms and by one tick of a 30 kHz clock": _times(
                596.9996, 597.05 - 1 / 30_000, 597.2 - 1 / 30_000, duration_s=597.4
            ),
            "a trial without spikes": _times(duration_s=0.18),
        },
        {"bins of the spikes": _whole_numbers, "offsets": _float64, "number of bins": _int},
        tolerance=1e-9,
    ),
    traps={
        "a trial of exactly two bins gets a third one, empty. Rounding down and adding one is right only where the "
        "duration is no multiple of the width.": partial(_to_bins, n_bins=lambda n: n // 1 + 1),
        "an extra empty bin where the duration is an exact multiple of the width: 0.1 + 0.05 is a hair more than 0.15, "
        "and rounding up makes a bin of the hair. Take off a millionth of a bin first.": (
            partial(_to_bins, n_bins=lambda n: -(-n // 1))
        ),
        "the end of the trial has no bin: where the duration is no multiple of the width, the last bin is a part of "
        "one, and counts too.": partial(_to_bins, n_bins=lambda n: (n + 1e-6) // 1),
        "the number of bins is rounded to the *nearest*. A trial of 3.2 bins needs a fourth one: round up.": (
            partial(_to_bins, n_bins=lambda n: (n + 0.5) // 1)
        ),
        "what you add before you round down is too much: a thousandth of a bin is more than a tick of a 30 kHz clock, "
        "and a spike just before an edge falls into the next bin. Add a millionth.": (
            partial(_to_bins, bin_of=lambda t, w: (t / w + 1e-3).floor().long())
        ),
        "the times became float32 before they were divided: ten minutes into a recording its steps are 0.06 ms, and a "
        "spike just before an edge falls into the next bin.": (
            partial(_to_bins, bin_of=lambda t, w: (t.float() / w + 1e-6).floor().long())
        ),
        "the times were rounded to ms before they were divided: a spike just before an edge falls into the next bin.": (
            partial(_to_bins, bin_of=lambda t, w: _bin((1000 * t).round() / 1000, w))
        ),
        "the bins end with the last spike. A trial may end in silence: count them from its duration.": (
            lambda time_s, *rest: (*_to_bins(time_s, *rest)[:2], 1 + max(_bin(time_s, rest[1]).tolist(), default=-1))
        ),
        "spikes on an edge fall into the bin before: 0.15 / 0.05 is 2.9999999999999996 in floating point. Add a "
        "millionth of a bin before you round down.": (partial(_to_bins, bin_of=lambda t, w: (t / w).floor().long())),
        "spikes go to the *nearest* edge. A bin goes from its start to the start of the next one: round down.": (
            partial(_to_bins, bin_of=lambda t, w: (t / w).round().long(), offset=lambda t, start, w: t - start)
        ),
        "bins are counted from 0 here, yours from 1.": (
            partial(_to_bins, bin_of=lambda t, w: _bin(t, w) + 1, start=lambda b, w: (b - 1).double() * w)
        ),
        "a spike exactly on an edge has offset 0, not a whole bin. The remainder of a division is rounded as badly as "
        "the division: subtract the start of the bin instead.": (
            partial(_to_bins, offset=lambda t, start, w: torch.remainder(t, w))
        ),
        "the bins are right, but late in a recording the offsets are off by microseconds: somewhere the starts of bins "
        "became float32. `bin * width` is float32 if `bin` holds whole numbers: write `bin.double() * width`.": (
            partial(_to_bins, start=lambda b, w: b * w)
        ),
        "the bins are right, but the starts of bins became float32: a spike on an edge comes out a few nanoseconds "
        "before its bin, and late in a recording offsets are off by microseconds. `bin * width` is float32 if `bin` "
        "holds whole numbers: write `bin.double() * width`.": (
            partial(_to_bins, start=lambda b, w: b * w, offset=lambda t, start, w: t - start)  # without a clamp
        ),
        "the offsets still count from the start of the trial. Subtract the start of the spike's own bin.": (
            partial(_to_bins, offset=lambda t, start, w: t)
        ),
        "the offsets are in bins, not in seconds.": (partial(_to_bins, offset=lambda t, start, w: (t - start) / w)),
        "the offsets are rounded to float32 at the end. Here they stay in float64.": (
            partial(_to_bins, offset=lambda t, start, w: (t - start).clamp(min=0.0).float())
        ),
    },
)


# Exercise 10.2: pairs of counts and velocity, one later than the other


def _lagged(counts, velocity, lag_bins):
    n = len(counts) - abs(lag_bins)
    first, late = max(-lag_bins, 0), max(lag_bins, 0)
    return counts[first : first + n], velocity[late : late + n]


def _empty_at_zero(counts, velocity, lag_bins):
    if lag_bins < 0:
        return counts[-lag_bins:], velocity[:lag_bins]
    return counts[:-lag_bins], velocity[lag_bins:]


def _filled_with_zeros(counts, velocity, lag_bins):
    paired = _lagged(counts, velocity, lag_bins)[1]
    rows = velocity.new_zeros(abs(lag_bins), velocity.shape[1])
    return counts, torch.cat([paired, rows] if lag_bins > 0 else [rows, paired])


def _numbered(n_bins, lag_bins):
    """Counts and velocities that say which bin they are from."""
    row = torch.arange(1.0, n_bins + 1)[:, None]
    return 10 * row + torch.arange(3), 100 * row + torch.arange(2), lag_bins


lagged = Check(
    "lagged",
    reference=_lagged,
    cases=_each_result(
        {
            "six bins and a lag of one": partial(_numbered, 6, 1),
            "twenty bins and a lag of three": partial(_numbered, 20, 3),
            "a lag of 0": partial(_numbered, 6, 0),
            "a negative lag, -2, where the hand comes before its spikes": partial(_numbered, 6, -2),
        },
        {"counts": _as_returned, "velocity": _as_returned},
    ),
    traps={
        "the sign is wrong: with a positive lag the velocity must be *later* than the counts beside it.": (
            lambda counts, velocity, lag_bins: _lagged(counts, velocity, -lag_bins)
        ),
        "rolled round: the velocities of the start are now beside the counts of the end. Bins that have no partner "
        "must be left out.": lambda counts, velocity, lag_bins: (counts, velocity.roll(-lag_bins, 0)),
        "right for other lags, but with a lag of 0 nothing is left: `[:-0]` is the same as `[:0]`. Count from the "
        "front, up to `T - lag`.": _empty_at_zero,
        "right up to a lag of 0. With a negative one the roles change: then the first *counts* have no partner.": (
            lambda counts, velocity, lag_bins: (counts[: len(counts) - lag_bins], velocity[lag_bins:])
        ),
        "a negative lag is treated as a positive one.": (
            lambda counts, velocity, lag_bins: _lagged(counts, velocity, abs(lag_bins))
        ),
        "counts and velocity must come out equally long: what has no partner goes, in both.": (
            lambda counts, velocity, lag_bins: (counts, _lagged(counts, velocity, lag_bins)[1])
        ),
        "missing velocities are filled with zeros, so the decoder would learn that the hand rests there. Leave these "
        "bins out.": _filled_with_zeros,
    },
)


# Exercise 10.3: bins of 4, 0, 2 and of 1, 5 spikes. Slots 2 x 3 x 5 = 30, tokens 4 + 1 + 2 and 1 + 5, in all 13

padding_share = ValueCheck(
    "padding_share",
    expected=17 / 30,
    tolerance=0.005,
    traps={
        "one token is missing in your count: an empty bin holds a blank one.": 18 / 30,
        "the second trial has two bins, but in the table it takes as many as the longest trial.": 12 / 25,
        "each trial is padded to its own fullest bin here. The table has one size for all: the fullest bin of the "
        "batch.": 9 / 22,
        "that is the share of slots that are *used*. Padding is the rest.": 13 / 30,
        "in percent? A share lies between 0 and 1.": 100 * 17 / 30,
        "that is how many slots are padding. Divide by how many slots there are.": 17.0,
    },
)


# Exercise 10.4: a mean that knows how long each trial is


def _is_real(vel, n_bins):
    return torch.arange(vel.shape[1]) < n_bins[:, None]  # (B, T)


def _masked_mse(
    predicted, vel, n_bins, *, is_real=_is_real, average=lambda a, b, real: (a[real] - b[real]).square().mean()
):
    return average(predicted, vel, is_real(vel, n_bins))


def _mean_of_trial_means(predicted, vel, n_bins):
    trials = zip(predicted.split(1), vel.split(1), n_bins.split(1), strict=True)
    return torch.stack([_masked_mse(*trial) for trial in trials]).mean()


def _trials(*lengths, longest, fill=0.0, resting=False):
    predicted, vel = normal(2, len(lengths), longest, 2, seed=10)
    n_bins = torch.tensor(lengths)
    if resting:
        vel[:, 1] = 0.0
    return predicted, torch.where(_is_real(vel, n_bins)[..., None], vel, fill), n_bins


_nan_padded = partial(_trials, 2, 4, longest=4, fill=float("nan"))


def _nan_in_both():
    predicted, vel, n_bins = _nan_padded()
    return predicted.where(_is_real(vel, n_bins)[..., None], float("nan")), vel, n_bins


masked_mse = Check(
    "masked_mse",
    reference=_masked_mse,
    cases=[
        Case("two trials of equal length", partial(_trials, 3, 3, longest=3)),
        Case("a short trial beside a long one", partial(_trials, 1, 4, longest=4)),
        Case("a batch padded further than its longest trial", partial(_trials, 2, 5, 3, longest=7)),
        Case("a hand that rests, with velocity 0, in mid-trial", partial(_trials, 3, 5, longest=5, resting=True)),
        Case("padding that holds NaN", _nan_padded),
        Case("padding that holds NaN in both tables", _nan_in_both),
        Case("the gradient, where padding holds NaN", _nan_padded, gradient(0)),
        Case("the gradient, where padding of both tables holds NaN", _nan_in_both, gradient(0)),
    ],
    traps={
        "padding is in your mean. Did you measure how long the trials are on the padded table? There every trial is as "
        "long as the longest. Use `n_bins`.": partial(_masked_mse, average=lambda a, b, real: (a - b).square().mean()),
        "padding is out of the sum, but still in the number you divide by: a batch with more padding looks better.": (
            partial(_masked_mse, average=lambda a, b, real: (a[real] - b[real]).square().sum() / b.numel())
        ),
        "you divide by the right number, but what the padding holds is still in the sum.": (
            partial(_masked_mse, average=lambda a, b, real: (a - b).square().sum() / (2 * real.sum()))
        ),
        "you average within each trial first, then over trials, so a bin of a short trial weighs more. (10.5) gives "
        "every real bin the same weight.": _mean_of_trial_means,
        "twice too large: you sum over x and y. (10.5) divides by two times the number of bins.": (
            lambda predicted, vel, n_bins: 2 * _masked_mse(predicted, vel, n_bins)
        ),
        "each trial takes one bin of padding with it: bin numbers begin at 0, so the last real one is n_bins - 1.": (
            partial(_masked_mse, is_real=lambda vel, n_bins: _is_real(vel, n_bins + 1))
        ),
        "bins with velocity 0 are taken for padding. A hand that rests is data: the lengths say what is real, not the "
        "values.": partial(_masked_mse, is_real=lambda vel, n_bins: (vel != 0).any(-1)),
        "right until padding holds NaN: 0 times NaN is NaN. Pick the real entries out, do not multiply the others by "
        "0.": (
            partial(_masked_mse, average=lambda a, b, real: ((a - b) ** 2 * real[..., None]).sum() / real.sum() / 2)
        ),
        "the value is right, its gradient is NaN: `where` came after the square, and in the backward pass 0 times NaN "
        "is NaN. Pick the real entries *before* you subtract.": (
            partial(
                _masked_mse,
                average=lambda a, b, real: ((a - b) ** 2).where(real[..., None], 0).sum() / real.sum() / 2,
            )
        ),
    },
)


# Exercise 10.5: the box without its padding


def _bin_numbers(tokens):
    """Index of every bin that exists: each holds a token, be it the blank one. (B, T)."""
    exists = tokens.any(-1)
    return (exists.flatten().cumsum(0) - 1).view_as(exists)


def _unpadded(padded_bin, spike_mask, *, is_token=lambda slots, mask: mask, numbers=_bin_numbers):
    tokens = is_token(padded_bin, spike_mask)  # (B, T, M)
    unit, offset = padded_bin[tokens].unbind(-1)  # (N,) each
    return unit.long(), offset, numbers(spike_mask)[..., None].expand_as(tokens)[tokens]


def _gap_in_mask():
    """A bin whose middle slot holds no token, and one whose first does not."""
    slots, mask = _box([2, 3], [1, 3])
    mask[0, 1, 1] = mask[1, 1, 0] = False
    return slots, mask


def _no_blanks(slots, mask):
    return mask & (slots[..., 0] > 0)


def _sorted_by_offset(unit, offset, b):
    order = sorted(range(len(b)), key=lambda i: (b[i].item(), offset[i].item()))
    return unit[order], offset[order], b[order]


def _box(*trials, fill=0.0, first_offset_s=0.004, shuffled=False):
    """A padded box, from how many spikes each bin of each trial holds; `shuffled`: the last spike of a bin first."""
    events = [
        (trial, 1 + (3 * b + slot) % 5, 0.05 * b + first_offset_s + 0.007 * slot)
        for trial, bins in enumerate(trials)
        for b, n in enumerate(bins)
        for slot in (reversed(range(n)) if shuffled else range(n))
    ]
    trial, unit, time_s = zip(*events, strict=True)
    padded = SpikeBatch.from_events(trial, unit, time_s, len(trials), [0.05 * len(bins) for bins in trials]).padded()
    return padded.padded_bin.masked_fill(~padded.spike_mask[..., None], fill), padded.spike_mask


unpadded = Check(
    "unpadded",
    reference=_unpadded,
    cases=_each_result(
        {
            "one trial of two equally full bins": partial(_box, [2, 2]),
            "one trial with bins of 1, 3 and 2 spikes": partial(_box, [1, 3, 2]),
            "a trial with a silent bin in its middle": partial(_box, [2, 0, 1]),
            "two trials of equal length": partial(_box, [1, 2], [2, 1]),
            "a short trial before a long one": partial(_box, [2], [1, 3, 1]),
            "spikes exactly at the start of their bin": partial(_box, [1, 2], [1], first_offset_s=0.0),
            "padding that holds 7 where you expect 0": partial(_box, [1], [2, 0, 1], fill=7.0),
            "slots without a token before others that hold one": _gap_in_mask,
            "bins whose spikes are not in the order of time": partial(_box, [3, 1], [2], shuffled=True),
        },
        {"unit": _as_returned, "offset": _as_returned, "bin": _as_returned},
        tolerance=1e-9,
    ),
    traps={
        "padding is still in the list. Only the slots where `spike_mask` is True hold a token.": (
            lambda padded_bin, spike_mask: _unpadded(padded_bin, torch.ones_like(spike_mask))
        ),
        "these are the numbers of the bins in the box, where every trial has as many as the longest. In the list, bins "
        "that do not exist have no number: the next trial goes on where the last one ended.": (
            partial(_unpadded, numbers=lambda mask: torch.arange(mask[..., 0].numel()).view(mask.shape[:2]))
        ),
        "every trial begins with bin 0 again, so bins of different trials would be read as one. Carry the number on "
        "from trial to trial.": (
            partial(_unpadded, numbers=lambda mask: torch.arange(mask.shape[1]).expand(mask.shape[:2]))
        ),
        "the blank tokens are gone: unit 0, where `spike_mask` is True, is no padding. Without them a silent bin has "
        "nothing to be read.": partial(_unpadded, is_token=_no_blanks),
        "bins are numbered only where there are spikes, so after a silent bin all numbers are one too small. Silence "
        "is a bin as well, with its blank token.": (
            lambda padded_bin, spike_mask: _unpadded(padded_bin, _no_blanks(padded_bin, spike_mask))
        ),
        "you take an offset of 0 for a sign of padding. A blank token has offset 0 as well, and so may a spike. Ask "
        "the mask, not the values.": partial(_unpadded, is_token=lambda slots, mask: slots[..., 1] > 0),
        "bins are counted from 0 here, yours from 1.": (
            partial(_unpadded, numbers=lambda mask: _bin_numbers(mask) + 1)
        ),
        "you sorted the tokens of a bin by their offset. The list is in the order of the slots, whatever they hold.": (
            lambda padded_bin, spike_mask: _sorted_by_offset(*_unpadded(padded_bin, spike_mask))
        ),
    },
)


# Exercise 10.6: the token of a spike


def _phase(offset, omega):
    return phasors(offset, omega, torch.float32)  # (N, D/2)


def _offset(time_s, b, width_s):
    return time_s - b.double() * width_s


def _spike_tokens(unit, time_s, b, E, omega, width_s, *, offset=_offset, phase=_phase, rotate=rotate):
    return rotate(E[unit], phase(offset(time_s, b, width_s), omega))


def _float32_phase(offset, omega):
    angle = offset.float()[:, None] * omega.float()
    return torch.complex(angle.cos(), angle.sin())


def _rotate_in_place(x, phase):
    """The first line overwrites the x that the second one needs."""
    x = x.clone()
    x[:, 0::2] = x[:, 0::2] * phase.real - x[:, 1::2] * phase.imag
    x[:, 1::2] = x[:, 0::2] * phase.imag + x[:, 1::2] * phase.real
    return x


def _rotate_without_interleaving(x, phase):
    rotated = rotate(x, phase)
    return torch.cat([rotated[:, 0::2], rotated[:, 1::2]], -1)


def _spikes(name, units, times_s, bins, shortest_s=0.01):
    def make():
        time_s, omega = torch.tensor(times_s, dtype=torch.float64), log_spaced_frequencies(4, shortest_s, 0.4)
        return torch.tensor(units), time_s, torch.tensor(bins), normal(5, 8), omega, 0.05

    return Case(name, make)


spike_tokens = Check(
    "spike_tokens",
    reference=_spike_tokens,
    cases=[
        _spikes("a spike at the very start", [2], [0.0], [0]),
        _spikes("three spikes of the first bin", [1, 4, 1], [0.003, 0.021, 0.0478], [0, 0, 0]),
        _spikes("spikes of later bins", [3, 1, 3], [0.0512, 0.1307, 0.1964], [1, 2, 3]),
        _spikes("a blank token among spikes", [1, 0, 2], [0.012, 0.05, 0.1123], [0, 1, 2]),
        _spikes("tokens on the edges of bins, at 0.15 and 0.3 s", [0, 2], [0.15, 0.3], [3, 6]),
        _spikes("a period of 0.1 ms", [1, 2, 3, 4], [0.01933, 0.02871, 0.03917, 0.04753], [0] * 4, shortest_s=1e-4),
        _spikes("spikes ten minutes into a recording", [1, 2], [597.1234, 597.3411], [11942, 11946]),
    ],
    traps={
        "rotated by the time since the start of the trial. The angle needs the time inside the bin.": (
            partial(_spike_tokens, offset=lambda t, b, w: t)
        ),
        "right, except for the fastest frequencies: the angle was float32. It reaches 3,000 rad within a bin, so "
        "multiply in float64 and make only the finished sine and cosine float32.": (
            partial(_spike_tokens, phase=_float32_phase)
        ),
        "nearly right at the fastest frequencies: the offset was float32. A period of 0.1 ms makes 500 rotations in a "
        "bin, and multiplies the rounding by as much. Stay in float64 up to the sine and the cosine.": (
            partial(_spike_tokens, offset=lambda t, b, w: _offset(t, b, w).float().double())
        ),
        "the times became float32 before the start of the bin was subtracted. They are large, an offset is small: "
        "subtract in float64.": (partial(_spike_tokens, offset=lambda t, b, w: _offset(t.float().double(), b, w))),
        "a token exactly on an edge has offset 0, not a whole bin: subtract the start of the bin that you are given.": (
            partial(_spike_tokens, offset=lambda t, b, w: torch.remainder(t, w))
        ),
        "x was overwritten with its new value before y was computed, and y needs the old one. Keep x and y as they "
        "were, and compute both from them.": partial(_spike_tokens, rotate=_rotate_in_place),
        "right, except late in a recording: the start of the bin was float32. Write `b.double() * width_s`.": (
            partial(_spike_tokens, offset=lambda t, b, w: t - b * w)
        ),
        "rotated the wrong way: look at the sign of the sine. A pair (x, y) becomes (x cos − y sin, x sin + y cos).": (
            partial(_spike_tokens, phase=lambda offset, omega: _phase(-offset, omega))
        ),
        "paired by halves: here coordinate 2j rotates with 2j + 1, its neighbour, not with the one half a vector "
        "away.": partial(_spike_tokens, rotate=rotate_halves),
        "the rotation is right, but the result is all x, then all y. Put each pair back where it was: `torch.stack` "
        "along a last axis, then flatten.": partial(_spike_tokens, rotate=_rotate_without_interleaving),
        "the sines and cosines of the time are *added* to the vector of the unit. Rotate the vector by it.": (
            partial(_spike_tokens, rotate=lambda x, phase: x + torch.stack([phase.imag, phase.real], -1).flatten(1))
        ),
        "that is the vector of the unit alone. The time is not in it.": (
            partial(_spike_tokens, rotate=lambda x, phase: x)
        ),
        "omega is in rad/s already: the angle is omega times the offset, without another 2π.": (
            partial(_spike_tokens, phase=lambda offset, omega: _phase(2 * torch.pi * offset, omega))
        ),
        "each unit gets the vector of the unit before: row 0 of E belongs to the blank token, and unit u has row u, "
        "with nothing subtracted.": lambda unit, *rest: _spike_tokens(unit - 1, *rest),
        "the blank token was made zero. Row 0 of E is learned like the others: silence has a vector of its own.": (
            lambda unit, *rest: _spike_tokens(unit, *rest) * (unit > 0)[:, None]
        ),
    },
)


# Exercise 10.7: build it, windows at random positions as a ragged batch with targets


def _training_windows(
    recording,
    begin,
    end,
    n,
    window_s,
    lag_s,
    width_s,
    rng,
    *,
    last=lambda end, window_s: end - window_s,
    place=lambda starts, width_s: starts,
    cut=lambda recording, starts, window_s, lag_s, width_s: Timeline(recording, lag_s, width_s).cut(starts, window_s),
    change=lambda result, starts, batch: {},
):
    starts = place(rng.uniform(begin, last(end, window_s), n), width_s)
    batch = cut(recording, starts, window_s, lag_s, width_s)
    result = {"starts": starts, "unit": batch.unit, "offset": batch.offset, "bin": batch.bin}
    result |= {"times": batch.times_s, "velocity": batch.behavior, "mask": batch.mask}
    return result | change(result, starts, batch)


def _lag_of_behavior_too(recording, starts, window_s, lag_s, width_s):
    return Timeline(recording, 0.0, width_s).cut(starts - lag_s, window_s)


def _without_blanks(result, starts, batch):
    return {name: result[name][batch.unit > 0] for name in ("unit", "offset", "bin")}


def _floor_without_tolerance(result, starts, batch):
    """Bins of the spikes by rounding down alone; the tokens keep their order."""
    b = batch.bin + batch.offset / batch.bin_width_s
    on_edge = (batch.unit > 0) & (batch.offset < 1e-9) & (batch.bin > 0)
    return {"bin": torch.where(on_edge, b.round().long() - 1, batch.bin)}


NAMES = ("starts", "unit", "offset", "bin", "times", "velocity", "mask")


def _names(function, *args):
    result = function(*args)
    if not isinstance(result, dict):
        raise Complaint(f"expected a dict with the keys {', '.join(NAMES)}, got a {type(result).__name__}.")
    return ", ".join(sorted(map(str, result)))


def _entry(name):
    """Observe one entry, from NumPy or torch, in one dtype; what padding holds is not compared."""

    def observe(function, *args):
        result = function(*args)
        value = torch.as_tensor(np.asarray(result[name]))
        if name in ("times", "velocity"):
            mask = torch.as_tensor(np.asarray(result["mask"])).bool()
            if value.shape[:2] == mask.shape:
                value = torch.where(mask[..., None] if name == "velocity" else mask, value.double(), 0.0)
            return value
        return value.bool() if name == "mask" else value.double() if name in ("starts", "offset") else value.long()

    return observe


def _session(*, begins=0.0, silent=False, gap=False, on_edges=False):
    """Ten seconds of four units, and behaviour at 100 Hz."""
    draw, times = np.random.default_rng(7), begins + np.arange(1000) / 100
    spike_times = begins + np.sort(draw.uniform(0, 10, 60 if silent else 600))
    if on_edges:
        spike_times = begins + np.array([3.0, 3.15, 3.3, 3.35])
    seen = (times < begins + 4.2) | (times >= begins + 4.5) if gap else times >= begins
    return Recording(
        spike_times,
        draw.integers(0, 4, len(spike_times)),
        ["a", "b", "c", "d"],
        times[seen],
        np.stack([np.sin(times), np.cos(3 * times)], 1)[seen],
    )


def _draw(begin, end, n, window_s=1.0, lag_s=0.0, width_s=0.05, **session):
    return lambda: (_session(**session), begin, end, n, window_s, lag_s, width_s, np.random.default_rng(3))


_WINDOWS = {
    "one window": _draw(2.0, 8.0, 1),
    "three windows": _draw(2.0, 8.0, 3),
    "three windows with silent bins": _draw(2.0, 8.0, 3, silent=True),
    "a lag of 0.1 s": _draw(2.0, 8.0, 3, lag_s=0.1),
    "a part just as long as a window, with spikes on edges of bins": _draw(3.0, 3.5, 1, window_s=0.5, on_edges=True),
    "windows of 0.35 s, seven bins": _draw(2.0, 8.0, 2, window_s=0.35),
    "bins of 20 ms": _draw(2.0, 8.0, 2, width_s=0.02),
    "windows of 0.51 s, a fifth of a bin more than ten": _draw(2.0, 8.0, 2, window_s=0.51),
    "windows of 0.1 + 0.05 s, exactly three bins": _draw(2.0, 8.0, 2, window_s=0.1 + 0.05),
    "behaviour with a gap": _draw(3.0, 6.0, 4, gap=True),
    "a recording whose clock begins at 5,000 s": _draw(5002.0, 5008.0, 2, begins=5000.0),
}

training_windows = Check(
    "training_windows",
    reference=_training_windows,
    cases=[
        Case("the keys of the dict", _WINDOWS["one window"], _names),
        *(
            Case(f"{name}: {entry}", make, _entry(entry), 1e-7)
            for name, make in _WINDOWS.items()
            for entry in ("starts", "unit", "bin", "offset", "mask", "times", "velocity")
        ),
    ],
    traps={
        "windows may begin at any time up to `end`, so the last ones reach beyond the part, into data that are not for "
        "training. A window must also end inside.": partial(_training_windows, last=lambda end, window_s: end),
        "the starts were rounded to a grid of bins. A window may begin at any time: take what `rng.uniform` gives.": (
            partial(_training_windows, place=lambda starts, width_s: np.round(starts / width_s) * width_s)
        ),
        "the sign of the lag: the spikes of a window come lag_s *before* its behaviour.": (
            partial(
                _training_windows,
                cut=lambda r, starts, window_s, lag_s, w: Timeline(r, -lag_s, w).cut(starts, window_s),
            )
        ),
        "the lag is left out: the spikes are those of the same time as the behaviour.": (
            partial(
                _training_windows,
                cut=lambda r, starts, window_s, lag_s, w: Timeline(r, 0.0, w).cut(starts, window_s),
            )
        ),
        "spikes *and* behaviour were moved by the lag, so both are again from the same time. Move the spikes alone.": (
            partial(_training_windows, cut=_lag_of_behavior_too)
        ),
        "bins without spikes have no token. Each needs a blank one: unit 0, offset 0.": (
            partial(_training_windows, change=_without_blanks)
        ),
        "units are counted from 1 in a batch, 0 is the blank token: add 1 to `spike_units`.": (
            partial(
                _training_windows,
                change=lambda result, starts, batch: {"unit": torch.where(batch.unit > 0, batch.unit - 1, 0)},
            )
        ),
        "every window begins with bin 0 again. Bins are counted through the batch.": (
            partial(
                _training_windows,
                change=lambda result, starts, batch: {"bin": batch.bin % int(batch.n_bins[0])},
            )
        ),
        "the offsets count from the start of the window. Subtract the start of the spike's own bin.": (
            partial(
                _training_windows,
                change=lambda result, starts, batch: {
                    "offset": torch.where(
                        batch.unit > 0,
                        batch.offset + batch.bin_width_s * (batch.bin % int(batch.n_bins[0])),
                        batch.offset,
                    )
                },
            )
        ),
        "spikes on the edge of a bin are in the bin before. Add a millionth of a bin before you round down (10.2).": (
            partial(_training_windows, change=_floor_without_tolerance)
        ),
        "the mask is True everywhere. Where samples are missing a window is filled up, and the filling is no data.": (
            partial(_training_windows, change=lambda result, starts, batch: {"mask": torch.ones_like(batch.mask)})
        ),
        "the times of the samples are those of the session. Subtract the start of their window.": (
            partial(
                _training_windows,
                change=lambda result, starts, batch: {"times": batch.times_s + torch.from_numpy(starts)[:, None]},
            )
        ),
    },
)
