"""Chapter 15: right and wrong answers in other styles than the references and the traps."""

import cmath
import math

import pytest
import torch
from torch.nn import functional as F

from possm_lite.blocks.ssm import causal_convolution, linear_scan, zero_order_hold

from .helpers import assert_verdict, load

check = load("15_state_space_models")


def convolve_by_sums(x, kernel):
    y = torch.zeros_like(x)
    for t in range(x.shape[-1]):
        for lag in range(t + 1):
            y[..., t] += kernel[..., lag] * x[..., t - lag]
    return y


def convolve_on_a_padded_ring(x, kernel, ring=lambda T: 2 * T + 1):
    """The whole ring, through the complex transform."""
    x, kernel = (F.pad(z, (0, ring(x.shape[-1]) - x.shape[-1])) for z in (x, kernel))
    return torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(kernel)).real


def hold_entry_by_entry(a, step):
    a, step = torch.broadcast_tensors(a, step)
    decay = [cmath.exp(complex(x) * float(d)) for x, d in zip(a.flatten(), step.flatten(), strict=True)]
    drive = [(e - 1) / complex(x) for e, x in zip(decay, a.flatten(), strict=True)]
    return torch.tensor(decay).reshape(a.shape), torch.tensor(drive).reshape(a.shape)


def steps_of_numbers(decay, drive, readout, x, keep=lambda s: s, read=lambda z: 2 * z.real, late=False):
    s, outputs = [0j] * len(decay), []
    for x_t in x.tolist():
        before = s
        s = [keep(complex(a) * old + complex(b) * x_t) for a, b, old in zip(decay, drive, s, strict=True)]
        outputs.append(read(sum(complex(c) * m for c, m in zip(readout, before if late else s, strict=True))))
    return torch.tensor(outputs)


def steps_by_scan(decay, drive, readout, x):
    entering = drive * x[:, None]
    return 2 * (readout * linear_scan(decay, entering, torch.zeros_like(entering[0]))).sum(-1).real


def join_by_trial(first, second):
    """Let the two steps act on 0 and on 1."""
    from_zero, from_one = (second[0] * (first[0] * s + first[1]) + second[1] for s in (0, 1))
    return from_one - from_zero, from_zero


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("convolve", convolve_by_sums, "✓"),
        ("convolve", lambda x, kernel: convolve_on_a_padded_ring(x, kernel)[..., : x.shape[-1]], "✓"),
        ("convolve", causal_convolution, "✓"),
        ("convolve", lambda x, k: convolve_on_a_padded_ring(x, k, ring=lambda T: T), "into its beginning"),
        ("convolve", lambda x, k: convolve_on_a_padded_ring(x, k, ring=lambda T: 2 * T), "returned all of it"),
        ("convolve", lambda x, k: convolve_by_sums(x.flip(-1), k).flip(-1), "looks ahead"),
        ("convolve", lambda x, k: convolve_by_sums(x, k) + 1, "on an impulse at the first step"),
        ("hold", hold_entry_by_entry, "✓"),
        ("hold", zero_order_hold, "✓"),
        ("hold", lambda a, step: (torch.exp(a * step), -torch.expm1(a * step) / a), "wrong sign"),
        ("hold", lambda a, step: (torch.exp(a * step), torch.expm1(a * step) / a / step), "mean of the push"),
        ("hold", lambda a, step: hold_entry_by_entry(a, step)[::-1], "wrong order"),
        ("hold", lambda a, step: torch.exp(a * step), "on a mode that only decays"),
        ("fades_after_s", torch.tensor(1.0), "✓"),
        ("fades_after_s", math.log(2), "one half"),
        ("fades_after_s", 7, "is not right"),
        ("step_through", steps_of_numbers, "✓"),
        ("step_through", steps_by_scan, "✓"),
        ("step_through", lambda a, b, c, x: 2 * ((b * c).sum() * x).real, "no memory"),
        ("step_through", lambda *args: steps_of_numbers(*args, late=True), "one step late"),
        ("step_through", lambda *args: steps_of_numbers(*args, read=lambda z: z.real), "twins are missing"),
        ("step_through", lambda *args: steps_of_numbers(*args, read=lambda z: 2 * abs(z)), "length of a complex"),
        ("step_through", lambda *args: steps_of_numbers(*args, keep=lambda s: s.real), "lost its imaginary part"),
        ("step_through", lambda a, b, c, x: steps_of_numbers(a, a * b, c, x), "decayed already"),
        ("step_through", lambda a, b, c, x: steps_by_scan(a, b, c.conj(), x), "conjugate"),
        ("join", join_by_trial, "✓"),
        ("join", lambda first, second: join_by_trial(second, first), "second step go first"),
        ("join", lambda first, second: join_by_trial(first, second)[0], "on two steps of one real mode"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
