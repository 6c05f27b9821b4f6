"""Figures, trials and trainings of chapter 05: press and tone, kernels and spectra, a rhythm in spikes."""

import math
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from possm_course.chapters.ch02.adam import Adam
from possm_course.diagrams import Diagram
from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE
from possm_lite.nn.time_features import (
    QuantileFrequencies,
    bochner_features,
    gaussian_frequencies,
    gaussian_kernel,
)

KINDS = ("click", "press", "tone")
LOOKS = (("|", INK), ("^", BLUE), ("o", ORANGE))
N_EVENTS, N_TEST = 8, 1000  # events in a trial, trials not trained on
DURATION, RATE = 2.0, 20.0  # s, spikes/s: a trial of the neuron with a rhythm


def draw_recordings(kind: Tensor, **recordings: Tensor) -> None:
    """Events of the same kinds (N,) at other times (N,) in s, a row for each recording."""
    figure, axes = plt.subplots(figsize=(6.4, 1.9), layout="constrained")
    for row, times in enumerate(recordings.values()):
        axes.axhline(-row, color=GRAY, lw=1, zorder=0)
        for i in (1, 0, 2):
            shown, (marker, color) = times[kind == i], LOOKS[i]
            label = KINDS[i] if row == 0 else None
            axes.plot(shown, torch.full_like(shown, -row), marker, color=color, ms=11, mew=2, label=label)
    axes.set_yticks([0, -1], [f"recording {name}" for name in recordings])
    axes.set(xlabel="time (s)", ylim=(-1.5, 0.5), xlim=(-0.1, 3.6))
    figure.legend(loc="outside upper center", ncols=3)
    plt.show()


def draw_machine() -> Figure:
    """Features (5.3) of four times with three frequencies, and their kernel."""
    t, omega = np.array([0.0, 0.1, 0.4, 0.9]), np.array([2.0, 5.0, 9.0])  # s, rad/s
    angle = t[:, None] * omega
    waves = np.concatenate([np.cos(angle), np.sin(angle)], 1)
    diagram = Diagram(18.4, 6)
    t_box = diagram.matrix(0.8, 2.6, 4, 1, "t", t[:, None], cell=(0.95, 0.6))
    omega_box = diagram.matrix(4.5, 4.9, 1, 3, "frequencies ω", [omega], 0.4, cell=(0.8, 0.6))
    angle_box = diagram.matrix(4.5, 2.6, 4, 3, "", np.round(angle, 1), cell=(0.8, 0.6))
    wave = diagram.box(8.0, 2.6, "cos, sin,\ndivide\nby √F", "operation", width=2.2, height=1.6)
    Phi_box = diagram.matrix(11.7, 2.6, 4, 6, "features Φ(t)", "", (waves + 1) / 2, cell=(0.6, 0.6))
    dot = diagram.box(15.0, 2.6, "Φ·Φ", "operation", width=1.1, height=0.9)
    psi_box = diagram.matrix(17.1, 2.6, 4, 4, "kernel", "", np.clip(waves @ waves.T / 3, 0, 1), cell=(0.5, 0.6))
    diagram.arrow(t_box, angle_box, "multiply")
    diagram.arrow(omega_box, angle_box)
    for a, b in ((angle_box, wave), (wave, Phi_box), (Phi_box, dot), (dot, psi_box)):
        diagram.arrow(a, b)
    for box, shape in ((t_box, "(N,)"), (angle_box, "angles (N, F)"), (Phi_box, "(N, 2F)"), (psi_box, "(N, N)")):
        diagram.note(box.x, 1.0, shape)
    diagram.note(6.0, 4.9, "(F,)", ha="left")
    diagram.note(10.8, 0.4, "cosines")
    diagram.note(12.6, 0.4, "sines")
    return diagram.figure()


