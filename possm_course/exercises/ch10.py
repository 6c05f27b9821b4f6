"""Exercises of chapter 10: lag, a loss, tokens, windows; deeper: a tuning curve, bins of the lecture notes."""

from collections import namedtuple

import numpy as np
import torch

from possm_course.checks import Case, Complaint, exercise, gradient, normal


def _named(*names):
    """Observe several results by name, in float64: which dtype they have is not what the exercise asks."""

    def observe(function, *args):
        result = function(*args)
        if not isinstance(result, tuple | list) or len(result) != len(names):
            raise Complaint(f"expected {len(names)} results: {', '.join(names)}")
        return {name: torch.as_tensor(value).double() for name, value in zip(names, result, strict=True)}

    return observe


# Exercise 10.1: pairs of counts and velocity, one later than the other
def _numbered(n_bins, lag_bins):
    """Counts and velocities that say which bin they are from."""

    def make():
        row = torch.arange(1.0, n_bins + 1)[:, None]
        return 10 * row + torch.arange(3), 100 * row + torch.arange(2), lag_bins

    return Case(make, _named("counts", "velocity"))


@exercise(
    cases={
        "ten bins and a lag of three": _numbered(10, 3),
        "a lag of 0": _numbered(6, 0),
        "a negative lag, -2, where the hand comes before its spikes": _numbered(6, -2),
    },
    mistakes={
        "max(-lag_bins, 0), max(lag_bins, 0) → max(lag_bins, 0), max(-lag_bins, 0)": (
            "the sign is wrong: with a positive lag the velocity must be *later* than the counts beside it."
        ),
        "[first : first + n], velocity[later : later + n] → [:-lag_bins], velocity[lag_bins:]": (
            "right for other lags, but with a lag of 0 nothing is left: `[:-0]` is the same as `[:0]`."
        ),
        "[first : first + n], velocity[later : later + n] → [: len(counts) - lag_bins], velocity[lag_bins:]": (
            "right up to a lag of 0. With a negative one the roles change: then the first *counts* have no partner."
        ),
        (
            "return counts[first : first + n], velocity[later : later + n] → return counts, torch.roll(velocity, "
            "-lag_bins, 0)"
        ): (
            "`roll` joins the ends: the last counts got the first velocities. Rows without a partner should be "
            "left out."
        ),
        "return counts[first : first + n], velocity[later : later + n] → "
        "v = velocity[lag_bins:]; m = min(len(counts), len(v)); return counts[:m], v[:m]": (
            "right for lags of 0 and more. With a negative one `velocity[-2:]` is the end of the recording: the first "
            "*counts* should go there."
        ),
        "n = len(counts) - abs(lag_bins) → n = len(counts) - abs(lag_bins) - 1": "one pair too few is left.",
        "return counts[first : first + n], velocity[later : later + n] → "
        "return velocity[later : later + n], counts[first "
        ": first + n]": "the results have changed places: counts first.",
    },
)
def lagged(counts, velocity, lag_bins):
    """Counts and the velocity lag_bins later: (T', U) and (T', 2) with T' = T - |lag_bins|."""
    n = len(counts) - abs(lag_bins)  # rows that have a partner
    first, later = max(-lag_bins, 0), max(lag_bins, 0)
    return counts[first : first + n], velocity[later : later + n]


# Exercise 10.2: a mean that knows how long each trial is
def _trials(*lengths, longest, vel_fill=0.0, predicted_fill=None, resting=False, observe=None):
    """Trials of some lengths in a table; what its padding holds may be given."""

    def make():
        predicted, vel = normal(2, len(lengths), longest, 2, seed=10)
        if resting:
            vel[:, 1] = 0.0
        for i, length in enumerate(lengths):
            vel[i, length:] = vel_fill
            if predicted_fill is not None:
                predicted[i, length:] = predicted_fill
        return predicted, vel, torch.tensor(lengths)

    return Case(make, observe) if observe else Case(make)


_NAN = float("nan")


