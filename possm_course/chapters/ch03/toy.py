"""The rooms of chapter 03, a small network that asks in them, and its training from many starts."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional as F

from possm_course.chapters.ch02.adam import Adam
from possm_lite.nn.heads import MultiHeadAttention, TransformerBlock

N = 8  # people, and numbers
D = 4 * N  # features of a token: name | number | friend | rival


def rooms(n: int, seed: int, people: int = N) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rooms of people, each with a name, a number, and the names of a friend and a rival.

    Args:
        n: Rooms.
        seed: Of the draws.
        people: In each room, at most N.

    Returns:
        The tokens X, shape (n, people, D), the seats of the friends and of the rivals, shape
        (n, people) each, and the wanted numbers, those of the friend and of the rival, shape
        (n, people, 2).
    """
    g = torch.Generator().manual_seed(seed)
    me = torch.rand(n, N, generator=g).argsort(-1)[:, :people]  # names, in any order
    number = torch.randint(0, N, (n, people), generator=g)  # two people may hold the same
    # seats to the right; never 0, that is me
    to_friend = torch.randint(1, people, (n, people), generator=g)
    to_rival = torch.randint(1, people - 1, (n, people), generator=g)
    to_rival = to_rival + (to_rival >= to_friend)  # never the friend
    seat = torch.arange(people)
    friend = (seat + to_friend) % people
    rival = (seat + to_rival) % people
    blocks = (me, number, me.gather(1, friend), me.gather(1, rival))
    X = torch.cat([F.one_hot(block, N) for block in blocks], -1).float()  # (n, people, D)
    wanted = torch.stack([number.gather(1, friend), number.gather(1, rival)], -1)
    return X, friend, rival, wanted


class Asker(nn.Module):
    """Self-attention, then a readout that guesses two numbers for each token.

    Args:
        n_heads: Attention heads; together they have `dim` features, however many there are.
        hidden: Whether the readout has a layer of 64 hidden units; otherwise it is linear.
        dim: Features of a token.
        options: Further arguments of `MultiHeadAttention`.
    """

    def __init__(self, n_heads: int, hidden: bool = False, dim: int = D, **options):
        super().__init__()
        self.attention = MultiHeadAttention(dim, n_heads, **options)
        # made even if it is not used: the draws of a seed are the same for both readouts
        linear = nn.Linear(dim, 2 * N)
        if hidden:
            self.readout = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, 2 * N))
        else:
            self.readout = linear

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The guesses for every token.

        Args:
            X: Tokens, shape (B, N, dim).

        Returns:
            The scores of eight numbers for each of two guesses, shape (B, N, 2, 8), and the
            attention weights, shape (B, H, N, N).
        """
        y, weights = self.attention(X)  # (B, N, D), (B, H, N, N)
        return self.readout(y).unflatten(-1, (2, N)), weights


class Stack(nn.Module):
    """Four transformer blocks with two heads, then a readout that guesses two numbers.

    Args:
        plus: Whether the blocks add their parts to what is there; otherwise each part hands on
            only its own output.
    """

    def __init__(self, plus: bool):
        super().__init__()
        self.blocks = nn.ModuleList(TransformerBlock(D, n_heads=2) for _ in range(4))
        self.readout = nn.Linear(D, 2 * N)
        self.plus = plus

    def through(self, X: Tensor) -> Tensor:
        """Tokens X, shape (..., N, D), after the four blocks, shape (..., N, D)."""
        for block in self.blocks:
            if self.plus:
                X = block(X)
            else:
                fetched, _ = block.attention(block.attention_norm(X))
                X = block.mlp(block.mlp_norm(fetched))
        return X

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens X, shape (B, N, D), to guesses (B, N, 2, 8), and a zero in place of weights."""
        return self.readout(self.through(X)).unflatten(-1, (2, N)), torch.zeros(1)


def train(
    make: Callable[[], nn.Module],
    data: tuple[Tensor, Tensor],
    n_starts: int = 5,
    watch: Tensor | None = None,
    n_steps: int = 121,
    lr: float = 0.04,
) -> tuple[list[nn.Module], list[Tensor]]:
    """Models trained from random starts, all starts at once.

    Args:
        make: Makes a model as `Asker`.
        data: Tokens, shape (n, people, D), and wanted numbers, shape (n, people, 2).
        n_starts: How many models.
        watch: A room, shape (people, D), whose attention weights are kept.
        n_steps: Training steps, of 32 rooms for each model.
        lr: Step size of Adam.

    Returns:
        The trained models, and the weights of the first one in the room `watch` before every tenth
        step, shape (H, people, people) each.
    """
    torch.manual_seed(0)
    models = [make() for _ in range(n_starts)]
    X, wanted = data
    weights, _ = stack_module_state(models)  # the weights of all starts, on an axis in front

    def run_one(weights, X):
        return functional_call(models[0], weights, (X,))

    run = torch.vmap(run_one)  # all starts at once
    adam = Adam(weights.values(), lr)
    watched = []
    for step in range(n_steps):
        if watch is not None and step % 10 == 0:
            _, attention = run(weights, watch.expand(n_starts, 1, *watch.shape))
            watched.append(attention[0, 0].detach())
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
    """The share of right guesses.

    Args:
        model: As `Asker`.
        X: Tokens, shape (n, people, D).
        wanted: The right numbers, shape (n, people, 2).

    Returns:
        The shares for the friend's number and for the rival's, shape (2,).
    """
    guess = model(X)[0].argmax(-1)  # (n, people, 2)
    return (guess == wanted).float().mean((0, 1))


@torch.no_grad()
def attention_on(model: nn.Module, X: Tensor, friend: Tensor, rival: Tensor) -> Tensor:
    """The mean weight of each head on the friend and on the rival.

    Args:
        model: As `Asker`.
        X: Tokens, shape (n, people, D).
        friend: Seats of the friends, shape (n, people).
        rival: Seats of the rivals, shape (n, people).

    Returns:
        The mean weights, shape (H, 2).
    """
    w = model(X)[1]  # (B, H, N, N)
    who = torch.stack([friend, rival], -1)[:, None].expand(-1, w.shape[1], -1, -1)  # (B, H, N, 2)
    return w.gather(-1, who).mean((0, 2))


class Convolutions(nn.Module):
    """Layers of width 3, each followed by ReLU.

    A layer mixes a token with the two that are some places before and after it.

    Args:
        dim: Features of a token.
        steps: How many places before and after, for each layer.
    """

    def __init__(self, dim: int, steps: list[int]):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(dim, dim, 3, padding=step, dilation=step) for step in steps
        )

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Tokens x, shape (B, T, dim), to (B, T, dim), and None in place of attention weights."""
        x = x.transpose(1, 2)  # (B, D, T)
        for layer in self.layers:
            x = layer(x).relu()
        return x.transpose(1, 2), None


class Dense(nn.Module):
    """The part of a dense layer that makes the last token, from all numbers of all tokens.

    Args:
        dim: Features of a token.
        n_tokens: Tokens in the input.
    """

    def __init__(self, dim: int, n_tokens: int):
        super().__init__()
        self.layer = nn.Linear(n_tokens * dim, dim)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Tokens x, shape (B, n_tokens, dim), to (B, 1, dim), and None in place of weights."""
        return self.layer(x.flatten(1))[:, None], None
