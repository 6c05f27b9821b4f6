"""The checks of chapter 17 accept what is right and name what is wrong."""

import math

import numpy as np
import pytest
import torch

from .helpers import assert_wrong, load

check = load("17_scaling_out")

# 17.1


def sample_by_sample(gradients, n_samples):
    rows = [g for g, n in zip(gradients, n_samples, strict=True) for _ in range(n)]
    return torch.stack(rows).mean(0)


def with_weights(gradients, n_samples):
    weights = torch.tensor(n_samples) / sum(n_samples)
    return torch.einsum("p,p...->...", weights, torch.stack(gradients).nan_to_num())


@pytest.mark.parametrize("answer", [sample_by_sample, with_weights])
def test_right_gradients(answer):
    assert check.whole_gradient.examine(answer).message == "✓ whole_gradient"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda g, n: sum(g) / len(g), "plain mean"),
        (lambda g, n: sum(g), "sum of the gradients"),
        (lambda g, n: sample_by_sample(g, n) * sum(n), "do not divide"),
        (lambda g, n: sample_by_sample(g, n) / len(n), "divided twice"),
        (lambda g, n: torch.einsum("p,p...->...", torch.tensor(n) / sum(n), torch.stack(g)), "0 times NaN"),
        (lambda g, n: sum(x / k for x, k in zip(g, n, strict=True)) / sum(1 / k for k in n), "wrong way round"),
        (lambda g, n: sample_by_sample(g, n[::-1]), "wrong way round"),
        (lambda g, n: sample_by_sample(g, n) * sum(n) / len(n), "divide by the number of parts"),
        (lambda g, n: g[0], "on two parts"),
    ],
)
def test_bugs_of_the_gradient(answer, words):
    assert_wrong(check.whole_gradient, answer, words)


# 17.2


def round_by_round(n_numbers, n_processes, bytes_each):
    sent = 0
    for _ in range(2):
        for _ in range(n_processes - 1):
            sent += bytes_each * n_numbers // n_processes
    return sent


def in_one_formula(n_numbers, n_processes, bytes_each):
    return 2 * n_numbers * bytes_each * (1 - 1 / n_processes)


@pytest.mark.parametrize("answer", [round_by_round, in_one_formula])
def test_right_bytes(answer):
    assert check.sent_bytes.examine(answer).message == "✓ sent_bytes"


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (lambda n: 1 - 1 / n, "one way only"),
        (lambda n: 2 * n - 2, "n times too much"),
        (lambda n: n - 1, "everybody's whole gradient"),
        (lambda n: 2, "n - 1 each way"),
        (lambda n: 2 - 1 / n, "one round too many"),
        (lambda n: 16 - 16 / n, "these are bits"),
        (lambda n: 1 / n, "on 1,000 numbers"),
    ],
)
def test_bugs_of_the_bytes(factor, words):
    assert_wrong(check.sent_bytes, lambda numbers, n, each: factor(n) * numbers * each, words)
    assert_wrong(check.sent_bytes, lambda numbers, n, each: round_by_round(numbers, n, 1), "not bytes")


# 17.3


def draw(seed, n, room_s):
    return room_s * torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def by_numbers(seed, n, room_s, rank, size):
    return draw(seed, n, room_s)[torch.from_numpy(np.array_split(np.arange(n), size)[rank])]


def by_edges(seed, n, room_s, rank, size):
    first = sum(n // size + (r < n % size) for r in range(rank))
    torch.manual_seed(seed)  # torch's own generator serves as well
    return (torch.rand(n, dtype=torch.float64) * room_s)[first : first + n // size + (rank < n % size)]


@pytest.mark.parametrize("answer", [by_numbers, by_edges])
def test_right_windows(answer):
    assert check.my_windows.examine(answer).message == "✓ my_windows"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda s, n, room, r, size: draw(s + r, n // size, room), "the seed depends on the rank"),
        (lambda s, n, room, r, size: draw(s, n // size, room), "draw the same windows"),
        (lambda s, n, room, r, size: draw(s, n, room), "nothing is shared out"),
        (lambda s, n, room, r, size: draw(s, n, room).view(size, -1)[r], "on three processes and 8 windows"),
        (lambda s, n, room, r, size: draw(s, n, room)[: n // size * size].view(size, -1)[r], "windows are lost"),
        (lambda s, n, room, r, size: draw(s, n, room)[r::size], "like cards"),
        (lambda s, n, room, r, size: draw(s, n, room).split(-(-n // size))[r], "`chunk` rounds up"),
        (lambda s, n, room, r, size: by_numbers(3, n, room, r, size), "the seed is not used"),
        (lambda s, n, room, r, size: by_numbers(s, n, 1.0, r, size), "on one process"),
        (lambda s, n, room, r, size: by_numbers(s, n, room, size - 1 - r, size), "on two processes"),
    ],
)
def test_bugs_of_the_windows(answer, words):
    assert_wrong(check.my_windows, answer, words)


# 17.4


def by_whole_turns(time_s, omega, dtype):
    turns = torch.outer(time_s, omega / (2 * math.pi))
    angle = (turns - turns.floor()) * 2 * math.pi
    return torch.cos(angle).to(dtype), torch.sin(angle).to(dtype)


def by_complex_numbers(time_s, omega, dtype):
    phase = torch.exp(1j * time_s[:, None] * omega)
    return phase.real.type(dtype), phase.imag.type(dtype)


@pytest.mark.parametrize("answer", [by_whole_turns, by_complex_numbers])
def test_right_hands(answer):
    assert check.hands.examine(answer).message == "✓ hands"


def of_angle(angle):
    return lambda t, w, dtype: (angle(t, w, dtype).cos().to(dtype), angle(t, w, dtype).sin().to(dtype))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (of_angle(lambda t, w, dtype: torch.outer(t.to(dtype), w.to(dtype))), "neighbours in bfloat16"),
        (of_angle(lambda t, w, dtype: torch.outer(t, w).to(dtype)), "up to 8 rad beside"),
        (of_angle(lambda t, w, dtype: (torch.outer(t, w) % (2 * math.pi)).to(dtype)), "take whole turns off"),
        (of_angle(lambda t, w, dtype: torch.outer(t, w.to(dtype).double())), "the frequency is rounded"),
        (of_angle(lambda t, w, dtype: torch.outer(t.float(), w.float())), "in float32"),
        (lambda t, w, dtype: by_whole_turns(t, w, torch.float64), "stay float64"),
        (lambda t, w, dtype: by_whole_turns(t, w, dtype)[::-1], "exchanged"),
        (lambda t, w, dtype: by_whole_turns(t, w, dtype)[0], "2 values are wanted"),
        (lambda t, w, dtype: by_whole_turns(t, w, torch.bfloat16), "on slow hands in float32"),
    ],
)
def test_bugs_of_the_hands(answer, words):
    assert_wrong(check.hands, answer, words)


# 17.5


def test_sessions_at_half():
    n_sessions = 1
    while 8 * n_sessions * 200 * 64 * 4 / 1e9 < 0.2:  # two processes: each sends its gradient once
        n_sessions += 1
    assert check.sessions_at_half.examine(n_sessions).status == "right"
    assert check.sessions_at_half.examine(488).status == "right"
    for wrong, words in (
        (3906, "bits are not bytes"),
        (244, "once, not twice"),
        (977, "not a half"),
        (1953, "four bytes"),
        (97_656, "*units*"),
        (100, "is not it"),
    ):
        assert_wrong(check.sessions_at_half, wrong, words)