@exercise(
    cases={
        "two trials of equal length": _trials(3, 3, longest=3),
        "a short trial beside a long one": _trials(1, 4, longest=4),
        "a batch padded further than its longest trial": _trials(2, 5, 3, longest=7),
        "a hand that rests, with velocity 0, in mid-trial": _trials(3, 5, longest=5, resting=True),
        "padding that holds NaN": _trials(2, 4, longest=4, vel_fill=_NAN),
        "padding that holds NaN in both tables": _trials(2, 4, longest=4, vel_fill=_NAN, predicted_fill=_NAN),
        "the gradient, where padding holds NaN": _trials(2, 4, longest=4, vel_fill=_NAN, observe=gradient(0)),
    },
    mistakes={
        "predicted[real] - vel[real] → predicted - vel": "padding is in your mean. How long are the trials?",
        ".mean() → .sum() / vel.numel()": (
            "padding is out of the sum, but still in the number you divide by: a batch with more padding looks better."
        ),
        (
            "predicted[real] - vel[real] → (predicted - vel) * real[..., None]",
            ".mean() → .sum() / (2 * real.sum())",
        ): "right until padding holds NaN: 0 times NaN is NaN. Pick the real entries out.",
        (
            "predicted[real] - vel[real] → predicted - vel",
            ".mean() → .where(real[..., None], 0).sum() / (2 * real.sum())",
        ): "the value is right, its gradient is NaN: pick the real entries out *before* you subtract.",
        "return (predicted[real] - vel[real]).square().mean() → "
        "return torch.stack([(p[m] - v[m]).square().mean() for p, v, m in zip(predicted, vel, real)]).mean()": (
            "you take a mean for each trial, then the mean of these: a bin of a short trial then weighs more. "
            "One mean over "
            "all bins is wanted."
        ),
        ".mean() → .sum() / real.sum()": "divided by bins. Each bin has two numbers, x and y, and all should count.",
        "real = torch.arange(vel.shape[1]) < n_bins[:, None] → real = (vel != 0).any(-1)": (
            "you take what is 0 for padding. A hand that rests has velocity 0, too: `n_bins` says what is real."
        ),
        "real = torch.arange(vel.shape[1]) < n_bins[:, None] → real = ~vel.isnan().any(-1)": (
            "you take what is NaN for padding. Padding may hold anything: `n_bins` says what is real."
        ),
        "< n_bins[:, None] → <= n_bins[:, None]": "one bin too many: bin n is the first of the padding.",
        ".square().mean() → .square().mean().sqrt()": "this is the root. The mean of the squares is wanted.",
        ".square().mean() → .abs().mean()": "these are sizes. The mean of the squares is wanted.",
        ".square().mean() → .square().sum()": "this is the sum. Divide by the number of real numbers.",
    },
)
def masked_mse(predicted, vel, n_bins):
    """Formula (10.5). predicted, vel (B, T, 2); n_bins (B,)."""
    real = torch.arange(vel.shape[1]) < n_bins[:, None]  # (B, T): True where a trial has this bin
    return (predicted[real] - vel[real]).square().mean()  # of (number of bins, 2) numbers


# Exercise 10.3: the token of a spike
def _spikes(units, times_s, bins, n_units=4, shortest_s=0.01):
    """Makes spikes, their bins, embeddings of n_units, four frequencies and the width of a bin in s."""

    def make():
        omega = 2 * torch.pi / torch.tensor([shortest_s, 0.03, 0.1, 0.4], dtype=torch.float64)
        time_s = torch.tensor(times_s, dtype=torch.float64)
        return torch.tensor(units), time_s, torch.tensor(bins), normal(n_units + 1, 8), omega, 0.05

    return make


