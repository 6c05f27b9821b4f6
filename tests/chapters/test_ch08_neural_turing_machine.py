"""The neural Turing machine against explicit vectors of one sequence. Chapter 08 asserts that it learns to copy."""

import torch
from torch.nn import functional as F
from torch.testing import assert_close

from possm_course.chapters.ch08.neural_turing_machine import NeuralTuringMachine, content_weights, read, sharpen, write

N, M = 5, 3


def explicit_step(machine, x, memory, heads, r):
    """One step of one sequence, slot by slot: y, memory, heads and r."""
    h = torch.tanh(machine.controller(torch.cat([x, r])))
    new_heads = []
    for o, previous in zip(machine.heads(h).split(M + 6), heads, strict=True):
        gate, moves, gamma = torch.sigmoid(o[M + 1]), torch.softmax(o[M + 2 : M + 5], 0), 1 + F.softplus(o[M + 5])
        content = torch.softmax(F.softplus(o[M]) * F.cosine_similarity(memory, torch.tanh(o[:M])[None]), 0)  # (8.6)
        mixed = gate * content + (1 - gate) * previous  # (8.7)
        moved = torch.zeros_like(mixed)
        for i in range(N):  # slot i hands its weight on to its neighbours (8.8)
            for d, p in zip((-1, 0, 1), moves, strict=True):
                moved[(i + d) % N] += p * mixed[i]
        new_heads.append(moved**gamma / (moved**gamma).sum())  # (8.9)
    erase, add = machine.to_write(h).split(M)
    w_read, w_write = new_heads
    rows = [m * (1 - w * torch.sigmoid(erase)) + w * torch.tanh(add) for m, w in zip(memory, w_write, strict=True)]
    r = sum(w * row for w, row in zip(w_read, rows, strict=True))
    return machine.readout(torch.cat([h, r])), torch.stack(rows), new_heads, r


def test_zero_vectors_give_finite_weights():
    key, memory = torch.zeros(M, requires_grad=True), torch.zeros(N, M, requires_grad=True)
    w = content_weights(key, memory, torch.tensor(3.0))
    assert_close(w, torch.full((N,), 1 / N))
    w[0].backward()
    assert key.grad.isfinite().all() and memory.grad.isfinite().all()


def test_sharpening_has_gradients_at_zero():
    w, gamma = torch.eye(N)[2].requires_grad_(), torch.tensor(3.0, requires_grad=True)
    sharpen(w, gamma)[2].backward()
    assert w.grad.isfinite().all() and gamma.grad.isfinite()


def test_a_write_of_the_difference_is_the_delta_rule():
    """Schlag et al. 2021, for a matrix W (M, N): W + beta (v - W k) k^T; an exact write has beta = 1 / |k|^2."""
    memory, key, v = (torch.randn(*shape, dtype=torch.float64) for shape in ((N, M), (N,), (M,)))
    beta = 1 / key.square().sum()
    after = write(memory, key, torch.zeros_like(v), beta * (v - read(key, memory)))
    W = memory.T
    assert_close(after.T, W + beta * torch.outer(v - W @ key, key))
    assert_close(read(key, after), v)
    slot = torch.eye(N, dtype=torch.float64)[1]  # on one slot it is erase and add of that slot
    assert_close(read(slot, write(memory, slot, torch.ones_like(v), v)), v)
    assert_close(write(memory, slot, torch.ones_like(v), v), write(memory, slot, 0 * v, v - read(slot, memory)))


@torch.no_grad()
def test_machine_matches_explicit_steps():
    machine = NeuralTuringMachine(2, 4, slots=N, width=M, hidden=6).double()
    x = torch.randn(2, 4, 2, dtype=torch.float64)
    y, trace = machine(x)
    assert y.shape == (2, 4, 4) and trace.memory.shape == (2, 4, N, M)
    for b in range(2):
        memory, r = torch.full((N, M), 0.1, dtype=torch.float64), torch.zeros(M, dtype=torch.float64)
        heads = [torch.eye(N, dtype=torch.float64)[0]] * 2
        for t in range(4):
            wanted, memory, heads, r = explicit_step(machine, x[b, t], memory, heads, r)
            ours = y[b, t], trace.read[b, t], trace.write[b, t], trace.memory[b, t]
            assert_close(ours, (wanted, *heads, memory), atol=1e-6, rtol=1e-6)
