"""The checks of chapter 14 tell right answers, written in other ways, from planted mistakes, and name the mistake."""

import cmath
import math

import pytest
import torch
from torch.nn import functional as F

from .helpers import assert_wrong, load

check = load("14_state_space_models")

# 14.1


def convolve_by_sums(x, kernel, ahead=1):
    T = x.shape[-1]
    y = torch.zeros_like(x)
    for t in range(T):
        for lag in range(T):
            if 0 <= t - ahead * lag < T:
                y[..., t] += kernel[..., lag] * x[..., t - ahead * lag]
    return y


def convolve_with_zeros(x, kernel):
    T = x.shape[-1]
    x, kernel = F.pad(x, (0, T + 1)), F.pad(kernel, (0, T + 1))
    return torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(kernel)).real[..., :T]


@pytest.mark.parametrize("answer", [convolve_by_sums, convolve_with_zeros])
def test_right_convolutions(answer):
    assert check.convolve.examine(answer).message == "✓ convolve"


def ring(x, kernel):
    return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(kernel), x.shape[-1])


def all_of_the_ring(x, kernel):
    T = x.shape[-1]
    return torch.fft.ifft(torch.fft.fft(x, 2 * T) * torch.fft.fft(kernel, 2 * T)).real


def back_with(x, kernel, places):
    both = torch.fft.rfft(F.pad(x, (0, x.shape[-1]))) * torch.fft.rfft(F.pad(kernel, (0, x.shape[-1])))
    return torch.fft.irfft(both, places)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ring, "spills into its beginning"),
        (all_of_the_ring, "you gave back all of it"),
        (lambda x, k: all_of_the_ring(x, k)[..., x.shape[-1] :], "the end of the ring"),
        (lambda x, k: back_with(x, k, x.shape[-1]), "not on the same ring"),
        (lambda x, k: convolve_by_sums(x, k, ahead=-1), "looks ahead"),
        (lambda x, k: x * k, "step by step"),
        (lambda x, k: convolve_by_sums(x, k) + 1, "on an impulse at the first step"),
    ],
)
def test_bugs_of_convolutions(answer, words):
    assert_wrong(check.convolve, answer, words)


# 14.2


def hold_entry_by_entry(a, step):
    a, step = torch.broadcast_tensors(a, step)
    decay = [cmath.exp(complex(x) * float(d)) for x, d in zip(a.flatten(), step.flatten(), strict=True)]
    drive = [(e - 1) / complex(x) for e, x in zip(decay, a.flatten(), strict=True)]
    return torch.tensor(decay).reshape(a.shape), torch.tensor(drive).reshape(a.shape)


def hold_in_float64(a, step):
    a = a.to(torch.complex128)
    return [torch.exp(a * step), torch.expm1(a * step) / a]


def test_right_holds():
    assert check.hold.examine(hold_entry_by_entry).message == "✓ hold"
    assert check.hold.examine(lambda a, step: tuple(hold_in_float64(a, step))).message == "✓ hold"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda a, step: (1 + a * step, step + 0 * a), "Euler"),
        (lambda a, step: (torch.exp(a * step), step + 0 * a), "the shortcut"),
        (lambda a, step: (torch.exp(a * step), -1 + torch.exp(a * step)), "not divided by a"),
        (lambda a, step: (hold_in_float64(a, step)[0], -hold_in_float64(a, step)[1]), "wrong sign"),
        (lambda a, step: (hold_in_float64(a, step)[0], hold_in_float64(a, step)[1] / step), "a mean of the push"),
        (lambda a, step: hold_entry_by_entry(a, step)[::-1], "wrong order"),
        (lambda a, step: torch.exp(a * step), "on a mode that only decays"),
    ],
)
def test_bugs_of_holds(answer, words):
    assert_wrong(check.hold, answer, words)


# 14.3


