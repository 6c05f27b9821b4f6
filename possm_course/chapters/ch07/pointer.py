"""Pointer network: the output is a sequence of indices of the input."""

import math

import torch
from torch import Tensor, nn

from possm_lite.nn.attention import additive_score, length_mask, masked_log_softmax
from possm_lite.nn.recurrent import GRU


def pointer_log_probs(
    items: Tensor,
    states: Tensor,
    W: Tensor,
    U: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Attention whose weights are the output.

        p(c_m = n) = softmax_n(v . tanh(W x_n + U h_m))        (7.11)

    Args:
        items: x_n, shape (..., N, d).
        states: h_m, shape (..., M, h).
        W: Shape (hidden, d).
        U: Shape (hidden, h).
        v: Shape (hidden,).
        mask: True where a state may point at an item, broadcastable to (..., M, N).

    Returns:
        log p(c_m = n), shape (..., M, N), -inf where the mask is False.

    Source: Vinyals et al. 2015, eq. 3.
    """
    scores = additive_score(states, items, U, W, v)  # queries: states, keys: items
    return masked_log_softmax(scores, mask)


def not_yet_chosen(choices: Tensor, n: int) -> Tensor:
    """Which items no earlier step has chosen.

    Args:
        choices: The item of each step, shape (B, M).
        n: Items to choose from.

    Returns:
        True at items that may still be chosen, shape (B, M, n).
    """
    chosen = nn.functional.one_hot(choices, n)  # (B, M, n)
    return chosen.cumsum(1) == chosen  # the sum includes the step itself


class PointerNetwork(nn.Module):
    """A network that points at the items of a set, one after the other.

        s_0 = the encoder's last state,   s_m = GRU(E x_{c_{m-1}}, s_{m-1})

    The choice c_m has the probabilities of `pointer_log_probs`.

    Args:
        item_size: Features of an item.
        hidden: h, features of an embedded item and of a state.
        repeats: Whether it may point at an item again.

    Source: Vinyals et al. 2015.
    """

    def __init__(self, item_size: int, hidden: int = 64, repeats: bool = False):
        super().__init__()
        self.repeats = repeats
        self.embed = nn.Sequential(nn.Linear(item_size, hidden), nn.Tanh())
        self.first = nn.Parameter(torch.zeros(hidden))  # input of the first step
        self.encoder = GRU(hidden, hidden)
        self.decoder = GRU(hidden, hidden)
        self.W = nn.Parameter(torch.randn(hidden, hidden) / math.sqrt(hidden))
        self.U = nn.Parameter(torch.randn(hidden, hidden) / math.sqrt(hidden))
        self.v = nn.Parameter(torch.randn(hidden) / math.sqrt(hidden))

    def start(self, items: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the decoder starts with.

        Args:
            items: Shape (B, N, item_size).
            lengths: Items of each row, at least 1, shape (B,).

        Returns:
            The embedded items, shape (B, N, h), the first state, shape (1, B, h), and the mask of
            real items, shape (B, N).
        """
        x = self.embed(items)
        H = self.encoder(x)[0]  # (B, N, h)
        last = H[torch.arange(len(H)), lengths - 1]  # (B, h)
        return x, last[None], length_mask(lengths, items.shape[1])

    def forward(self, items: Tensor, lengths: Tensor, choices: Tensor) -> Tensor:
        """Teacher forcing: the choices of every step, given the true ones before it.

        Args:
            items: Shape (B, N, item_size).
            lengths: Items of each row, shape (B,).
            choices: The true choices, shape (B, M).

        Returns:
            log p, shape (B, M, N).
        """
        x, s_0, mask = self.start(items, lengths)
        chosen = x.gather(1, choices[..., None].expand(-1, -1, x.shape[-1]))  # (B, M, h)
        inputs = torch.cat([self.first.expand_as(chosen[:, :1]), chosen[:, :-1]], 1)
        states = self.decoder(inputs, s_0)[0]  # (B, M, h)
        may = mask[:, None]  # (B, 1, N)
        if not self.repeats:
            may = may & not_yet_chosen(choices, items.shape[1])  # (B, M, N)
        return pointer_log_probs(x, states, self.W, self.U, self.v, may)

    @torch.no_grad()
    def point(self, items: Tensor, lengths: Tensor, steps: int | None = None) -> Tensor:
        """Free running: the likeliest item of each step.

        Args:
            items: Shape (B, N, item_size).
            lengths: Items of each row, shape (B,).
            steps: How many items to choose; None chooses N.

        Returns:
            The choices, -1 where no item may be chosen, shape (B, steps).
        """
        x, s, mask = self.start(items, lengths)
        previous = self.first.expand(len(x), -1)
        pointed = []
        for _ in range(items.shape[1] if steps is None else steps):
            h, s = self.decoder.step(previous, s)  # (B, h)
            log_p = pointer_log_probs(x, h[:, None], self.W, self.U, self.v, mask[:, None])[
                :, 0
            ]  # (B, N)
            index = log_p.argmax(-1)  # (B,)
            pointed.append(index.masked_fill(~mask.any(-1), -1))
            previous = x[torch.arange(len(x)), index]
            if not self.repeats:
                mask = mask.scatter(1, index[:, None], False)
        return torch.stack(pointed, 1)
