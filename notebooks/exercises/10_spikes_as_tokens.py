"""Exercises of chapter 10: bins, the lag of the hand, the price of padding, a loss; those on tokens are imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from possm_lite.blocks.positions import log_spaced_frequencies, phasors, rotate, rotate_halves
from possm_lite.classroom.checks import Case, Check, ValueCheck
from possm_lite.spikes.batch import SpikeBatch, bin_index, count_bins

# Exercise 10.1: bin and offset of every spike, and how many bins there are


def _plainly(function: Callable, *args: Any) -> Any:
    """Whether whole numbers come as int64 or as something else is not what this exercise asks."""
    result = function(*args)
    if not isinstance(result, tuple) or len(result) != 3:
        return result
    bin_, offset, n_bins = result
    bin_ = bin_.long() if isinstance(bin_, Tensor) and (bin_ == bin_.round()).all() else bin_
    offset = offset.double() if isinstance(offset, Tensor) else offset
    n_bins = n_bins.item() if isinstance(n_bins, Tensor) and n_bins.numel() == 1 else n_bins
    return bin_, offset, n_bins if isinstance(n_bins, bool | str) else int(n_bins)


def _bins(time_s: Tensor, width_s: float) -> Tensor:
    return torch.from_numpy(bin_index(time_s.numpy(), width_s))


def _starts(bin_: Tensor, width_s: float) -> Tensor:
    return bin_.double() * width_s  # a bin number times a Python float would be float32


def _to_bins(time_s: Tensor, duration_s: float, width_s: float) -> tuple:
    bin_ = _bins(time_s, width_s)
    offset = (time_s - _starts(bin_, width_s)).clamp(min=0.0)
    return bin_, offset, int(count_bins(duration_s, width_s))


def _with(bins: Callable | None = None, offset: Callable | None = None, n_bins: Callable | None = None) -> Callable:
    """The right answer with one of its three parts made otherwise."""

    def to_bins(time_s: Tensor, duration_s: float, width_s: float) -> tuple:
        b, dt, n = _to_bins(time_s, duration_s, width_s)
        if bins is not None:
            b = bins(time_s, width_s)
            dt = time_s - _starts(b, width_s)
        dt = dt if offset is None else offset(time_s, b, width_s)
        return b, dt, n if n_bins is None else int(n_bins(duration_s / width_s))

    return to_bins


def _up_to_last_spike(time_s: Tensor, duration_s: float, width_s: float) -> tuple:
    bin_, offset, _ = _to_bins(time_s, duration_s, width_s)
    return bin_, offset, 1 + max(bin_.tolist(), default=-1)


def _times(*times_s: float, duration_s: float, width_s: float = 0.05) -> Callable[[], tuple]:
    return lambda: (torch.tensor(times_s, dtype=torch.float64), duration_s, width_s)


to_bins = Check(
    "to_bins",
    reference=_to_bins,
    cases=[
        Case("three spikes in 0.18 s", _times(0.012, 0.061, 0.149, duration_s=0.18), _plainly, 1e-9),
        Case("bins of 20 ms", _times(0.012, 0.055, duration_s=0.07, width_s=0.02), _plainly, 1e-9),
        Case("a trial of exactly two bins, 0.1 s", _times(0.012, 0.061, duration_s=0.1), _plainly, 1e-9),
        Case("a trial of 0.1 + 0.05 s, exactly three bins", _times(0.012, duration_s=0.1 + 0.05), _plainly, 1e-9),
        Case(
            "spikes on the edges of bins (0.15, 0.3, 0.35, 0.6 and 0.7 s)",
            _times(0.15, 0.3, 0.35, 0.6, 0.7, duration_s=0.98),
            _plainly,
            1e-9,
        ),
        Case("spikes ten minutes into a recording", _times(597.1234, 597.3411, duration_s=597.4), _plainly, 1e-9),
        Case("a trial without spikes", _times(duration_s=0.18), _plainly, 1e-9),
    ],
    traps={
        "a trial of exactly two bins gets a third one, empty. Rounding down and adding one is right only where the "
        "duration is no multiple of the width.": _with(n_bins=lambda x: x // 1 + 1),
        "an extra empty bin where the duration is an exact multiple of the width: 0.1 + 0.05 is a hair more than 0.15, "
        "and rounding up makes a bin of the hair. Take off a millionth of a bin first.": _with(
            n_bins=lambda x: -(-x // 1)
        ),
        "the end of the trial has no bin: where the duration is no multiple of the width, the last bin is a part of "
        "one, and counts too.": _with(n_bins=lambda x: (x + 1e-6) // 1),
        "the bins end with the last spike. A trial may end in silence: count them from its duration.": (
            _up_to_last_spike
        ),
        "spikes on an edge fall into the bin before: 0.15 / 0.05 is 2.9999999999999996 in floating point. Add a "
        "millionth of a bin before you round down.": _with(bins=lambda t, w: (t / w).floor().long()),
        "spikes go to the *nearest* edge. A bin goes from its start to the start of the next one: round down.": _with(
            bins=lambda t, w: (t / w).round().long()
        ),
        "bins are counted from 0 here, yours from 1.": _with(
            bins=lambda t, w: _bins(t, w) + 1, offset=lambda t, b, w: t - _starts(b - 1, w)
        ),
        "a spike that stands on an edge has offset 0, not a whole bin. The remainder of a division has the same "
        "rounding trouble as the division: subtract the start of the bin instead.": _with(
            offset=lambda t, b, w: torch.remainder(t, w)
        ),
        "the bins are right, but late in a recording the offsets are off by microseconds: somewhere the starts of bins "
        "became float32. `bin * width` is float32 if `bin` holds whole numbers: write `bin.double() * width`.": _with(
            offset=lambda t, b, w: (t - b * w).clamp(min=0.0)
        ),
        "the offsets still count from the start of the trial. Subtract the start of the spike's own bin.": _with(
            offset=lambda t, b, w: t
        ),
        "the offsets are in bins, not in seconds.": _with(offset=lambda t, b, w: (t - _starts(b, w)) / w),
    },
)


# Exercise 10.2: pairs of counts and velocity, one later than the other


def _lagged(counts: Tensor, velocity: Tensor, lag_bins: int) -> tuple[Tensor, Tensor]:
    n = len(counts) - abs(lag_bins)
    first, late = max(-lag_bins, 0), max(lag_bins, 0)
    return counts[first : first + n], velocity[late : late + n]


def _wrong_sign(counts: Tensor, velocity: Tensor, lag_bins: int) -> tuple[Tensor, Tensor]:
    return _lagged(counts, velocity, -lag_bins)


def _rolled(counts: Tensor, velocity: Tensor, lag_bins: int) -> tuple[Tensor, Tensor]:
    return counts, velocity.roll(-lag_bins, 0)


def _empty_at_zero(counts: Tensor, velocity: Tensor, lag_bins: int) -> tuple[Tensor, Tensor]:
    if lag_bins < 0:
        return counts[-lag_bins:], velocity[:lag_bins]
    return counts[:-lag_bins], velocity[lag_bins:]


def _minus_from_the_end(counts: Tensor, velocity: Tensor, lag_bins: int) -> tuple[Tensor, Tensor]:
    return counts[: len(counts) - lag_bins], velocity[lag_bins:]


def _sign_forgotten(counts: Tensor, velocity: Tensor, lag_bins: int) -> tuple[Tensor, Tensor]:
    return _lagged(counts, velocity, abs(lag_bins))


def _only_one_cut(counts: Tensor, velocity: Tensor, lag_bins: int) -> tuple[Tensor, Tensor]:
    return counts, _lagged(counts, velocity, lag_bins)[1]


def _filled_with_zeros(counts: Tensor, velocity: Tensor, lag_bins: int) -> tuple[Tensor, Tensor]:
    filled = torch.zeros_like(velocity)
    _, kept = _lagged(counts, velocity, lag_bins)
    first = max(-lag_bins, 0)
    filled[first : first + len(kept)] = kept
    return counts, filled


def _numbered(n_bins: int, lag_bins: int) -> Callable[[], tuple]:
    """Counts and velocities that say which bin they are from."""

    def make() -> tuple:
        at = torch.arange(1.0, n_bins + 1)[:, None]
        return 10 * at + torch.arange(3), 100 * at + torch.arange(2), lag_bins

    return make


lagged = Check(
    "lagged",
    reference=_lagged,
    cases=[
        Case("six bins and a lag of one", _numbered(6, 1)),
        Case("twenty bins and a lag of three", _numbered(20, 3)),
        Case("a lag of 0", _numbered(6, 0)),
        Case("a negative lag, -2: the hand comes before its spikes", _numbered(6, -2)),
    ],
    traps={
        "the sign is wrong: with a positive lag the velocity must be *later* than the counts beside it.": _wrong_sign,
        "rolled round: the velocities of the start now stand beside the counts of the end. Bins that have no partner "
        "must be left out.": _rolled,
        "right for other lags, but with a lag of 0 nothing is left: `[:-0]` is the same as `[:0]`. Count from the "
        "front, up to `T - lag`.": _empty_at_zero,
        "right up to a lag of 0. With a negative one the roles change: then the first *counts* have no "
        "partner.": _minus_from_the_end,
        "a negative lag is treated as a positive one.": _sign_forgotten,
        "counts and velocity must come out equally long: what has no partner goes, in both.": _only_one_cut,
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


def _where(n_bins: Tensor, longest: int) -> Tensor:
    return torch.arange(longest) < n_bins[:, None]  # (B, T)


def _masked_mse(predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    real = _where(n_bins, vel.shape[1])
    return (predicted[real] - vel[real]).square().mean()


def _unmasked(predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    return (predicted - vel).square().mean()


def _wrong_number(predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    real = _where(n_bins, vel.shape[1])
    return (predicted[real] - vel[real]).square().sum() / vel.numel()


def _trial_by_trial(predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    return torch.stack([(p[:n] - v[:n]).square().mean() for p, v, n in zip(predicted, vel, n_bins, strict=True)]).mean()


def _axes_not_counted(predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    return 2 * _masked_mse(predicted, vel, n_bins)


def _one_too_many(predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    return _masked_mse(predicted, vel, n_bins + 1)


def _rest_taken_for_padding(predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    real = (vel != 0).any(-1)
    return (predicted[real] - vel[real]).square().mean()


def _multiplied(predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    real = _where(n_bins, vel.shape[1])[..., None].to(vel.dtype)
    return ((predicted - vel).square() * real).sum() / (2 * n_bins.sum())


def _chosen_too_late(predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    real = _where(n_bins, vel.shape[1])[..., None]
    return torch.where(real, (predicted - vel).square(), 0.0).sum() / (2 * n_bins.sum())


def _gradient(function: Callable, predicted: Tensor, vel: Tensor, n_bins: Tensor) -> Tensor:
    predicted = predicted.clone().requires_grad_()
    return torch.autograd.grad(function(predicted, vel, n_bins), predicted)[0]


def _trials(lengths: tuple[int, ...], longest: int, fill: float = 0.0, resting: bool = False) -> Callable[[], tuple]:
    def make() -> tuple:
        generator = torch.Generator().manual_seed(10)
        predicted, vel = torch.randn(2, len(lengths), longest, 2, generator=generator)
        n_bins = torch.tensor(lengths)
        if resting:
            vel[:, 1] = 0.0
        return predicted, torch.where(_where(n_bins, longest)[..., None], vel, fill), n_bins

    return make


masked_mse = Check(
    "masked_mse",
    reference=_masked_mse,
    cases=[
        Case("two trials of equal length", _trials((3, 3), 3)),
        Case("a short trial beside a long one", _trials((1, 4), 4)),
        Case("a batch padded further than its longest trial", _trials((2, 5, 3), 7)),
        Case("a hand that rests, with velocity 0, in the middle of a trial", _trials((3, 5), 5, resting=True)),
        Case("padding that holds NaN", _trials((2, 4), 4, fill=float("nan"))),
        Case("the gradient, where padding holds NaN", _trials((2, 4), 4, fill=float("nan")), observe=_gradient),
    ],
    traps={
        "padding is in your mean. Did you measure how long the trials are on the padded table? There every trial is as "
        "long as the longest. Use `n_bins`.": _unmasked,
        "padding is out of the sum, but still in the number you divide by: a batch with more padding looks "
        "better.": _wrong_number,
        "you divide by the right number, but what stands in the padding is still in the sum.": (
            lambda p, v, n: (p - v).square().sum() / (2 * n.sum())
        ),
        "you average within each trial first, then over trials, so a bin of a short trial weighs more. (10.5) gives "
        "every real bin the same weight.": _trial_by_trial,
        "twice too large: you sum over x and y. (10.5) divides by two times the number of bins.": _axes_not_counted,
        "each trial takes one bin of padding with it: bin numbers begin at 0, so the last real one is n_bins - 1.": (
            _one_too_many
        ),
        "bins with velocity 0 are taken for padding. A hand that rests is data: the lengths tell what is real, not the "
        "values.": _rest_taken_for_padding,
        "right until padding holds NaN: 0 times NaN is NaN. Pick the real entries out, do not multiply the others by "
        "0.": _multiplied,
        "the value is right, its gradient is NaN: `where` came after the square, and in the backward pass 0 times NaN "
        "is NaN. Pick the real entries *before* you subtract.": _chosen_too_late,
    },
)


# Exercise 10.5: the box without its padding


def _numbers(spike_mask: Tensor) -> Tensor:
    """Flat number of every bin that exists: each holds a token, be it the blank one. (B, T)."""
    exists = spike_mask.any(-1)
    return (exists.flatten().cumsum(0) - 1).view_as(exists)


def _picked(padded_bin: Tensor, numbers: Tensor, keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    tokens = padded_bin[keep]  # (N, 2)
    return tokens[:, 0].nan_to_num().long(), tokens[:, 1], numbers[..., None].expand_as(keep)[keep]


def _unpadded(padded_bin: Tensor, spike_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _picked(padded_bin, _numbers(spike_mask), spike_mask)


def _padding_kept(padded_bin: Tensor, spike_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _unpadded(padded_bin, torch.ones_like(spike_mask))


def _bins_of_the_box(padded_bin: Tensor, spike_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    n_trials, longest, _ = spike_mask.shape
    return _picked(padded_bin, torch.arange(n_trials * longest).view(n_trials, longest), spike_mask)


def _not_carried_on(padded_bin: Tensor, spike_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _picked(padded_bin, torch.arange(spike_mask.shape[1]).expand(spike_mask.shape[:2]), spike_mask)


def _blanks_dropped(padded_bin: Tensor, spike_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _picked(padded_bin, _numbers(spike_mask), spike_mask & (padded_bin[..., 0] > 0))


def _silence_not_counted(padded_bin: Tensor, spike_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _unpadded(padded_bin, spike_mask & (padded_bin[..., 0] > 0))


def _taken_by_value(padded_bin: Tensor, spike_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _picked(padded_bin, _numbers(spike_mask), padded_bin[..., 1] > 0)


def _counted_from_one(padded_bin: Tensor, spike_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _picked(padded_bin, _numbers(spike_mask) + 1, spike_mask)


def _box(*trials: Sequence[int], fill: float = 0.0, first_offset_s: float = 0.004) -> Callable[[], tuple]:
    """A padded box, given how many spikes each bin of each trial holds."""

    def make() -> tuple:
        events = [
            (trial, 1 + (3 * b + slot) % 5, 0.05 * b + first_offset_s + 0.007 * slot)
            for trial, bins in enumerate(trials)
            for b, n in enumerate(bins)
            for slot in range(n)
        ]
        which, unit, time_s = zip(*events, strict=True)
        durations = [0.05 * len(bins) for bins in trials]
        padded = SpikeBatch.from_events(which, unit, time_s, len(trials), durations).padded()
        return padded.padded_bin.masked_fill(~padded.spike_mask[..., None], fill), padded.spike_mask

    return make


unpadded = Check(
    "unpadded",
    reference=_unpadded,
    cases=[
        Case("one trial of two equally full bins", _box([2, 2])),
        Case("one trial with bins of 1, 3 and 2 spikes", _box([1, 3, 2])),
        Case("a trial with a silent bin in its middle", _box([2, 0, 1])),
        Case("two trials of equal length", _box([1, 2], [2, 1])),
        Case("a short trial before a long one", _box([2], [1, 3, 1])),
        Case("spikes that stand on the start of their bin", _box([1, 2], [1], first_offset_s=0.0)),
        Case("padding that holds 7 where you expect 0", _box([1], [2, 0, 1], fill=7.0)),
    ],
    traps={
        "padding is still in the list. Only the slots where `spike_mask` is True hold a token.": _padding_kept,
        "these are the numbers of the bins in the box, where every trial has as many as the longest. In the list, bins "
        "that do not exist have no number: the next trial goes on where the last one ended.": _bins_of_the_box,
        "every trial begins with bin 0 again, so bins of different trials would be read as one. Carry the number on "
        "from trial to trial.": _not_carried_on,
        "the blank tokens are gone: unit 0, where `spike_mask` is True, is no padding. Without them a silent bin has "
        "nothing to be read.": _blanks_dropped,
        "bins are numbered only where there are spikes, so after a silent bin all numbers are one too small. Silence "
        "is a bin as well, with its blank token.": _silence_not_counted,
        "you take an offset of 0 for a sign of padding. A blank token has offset 0 as well, and so may a spike. Ask "
        "the mask, not the values.": _taken_by_value,
        "bins are counted from 0 here, yours from 1.": _counted_from_one,
    },
)


# Exercise 10.6: the token of a spike


def _offset(time_s: Tensor, b: Tensor, width_s: float) -> Tensor:
    return time_s - b.double() * width_s


def _turned(offset: Callable = _offset, sign: int = 1, turn: Callable = rotate, scale: float = 1.0) -> Callable:
    """The right answer, or with another time, another sense of turning, another pairing or another unit of omega."""

    def tokens(unit: Tensor, time_s: Tensor, b: Tensor, E: Tensor, omega: Tensor, width_s: float) -> Tensor:
        return turn(E[unit], phasors(sign * offset(time_s, b, width_s), scale * omega, E.dtype))

    return tokens


def _float32_angle(unit: Tensor, time_s: Tensor, b: Tensor, E: Tensor, omega: Tensor, width_s: float) -> Tensor:
    angle = _offset(time_s, b, width_s).float()[:, None] * omega.float()  # (N, D/2)
    return rotate(E[unit], torch.complex(angle.cos(), angle.sin()))


def _pairs_torn(*args: Any) -> Tensor:
    tokens = _turned()(*args)
    return torch.cat([tokens[..., 0::2], tokens[..., 1::2]], -1)


def _added(unit: Tensor, time_s: Tensor, b: Tensor, E: Tensor, omega: Tensor, width_s: float) -> Tensor:
    angle = _offset(time_s, b, width_s)[:, None] * omega
    return E[unit] + torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).to(E.dtype)


def _not_turned(unit: Tensor, time_s: Tensor, b: Tensor, E: Tensor, omega: Tensor, width_s: float) -> Tensor:
    return E[unit]


def _row_before(unit: Tensor, *others: Any) -> Tensor:
    return _turned()(unit - 1, *others)


def _mute(unit: Tensor, *others: Any) -> Tensor:
    return _turned()(unit, *others) * (unit > 0)[:, None]


def _as_float32(function: Callable, *args: Any) -> Any:
    """In which precision the finished tokens come is not what this exercise asks; what the angle was in shows."""
    tokens = function(*args)
    return tokens.float() if isinstance(tokens, Tensor) and tokens.is_floating_point() else tokens


def _spikes(units: Sequence[int], times_s: Sequence[float], bins: Sequence[int], shortest_s: float = 0.01) -> Callable:
    def make() -> tuple:
        E = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
        omega = log_spaced_frequencies(4, shortest_s, 0.4)
        return torch.tensor(units), torch.tensor(times_s, dtype=torch.float64), torch.tensor(bins), E, omega, 0.05

    return make


spike_tokens = Check(
    "spike_tokens",
    reference=_turned(),
    cases=[
        Case("a spike at the very start", _spikes([2], [0.0], [0]), _as_float32),
        Case("three spikes of the first bin", _spikes([1, 4, 1], [0.003, 0.021, 0.0478], [0, 0, 0]), _as_float32),
        Case("spikes of later bins", _spikes([3, 1, 3], [0.0512, 0.1307, 0.1964], [1, 2, 3]), _as_float32),
        Case("a blank token among spikes", _spikes([1, 0, 2], [0.012, 0.05, 0.1123], [0, 1, 2]), _as_float32),
        Case(
            "hands with a period of 0.1 ms",
            _spikes([1, 2, 3, 4], [0.01933, 0.02871, 0.03917, 0.04753], [0, 0, 0, 0], shortest_s=1e-4),
            _as_float32,
        ),
        Case("spikes ten minutes into a recording", _spikes([1, 2], [597.1234, 597.3411], [11942, 11946]), _as_float32),
    ],
    traps={
        "turned by the time since the start of the trial. The angle wants the time inside the bin.": _turned(
            offset=lambda t, b, w: t
        ),
        "right, except for the fastest hands: the angle was float32. It reaches 3,000 rad within a bin, so multiply "
        "in float64 and make only the finished sine and cosine float32.": _float32_angle,
        "right, except late in a recording: the start of the bin was float32. Write `b.double() * width_s`.": _turned(
            offset=lambda t, b, w: t - b * w
        ),
        "turned the wrong way round: look at the sign of the sine. A pair (x, y) becomes (x cos − y sin, x sin + y "
        "cos).": _turned(sign=-1),
        "paired by halves: here coordinate 2j turns with 2j + 1, its neighbour, not with the one half a vector "
        "away.": _turned(turn=rotate_halves),
        "the pairs are turned well, but laid down as all x, then all y. Put each pair back where it was: `torch.stack` "
        "along a last axis, then flatten.": _pairs_torn,
        "the sines and cosines of the time are *added* to the vector of the unit. Turn the vector by it.": _added,
        "that is the vector of the unit alone. The time is not in it.": _not_turned,
        "omega is in rad/s already: the angle is omega times the offset, without another 2π.": _turned(
            scale=2 * torch.pi
        ),
        "each unit gets the vector of the unit before: row 0 of E belongs to the blank token, and unit u has row u, "
        "with nothing subtracted.": _row_before,
        "the blank token was made zero. Row 0 of E is learned like the others: silence has a vector of its own.": _mute,
    },
)
