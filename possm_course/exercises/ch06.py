"""Exercises of chapter 06: half-life, torch's GRU, back through time, chunks; deeper: 6.5 to 6.9."""

import math
from functools import partial
from itertools import accumulate
from operator import add

import torch
from torch import nn

from possm_course.checks import Case, Complaint, ValueCheck, as_tensor, exercise, normal
from possm_lite.nn.recurrent import gru_cell


def _draw(*shapes, seed):
    """Normal numbers of these shapes."""
    return [normal(*shape, seed=10 * seed + i) for i, shape in enumerate(shapes)]


def _torch_inputs(n_blocks=3, n_units=4, state=1.0, bias=1.0, seed=0):
    """x, h and weights as torch keeps them, in n_blocks blocks of rows; `state` scales h, `bias` scales b_hh."""
    rows = n_blocks * n_units
    shapes = (3, 2), (3, n_units), (rows, 2), (rows, n_units), (rows,), (rows,)
    x, h, w_ih, w_hh, b_ih, b_hh = _draw(*shapes, seed=seed)
    return x, state * h, w_ih, w_hh, b_ih, bias * b_hh


# Exercise 6.1: a memory of one second
_HALF = 0.5 ** (1 / 20)

my_gate = ValueCheck(
    "my_gate",
    expected=_HALF,
    tolerance=0.0015,
    mistakes={
        1 - _HALF: "that is 1 - Z, what makes room. Here Z is the share that stays.",
        1 - 0.5 / 20: "that takes a fortieth away in each bin. But a bin multiplies what is left: after n bins Z**n.",
        math.exp(-1 / 20): "that is a time constant of one second, which leaves a good third. Half was asked for.",
        0.5 ** (1 / 10): "that leaves half after ten bins, which is half a second. One second is 20 bins of 50 ms.",
        0.97: "that is nearly it, but it leaves half after 23 bins, not 20. Give three digits.",
    },
    hint="After n bins the share that is left is Z to the power n.",
)


_ORDER = "xr, xz, → xz, xr,", "hr, hz, → hz, hr,"
_BEFORE = "r * hn → (r * h) @ w_hh.chunk(3)[2].T + b_hh.chunk(3)[2]"
_SWAPPED = "(1 - z) * n + z * h → z * n + (1 - z) * h"


# Exercise 6.2: three bugs
@exercise(
    cases={
        "a state of zeros, no bias b_hh": partial(_torch_inputs, state=0.0, bias=0.0),
        "a single unit, no bias b_hh": partial(_torch_inputs, n_units=1, bias=0.0, seed=1),
        "four units, no bias b_hh": partial(_torch_inputs, bias=0.0),
        "four units, with all biases": partial(_torch_inputs, seed=3),
    },
    mistakes={
        (*_ORDER, _BEFORE, _SWAPPED): "all three bugs are still in it. Compare it with (6.5), (6.9) and (6.3).",
        _ORDER: "the blocks are cut in another order. Torch's are r, z, n.",
        _BEFORE: "R is multiplied before the product: that is the textbook's GRU. Torch has R * (H W + b).",
        _SWAPPED: "Z and 1 - Z are swapped. Torch's Z keeps the old state.",
        "r * hn → r * (h @ w_hh.chunk(3)[2].T) + b_hh.chunk(3)[2]": "the bias of n is outside the bracket.",
        (*_ORDER, _BEFORE): (
            "two of the three bugs are left: the order of the blocks, and the place of the reset gate R."
        ),
        (*_ORDER, _SWAPPED): "two of the three bugs are left: the order of the blocks, and the roles of Z and 1 - Z.",
        (_BEFORE, _SWAPPED): (
            "two of the three bugs are left: the place of the reset gate R, and the roles of Z and 1 - Z."
        ),
        "torch.sigmoid(xr + hr), torch.sigmoid(xz + hz) → (0.2 * (xr + hr) + 0.5).clamp(0, 1), "
        "(0.2 * (xz + hz) + 0.5).clamp(0, 1)": (
            "the gates are straight lines that are cut off (Keras' hard sigmoid): a sigmoid."
        ),
        "torch.sigmoid(xr + hr), torch.sigmoid(xz + hz) → torch.tanh(xr + hr), torch.tanh(xz + hz)": (
            "the gates go through a tanh. Gates should be between 0 and 1."
        ),
        (
            "torch.tanh(xn + r * hn) → torch.sigmoid(xn + r * hn)"
        ): "the candidate goes through a sigmoid. It should be a tanh.",
        "xn + r * hn → xn + hn": "the reset gate is not used.",
        "xn + r * hn → xn + z * hn": "the candidate is reset by Z. It should be R.",
        "xn + r * hn → r * (xn + hn)": (
            "R multiplies the input, too. It should multiply only what comes from the state."
        ),
        "h @ w_hh.T + b_hh → h @ w_hh.T": "the biases b_hh are missing.",
        "x @ w_ih.T + b_ih → x @ w_ih.T": "the biases b_ih are missing.",
    },
)
def torch_gru_step(x, h, w_ih, w_hh, b_ih, b_hh):
    xr, xz, xn = (x @ w_ih.T + b_ih).chunk(3, -1)  # (n, h) each: r, z, n
    hr, hz, hn = (h @ w_hh.T + b_hh).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    n = torch.tanh(xn + r * hn)  # hn holds b_hn already, and r multiplies both
    return (1 - z) * n + z * h


