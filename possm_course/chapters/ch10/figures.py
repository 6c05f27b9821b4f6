"""The raster of a recording, counts of reaches, and the bins of chapter 10 in which only the order says something."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from possm_course.style import BLUE, GRAY, INK, ORANGE, SKY
from possm_course.widgets import copies
from possm_lite.nn.positions import log_spaced_frequencies, phasors
from possm_lite.recordings import Recording, SpikeBatch
from possm_lite.recordings.batch import bin_index
from possm_lite.simulate.reaches import Reaches
from possm_lite.training.fit import AdamW

MAX_POINTS = 600  # about the width of the figure in pixels: of a line with twice as many, every second is drawn
# of the first columns of behaviour
LINES = ({"color": ORANGE, "ls": "-"}, {"color": BLUE, "ls": "--"}, {"color": INK, "ls": ":"})


def make_draw(
    recording: Recording, order: np.ndarray | None = None, row_ticks: Mapping[str, float] | None = None, label="unit"
) -> Callable[..., Figure]:
    """draw(start, length) -> Figure, both in s: spikes (top), behaviour (bottom), grey lines where a trial starts.

    `order`: units from the lowest row to the highest, a permutation of 0 ... U-1, (U,); `row_ticks`: tick label -> row.
    """
    n_units = recording.n_units
    row = np.argsort(np.arange(n_units) if order is None else order)[recording.spike_units]  # (N,)

    figure = Figure(figsize=(7.2, 4.9))
    ticks = row_ticks or {"0": 0, str(n_units - 1): n_units - 1}
    spikes = figure.add_axes((0.155, 0.385, 0.825, 0.545), ylim=(-1, n_units), ylabel=label, xticks=[])
    spikes.set_yticks(list(ticks.values()), list(ticks))
    hand = figure.add_axes(
        (0.155, 0.115, 0.825, 0.235), xticks=[], ylabel=f"{recording.behavior_name}\n({recording.behavior_unit})"
    )
    largest = 1.05 * float(np.abs(recording.behavior).max()) or 1.0
    hand.set_ylim(-largest, largest)
    hand.locator_params(axis="y", nbins=4)
    hand.set_xlabel("time in the session (s)", labelpad=16)  # space for the times of the window
    for x, name, line in zip((0.70, 0.80, 0.90), recording.behavior_columns, LINES, strict=False):
        hand.plot([x, x + 0.037], [0.955, 0.955], lw=2, transform=figure.transFigure, clip_on=False, **line)
        figure.text(x + 0.045, 0.955, name, color=INK, va="center")
    copy = copies(spikes, hand)

    def draw(start: float, length: float) -> Figure:
        """The spikes of all units within a window, and the velocity of the hand below."""
        figure, (spikes, hand) = copy()
        stop = start + length
        first, end = np.searchsorted(recording.spike_times, (start, stop))
        spikes.plot(recording.spike_times[first:end] - start, row[first:end], "|", color=INK, ms=3.2, mew=0.8)
        figure.text(0.155, 0.955, f"{end - first:,} spikes in {length:.2f} s", color=INK, va="center")

        first, end = np.searchsorted(recording.behavior_times, (start, stop))
        thinned = slice(first, end, max(1, (end - first) // MAX_POINTS))
        for values, line in zip(recording.behavior[thinned].T, LINES, strict=False):
            hand.plot(recording.behavior_times[thinned] - start, values, lw=1.6, **line)

        for axes in (spikes, hand):
            axes.set_xlim(0, length)
            for trial_start in recording.trials[:, 0]:
                if start <= trial_start < stop:
                    axes.axvline(trial_start - start, color=GRAY, lw=1.2, ls="--")
        for share, side in ((0, "left"), (0.5, "center"), (1, "right")):
            figure.text(0.155 + 0.825 * share, 0.1, f"{start + share * length:.2f}", fontsize=10, ha=side, va="top")
        return figure

    return draw


def outward_reaches(reaches: Reaches) -> tuple[np.ndarray, np.ndarray]:
    """Start (R,), in s, and direction (R,), in rad, of the reaches from the centre to a target on the circle."""
    away = ~reaches.random_target[reaches.trial] & (np.hypot(*reaches.origin_mm.T) < 1)
    x, y = (reaches.target_mm - reaches.origin_mm)[away].T
    return reaches.start_s[away], np.arctan2(y, x)


def counts_since(recording: Recording, starts: np.ndarray, window_s: float) -> np.ndarray:
    """Spikes of each unit in a window from each start on, (R, U)."""
    trains = [recording.spike_times[recording.spike_units == u] for u in range(recording.n_units)]
    return np.stack([np.diff(np.searchsorted(t, [starts, starts + window_s]), axis=0)[0] for t in trains], -1)


def fit_cosine(counts: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """b, x, y of the cosine b + x cos + y sin for each unit, (3, U), and the counts it expects, (R, U)."""
    design = np.stack([np.ones_like(direction), np.cos(direction), np.sin(direction)], -1)  # (R, 3)
    coefficients = np.linalg.lstsq(design, counts, rcond=None)[0]
    return coefficients, design @ coefficients


def draw_tuning(counts: np.ndarray, direction: np.ndarray, unit: int, preferred: np.ndarray) -> tuple:
    """One unit's counts with its cosine, and variance against mean; of all units direction found, Fano factor, (U,)."""
    (_, x, y), expected = fit_cosine(counts, direction)
    fano = ((counts - expected) ** 2).sum(0) / counts.sum(0)
    theta = np.linspace(-np.pi, np.pi, 200)
    (b, x_u, y_u), jitter = fit_cosine(counts[:, [unit]], direction)[0][:, 0], np.random.default_rng(0)
    curve = b + x_u * np.cos(theta) + y_u * np.sin(theta)

    _, (left, right) = plt.subplots(1, 2, figsize=(6.8, 3.1), width_ratios=(1.25, 1), layout="constrained")
    spread = np.sqrt(np.maximum(curve, 0))
    left.fill_between(np.degrees(theta), curve - spread, curve + spread, color=SKY, alpha=0.35, lw=0)
    left.plot(
        np.degrees(direction) + jitter.uniform(-9, 9, len(direction)),
        counts[:, unit] + jitter.uniform(-0.15, 0.15, len(direction)),
        ".",
        color=GRAY,
        ms=5,
    )
    left.plot(np.degrees(theta), curve, color=ORANGE, lw=2.2, label="cosine, ± √ of it")
    left.axvline(np.degrees(preferred[unit]), color=BLUE, ls=":", label="preferred, in truth")
    left.set(
        xlabel="direction of the reach (°)", ylabel=f"spikes of unit {unit} in 200 ms", xticks=range(-180, 181, 90)
    )
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=9)

    groups = [counts[np.isclose(direction, a)] for a in np.unique(direction.round(6)) if np.isclose(direction, a).any()]
    mean, variance = (
        np.stack([f(g) for g in groups]).ravel() for f in (lambda g: g.mean(0), lambda g: g.var(0, ddof=1))
    )
    right.loglog(mean[mean > 0], variance[mean > 0], ".", color=GRAY, ms=4)
    ends = np.array([0.04, 8])
    right.plot(ends, ends, "--", color=INK, lw=1.6, label="Poisson, $F = 1$")
    right.set(xlabel="mean count", ylabel="variance of the count")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=9)
    return np.arctan2(y, x), fano


