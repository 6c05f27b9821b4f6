"""Chapter 15: right answers in other styles, the package's selective scan among them, and holes."""

import numpy as np
import torch

from possm_lite.nn.mamba import selective_scan
from possm_lite.nn.ssm import causal_convolution, linear_scan, zero_order_hold

from .helpers import answers, load

check = load("ch15")


def just_enough_places(x, kernel):
    n = 2 * x.shape[-1] - 1
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n), n)[..., : x.shape[-1]]


def selective_by_the_package(x, delta, a, b, c):
    return selective_scan(x[:, None], delta[:, None], a, b[:, None], c[:, None], torch.zeros_like(a)[None])[0][:, 0]


def posterior(s, P, n, A, C, W, V):
    """Bayes' rule in the information form: inverse covariances add up."""
    s, P = A @ s, A @ P @ A.T + W
    after = torch.linalg.inv(torch.linalg.inv(P) + C.T @ torch.linalg.inv(V) @ C)
    return after @ (torch.linalg.solve(P, s) + C.T @ torch.linalg.solve(V, n)), after


def hippo_by_integrals(N):
    """A = -(1 + L) of the derivative of p_n: q p_n' = sum_j L_nj p_j, by quadrature on [0, 1]."""
    leg = np.polynomial.legendre
    at, weights = leg.leggauss(2 * N)
    series = np.diag(np.sqrt(2 * np.arange(N) + 1))  # a column for each p_n
    p, slope = leg.legval(at, series), 2 * leg.legval(at, leg.legder(series))  # (N, Q) each, at q = (at + 1) / 2
    return -np.eye(N) - ((at + 1) / 2 * slope * weights / 2) @ p.T, leg.legval(1, series)


def tree_of_pairs(join, decay, entering):
    """Right for powers of two alone."""
    if len(decay) == 1:
        return entering
    pairs = join((decay[0::2], entering[0::2]), (decay[1::2], entering[1::2]))
    second = tree_of_pairs(join, *pairs)
    before = torch.cat([torch.zeros_like(second[:1]), second[:-1]])
    first = join((decay[0::2], before), (decay[0::2], entering[0::2]))[1]
    return torch.stack([first, second], 1).flatten(0, 1)


def tree_of_padded_pairs(join, decay, entering):
    pad = (2 ** (len(decay) - 1).bit_length() - len(decay), *decay.shape[1:])
    padded = torch.cat([decay, decay.new_ones(pad)]), torch.cat([entering, entering.new_zeros(pad)])
    return tree_of_pairs(join, *padded)[: len(decay)]


def one_call_of_join(join, decay, entering):
    join((decay[:1], entering[:1]), (decay[:1], entering[:1]))
    return linear_scan(decay, entering, torch.zeros_like(entering[0]))


test_answers = answers(
    check,
    ("convolve", causal_convolution),
    ("convolve", just_enough_places),
    ("selective", selective_by_the_package),
    ("join", lambda first, second: (first[0] * second[0], torch.addcmul(second[1], second[0], first[1]))),
    ("tree_scan", tree_of_padded_pairs),
    ("tree_scan", tree_of_pairs, "even lengths"),
    ("tree_scan", one_call_of_join, "other arithmetic than join"),
    ("kalman_step", posterior),
    ("hold", zero_order_hold),
    ("alias", min(range(-9, 10), key=lambda m: abs(np.exp(0.1j * np.pi * m) - np.exp(1.5j * np.pi)))),
    ("hippo", hippo_by_integrals),
)