@exercise(
    cases={
        "three spikes of the first bin": _spikes([1, 4, 1], [0.003, 0.021, 0.0478], [0, 0, 0]),
        "spikes of later bins": _spikes([3, 1, 3], [0.0512, 0.1307, 0.1964], [1, 2, 3]),
        "a blank token among spikes": _spikes([1, 0, 2], [0.012, 0.05, 0.1123], [0, 1, 2]),
        "tokens on the edges of bins, at 0.15 and 0.3 s": _spikes([0, 2], [0.15, 0.3], [3, 6]),
        "another session, of twelve units": _spikes([12, 7], [0.01933, 0.02871], [0, 0], n_units=12),
        "a pair of 0.1 ms: angles in float32 are too coarse": _spikes(
            [2, 4], [0.0213, 0.0448], [0, 0], shortest_s=1e-4
        ),
        "spikes four hours into a recording": _spikes([1, 2], [14397.1234, 14397.3411], [287942, 287946]),
    },
    mistakes={
        "time_s - b.double() * width_s → time_s": "rotated by the time since the start of the trial, not of the bin.",
        "b.double() → b": "right, except late in a recording: the start of the bin was float32.",
        "offset[:, None] * omega → (offset[:, None] * omega).float()": "the angle was float32: cast cosine and sine.",
        ("E[unit, 0::2], E[unit, 1::2] → E[unit].chunk(2, -1)", "], -1) → ], 1)"): "a pair is two *neighbours*.",
        "time_s - b.double() * width_s → ((time_s - b.double() * width_s) * 1000).long() / 1000": (
            "times were cut to whole milliseconds: keep them as they are."
        ),
        "time_s - b.double() * width_s → ((time_s - b.double() * width_s) * 1000).round() / 1000": (
            "times were rounded to milliseconds: keep them as they are."
        ),
        "time_s - b.double() * width_s → time_s % width_s": (
            "the remainder puts a spike on an edge at the end of the bin before. Subtract the start of its bin, from b."
        ),
        "E[unit, 0::2], E[unit, 1::2] → E[unit - 1, 0::2], E[unit - 1, 1::2]": (
            "row u - 1 is the unit before: row 0 is the blank token, and unit u has row u."
        ),
        "return torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(1) → "
        "return torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(1) * (unit > 0)[:, None]": (
            "the blank token is zeros. It should be row 0 of E, rotated as every other."
        ),
        "x * cos - y * sin, x * sin + y * cos → x * cos + y * sin, y * cos - x * sin": (
            "the pairs rotate the wrong way round: the minus sign belongs in the first line."
        ),
        (
            "offset[:, None] * omega → 2 * torch.pi * offset[:, None] * omega"
        ): "a factor 2π too much: omega is in rad/s already.",
        "time_s - b.double() * width_s → time_s.float() - b.float() * width_s": (
            "the times were rounded to float32 before the start of the bin was subtracted. Subtract first."
        ),
        "time_s - b.double() * width_s → time_s - (b.double() + 0.5) * width_s": (
            "this is the time since the *middle* of the bin. It should be since its start."
        ),
        "return torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(1) → "
        "return torch.cat([x * cos - y * sin, x * sin + y * cos], 1)": (
            "rotated, and then joined wrong: each first number should be followed by the second of its pair."
        ),
    },
)
def spike_tokens(unit, time_s, b, E, omega, width_s):
    """Tokens x_i of (10.6), (N, D). unit, time_s, b (N,); E (U + 1, D); omega (D/2,) in rad/s; width_s in s."""
    offset = time_s - b.double() * width_s  # (N,), float64
    angle = offset[:, None] * omega  # (N, D/2), float64
    cos, sin = angle.cos().to(E.dtype), angle.sin().to(E.dtype)  # now they may be float32
    x, y = E[unit, 0::2], E[unit, 1::2]  # (N, D/2) each: the pairs
    return torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(1)  # (N, D)


# Exercise 10.4: build it, windows at random positions as a ragged batch with targets
_NAMES = ("starts", "unit", "bin", "offset", "mask", "times", "velocity")


def _entries(function, *args):
    """From NumPy or torch, in one dtype; what padding holds is not compared."""
    result = function(*args)
    if not isinstance(result, dict) or set(result) != set(_NAMES):
        raise Complaint(f"expected a dict with the keys {', '.join(_NAMES)}")
    entries = {name: torch.as_tensor(np.asarray(result[name])).double() for name in _NAMES}
    mask = entries["mask"].bool()
    for name in ("times", "velocity"):
        if entries[name].shape[:2] == mask.shape:
            entries[name][~mask] = 0.0
    return entries


_Arrays = namedtuple("_Arrays", "spike_times spike_units behavior_times behavior")  # what `Timeline` cannot cut


def _session(begins=0.0, silent=False, gap=False, on_edges=False):
    """Ten seconds of four units, and behaviour at 200 Hz."""
    rng = np.random.default_rng(7)
    times = begins + np.arange(2000) / 200
    spike_times = begins + np.sort(rng.uniform(0, 10, 60 if silent else 600))
    if on_edges:
        spike_times = begins + np.array([3.0, 3.15, 3.3, 3.35, 3.5])  # the last one is in no window
    units = rng.integers(0, 4, len(spike_times))
    velocity = np.stack([np.sin(times), np.cos(3 * times)], 1)
    if gap:
        seen = (times < begins + 4.2) | (times >= begins + 4.5)
        times, velocity = times[seen], velocity[seen]
    return _Arrays(spike_times, units, times, velocity)


