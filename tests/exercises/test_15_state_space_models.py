"""Chapter 15: right answers in other styles."""

import torch

from possm_lite.nn.ssm import causal_convolution, linear_scan, zero_order_hold

from .helpers import answers, load

check = load("15_state_space_models")


def ring_of(n_slots, x, kernel):
    T = x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, n_slots(T)) * torch.fft.rfft(kernel, n_slots(T)), n_slots(T))[..., :T]


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


def one_call_of_join(join, decay, entering):
    join((decay[:1], entering[:1]), (decay[:1], entering[:1]))
    return linear_scan(decay, entering, torch.zeros_like(entering[0]))


test_answers = answers(
    check,
    [
        ("convolve", causal_convolution),
        ("convolve", lambda x, k: ring_of(lambda T: 2 * T - 1, x, k)),
        ("hold", zero_order_hold),
        ("fades_after_s", torch.tensor(1.0)),
        ("step_through", steps_by_scan),
        ("join", join_by_trial),
        ("tree_scan", tree_by_sweeps),
        ("tree_scan", one_call_of_join, "other arithmetic for the rest"),
    ],
)
