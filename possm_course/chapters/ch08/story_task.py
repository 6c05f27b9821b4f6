"""The task of the stories: which room is a thing in, and the memory networks that learn to answer it."""

import itertools

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
    """Thing i is in box i, box i in room i; numbers (B, n) each. Facts (B, 2n, 4V): one-hot what, one-hot in what."""
    what, in_what = torch.cat([thing, V + box], 1), torch.cat([box, V + room], 1)  # (B, 2n) each
    one_hot = torch.eye(2 * V)
    return torch.cat([one_hot[what], one_hot[in_what]], -1)


def make_stories(
    n_stories: int, generator: torch.Generator, n_things: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Facts (B, 2n, 4V), question (B, V), and the number of the room that answers it (B,)."""
    thing, box, room = (
        torch.rand(n_stories, V, generator=generator).argsort(1)[:, :n_things] for _ in range(3)
    )
    facts = to_facts(thing, box, room)
    order = torch.rand(n_stories, 2 * n_things, generator=generator).argsort(1)
    facts = facts.gather(1, order[..., None].expand_as(facts))  # sentences shuffled
    return facts, F.one_hot(thing[:, 0], V).float(), room[:, 0]


def spell(fact: Tensor) -> str:
    """A fact (4V,) as words."""
    what, in_what = fact.nonzero().flatten().tolist()
    return f"{(THINGS + BOXES)[what]} in {(BOXES + ROOMS)[in_what - 2 * V]}"


def make_foursome() -> dict[tuple[str, str], tuple[Tensor, Tensor]]:
    """The four stories of key and ring, jar and bag, kitchen and cellar: facts (1, 4, 4V), number of the key's room."""
    two, stories = torch.tensor([[0, 1]]), {}
    for inside, stands in itertools.product(("straight", "crossed"), repeat=2):
        box = two if inside == "straight" else two.flip(1)
        room_of = two if stands == "straight" else two.flip(1)
        stories[inside, stands] = to_facts(two, box, room_of.gather(1, box)), room_of[0, box[0, 0]]
    return stories


class Replaced(MemoryNetwork):
    """q <- r."""

    def forward(self, facts: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        q, a, c, weights = self.question(question), self.address(facts), self.output(facts), []
        for _ in range(self.n_hops):
            q, p = hop(q, a, c)
            weights.append(p)
        return self.readout(q), torch.stack(weights, -2)


class OneMemory(MemoryNetwork):
    """Found by a and read as a."""

    def __init__(self, *sizes: int):
        super().__init__(*sizes)
        self.output = None

    def forward(self, facts: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        q, a = self.question(question), self.address(facts)
        for _ in range(self.n_hops):
            r, p = hop(q, a, a)
            q = q + r
        return self.readout(q), p


def train_readers(
    kind: type, n_hops: int, dim: int = D, things: tuple[int, ...] = (2,), steps: int = 300
) -> tuple[Tensor, nn.Module]:
    """The loss (steps, S) of S networks on stories of so many things, and the network that is all of them."""
    networks = side_by_side(seeded(lambda: kind(4 * V, V, len(ROOMS), dim, n_hops), READERS))
    generator, each = torch.Generator().manual_seed(3), READERS * 48  # stories in a step
    drawn = [
        make_stories(steps // len(things) * each, generator, n) for n in things
    ]  # all at once: much faster
    batches = zip(
        *(zip(*(part.split(each) for part in stories), strict=True) for stories in drawn),
        strict=True,
    )
    batches = itertools.chain.from_iterable(batches)  # the numbers of things take turns

    def losses():
        facts, question, room = next(batches)
        return (
            F.cross_entropy(networks(facts, question)[0], room, reduction="none")
            .view(READERS, -1)
            .mean(1)
        )

    return train(networks, losses, steps, learning_rate=0.02), networks


@torch.no_grad()
def answer(networks: nn.Module, facts: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (S, B, 6) and weights (S, B, n_hops, N) of S networks on the same stories."""
    scores, p = networks(facts.repeat(READERS, 1, 1), question.repeat(READERS, 1))
    return scores.unflatten(0, (READERS, -1)), p.unflatten(0, (READERS, -1))


def share_right(networks: nn.Module, facts: Tensor, question: Tensor, room: Tensor) -> Tensor:
    """Share of these stories that each network answers correctly, (S,)."""
    return (answer(networks, facts, question)[0].argmax(-1) == room).float().mean(1)


def train_by_name(name: str) -> tuple[Tensor, nn.Module]:
    """One of the trainings of readers, by name."""
    kinds = {
        "one hop": (MemoryNetwork, 1),
        "two hops": (MemoryNetwork, 2),
        "q replaced": (Replaced, 2),
        "two hops, 2 or 3 things": (MemoryNetwork, 2, D, (2, 3)),
        "one memory, 2 D": (OneMemory, 2, 2 * D),
    }
    return train_readers(*kinds[name])