def _draw(begin, end, n, window_s=1.0, lag_s=0.0, width_s=0.05, **session):
    """A case of n windows between begin and end, in s, of a `_session`."""

    def make():
        return _session(**session), begin, end, n, window_s, lag_s, width_s, np.random.default_rng(3)

    return Case(make, _entries)


@exercise(
    tolerance=1e-7,
    cases={
        "one window": _draw(2.0, 8.0, 1),
        "three windows with silent bins": _draw(2.0, 8.0, 3, silent=True),
        "a lag of 0.1 s": _draw(2.0, 8.0, 3, lag_s=0.1),
        "a part as long as a window, spikes on edges": _draw(3.0, 3.5, 1, window_s=0.5, on_edges=True),
        "bins of 20 ms": _draw(2.0, 8.0, 2, width_s=0.02),
        "windows of 0.51 s, a fifth of a bin more than ten": _draw(2.0, 8.0, 2, window_s=0.51),
        "windows of 0.1 + 0.05 s, exactly three bins": _draw(2.0, 8.0, 2, window_s=0.1 + 0.05),
        "behaviour with a gap": _draw(3.0, 6.0, 4, gap=True),
        "a recording whose clock begins at 5,000 s": _draw(5002.0, 5008.0, 2, begins=5000.0),
    },
    mistakes={
        "end - window_s, n → end, n": (
            "windows may begin at any time up to `end`, and reach beyond the part: they must also end inside."
        ),
        "start - lag_s → start + lag_s": "the sign of the lag: the spikes come lag_s *before* the behaviour.",
        "since / width_s + 1e-6 → since / width_s": (
            "a spike at 0.15 s is in bin 2: 0.15 / 0.05 is a hair less than 3. Add a millionth of a bin first, (10.2)."
        ),
        "np.setdiff1d(np.arange(n_bins), b) → np.arange(0)": "bins without spikes have no token.",
        "[inside] + 1 → [inside]": "units are counted from 1 in a batch, 0 is the blank token: add 1 to `spike_units`.",
        " + i * n_bins → ": "every window begins with bin 0 again. Bins are counted through the batch.",
        "since < window_s - 1e-6 → since <= window_s": (
            "a spike exactly at the end of the window is taken. It belongs to the next one, as in (10.2)."
        ),
        "since > -1e-6 → since > 1e-6": (
            "a spike exactly at the start of the window is left out. The window begins with it."
        ),
        "< start + window_s - 1e-6 → < start + window_s + 1e-6": (
            "behaviour exactly at the end of the window is taken. It belongs to the next one."
        ),
        "behavior_times > start - 1e-6 → behavior_times > start": (
            "behaviour exactly at the start of the window is left out. The window begins with it."
        ),
        "int(np.ceil(window_s / width_s - 1e-6)) → int(window_s / width_s)": (
            "the number of bins is rounded down, so that the end of a window has no bin; and 0.15 / 0.05 is a "
            "hair less than 3."
        ),
        "int(np.ceil(window_s / width_s - 1e-6)) → int(np.ceil(window_s / width_s))": (
            "a bin too many: 0.15 / 0.05 may be a hair *more* than 3. Take off a millionth before rounding up."
        ),
        "np.floor(since / width_s + 1e-6) → np.round(since / width_s)": (
            "bins are rounded: a spike in the second half of a bin went to the next. `floor`."
        ),
        "recording.behavior_times[seen] - start → recording.behavior_times[seen]": (
            "the times of behaviour count from the start of the recording. They should count from that of the window."
        ),
        "np.maximum(since - b * width_s, 0.0) → since": (
            "the offset counts from the start of the window. It should count from the start of the bin."
        ),
        'order = np.argsort(np.r_[b, silent], kind="stable") → '
        "order = np.lexsort((np.r_[units, 0 * silent], np.r_[b, silent]))": (
            "within a bin spikes are sorted by unit. They should stay in the order of their times."
        ),
        "starts = rng.uniform(begin, end - window_s, n) → "
        "starts = np.random.default_rng(0).uniform(begin, end - window_s, n)": (
            "the windows are drawn from a generator of your own. They should be drawn from `rng`."
        ),
        "starts = rng.uniform(begin, end - window_s, n) → starts = np.sort(rng.uniform(begin, end - window_s, n))": (
            "the windows are sorted. They should stay in the order in which they were drawn."
        ),
        "since - b * width_s, 0.0) → since - (b + 0.5) * width_s, -1.0)": (
            "the offset counts from the *middle* of the bin. It should count from its start."
        ),
    },
)
def training_windows(recording, begin, end, n, window_s, lag_s, width_s, rng):
    """A dict of starts (n,), unit, offset, bin (N,), times and mask (n, Q), velocity (n, Q, 2)."""
    starts = rng.uniform(begin, end - window_s, n)  # (n,) s
    n_bins = int(np.ceil(window_s / width_s - 1e-6))
    unit, offset, bins, rows = [], [], [], []
    for i, start in enumerate(starts):
        since = recording.spike_times - (start - lag_s)  # (all spikes,) s: the spikes come lag_s earlier
        inside = (since > -1e-6) & (since < window_s - 1e-6)
        since, units = since[inside], recording.spike_units[inside] + 1  # 0 is the blank token
        b = np.maximum(np.floor(since / width_s + 1e-6).astype(int), 0)  # (10.2)
        silent = np.setdiff1d(np.arange(n_bins), b)
        order = np.argsort(np.r_[b, silent], kind="stable")  # bin by bin; in a bin the order stays
        unit.append(np.r_[units, 0 * silent][order])
        offset.append(np.r_[np.maximum(since - b * width_s, 0.0), 0.0 * silent][order])
        bins.append(np.r_[b, silent][order] + i * n_bins)  # counted through the batch
        seen = (recording.behavior_times > start - 1e-6) & (recording.behavior_times < start + window_s - 1e-6)
        rows.append((recording.behavior_times[seen] - start, recording.behavior[seen]))

    mask = np.arange(max(len(t) for t, _ in rows)) < np.array([[len(t)] for t, _ in rows])  # (n, Q)
    times, velocity = np.zeros(mask.shape), np.zeros((*mask.shape, 2))
    times[mask] = np.concatenate([t for t, _ in rows])
    velocity[mask] = np.concatenate([v for _, v in rows])
    unit, offset, bins = (np.concatenate(x) for x in (unit, offset, bins))
    targets = {"times": times, "velocity": velocity, "mask": mask}
    return {"starts": starts, "unit": unit, "offset": offset, "bin": bins, **targets}


