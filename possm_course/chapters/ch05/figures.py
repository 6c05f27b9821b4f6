"""Drawings of chapter 05: press and tone, features, kernels, a rhythm, units, answers by lag."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from possm_course.chapters.ch05.toy import KINDS
from possm_course.diagrams import Diagram
from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE
from possm_lite.nn.time_features import bochner_features, gaussian_kernel

LOOKS = (("|", INK), ("^", BLUE), ("o", ORANGE))  # marker and color of each of the KINDS


def draw_recordings(kind: Tensor, **recordings: Tensor) -> None:
    """The same events at other times, a row for each of two recordings.

    Args:
        kind: The kind of each event, an index of `KINDS`, shape (N,).
        recordings: The times of the events in s by the name of the recording, shape (N,) each.
    """
    figure, axes = plt.subplots(figsize=(6.4, 1.9), layout="constrained")
    for row, times in enumerate(recordings.values()):
        axes.axhline(-row, color=GRAY, lw=1, zorder=0)
        for i in (1, 0, 2):
            shown, (marker, color) = times[kind == i], LOOKS[i]
            label = KINDS[i] if row == 0 else None
            axes.plot(
                shown, torch.full_like(shown, -row), marker, color=color, ms=11, mew=2, label=label
            )
    axes.set_yticks([0, -1], [f"recording {name}" for name in recordings])
    axes.set(xlabel="time (s)", ylim=(-1.5, 0.5), xlim=(-0.1, 3.6))
    figure.legend(loc="outside upper center", ncols=3)
    plt.show()


def draw_machine() -> Figure:
    """A diagram of the features (5.3) of four times with three frequencies, and of their kernel.

    Returns:
        The figure, with the matrices from t (N, 1) to Phi (N, 2F) and the kernel (N, N).
    """
    t = np.array([0.0, 0.1, 0.4, 0.9])  # s
    omega = np.array([2.0, 5.0, 9.0])  # rad/s
    angle = t[:, None] * omega  # (N, F)
    waves = np.concatenate([np.cos(angle), np.sin(angle)], 1)  # (N, 2F)
    kernel = waves @ waves.T / 3  # (N, N)
    diagram = Diagram(20.4, 6)
    t_box = diagram.matrix(0.8, 2.6, 4, 1, "t", t[:, None], cell=(0.95, 0.6))
    omega_box = diagram.matrix(4.5, 4.9, 1, 3, "frequencies ω", [omega], 0.4, cell=(0.8, 0.6))
    angle_box = diagram.matrix(4.5, 2.6, 4, 3, "", np.round(angle, 1), cell=(0.8, 0.6))
    text = "cos, sin,\ndivide\nby √F"
    wave = diagram.box(8.0, 2.6, text, "operation", width=2.4, height=1.6)
    shades = (waves + 1) / 2
    Phi_box = diagram.matrix(11.5, 2.6, 4, 6, "features Φ(t)", "", shades, cell=(0.5, 0.6))
    dot = diagram.box(14.5, 2.6, "Φ·Φ", "operation", width=1.2, height=0.9)
    values = np.round(kernel, 1) + 0.0  # no minus before a zero
    psi_box = diagram.matrix(
        17.9, 2.6, 4, 4, "kernel", values, np.clip(kernel, 0, 1), cell=(1.1, 0.6)
    )
    diagram.arrow(t_box, angle_box, "multiply")
    diagram.arrow(omega_box, angle_box)
    diagram.arrow(angle_box, wave)
    diagram.arrow(wave, Phi_box)
    diagram.arrow(Phi_box, dot)
    diagram.arrow(dot, psi_box)
    diagram.note(t_box.x, 1.0, "(N,)")
    diagram.note(angle_box.x, 1.0, "angles (N, F)")
    diagram.note(Phi_box.x, 1.0, "(N, 2F)")
    diagram.note(psi_box.x, 1.0, "(N, N)")
    diagram.note(6.0, 4.9, "(F,)", ha="left")
    diagram.note(10.7, 0.4, "cosines")
    diagram.note(12.3, 0.4, "sines")
    return diagram.figure()


def make_draw_estimate() -> Callable[..., Figure]:
    """The drawing behind the sliders of random frequencies.

    Returns:
        draw(n_freqs, sigma) -> Figure: a histogram of `n_freqs` random frequencies of standard
        deviation `sigma`, in rad/s (left), and the kernel that they estimate beside the closed
        form (5.4), at lags from 0 to 2 s (right).
    """
    generator = torch.Generator().manual_seed(1)
    eps = torch.randn(1000, generator=generator, dtype=torch.float64)
    lag = torch.linspace(0, 2, 201, dtype=torch.float64)  # s

    def draw(n_freqs: float, sigma: float) -> Figure:
        """Random frequencies, and the kernel that they estimate beside the closed form."""
        n_freqs = round(n_freqs)
        omega = sigma * eps[:n_freqs]  # (F,)
        features = bochner_features(lag, omega)  # (201, 2F)
        figure = Figure(figsize=(6.4, 2.8))
        left = figure.add_axes((0.1, 0.2, 0.27, 0.66))
        right = figure.add_axes((0.5, 0.2, 0.47, 0.66))
        left.hist(omega.numpy(), bins=25, range=(-30, 30), color=BLUE)
        left.set(xlabel="ω (rad/s)", ylabel="how many", xticks=(-30, 0, 30), title=f"F = {n_freqs}")
        left.yaxis.get_major_locator().set_params(integer=True)
        closed_form = gaussian_kernel(lag, 0.0, sigma)
        right.plot(lag, closed_form, "--", color=INK, lw=2, label="closed form (5.4)")
        right.plot(lag, features @ features[0], color=ORANGE, lw=2, label="estimate Φ·Φ")
        right.set(xlabel="time between, τ (s)", ylabel="kernel ψ")
        right.set(ylim=(-1.1, 1.1), xticks=(0, 1, 2), yticks=(-1, 0, 1))
        above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "ncols": 2}
        right.legend(**above, fontsize=10, columnspacing=1, frameon=False)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        return figure

    return draw


def draw_errors(sigma: float = 4.0, n_seeds: int = 20) -> float:
    """The error of the kernel of F random frequencies against F, a dot for each draw, and (5.11).

    Args:
        sigma: Standard deviation of the frequencies in rad/s.
        n_seeds: Draws for each F.

    Returns:
        The slope of log error against log F, its mean over the draws.
    """
    sizes = 2 ** np.arange(3, 11)  # 8 ... 1024
    lag = torch.linspace(0, 2, 201, dtype=torch.float64)  # s
    error = _kernel_errors(sizes, lag, sigma, n_seeds)
    true = gaussian_kernel(lag, 0.0, sigma)
    at_lags = (1 + gaussian_kernel(2 * lag, 0.0, sigma)) / 2 - true**2  # (5.11)
    variance = at_lags.mean().item()
    figure, axes = plt.subplots(figsize=(5.4, 2.8), layout="constrained")
    axes.loglog(sizes, error.T, ".", color=BLUE, ms=5, alpha=0.5)
    axes.loglog([], [], ".", color=BLUE, label="one draw")
    axes.loglog(sizes, (variance / sizes) ** 0.5, "--", color=INK, lw=2, label="formula (5.11)")
    axes.set(xlabel="number of frequencies F", ylabel="error, 0 to 2 s (rms)")
    axes.legend()
    plt.show()
    slopes = [np.polyfit(np.log(sizes), np.log(row), 1)[0] for row in error]
    return float(np.mean(slopes))


def _kernel_errors(sizes: np.ndarray, lag: Tensor, sigma: float, n_seeds: int) -> np.ndarray:
    """Root mean squared errors over the lags (L,) of random kernels: (n_seeds, sizes)."""
    true = gaussian_kernel(lag, 0.0, sigma)
    error = np.empty((n_seeds, len(sizes)))
    for seed in range(n_seeds):
        generator = torch.Generator().manual_seed(seed)
        for i, n_freqs in enumerate(sizes):
            omega = sigma * torch.randn(int(n_freqs), generator=generator, dtype=torch.float64)
            features = bochner_features(lag, omega)
            error[seed, i] = (features @ features[0] - true).square().mean().sqrt()
    return error


def draw_spectra(tau: Tensor, omega: Tensor, psi: dict[str, Tensor], p: dict[str, Tensor]) -> None:
    """Three functions of the time between, beside their spectra.

    Args:
        tau: The times between in s, shape (L,).
        omega: The frequencies in rad/s, shape (W,).
        psi: The functions by name, shape (L,) each.
        p: Their spectra by the same names, shape (W,) each.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 2.8), layout="constrained")
    looks = ((GREEN, "-"), (BLUE, "--"), (ORANGE, "-."))
    for (name, line), (color, style) in zip(psi.items(), looks, strict=True):
        left.plot(tau, line, style, color=color, lw=2, label=name)
        right.plot(omega, p[name], style, color=color, lw=2)
    left.set(xlabel="time between, τ (s)", ylabel="ψ(τ)", xlim=(-2, 2))
    right.axhline(0, color=GRAY, lw=1)
    right.set(xlabel="ω (rad/s)", ylabel="spectrum p(ω)", xlim=(-15, 15))
    figure.legend(loc="outside upper center", ncols=3, fontsize=10, columnspacing=1)
    plt.show()


