"""Chapter 15: right answers in other styles, the package's selective scan among them, and holes."""

import numpy as np
import torch

from possm_lite.nn.mamba import selective_scan
from possm_lite.nn.ssm import causal_convolution, linear_scan, zero_order_hold

from .helpers import answers, load

check = load("15_state_space_models")


def ring_of(n_slots, x, kernel):
    T = x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, n_slots(T)) * torch.fft.rfft(kernel, n_slots(T)), n_slots(T))[..., :T]


def selective_by_the_package(x, delta, a, b, c):
    return selective_scan(x[:, None], delta[:, None], a, b[:, None], c[:, None], torch.zeros_like(a)[None])[0][:, 0]


def posterior(s, P, n, A, C, W, V):
    """Bayes' rule in the information form: inverse covariances add up."""
    s, P = A @ s, A @ P @ A.T + W
    after = torch.linalg.inv(torch.linalg.inv(P) + C.T @ torch.linalg.inv(V) @ C)
    return after @ (torch.linalg.solve(P, s) + C.T @ torch.linalg.solve(V, n)), after


def hippo_by_integrals(N):
    """A = -(1 + L) of the derivative of p_n: q p_n' = sum_j L_nj p_j, by quadrature on [0, 1]."""
    at, weights = np.polynomial.legendre.leggauss(2 * N)
    q, weights = (at + 1) / 2, weights / 2
    series = [np.sqrt(2 * n + 1) * np.eye(N)[n] for n in range(N)]
    p = np.array([np.polynomial.legendre.legval(at, each) for each in series])  # (N, Q)
    slope = 2 * np.array([np.polynomial.legendre.legval(at, np.polynomial.legendre.legder(each)) for each in series])
    return -np.eye(N) - (q * slope * weights) @ p.T, np.polynomial.legendre.legval(1, np.array(series).T)


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
    T = len(decay)
    pad = (2 ** (T - 1).bit_length() - T, *decay.shape[1:])
    decay, entering = torch.cat([decay, decay.new_ones(pad)]), torch.cat([entering, entering.new_zeros(pad)])
    return tree_of_pairs(join, decay, entering)[:T]


def one_call_of_join(join, decay, entering):
    join((decay[:1], entering[:1]), (decay[:1], entering[:1]))
    return linear_scan(decay, entering, torch.zeros_like(entering[0]))


test_answers = answers(
    check,
    [
        ("convolve", causal_convolution),
        ("convolve", lambda x, k: ring_of(lambda T: 2 * T - 1, x, k)),
        ("fades_after_s", torch.tensor(1.0)),
        ("selective", selective_by_the_package),
        ("join", lambda first, second: (first[0] * second[0], torch.addcmul(second[1], second[0], first[1]))),
        ("tree_scan", tree_of_padded_pairs),
        ("tree_scan", tree_of_pairs, "even lengths"),
        ("tree_scan", one_call_of_join, "other arithmetic than join"),
        ("kalman_step", posterior),
        ("hold", zero_order_hold),
        ("alias", min(range(-9, 10), key=lambda m: abs(np.exp(0.1j * np.pi * m) - np.exp(1.5j * np.pi)))),
        ("hippo", hippo_by_integrals),
    ],
)
