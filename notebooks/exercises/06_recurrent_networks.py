"""Exercises of chapter 06: a gate's half-life, turning round within the length, clipping; the cells' are imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from possm_lite.blocks.recurrent import gru_cell, lstm_cell, rnn_cell, textbook_gru_cell
from possm_lite.blocks.unrolled import clip_by_global_norm
from possm_lite.classroom.checks import Case, Check, ValueCheck

# Exercise 6.2: a memory of one second

_HALF = 0.5 ** (1 / 20)

my_gate = ValueCheck(
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


def _with_gradients(step: Callable, *args: Tensor) -> Any:
    """The new state or states, and the gradients of an uneven sum of their squares by every argument."""
    args = tuple(a.clone().requires_grad_() for a in args)
    new = step(*args)
    states = new if isinstance(new, tuple) else (new,)
    total = sum(share * state.square().sum() for share, state in enumerate(states, 1))
    return *states, *torch.autograd.grad(total, args)


def _torch_numbers(
    blocks: int = 3, n_units: int = 4, state: float = 1.0, bias: float = 1.0, seed: int = 0
) -> Callable[[], tuple]:
    """Arguments as torch has them; `blocks`: of how many products the weights are made, 1 (RNN) or 3 (GRU)."""

    def make() -> tuple:
        g = torch.Generator().manual_seed(seed)
        rows = blocks * n_units
        shapes = (3, 2), (3, n_units), (rows, 2), (rows, n_units), (rows,), (rows,)
        x, h, w_ih, w_hh, b_ih, b_hh = (torch.randn(shape, generator=g) for shape in shapes)
        return x, state * h, w_ih, w_hh, b_ih, bias * b_hh

    return make


# Exercise 6.1: one step of an RNN with torch's weights


def _rnn(of_x: float = 1, of_h: float = 1, squash: Callable = torch.tanh, turn: Callable = lambda w: w.T) -> Callable:
    """The step with another squashing or product; `of_x`, `of_h`: how much of either bias is added."""

    def step(X: Tensor, H: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
        return squash(X @ w_ih.T + H @ turn(w_hh) + of_x * b_ih + of_h * b_hh)

    return step


rnn_step = Check(
    "rnn_step",
    reference=rnn_cell,
    cases=[
        Case("a state of zeros, no bias b_hh", _torch_numbers(1, state=0.0, bias=0.0)),
        Case("a state with something in it, no bias b_hh", _torch_numbers(1, bias=0.0)),
        Case("both biases", _torch_numbers(1)),
        Case("the gradients by state and weights", _torch_numbers(1, seed=2), _with_gradients),
    ],
    traps={
        "nothing squashes the sum: the tanh of (6.1) is missing.": _rnn(squash=lambda a: a),
        "the sum goes through a sigmoid. In (6.1) it is a tanh.": _rnn(squash=torch.sigmoid),
        "b_hh has no effect. Torch keeps two biases, and both are added.": _rnn(of_h=0),
        "b_ih has no effect. Torch keeps two biases, and both are added.": _rnn(of_x=0),
        "w_hh is not transposed. Torch keeps the weights turned, and in a square one nothing complains.": (
            _rnn(turn=lambda w: w)
        ),
        "the old state has no effect: this remembers nothing. (6.1) adds H W_hh.": _rnn(turn=lambda w: 0 * w),
    },
)


# Exercise 6.3: one step of the textbook's GRU


def _by_package(cell: Callable) -> Callable:
    """A cell of the package with its weights as the exercise gives them: (3, d, h), one bias."""

    def step(X: Tensor, H: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor) -> Tensor:
        w_x, w_h = W_x.mT.flatten(0, 1), W_h.mT.flatten(0, 1)  # (3h, d), (3h, h)
        return cell(X, H, w_x, w_h, b.flatten(), torch.zeros_like(b.flatten()))

    return step


def _gru(keep: Callable = lambda Z: Z, squash: Callable = torch.tanh, reset: bool = True) -> Callable:
    """The step with something else in one of its places."""

    def step(X: Tensor, H: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor) -> Tensor:
        R, Z = (torch.sigmoid(X @ W_x[i] + H @ W_h[i] + b[i]) for i in (0, 1))
        candidate = squash(X @ W_x[2] + (R * H if reset else H) @ W_h[2] + b[2])
        return keep(Z) * H + (1 - keep(Z)) * candidate

    return step


def _other_order(X: Tensor, H: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor) -> Tensor:
    order = torch.tensor([1, 0, 2])
    return _gru()(X, H, W_x[order], W_h[order], b[order])


def _all_of_the_old(X: Tensor, H: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor) -> Tensor:
    Z = torch.sigmoid(X @ W_x[1] + H @ W_h[1] + b[1])
    return _gru()(X, H, W_x, W_h, b) + (1 - Z) * H


def _transposed(X: Tensor, H: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor) -> Tensor:
    return _gru()(X, H, W_x, W_h.mT, b)


def _numbers(n_units: int = 4, state: float = 1.0, reset_bias: float = 0.0, seed: int = 0) -> Callable[[], tuple]:
    def make() -> tuple:
        g = torch.Generator().manual_seed(seed)
        shapes = (3, 2), (3, n_units), (3, 2, n_units), (3, n_units, n_units), (3, n_units)
        X, H, W_x, W_h, b = (torch.randn(shape, generator=g) for shape in shapes)
        b[0] += reset_bias
        return X, state * H, W_x, W_h, b

    return make


gru_step = Check(
    "gru_step",
    reference=_by_package(textbook_gru_cell),
    cases=[
        Case("a state of zeros", _numbers(state=0.0)),
        Case("a reset gate that is open", _numbers(reset_bias=30.0)),
        Case("a reset gate that is half open", _numbers()),
        Case("a single unit", _numbers(n_units=1, seed=1)),
        Case("the gradients by state and weights", _numbers(seed=2), _with_gradients),
    ],
    traps={
        "Z and 1 - Z have changed places. In (6.3) the gate Z keeps the old state.": _gru(keep=lambda Z: 1 - Z),
        "R is multiplied after the product with W_hh. That is a GRU too, torch's; (6.6) multiplies H by R first.": (
            _by_package(gru_cell)
        ),
        "R and Z have changed places. The weights come in the order R, Z, candidate.": _other_order,
        "the candidate goes through a sigmoid. Only gates do; the candidate has a tanh.": _gru(squash=torch.sigmoid),
        "the candidate is not squashed at all: the tanh of (6.6) is missing.": _gru(squash=lambda a: a),
        "the reset gate has no effect. In (6.6) it multiplies H.": _gru(reset=False),
        "the old state is added whole. In (6.3) it is multiplied by Z.": _all_of_the_old,
        "the biases b have no effect.": lambda X, H, W_x, W_h, b: _gru()(X, H, W_x, W_h, 0 * b),
        "W_h is transposed. Here weights are (inputs, units), so a product is H @ W_h[i].": _transposed,
    },
)


# Exercise 6.4: three bugs

_BUGS = (
    "the blocks are cut in another order. Torch's are r, z, n.",
    "R is multiplied before the product: that is the textbook's GRU. Torch has R * (H W + b).",
    "Z and 1 - Z have changed places. Torch's Z keeps the old state.",
)


def _colleague(order: bool, before: bool, swapped: bool) -> Callable:
    """Torch's GRU step with any of the three bugs left in."""

    def step(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
        from_x, from_h = F.linear(x, w_ih, b_ih).chunk(3, -1), F.linear(h, w_hh, b_hh).chunk(3, -1)
        first, second = (torch.sigmoid(from_x[i] + from_h[i]) for i in (0, 1))
        r, z = (second, first) if order else (first, second)
        n_units = h.shape[-1]
        hn = F.linear(r * h, w_hh[2 * n_units :], b_hh[2 * n_units :]) if before else r * from_h[2]
        keep = 1 - z if swapped else z
        return keep * h + (1 - keep) * torch.tanh(from_x[2] + hn)

    return step


def _left(bugs: tuple[bool, ...]) -> str:
    """What to say of the bugs that are still there; of several only which places to look at."""
    if sum(bugs) == 1:
        return _BUGS[bugs.index(True)]
    if all(bugs):
        return "all three bugs are still there."
    fixed = ("the order of the blocks", "the place of R", "Z and 1 - Z")[bugs.index(False)]
    return f"two bugs are still there, {fixed} is right."


def _bias_outside(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
    b = torch.cat([torch.zeros_like(b_hh[: 2 * h.shape[-1]]), b_hh[2 * h.shape[-1] :]])  # that of n alone
    return gru_cell(x, h, w_ih, w_hh, b_ih + b, b_hh - b)


def _bias_forgotten(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
    of_gates = torch.arange(len(b_hh)) < 2 * h.shape[-1]
    return gru_cell(x, h, w_ih, w_hh, b_ih, b_hh * of_gates)


torch_gru_step = Check(
    "torch_gru_step",
    reference=gru_cell,
    cases=[
        Case("a state of zeros, no bias b_hh", _torch_numbers(state=0.0, bias=0.0)),
        Case("a single unit, no bias b_hh", _torch_numbers(n_units=1, bias=0.0, seed=1)),
        Case("four units, no bias b_hh", _torch_numbers(bias=0.0)),
        Case("four units, with all biases", _torch_numbers(seed=3)),
        Case("the gradients by state and weights", _torch_numbers(seed=2), _with_gradients),
    ],
    traps={
        **{_left(bugs): _colleague(*bugs) for bugs in product((False, True), repeat=3) if any(bugs)},
        "the bias of n stands outside of R. Torch multiplies it too: R * (H W + b).": _bias_outside,
        "the bias b_hh has no effect on n. Torch adds it inside of the bracket: R * (H W + b).": _bias_forgotten,
    },
)


# Exercise 6.5: one step of an LSTM


def _lstm(
    order: str = "ifgo",
    candidate: Callable = torch.tanh,
    cell: Callable = lambda i, f, g, C: f * C + i * g,
    show: Callable = lambda o, C, new: o * torch.tanh(new),
) -> Callable:
    """The step with something else in one of its places; `order`: as which blocks the rows are read."""

    def step(X: Tensor, H: Tensor, C: Tensor, w_ih: Tensor, w_hh: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        rows = dict(zip(order, (X @ w_ih.T + H @ w_hh.T + b).chunk(4, -1), strict=True))
        i, f, o = (torch.sigmoid(rows[name]) for name in "ifo")
        new = cell(i, f, candidate(rows["g"]), C)
        return show(o, C, new), new

    return step


def _by_lstm_cell(X: Tensor, H: Tensor, C: Tensor, w_ih: Tensor, w_hh: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return lstm_cell(X, H, C, w_ih, w_hh, b, torch.zeros_like(b))


def _cell_first(*args: Tensor) -> tuple[Tensor, Tensor]:
    H, C = _by_lstm_cell(*args)
    return C, H


def _lstm_numbers(shown: float = 1.0, cell: float = 1.0, bias: float = 1.0, seed: int = 0) -> Callable[[], tuple]:
    def make() -> tuple:
        g = torch.Generator().manual_seed(seed)
        shapes = (3, 2), (3, 4), (3, 4), (16, 2), (16, 4), (16,)
        X, H, C, w_ih, w_hh, b = (torch.randn(shape, generator=g) for shape in shapes)
        return X, shown * H, cell * C, w_ih, w_hh, bias * b

    return make


lstm_step = Check(
    "lstm_step",
    reference=_by_lstm_cell,
    cases=[
        Case("an empty cell, H = 0, no bias", _lstm_numbers(shown=0.0, cell=0.0, bias=0.0)),
        Case("a full cell, H = 0, no bias", _lstm_numbers(shown=0.0, bias=0.0)),
        Case("a full cell and an H, no bias", _lstm_numbers(bias=0.0)),
        Case("a full cell, an H and a bias", _lstm_numbers(seed=1)),
        Case("the gradients by H, C and weights", _lstm_numbers(seed=2), _with_gradients),
    ],
    traps={
        "g and o have changed places. Torch's blocks are i, f, g, o.": _lstm("ifog"),
        "i and f have changed places. Torch's blocks are i, f, g, o.": _lstm("figo"),
        "H is tanh(C) whole: the gate O of (6.11) has no effect.": _lstm(show=lambda o, C, new: torch.tanh(new)),
        "H is O times C: the tanh of (6.11) is missing.": _lstm(show=lambda o, C, new: o * new),
        "H shows the old cell. (6.11) takes C_t, the new one.": _lstm(show=lambda o, C, new: o * torch.tanh(C)),
        "the old cell is kept whole: the gate F of (6.10) has no effect.": _lstm(cell=lambda i, f, g, C: C + i * g),
        "the candidate comes in whole: the gate I of (6.10) has no effect.": _lstm(cell=lambda i, f, g, C: f * C + g),
        "1 - F stands in the place of I. In an LSTM the two are free of each other.": (
            _lstm(cell=lambda i, f, g, C: f * C + (1 - f) * g)
        ),
        "the candidate is not squashed: its tanh is missing.": _lstm(candidate=lambda a: a),
        "the candidate goes through a sigmoid. Only gates do; the candidate has a tanh.": _lstm(
            candidate=torch.sigmoid
        ),
        "the old H has no effect. All four blocks get H_{t-1} too.": (
            lambda X, H, C, w_ih, w_hh, b: _lstm()(X, 0 * H, C, w_ih, w_hh, b)
        ),
        "the bias b has no effect.": lambda X, H, C, w_ih, w_hh, b: _lstm()(X, H, C, w_ih, w_hh, 0 * b),
        "the two have changed places: (H, C) is wanted, in this order.": _cell_first,
    },
)
