"""Exercises of chapter 06: steps of RNN, GRU, LSTM; half-life; reversal; back through time; clipping; a GRU counts."""

import math
from functools import partial
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional as F

from possm_lite.blocks.recurrent import gru_cell
from possm_lite.classroom.checks import Case, Check, Complaint, ValueCheck, normal


def _draw(*shapes, seed):
    return [normal(*shape, seed=10 * seed + i) for i, shape in enumerate(shapes)]


def _torch_inputs(n_blocks=3, n_units=4, state=1.0, bias=1.0, seed=0):
    """x, h and weights as torch keeps them, in n_blocks blocks of rows; `state` scales h, `bias` scales b_hh."""
    rows = n_blocks * n_units
    shapes = (3, 2), (3, n_units), (rows, 2), (rows, n_units), (rows,), (rows,)
    x, h, w_ih, w_hh, b_ih, b_hh = _draw(*shapes, seed=seed)
    return x, state * h, w_ih, w_hh, b_ih, bias * b_hh


# Exercise 6.1: one step of an RNN with torch's weights


def _rnn_step(X, H, w_ih, w_hh, b_ih, b_hh, *, squash=torch.tanh, recurrent=lambda H, W: H @ W.T, bias=torch.add):
    return squash(X @ w_ih.T + recurrent(H, w_hh) + bias(b_ih, b_hh))


rnn_step = Check(
    "rnn_step",
    reference=_rnn_step,
    cases=[
        Case("a state of zeros, no bias b_hh", partial(_torch_inputs, 1, state=0.0, bias=0.0)),
        Case("a state other than zero, no bias b_hh", partial(_torch_inputs, 1, bias=0.0)),
        Case("both biases", partial(_torch_inputs, 1)),
    ],
    traps={
        "nothing squashes the sum: the tanh of (6.1) is missing.": partial(_rnn_step, squash=lambda a: a),
        "the sum goes through a sigmoid. In (6.1) it is a tanh.": partial(_rnn_step, squash=torch.sigmoid),
        "b_hh has no effect. Torch keeps two biases, and both are added.": (
            partial(_rnn_step, bias=lambda b_ih, b_hh: b_ih)
        ),
        "b_ih has no effect. Torch keeps two biases, and both are added.": (
            partial(_rnn_step, bias=lambda b_ih, b_hh: b_hh)
        ),
        "w_hh is not transposed. Torch's rows are outputs, and with a square matrix no shape complains.": (
            partial(_rnn_step, recurrent=lambda H, W: H @ W)
        ),
        "the old state has no effect: this remembers nothing. (6.1) adds H W_hh.": (
            partial(_rnn_step, recurrent=lambda H, W: 0 * H)
        ),
    },
)


# Exercise 6.2: a memory of one second

_HALF = 0.5 ** (1 / 20)

my_gate = ValueCheck(
    "my_gate",
    expected=_HALF,
    tolerance=0.0015,
    traps={
        "that is 1 - Z, what makes room. Here Z is the share that stays.": 1 - _HALF,
        "that leaves half of it after one bin. One second is 20 bins of 50 ms.": 0.5,
        "that takes one fortieth away in every bin. But each bin multiplies what is left: after n bins Z**n.": (
            1 - 0.5 / 20
        ),
        "that leaves little more than a third of it after one second. Half was asked for.": math.exp(-1 / 20),
        "that is what would be left after 20 bins if Z were 0.5. Ask the other way: which Z has Z**20 = 0.5?": 0.5**20,
    },
)


# Exercise 6.3: one step of the textbook's GRU


def _keep(Z, H, candidate):
    return Z * H + (1 - Z) * candidate


def _keep_swapped(Z, H, candidate):
    return (1 - Z) * H + Z * candidate


def _reset_before(R, H, W, b):
    return (R * H) @ W + b


