"""Figures that the browser draws: what they draw equals what the package computes from the data of the page."""

from itertools import accumulate
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from possm_lite.course.hopfield import hopfield_energy, recall
from possm_lite.course.kernels import leave_one_out_error, nadaraya_watson
from possm_lite.course.load import load_figures
from possm_lite.course.time_features import bochner_features
from possm_lite.nn.positions import phasors, rope_frequencies, rotate

from .test_pages import NAMES, NOTEBOOKS


def numbers(x):
    return torch.tensor(x, dtype=torch.float64)


def kernel(x, y):
    estimate, _ = nadaraya_watson(torch.linspace(0, 2, 121, dtype=torch.float64), numbers(x), numbers(y), 40.0)
    return [*estimate, leave_one_out_error(numbers(x), numbers(y), 40.0).sqrt()]


def rotation(q, k):
    return (complex(*q).conjugate() * complex(*k) * np.exp(1j * np.deg2rad(3 * 35))).real


def estimate(eps):
    features = bochner_features(torch.linspace(0, 2, 201, dtype=torch.float64), 3 * numbers(eps[:50]))
    return features @ features[0]


def gate():
    steps = {9: (0.1, 1), 39: (0.25, -1)}
    return list(
        accumulate((steps.get(t, (0.8, 0)) for t in range(69)), lambda h, z: z[0] * h + (1 - z[0]) * z[1], initial=0)
    )


def memory(patterns, shuffle, orders):
    X = numbers([[1 if sign == "+" else -1 for sign in row] for row in patterns[:25]])
    W = X.T @ X - len(X) * torch.eye(144)  # whole numbers: a field of 0 is exactly 0
    X[0, numbers(shuffle[:58]).long()] *= -1
    path = recall(X[:1], W, max_sweeps=4, generator=torch.Generator().manual_seed(8), path=True)
    return hopfield_energy(path[:, 0], W) / 144


def reading(units, ms, omega, score, value):
    phase = phasors((numbers(ms) + 4 * (torch.arange(len(ms)) == 2) - 25) / 1000, numbers(omega), torch.float64)
    s = (numbers(score) * torch.cat([phase.real, phase.imag, torch.ones(len(ms), 1)], 1)).sum(1)
    return torch.softmax(s, 0) @ rotate(numbers(value), phase)[:, 6:8]


def loop():
    """The loop of the chapter, whose units pass the intention on, and whose decoder takes its mean."""
    sim = load_figures("14_closed_loop", NOTEBOOKS)
    units = SimpleNamespace(reset=lambda: None, n_steps=5, fire=lambda seen, intended: (seen, intended))
    decoder = SimpleNamespace(reset=lambda: None, step=lambda _, intended: (None, [intended.mean(0)]))
    task = sim.ReachingTask(sim.circle_targets())
    return sim.ClosedLoop(decoder, units, task, latency_s=0.12, gain=0.7).run(4.0).cursor_mm.T


# figure, what its sliders are at, what it draws then, and what that is by the package
CASES = [
    ("01", {"w": 40}, "[...n.estimate, n.error]", kernel),
    ("02 temperature", {"tau": 0.3}, "n.weights", lambda: numbers([2, 1, 0, -1]).div(0.3).softmax(0)),
    ("02 size", {"d": 32, "scaled": 1}, "n.weights", lambda scores, mean: numbers(scores[5]).div(32**0.5).softmax(0)),
    ("03", {"person": 3, "step": 70}, "n.weights", lambda watched, **_: np.array(watched)[7, :, 3]),
    ("04 rotation", {"m": 5, "distance": 3, "theta": 35}, "n.product", rotation),
    ("04 phasors", {"base": 1e3, "distance": 30}, "n.score", lambda: (30 * rope_frequencies(32, 1e3)).cos().mean()),
    ("05", {"n_freqs": 50, "sigma": 3}, "n.estimate", estimate),
    ("06", {"hold": 0.8, "second": 0.25}, "n.state", gate),
    ("09", {"percent": 40, "n_patterns": 25}, "n.energy", memory),
    ("11", {"spike": 3, "shift": 4, "pair": 4}, "[n.x.at(-1), n.y.at(-1)]", reading),
    ("14", {"latency_ms": 120, "gain": 0.7}, "[n.x, n.y]", loop),
    ("15 mode", {"r": 0.9, "theta": 1.2}, "n.real", lambda: ((0.9 * np.exp(1.2j)) ** np.arange(41)).real),
    ("15 step", {"delta": 0.2, "m": 4}, "n.imaginary", lambda: np.exp((4j * np.pi - 0.5) * 0.2 * np.arange(61)).imag),
]


@pytest.mark.parametrize(("name", "sliders", "drawn", "expected"), CASES)
def test_figure_draws_what_the_package_computes(offline_page, pages, name, sliders, drawn, expected):
    offline_page.goto(f"file://{pages}/{next(chapter for chapter in NAMES if chapter[:2] == name[:2])}.html")
    figure = offline_page.locator(f"figure[data-figure='{name}']")
    data = figure.locator("script").evaluate("script => JSON.parse(script.textContent)") or {}
    found = offline_page.evaluate(
        f"([name, p]) => {{ const n = figures.numbers(name, p); return {drawn}; }}", [name, sliders]
    )
    np.testing.assert_allclose(found, expected(**data), rtol=1e-6, atol=1e-6)
    slider, panels = figure.locator("input").first, figure.locator(".panels")
    before = slider.get_attribute("aria-valuetext"), panels.inner_html()
    slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") != before[0] and panels.inner_html() != before[1]
    assert offline_page.problems == []