D, WIDTH_S = 16, 0.05
OMEGA = log_spaced_frequencies(D // 2, shortest_period=0.010, longest_period=0.400)  # (D/2,): 10 ms to 400 ms
EIGHT = torch.arange(8) < 4  # units 1 to 4 go first in direction 1
TWELVE = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0]).bool()  # another session, other units
READERS = ("counts", "tokens", "fine counts", "tokens, times dealt anew", "tokens, two sessions")


def bins_of_order(n: int, seed: int, first: Tensor = EIGHT) -> tuple[SpikeBatch, Tensor]:
    """n bins of 50 ms. Direction 1: units where `first` (U,) is True fire some 8 ms before the others. 0: after them.

    How many spikes a unit fires, and when in the bin all this happens, has nothing to do with the direction. One spike
    in five comes at any time.
    """
    draw = np.random.default_rng(seed)
    direction = draw.integers(0, 2, n)  # (n,)
    middle = draw.uniform(0.012, 0.038, n)  # (n,) s
    counts = draw.poisson(1.5, (n, len(first)))
    which, unit = (np.repeat(x.ravel(), counts.ravel()) for x in np.indices(counts.shape))  # (N,) each
    early = np.where(first.numpy()[unit], 1, -1) * np.where(direction[which] == 1, 1, -1)  # (N,): 1 or -1
    time_s = middle[which] - 0.004 * early + draw.normal(0, 0.003, len(unit))
    stray = draw.random(len(unit)) < 0.2
    time_s = np.clip(np.where(stray, draw.uniform(0, WIDTH_S, len(unit)), time_s), 0, 0.04999)
    return SpikeBatch.from_events(which, unit + 1, time_s, n, WIDTH_S), torch.from_numpy(direction)


