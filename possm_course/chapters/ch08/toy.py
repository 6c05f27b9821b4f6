"""Stories, lists, trainings and drawings of chapter 08 that are no part of its lessons."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.adam import adam

from possm_course.chapters.ch08.memory_network import MemoryNetwork, hop
from possm_course.chapters.ch08.neural_turing_machine import NeuralTuringMachine, address, read, write
from possm_course.stored import result
from possm_course.style import BLUE, GRAY, ORANGE
from possm_lite.nn.recurrent import LSTM

THINGS = ["key", "ring", "coin", "pen", "ball", "map"]
BOXES = ["jar", "bag", "tin", "chest", "drawer", "basket"]
ROOMS = ["kitchen", "cellar", "attic", "hall", "garden", "study"]
V = len(THINGS)  # as many boxes and rooms as things
D = 24
BITS, SLOTS = 4, 24


def to_facts(thing: Tensor, box: Tensor, room: Tensor) -> Tensor:
    """Thing i is in box i, box i in room i; numbers (B, n) each. Facts (B, 2n, 4V): one-hot what, one-hot in what."""
    what, in_what = torch.cat([thing, V + box], 1), torch.cat([box, V + room], 1)  # (B, 2n) each
    one_hot = torch.eye(2 * V)
    return torch.cat([one_hot[what], one_hot[in_what]], -1)


def make_stories(n_stories: int, generator: torch.Generator, n_things: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Facts (B, 2n, 4V), question (B, V), and the number of the room that answers it (B,)."""
    thing, box, room = (torch.rand(n_stories, V, generator=generator).argsort(1)[:, :n_things] for _ in range(3))
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


def draw_foursome() -> None:
    """The four stories as paths from thing to box to room."""
    _, axes = plt.subplots(1, 4, figsize=(6.8, 2.2), layout="constrained")
    for ax, (inside, stands) in zip(axes, itertools.product(("straight", "crossed"), repeat=2), strict=True):
        for i in range(2):
            j = i if inside == "straight" else 1 - i  # the box of thing i
            k = j if stands == "straight" else 1 - j  # the room of its box
            color, style = (ORANGE, "-") if i == 0 else (GRAY, ":")
            ax.plot([i, j, k], [2, 1, 0], style, color=color, lw=2.5)
            if i == 0:
                ax.plot(k, 0, "o", color=ORANGE, ms=11)
        for row, words in enumerate((ROOMS, BOXES, THINGS)):
            for column in range(2):
                beside, side = ((-0.28, "right"), (1.28, "left"))[column]
                ax.text(beside, row, words[column], ha=side, va="center", fontsize=10)
        ax.set(xlim=(-1.4, 2.2), ylim=(-0.4, 2.3))
        ax.set_title(f"things {inside},\nboxes {stands}", fontsize=10)
        ax.axis("off")


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


class Stacked(nn.Module):
    """S linear layers as one: the first S-th of the batch goes through the first of them, and so on."""

    def __init__(self, layers: list[nn.Linear]):
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach() for layer in layers]))  # (S, out, in)
        self.bias = None
        if layers[0].bias is not None:
            self.bias = nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in layers]))  # (S, 1, out)

    def forward(self, x: Tensor) -> Tensor:
        y = x.reshape(len(self.weight), -1, x.shape[-1]) @ self.weight.mT  # (S, rows, out)
        return (y if self.bias is None else y + self.bias).view(*x.shape[:-1], -1)


def seeded(make, n_seeds: int) -> list:
    """n_seeds networks, network i with the random numbers of seed i."""
    networks = []
    for seed in range(n_seeds):
        torch.manual_seed(seed)
        networks.append(make())
    return networks


def side_by_side(networks: list[nn.Module]) -> nn.Module:
    """One network that is all of them: every linear layer is `Stacked`."""
    for name, _ in list(networks[0].named_children()):
        setattr(networks[0], name, Stacked([getattr(network, name) for network in networks]))
    return networks[0]


def train(network: nn.Module, losses, steps: int, learning_rate: float) -> Tensor:
    """Adam on losses() (S,), one for each network. The rate falls to zero over the last third. Gives (steps, S)."""
    weights, history = list(network.parameters()), []
    means, squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    counts = [torch.zeros(()) for _ in weights]
    how = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False, "maximize": False}
    for i in range(steps):
        loss = losses()  # (S,)
        network.zero_grad()
        loss.sum().backward()  # the networks share nothing, so each gets the gradient of its own loss
        nn.utils.clip_grad_value_(weights, 1.0)
        slopes, rate = [w.grad for w in weights], learning_rate * min(1, 3 * (1 - i / steps))
        with torch.no_grad():  # as a function: the class imports torch._dynamo, which takes longer than a training
            adam(weights, slopes, means, squares, [], counts, fused=True, lr=rate, **how)
        history.append(loss.detach())
    return torch.stack(history)


