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


def ring_of(n_slots, x, kernel):
    T = x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, n_slots(T)) * torch.fft.rfft(kernel, n_slots(T)), n_slots(T))[..., :T]


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


def tree_without_odd_lengths(join, decay, entering):
    if len(decay) == 1:
        return entering
    pairs = join((decay[0::2], entering[0::2]), (decay[1::2], entering[1::2]))
    later = tree_without_odd_lengths(join, *pairs)
    earlier = torch.cat([entering[:1], join((0 * later[:-1], later[:-1]), (decay[2::2], entering[2::2]))[1]])
    return torch.stack([earlier, later], 1).flatten(0, 1)


def walk_by_join(join, decay, entering):
    state, states = (torch.ones_like(decay[0]), 0 * entering[0]), []
    for step in zip(decay, entering, strict=True):
        state = join(state, step)
        states.append(state[1])
    return torch.stack(states)


def doubling(join, decay, entering):
    gap = 1
    while gap < len(decay):
        one = torch.ones_like(decay[:gap])
        earlier = torch.cat([one, decay[:-gap]]), torch.cat([0 * one, entering[:-gap]])
        decay, entering = join(earlier, (decay, entering))
        gap *= 2
    return entering


def in_blocks(join, decay, entering):
    """Blocks of about sqrt(T) steps: few pairs, too many calls, and no walk over all steps."""
    T, k = len(decay), math.isqrt(len(decay))
    n = -(-T // k)
    pad = (n * k - T, *decay.shape[1:])
    a = torch.cat([decay, decay.new_ones(pad)]).unflatten(0, (n, k))
    b = torch.cat([entering, entering.new_zeros(pad)]).unflatten(0, (n, k))
    inside = [(a[:, 0], b[:, 0])]
    for t in range(1, k):
        inside.append(join(inside[-1], (a[:, t], b[:, t])))
    (a, b), before = (torch.stack(z, 1) for z in zip(*inside, strict=True)), [torch.zeros_like(entering[0])]
    for block in range(n - 1):
        before.append(join((0 * before[-1], before[-1]), (a[block, -1], b[block, -1]))[1])
    before = torch.stack(before)[:, None].expand_as(b)
    return join((0 * before, before), (a, b))[1].flatten(0, 1)[:T]


def one_call_of_join(join, decay, entering):
    join((decay[:1], entering[:1]), (decay[:1], entering[:1]))
    return scan_by_package(join, decay, entering)


def scan_by_package(join, decay, entering):
    return linear_scan(decay, entering, torch.zeros_like(entering[0]))


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("convolve", convolve_by_sums, "✓"),
        ("convolve", lambda x, kernel: convolve_on_a_padded_ring(x, kernel)[..., : x.shape[-1]], "✓"),
        ("convolve", causal_convolution, "✓"),
        ("convolve", lambda x, k: convolve_on_a_padded_ring(x, k, ring=lambda T: T), "into its beginning"),
        ("convolve", lambda x, k: convolve_on_a_padded_ring(x, k, ring=lambda T: 2 * T), "returned all of it"),
        ("convolve", lambda x, k: ring_of(lambda T: 50, x, k), "on 300 steps"),
        ("convolve", lambda x, k: ring_of(lambda T: 64, x, k), "on 300 steps"),
        ("convolve", lambda x, k: ring_of(lambda T: T + T // 2, x, k), "is too short, and the end"),
        ("convolve", lambda x, k: ring_of(lambda T: 2 * T - 2, x, k), "one slot too short"),
        ("convolve", lambda x, k: ring_of(lambda T: 2 * T - 1, x, k), "✓"),
        ("convolve", lambda x, k: convolve_by_sums(x.flip(-1), k).flip(-1), "looks ahead"),
        ("convolve", lambda x, k: convolve_by_sums(x, k) + 1, "on an impulse at the first step"),
        ("hold", hold_entry_by_entry, "✓"),
        ("hold", zero_order_hold, "✓"),
        ("hold", lambda a, step: (torch.exp(a * step), -torch.expm1(a * step) / a), "wrong sign"),
        ("hold", lambda a, step: (torch.exp(a * step), torch.expm1(a * step) / a / step), "mean of the push"),
        ("hold", lambda a, step: hold_entry_by_entry(a, step)[::-1], "wrong order"),
        ("hold", lambda a, step: torch.exp(a * step), "expected two results"),
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
        ("join", lambda first, second: join_by_trial(first, second)[0], "expected two results"),
        (
            "join",
            lambda a, b: (a[0] * b[0], a[1] - b[1]),
            "on two steps of one real mode: the entering number: expected",
        ),
        ("tree_scan", tree_by_sweeps, "✓"),
        ("tree_scan", walk_by_join, "Does this walk"),
        ("tree_scan", in_blocks, "join is called too often"),
        ("tree_scan", one_call_of_join, "other arithmetic for the rest"),
        ("tree_scan", doubling, "doubling of section 9"),
        ("tree_scan", scan_by_package, "does not use join"),
        ("tree_scan", lambda join, *steps: tree_by_sweeps(lambda a, b: join(b, a), *steps), "on two steps"),
        ("tree_scan", lambda join, a, b: torch.cat([0 * b[:1], tree_by_sweeps(join, a, b)[:-1]]), "before each step"),
        ("tree_scan", lambda join, a, b: tree_by_sweeps(join, a, b)[-1:], "on two steps: the shape is (1,)"),
        ("tree_scan", tree_without_odd_lengths, "on five steps"),
        ("tree_scan", lambda join, a, b: b, "without the past"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
