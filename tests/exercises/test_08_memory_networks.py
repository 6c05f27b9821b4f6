"""Chapter 08: right answers in other styles."""

import torch

from possm_lite.course import memory_network
from possm_lite.course.memory_augmented import MemoryAugmented
from possm_lite.course.neural_turing_machine import content_weights, interpolate, sharpen, shift, write

from .helpers import answers, load

exercises = load("08_memory_networks")


def frame_with_lists(*args):
    outputs, memory = MemoryAugmented(*args[:4]).run(*args[4:])
    return torch.stack(list(outputs)).tolist(), memory.tolist()


test_answers = answers(
    exercises,
    [
        ("best_of_four", torch.tensor([[1.0, -3.0], [2.0, -2.0]])),
        ("read_in_hops", lambda *args: memory_network.multi_hop_read(*args)[0]),
        ("erase_then_add", write),
        ("content", content_weights),
        ("locate", lambda c, p, g, s, gamma: sharpen(shift(interpolate(c, p, g), s), gamma)),
        ("run_frame", frame_with_lists),
    ],
)
