"""Memory networks against loops."""

import math

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from possm_lite.course.memory_network import MemoryNetwork, multi_hop_read


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


def test_a_hop_is_a_layer_of_attention_with_shared_weights():
    """torch's attention without a scale, residual added; the query alone is a sequence of one."""
    q, a, c = vectors(2, 4), vectors(2, 5, 4), vectors(2, 5, 4)
    x = q[:, None]
    for _ in range(3):
        x = x + F.scaled_dot_product_attention(x, a, c, scale=1.0)
    assert_close(x[:, 0], multi_hop_read(q, a, c, n_hops=3)[0])


@torch.no_grad()
def test_network_matches_loops():
    network = MemoryNetwork(6, 3, 2, dim=4, n_hops=2).double()
    facts, question = vectors(2, 5, 6), vectors(2, 3)
    scores, weights = network(facts, question)
    A, C = network.address.weight, network.output.weight
    for b in range(2):
        q, p = loop_answer(network.question.weight @ question[b], facts[b] @ A.T, facts[b] @ C.T, 2)
        assert_close((scores[b], weights[b]), (network.readout.weight @ q, p))
