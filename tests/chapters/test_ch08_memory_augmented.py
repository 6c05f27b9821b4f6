"""The frame of memory-augmented networks against its formula, step by step, and filled by a network of hops."""

import torch

from possm_course.chapters.ch08.memory_augmented import MemoryAugmented
from possm_course.chapters.ch08.memory_network import MemoryNetwork, hop


def test_run_matches_explicit_steps():
    network = MemoryAugmented(
        controller=lambda x, r, h: (2 * h + x + 10 * r, x + 1, 3 * x + h),
        write=lambda m, q, v: m + [q * v],
        read=lambda m, q: sum(m) - q,
        readout=lambda h, r: h - 7 * r,
    )
    h_1, q_1, v_1 = 2 * 5 + 2 + 10 * 1, 2 + 1, 3 * 2 + 5  # of x = 2, r = 1, h = 5
    r_1 = 4 + q_1 * v_1 - q_1  # the memory was [4]
    h_2, q_2, v_2 = 2 * h_1 + 3 + 10 * r_1, 3 + 1, 3 * 3 + h_1
    r_2 = 4 + q_1 * v_1 + q_2 * v_2 - q_2
    outputs, memory = network.run([2, 3], [4], 5, 1)
    assert outputs == [h_1 - 7 * r_1, h_2 - 7 * r_2]
    assert memory == [4, q_1 * v_1, q_2 * v_2]


def test_hops_are_steps_of_the_frame():
    """Chapter 08, deeper, does the same with the neural Turing machine."""
    network, facts, u = MemoryNetwork(5, 3, 4, dim=6, n_hops=2), torch.randn(2, 7, 5), torch.randn(2, 3)
    ask, look = lambda x, r, q: (q + r + x,) * 3, lambda m, q: hop(q, *m)[0]
    frame = MemoryAugmented(ask, lambda m, q, v: m, look, lambda q, r: network.readout(q + r))
    outputs, _ = frame.run([network.question(u), 0.0], (network.address(facts), network.output(facts)), 0.0, 0.0)
    torch.testing.assert_close(outputs[-1], network(facts, u)[0])
