"""The drawings of chapter 12: movement in the spikes, the decoder, and a training watched."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.ndimage import gaussian_filter1d

from possm_course.chapters.ch12.own_decoder import YOURS, Run
from possm_course.diagrams import Diagram
from possm_course.style import BLUE, GRAY, INK, ORANGE


def movement(recording, units, start: float, duration: float) -> Figure:
    """Draws the rates of the tuned units, where the hand is going, and its velocity.

    Rates are smoothed over 60 ms and over units that prefer about the same direction.

    Args:
        recording: spikes and hand velocity in mm/s.
        units: tuning of its units in truth.
        start: of what is drawn, in s.
        duration: of what is drawn, in s.

    Returns:
        The figure.
    """
    step, margin = 0.01, 0.3  # s
    edges = np.arange(start - margin, start + duration + margin, step)
    rate = _rates_by_direction(recording, units, edges, step)  # (36, T)

    shown = (recording.behavior_times >= start) & (recording.behavior_times < start + duration)
    seconds = recording.behavior_times[shown] - start
    velocity = recording.behavior[shown]
    fast = np.hypot(*velocity.T) > 150
    figure, (rates, hand) = plt.subplots(
        2, 1, figsize=(6.4, 4.6), sharex=True, height_ratios=(2, 1), layout="constrained"
    )
    extent = (-margin, duration + margin, -180, 180)
    look = {"origin": "lower", "aspect": "auto", "vmin": -0.6, "vmax": 0.9}
    image = rates.imshow(rate - rate.mean(0), extent=extent, **look)
    heading = np.degrees(np.arctan2(velocity[fast, 1], velocity[fast, 0]))
    rates.plot(seconds[fast], heading, "o", color=ORANGE, ms=3.5)
    rates.set(ylabel="preferred direction (°)", yticks=(-180, -90, 0, 90, 180))
    figure.colorbar(image, ax=rates, label="above the others")
    for axis, color in enumerate((INK, BLUE)):
        hand.plot(seconds, velocity[:, axis], color=color, lw=1.6, label="xy"[axis])
    hand.set(xlabel="time (s)", ylabel="hand velocity\n(mm/s)", xlim=(0, duration))
    hand.legend(ncols=2, loc="upper left", bbox_to_anchor=(0.15, 1.2))
    plt.close(figure)
    return figure


def _rates_by_direction(recording, units, edges: np.ndarray, step: float) -> np.ndarray:
    """Rates between edges (T+1,) over the mean rate, of units that prefer each of 36 directions."""
    tuned = np.flatnonzero(units.tuned)
    tuned = tuned[np.argsort(units.preferred_direction_rad[tuned])]
    trains = [recording.spike_times[recording.spike_units == unit] for unit in tuned]
    counts = np.stack([np.histogram(train, edges)[0] for train in trains])
    rate = gaussian_filter1d(counts / step, 6, axis=1)  # (tuned units, T), over 60 ms
    rate /= np.array([[len(train)] for train in trains]) / np.ptp(recording.spike_times)
    angles = np.radians(np.arange(-175, 180, 10))
    away = np.cos(angles[:, None] - units.preferred_direction_rad[tuned])
    near = np.exp(6 * (away - 1))  # units that prefer about this direction, within some 24 degrees
    return near @ rate / near.sum(1, keepdims=True)


def decoder() -> Figure:
    """POSSM whole: from a list of spikes to the velocity at any time asked for."""
    diagram = Diagram(14, 11)
    bins, top, middle, low = (
        (3.3, 7.3, 11.3),
        9.2,
        6.1,
        1.6,
    )  # columns of three bins, heights of three rows

    # from spikes to one vector per bin
    spikes = diagram.box(1.75, top, "", width=2.9, height=1.7)
    rng = np.random.default_rng(1)
    for row, y in enumerate(np.linspace(8.55, 9.85, 6)):
        times = rng.uniform(0.4, 3.1, size=(3, 5, 2, 6, 3, 4)[row])
        diagram.axes.plot(times, np.full(len(times), y), "|", color=INK, ms=7, zorder=3)
    for x in (1.27, 2.23):
        diagram.axes.plot([x, x], [8.4, 10.0], ":", color=GRAY, lw=1.5, zorder=3)
    diagram.note(1.75, 10.3, "spikes in T bins")
    embedding = diagram.box(5.5, top, "unit embedding\n(U + 1, D)", "learned", height=1.1)
    attention = diagram.box(9.3, top, "input attention\nwithin each bin", "learned", height=1.1)
    forward = diagram.box(12.75, top, "feed-\nforward", "learned", height=1.1)
    latent = diagram.box(9.3, 10.55, "latent (L, D)", "learned", height=0.6)
    diagram.arrow(spikes, embedding, "unit")
    diagram.arrow(embedding, attention, "tokens")
    diagram.arrow(latent, attention, "query")
    diagram.arrow(attention, forward, "(B, T, D)")
    around = [(1.75, 8.1), (9.3, 8.1)]
    diagram.arrow(
        spikes,
        attention,
        "offset in its bin: rotates keys and values",
        via=around,
        below=True,
        dashed=True,
    )

    # along the bins
    state = diagram.box(0.8, middle, "$h_{t-3}$", "memory", width=1.1, height=0.75)
    bus = 7.25
    diagram.arrow(forward, (12.75, bus), head=False)
    output = diagram.box(
        7.3, 3.3, "output attention reads the last k = 3 states", "learned", width=10, height=0.8
    )
    for i, x in enumerate(bins):
        cell = diagram.box(x, middle, "GRU", "learned", width=1.4, height=0.8)
        diagram.arrow((12.75, bus), cell.top, via=[(x, bus)])
        diagram.arrow(state, cell, "(B, h)" if i else "")
        state = cell
        kept = diagram.box(
            x, 4.65, ("$h_{t-2}$", "$h_{t-1}$", "$h_t$")[i], "memory", width=1.1, height=0.75
        )
        diagram.arrow(cell, kept)
        diagram.arrow(kept, (x, output.top[1]))
    diagram.arrow(state, (13.7, middle), dashed=True)
    diagram.note(7.45, 6.85, "one vector a bin (B, D)", ha="left")

    # at the times asked for
    query = diagram.box(3.3, low, "query: task, session\nand time", "learned", height=1.1)
    forward = diagram.box(7.3, low, "feed-\nforward", "learned", height=1.1)
    readout = diagram.box(9.7, low, "readout", "learned", height=1.1)
    velocity = diagram.box(12.8, low, "velocity", height=1.1)
    diagram.arrow(query, (3.3, output.bottom[1]), "(B, Q, D)")
    diagram.arrow((7.3, output.bottom[1]), forward, "(B, Q, D)")
    diagram.arrow(forward, readout)
    diagram.arrow(readout, velocity, "(B, Q, 2)")

    diagram.legend(2.3, 0.4)
    return diagram.figure()


def feed_forward() -> Figure:
    """The gated feed-forward layer with its residual, sizes on the arrows."""
    diagram = Diagram(14, 4.6)
    y, upper, lower = 2.3, 3.2, 1.4
    x = diagram.box(0.7, y, "x", width=0.8, height=0.7)
    norm = diagram.box(2.9, y, "LN", "learned", width=1.1, height=0.7)
    w_1, w_2 = (
        diagram.box(5.6, at, name, "learned", width=1.2, height=0.7)
        for at, name in ((upper, "$W_1$"), (lower, "$W_2$"))
    )
    gelu = diagram.box(7.7, lower, "gelu", "operation", width=1.4, height=0.7)
    product = diagram.box(9.5, y, "×", "operation", width=0.7, height=0.7)
    w_3 = diagram.box(11.2, y, "$W_3$", "learned", width=1.1, height=0.7)
    total = diagram.box(12.7, y, "+", "operation", width=0.7, height=0.7)
    diagram.arrow(x, norm, "D")
    fork = diagram.dot(4.1, y)
    diagram.arrow(norm, fork, head=False)
    diagram.arrow(fork, w_1, via=[(4.1, upper)])
    diagram.arrow(fork, w_2, via=[(4.1, lower)])
    diagram.arrow(w_1, product, "4D", via=[(9.5, upper)])
    diagram.arrow(w_2, gelu)
    diagram.arrow(gelu, product, via=[(9.5, lower)])
    diagram.note(9.75, lower, "the gate, 4D", ha="left")
    diagram.arrow(product, w_3, "4D")
    diagram.arrow(w_3, total, "D")
    diagram.arrow((1.5, y), total, "D, the residual", via=[(1.5, 4.1), (12.7, 4.1)])
    diagram.dot(1.5, y)
    diagram.arrow(total, (13.8, y), "y")
    diagram.legend(2.3, 0.35)
    return diagram.figure()


def losses(runs: dict[str, Run]) -> Figure:
    """Draws the loss of each step and its mean over 15 steps; on the right, one minus it.

    Args:
        runs: name of a decoder to its training.

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(6.4, 2.7), layout="constrained")
    for whose, run in runs.items():
        color = ORANGE if whose == YOURS else BLUE
        smooth = np.convolve(run.loss, np.full(15, 1 / 15), "valid")  # mean of 15 steps
        axes.plot(run.loss, ".", color=color, ms=3, alpha=0.35)
        axes.plot(np.arange(len(smooth)) + 7, smooth, color=color, lw=2, label=whose)
    axes.axhline(1, color=GRAY, lw=1.2, ls="--")
    axes.text(len(run.loss), 1.02, "always the mean", color=INK, ha="right", va="bottom", size=10)
    axes.set(xlabel="step", ylabel="loss", ylim=(0, 1.3), xlim=(0, len(run.loss)))
    axes.secondary_yaxis("right", functions=(lambda x: 1 - x, lambda x: 1 - x)).set_ylabel(
        "1 − loss"
    )
    axes.legend(loc="upper center")
    plt.close(figure)
    return figure


