"""Pictures of chapter 16: few trials, latents put back, a guessed reach, longer pasts."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE

NAMES = {  # in the stored results: in the legend
    "POSSM, units identified": "identified",
    "POSSM, adapt": "identified, then finetuned",
    "POSSM, from scratch": "from scratch",
    "GRU with a table of units": "identified",
    "GRU with a table, from scratch": "from scratch",
    "Wiener filter": "Wiener filter",
}
LOOKS = {
    "identified": (ORANGE, "o-"),
    "identified, then finetuned": (BLUE, "d-"),
    "from scratch": (INK, "s:"),
    "Wiener filter": (GREEN, "x-."),
}


def trials_axis(axes, n_trials: tuple[int, ...], label: str):
    """Makes the horizontal axis one of numbers of trials.

    Args:
        axes: where.
        n_trials: the numbers.
        label: of the axis.
    """
    axes.set_xscale("log")
    axes.set_xticks(n_trials, n_trials)
    axes.minorticks_off()
    axes.set_xlabel(label)


def few_trials(n_trials: tuple[int, ...], r2: dict[str, list[float]]) -> Figure:
    """Draws R² against the trials of a new session, for POSSM and for the GRU on counts.

    Args:
        n_trials: numbers of trials.
        r2: way, a key of `NAMES`, to R² for each number of trials.

    Returns:
        The figure.
    """
    figure, panels = plt.subplots(
        1, 2, figsize=(7.2, 3.2), sharex=True, sharey=True, layout="constrained"
    )
    for axes, kind, title in zip(panels, ("POSSM", "GRU"), ("POSSM", "GRU on counts"), strict=True):
        for way, values in r2.items():
            if way.startswith((kind, "Wiener")):
                color, style = LOOKS[NAMES[way]]
                axes.plot(n_trials, values, style, color=color, mfc="none", ms=6, label=NAMES[way])
        trials_axis(axes, n_trials, "trials to learn from")
        axes.set(title=title, ylim=(0, None))
        axes.legend(loc="lower right", fontsize=9)
    panels[0].set_ylabel("R² on the test trials")
    plt.close(figure)
    return figure


def past_sessions(n_past: tuple[int, ...], r2: dict[str, list[list[float]]]) -> Figure:
    """Draws R² on a new session against the number of sessions in the past.

    Args:
        n_past: numbers of sessions.
        r2: trials of the new session to R² by seed and number of sessions, shape (seeds, n).

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(5.2, 2.9), layout="constrained")
    for (name, runs), color, style in zip(r2.items(), (GRAY, BLUE), ("o--", "s-"), strict=True):
        runs = np.array(runs)
        axes.plot(n_past, runs.T, color=color, lw=0.8, alpha=0.4)
        axes.plot(n_past, runs.mean(0), style, color=color, ms=6, mfc="none", label=name)
    trials_axis(axes, n_past, "sessions in the past")
    axes.set(ylabel="R² on the test trials", ylim=(0, None))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plt.close(figure)
    return figure


def cloud_put_back() -> Figure:
    """Draws canonical correlation analysis on made-up latents of two numbers, step by step.

    The cloud of today is made round, turned, and made long again as that of day 0 is.

    Returns:
        The figure.
    """
    rng = np.random.default_rng(1)
    movement = rng.standard_normal((160, 2))  # what both days have in common
    color = np.arctan2(movement[:, 1], movement[:, 0])
    movement = movement + 0.15 * rng.standard_normal((160, 2))
    today = movement @ [[1.8, 1.2], [-0.3, 0.45]]
    first = movement @ [[0.1, -1.9], [0.6, 0.3]] + 0.1 * rng.standard_normal((160, 2))
    today, first = today - today.mean(0), first - first.mean(0)
    q_x, _ = np.linalg.qr(today)
    q_y, r_y = np.linalg.qr(first)
    U, _, Vt = np.linalg.svd(q_x.T @ q_y)
    long = np.sqrt(len(q_x))  # columns of q have length one: this makes their spread one
    clouds = {
        "today": today,
        "made round": long * q_x,
        "turned": long * q_x @ U @ Vt,
        "made long": q_x @ U @ Vt @ r_y,
        "day 0": first,
    }
    figure, panels = plt.subplots(1, 5, figsize=(7.6, 1.9), sharex=True, sharey=True)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.86, bottom=0.02, wspace=0.05)
    for axes, (title, cloud) in zip(panels, clouds.items(), strict=True):
        axes.scatter(*cloud.T, c=color, cmap="hsv", vmin=-np.pi, vmax=np.pi, s=9, lw=0)
        axes.set_title(title, fontsize=11)
        axes.set(aspect="equal", xlim=(-5, 5), ylim=(-5, 5), xticks=(), yticks=())
    plt.close(figure)
    return figure


def guessed_reach(time_ms: np.ndarray, made: np.ndarray, guessed: np.ndarray) -> Figure:
    """Draws the velocity of one trial as it was made, and as the target alone lets one guess it.

    Args:
        time_ms: time in the trial, in ms, shape (N,).
        made: velocity in mm/s, shape (N, 2).
        guessed: velocity in mm/s, shape (N, 2).

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(5.6, 2.7), layout="constrained")
    for column, color in enumerate((BLUE, ORANGE)):
        name = "xy"[column]
        axes.plot(time_ms, made[:, column], color=color, lw=2, label=f"{name} made")
        axes.plot(time_ms, guessed[:, column], "--", color=color, label=f"{name} guessed")
    axes.set(xlabel="time in the trial (ms)", ylabel="velocity (mm/s)")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plt.close(figure)
    return figure