UP, DOWN, CLEAR, NOTHING = range(4)


def _states(weights, inputs):
    """State after every input."""
    states = [torch.zeros(1, 1)]
    for x in torch.eye(4, 3)[inputs]:
        states.append(gru_cell(x[None], states[-1], *weights))
    return torch.cat(states[1:])[:, 0]


def _uneven_stairs(weights):
    """Why stairs shrink: stairs of a tenth shrink, too, unless it is the bend of the tanh."""
    w_ih, *others = weights
    tenth = [w_ih * torch.tensor([[1.0], [1.0], [0.1]]), *others]  # rows r, z, n
    climb = _states(tenth, [UP] * 10)
    if abs(climb[-1] / climb[0] - 10) > 0.5:
        return "stairs that shrink, small ones as well"
    return "stairs that shrink"


def _first_fault(make):
    """What is wrong with a counter, in a word: of several faults the one that comes first here."""
    weights = [torch.as_tensor(w, dtype=torch.float32).detach() for w in make()]
    has_shapes = [w.shape for w in weights] == [(3, 3), (3, 1), (3,), (3,)]
    if not has_shapes or not all(w.isfinite().all() for w in weights):
        raise Complaint("return w_ih, w_hh, b_ih, b_hh, of shapes (3, 3), (3, 1), (3,), (3,), without NaN or infinity.")
    if _states(weights, [NOTHING] * 20).abs().max() > 1e-3:
        return "a state that moves though nothing comes"
    stair = _states(weights, [UP])[0]
    if stair < 0.009:
        return "no stair" if stair < 1e-3 else f"a first stair of {stair:.3f}: too small"

    def counted(inputs):
        return _states(weights, inputs) / stair  # in stairs

    climb = counted([UP] * 10)
    if climb[1] < 1.6:
        return "no second stair"
    if abs(climb[-1] - 10) > 0.5:
        return _uneven_stairs(weights) if climb[-1] < 10 else "stairs that grow"
    down = counted([UP] * 6 + [DOWN] * 16)
    if abs(down[6] - 5) > 0.5 or abs(down[-1] + 10) > 0.5:
        return "a pulse down that does not take away what a pulse up adds"
    clear = counted([UP] * 7 + [CLEAR] + [UP] * 3 + [CLEAR] + [DOWN] * 4 + [CLEAR, UP, UP])
    if abs(clear[-1] - 2) > 0.5:
        return "a count that is not cleared" if abs(clear[7] - clear[6]) > 1e-3 else "a clear that leaves Z shut"
    wait = counted([UP, *[NOTHING] * 100] * 10)
    return "a count that fades" if abs(wait[-1] - 10) > 0.5 else "a counter"


