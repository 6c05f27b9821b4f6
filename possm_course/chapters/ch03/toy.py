"""The rooms of chapter 03, a small network that asks in them, its training from several starts, and its figure."""

from collections.abc import Callable

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional as F

from possm_course.chapters.ch02.figures import Adam
from possm_course.style import BLUE, ORANGE
from possm_lite.nn.heads import MultiHeadAttention

N = 8  # people, and numbers
D = 4 * N  # features of a token: name | number | friend | rival


def rooms(n, seed, people=N):
    """Make n rooms: tokens X (n, people, D), seats of friends and rivals (n, people), wanted numbers (n, people, 2)."""
    g = torch.Generator().manual_seed(seed)
    me = torch.rand(n, N, generator=g).argsort(-1)[:, :people]  # names, in any order
    number = torch.randint(0, N, (n, people), generator=g)  # two people may hold the same
    to_friend = torch.randint(1, people, (n, people), generator=g)  # seats to the right; never 0, that is me
    to_rival = torch.randint(1, people - 1, (n, people), generator=g)
    to_rival = to_rival + (to_rival >= to_friend)  # never the friend
    friend, rival = ((torch.arange(people) + to) % people for to in (to_friend, to_rival))
    blocks = (me, number, me.gather(1, friend), me.gather(1, rival))
    X = torch.cat([F.one_hot(block, N) for block in blocks], -1).float()  # (n, people, D)
    return X, friend, rival, torch.stack([number.gather(1, friend), number.gather(1, rival)], -1)


class Asker(nn.Module):
    """Self-attention, then a readout: linear, or with a layer of 64 hidden units."""

    def __init__(self, n_heads, hidden=False, dim=D, **options):
        super().__init__()
        self.attention = MultiHeadAttention(dim, n_heads, **options)  # H d = 32, however many heads
        linear = nn.Linear(dim, 2 * N)
        self.readout = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, 2 * N)) if hidden else linear

    def forward(self, X):
        y, weights = self.attention(X)  # (B, N, D), (B, H, N, N)
        return self.readout(y).unflatten(-1, (2, N)), weights  # scores of eight numbers for two guesses


def train(make: Callable[[], nn.Module], data: tuple[Tensor, Tensor], n_starts=5, watch=None, n_steps=121, lr=0.04):
    """Models trained from random starts, and the weights of the first in room `watch` at every tenth step."""
    torch.manual_seed(0)
    models, (X, wanted) = [make() for _ in range(n_starts)], data
    weights, _ = stack_module_state(models)  # the weights of all starts, on an axis in front
    run = torch.vmap(lambda w, X: functional_call(models[0], w, (X,)))  # all starts at once
    adam, watched = Adam(weights.values(), lr), []
    for step in range(n_steps):
        if watch is not None and step % 10 == 0:
            watched.append(run(weights, watch.expand(n_starts, 1, *watch.shape))[1][0, 0].detach())
        rows = torch.randint(len(X), (n_starts, 32))  # every start has its own 32 rooms
        guess, _ = run(weights, X[rows])  # (starts, 32, N, 2, 8)
        # the mean is over all starts: times their number, each has the loss it would have alone
        loss = n_starts * F.cross_entropy(guess.flatten(0, -2), wanted[rows].flatten())
        adam.step(loss)
    for i, model in enumerate(models):
        model.load_state_dict({name: w[i] for name, w in weights.items()})
    return models, watched


@torch.no_grad()
def accuracy(model: nn.Module, X: Tensor, wanted: Tensor) -> Tensor:
    """Share of right guesses: of the friend's number, of the rival's, (2,)."""
    return (model(X)[0].argmax(-1) == wanted).float().mean((0, 1))


@torch.no_grad()
def attention_on(model: nn.Module, X: Tensor, friend: Tensor, rival: Tensor) -> Tensor:
    """Mean weight of each head on the friend and on the rival, (H, 2)."""
    w = model(X)[1]  # (B, H, N, N)
    who = torch.stack([friend, rival], -1)[:, None].expand(-1, w.shape[1], -1, -1)  # (B, H, N, 2)
    return w.gather(-1, who).mean((0, 2))


class Convolutions(nn.Module):
    """Layers of width 3: each token mixed with those `step` places before and after it, then ReLU."""

    def __init__(self, dim, steps):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(dim, dim, 3, padding=step, dilation=step) for step in steps)

    def forward(self, x):
        x = x.transpose(1, 2)  # (B, D, T)
        for layer in self.layers:
            x = layer(x).relu()
        return x.transpose(1, 2), None


class Dense(nn.Module):
    """The part of a dense layer that makes the last token: all T D numbers in, D out."""

    def __init__(self, dim, n_tokens):
        super().__init__()
        self.layer = nn.Linear(n_tokens * dim, dim)

    def forward(self, x):
        return self.layer(x.flatten(1))[:, None], None  # (B, 1, D)


def make_draw(watched: list[Tensor], seated: list[str], friend: Tensor, rival: Tensor) -> Callable[..., Figure]:
    """draw(person, step) -> Figure: who is read by `person` in two heads, from the weights at every tenth step."""

    def draw(person, step):
        """Eight people, with arcs from the one who asks to those whom head 0 (above) and head 1 (below) read."""
        w = watched[step // 10][:, person].numpy()  # (H, N)
        figure = Figure(figsize=(6.4, 3.1))
        ax = figure.add_axes((0.01, 0.02, 0.98, 0.88))
        angle = np.linspace(0, np.pi, 40)
        for head, (color, side) in enumerate(((BLUE, 1), (ORANGE, -1))):
            for other in range(N):
                middle, radius = (person + other) / 2, abs(person - other) / 2
                if w[head, other] > 0.02:  # a thinner arc would not be seen
                    x, y = middle + radius * np.cos(angle), 0.55 + 0.3 * max(radius, 0.25) * np.sin(angle)
                    ax.plot(x, side * y, color=color, lw=12 * w[head, other], alpha=0.75, solid_capstyle="round")
                ax.text(other, side * 0.36, f"{w[head, other]:.2f}", ha="center", va="center", color=color, fontsize=10)
            ax.text(-0.7, side * 1.5, f"head {head}", color=color, va="center", fontsize=12)
        for i, name in enumerate(seated):
            mark = {int(friend[person]): "F", int(rival[person]): "R"}.get(i, "")
            text = f"{name} {mark}".strip()
            box = {"boxstyle": "round,pad=0.15", "fc": "#eeeeee" if i == person else "white", "ec": "none"}
            ax.text(i, 0, text, ha="center", va="center", fontsize=12, weight="bold" if mark else "normal", bbox=box)
        ax.set_title(f"{seated[person]} asks, after {step} training steps", fontsize=11)
        ax.set(xlim=(-0.75, N - 0.4), ylim=(-1.75, 1.75))
        ax.axis("off")
        return figure

    return draw