def _gru_step(
    X, H, W_x, W_h, b, *, order=(0, 1), gate=torch.sigmoid, squash=torch.tanh, mix=_keep, reset=_reset_before
):
    R, Z = (gate(X @ W_x[i] + H @ W_h[i] + b[i]) for i in order)
    return mix(Z, H, squash(X @ W_x[2] + reset(R, H, W_h[2], b[2])))


def _gru_inputs(n_units=4, state=1.0, reset_bias=0.0, seed=0):
    shapes = (3, 2), (3, n_units), (3, 2, n_units), (3, n_units, n_units), (3, n_units)
    X, H, W_x, W_h, b = _draw(*shapes, seed=seed)
    b[0] += reset_bias
    return X, state * H, W_x, W_h, b


gru_step = Check(
    "gru_step",
    reference=_gru_step,
    cases=[
        Case("a state of zeros", partial(_gru_inputs, state=0.0)),
        Case("a reset gate that is open", partial(_gru_inputs, reset_bias=30.0)),
        Case("a reset gate that is half open", _gru_inputs),
        Case("a single unit", partial(_gru_inputs, n_units=1, seed=1)),
    ],
    traps={
        "Z and 1 - Z are swapped. In (6.3) the gate Z keeps the old state.": partial(_gru_step, mix=_keep_swapped),
        "R is multiplied after the product with W_hh. That is a GRU too, torch's; (6.6) multiplies H by R first.": (
            partial(_gru_step, reset=lambda R, H, W, b: R * (H @ W) + b)
        ),
        "R is multiplied after the product with W_hh, and with the bias: torch's GRU. (6.6) multiplies H alone by R, "
        "first.": partial(_gru_step, reset=lambda R, H, W, b: R * (H @ W + b)),
        "R multiplies the bias b, too. In (6.6) it multiplies H alone.": (
            partial(_gru_step, reset=lambda R, H, W, b: (R * H) @ W + R * b)
        ),
        "the gates go through a tanh. Gates are between 0 and 1: a sigmoid, (6.5).": partial(
            _gru_step, gate=torch.tanh
        ),
        "R and Z are swapped. The weights come in the order R, Z, candidate.": partial(_gru_step, order=(1, 0)),
        "the candidate goes through a sigmoid. Only gates do; the candidate has a tanh.": (
            partial(_gru_step, squash=torch.sigmoid)
        ),
        "the candidate is not squashed at all: the tanh of (6.6) is missing.": partial(_gru_step, squash=lambda a: a),
        "the reset gate has no effect. In (6.6) it multiplies H.": (
            partial(_gru_step, reset=lambda R, H, W, b: H @ W + b)
        ),
        "the whole old state is added. In (6.3) it is multiplied by Z.": (
            partial(_gru_step, mix=lambda Z, H, candidate: H + (1 - Z) * candidate)
        ),
        "the biases b have no effect.": lambda X, H, W_x, W_h, b: _gru_step(X, H, W_x, W_h, 0 * b),
        "W_h is transposed. Here weights are (inputs, units), so a product is H @ W_h[i].": (
            lambda X, H, W_x, W_h, b: _gru_step(X, H, W_x, W_h.mT, b)
        ),
    },
)


# Exercise 6.4: three bugs


def _torch_gru_step(
    x, h, w_ih, w_hh, b_ih, b_hh, *, order=(0, 1), mix=_keep, reset=lambda r, h, W, b: r * F.linear(h, W, b)
):
    from_x = F.linear(x, w_ih, b_ih).chunk(3, -1)
    weights = list(zip(w_hh.chunk(3), b_hh.chunk(3), strict=True))  # of h, for r, z, n
    r, z = (torch.sigmoid(from_x[i] + F.linear(h, *weights[i])) for i in order)
    return mix(z, h, torch.tanh(from_x[2] + reset(r, h, *weights[2])))