def draw_rhythm(
    trials: list[np.ndarray], lag_s: Tensor, measured: Tensor, expected: Tensor, n_rows: int = 15
) -> None:
    """Spikes of some trials, a row each, beside the kernel of the pairs of spikes of all trials.

    Args:
        trials: The spike times of each trial in s, shape (spikes,) each.
        lag_s: The times between two spikes in s, shape (L,).
        measured: The kernel from the pairs, by (5.5), shape (L,).
        expected: The kernel (5.4) of the true spectrum, shape (L,).
        n_rows: How many trials are shown.
    """
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.4, 2.8), width_ratios=(1, 1.3), layout="constrained"
    )
    left.eventplot(trials[:n_rows], color=INK, linelengths=0.8)
    left.set(xlabel="time (s)", ylabel=f"trial (the first {n_rows})", yticks=[])
    right.plot(lag_s, measured, ".", color=GRAY, label="measured, (5.5)")
    right.plot(lag_s, expected, color=BLUE, label="expected, (5.4)")
    right.set(xlabel="time between two spikes, τ (s)", ylabel="kernel ψ", ylim=(-1.1, 1.1))
    figure.legend(loc="outside upper right", ncols=2)
    plt.show()


def draw_unit_curves(curves: Tensor, dt: Tensor, unit: Tensor, dt_s: Tensor) -> None:
    """The score of each unit against the time of its spike, and spikes that read it there.

    Args:
        curves: The score of each unit at the times `dt`, shape (U, T).
        dt: The times of `curves`, from the query, in s, shape (T,).
        unit: The unit of each spike, shape (n,).
        dt_s: The time of each spike from the query in s, shape (n,).
    """
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(6.4, 3.8), height_ratios=(1, 2.4), sharex=True, layout="constrained"
    )
    looks = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PURPLE, ":"), (INK, "-"))
    for u, (color, style) in zip(range(len(curves)), looks, strict=True):
        spikes = dt_s[unit == u]
        top.plot(spikes, torch.full_like(spikes, -u), "|", color=color, ms=10, mew=2)
        bottom.plot(dt, curves[u], style, color=color, lw=1.8, label=f"unit {u}")
        heights = np.interp(spikes, dt, curves[u])
        bottom.plot(spikes, heights, "o", color=color, ms=6)
    top.set(ylim=(-len(curves) + 0.4, 0.6), yticks=[0, -len(curves) + 1])
    top.set_yticklabels(["unit 0", f"unit {len(curves) - 1}"])
    bottom.axhline(0, color=GRAY, lw=0.8)
    bottom.set(xlabel="time of a spike from the query, Δt (s)", ylabel="score", xlim=(0, 1))
    bottom.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plt.show()


