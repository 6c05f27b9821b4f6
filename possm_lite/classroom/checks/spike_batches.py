"""Exercises of chapter 10 on tokens: a padded box turned into a flat list, and the token of a spike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from possm_lite.blocks.positions import log_spaced_frequencies, phasors, rotate, rotate_halves
from possm_lite.spikes.batch import SpikeBatch

from .core import Case, Check

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
