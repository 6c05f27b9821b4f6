"""Memory networks against loops."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from possm_course.chapters.ch08.memory_network import MemoryNetwork, multi_hop_read


def loop_answer(q, a, c, n_hops):
    """(8.1) and (8.3) fact by fact, for one question."""
    history = []
    for _ in range(n_hops):
        factors = [math.exp(a_n @ q) for a_n in a]
        history.append([f / sum(factors) for f in factors])
        q = q + sum(p * c_n for p, c_n in zip(history[-1], c, strict=True))
    return q, torch.tensor(history, dtype=torch.float64)


def vectors(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("n_hops", [1, 2, 3])
def test_hops_match_loops(n_hops):
    q, a, c = vectors(2, 4), vectors(2, 5, 4), vectors(2, 5, 4)
    last, weights = multi_hop_read(q, a, c, n_hops)
    for b in range(2):
        assert_close((last[b], weights[b]), loop_answer(q[b], a[b], c[b], n_hops))


def test_a_question_of_two_facts_needs_two_hops():
    """Things, boxes and rooms in pairs. In one hop a lean times its denominator is a sum over facts (8.2)."""
    one, straight_crossed = torch.eye(6, dtype=torch.float64), itertools.product((0, 1), repeat=2)
    what = one[:4, :4]  # things, then boxes
    facts = torch.stack([torch.cat([what, one[[2 + a, 3 - a, 4 + b, 5 - b], 2:]], 1) for a, b in straight_crossed])
    ask, room = one[:1, :2].expand(4, 2), torch.tensor([0, 1, 1, 0])  # where is the first thing?
    network = MemoryNetwork(8, 2, 2, dim=6, n_hops=1).double()
    scores, q = network(facts, ask)[0], network.question(ask)[0]
    sums = scores.diff(dim=1).squeeze(1) * torch.exp(network.address(facts) @ q).sum(-1)
    assert_close(sums[0] + sums[3], sums[1] + sums[2])  # so it cannot lean rightly four times
    network.address.weight.data = torch.cat([one[:, :4], torch.zeros_like(one[:, 2:])], 1)
    network.output.weight.data = 30 * torch.cat([-one[:, :4], one[:, 2:]], 1)
    network.question.weight.data, network.readout.weight.data, network.n_hops = 30 * one[:, :2], one[4:], 2
    assert torch.equal(network(facts, ask)[0].argmax(1), room)