# Exercise 10.5: a cosine through the counts of one unit, and how the counts scatter about it
_ROUND = [45.0 * i for i in range(8)]


def _reaches(*degrees, preferred=70.0, noise=0.0, window_s=0.2, seed=0):
    """Counts of reaches in these directions: a cosine, in spikes a window, with noise of which no cosine is a part."""

    def make():
        direction = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
        counts = 4 + 3 * (direction - preferred / 180 * torch.pi).cos()
        counts += noise * normal(len(degrees), seed=seed, dtype=torch.float64)
        return counts.numpy(), direction.numpy(), window_s

    return Case(make, _named("preferred direction", "depth", "Fano factor"))


@exercise(
    cases={
        "a cosine without noise, eight directions": _reaches(*_ROUND),
        "windows of 0.5 s": _reaches(*_ROUND, window_s=0.5),
        "a preferred direction of -120°": _reaches(*_ROUND, preferred=-120.0),
        "noisy counts": _reaches(*_ROUND * 5, noise=1.5),
        "reaches mostly to the right": _reaches(*_ROUND, *[0.0] * 8, *[45.0] * 6, noise=0.5, seed=1),
    },
    mistakes={
        "np.arctan2(y, x) → np.arctan2(x, y)": "x and y are swapped: the angle of the arrow (x, y) is atan2(y, x).",
        "np.hypot(x, y), → np.hypot(x, y) * window_s,": "the depth is a rate: spikes a second, not a window.",
        "((counts - expected) ** 2).mean() → counts.var()": (
            "the spread about the *mean* also holds what the direction explains. Take the spread about the cosine."
        ),
        "np.arctan2(y, x) → np.degrees(np.arctan2(y, x))": "the direction is in degrees, wanted in rad.",
        "np.arctan2(y, x) → np.arctan2(y, x) % (2 * np.pi)": "a direction lies between -π and π, not 0 and 2π.",
        "np.linalg.lstsq(design, counts / window_s, rcond=None)[0] → "
        "(design.T * counts / window_s).mean(1) * [1, 2, 2]": (
            "right where all directions are equally often. Where not, a sum of arrows leans to the frequent ones."
        ),
        "np.hypot(x, y), → 2 * np.hypot(x, y),": (
            "this is from the lowest rate to the highest. The depth is half of that, from the middle to the highest."
        ),
        "((counts - expected) ** 2).mean() → counts.var(ddof=1)": (
            "the spread about the *mean* also holds what the direction explains. Take the spread about the cosine."
        ),
        "((counts - expected) ** 2).mean() → ((counts - expected) ** 2).sum() / (len(counts) - 3)": (
            "divided by R - 3. The mean of the squares should be over all R."
        ),
        "((counts - expected) ** 2).mean() → (counts - expected).std(ddof=1)": (
            "this is a standard deviation. The Fano factor has the variance."
        ),
        "((counts - expected) ** 2).mean() → ((counts - expected) ** 2).mean() / window_s": (
            "the variance is divided by the window: the Fano factor is that of counts, not of rates."
        ),
        "/ counts.mean() → / expected.mean() ** 2": "divided by the square of the mean. It should be the mean.",
        (
            "counts / window_s, rcond → counts, rcond"
        ): "the fit is of counts. A rate should be counts divided by the window.",
        "np.arctan2(y, x) → np.arctan(y / x)": "arctan cannot tell a direction from the opposite one: use `arctan2`.",
        "np.arctan2(y, x) → direction_rad[counts.argmax()]": (
            "this is the direction of the largest count. The preferred one is that of the arrow (x, y)."
        ),
    },
)
def tuning(counts, direction_rad, window_s):
    """Preferred direction (rad), depth (Hz) and Fano factor of one unit. counts, direction_rad (R,); window_s in s."""
    design = np.stack([np.ones(len(direction_rad)), np.cos(direction_rad), np.sin(direction_rad)], -1)  # (R, 3)
    b, x, y = np.linalg.lstsq(design, counts / window_s, rcond=None)[0]  # Hz
    expected = window_s * design @ [b, x, y]  # (R,) spikes
    fano = ((counts - expected) ** 2).mean() / counts.mean()
    return np.arctan2(y, x), np.hypot(x, y), fano