def test_predictions():
    assert check.fades_after_s.examine(1).status == "right"
    assert abs(math.exp(-0.5 * 0.1 * 20) - 1 / math.e) < 1e-12
    for wrong, words in (
        (20, "number of bins"),
        (1000, "milliseconds"),
        (2, "before there are steps"),
        (0.1, "two bins"),
        (0.5, "not -1"),
    ):
        assert_wrong(check.fades_after_s, wrong, words)
    for wrong, words in ((0.333, "one round of the hand"), (0.69, "one half"), (7, "is not it")):
        assert_wrong(check.fades_after_s, wrong, words)


# 14.4


def steps_of_numbers(decay, drive, readout, x, keep=lambda s: s, read=lambda z: 2 * z.real, late=False):
    s, answers = [0j] * len(decay), []
    for x_t in x.tolist():
        before = s
        s = [keep(complex(a) * old + complex(b) * x_t) for a, b, old in zip(decay, drive, s, strict=True)]
        answers.append(read(sum(complex(c) * m for c, m in zip(readout, before if late else s, strict=True))))
    return torch.tensor(answers)


def kernel_matrix(decay, drive, readout, x):
    lag = torch.arange(len(x))[:, None] - torch.arange(len(x))  # (T, T)
    kernel = 2 * (readout * drive * decay ** lag.clamp(min=0)[..., None]).sum(-1).real
    return torch.where(lag >= 0, kernel, 0.0) @ x


def with_twins(decay, drive, readout, x):
    both = [torch.cat([z, z.conj()]) for z in (decay, drive, readout)]
    return steps_of_numbers(*both, x, read=lambda z: z.real)


@pytest.mark.parametrize("answer", [steps_of_numbers, kernel_matrix, with_twins])
def test_right_steps(answer):
    assert check.step_through.examine(answer).message == "✓ step_through"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"late": True}, "one step late"),
        ({"read": lambda z: z.real}, "twins are missing"),
        ({"read": lambda z: 2 * abs(z)}, "the length of a complex number"),
        ({"keep": lambda s: s.real}, "lost its imaginary part"),
    ],
)
def test_bugs_of_steps(changed, words):
    assert_wrong(check.step_through, lambda a, b, c, x: steps_of_numbers(a, b, c, x, **changed), words)


def test_more_bugs_of_steps():
    assert_wrong(check.step_through, lambda a, b, c, x: 2 * ((b * c).sum() * x).real, "no memory")
    assert_wrong(check.step_through, lambda a, b, c, x: steps_of_numbers(a, b / b, c, x), "the drive is missing")
    assert_wrong(check.step_through, lambda a, b, c, x: steps_of_numbers(a, a * b, c, x), "decayed already")
    assert_wrong(check.step_through, lambda a, b, c, x: steps_of_numbers(a, b, c.conj(), x), "no conjugate")


# 14.5


def join_by_matrices(first, second):
    """A step as a matrix that acts on (s, 1)."""
    one, two = (
        torch.stack([torch.stack([a, u], -1), torch.tensor([0, 1]).expand(*a.shape, 2)], -2) for a, u in (first, second)
    )
    both = two @ one
    return both[..., 0, 0], both[..., 0, 1]


def join_by_trial(first, second):
    """Let the two steps act on 0 and on 1."""
    from_zero, from_one = (second[0] * (first[0] * s + first[1]) + second[1] for s in (0, 1))
    return from_one - from_zero, from_zero


@pytest.mark.parametrize("answer", [join_by_matrices, join_by_trial])
def test_right_joins(answer):
    assert check.join.examine(answer).message == "✓ join"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda one, two: join_by_trial(two, one), "second step go first"),
        (lambda one, two: (join_by_trial(one, two)[0], one[1] + two[1]), "arrives in full"),
        (lambda one, two: (one[0] * two[0], one[0] * one[1] + two[1]), "not by its own"),
        (lambda one, two: (one[0] * two[0], two[0] * one[1] + two[0] * two[1]), "only just come in"),
        (lambda one, two: (one[0] + two[0], join_by_trial(one, two)[1]), "decays multiply"),
        (lambda one, two: (two[0], join_by_trial(one, two)[1]), "both decays"),
        (lambda one, two: join_by_trial(one, two)[0], "on two steps of one real mode"),
    ],
)
def test_bugs_of_joins(answer, words):
    assert_wrong(check.join, answer, words)