# Exercise 6.5, to build: a GRU that counts
@exercise(
    cases={"pulses up and down, clears and waits": Case(tuple, _first_fault)},
    mistakes={
        "b_ih = [20.0, 20.0 → b_ih = [20.0, 3.0": (
            "the count does not stay while nothing comes: Z must be nearer to one there. A bias of 20 will do."
        ),
        "0.02 → 0.2": "the stairs shrink. The tanh is straight only near zero: make the first stair smaller.",
        "b_ih = [20.0, → b_ih = [3.0,": (
            "the stairs shrink, and smaller ones would, too: the candidate sees R times the old state. R must be "
            "nearer to one, unless it clears. A bias of 20 will do."
        ),
        "-40.0],  # r → 0.0],  # r": "clear does not clear: the candidate must not see the old state.",
        "[-40.0, -40.0, -40.0] → [0.0, 0.0, 0.0]": "a first pulse up does nothing. Is Z open? Rows: r, z, n.",
    },
)
def counting_gru():
    #        up     down   clear
    w_ih = [
        [0.00, 0.00, -40.0],  # r: shut at clear
        [-40.0, -40.0, -40.0],  # z: open at any of the three
        [0.02, -0.02, 0.00],  # n: a stair up, a stair down
    ]
    w_hh = [[0.0], [0.0], [1.0]]  # n sees the old state
    b_ih = [20.0, 20.0, 0.0]  # r open, z shut, as long as nothing comes
    return torch.tensor(w_ih), torch.tensor(w_hh), torch.tensor(b_ih), torch.zeros(3)


def _path(n_steps, seed=0):
    """States of an RNN (n_steps + 1, 3), W_hh, and the gradient (3,) of the last state."""
    H, W_hh, g = _draw((n_steps + 1, 3), (3, 3), (3,), seed=seed)
    return torch.tanh(H), W_hh, g


# Exercise 6.3: back through time
@exercise(
    cases={
        "a single step": partial(_path, 1),
        "two steps": partial(_path, 2, seed=1),
        "six steps": partial(_path, 6, seed=2),
    },
    mistakes={
        "range(1, len(H)) → [len(H) - 1]": "only the last step's term is there. (6.12) adds one for each step.",
        "g * (1 - H[t] ** 2) → g": "the slopes 1 - H_t**2 of the tanh are missing.",
        "W_hh @ inside → inside @ W_hh": "on its way back W_hh is transposed: H[t-1] @ W_hh forward is W_hh @ g back.",
        "(H[t - 1], inside) → (inside, H[t - 1])": "each term lies on its side: its rows are numbered by H_{t-1}.",
        "(H[t - 1], inside) → (H[t - 1], g)": "the slopes 1 - H_t**2 are on the way back, but not in the terms.",
        "H[t - 1] → H[t]": "the new state H_t stands where H_{t-1} belongs: W_hh is multiplied with the state before.",
        "(1 - H[t] ** 2) → (1 - H[t - 1] ** 2)": (
            "the slope is that of the state before. The tanh of step t has made H_t: its slope is 1 - H_t**2."
        ),
        "g = W_hh @ inside → g = W_hh @ g": (
            "the slopes are in the terms, but not on the way back: W_hh should meet what is inside the tanh."
        ),
        "g * (1 - H[t] ** 2) → g * (1 - H[t])": "the slope of the tanh is 1 minus the *square*.",
        "g * (1 - H[t] ** 2) → g * H[t] * (1 - H[t])": "this is the slope of a sigmoid. Here is a tanh.",
        "total += torch.outer → total = torch.outer": "only the first step's term is left: add them up.",
        "g = W_hh @ inside → pass": "the gradient does not go back: every step gets that of the last state.",
    },
)
def back_through_time(H, W_hh, g):
    total = torch.zeros_like(W_hh)
    for t in reversed(range(1, len(H))):
        inside = g * (1 - H[t] ** 2)  # dL by what is inside the tanh of step t
        total += torch.outer(H[t - 1], inside)  # the term of step t
        g = W_hh @ inside  # dL/dH_{t-1}
    return total


def _recording(n_bins, n, n_layers=1, Layer=nn.GRU):
    """A recurrent layer with known weights, a recording of n_bins, and n."""
    layer = Layer(2, 3, n_layers, batch_first=True)
    for i, weight in enumerate(layer.parameters()):
        weight.data = normal(*weight.shape, seed=i)
    return layer, 2 * normal(1, n_bins, 2), n


def _summed(layer, x, n):
    """A mistake: the gradients of all chunks so far, for each chunk."""
    return [sum(gradients) for gradients in accumulate(([g] for g in chunk_gradients.reference(layer, x, n)), add)]