def make_draw_estimate() -> Callable[..., Figure]:
    """draw(n_freqs, sigma): random frequencies, their kernel, and the closed form (5.4)."""
    eps = torch.randn(1000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    lag = torch.linspace(0, 2, 201, dtype=torch.float64)  # s

    def draw(n_freqs: float, sigma: float) -> Figure:
        """A histogram of random frequencies, and the kernel that they estimate beside the closed form."""
        n_freqs = round(n_freqs)
        features = bochner_features(lag, sigma * eps[:n_freqs])  # (201, 2F)
        figure = Figure(figsize=(6.4, 2.8))
        left, right = figure.add_axes((0.1, 0.2, 0.27, 0.66)), figure.add_axes((0.5, 0.2, 0.47, 0.66))
        left.hist((sigma * eps[:n_freqs]).numpy(), bins=25, range=(-30, 30), color=BLUE)
        left.set(xlabel="ω (rad/s)", ylabel="how many", xticks=(-30, 0, 30), title=f"F = {n_freqs}")
        left.yaxis.get_major_locator().set_params(integer=True)
        right.plot(lag, gaussian_kernel(lag, 0.0, sigma), "--", color=INK, lw=2, label="closed form (5.4)")
        right.plot(lag, features @ features[0], color=ORANGE, lw=2, label="estimate Φ·Φ")
        right.set(
            xlabel="time between, τ (s)", ylabel="kernel ψ", ylim=(-1.1, 1.1), xticks=(0, 1, 2), yticks=(-1, 0, 1)
        )
        right.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=10, columnspacing=1, frameon=False)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        return figure

    return draw


def draw_errors(sigma: float = 4.0, n_seeds: int = 20) -> float:
    """Error of the kernel of F random frequencies, with formula (5.5); gives the mean slope of the logarithms."""
    sizes = 2 ** np.arange(3, 11)  # 8 ... 1024
    lag = torch.linspace(0, 2, 201, dtype=torch.float64)  # s
    true = gaussian_kernel(lag, 0.0, sigma)
    error = np.empty((n_seeds, len(sizes)))
    for seed in range(n_seeds):
        generator = torch.Generator().manual_seed(seed)
        for i, n_freqs in enumerate(sizes):
            omega = sigma * torch.randn(int(n_freqs), generator=generator, dtype=torch.float64)
            features = bochner_features(lag, omega)
            error[seed, i] = (features @ features[0] - true).square().mean().sqrt()
    variance = ((1 + gaussian_kernel(2 * lag, 0.0, sigma)) / 2 - true**2).mean().item()  # (5.5), mean over lags
    figure, axes = plt.subplots(figsize=(5.4, 2.8), layout="constrained")
    axes.loglog(sizes, error.T, ".", color=BLUE, ms=5, alpha=0.5)
    axes.loglog([], [], ".", color=BLUE, label="one draw")
    axes.loglog(sizes, (variance / sizes) ** 0.5, "--", color=INK, lw=2, label="formula (5.5)")
    axes.set(xlabel="number of frequencies F", ylabel="error, 0 to 2 s (rms)")
    axes.legend()
    plt.show()
    return float(np.mean([np.polyfit(np.log(sizes), np.log(row), 1)[0] for row in error]))