READERS, MACHINES = 4, 3  # seeds


def train_readers(
    kind: type, n_hops: int, dim: int = D, things: tuple[int, ...] = (2,), steps: int = 300
) -> tuple[Tensor, nn.Module]:
    """The loss (steps, S) of S networks on stories of so many things, and the network that is all of them."""
    networks = side_by_side(seeded(lambda: kind(4 * V, V, len(ROOMS), dim, n_hops), READERS))
    generator, each = torch.Generator().manual_seed(3), READERS * 48  # stories in a step
    drawn = [make_stories(steps // len(things) * each, generator, n) for n in things]  # all at once: much faster
    batches = zip(*(zip(*(part.split(each) for part in stories), strict=True) for stories in drawn), strict=True)
    batches = itertools.chain.from_iterable(batches)  # the numbers of things take turns

    def losses():
        facts, question, room = next(batches)
        return F.cross_entropy(networks(facts, question)[0], room, reduction="none").view(READERS, -1).mean(1)

    return train(networks, losses, steps, learning_rate=0.02), networks


@torch.no_grad()
def answer(networks: nn.Module, facts: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (S, B, 6) and weights (S, B, n_hops, N) of S networks on the same stories."""
    scores, p = networks(facts.repeat(READERS, 1, 1), question.repeat(READERS, 1))
    return scores.unflatten(0, (READERS, -1)), p.unflatten(0, (READERS, -1))


def share_right(networks: nn.Module, facts: Tensor, question: Tensor, room: Tensor) -> Tensor:
    """Share of these stories that each network answers correctly, (S,)."""
    return (answer(networks, facts, question)[0].argmax(-1) == room).float().mean(1)


def make_copy_task(length: int, shape: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """What the machine hears (..., 2L + 1, 5): bits as -1, +1, a go sign, silence; and the bits (..., L, 4), 0 or 1."""
    bits = torch.randint(0, 2, (*shape, length, BITS), generator=generator).float()
    x = torch.zeros(*shape, 2 * length + 1, BITS + 1)
    x[..., :length, :BITS] = 2 * bits - 1
    x[..., length, BITS] = 1
    return x, bits


def draw_task(x: Tensor, bits: Tensor) -> None:
    """What is heard (2L + 1, 5) above what is to be said, the bits (L, 4)."""
    length = len(bits)
    figure, axes = plt.subplots(2, 1, figsize=(6.4, 2.8), sharex=True, height_ratios=(5, 4), layout="constrained")
    wanted = torch.full((2 * length + 1, BITS), torch.nan)
    wanted[length + 1 :] = 2 * bits - 1
    for ax, grid, label in ((axes[0], x, "heard"), (axes[1], wanted, "to be said")):
        image = ax.imshow(grid.T, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
        ax.set_ylabel(label)
    axes[0].set_yticks(range(5), ["bit 1", "bit 2", "bit 3", "bit 4", "go"], fontsize=10)
    axes[1].set_yticks(range(4), ["bit 1", "bit 2", "bit 3", "bit 4"], fontsize=10)
    axes[1].set(xlabel="step", xticks=range(2 * length + 1))
    figure.colorbar(image, ax=axes, label="bit (0: silence)", shrink=0.8, ticks=[-1, 0, 1])


class Copiers(nn.Module):
    """LSTMs with a linear readout, each with its part of the batch."""

    def __init__(self, hidden: int = 64):
        super().__init__()
        self.lstms = nn.ModuleList(seeded(lambda: LSTM(BITS + 1, hidden), MACHINES))
        self.readouts = nn.ModuleList(seeded(lambda: nn.Linear(hidden, BITS), MACHINES))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        parts = zip(self.lstms, self.readouts, x.chunk(MACHINES), strict=True)
        return torch.cat([readout(lstm(part)[0]) for lstm, readout, part in parts]), None


def make_machines() -> nn.Module:
    return side_by_side(seeded(lambda: NeuralTuringMachine(BITS + 1, BITS, SLOTS, width=8, hidden=32), MACHINES))


def train_copiers(make, steps: int, learning_rate: float, longest: int = 6, batch: int = 32):
    """The loss (steps, S) on lists of one to `longest` vectors, cross-entropy per bit, and the networks."""
    networks, generator = make(), torch.Generator().manual_seed(6)

    def losses():
        length = int(torch.randint(1, longest + 1, (1,), generator=generator))
        x, bits = make_copy_task(length, (MACHINES * batch,), generator)
        said = networks(x)[0][:, length + 1 :]  # (S B, L, 4)
        return F.binary_cross_entropy_with_logits(said, bits, reduction="none").view(MACHINES, -1).mean(1)

    return train(networks, losses, steps, learning_rate), networks


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


def stored_copying() -> tuple[nn.Module, dict[str, Tensor]]:
    """The machines that experiments/ch08_copying.py has trained, and what it has measured of them and the LSTMs."""
    stored = {name: torch.from_numpy(array) for name, array in np.load(result("ch08_copying.npz")).items()}
    machines = make_machines()
    machines.load_state_dict({name: stored.pop(name) for name in machines.state_dict()})
    return machines, stored


@torch.no_grad()
def bits_right(networks: nn.Module, length: int) -> Tensor:
    """Share of bits right of each network, (S,), on 100 lists."""
    x, bits = make_copy_task(length, (100,), torch.Generator().manual_seed(8))
    said = networks(x.repeat(MACHINES, 1, 1))[0][:, length + 1 :].unflatten(0, (MACHINES, -1))
    return ((said > 0) == (bits > 0.5)).float().mean((1, 2, 3))


def draw_heads(x: Tensor, said: Tensor, trace) -> None:
    """What a machine hears (T, 5) and says (T, 4) of a list, and between them its slots and heads (T, N)."""
    steps, go = len(x), len(x) // 2
    change = (trace.memory - 0.1).norm(dim=-1)  # (T, N): how far each slot is from its start, 0.1 everywhere
    figure, (heard, table, spoken) = plt.subplots(
        3, 1, figsize=(6.4, 6), sharex=True, height_ratios=(1, 4, 1), layout="constrained"
    )
    heard.imshow(x[:, :BITS].T, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    late = torch.cat([torch.full((go + 1, BITS), torch.nan), said[go + 1 :]])
    spoken.imshow(late.T, cmap="PuOr", vmin=0, vmax=1, aspect="auto")
    image = table.imshow(change.T, cmap="Greys", aspect="auto", vmin=0, vmax=1.6 * change.max())
    step, slot = np.meshgrid(np.arange(steps), np.arange(SLOTS))
    table.scatter(step, slot, s=60 * trace.write.T, marker="^", color=ORANGE, linewidths=0, label="write head")
    table.scatter(step, slot, s=60 * trace.read.T, marker="o", facecolors="none", edgecolors=BLUE, label="read head")
    table.legend(loc="upper right", ncols=2, bbox_to_anchor=(1, 1.13), borderaxespad=0)
    table.set(ylabel="slot", yticks=range(0, SLOTS, 4))
    bar = figure.colorbar(image, ax=table, label="change of slot", shrink=0.7)
    bar.ax.set_ylim(0, change.max())
    for ax, name in ((heard, "heard"), (spoken, "said")):
        ax.set_ylabel(name)
        ax.set_yticks([])
    for ax in (heard, table, spoken):
        ax.axvline(go, color=GRAY, lw=1, ls=":")
    spoken.set(xlabel=f"step (go sign at {go})", xticks=range(0, steps, 2))


@torch.no_grad()
def copy_changed(machines: nn.Module, x: Tensor, change: str) -> Tensor:
    """Bits said (S, B, L, 4) by machines of which one thing is changed, on lists x (B, 2L + 1, 5)."""
    x, go, said = x.repeat(MACHINES, 1, 1), x.shape[1] // 2, []
    table, places, r = machines.start(len(x))
    for t, x_t in enumerate(x.unbind(1)):
        h = torch.tanh(machines.controller(torch.cat([x_t, r], -1)))
        ask, when = machines.head_parameters(h), "at go" if t == go else "later" if t > go else "before"
        if change == f"no search {when}":
            ask.gate[:, 0] = 0
        if change == f"no shift {when}":
            ask.shift[:, 0] = torch.tensor([0.0, 1.0, 0.0])
        *_, places = address(ask, table[:, None], places)
        reader, writer = places.unbind(1)
        sharp_reader, sharp_writer = F.one_hot(places.argmax(-1), SLOTS).float().unbind(1)
        if t == 0:
            first = sharp_writer  # where the list begins
        if t == go and change == "right jump":
            reader = first
        elif change == "sharp heads":  # in what they do just now: writing, then reading
            reader, writer = (reader, sharp_writer) if t < go else (sharp_reader, writer)
        e, v = machines.to_write(h).chunk(2, -1)
        table, places = write(table, writer, torch.sigmoid(e), torch.tanh(v)), torch.stack([reader, writer], 1)
        r = read(reader, table)
        said.append(machines.readout(torch.cat([h, r], -1)))
    return (torch.stack(said[go + 1 :], 1) > 0).unflatten(0, (MACHINES, -1))
