"""Chapter 15: right answers in other styles, and wrong ones that no known mistake explains."""

import cmath
import math

import pytest
import torch

from possm_lite.blocks.ssm import causal_convolution, linear_scan, zero_order_hold

from .helpers import assert_verdict, load

check = load("15_state_space_models")


def convolve_by_sums(x, kernel):
    y = torch.zeros_like(x)
    for t in range(x.shape[-1]):
        for lag in range(t + 1):
            y[..., t] += kernel[..., lag] * x[..., t - lag]
    return y


def ring_of(n_slots, x, kernel):
    T = x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, n_slots(T)) * torch.fft.rfft(kernel, n_slots(T)), n_slots(T))[..., :T]


def hold_entry_by_entry(a, step):
    a, step = torch.broadcast_tensors(a, step)
    decay = [cmath.exp(complex(x) * float(d)) for x, d in zip(a.flatten(), step.flatten(), strict=True)]
    drive = [(e - 1) / complex(x) for e, x in zip(decay, a.flatten(), strict=True)]
    return torch.tensor(decay).reshape(a.shape), torch.tensor(drive).reshape(a.shape)


def steps_by_scan(decay, drive, readout, x):
    entering = drive * x[:, None]
    return 2 * (readout * linear_scan(decay, entering, torch.zeros_like(entering[0]))).sum(-1).real


def steps_by_kernel(decay, drive, readout, x):
    kernel = 2 * (readout * drive * decay ** torch.arange(len(x))[:, None]).sum(-1).real
    return convolve_by_sums(x, kernel)


def join_by_trial(first, second):
    """Let the two steps act on 0 and on 1."""
    from_zero, from_one = (second[0] * (first[0] * s + first[1]) + second[1] for s in (0, 1))
    return from_one - from_zero, from_zero


def tree_by_sweeps(join, decay, entering):
    """Up and down a padded binary tree, without recursion (Blelloch): states before each step, then one more join."""
    T, n = len(decay), 1
    while n < T:
        n *= 2
    pad = (n - T, *decay.shape[1:])
    decays, entries = torch.cat([decay, decay.new_ones(pad)]), torch.cat([entering, entering.new_zeros(pad)])
    levels = [(decays, entries)]
    while len(levels[-1][0]) > 1:
        a, b = levels[-1]
        levels.append(join((a[0::2], b[0::2]), (a[1::2], b[1::2])))
    before = torch.ones_like(decays[:1]), torch.zeros_like(entries[:1])
    for a, b in reversed(levels[:-1]):
        right = join(before, (a[0::2], b[0::2]))
        before = tuple(torch.stack([x, y], 1).flatten(0, 1) for x, y in zip(before, right, strict=True))
    return join(before, (decays, entries))[1][:T]


def one_call_of_join(join, decay, entering):
    join((decay[:1], entering[:1]), (decay[:1], entering[:1]))
    return linear_scan(decay, entering, torch.zeros_like(entering[0]))


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("convolve", convolve_by_sums, "✓"),
        ("convolve", causal_convolution, "✓"),
        ("convolve", lambda x, k: ring_of(lambda T: 2 * T - 1, x, k), "✓"),
        ("convolve", lambda x, k: ring_of(lambda T: 2 * T - 2, x, k), "on an impulse at the last step"),
        ("convolve", lambda x, k: ring_of(lambda T: 64, x, k), "on 300 steps"),
        ("hold", hold_entry_by_entry, "✓"),
        ("hold", zero_order_hold, "✓"),
        ("hold", lambda a, step: hold_entry_by_entry(a, step)[::-1], "the decay: expected"),
        ("fades_after_s", torch.tensor(1.0), "✓"),
        ("fades_after_s", math.log(2), "is not right"),
        ("step_through", steps_by_scan, "✓"),
        ("step_through", steps_by_kernel, "✓"),
        ("step_through", lambda a, b, c, x: steps_by_scan(a, a * b, c, x), "on a single input"),
        ("join", join_by_trial, "✓"),
        ("join", lambda first, second: join_by_trial(first, second)[0], "expected two results"),
        ("tree_scan", tree_by_sweeps, "✓"),
        ("tree_scan", one_call_of_join, "other arithmetic for the rest"),
        ("tree_scan", lambda join, *steps: tree_by_sweeps(lambda a, b: join(b, a), *steps), "on two steps"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