_JOINED = "layer.weight_hh_l0) → layer.weight_hh_l0, retain_graph=True)"


# Exercise 6.4, to build: truncated back-propagation
def _last_of_all(layer, x, n):
    """A mistake: the same tensor in every entry."""
    gradients = chunk_gradients.reference(layer, x, n)
    return [gradients[-1]] * len(gradients)


@exercise(
    cases={
        "a single chunk": partial(_recording, 4, 4),
        "two chunks": partial(_recording, 8, 4),
        "two chunks of an nn.RNN": partial(_recording, 8, 4, Layer=nn.RNN),
        "two layers": partial(_recording, 8, 4, n_layers=2),
        "a last chunk that is shorter": partial(_recording, 10, 4),
    },
    mistakes={
        "state.detach() → state": (
            "the state that is handed on carries the graph of its chunk with it. Cut the gradient there: detach."
        ),
        ("state.detach() → state", _JOINED): "the gradient runs on into earlier chunks. Detach the state at the cut.",
        "layer(chunk, state) → layer(chunk)": "every chunk begins from zeros. The state goes on from chunk to chunk.",
        "state.detach() → H[None, :, -1].detach().repeat(len(state), 1, 1)": (
            "`H[:, -1]` is the state of the last layer only. Hand on what the layer returns second."
        ),
        _summed: "the gradients add up from chunk to chunk: `.grad` is not emptied between.",
        "x.split(n, 1) → x[:, : x.shape[1] // n * n].split(n, 1)": "the last chunk, which is shorter, is missing.",
        "H.square().mean() → H.square().sum()": "this is the gradient of the sum of squares. The mean is wanted.",
        "H.square().mean() → H[:, -1].square().mean()": "only the last bin of a chunk has a loss. Every bin should.",
        _last_of_all: (
            "all entries are the last gradient: `.grad` is one tensor that is written over. Append a copy of it."
        ),
        "gradients += torch.autograd.grad(loss, layer.weight_hh_l0) → "
        "gradients += torch.autograd.grad(loss, layer.weight_ih_l0)": "this is the gradient by W_ih. Wanted is W_hh's.",
        (
            "return gradients → return [sum(gradients) / len(gradients)]"
        ): "one mean of all chunks. Return one gradient of each.",
        "return gradients → return [sum(gradients)]": "the sum over all chunks. Return one gradient of each.",
    },
)
def chunk_gradients(layer, x, n):
    state, gradients = None, []
    for chunk in x.split(n, 1):
        H, state = layer(chunk, state)
        loss = H.square().mean()
        gradients += torch.autograd.grad(loss, layer.weight_hh_l0)
        state = state.detach()  # the number goes on, the gradient stops
    return gradients


def _lstm_inputs(state=1.0, cell=1.0, bias=1.0, seed=0):
    """x, h, c and the weights of an LSTM; `state`, `cell` and `bias` scale h, c and b."""
    X, H, C, w_ih, w_hh, b = _draw((3, 2), (3, 4), (3, 4), (16, 2), (16, 4), (16,), seed=seed)
    return X, state * H, cell * C, w_ih, w_hh, bias * b