# Exercise 10.6: bins of the lecture notes as a ragged batch
def _notes(*trials):
    """A case of trials as the lecture notes keep them."""

    def make():
        return ([{"trial_id": i, "spikes": spikes} for i, spikes in enumerate(trials)],)

    return Case(make, _named("unit", "offset", "bin"))


@exercise(
    cases={
        "a silent bin": _notes([[(2, 0.01)], 0, [(3, 0.02), (3, 0.04)]]),
        "three trials": _notes([[(1, 0.02)], [(2, 0.01)]], [0, [(3, 0.03)], 0], [[(1, 0.04), (2, 0.045)]]),
    },
    mistakes={
        "pairs or [(0, 0.0)] → pairs or []": "a bin without spikes needs its blank token: unit 0, offset 0.",
        "b += 1\n → b += 1 if pairs else 0\n": "a silent bin is a bin, too: the bins after it move on by one.",
        "    for pairs →     b = 0\n        for pairs": "bins are counted through the batch, not anew in each trial.",
        "tokens, b = [], 0 → tokens, b = [], 1": "bins are counted from 1. They should begin at 0.",
        "(unit, offset, b) for unit, offset in → (unit - 1, offset, b) for unit, offset in": (
            "units are shifted by one. 0 is the blank token, and unit u stays u."
        ),
        "(unit, offset, b) for unit, offset in → (unit, offset + 0.05 * b, b) for unit, offset in": (
            "times count from the start of all. An offset counts from the start of its bin."
        ),
    },
)
def flat_notes(trials):
    """unit, offset (s), bin of every token, (N,) each. `trials[i]["spikes"][b]`: a list of (unit, offset), or 0."""
    tokens, b = [], 0
    for trial in trials:
        for pairs in trial["spikes"]:
            tokens += [(unit, offset, b) for unit, offset in pairs or [(0, 0.0)]]
            b += 1
    unit, offset, bins = zip(*tokens, strict=True)
    return torch.tensor(unit), torch.tensor(offset, dtype=torch.float64), torch.tensor(bins)
