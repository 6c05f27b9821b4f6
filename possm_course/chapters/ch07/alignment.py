"""Copying and reversing: tasks of which the right alignment is known, and what is learned of it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from possm_course.chapters.ch07.seq2seq import (
    END,
    PAD,
    AttentionSeq2Seq,
    BahdanauSeq2Seq,
    masked_cross_entropy,
    shift_right,
)
from possm_course.chapters.ch07.task import train


class FriendsSeq2Seq(BahdanauSeq2Seq):
    """A decoder with another step, that of an exercise.

    Attributes:
        friends_step: friends_step(s, c, y, H, mask, score, cell) gives the next s (B, h), c (B, 2h)
            and the weights (B, N), from the state s, the context c, the embedded word y (B, dim),
            the encoder's states H (B, N, 2h) and the mask (B, N). Its score(s, H) gives scores
            (B, N), its cell(x, s) the next state.
    """

    friends_step: Callable

    def unroll(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing, by `friends_step`.

        Args:
            source: Tokens, shape (B, N).
            target: Tokens, shape (B, T).

        Returns:
            The states s_1 ... s_T, shape (B, T, h), and all alignments, shape (B, T, N).
        """
        s, H, keys, mask = self.start(source)

        def score(s: Tensor, H: Tensor) -> Tensor:
            return torch.tanh((s @ self.W_q.T)[:, None] + keys) @ self.w_v  # (B, N)

        def cell(x: Tensor, s: Tensor) -> Tensor:
            return self.decoder.step(x, s[None])[0]  # (B, h)

        c = torch.zeros_like(H[:, 0])
        states, alignment = [], []
        for y in self.write(shift_right(target)).unbind(1):
            s, c, alpha = self.friends_step(s, c, y, H, mask, score, cell)
            states.append(s)
            alignment.append(alpha)
        return torch.stack(states, 1), torch.stack(alignment, 1)


def symbols(batch: int, shortest: int, longest: int, backwards: bool) -> tuple[Tensor, Tensor]:
    """Random rows of ten symbols, and the same rows again.

    Args:
        batch: B, how many rows.
        shortest: Symbols of the shortest row.
        longest: N, symbols of the longest row.
        backwards: Whether the target starts from the end of the row.

    Returns:
        The sources, shape (B, N), and the targets with END, shape (B, N + 1), both padded.
    """
    n = torch.randint(shortest, longest + 1, (batch, 1))
    i = torch.arange(longest + 1)
    rows = torch.randint(3, 13, (batch, longest + 1)).where(i < n, PAD)
    target = rows
    if backwards:
        target = rows.gather(1, (n - 1 - i).where(i < n, i))
    return rows[:, :-1], target.where(i != n, END)


def mean_alignment(
    kind: type[AttentionSeq2Seq],
    backwards: bool = False,
    friends_step: Callable | None = None,
) -> Tensor:
    """The mean alignment of a small network that was trained for 100 steps.

    Args:
        kind: The class of the network, unless there is a `friends_step`.
        backwards: Whether it learns to write rows from their end.
        friends_step: The step of a `FriendsSeq2Seq`.

    Returns:
        The mean over 300 rows of six symbols, without the end, shape (6, 6).
    """
    torch.manual_seed(0)
    used = FriendsSeq2Seq if friends_step else kind
    model = used(13, 13, dim=16, hidden=32)
    model.friends_step = friends_step

    def loss_of(model: nn.Module) -> Tensor:
        x, y = symbols(64, 3, 6, backwards)
        return masked_cross_entropy(model(x, y), y)

    train(model, loss_of, steps=100, rate=0.02)
    return model.align(*symbols(300, 6, 6, backwards))[:, :6].mean(0)


def places(weights: Tensor) -> Tensor:
    """Where each word looks on average.

    Args:
        weights: An alignment, shape (6, 6).

    Returns:
        The mean places in the source, counted from 1, shape (6,).
    """
    return weights @ torch.arange(1.0, 7.0)