def backwards(batch: SpikeBatch) -> SpikeBatch:
    """The same spikes, played backwards within the bin: the counts stay what they are."""
    return SpikeBatch.from_events(batch.bin, batch.unit, 0.04999 - batch.offset, int(batch.n_bins.sum()), WIDTH_S)


def times_dealt_anew(batch: SpikeBatch) -> SpikeBatch:
    """The times of a bin, given at random to its spikes."""
    shuffled = torch.randperm(len(batch.bin))
    shuffled = shuffled[torch.argsort(batch.bin[shuffled], stable=True)]  # still bin by bin
    return replace(batch, offset=batch.offset[shuffled])


class FineReader(nn.Module):
    """Counts of 5 ms, 80 numbers a bin, read by the same network."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(80, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, batch: SpikeBatch, phase: None) -> Tensor:
        real = batch.unit > 0
        fine = torch.from_numpy(bin_index(batch.offset.numpy(), 0.005))  # (N,): 0 ... 9
        place = (batch.bin * 8 + batch.unit - 1) * 10 + fine  # (N,)
        counts = torch.bincount(place[real], minlength=len(batch.n_bins) * 80)
        return self.network(counts.view(-1, 80).float())[:, 0]


def share_right(model: nn.Module, rotated: bool, known: list[tuple], unseen: list[tuple], steps: int = 50) -> float:
    """Train on bins and directions of one session or several, all at every step; right answers on unseen ones."""
    known, unseen = (
        [(b, phasors(b.offset, OMEGA, torch.float32) if rotated else None, d.float()) for b, d in part]
        for part in (known, unseen)
    )
    optimizer = AdamW(model.parameters(), lr=2e-2, weight_decay=0.0, fused=True)
    for _ in range(steps):
        loss = sum(nn.functional.binary_cross_entropy_with_logits(model(b, p), d) for b, p, d in known)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return torch.cat([(model(b, p) > 0) == d.bool() for b, p, d in unseen]).float().mean().item()


def right_answers(Reader: type[nn.Module], seed: int) -> list[float]:
    """Of each of `READERS`. Two sessions share one network, and each unit of both has a row in its table."""
    torch.manual_seed(seed)
    known, unseen = ([bins_of_order(n, 2 * seed + i)] for i, n in enumerate((1500, 1000)))
    shuffled = [[(times_dealt_anew(b), d) for b, d in part] for part in (known, unseen)]
    other = [bins_of_order(n, 100 + 2 * seed + i, TWELVE) for i, n in enumerate((1500, 1000))]
    both = [[*part, (b.offset_units(9), d)] for part, (b, d) in zip((known, unseen), other, strict=True)]
    return [
        share_right(Reader(8), False, known, unseen),
        share_right(Reader(8), True, known, unseen),
        share_right(FineReader(), False, known, unseen),
        share_right(Reader(8), True, *shuffled),
        share_right(Reader(20), True, *both),
    ]