_BUGS = (  # what it concerns, the message where it is the only one left, the wrong step
    ("the order of the blocks", "the blocks are cut in another order. Torch's are r, z, n.", {"order": (1, 0)}),
    (
        "the product with R",
        "R is multiplied before the product: that is the textbook's GRU. Torch has R * (H W + b).",
        {"reset": lambda r, h, W, b: F.linear(r * h, W, b)},
    ),
    ("Z against 1 - Z", "Z and 1 - Z are swapped. Torch's Z keeps the old state.", {"mix": _keep_swapped}),
)


def _with_bugs(left):
    """Message and function for the bugs that are left; of two bugs the message names only the step that is right."""
    bugs = [bug for bug, is_left in zip(_BUGS, left, strict=True) if is_left]
    message = bugs[0][1] if len(bugs) == 1 else "all three bugs are still there."
    if len(bugs) == 2:
        message = f"two bugs are still there, {_BUGS[left.index(False)][0]} is right."
    return message, partial(_torch_gru_step, **{step: wrong for bug in bugs for step, wrong in bug[2].items()})


torch_gru_step = Check(
    "torch_gru_step",
    reference=_torch_gru_step,
    cases=[
        Case("a state of zeros, no bias b_hh", partial(_torch_inputs, state=0.0, bias=0.0)),
        Case("a single unit, no bias b_hh", partial(_torch_inputs, n_units=1, bias=0.0, seed=1)),
        Case("four units, no bias b_hh", partial(_torch_inputs, bias=0.0)),
        Case("four units, with all biases", partial(_torch_inputs, seed=3)),
    ],
    traps={
        **dict(_with_bugs(left) for left in product((False, True), repeat=3) if any(left)),
        "the bias of n is outside the bracket. Torch multiplies it by R too: R * (H W + b).": (
            partial(_torch_gru_step, reset=lambda r, h, W, b: r * (h @ W.T) + b)
        ),
        "the bias b_hh has no effect on n. Torch adds it inside the bracket: R * (H W + b).": (
            partial(_torch_gru_step, reset=lambda r, h, W, b: r * (h @ W.T))
        ),
    },
)


# Exercise 6.5: one step of an LSTM


def _lstm_step(
    X,
    H,
    C,
    w_ih,
    w_hh,
    b,
    *,
    order="ifgo",
    gate=torch.sigmoid,
    squash=torch.tanh,
    update=lambda i, f, g, C: f * C + i * g,
    show=lambda o, old, new: o * torch.tanh(new),
):
    blocks = dict(zip(order, (X @ w_ih.T + H @ w_hh.T + b).chunk(4, -1), strict=True))
    i, f, o = (gate(blocks[name]) for name in "ifo")
    new = update(i, f, squash(blocks["g"]), C)
    return show(o, C, new), new


def _lstm_inputs(state=1.0, cell=1.0, bias=1.0, seed=0):
    X, H, C, w_ih, w_hh, b = _draw((3, 2), (3, 4), (3, 4), (16, 2), (16, 4), (16,), seed=seed)
    return X, state * H, cell * C, w_ih, w_hh, bias * b


