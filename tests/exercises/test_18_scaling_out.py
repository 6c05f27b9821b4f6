"""Chapter 18: right answers in other styles, and wrong ones that no known mistake explains."""

import numpy as np
import pytest
import torch

from .helpers import assert_verdict, load

check = load("18_scaling_out")


def gradient_sample_by_sample(gradients, n_samples):
    return torch.stack([g for g, n in zip(gradients, n_samples, strict=True) for _ in range(n)]).mean(0)


def gradient_by_einsum(gradients, n_samples):
    return torch.einsum("p,p...->...", torch.tensor(n_samples) / sum(n_samples), torch.stack(gradients))


def gradient_from_the_first(gradients, counts):
    total = gradients[0] * counts[0]
    for gradient, n in zip(gradients[1:], counts[1:], strict=True):
        total = total + gradient * n if n else total
    return total / sum(counts)


def windows_by_numbers(seed, n, room_s, rank, size):
    torch.manual_seed(seed)  # the global generator is as good
    starts = room_s * torch.rand(n, dtype=torch.float64)
    return starts[torch.from_numpy(np.array_split(np.arange(n), size)[rank])]


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


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("whole_gradient", gradient_sample_by_sample, "✓"),
        ("whole_gradient", lambda g, n: gradient_by_einsum([x.nan_to_num() for x in g], n), "✓"),
        ("whole_gradient", gradient_by_einsum, "0 times NaN"),
        ("whole_gradient", gradient_from_the_first, "no samples in the first part"),
        ("sent_bytes", lambda n, size, each: sum(each * n // size for _ in range(2 * (size - 1))), "✓"),
        ("sent_bytes", lambda n, size, each: n * each / size, "on 1,000 numbers"),
        ("my_windows", windows_by_numbers, "✓"),
        ("my_windows", lambda s, n, room, *o: windows_by_numbers(s, n, 600.0, *o), "on a part of 90 s"),
        ("my_windows", lambda s, n, room, r, size: windows_by_numbers(s, n, room, -1 - r, size), "on two processes"),
        ("ring_all_reduce", ring_by_arrays, "✓"),
        ("ring_all_reduce", lambda b: (ring_by_arrays(b)[0], [8 * x for x in ring_by_arrays(b)[1]]), "the bytes sent"),
        ("ring_all_reduce", lambda b: torch.stack(ring_by_arrays(b)[0])[:1], "return two lists"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