# Exercise 6.6: one step of an LSTM
@exercise(
    results=("H", "C"),
    cases={
        "an empty cell, H = 0, no bias": partial(_lstm_inputs, state=0.0, cell=0.0, bias=0.0),
        "a full cell, H = 0, no bias": partial(_lstm_inputs, state=0.0, bias=0.0),
        "a full cell and an H, no bias": partial(_lstm_inputs, bias=0.0),
        "a full cell, an H and a bias": partial(_lstm_inputs, seed=1),
    },
    mistakes={
        "i, f, g, o → i, f, o, g": "g and o are swapped. Torch's blocks are i, f, g, o.",
        "torch.tanh(C), C → C, C": "H is O times C: the tanh of (6.11) is missing.",
        "sigmoid → tanh": "the gates go through a tanh. Gates are between 0 and 1: a sigmoid.",
        "i, f, g, o → i, o, f, g": "the blocks are in ONNX's order. Torch's are i, f, g, o.",
        "i, f, g, o → i, g, f, o": "the blocks are in TensorFlow's order, i, g, f, o. Torch's are i, f, g, o.",
        "i, f, g, o → f, i, g, o": "i and f are swapped. Torch's blocks are i, f, g, o.",
        "i, f, g, o → f, i, o, g": "the blocks are in another order, f, i, o, g. Torch's are i, f, g, o.",
        "i, f, g, o → o, f, i, g": "the blocks are in another order. Torch's are i, f, g, o.",
        "torch.sigmoid(f) → torch.sigmoid(f + 1)": (
            "1 is added to the forget gate, as TensorFlow does by itself. Torch has it in the bias if at all."
        ),
        "return torch.sigmoid(o) * torch.tanh(C), C → return C, torch.sigmoid(o) * torch.tanh(C)": (
            "the results have changed places: H comes first, then C."
        ),
        (
            "C = torch.sigmoid(f) * C + torch.sigmoid(i) * torch.tanh(g) → "
            "new = torch.sigmoid(f) * C + torch.sigmoid(i) * torch.tanh(g)",
            "torch.tanh(C), C → torch.tanh(C), new",
        ): "H is made of the old cell. It should be made of the new one.",
        "torch.sigmoid(i) * torch.tanh(g) → torch.sigmoid(i) * g": "the candidate g has no tanh.",
        "torch.sigmoid(i) * torch.tanh(g) → torch.sigmoid(i) * torch.sigmoid(g)": (
            "the candidate g goes through a sigmoid. It should be a tanh."
        ),
        "torch.sigmoid(i) * torch.tanh(g) → (1 - torch.sigmoid(f)) * torch.tanh(g)": (
            "1 - f lets in, as in a GRU. An LSTM has a gate i of its own."
        ),
        " + b) → )": "the bias is missing.",
        "X @ w_ih.T + H @ w_hh.T → X @ w_ih.T": "the old state H is not used.",
    },
)
def lstm_step(X, H, C, w_ih, w_hh, b):
    i, f, g, o = (X @ w_ih.T + H @ w_hh.T + b).chunk(4, -1)  # (n, h) each
    C = torch.sigmoid(f) * C + torch.sigmoid(i) * torch.tanh(g)  # (6.10)
    return torch.sigmoid(o) * torch.tanh(C), C  # (6.11)


def _padded(*lengths):
    """Sequences (n, 5, 2), of which the first `lengths` rows are real."""
    return normal(len(lengths), 5, 2), torch.tensor(lengths)


# Exercise 6.7: reversed within their length
@exercise(
    cases={
        "two sequences of full length": partial(_padded, 5, 5),
        "a sequence of 3 in 5 steps": partial(_padded, 3),
        "sequences of three lengths": partial(_padded, 4, 5, 2),
        "a sequence of one step and one of none": partial(_padded, 1, 0),
    },
    mistakes={
        "lengths[:, None] → torch.full_like(lengths[:, None], x.shape[1])": (
            "everything is reversed, the padding too, which now comes first: the leak itself."
        ),
        "n - 1 - t → (n - t).clamp(max=x.shape[1] - 1)": "you are off by one: of n steps the last has the index n - 1.",
        "return x → return (x * (t < n)[..., None])": "the steps after a length have become zeros. They should stay.",
        "return x[torch.arange(len(x))[:, None], source] → return x.flip(0)": (
            "the sequences changed places. Their steps should: axis 1."
        ),
        "return x[torch.arange(len(x))[:, None], source] → return x.flip(-1)": (
            "the features are reversed. The steps should be: axis 1."
        ),
        "lengths[:, None] → lengths.max().expand(len(x), 1)": (
            "all are reversed within the longest length. Each should be within its own."
        ),
        "torch.where(t < n, n - 1 - t, t) → (n - 1 - t) % x.shape[1]": (
            "the steps after a length have moved as well. They should stay where they are."
        ),
    },
)
def reverse_valid(x, lengths):
    t = torch.arange(x.shape[1])  # (T,)
    n = lengths[:, None]  # (n, 1)
    source = torch.where(t < n, n - 1 - t, t)  # (n, T): which step of x comes to step t
    return x[torch.arange(len(x))[:, None], source]


