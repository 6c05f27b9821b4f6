"""Memory networks against loops."""

import math

import pytest
import torch
from torch.testing import assert_close

from possm_lite.blocks.memory_network import MemoryNetwork, multi_hop_read


def loop_answer(q, a, c, n_hops):
    """(8.1) and (8.3) number by number, for one question."""
    q, a, c, history = q.tolist(), a.tolist(), c.tolist(), []
    for _ in range(n_hops):
        exped = [math.exp(sum(x * y for x, y in zip(a_n, q, strict=True))) for a_n in a]
        p = [x / sum(exped) for x in exped]
        q = [q[d] + sum(p[n] * c[n][d] for n in range(len(p))) for d in range(len(q))]
        history.append(p)
    return torch.tensor(q, dtype=torch.float64), torch.tensor(history, dtype=torch.float64)


def vectors(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("n_hops", [1, 2, 3])
def test_hops_match_loops(n_hops):
    q, a, c = vectors(2, 4), vectors(2, 5, 4), vectors(2, 5, 4)
    last, weights = multi_hop_read(q, a, c, n_hops)
    for b in range(2):
        assert_close((last[b], weights[b]), loop_answer(q[b], a[b], c[b], n_hops))


def test_network_matches_loops():
    network = MemoryNetwork(6, 3, 2, dim=4, n_hops=2).double()
    facts, question = vectors(2, 5, 6), vectors(2, 3)
    scores, weights = network(facts, question)
    A, C = network.address.weight, network.output.weight
    for b in range(2):
        q, p = loop_answer(network.question.weight @ question[b], facts[b] @ A.T, facts[b] @ C.T, 2)
        assert_close((scores[b], weights[b]), (network.readout.weight @ q, p))
