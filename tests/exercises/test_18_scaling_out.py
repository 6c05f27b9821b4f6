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


def ring_by_arrays(buffers):
    """With NumPy, the messages collected first, and the chunk to send remembered instead of computed."""
    n = len(buffers)
    own = [[c.copy() for c in np.array_split(b.numpy(), n)] for b in buffers]
    sent, last = np.zeros(n, dtype=int), list(range(n))
    for i in range(2 * n - 2):
        message = [own[r][last[r]].copy() for r in range(n)]
        for r in range(n):
            left = (r - 1) % n
            sent[left] += message[left].nbytes
            own[r][last[left]] = message[left] + (own[r][last[left]] if i < n - 1 else 0)
        last = [last[(r - 1) % n] for r in range(n)]
    return [torch.from_numpy(np.concatenate(c)) for c in own], sent.tolist()


def ring_in_one_array(buffers, halves=2, scale=1):
    n = len(buffers)
    x, bounds = torch.stack(buffers), np.cumsum([0, *(len(c) for c in buffers[0].tensor_split(n))])
    sent = [0] * n
    for i in range(halves * (n - 1)):
        for r in reversed(range(n)):
            c = (r - i + (i >= n - 1) * n) % n
            part = slice(bounds[c], bounds[c + 1])
            right = (r + 1) % n
            x[right, part] = x[r, part] + x[right, part] * (i < n - 1)
            sent[r] += scale * x[r, part].nbytes
    return list(x), sent


def gradient_from_the_first(gradients, counts):
    total = gradients[0] * counts[0]
    for gradient, n in zip(gradients[1:], counts[1:], strict=True):
        total = total + gradient * n if n else total
    return total / sum(counts)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("whole_gradient", gradient_sample_by_sample, "✓"),
        ("whole_gradient", lambda g, n: gradient_by_einsum([x.nan_to_num() for x in g], n), "✓"),
        ("whole_gradient", gradient_by_einsum, "0 times NaN"),
        ("my_windows", lambda s, n, room, *o: check.my_windows.reference(s, n, 600.0, *o), "on a part of 90 s"),
        ("whole_gradient", gradient_from_the_first, "no samples in the first part"),
        ("whole_gradient", lambda g, n: gradient_sample_by_sample(g, n[::-1]), "on parts of 30"),
        ("whole_gradient", lambda g, n: gradient_sample_by_sample(g, n) * sum(n) / len(n), "on two parts"),
        ("whole_gradient", lambda g, n: g[0], "on two parts"),
        ("sent_bytes", bytes_round_by_round, "✓"),
        ("sent_bytes", lambda n_numbers, n_processes, each: ring_bytes(n_numbers * each, n_processes), "✓"),
        ("sent_bytes", lambda numbers, n, each: ring_bytes(numbers * each, n) / 2, "only one way"),
        ("sent_bytes", lambda numbers, n, each: numbers * each / n, "on 1,000 numbers"),
        ("sent_bytes", lambda numbers, n, each: 2 * ring_bytes(numbers * each, n), "sent and received"),
        ("sent_bytes", lambda numbers, n, each: (n - 1) * numbers * each, "from each process to every other"),
        ("my_windows", windows_by_numbers, "✓"),
        ("my_windows", lambda s, n, room, r, size: draw(s, n, room).view(size, -1)[r], "on three processes"),
        ("my_windows", lambda s, n, room, r, size: draw(s, n, room)[: n // size * size].view(size, -1)[r], "are lost"),
        ("my_windows", lambda s, n, room, r, size: draw(s, n, room).split(-(-n // size))[r], "`chunk` rounds up"),
        ("my_windows", lambda s, n, room, r, size: windows_by_numbers(s, n, room, -1 - r, size), "on two processes"),
        ("my_windows", lambda s, n, room, r, size: windows_by_numbers(s, n, 1.0, r, size), "on one process"),
        ("cos_sin", phasor_in_complex128, "✓"),
        ("cos_sin", lambda t, w, dtype: phasor_in_complex128(t.to(dtype).double(), w, dtype), "cos_sin: "),
        ("cos_sin", lambda t, w, dtype: phasor_in_complex128(t, w.to(dtype).double(), dtype), "frequency is rounded"),
        ("cos_sin", lambda t, w, dtype: phasor_in_complex128(t, w, torch.float64), "stay float64"),
        ("cos_sin", lambda t, w, dtype: phasor_in_complex128(t, w, torch.bfloat16), "on slow phasors in float32"),
        ("sessions_at_half", 100, "is not right"),
        ("ring_all_reduce", ring_by_arrays, "✓"),
        ("ring_all_reduce", ring_in_one_array, "✓"),
        ("ring_all_reduce", lambda b: ring_in_one_array(b, halves=1), "A second half"),
        ("ring_all_reduce", lambda b: ring_in_one_array(b, scale=8), "what two processes send"),
        ("ring_all_reduce", lambda b: ([torch.stack(b).sum(0)] * len(b), ring_in_one_array(b)[1]), "order of the ring"),
        ("ring_all_reduce", lambda b: ring_in_one_array(b)[0], "on "),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
