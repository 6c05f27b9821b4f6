"""Memory networks against loops; two hops solve the two-fact task, and one hop cannot."""

import itertools
import math

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from possm_lite.blocks.memory_network import MemoryNetwork, hop, multi_hop_read

N_NAMES = 3  # things, boxes and rooms there are, each


def loop_answer(q, a, c, n_hops):
    """(8.1) and (8.3) number by number, for one question."""
    q, a, c, history = q.tolist(), a.tolist(), c.tolist(), []
    for _ in range(n_hops):
        exped = [math.exp(sum(x * y for x, y in zip(a_n, q, strict=True))) for a_n in a]
        p = [x / sum(exped) for x in exped]
        q = [q[d] + sum(p[n] * c[n][d] for n in range(len(p))) for d in range(len(q))]
        history.append(p)
    return q, history


def vectors(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def fact(subject, object_):
    """Names are numbered: things 0-2, boxes 3-5, rooms 6-8. One-hot subject beside one-hot object, (18,)."""
    both = torch.tensor([subject, 3 * N_NAMES + object_])
    return F.one_hot(both, 6 * N_NAMES).sum(0).double()


def story(things, boxes, rooms):
    """Thing i is in box i, box i is in room i: the facts (2n, 18)."""
    inside = [fact(a, N_NAMES + b) for a, b in zip(things, boxes, strict=True)]
    in_rooms = [fact(N_NAMES + b, 2 * N_NAMES + c) for b, c in zip(boxes, rooms, strict=True)]
    return torch.stack(inside + in_rooms)


def network_by_hand(n_hops, size=30.0):
    """Where is a? An address is the subject; an output takes the subject away from the question and adds the object."""
    n = 3 * N_NAMES
    network = MemoryNetwork(2 * n, N_NAMES, N_NAMES, dim=n, n_hops=n_hops).double()
    one = torch.eye(n, dtype=torch.float64)
    with torch.no_grad():
        network.address.weight.copy_(torch.cat([one, 0 * one], 1))
        network.output.weight.copy_(size * torch.cat([-one, one], 1))
        network.question.weight.copy_(size * one[:, :N_NAMES])
        network.readout.weight.copy_(one[2 * N_NAMES :])
    return network


def all_stories():
    """Facts (216, 4, 18), where the first thing of each story is (216, 3), and its room (216,)."""
    pairs = list(itertools.permutations(range(N_NAMES), 2))
    things, boxes, rooms = zip(*itertools.product(pairs, pairs, pairs), strict=True)
    facts = torch.stack([story(*names) for names in zip(things, boxes, rooms, strict=True)])
    return facts, F.one_hot(torch.tensor(things)[:, 0], N_NAMES).double(), torch.tensor(rooms)[:, 0]


def accuracy(network):
    facts, question, rooms = all_stories()
    return (network(facts, question)[0].argmax(-1) == rooms).double().mean().item()


def trained(n_hops):
    torch.manual_seed(0)
    network = MemoryNetwork(6 * N_NAMES, N_NAMES, N_NAMES, dim=24, n_hops=n_hops).double()
    facts, question, rooms = all_stories()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(250):
        loss = F.cross_entropy(network(facts, question)[0], rooms)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


@pytest.mark.parametrize("n_hops", [1, 2, 3])
def test_hops_match_loops(n_hops):
    q, a, c = vectors(2, 4), vectors(2, 5, 4), vectors(2, 5, 4)
    last, weights = multi_hop_read(q, a, c, n_hops)
    assert weights.shape == (2, n_hops, 5)
    for b in range(2):
        wanted, p = loop_answer(q[b], a[b], c[b], n_hops)
        assert_close(last[b], torch.tensor(wanted, dtype=torch.float64))
        assert_close(weights[b], torch.tensor(p, dtype=torch.float64))


def test_hop_accepts_any_leading_axes():
    q, a, c = vectors(2, 3, 4), vectors(2, 3, 5, 4), vectors(2, 3, 5, 4)
    read, p = hop(q, a, c)
    assert_close((read[1, 2], p[1, 2]), hop(q[1, 2], a[1, 2], c[1, 2]))


def test_gradients():
    args = [x.requires_grad_() for x in (vectors(2, 3), vectors(2, 4, 3), vectors(2, 4, 3))]
    assert torch.autograd.gradcheck(lambda *x: multi_hop_read(*x, 2), args)


def test_order_of_facts_does_not_matter():
    network = MemoryNetwork(6, 2, 4).double()
    facts, question = vectors(3, 5, 6), vectors(3, 2)
    order = torch.randperm(5)
    scores, weights = network(facts, question)
    assert_close(network(facts[:, order], question), (scores, weights[..., order]))


@pytest.mark.parametrize("n_hops", [0, -1])
def test_n_hops_below_one_is_refused(n_hops):
    with pytest.raises(ValueError, match="n_hops must be at least 1"):
        multi_hop_read(vectors(4), vectors(5, 4), vectors(5, 4), n_hops)


def test_two_constructed_hops_answer_every_story():
    assert accuracy(network_by_hand(2)) == 1
    assert accuracy(network_by_hand(1)) < 0.75


def test_two_trained_hops_learn_what_one_cannot():
    assert accuracy(trained(2)) > 0.99
    assert accuracy(trained(1)) <= 0.75