lstm_step = Check(
    "lstm_step",
    reference=_lstm_step,
    results=("H", "C"),
    cases=[
        Case("an empty cell, H = 0, no bias", partial(_lstm_inputs, state=0.0, cell=0.0, bias=0.0)),
        Case("a full cell, H = 0, no bias", partial(_lstm_inputs, state=0.0, bias=0.0)),
        Case("a full cell and an H, no bias", partial(_lstm_inputs, bias=0.0)),
        Case("a full cell, an H and a bias", partial(_lstm_inputs, seed=1)),
    ],
    traps={
        "g and o are swapped. Torch's blocks are i, f, g, o.": partial(_lstm_step, order="ifog"),
        "i and f are swapped. Torch's blocks are i, f, g, o.": partial(_lstm_step, order="figo"),
        "H is the whole tanh(C): the gate O of (6.11) has no effect.": (
            partial(_lstm_step, show=lambda o, old, new: torch.tanh(new))
        ),
        "H is O times C: the tanh of (6.11) is missing.": partial(_lstm_step, show=lambda o, old, new: o * new),
        "H shows the old cell. (6.11) takes C_t, the new one.": (
            partial(_lstm_step, show=lambda o, old, new: o * torch.tanh(old))
        ),
        "the whole old cell is kept: the gate F of (6.10) has no effect.": (
            partial(_lstm_step, update=lambda i, f, g, C: C + i * g)
        ),
        "the whole candidate comes in: the gate I of (6.10) has no effect.": (
            partial(_lstm_step, update=lambda i, f, g, C: f * C + g)
        ),
        "you use 1 - F instead of I. In an LSTM each has weights of its own.": (
            partial(_lstm_step, update=lambda i, f, g, C: f * C + (1 - f) * g)
        ),
        "1 - F is multiplied with the old cell. The gate F of (6.10) keeps, in spite of its name.": (
            partial(_lstm_step, update=lambda i, f, g, C: (1 - f) * C + i * g)
        ),
        "the new cell is squashed and kept so. The tanh of (6.11) is for what is shown; C itself may grow.": (
            partial(_lstm_step, update=lambda i, f, g, C: torch.tanh(f * C + i * g), show=lambda o, old, new: o * new)
        ),
        "the new cell is squashed twice. (6.10) has no tanh around the sum.": (
            partial(_lstm_step, update=lambda i, f, g, C: torch.tanh(f * C + i * g))
        ),
        "the gates go through a tanh. Gates are between 0 and 1: a sigmoid.": partial(_lstm_step, gate=torch.tanh),
        "the candidate is not squashed: its tanh is missing.": partial(_lstm_step, squash=lambda a: a),
        "the candidate goes through a sigmoid. Only gates do; the candidate has a tanh.": (
            partial(_lstm_step, squash=torch.sigmoid)
        ),
        "the old H has no effect. All four blocks get H_{t-1} too.": (
            lambda X, H, C, w_ih, w_hh, b: _lstm_step(X, 0 * H, C, w_ih, w_hh, b)
        ),
        "the bias b has no effect.": lambda X, H, C, w_ih, w_hh, b: _lstm_step(X, H, C, w_ih, w_hh, 0 * b),
        "the two are swapped: return (H, C), in this order.": lambda *args: _lstm_step(*args)[::-1],
    },
)


# Exercise 6.6: reversed within their length


def _reverse_valid(x, lengths, *, source=lambda t, n, T: torch.where(t < n, n - 1 - t, t)):
    """Step t of the result is step source(t, lengths, T) of x."""
    n_steps = x.shape[1]
    index = source(torch.arange(n_steps), lengths[:, None], n_steps).expand(len(x), -1)  # (B, T)
    return x.gather(1, index.clamp(0, n_steps - 1)[..., None].expand_as(x))


def _by_rows(head, x, lengths):
    """Every sequence with head(sequence, length) reversed in place."""
    heads = [head(row, n) for row, n in zip(x, lengths.tolist(), strict=True)]
    return torch.stack([torch.cat([h.flip(0), row[len(h) :]]) for h, row in zip(heads, x, strict=True)])


def _from_length(x, lengths):
    result = x.clone()
    for i, n in enumerate(lengths.tolist()):
        for t in range(n):
            result[i, t] = x[i, n - t]
    return result


def _padded(*lengths):
    return normal(len(lengths), 5, 2), torch.tensor(lengths)