def draw_spectra(tau: Tensor, omega: Tensor, psi: dict[str, Tensor], p: dict[str, Tensor]) -> None:
    """Functions of the time between (L,) beside their spectra (W,)."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 2.8), layout="constrained")
    for (name, line), color, style in zip(psi.items(), (GREEN, BLUE, ORANGE), ("-", "--", "-."), strict=True):
        left.plot(tau, line, style, color=color, lw=2, label=name)
        right.plot(omega, p[name], style, color=color, lw=2)
    left.set(xlabel="time between, τ (s)", ylabel="ψ(τ)", xlim=(-2, 2))
    right.axhline(0, color=GRAY, lw=1)
    right.set(xlabel="ω (rad/s)", ylabel="spectrum p(ω)", xlim=(-15, 15))
    figure.legend(loc="outside upper center", ncols=3, fontsize=10, columnspacing=1)
    plt.show()


def draw_reader() -> Figure:
    """The network of section 7: a query at the time of the tone reads all events."""
    diagram = Diagram(19.5, 5.8)
    kinds = diagram.box(1.2, 4.0, "kinds")
    times = diagram.box(1.2, 2.3, "times")
    keys = diagram.box(4.9, 4.0, "a key for\neach kind", "learned", width=3.1, height=1.1)
    tone = diagram.box(4.9, 2.3, "time to the\ntone", "operation", width=3.1, height=1.1)
    query = diagram.box(4.9, 0.7, "$z_q$", "learned", width=1.3, height=0.9)
    score = diagram.box(10.4, 2.3, "clock: a score\nfor each event,\nsoftmax", "operation", width=4.2, height=1.7)
    values = diagram.box(15.2, 4.0, "a value for\neach kind", "learned", width=3.4, height=1.1)
    read = diagram.box(15.2, 2.3, "weighted sum,\nlinear", "learned", width=3.6, height=1.1)
    soon = diagram.box(18.5, 2.3, "soon?")
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


def make_trials(n: int, seed: int, even: bool = False) -> list[Tensor]:
    """Kinds (n, 8) as in `KINDS`, times (n, 8) in s, index of the tone, lag from press to tone in s, label, (n,) each.

    The press comes first, the index of the tone says nothing of its lag. `even`: an event every 0.4 s.
    """
    rng = np.random.default_rng(seed)
    soon, index = rng.random(n) < 0.5, np.arange(N_EVENTS)
    if even:  # here the index is as good as the time
        tone = np.where(soon, rng.integers(1, 3, n), rng.integers(3, N_EVENTS, n))
        times = np.tile(0.4 * index, (n, 1))
    else:
        tone = rng.integers(1, N_EVENTS, n)
        lag = np.exp(np.where(soon, -1, 1) * rng.uniform(0.05, 1.5, n))[:, None]
        u = rng.random((n, N_EVENTS))
        times = np.where(index < tone[:, None], u * lag, lag + 5 * u)  # clicks before the tone, and in the 5 s after
        times[:, 0], times[np.arange(n), tone] = 0, lag[:, 0]
        times.sort(1)
    kind = np.zeros((n, N_EVENTS), int)
    kind[:, 0], kind[np.arange(n), tone] = 1, 2
    lag = times[np.arange(n), tone]
    times = times + rng.uniform(0, 100, (n, 1))  # the clock starts anywhere
    return [torch.tensor(x) for x in (kind, times, tone, lag, soon)]


def on_the_index(kind: Tensor, times: Tensor, *rest: Tensor) -> list[Tensor]:
    """The same trials for a network that knows the index alone: as if an event came every 0.4 s."""
    return [kind, 0.4 * torch.arange(times.shape[-1], dtype=torch.float64).expand_as(times), *rest]


def train(make: Callable[[], nn.Module], data: list[Tensor], seed: int, steps: int = 100) -> tuple[nn.Module, float]:
    """A trained network, and its share of right answers on the trials it was not trained on."""
    torch.manual_seed(seed)
    model = make()
    adam = Adam([p for p in model.parameters() if p.requires_grad], 0.05)
    kind, times, tone, _, soon = data
    for b in torch.randint(len(kind) - N_TEST, (steps, 64)):
        loss = F.binary_cross_entropy_with_logits(model(kind[b], times[b], tone[b]), soon[b].float())
        adam.step(loss)
    with torch.no_grad():
        yes = model(kind[-N_TEST:], times[-N_TEST:], tone[-N_TEST:]) > 0
    return model.eval(), (yes == soon[-N_TEST:]).double().mean().item()


def draw_answers(answers: dict[str, list[tuple]], lag: Tensor, ours: dict[str, float]) -> None:
    """What networks say of test trials, against the true lag (n,): a panel for each name, with (answers of
    the trials (n,), answers of the recordings A and B) of each network; `ours` are the lags of A and B."""
    figure, panels = plt.subplots(1, len(answers), figsize=(6.4, 2.9), sharey=True, layout="constrained")
    for axes, (name, networks) in zip(panels, answers.items(), strict=True):
        color = ORANGE if "index" in name else BLUE
        for p, p_ours in networks:
            axes.semilogx(lag, p, ".", color=color, ms=3, alpha=0.25, rasterized=True)
            axes.plot(list(ours.values()), p_ours, "o", color=INK, ms=8, mfc="none", mew=1.6)
        for i, (letter, at) in enumerate(ours.items()):
            y = max(p_ours[i] for _, p_ours in networks)
            axes.annotate(letter, (at, y), xytext=(0, -17 if y > 0.8 else 12), textcoords="offset points", ha="center")
        axes.axvline(1, color=INK, lw=1, ls="--")
        axes.set_title(name, fontsize=11)
        axes.set_xticks([0.25, 1, 4], ["0.25", "1", "4"])
        axes.minorticks_off()
        axes.set_ylim(-0.07, 1.07)
    panels[0].set_ylabel('says "within 1 s"\n(probability)')
    figure.supxlabel("true time from press to tone (s)", fontsize=11)
    plt.show()


def rhythmic_spikes(hz: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Spike times (s) of one trial for each frequency in hz: candidates, kept with probability (1 + cos) / 2."""
    trials = []
    for f, phase in zip(hz, rng.uniform(0, 2 * np.pi, len(hz)), strict=True):
        candidate = np.sort(rng.uniform(0, DURATION, rng.poisson(2 * RATE * DURATION)))
        trials.append(candidate[rng.random(len(candidate)) < (1 + np.cos(2 * np.pi * f * candidate + phase)) / 2])
    return trials


