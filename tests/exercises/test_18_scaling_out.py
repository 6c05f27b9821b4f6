"""Chapter 18: right and wrong answers in other styles than the references and the traps."""

import numpy as np
import pytest
import torch

from .helpers import assert_verdict, load

check = load("18_scaling_out")


def gradient_sample_by_sample(gradients, n_samples):
    return torch.stack([g for g, n in zip(gradients, n_samples, strict=True) for _ in range(n)]).mean(0)


def gradient_by_einsum(gradients, n_samples):
    return torch.einsum("p,p...->...", torch.tensor(n_samples) / sum(n_samples), torch.stack(gradients))


def bytes_round_by_round(n_numbers, n_processes, bytes_each):
    return sum(bytes_each * n_numbers // n_processes for _ in range(2 * (n_processes - 1)))


def ring_bytes(n_bytes, n_processes):
    return 2 * (n_processes - 1) / n_processes * n_bytes


def draw(seed, n, room_s):
    torch.manual_seed(seed)  # the global generator is as good
    return room_s * torch.rand(n, dtype=torch.float64)


def windows_by_numbers(seed, n, room_s, rank, size):
    return draw(seed, n, room_s)[torch.from_numpy(np.array_split(np.arange(n), size)[rank])]


def phasor_in_complex128(time_s, omega, dtype):
    phasor = torch.polar(torch.ones(len(time_s), len(omega), dtype=torch.float64), torch.outer(time_s, omega))
    return phasor.real.type(dtype), phasor.imag.type(dtype)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("whole_gradient", gradient_sample_by_sample, "✓"),
        ("whole_gradient", lambda g, n: gradient_by_einsum([x.nan_to_num() for x in g], n), "✓"),
        ("whole_gradient", gradient_by_einsum, "0 times NaN"),
        ("whole_gradient", lambda g, n: gradient_sample_by_sample(g, n[::-1]), "wrong way round"),
        ("whole_gradient", lambda g, n: gradient_sample_by_sample(g, n) * sum(n) / len(n), "by the number of parts"),
        ("whole_gradient", lambda g, n: g[0], "on two parts"),
        ("sent_bytes", bytes_round_by_round, "✓"),
        ("sent_bytes", lambda n_numbers, n_processes, each: ring_bytes(n_numbers * each, n_processes), "✓"),
        ("sent_bytes", lambda numbers, n, each: ring_bytes(numbers * each, n) / 2, "only one way"),
        ("sent_bytes", lambda numbers, n, each: numbers * each / n, "on 1,000 numbers"),
        ("my_windows", windows_by_numbers, "✓"),
        ("my_windows", lambda s, n, room, r, size: draw(s, n, room).view(size, -1)[r], "on three processes"),
        ("my_windows", lambda s, n, room, r, size: draw(s, n, room)[: n // size * size].view(size, -1)[r], "are lost"),
        ("my_windows", lambda s, n, room, r, size: draw(s, n, room).split(-(-n // size))[r], "`chunk` rounds up"),
        ("my_windows", lambda s, n, room, r, size: windows_by_numbers(s, n, room, -1 - r, size), "on two processes"),
        ("my_windows", lambda s, n, room, r, size: windows_by_numbers(s, n, 1.0, r, size), "on one process"),
        ("hands", phasor_in_complex128, "✓"),
        ("hands", lambda t, w, dtype: phasor_in_complex128(t.to(dtype).double(), w, dtype), "hands: "),
        ("hands", lambda t, w, dtype: phasor_in_complex128(t, w.to(dtype).double(), dtype), "frequency is rounded"),
        ("hands", lambda t, w, dtype: phasor_in_complex128(t, w, torch.float64), "stay float64"),
        ("hands", lambda t, w, dtype: phasor_in_complex128(t, w, torch.bfloat16), "on slow hands in float32"),
        ("hands", lambda t, w, dtype: phasor_in_complex128(t, w, dtype)[0], "tuple of 2"),
        ("sessions_at_half", next(n for n in range(1000) if ring_bytes(n * 200 * 64 * 4, 2) >= 0.2 * 1e9 / 8), "✓"),
        ("sessions_at_half", 100, "is not right"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
