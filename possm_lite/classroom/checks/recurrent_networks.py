"""Exercises of chapter 06: a gate's half-life, turning round within the length, clipping; the cells' are imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from possm_lite.blocks.unrolled import clip_by_global_norm

from .core import Answer, Case, Check
from .recurrent_cells import gru_step, lstm_step, rnn_step, torch_gru_step  # noqa: F401  (exercises 6.1 and 6.3 to 6.5)

# Exercise 6.2: a memory of one second

_HALF = 0.5 ** (1 / 20)

my_gate = Answer(
    "my_gate",
    expected=_HALF,
    tolerance=0.0015,
    traps={
        "that is 1 - Z, what makes room. Here Z is the share that stays.": 1 - _HALF,
        "that leaves half of it after one bin. One second is 20 bins of 50 ms.": 0.5,
        "that takes one fortieth away in every bin. But each bin multiplies what is left: after n bins Z**n.": 1
        - 0.5 / 20,
        "that leaves 1/e = 37 % after one second. Half was asked for.": 2.718281828 ** (-1 / 20),
        "that is what would be left if Z were 0.5, after 20 bins. Turn it round: which Z has Z**20 = 0.5?": 0.5**20,
    },
)


# Exercise 6.6: turned round within their length


def _from_places(place: Callable[[Tensor, Tensor, int], Tensor]) -> Callable:
    """Step t of the answer is step place(t, lengths, T) of x."""

    def reverse(x: Tensor, lengths: Tensor) -> Tensor:
        t, n = torch.arange(x.shape[1])[None], torch.as_tensor(lengths)[:, None]  # (1, T), (B, 1)
        places = place(t, n, x.shape[1]).expand(len(x), -1).clamp(0, x.shape[1] - 1)  # (B, T)
        return x.gather(1, places[..., None].expand_as(x))

    return reverse


def _zeros_behind(x: Tensor, lengths: Tensor) -> Tensor:
    behind = torch.arange(x.shape[1]) >= lengths[:, None]
    return _reverse_valid(x, lengths).masked_fill(behind[..., None], 0)


_reverse_valid = _from_places(lambda t, n, T: torch.where(t < n, n - 1 - t, t))


def _padded(lengths: list[int], n_steps: int = 5) -> Callable[[], tuple]:
    def make() -> tuple:
        g = torch.Generator().manual_seed(0)
        return torch.randn(len(lengths), n_steps, 2, generator=g), torch.tensor(lengths)

    return make


def _gradient(reverse: Callable, x: Tensor, lengths: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    shares = torch.arange(1.0, x.numel() + 1).view_as(x)
    return torch.autograd.grad((reverse(x, lengths) * shares).sum(), x)[0]


reverse_valid = Check(
    "reverse_valid",
    reference=_reverse_valid,
    cases=[
        Case("two sequences of full length", _padded([5, 5])),
        Case("a sequence of 3 in 5 steps", _padded([3])),
        Case("sequences of three lengths", _padded([4, 5, 2])),
        Case("a sequence of one step and one of none", _padded([1, 0])),
        Case("a gradient", _padded([4, 5, 2]), _gradient),
    ],
    traps={
        "everything is turned round, the padding too, which now comes first. That is the leak itself: turn only the "
        "first lengths[i] steps.": lambda x, lengths: x.flip(1),
        "it is the sequences of the batch that have changed places. Time is axis 1.": lambda x, lengths: x.flip(0),
        "the features are turned round. Time is axis 1.": lambda x, lengths: x.flip(2),
        "you are off by one: of n steps the last has the index n - 1.": (
            _from_places(lambda t, n, T: torch.where(t < n, n - t, t))
        ),
        "the whole row is turned first and cut afterwards, so the padding comes first. Cut first, then turn.": (
            _from_places(lambda t, n, T: torch.where(t < n, T - 1 - t, t))
        ),
        "all sequences are turned at the length of the first. Each has its own.": (
            _from_places(lambda t, n, T: torch.where(t < n[:1], n[:1] - 1 - t, t))
        ),
        "all sequences are turned at the greatest length. Each has its own.": (
            _from_places(lambda t, n, T: torch.where(t < n.max(), n.max() - 1 - t, t))
        ),
        "the steps behind a length have become zeros. They should stay as they were.": _zeros_behind,
        "the steps behind a length are turned round as well, among themselves. They should stay where they are.": (
            _from_places(lambda t, n, T: torch.where(t < n, n - 1 - t, T - 1 - t + n))
        ),
    },
)


# Exercise 6.7: clipping by the global norm


def _clip(gradients: Sequence[Tensor], max_norm: float) -> list[Tensor]:
    return clip_by_global_norm(gradients, max_norm)[0]


def _by_factor(factor: Callable[[list[Tensor], float], Tensor]) -> Callable:
    return lambda gradients, max_norm: [g * factor(gradients, max_norm) for g in gradients]


def _norm(gradients: Sequence[Tensor]) -> Tensor:
    return torch.cat([g.flatten() for g in gradients]).norm()


def _as_tuple(clip: Callable, gradients: list[Tensor], max_norm: float) -> tuple:
    return tuple(clip(gradients, max_norm))


def _gradients(size: float, max_norm: float) -> Callable[[], tuple]:
    def make() -> tuple:
        g = torch.Generator().manual_seed(0)
        small, large = torch.randn(3, generator=g), 8 * torch.randn(2, 3, generator=g)
        return [size * small, size * large], max_norm

    return make


clip_gradients = Check(
    "clip_gradients",
    reference=_clip,
    cases=[
        Case("one long gradient", lambda: ([torch.tensor([3.0, -4.0])], 2.0), _as_tuple),
        Case("one gradient that is short enough", lambda: ([torch.tensor([0.3, -0.4])], 2.0), _as_tuple),
        Case("two tensors, one long and one short", _gradients(1.0, 3.0), _as_tuple),
        Case("two tensors, long only together", lambda: ([torch.full((4,), 0.45)] * 2, 1.0), _as_tuple),
        Case("a gradient of zeros", lambda: ([torch.zeros(2), torch.zeros(3, 1)], 1.0), _as_tuple),
    ],
    traps={
        "every tensor is clipped by itself, and that turns the step. One norm over all of them, one factor for all.": (
            lambda gradients, c: [_clip([g], c)[0] for g in gradients]
        ),
        "every number is clipped by itself, and that turns the step. Multiply all of them by one factor.": (
            lambda gradients, c: [g.clamp(-c, c) for g in gradients]
        ),
        "short gradients are made longer. The factor must not be above one.": (
            _by_factor(lambda gradients, c: c / _norm(gradients).clamp(min=1e-30))
        ),
        "the root is missing: you compare with the squared length.": (
            _by_factor(lambda gradients, c: (c / _norm(gradients).square()).clamp(max=1))
        ),
        "the norms of the tensors are added. Add their squares, and take the root of the sum.": (
            _by_factor(lambda gradients, c: (c / torch.stack([g.norm() for g in gradients]).sum()).clamp(max=1))
        ),
        "long gradients are divided by their norm, which gives length one. Length max_norm is wanted.": (
            _by_factor(lambda gradients, c: 1 / _norm(gradients) if _norm(gradients) > c else torch.tensor(1.0))
        ),
        "a gradient of zeros gives NaN: zero is divided by zero there. Is anything to be clipped at all?": (
            lambda gradients, c: [
                torch.minimum(g.new_tensor(1), c / _norm(gradients)) * g if _norm(gradients) else g / 0
                for g in gradients
            ]
        ),
    },
)