def draw_reader() -> Figure:
    """A diagram of the network of section 7: a query at the time of the tone reads all events.

    Returns:
        The figure, with the shapes of N events and D features at its arrows.
    """
    diagram = Diagram(19.5, 5.8)
    kinds = diagram.box(1.2, 4.0, "kinds")
    times = diagram.box(1.2, 2.3, "times")
    keys = diagram.box(4.9, 4.0, "a key for\neach kind", "learned", width=3.1, height=1.1)
    tone = diagram.box(4.9, 2.3, "time from\nthe tone", "operation", width=3.1, height=1.1)
    query = diagram.box(4.9, 0.7, "$z_q$", "learned", width=1.3, height=0.9)
    text = "clock: a score\nfor each event,\nsoftmax"
    score = diagram.box(10.4, 2.3, text, "operation", width=4.2, height=1.7)
    values = diagram.box(15.2, 4.0, "a value for\neach kind", "learned", width=3.4, height=1.1)
    read = diagram.box(15.2, 2.3, "weighted sum,\nlinear", "learned", width=3.6, height=1.1)
    soon = diagram.box(18.4, 2.3, "within\n1 s?")
    diagram.arrow(kinds, keys, "(N,)")
    diagram.arrow(kinds, values, via=[(1.2, 5.3), (15.2, 5.3)])
    diagram.arrow(times, tone, "(N,)")
    diagram.arrow(keys, score, "(N, D)", via=[(10.4, 4.0)])
    diagram.arrow(tone, score, "(N,)")
    diagram.arrow(query, score, "(D,)", via=[(10.4, 0.7)])
    diagram.arrow(values, read)
    diagram.arrow(score, read, "(N,)")
    diagram.arrow(read, soon)
    diagram.legend(10.8, 0.6)
    return diagram.figure()


