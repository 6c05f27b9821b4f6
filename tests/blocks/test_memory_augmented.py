"""The end-to-end memory network and the Turing machine as two fillings of one frame: the same numbers."""

import torch
from torch.testing import assert_close

from possm_lite.blocks.memory_augmented import MemoryAugmented
from possm_lite.blocks.memory_network import MemoryNetwork, hop
from possm_lite.blocks.neural_turing_machine import NeuralTuringMachine, address, read, write


def test_memory_network_is_a_filling():
    network = MemoryNetwork(6, 5, 4, dim=8, n_hops=3).double()
    facts, question = torch.randn(2, 7, 6).double(), torch.randn(2, 5).double()

    def controller(x, r, q):
        q = q + r + x
        return q, q, None

    filling = MemoryAugmented(
        controller, lambda m, q, v: m, lambda m, q: hop(q, *m)[0], lambda q, r: network.readout(q + r)
    )
    zeros = torch.zeros(2, 8).double()
    given = network.address(facts), network.output(facts)
    scores, _ = filling.run([network.question(question), zeros, zeros], given, zeros, zeros)
    assert_close(scores[-1], network(facts, question)[0])


def test_turing_machine_is_a_filling():
    machine = NeuralTuringMachine(2, 4, slots=5, width=3, hidden=6).double()
    x = torch.randn(2, 7, 2).double()

    def controller(x, r, h):
        h = torch.tanh(machine.controller(torch.cat([x, r], -1)))
        return h, machine.head_parameters(h), machine.to_write(h).chunk(2, -1)

    def write_with_head(m, q, v):
        slots, heads = m
        *_, heads = address(q, slots[:, None], heads)
        return write(slots, heads[:, 1], torch.sigmoid(v[0]), torch.tanh(v[1])), heads

    filling = MemoryAugmented(
        controller,
        write_with_head,
        lambda m, q: read(m[1][:, 0], m[0]),
        lambda h, r: machine.readout(torch.cat([h, r], -1)),
    )
    slots, heads, r = machine.start(batch=2)
    outputs, (slots, heads) = filling.run(x.unbind(1), (slots, heads), None, r)
    wanted, trace = machine(x)
    assert_close(torch.stack(outputs, 1), wanted)
    assert_close((slots, heads[:, 0], heads[:, 1]), (trace.memory[:, -1], trace.read[:, -1], trace.write[:, -1]))
