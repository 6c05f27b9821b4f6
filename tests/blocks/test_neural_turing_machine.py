"""The neural Turing machine against loops; what is written can be read. Chapter 08 asserts that it learns to copy."""

import math

import torch
from torch.testing import assert_close

from possm_lite.blocks.neural_turing_machine import (
    Address,
    NeuralTuringMachine,
    address,
    content_weights,
    sharpen,
)

N, M = 5, 3


def vectors(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def weights(*shape):
    return torch.softmax(vectors(*shape), -1)


def loop_address(key, beta, gate, moves, gamma, memory, previous):
    """(8.6) to (8.9) number by number, for one head; all lists and floats."""
    n = len(memory)
    cosine = [sum(a * b for a, b in zip(key, row, strict=True)) / math.hypot(*key) / math.hypot(*row) for row in memory]
    exped = [math.exp(beta * c) for c in cosine]
    content = [x / sum(exped) for x in exped]
    mixed = [gate * content[i] + (1 - gate) * previous[i] for i in range(n)]
    moved = [0.0] * n
    for i in range(n):  # slot i hands its weight on to its neighbours
        for d, p in zip((-1, 0, 1), moves, strict=True):
            moved[(i + d) % n] += p * mixed[i]
    powered = [x**gamma for x in moved]
    return content, mixed, moved, [x / sum(powered) for x in powered]


def loop_step(machine, x, memory, heads, r):
    """One step of the machine for one sequence, every number by itself: y, memory, heads and r as lists."""

    def linear(layer, v):
        rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
        return [sum(w * u for w, u in zip(row, v, strict=True)) + b for row, b in rows]

    def sigmoid(v):
        return 1 / (1 + math.exp(-v))

    def softplus(v):
        return math.log1p(math.exp(v))

    h = [math.tanh(v) for v in linear(machine.controller, x + r)]
    raw, new_heads = linear(machine.heads, h), []
    for head, previous in enumerate(heads):
        o = raw[head * (M + 6) : (head + 1) * (M + 6)]
        key = [math.tanh(v) for v in o[:M]]
        exped = [math.exp(v) for v in o[M + 2 : M + 5]]
        moves = [v / sum(exped) for v in exped]
        stages = loop_address(key, softplus(o[M]), sigmoid(o[M + 1]), moves, 1 + softplus(o[M + 5]), memory, previous)
        new_heads.append(stages[-1])
    to_write = linear(machine.to_write, h)
    erase, add = [sigmoid(v) for v in to_write[:M]], [math.tanh(v) for v in to_write[M:]]
    w_read, w_write = new_heads
    memory = [[m * (1 - w * e) + w * a for m, e, a in zip(row, erase, add, strict=True)]
              for row, w in zip(memory, w_write, strict=True)]  # fmt: skip
    r = [sum(w * row[j] for w, row in zip(w_read, memory, strict=True)) for j in range(M)]
    return linear(machine.readout, h + r), memory, new_heads, r


def test_addressing_stages_match_loops():
    ask = Address(vectors(2, M), vectors(2).exp(), weights(2, 2)[:, 0], weights(2, 3), 1 + vectors(2).exp())
    memory, previous = vectors(2, N, M), weights(2, N)
    stages = address(ask, memory, previous)
    for b in range(2):
        asked = [x[b].tolist() for x in (ask.key, ask.beta, ask.gate, ask.shift, ask.gamma)]
        for ours, wanted in zip(stages, loop_address(*asked, memory[b].tolist(), previous[b].tolist()), strict=True):
            assert_close(ours[b], torch.tensor(wanted, dtype=torch.float64), atol=1e-6, rtol=1e-6)


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


def test_machine_matches_loops():
    machine = NeuralTuringMachine(2, 4, slots=N, width=M, hidden=6).double()
    x = vectors(2, 4, 2)
    y, trace = machine(x)
    assert y.shape == (2, 4, 4) and trace.memory.shape == (2, 4, N, M)
    for b in range(2):
        memory, r = [[0.1] * M for _ in range(N)], [0.0] * M
        heads = [[1.0] + [0.0] * (N - 1)] * 2
        for t in range(4):
            wanted, memory, heads, r = loop_step(machine, x[b, t].tolist(), memory, heads, r)
            for ours, theirs in ((y, wanted), (trace.read, heads[0]), (trace.write, heads[1]), (trace.memory, memory)):
                assert_close(ours[b, t], torch.tensor(theirs, dtype=torch.float64), atol=1e-6, rtol=1e-6)
