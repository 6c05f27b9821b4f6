"""Chapter 10: right and wrong answers in other styles than the references and the traps."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from possm_lite.spikes import SpikeBatch
from possm_lite.spikes.batch import bin_index, count_bins

from .helpers import assert_verdict, load

exercises = load("10_spikes_as_tokens")


def spike_by_spike(time_s, duration_s, width_s, *, bins=None, offset=None, n_bins=lambda d, w: math.ceil(d / w - 1e-6)):
    b = [math.floor(t / width_s + 1e-6) for t in time_s.tolist()]
    b = torch.tensor(b, dtype=torch.int64) if bins is None else bins(time_s, width_s)
    offsets = [max(t - i * width_s, 0.0) for t, i in zip(time_s.tolist(), b.tolist(), strict=True)]
    offsets = torch.tensor(offsets, dtype=torch.float64) if offset is None else offset(time_s, b, width_s)
    return b, offsets, n_bins(duration_s, width_s)


def bins_as_floats(time_s, duration_s, width_s):
    """Bins that are whole, but not integers, and offsets slightly below zero are no mistake."""
    bins = (time_s / width_s + 1e-6).floor()
    return bins, time_s - bins * width_s, float(math.ceil(duration_s / width_s - 1e-6))


def pairs_by_index(counts, velocity, lag_bins):
    pairs = [(i, i + lag_bins) for i in range(len(counts)) if 0 <= i + lag_bins < len(counts)]
    earlier, later = (list(x) for x in zip(*pairs, strict=True))
    return counts[earlier], velocity[later]


def mse_with_where_before(predicted, vel, n_bins):
    real = (torch.arange(vel.shape[1])[None] < n_bins[:, None])[..., None].expand_as(vel)
    return (torch.where(real, predicted, 0.0) - torch.where(real, vel, 0.0)).pow(2).sum() / real.sum()


def list_slot_by_slot(padded_bin, spike_mask, *, blanks=True, first=0):
    unit, offset, bins, number = [], [], [], first - 1
    for trial, trial_mask in zip(padded_bin, spike_mask, strict=True):
        for slots, mask in zip(trial, trial_mask, strict=True):
            number += int(mask.any())
            for u, dt in slots[mask].tolist():
                if blanks or u != 0:
                    unit, offset, bins = [*unit, int(u)], [*offset, dt], [*bins, number]
    return torch.tensor(unit), torch.tensor(offset, dtype=torch.float64), torch.tensor(bins)


def list_by_repeating(padded_bin, spike_mask):
    n = spike_mask.sum(-1).flatten()
    bins = torch.arange(int((n > 0).sum())).repeat_interleave(n[n > 0])
    return padded_bin[..., 0][spike_mask].to(torch.int64), padded_bin[..., 1][spike_mask], bins


def tokens_by_complex_numbers(unit, time_s, b, E, omega, width_s, *, sign=1j, dtype=torch.float32):
    offset = [t - k * width_s for t, k in zip(time_s.tolist(), b.tolist(), strict=True)]
    phase = torch.exp(sign * torch.tensor(offset, dtype=torch.float64).outer(omega))
    pairs = torch.view_as_complex(E[unit].double().reshape(len(unit), -1, 2))
    return torch.view_as_real(pairs * phase).reshape(len(unit), -1).to(dtype)


def bins_of(convert, millionth=1e-6):
    """Bins from times that were converted first, everything else right."""
    return partial(spike_by_spike, bins=lambda t, w: (convert(t) / w + millionth).floor().long())


def sorted_in_bins(padded_bin, spike_mask):
    unit, offset, bins = list_slot_by_slot(padded_bin, spike_mask)
    order = np.lexsort((offset, bins))
    return unit[order], offset[order], bins[order]


def tokens_overwritten(unit, time_s, b, E, omega, width_s):
    angle = (time_s - b.double() * width_s)[:, None] * omega
    cos, sin, tokens = angle.cos().float(), angle.sin().float(), E[unit]
    x, y = tokens[:, 0::2], tokens[:, 1::2]  # views: what is written into x is read below
    x[:] = x * cos - y * sin
    y[:] = x * sin + y * cos
    return tokens


def tokens_with_float32_offset(unit, time_s, b, E, omega, width_s, angle_in=torch.float64):
    angle = (time_s - b.double() * width_s).float()[:, None].to(angle_in) * omega.to(angle_in)
    return torch.view_as_real(
        torch.view_as_complex(E[unit].view(len(unit), -1, 2)) * torch.polar(torch.ones_like(angle), angle).cfloat()
    ).flatten(1)


def windows_one_by_one(
    recording,
    begin,
    end,
    n,
    window_s,
    lag_s,
    width_s,
    rng,
    *,
    sign=-1,
    blanks=True,
    last=None,
    carry=True,
    one=1,
    grid=False,
):
    """Loops and lists; what comes back is NumPy."""
    starts = [rng.uniform(begin, end - window_s if last is None else last(end, window_s)) for _ in range(n)]
    starts = [round(start / width_s) * width_s if grid else start for start in starts]
    n_bins, tokens, rows = math.ceil(window_s / width_s - 1e-6), [], []
    for i, start in enumerate(starts):
        bins, first = [[] for _ in range(n_bins)], start + sign * lag_s
        for t, u in zip(recording.spike_times - first, recording.spike_units, strict=True):
            if -1e-6 <= t < window_s - 1e-6:
                b = max(int(t / width_s + 1e-6), 0)
                bins[b].append((u + one, max(t - b * width_s, 0.0)))
        for b, spikes in enumerate(bins):
            tokens += [(u, dt, b + carry * i * n_bins) for u, dt in spikes or ([(0, 0.0)] if blanks else [])]
        seen = (recording.behavior_times >= start - 1e-6) & (recording.behavior_times < start + window_s - 1e-6)
        rows.append((recording.behavior_times[seen] - start, recording.behavior[seen]))
    mask = np.arange(max(len(t) for t, _ in rows)) < np.array([len(t) for t, _ in rows])[:, None]
    times, velocity = np.zeros(mask.shape), np.zeros((*mask.shape, 2))
    times[mask], velocity[mask] = np.concatenate([t for t, _ in rows]), np.concatenate([v for _, v in rows])
    unit, offset, bins = (np.array(x) for x in zip(*tokens, strict=True))
    targets = {"times": times, "velocity": velocity, "mask": mask}
    return {"starts": np.array(starts), "unit": unit, "offset": offset, "bin": bins, **targets}


def windows_changed(change):
    def answer(*args):
        result = windows_one_by_one(*args)
        return result | change(result)

    return answer


def filled_with_nan(*args):
    """What padding holds is free, and so is the library."""
    result = {name: torch.from_numpy(value) for name, value in windows_one_by_one(*args).items()}
    result["velocity"][~result["mask"]] = float("nan")
    return result


TRIALS = SpikeBatch.from_events(
    [0] * 6 + [1] * 6, [1] * 12, [0] * 4 + [0.1] * 2 + [0] + [0.05] * 5, 2, [0.15, 0.1]
).padded()


def mse_of_cleared_targets(predicted, vel, n_bins):
    real = (torch.arange(vel.shape[1]) < n_bins[:, None])[..., None]
    return ((predicted - vel.masked_fill(~real, 0)) ** 2 * real).sum() / (2 * n_bins.sum())


def prefix_of(mask):
    """As many slots, the first ones."""
    return torch.arange(mask.shape[-1]) < mask.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("to_bins", spike_by_spike, "✓"),
        ("to_bins", bins_as_floats, "✓"),
        ("to_bins", lambda *args: list(spike_by_spike(*args)), "✓"),
        (
            "to_bins",
            partial(spike_by_spike, offset=lambda t, b, w: (t - b.double() * w).float()),
            "to float32 at the end",
        ),
        (
            "to_bins",
            partial(spike_by_spike, bins=lambda t, w: torch.from_numpy(bin_index(t, w)), n_bins=count_bins),
            "✓",
        ),
        ("to_bins", partial(spike_by_spike, n_bins=lambda d, w: len(np.arange(0, d, w))), "a hair more than 0.15"),
        ("to_bins", partial(spike_by_spike, n_bins=lambda d, w: int(d / w) + 1), "exactly two bins"),
        ("to_bins", partial(spike_by_spike, n_bins=lambda d, w: round(d / w - 0.49)), "the last bin is a part"),
        ("to_bins", partial(spike_by_spike, bins=lambda t, w: torch.div(t, w).long()), "2.9999999999999996"),
        ("to_bins", partial(spike_by_spike, offset=lambda t, b, w: t % w), "remainder of a division"),
        ("to_bins", partial(spike_by_spike, offset=lambda t, b, w: t / w - b), "in bins, not in seconds"),
        ("to_bins", lambda t, d, w: spike_by_spike(t, float(t[-1]) + 1e-4 if len(t) else 0, w), "on three spikes"),
        ("to_bins", lambda *args: spike_by_spike(*args)[:2], "expected three results"),
        ("to_bins", partial(spike_by_spike, n_bins=lambda d, w: round(d / w)), "rounded to the *nearest*"),
        ("to_bins", partial(spike_by_spike, n_bins=lambda d, w: int(d / w + 0.5)), "rounded to the *nearest*"),
        ("to_bins", partial(spike_by_spike, offset=lambda t, b, w: t - b * w), "starts of bins became float32"),
        ("to_bins", bins_of(torch.Tensor.float), "float32 before they were divided"),
        ("to_bins", bins_of(lambda t: (1000 * t).round() / 1000), "rounded to ms before they were divided"),
        ("to_bins", bins_of(torch.Tensor.double, 1e-3), "is too much"),
        (
            "to_bins",
            partial(spike_by_spike, offset=lambda t, b, w: t - b * w + 1e-4),
            "0.18 s: offsets: expected 0.012",
        ),
        ("lagged", pairs_by_index, "✓"),
        ("lagged", lambda *args: list(pairs_by_index(*args)), "✓"),
        ("lagged", lambda c, v, lag: (c[:-lag], v[lag:]) if lag >= 0 else pairs_by_index(c, v, lag), "`[:-0]`"),
        ("lagged", lambda c, v, lag: pairs_by_index(c, v, lag)[::-1], "on six bins and a lag of one"),
        ("lagged", lambda c, v, lag: pairs_by_index(c, v, lag)[0], "expected two results"),
        ("padding_share", 1 - TRIALS.spike_mask.double().mean().item(), "✓"),
        ("padding_share", 0.48, "longest trial"),
        ("masked_mse", mse_with_where_before, "✓"),
        ("masked_mse", lambda p, v, n: mse_with_where_before(p, v, n * 0 + v.shape[1]), "padding is in your mean"),
        ("masked_mse", lambda p, v, n: (p - v).pow(2).nansum() / (2 * n.sum()), "on a short trial"),
        ("masked_mse", lambda p, v, n: ((p - v)[v.abs().sum(-1) > 0] ** 2).mean(), "on a hand that rests"),
        ("masked_mse", lambda p, v, n: mse_with_where_before(p, v, n).sqrt(), "on two trials of equal length"),
        ("masked_mse", mse_of_cleared_targets, "holds NaN in both tables"),
        ("to_bins", partial(spike_by_spike, n_bins=lambda d, w: d / w + 1 - 1e-6), "number of bins"),
        ("unpadded", lambda p, m: list_slot_by_slot(p, prefix_of(m)), "slots without a token before others"),
        ("unpadded", list_slot_by_slot, "✓"),
        ("unpadded", list_by_repeating, "✓"),
        ("unpadded", lambda *args: list(list_by_repeating(*args)), "✓"),
        ("unpadded", partial(list_slot_by_slot, blanks=False), "the blank tokens are gone"),
        ("unpadded", partial(list_slot_by_slot, first=1), "yours from 1"),
        ("unpadded", lambda p, m: (p[m][:, 0], *list_slot_by_slot(p, m)[1:]), "full bins: unit: the dtype is"),
        ("unpadded", sorted_in_bins, "sorted the tokens of a bin by their offset"),
        ("unpadded", lambda p, m: p[m], "expected three results"),
        ("spike_tokens", tokens_by_complex_numbers, "✓"),
        ("spike_tokens", partial(tokens_by_complex_numbers, dtype=torch.float64), "✓"),
        ("spike_tokens", partial(tokens_by_complex_numbers, sign=-1j), "sign of the sine"),
        ("spike_tokens", partial(tokens_by_complex_numbers, sign=2j * math.pi), "another 2π"),
        ("spike_tokens", lambda u, t, b, *rest: tokens_by_complex_numbers(u, t, 0 * b, *rest), "start of the trial"),
        (
            "spike_tokens",
            lambda u, t, *rest: tokens_by_complex_numbers(u, t.float(), *rest),
            "the times became float32",
        ),
        ("spike_tokens", lambda u, t, b, E, om, w: tokens_by_complex_numbers(u, t % w, 0 * b, E, om, w), "on an edge"),
        ("spike_tokens", tokens_overwritten, "overwritten"),
        ("spike_tokens", tokens_with_float32_offset, "the offset was float32"),
        ("spike_tokens", partial(tokens_with_float32_offset, angle_in=torch.float32), "the angle was float32"),
        ("training_windows", windows_one_by_one, "✓"),
        ("training_windows", filled_with_nan, "✓"),
        ("training_windows", partial(windows_one_by_one, sign=1), "*before* its behaviour"),
        ("training_windows", partial(windows_one_by_one, sign=0), "the lag is left out"),
        ("training_windows", partial(windows_one_by_one, blanks=False), "Each needs a blank one"),
        ("training_windows", partial(windows_one_by_one, one=0), "counted from 1"),
        ("training_windows", partial(windows_one_by_one, carry=False), "counted through the batch"),
        ("training_windows", partial(windows_one_by_one, last=lambda end, window_s: end), "beyond the part"),
        ("training_windows", partial(windows_one_by_one, grid=True), "rounded to a grid of bins"),
        ("training_windows", windows_changed(lambda r: {"offset": r["offset"].astype(np.float32)}), "✓"),
        ("training_windows", windows_changed(lambda r: {k: v.tolist() for k, v in r.items()}), "✓"),
        ("training_windows", windows_changed(lambda r: {"mask": r["mask"] | True}), "the mask is True everywhere"),
        (
            "training_windows",
            windows_changed(lambda r: {"times": r["times"] + r["starts"][:, None]}),
            "those of the session",
        ),
        (
            "training_windows",
            windows_changed(lambda r: {"velocity": r["velocity"].transpose(0, 2, 1)}),
            "on one window: velocity: the shape is (1, 2, 100), expected (1, 100, 2)",
        ),
        ("training_windows", lambda *args: list(windows_one_by_one(*args).values()), "expected a dict with the keys"),
        (
            "training_windows",
            lambda *args: {k: v for k, v in windows_one_by_one(*args).items() if k != "mask"},
            "on the keys of the dict: expected 'bin, mask, offset",
        ),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)


@pytest.mark.parametrize("answer", [exercises.unpadded.reference, list_slot_by_slot])
def test_padded_batch_unpadded_equals_ragged(answer):
    """On random spikes with silent bins and trials of unequal length, the last without spikes."""
    rng, duration_s = np.random.default_rng(0), np.array([0.2, 0.5, 0.35, 0.9, 0.1])
    trial, unit, share = rng.integers(0, 4, 30), rng.integers(1, 6, 30), rng.random(30)
    batch = SpikeBatch.from_events(trial, unit, share * duration_s[trial], 5, duration_s)
    padded = batch.padded()
    result = answer(padded.padded_bin, padded.spike_mask)
    torch.testing.assert_close(result, (batch.unit, batch.offset, batch.bin), rtol=0, atol=0)