def recipe(measured: dict, lines: list[str]) -> Figure:
    """Draws what R² gains or loses without a line of the recipe, a dot for each seed.

    Args:
        measured: number of steps, "60" and "600", to what experiments/ch12_recipe.py has stored.
        lines: the names of what was left out or changed, from top to bottom.

    Returns:
        The figure: one panel for the short trainings, one for the long ones.
    """
    size = (6.4, 0.6 + 0.36 * len(lines))
    figure, panels = plt.subplots(1, 2, figsize=size, sharey=True, layout="constrained")
    for axes, (n_steps, found), color in zip(panels, measured.items(), (BLUE, ORANGE), strict=True):
        whole = np.array(found["r2"]["the whole recipe"])  # (5,): one for each seed
        for row, line in enumerate(lines):
            y = row + np.linspace(-0.2, 0.2, len(whole))
            axes.plot(found["r2"][line] - whole, y, "o", color=color, ms=5, mfc="white", mew=1.6)
        axes.axvline(0, color=GRAY, lw=1)
        axes.set(title=f"{n_steps} steps", xlabel="R² minus that of\nthe whole recipe")
        axes.locator_params(axis="x", nbins=3)
    panels[0].set(yticks=range(len(lines)), yticklabels=lines, ylim=(len(lines) - 0.5, -0.5))
    plt.close(figure)
    return figure