reverse_valid = Check(
    "reverse_valid",
    reference=_reverse_valid,
    cases=[
        Case("two sequences of full length", partial(_padded, 5, 5)),
        Case("a sequence of 3 in 5 steps", partial(_padded, 3)),
        Case("sequences of three lengths", partial(_padded, 4, 5, 2)),
        Case("a sequence of one step and one of none", partial(_padded, 1, 0)),
    ],
    traps={
        "everything is reversed, the padding too, which now comes first. That is the leak itself: reverse only the "
        "first lengths[i] steps.": lambda x, lengths: x.flip(1),
        "it is the sequences of the batch that are reversed. Time is axis 1.": lambda x, lengths: x.flip(0),
        "the features are reversed. Time is axis 1.": lambda x, lengths: x.flip(2),
        "you are off by one: of n steps the last has the index n - 1.": (
            partial(_reverse_valid, source=lambda t, n, T: torch.where(t < n, n - t, t))
        ),
        "you are off by one, and read past the end of a full row: of n steps the last has the index n - 1.": (
            _from_length
        ),
        "one step too many is reversed. The first n steps are [:n].": partial(_by_rows, lambda row, n: row[: n + 1]),
        "one step too few is reversed. The first n steps are [:n], the last of them with the index n - 1.": (
            partial(_by_rows, lambda row, n: row[: n - 1])
        ),
        "one step too few is reversed: the last real step stays where it is.": (
            partial(_by_rows, lambda row, n: row[: max(n - 1, 0)])
        ),
        "the whole row is reversed first and cut afterwards, so the padding comes first. Cut first, then reverse.": (
            partial(_reverse_valid, source=lambda t, n, T: torch.where(t < n, T - 1 - t, t))
        ),
        "all sequences are reversed at the length of the first. Each has its own.": (
            partial(_reverse_valid, source=lambda t, n, T: torch.where(t < n[:1], n[:1] - 1 - t, t))
        ),
        "all sequences are reversed at the greatest length. Each has its own.": (
            partial(_reverse_valid, source=lambda t, n, T: torch.where(t < n.max(), n.max() - 1 - t, t))
        ),
        "the steps after a length have become zeros. They should stay as they were.": (
            lambda x, lengths: _reverse_valid(x, lengths) * (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
        ),
        "the steps after a length are reversed as well, among themselves. They should stay where they are.": (
            partial(_reverse_valid, source=lambda t, n, T: torch.where(t < n, n - 1 - t, T - 1 - t + n))
        ),
    },
)


# Exercise 6.7: back through time


def _back(H, W_hh, g, *, slope=lambda h: 1 - h**2, through=lambda W, e: W @ e, source=lambda H, t: H[t - 1]):
    total = torch.zeros_like(W_hh)
    for t in range(len(H) - 1, 0, -1):
        inside = g * slope(H[t])  # dL by what is inside the tanh
        total = total + torch.outer(source(H, t), inside)
        g = through(W_hh, inside)
    return total


def _path(n_steps, seed=0):
    H, W_hh, g = _draw((n_steps + 1, 3), (3, 3), (3,), seed=seed)
    return torch.tanh(H), W_hh, g


def _slopes_of_before(H, W_hh, g):
    total = torch.zeros_like(W_hh)
    for before in H[:-1].flip(0):
        inside = g * (1 - before**2)
        total, g = total + torch.outer(before, inside), W_hh @ inside
    return total


def _only_last(H, W_hh, g):
    return _back(H[-2:], W_hh, g)


back_through_time = Check(
    "back_through_time",
    reference=_back,
    cases=[
        Case("a single step", partial(_path, 1)),
        Case("two steps", partial(_path, 2, seed=1)),
        Case("six steps", partial(_path, 6, seed=2)),
    ],
    traps={
        "only the last step's term is there. (6.12) adds one for each step.": _only_last,
        "the slopes 1 - H_t**2 of the tanh are missing.": partial(_back, slope=torch.ones_like),
        "on its way back the gradient is not multiplied by the slopes 1 - H_t**2. Each factor (6.14) has them.": (
            lambda H, W_hh, g: sum(
                _only_last(H[: t + 1], W_hh, torch.linalg.matrix_power(W_hh, len(H) - 1 - t) @ g)
                for t in range(1, len(H))
            )
        ),
        "W_hh is transposed on the way back. H[t - 1] @ W_hh forward is W_hh @ ... back.": (
            partial(_back, through=lambda W, e: e @ W)
        ),
        "on its way back the gradient does not meet W_hh. Each factor (6.14) has it.": (
            partial(_back, through=lambda W, e: e)
        ),
        "the new state H_t stands where H_{t-1} belongs: W_hh is multiplied with the state before.": (
            partial(_back, source=lambda H, t: H[t])
        ),
        "the result is transposed. Rows are the state before, as in H[t - 1] @ W_hh.": (
            lambda H, W_hh, g: _back(H, W_hh, g).T
        ),
        "it is divided by the number of steps. (6.12) is a sum.": (lambda H, W_hh, g: _back(H, W_hh, g) / (len(H) - 1)),
        "the slope is taken of the state before. It belongs to H_t, which the tanh has made.": (_slopes_of_before),
    },
)


# Exercise 6.8: clipping by the global norm


def _norm(gradients):
    return torch.cat([g.flatten() for g in gradients]).norm()


def _clip(gradients, max_norm, *, norm=_norm, factor=lambda norm, c: (c / norm).clamp(max=1)):
    by = factor(norm(gradients), max_norm)
    return [by * g for g in gradients]


def _as_tuple(clip, gradients, max_norm):
    clipped = tuple(clip(gradients, max_norm))
    return clipped if len(gradients) > 1 else clipped[0]


clip_gradients = Check(
    "clip_gradients",
    reference=_clip,
    cases=[
        Case("one long gradient", lambda: ([torch.tensor([3.0, -4.0])], 2.0), _as_tuple),
        Case("one gradient that is short enough", lambda: ([torch.tensor([0.3, -0.4])], 2.0), _as_tuple),
        Case("two tensors, one long and one short", lambda: ([normal(3), 8 * normal(2, 3, seed=1)], 3.0), _as_tuple),
        Case("two tensors, long only together", lambda: ([torch.full((4,), 0.45)] * 2, 1.0), _as_tuple),
        Case("a gradient of zeros", lambda: ([torch.zeros(2), torch.zeros(3, 1)], 1.0), _as_tuple),
    ],
    traps={
        "every tensor is clipped by itself, which changes the direction. One norm over all of them, one factor for "
        "all.": lambda gradients, max_norm: [_clip([g], max_norm)[0] for g in gradients],
        "every number is clipped by itself, which changes the direction. Multiply all of them by one factor.": (
            lambda gradients, max_norm: [g.clamp(-max_norm, max_norm) for g in gradients]
        ),
        "short gradients are made longer. The factor must not be above one.": (
            partial(_clip, factor=lambda norm, c: c / norm.clamp(min=1e-30))
        ),
        "the root is missing: you compare with the squared length.": (
            partial(_clip, norm=lambda gradients: sum(g.square().sum() for g in gradients))
        ),
        "the norms of the tensors are added. Add their squares, and take the root of the sum.": (
            partial(_clip, norm=lambda gradients: sum(g.norm() for g in gradients))
        ),
        "long gradients are divided by their norm, which gives length one. It should be max_norm.": (
            partial(_clip, factor=lambda norm, c: 1 / norm if norm > c else 1)
        ),
        "a gradient of zeros gives NaN: zero is divided by zero there. Is anything to be clipped at all?": (
            partial(_clip, factor=lambda norm, c: norm.clamp(max=c) / norm)
        ),
    },
)


# Exercise 6.9, to build: a GRU that counts

UP, DOWN, CLEAR = range(3)


def _counter(stair=0.02, keep=20.0, opens=(40.0, 40.0, 40.0), recurrent=1.0, reset=40.0, down=-1.0, drift=0.0):
    """Weights of a GRU of one unit: rows r, z, n; columns up, down, clear."""
    w_ih = torch.tensor([[0.0, 0.0, -reset], [-o for o in opens], [stair, down * stair, 0.0]])
    w_hh, b = torch.tensor([[0.0], [0.0], [recurrent]]), torch.tensor([20.0, keep, drift])
    return w_ih, w_hh, b, torch.zeros(3)


def _ready(weights):
    """The weights as tensors."""
    if not isinstance(weights, tuple | list) or len(weights) != 4:
        raise Complaint("return four results, in this order: w_ih, w_hh, b_ih, b_hh.")
    ready = [torch.as_tensor(w, dtype=torch.float32).detach() for w in weights]
    for name, shape, w in zip(("w_ih", "w_hh", "b_ih", "b_hh"), ((3, 3), (3, 1), (3,), (3,)), ready, strict=True):
        if w.shape != shape:
            raise Complaint(f"{name} has the shape {tuple(w.shape)}, expected {shape}.")
        if not w.isfinite().all():
            raise Complaint(f"{name} has numbers that are NaN or infinite.")
    return ready


def _states(weights, inputs):
    """State after every input, each UP, DOWN, CLEAR or None."""
    state, states = torch.zeros(1, 1), []
    for which in inputs:
        x = torch.zeros(1, 3) if which is None else torch.eye(3)[which : which + 1]
        state = gru_cell(x, state, *weights)
        states.append(state.item())
    return Tensor(states)


def _first_fault(make):
    """What is wrong with a counter, in a word: of several faults the one that comes first here."""
    weights = _ready(make())
    if _states(weights, [None] * 20).abs().max() > 1e-3:
        return "moves by itself"
    stair = _states(weights, [UP])[0]
    if stair < 0.009:
        return "no stair"
    climb, down, clear, wait = (
        _states(weights, inputs) / stair  # in stairs
        for inputs in (
            [UP] * 10,
            [UP] * 6 + [DOWN] * 6 + [DOWN] * 10,
            [UP] * 7 + [CLEAR] + [UP] * 3 + [CLEAR] + [DOWN] * 4 + [CLEAR, UP, UP],
            [UP, *[None] * 100] * 10,
        )
    )
    if climb[1] < 1.6:
        return "no second stair"
    if abs(climb[-1] - 10) > 0.5:
        return "stairs shrink" if climb[-1] < 10 else "stairs grow"
    if abs(down[6] - 5) > 0.5:
        return "down adds" if down[6] > 6.5 else "down unheard" if down[6] > 5.9 else "down uneven"
    if abs(down[-1] + 10) > 0.5:
        return "down uneven"
    if abs(clear[-1] - 2) > 0.5:
        return "not cleared"
    return "fades" if abs(wait[-1] - 10) > 0.5 else "a counter"


counting_gru = Check(
    "counting_gru",
    reference=_counter,
    cases=[Case("pulses up and down, clears and waits", tuple, _first_fault)],
    traps={
        "the count does not stay while nothing comes: Z must be nearer to one there. A bias of 20 will do.": (
            partial(_counter, keep=3.0, opens=(23.0, 23.0, 23.0))
        ),
        "a second pulse does not add a stair: the candidate sees too little of the old state. Look at its weight of H, "
        "and at R in the bin of a pulse.": partial(_counter, recurrent=0.0),
        "the stairs shrink. The tanh is straight only near zero: make the first stair smaller.": (
            partial(_counter, stair=0.2)
        ),
        "clear does not clear. In that bin Z has to open, and one more gate has to hide the old state from the "
        "candidate.": partial(_counter, reset=0.0),
        "a pulse down is not heard: Z stays shut, or nothing is taken away.": partial(_counter, down=0.0),
        "a pulse down counts up. Its weight to the candidate is negative.": partial(_counter, down=1.0),
        "a pulse down does not take away what a pulse up adds.": partial(_counter, down=-0.5),
        "the stairs grow: the state is multiplied by more than one at every pulse.": partial(_counter, recurrent=1.1),
        "the state moves though nothing comes. Z must be near one there, or the candidate zero.": (
            partial(_counter, keep=0.0, drift=0.1)
        ),
        "a first pulse up does not bring the state to 0.01. At a pulse Z must be near zero; the rows are r, z, n.": (
            partial(_counter, opens=(0.0, 0.0, 0.0))
        ),
    },
)
