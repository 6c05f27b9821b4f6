"""Pointer network: the output is a sequence of indices of the input."""

import math

import torch
from torch import Tensor, nn

from possm_lite.nn.attention import additive_score, length_mask, masked_log_softmax
from possm_lite.nn.recurrent import GRU


def pointer_log_probs(items: Tensor, states: Tensor, W: Tensor, U: Tensor, v: Tensor, mask=None) -> Tensor:
    """Attention whose weights are the output: log p (..., M, N) of items x_n (..., N, d) at states h_m (..., M, h).

    p(c_m = n) = softmax_n(v . tanh(W x_n + U h_m)) (7.8), -inf where the mask is False. Vinyals et al. 2015, eq. 3.
    """
    return masked_log_softmax(additive_score(states, items, U, W, v), mask)  # queries: states, keys: items


def not_yet_chosen(choices: Tensor, n: int) -> Tensor:
    """True at items that no earlier step has chosen: choices (B, M) of n items to (B, M, n)."""
    chosen = nn.functional.one_hot(choices, n)  # (B, M, n)
    return chosen.cumsum(1) == chosen  # the sum includes the step itself


class PointerNetwork(nn.Module):
    """Points at the items of a set one after the other; with `repeats` at one again. Source: Vinyals et al. 2015.

    s_0 = the encoder's last state,   s_m = GRU(E x_{c_{m-1}}, s_{m-1}),   p(c_m) as in `pointer_log_probs`
    """

    def __init__(self, item_size: int, hidden: int = 64, repeats: bool = False):
        super().__init__()
        self.repeats = repeats
        self.embed = nn.Sequential(nn.Linear(item_size, hidden), nn.Tanh())
        self.first = nn.Parameter(torch.zeros(hidden))  # input of the first step
        self.encoder, self.decoder = GRU(hidden, hidden), GRU(hidden, hidden)
        self.W = nn.Parameter(torch.randn(hidden, hidden) / math.sqrt(hidden))
        self.U = nn.Parameter(torch.randn(hidden, hidden) / math.sqrt(hidden))
        self.v = nn.Parameter(torch.randn(hidden) / math.sqrt(hidden))

    def start(self, items: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Embedded items (B, N, h), the first state (1, B, h), the mask (B, N); lengths (B,) are at least 1."""
        x = self.embed(items)
        H = self.encoder(x)[0]  # (B, N, h)
        return x, H[torch.arange(len(H)), lengths - 1][None], length_mask(lengths, items.shape[1])

    def forward(self, items: Tensor, lengths: Tensor, choices: Tensor) -> Tensor:
        """Teacher forcing: log p (B, M, N) of every step, given the true choices (B, M); items (B, N, item_size)."""
        x, s_0, mask = self.start(items, lengths)
        chosen = x.gather(1, choices[..., None].expand(-1, -1, x.shape[-1]))  # (B, M, h)
        inputs = torch.cat([self.first.expand_as(chosen[:, :1]), chosen[:, :-1]], 1)
        states = self.decoder(inputs, s_0)[0]  # (B, M, h)
        may = mask[:, None] if self.repeats else mask[:, None] & not_yet_chosen(choices, items.shape[1])
        return pointer_log_probs(x, states, self.W, self.U, self.v, may)

    @torch.no_grad()
    def point(self, items: Tensor, lengths: Tensor, steps: int | None = None) -> Tensor:
        """Free running: the likeliest item of each step (B, steps), -1 where none may be chosen; steps None: N."""
        x, s, mask = self.start(items, lengths)
        previous = self.first.expand(len(x), -1)
        pointed = []
        for _ in range(items.shape[1] if steps is None else steps):
            h, s = self.decoder.step(previous, s)  # (B, h)
            log_p = pointer_log_probs(x, h[:, None], self.W, self.U, self.v, mask[:, None])[:, 0]  # (B, N)
            index = log_p.argmax(-1)  # (B,)
            pointed.append(index.masked_fill(~mask.any(-1), -1))
            previous = x[torch.arange(len(x)), index]
            if not self.repeats:
                mask = mask.scatter(1, index[:, None], False)
        return torch.stack(pointed, 1)