def _start_fault(make, G):
    """What is wrong with W_hh as a start, in a word."""
    W = as_tensor(make(G))
    if not isinstance(W, torch.Tensor) or W.shape != G.shape or not W.isfinite().all():
        raise Complaint("return W_hh, (h, h) like G, without NaN or infinity.")
    W = W.double()
    radius = torch.linalg.eigvals(W).abs().max().item()
    if abs(radius - 1) > 1e-3:
        return f"a spectral radius of {radius:.2f}"
    lengths = torch.linalg.svdvals(W)
    return "no length changes" if (lengths - 1).abs().max() < 1e-3 else "a radius of one, but lengths change"


# Exercise 6.8: a good start
@exercise(
    cases={
        "three units": Case(lambda: (normal(3, 3, seed=1),), _start_fault),
        "24 units": Case(lambda: (normal(24, 24),), _start_fault),
    },
    mistakes={
        "torch.linalg.qr(G)[0] → G / torch.linalg.eigvals(G).abs().max()": (
            "the spectral radius is one, but in other directions a nudge shrinks or grows: *no* length may change."
        ),
        "torch.linalg.qr(G)[0] → torch.linalg.qr(G)[1]": "that is R, the triangle. The rotation is Q.",
        "torch.linalg.qr(G)[0] → G": "G itself: its radius is about the root of h.",
        "torch.linalg.qr(G)[0] → G / torch.linalg.matrix_norm(G, 2)": (
            "divided by the largest stretch: no direction grows now, but most shrink. *No* length may change."
        ),
        "torch.linalg.qr(G)[0] → G / G.norm()": "divided by the norm of all numbers: everything shrinks.",
        "torch.linalg.qr(G)[0] → G / G.norm(dim=0)": (
            "the columns have length one, but are not at right angles: *no* length may change, in any direction."
        ),
    },
)
def good_start(G):
    return torch.linalg.qr(G)[0]


# Exercise 6.9: clipping by the global norm
@exercise(
    cases={
        "one long gradient": lambda: ([torch.tensor([3.0, -4.0])], 2.0),
        "one gradient that is short enough": lambda: ([torch.tensor([0.3, -0.4])], 2.0),
        "two tensors, one long and one short": lambda: ([normal(3), 8 * normal(2, 3, seed=1)], 3.0),
        "two tensors, long only together": lambda: ([torch.full((4,), 0.45)] * 2, 1.0),
        "a gradient of zeros": lambda: ([torch.zeros(2), torch.zeros(3, 1)], 1.0),
    },
    mistakes={
        "max_norm / norm → min(1.0, max_norm / g.norm().item())": (
            "every tensor is clipped by itself, which changes the direction. One norm over all, one factor for all."
        ),
        "norm <= max_norm → norm == 0": "short gradients are made longer. The factor must not be above one.",
        "math.sqrt → float": "the root is missing: you compare with the squared length.",
        (
            "return [g * (max_norm / norm) for g in gradients] → return [g.clamp(-max_norm, max_norm) for g in "
            "gradients]"
        ): ("every number is cut off by itself, which changes the direction. One norm over all, one factor for all."),
        "math.sqrt(sum(g.square().sum().item() for g in gradients)) → sum(g.norm().item() for g in gradients)": (
            "the norms are added up. The norm of all together is the root of the sum of all *squares*."
        ),
        "math.sqrt(sum(g.square().sum().item() for g in gradients)) → max(g.norm().item() for g in gradients)": (
            "this is the norm of the longest tensor. The norm should be over all of them together."
        ),
        "math.sqrt(sum(g.square().sum().item() for g in gradients)) → max(g.abs().max().item() for g in gradients)": (
            "this is the largest number. The norm is the root of the sum of all squares."
        ),
        "math.sqrt(sum(g.square().sum().item() for g in gradients)) → sum(g.abs().sum().item() for g in gradients)": (
            "sizes are added up. The norm is the root of the sum of all squares."
        ),
        "(max_norm / norm) → (1 / norm)": "the gradient has length one now. It should have length max_norm.",
        "(max_norm / norm) → max_norm": "multiplied by max_norm, but not divided by the norm.",
        ("norm <= max_norm → norm == 0", "(max_norm / norm) → (norm / max_norm)"): "the factor is upside down.",
    },
)
def clip_gradients(gradients, max_norm):
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
    if norm <= max_norm:  # short enough, zero included
        return [g.clone() for g in gradients]
    return [g * (max_norm / norm) for g in gradients]
