"""Figures that the browser draws: what they draw equals what the package computes from the data of the page."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch

from possm_course.chapters.ch01.kernels import leave_one_out_error, nadaraya_watson
from possm_course.chapters.ch09.hopfield import hopfield_energy, recall
from possm_course.chapters.ch14 import closed_loop
from possm_course.chapters.ch19 import targets
from possm_lite.nn.positions import phasors, rope_frequencies, rotate
from possm_lite.nn.time_features import bochner_features

from .test_pages import NAMES


def kernel(x, y):
    return [*nadaraya_watson(LAGS[:121] / 0.6, x, y, 40.0)[0], leave_one_out_error(x, y, 40.0).sqrt()]


def gate(H=0.0):
    Z, pulse = {10: 0.1, 40: 0.25}, {10: 1, 40: -1}
    return [H := Z.get(t, 0.8) * H + (1 - Z.get(t, 0.8)) * pulse.get(t, 0) for t in range(70)]


def memory(patterns, shuffle, orders):
    X = torch.tensor([[1.0 if sign == "+" else -1.0 for sign in row] for row in patterns[:25]]).double()
    W = X.T @ X - len(X) * torch.eye(144)  # whole numbers: a field of 0 is exactly 0
    X[0, shuffle[:58].long()] *= -1
    path = recall(X[:1], W, max_sweeps=4, generator=torch.Generator().manual_seed(8), path=True)
    return hopfield_energy(path[:, 0], W) / 144


def reading(units, ms, omega, score, value):
    phase = phasors((ms + 4 * (torch.arange(len(ms)) == 2) - 25) / 1000, omega, torch.float64)
    s = (score * torch.cat([phase.real, phase.imag, torch.ones(len(ms), 1)], 1)).sum(1)
    return torch.softmax(s, 0) @ rotate(value, phase)[:, 6:8]


def loop():
    """The loop of the chapter, whose units pass the intention on, and whose decoder takes its mean."""
    sim = closed_loop
    units, decoder = Mock(n_steps=5, fire=lambda *seen: seen), Mock(step=lambda _, u: (None, [u.mean(0)]))
    task = sim.ReachingTask(sim.circle_targets())
    return sim.ClosedLoop(decoder, units, task, latency_s=0.12, gain=0.7).run(4.0).cursor_mm.T


def eight_targets(counts, expected, right):
    return targets.bayes(counts[None].numpy(), expected[None].numpy(), 12)[0]


LAGS, STEPS = torch.arange(201).double() / 100, np.arange(61)
# figure, what its sliders are at, what it draws then, and what that is by the package
CASES = [
    ("01", {"w": 40}, "[...n.estimate, n.error]", kernel),
    ("02 size", {"d": 32, "scaled": 1}, "n.weights", lambda scores, mean: scores[5].div(32**0.5).softmax(0)),
    ("03", {"person": 3, "step": 70}, "n.weights", lambda watched, **_: watched[7, :, 3]),
    ("04 rotation", {"m": 5, "distance": 3, "theta": 30}, "n.product", lambda q, k: k[0] * q[1] - k[1] * q[0]),
    ("04 phasors", {"distance": 30}, "n.score", lambda: (30 * rope_frequencies(32)).cos().mean()),
    ("05", {"n_freqs": 50, "sigma": 3}, "n.estimate", lambda eps: (f := bochner_features(LAGS, 3 * eps[:50])) @ f[0]),
    ("06", {"hold": 0.8, "second": 0.25}, "n.state", gate),
    ("09", {"percent": 40, "n_patterns": 25}, "n.energy", memory),
    ("11", {"spike": 3, "shift": 4, "pair": 4}, "[n.x.at(-1), n.y.at(-1)]", reading),
    ("14", {"latency_ms": 120, "gain": 0.7}, "[n.x, n.y]", loop),
    ("15 mode", {"r": 0.9, "theta": 1.2}, "n.real", lambda: ((0.9 * np.exp(1.2j)) ** STEPS[:41]).real),
    ("15 step", {"delta": 0.2, "m": 4}, "n.imaginary", lambda: np.exp((4j * np.pi - 0.5) * 0.2 * STEPS).imag),
    ("19", {"n_units": 12, "since_ms": 150}, "n.p", eight_targets),
]


@pytest.mark.parametrize(("name", "sliders", "drawn", "expected"), CASES)
def test_figure_draws_what_the_package_computes(offline_page, pages, name, sliders, drawn, expected):
    offline_page.goto(f"file://{pages}/{next(chapter for chapter in NAMES if chapter[:2] == name[:2])}.html")
    figure = offline_page.locator(f"figure[data-figure='{name}']").last
    data = figure.locator("script").evaluate("script => JSON.parse(script.textContent)") or {}
    data = {key: x if isinstance(x[0], str) else torch.tensor(x, dtype=torch.float64) for key, x in data.items()}
    compute = f"([name, p]) => {{ const n = figures.numbers(name, p); return {drawn}; }}"
    np.testing.assert_allclose(offline_page.evaluate(compute, [name, sliders]), expected(**data), rtol=1e-6, atol=1e-6)
    slider, panels = figure.locator("input").first, figure.locator(".panels")
    before = slider.get_attribute("aria-valuetext"), panels.inner_html()
    slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") != before[0] and panels.inner_html() != before[1]
    assert offline_page.problems == []
