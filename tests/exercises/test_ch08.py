"""Chapter 08: right answers in other styles, and what is said to a slip."""

import torch

from possm_course.chapters.ch08 import memory_network
from possm_course.chapters.ch08.memory_augmented import MemoryAugmented
from possm_course.chapters.ch08.neural_turing_machine import content_weights, interpolate, read, sharpen, shift, write

from .helpers import answers, load

exercises = load("ch08")


def frame_with_lists(*args):
    outputs, memory = MemoryAugmented(*args[:4]).run(*args[4:])
    return torch.stack(list(outputs)).tolist(), memory.tolist()


def copy_backwards(x):
    """Round the ring the other way, as lists."""
    go, silent = x[4] > 0, not x.any()
    back, stay = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    return stay if go or silent else back, back if silent else stay, [float(not (go or silent))] * 4, x[:4].tolist()


def copy_from_a_list(x, kept=[]):  # noqa: B006
    """The list in Python's memory: a controller with a state."""
    add = kept.pop(0) if kept and not x.any() else torch.zeros(4)
    kept.extend([x[:4]] if x[:4].any() else [])
    return torch.eye(3)[1], torch.eye(3)[1], torch.ones(4), add


test_answers = answers(
    exercises,
    ("best_of_four", torch.tensor([[1.0, -3.0], [2.0, -2.0]])),
    ("read_in_hops", lambda *args: memory_network.multi_hop_read(*args)[0]),
    ("erase_then_add", write),
    ("content", content_weights),
    ("locate", lambda c, p, g, s, gamma: sharpen(shift(interpolate(c, p, g), s), gamma)),
    ("copy_by_place", copy_backwards),
    ("copy_by_place", copy_from_a_list, "two answers"),
    ("copy_by_place", lambda x: (torch.ones(3), torch.eye(3)[1], torch.ones(4), x[:4]), "probabilities"),
    ("run_frame", frame_with_lists),
    ("run_frame", lambda *args: exercises.run_frame.reference(*args)[::-1], "outputs comes first"),
    ("delta_write", lambda m, w, v, beta: write(m, w, torch.zeros_like(v), beta * (v - read(w, m)))),
)