def draw_answers(answers: dict[str, list[tuple]], lag: Tensor, ours: dict[str, float]) -> None:
    """What networks say of test trials, against the true lag, a panel for each kind of network.

    Args:
        answers: For each kind, by its name, a pair of each network: its probabilities for the
            trials, shape (n,), and for the recordings A and B, shape (2,).
        lag: The true lags of the trials in s, shape (n,).
        ours: The true lags of the recordings A and B in s, by their letter.
    """
    figure, panels = plt.subplots(
        1, len(answers), figsize=(6.4, 2.9), sharey=True, layout="constrained"
    )
    for axes, (name, networks) in zip(panels, answers.items(), strict=True):
        color = ORANGE if "index" in name else BLUE
        for p, p_ours in networks:
            axes.semilogx(lag, p, ".", color=color, ms=3, alpha=0.25, rasterized=True)
            axes.plot(list(ours.values()), p_ours, "o", color=INK, ms=8, mfc="none", mew=1.6)
        for i, (letter, at) in enumerate(ours.items()):
            y = max(p_ours[i] for _, p_ours in networks)
            above = -17 if y > 0.8 else 12  # points
            place = {"xytext": (0, above), "textcoords": "offset points"}
            axes.annotate(letter, (at, y), ha="center", **place)
        axes.axvline(1, color=INK, lw=1, ls="--")
        axes.set_title(name, fontsize=11)
        axes.set_xticks([0.25, 1, 4], ["0.25", "1", "4"])
        axes.minorticks_off()
        axes.set_ylim(-0.07, 1.07)
    panels[0].set_ylabel('says "within 1 s"\n(probability)')
    figure.supxlabel("true time from press to tone (s)", fontsize=11)
    plt.show()
