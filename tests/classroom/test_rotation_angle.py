"""The figures of chapter 04: what they show is what the formula says, and a step is quick."""

import math
import time

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from possm_lite.blocks.positions import phasors, rope_frequencies, rotate
from possm_lite.classroom.figures.rotation_angle import clocks, picture, score_at
from possm_lite.classroom.widgets import png

Q, K = (1.2, 0.5), (0.9, 1.0)


@pytest.fixture
def draw():
    return picture(Q, K)


def dot_shown(figure):
    """The place of the dot in the right panel: distance and dot product."""
    [dot] = [line for line in figure.axes[1].lines if line.get_marker() == "o"]
    return float(np.ravel(dot.get_xdata())[0]), float(np.ravel(dot.get_ydata())[0])


def tips(figure):
    """Ends of the two thick arrows."""
    return [line.get_xydata()[1] for line in figure.axes[0].lines if line.get_linewidth() > 2]


@pytest.mark.parametrize(("m", "n", "theta"), [(0, 0, 30.0), (3, 7, 20.0), (20, 0, 60.0), (5, 5, 0.0)])
def test_the_dot_is_the_dot_product_of_the_arrows(draw, m, n, theta):
    figure = draw(m=m, n=n, theta=theta)
    q, k = tips(figure)
    angle = math.radians(theta)
    for tip, start, at in ((q, Q, m), (k, K, n)):
        turned = complex(*start) * complex(math.cos(at * angle), math.sin(at * angle))
        assert tip == pytest.approx([turned.real, turned.imag])
    assert dot_shown(figure) == pytest.approx((n - m, q @ k))


def test_the_dot_stays_while_both_turn(draw):
    before, after = (dot_shown(draw(m=m, n=m + 4, theta=25.0)) for m in (2, 9))
    assert before == pytest.approx(after)
    assert np.abs(tips(draw(2, 6, 25.0))[0] - tips(draw(9, 13, 25.0))[0]).max() > 0.1


def test_the_dot_lies_on_the_curve(draw):
    figure = draw(m=8, n=3, theta=17.0)
    distance, dot = dot_shown(figure)
    curve = figure.axes[1].lines[0]
    assert dot == pytest.approx(np.interp(distance, *curve.get_data()), abs=1e-6)


def test_the_title_names_the_numbers_with_a_real_minus(draw):
    title = draw(m=5, n=2, theta=40.0).axes[1].get_title()
    assert "n − m = −3" in title and "-" not in title


def test_drawing_twice_is_drawing_the_same(draw):
    assert png(draw(3, 7, 20.0)) == png(draw(3, 7, 20.0))
    hands = clocks()
    assert png(hands(100.0, 7)) == png(hands(100.0, 7)) != png(hands(1000.0, 7))


@pytest.mark.parametrize("base", [1.0, 100.0, 1e6])
def test_the_score_is_that_of_two_equal_vectors(base):
    x = torch.ones(32, dtype=torch.float64)
    distance = np.array([0, 1, 44, 200])
    turned = rotate(x, phasors(torch.from_numpy(distance), rope_frequencies(32, base), x.dtype))
    assert score_at(distance, base, 32) == pytest.approx((turned @ x / (x @ x)).numpy())


def hands_shown(figure):
    """Hands from the middle of their clocks to their tips, thick ones and thin ones, as complex numbers."""
    thick, thin = (line for line in figure.axes[0].lines if line.get_marker() != "o")
    return [(line.get_xydata() @ [1, 1j]).reshape(-1, 3) for line in (thick, thin)]


def test_hands_are_as_high_as_their_part_of_the_score():
    figure = clocks(dim=32)(base=10_000.0, distance=200)
    ends = np.concatenate(hands_shown(figure))
    length = np.abs(ends[0, 1] - ends[0, 0])
    assert (ends[:, 1] - ends[:, 0]).imag.mean() / length == pytest.approx(score_at(np.array([200]), 10_000.0, 32)[0])


@pytest.mark.parametrize(("base", "slow"), [(100.0, 0), (10_000.0, 7), (1e6, 10)])
def test_slow_hands_are_thick_and_counted(base, slow):
    figure = clocks(dim=32)(base=base, distance=200)
    thick, thin = hands_shown(figure)
    assert len(thick) == slow and len(thin) == 16 - slow
    assert figure.axes[0].get_title().startswith(f"{slow} of 16")


@pytest.mark.parametrize(
    ("step", "arguments"), [(picture(Q, K), [(3, 7, 20.0), (20, 0, 60.0)]), (clocks(), [(100.0, 200), (1e6, 0)])]
)
def test_a_step_is_quick(step, arguments):
    """The course promises 100 ms. Time of the processor, not of the wall: other tests may run beside this one."""
    seconds = []
    for values in arguments * 3:
        began = time.process_time()
        assert isinstance(figure := step(*values), Figure) and png(figure)
        seconds.append(time.process_time() - began)
    assert min(seconds) < 0.1