def one_batch(curves: dict[str, list[float]]) -> Figure:
    """Draws the losses of trainings on one and the same batch.

    Args:
        curves: name of a training to the loss of each of its steps.

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(6.4, 2.4), layout="constrained")
    looks = ((BLUE, "-"), (ORANGE, "--"))
    for (name, loss), (color, style) in zip(curves.items(), looks, strict=True):
        axes.plot(loss, style, color=color, lw=2, label=name)
    axes.set(xlabel="step", ylabel="loss", ylim=(0, None))
    axes.legend()
    plt.close(figure)
    return figure


def hand(
    run: Run, session, start: float, duration: float, whose: str, what: str = "five seconds"
) -> Figure:
    """Draws the hand as recorded and as decoded after some numbers of steps, a row for each.

    Args:
        run: a training that has decoded `session.cut(start, duration)` on the way.
        session: the session trained on, with velocity in mm/s.
        start: of what was decoded, in s.
        duration: of what was decoded, in s.
        whose: name of the decoder, for the title.
        what: name of what was decoded, in `run.decoded`.

    Returns:
        The figure: velocity in mm/s, and the way in mm of each trial from its start.
    """
    batch = session.cut(start, duration)
    times_s = batch.times_s[0].numpy()
    recorded = batch.behavior[0].numpy()  # (Q, 2)
    step_s = np.median(np.diff(times_s))
    trials = session.recording.trials[:, 0] - start
    within = trials[(trials > 0.01) & (trials < times_s[-1])]
    edges = [0, *np.searchsorted(times_s, within), len(times_s)]
    begin = np.cumsum(recorded, 0) * step_s  # (Q, 2), mm
    figure, axes = plt.subplots(len(run.decoded), 3, figsize=(6.4, 6.6), layout="constrained")
    for row, (n_steps, looks) in zip(axes, run.decoded.items(), strict=True):
        decoded = session.mean + session.std * looks[what].numpy()
        curves = ((recorded, GRAY, 3.5, "recorded"), (decoded, ORANGE, 1.4, "decoded"))
        for velocity, color, width, name in curves:
            for axis in range(2):
                row[axis].plot(times_s, velocity[:, axis], color=color, lw=width, label=name)
            for first, last in zip(edges, edges[1:], strict=False):
                way = begin[first] + np.cumsum(velocity[first:last], 0) * step_s
                row[2].plot(*way.T, color=color, lw=width)
                row[2].plot(*begin[first], "o", color=INK, ms=3)
        row[0].set_ylabel(f"step {n_steps}", fontweight="bold")
    _finish_hand(axes, recorded, begin, duration)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        title=whose,
    )
    plt.close(figure)
    return figure


def _finish_hand(axes, recorded: np.ndarray, begin: np.ndarray, duration: float) -> None:
    """Limits, ticks and labels of the panels of `hand`, by what was recorded and the way of it."""
    top = 1.1 * np.abs(recorded).max()
    for panel in axes[:, :2].flat:
        panel.set(xlim=(0, duration), ylim=(-top, top))
    for panel in axes[:, 2]:
        panel.set_xlim(begin[:, 0].min() - 30, begin[:, 0].max() + 30)
        panel.set(aspect="equal", anchor="C")
        panel.set_ylim(begin[:, 1].min() - 30, begin[:, 1].max() + 30)
    for panel in axes[:-1].flat:
        panel.tick_params(labelbottom=False)
    for panel in axes[:, 1]:
        panel.tick_params(labelleft=False)
    for panel, title in zip(axes[0], ("x (mm/s)", "y (mm/s)", "way (mm)"), strict=True):
        panel.set_title(title, fontsize=11)
    for panel in axes[-1, :2]:
        panel.set_xlabel("time (s)")