def measured_kernel(trials: list[np.ndarray], bin_s: float = 0.01, longest_s: float = 0.6) -> tuple[Tensor, Tensor]:
    """Lags (L,) in s and 2 (pairs / pairs by chance - 1), (L,), of (5.7)."""
    apart = np.concatenate([(s - s[:, None])[np.triu_indices(len(s), 1)] for s in trials])
    count, edges = np.histogram(apart, np.arange(0, longest_s + bin_s / 2, bin_s))
    lag = (edges[:-1] + edges[1:]) / 2
    mean_rate = sum(map(len, trials)) / (len(trials) * DURATION)
    by_chance = len(trials) * (DURATION - lag) * bin_s * mean_rate**2
    return torch.tensor(lag).float(), torch.tensor(2 * (count / by_chance - 1)).float()


def fit_gaussian(
    lag_s: Tensor, measured: Tensor, start_hz: Tensor, steps: int = 400, n_freqs: int | None = 32
) -> tuple[Tensor, Tensor, Tensor]:
    """mu and sigma in Hz and the errors of fits to a measured kernel from starts (S,), sigma at 1 Hz; (S,) each.

    Through n_freqs new draws at each step; through the closed form (5.4) if n_freqs is None.
    """
    mu = start_hz.clone().requires_grad_()
    log_sigma = torch.zeros_like(mu).requires_grad_()
    adam = Adam([mu, log_sigma], 0.05)

    def closed_form() -> Tensor:
        return gaussian_kernel(lag_s[:, None], 2 * math.pi * mu, 2 * math.pi * log_sigma.exp())  # (L, S)

    for _ in range(steps):
        if n_freqs is None:
            psi = closed_form()
        else:
            omega = 2 * math.pi * gaussian_frequencies(mu, log_sigma.exp(), torch.randn(n_freqs, len(mu)))  # (F, S)
            psi = torch.cos(lag_s[:, None, None] * omega).mean(1)  # (L, S)
        error = (psi - measured[:, None]).square().mean(0)  # (S,): each fit has its own
        adam.step(error.sum())
    with torch.no_grad():
        return mu.detach(), log_sigma.exp().detach(), (closed_form() - measured[:, None]).square().mean(0)


def fit_quantiles(lag_s: Tensor, measured: Tensor, seed: int, highest_hz: float, steps: int = 300) -> tuple:
    """A learned inverse CDF of 24 lines, at first one line from 0 to highest_hz, and its error."""
    torch.manual_seed(seed)
    frequencies = QuantileFrequencies(128, lowest=0.0, highest=2 * math.pi * highest_hz, n_knots=24)
    adam = Adam(frequencies.parameters(), 0.05)
    for _ in range(steps):
        error = (torch.cos(lag_s[:, None] * frequencies()).mean(1) - measured).square().mean()
        adam.step(error)
    return frequencies, error.item()
