"""The task of the stories, which room is a thing in, and memory networks that learn to answer."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from possm_course.chapters.ch08.memory_network import MemoryNetwork, hop
from possm_course.chapters.ch08.training import seeded, side_by_side, train

THINGS = ["key", "ring", "coin", "pen", "ball", "map"]
BOXES = ["jar", "bag", "tin", "chest", "drawer", "basket"]
ROOMS = ["kitchen", "cellar", "attic", "hall", "garden", "study"]
V = len(THINGS)  # as many boxes and rooms as things
D = 24
READERS = 4  # seeds


def to_facts(thing: Tensor, box: Tensor, room: Tensor) -> Tensor:
    """The facts of stories in which thing i is in box i, and box i in room i.

    Args:
        thing: numbers of the things, shape (B, n).
        box: numbers of the boxes, shape (B, n).
        room: numbers of the rooms, shape (B, n).

    Returns:
        Facts, shape (B, 2n, 4V): what is there, one-hot, beside what it is in, one-hot.
    """
    what = torch.cat([thing, V + box], 1)  # (B, 2n): things come first, then boxes
    in_what = torch.cat([box, V + room], 1)  # (B, 2n): boxes come first, then rooms
    one_hot = torch.eye(2 * V)
    return torch.cat([one_hot[what], one_hot[in_what]], -1)


def make_stories(
    n_stories: int, generator: torch.Generator, n_things: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Random stories, their sentences in random order, with a question about one thing of each.

    Args:
        n_stories: B, number of stories.
        generator: source of the random numbers.
        n_things: n, things in a story, each in a box of its own in a room of its own.

    Returns:
        Facts (B, 2n, 4V), the thing asked for, one-hot (B, V), and the number of its room (B,).
    """

    def chosen() -> Tensor:
        return torch.rand(n_stories, V, generator=generator).argsort(1)[:, :n_things]  # (B, n)

    thing = chosen()
    box = chosen()
    room = chosen()
    facts = to_facts(thing, box, room)
    order = torch.rand(n_stories, 2 * n_things, generator=generator).argsort(1)
    facts = facts.gather(1, order[..., None].expand_as(facts))  # sentences shuffled
    return facts, F.one_hot(thing[:, 0], V).float(), room[:, 0]


def spell(fact: Tensor) -> str:
    """A `fact` (4V,) in words, such as "key in jar"."""
    what, in_what = fact.nonzero().flatten().tolist()
    thing = (THINGS + BOXES)[what]
    place = (BOXES + ROOMS)[in_what - 2 * V]
    return f"{thing} in {place}"


def make_foursome() -> dict[tuple[str, str], tuple[Tensor, Tensor]]:
    """The four stories of key and ring, jar and bag, kitchen and cellar.

    Returns:
        By how things are in boxes and boxes in rooms, each "straight" or "crossed": the facts,
        shape (1, 4, 4V), and the number of the key's room, shape ().
    """
    two = torch.tensor([[0, 1]])
    order = {"straight": two, "crossed": two.flip(1)}
    stories = {}
    for inside, stands in itertools.product(("straight", "crossed"), repeat=2):
        box = order[inside]  # (1, 2): of each thing
        room_of = order[stands]  # (1, 2): of each box
        stories[inside, stands] = to_facts(two, box, room_of.gather(1, box)), room_of[0, box[0, 0]]
    return stories


class Replaced(MemoryNetwork):
    """A memory network that replaces its query: q <- r. Built like `MemoryNetwork`."""

    def forward(self, facts: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (B, n_answers), weights (B, n_hops, N), from `facts` and `question` as there."""
        q = self.question(question)
        a = self.address(facts)
        c = self.output(facts)
        weights = []
        for _ in range(self.n_hops):
            q, p = hop(q, a, c)
            weights.append(p)
        return self.readout(q), torch.stack(weights, -2)


class OneMemory(MemoryNetwork):
    """A memory network with a = c: facts are found by a and read as a.

    Args:
        sizes: positional arguments of `MemoryNetwork`.
    """

    def __init__(self, *sizes: int):
        super().__init__(*sizes)
        self.output = None

    def forward(self, facts: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (B, n_answers) and the last hop's weights (B, N), from `facts` and `question`."""
        q = self.question(question)
        a = self.address(facts)
        for _ in range(self.n_hops):
            r, p = hop(q, a, a)
            q = q + r
        return self.readout(q), p


def train_readers(
    kind: type, n_hops: int, dim: int = D, things: tuple[int, ...] = (2,), steps: int = 300
) -> tuple[Tensor, nn.Module]:
    """Trains S = `READERS` memory networks side by side on the same kind of stories.

    Args:
        kind: class of the networks, `MemoryNetwork` or one built like it.
        n_hops: reads of each network.
        dim: size of queries, addresses and outputs.
        things: numbers of things in a story, which take turns from step to step.
        steps: number of training steps, 48 stories for each network at each.

    Returns:
        The loss, shape (steps, S), and the network that is all of them.
    """
    networks = side_by_side(seeded(lambda: kind(4 * V, V, len(ROOMS), dim, n_hops), READERS))
    batches = _story_batches(things, steps)

    def losses():
        facts, question, room = next(batches)
        loss = F.cross_entropy(networks(facts, question)[0], room, reduction="none")
        return loss.view(READERS, -1).mean(1)  # (S,)

    return train(networks, losses, steps, learning_rate=0.02), networks


def _story_batches(things: tuple[int, ...], steps: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The stories of each step, by turns with each number of things; drawn all at once: faster."""
    generator = torch.Generator().manual_seed(3)
    n_stories = READERS * 48  # in a step
    batches_of = []  # of each number of things
    for n_things in things:
        stories = make_stories(steps // len(things) * n_stories, generator, n_things)
        parts = [part.split(n_stories) for part in stories]
        batches_of.append(zip(*parts, strict=True))
    return itertools.chain.from_iterable(zip(*batches_of, strict=True))


@torch.no_grad()
def answer(networks: nn.Module, facts: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
    """What S networks say about the same stories.

    Args:
        networks: S networks as one, as from `train_readers`.
        facts: shape (B, N, 4V).
        question: the thing asked for, shape (B, V).

    Returns:
        Scores of the rooms, shape (S, B, 6), and weights, shape (S, B, n_hops, N).
    """
    scores, p = networks(facts.repeat(READERS, 1, 1), question.repeat(READERS, 1))
    return scores.unflatten(0, (READERS, -1)), p.unflatten(0, (READERS, -1))


def share_right(networks: nn.Module, facts: Tensor, question: Tensor, room: Tensor) -> Tensor:
    """The share of stories that each network answers correctly.

    Args:
        networks: S networks as one, as from `train_readers`.
        facts: shape (B, N, 4V).
        question: the thing asked for, shape (B, V).
        room: number of the right room, shape (B,).

    Returns:
        Shares between 0 and 1, shape (S,).
    """
    scores, _ = answer(networks, facts, question)
    return (scores.argmax(-1) == room).float().mean(1)


def train_by_name(name: str) -> tuple[Tensor, nn.Module]:
    """One of the trainings that the chapter compares.

    Args:
        name: "one hop", "two hops", "q replaced", "two hops, 2 or 3 things" or "one memory, 2 D".

    Returns:
        The loss, shape (steps, S), and the networks, as from `train_readers`.
    """
    kinds = {
        "one hop": (MemoryNetwork, 1),
        "two hops": (MemoryNetwork, 2),
        "q replaced": (Replaced, 2),
        "two hops, 2 or 3 things": (MemoryNetwork, 2, D, (2, 3)),
        "one memory, 2 D": (OneMemory, 2, 2 * D),
    }
    return train_readers(*kinds[name])
