"""Networks that deeper/06 tells of.

Those that it does not train itself, experiments/ch06_deeper.py has trained. The games and the
training are those of chapter 06.
"""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from possm_course.chapters.ch06 import toy
from possm_course.parallel import in_parallel
from possm_lite.nn.recurrent import GRU, RNN

Cut = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

RATES, LIMITS = (0.1, 0.03), (math.inf, 5.0, 1.0)
SIZES = {"with R, 6 units": (6, False), "R = 1, 8 units": (8, True)}
# from bin 12 up to the question: what becomes of Z, and of the weights W of H to the candidate
CUTS: dict[str, Cut] = {
    "nothing": lambda Z, W: (Z, W),
    "the unit hears itself": lambda Z, W: (Z, W - torch.diag(W.diagonal())),
    "the unit hears the others": lambda Z, W: (Z, torch.diag(W.diagonal())),
    "the unit hears nobody": lambda Z, W: (Z, 0 * W),
    "gates: Z halved": lambda Z, W: (0.5 * Z, W),
    "candidates: Z = 1": lambda Z, W: (0 * Z + 1, W),
    "both: Z halved, nobody heard": lambda Z, W: (0.5 * Z, 0 * W),
}


def held(is_held: bool, seed: int) -> tuple[float, float, float]:
    """A plain RNN learns the game from torch's start, its spectral radius free or held.

    Args:
        is_held: Whether W_hh is scaled after every step so that its radius does not grow.
        seed: Of the start and the games.

    Returns:
        The spectral radius before and after the training, and the share of new games won.
    """
    torch.manual_seed(seed)
    layer = toy.start("RNN", False, toy.N_UNITS["RNN"])
    W = layer.weight_hh_l0.data

    def radius() -> float:
        return torch.linalg.eigvals(W).abs().max().item()

    first = radius()

    def hold(*_) -> None:
        W.mul_(min(1.0, first / radius()))

    def optimizer(weights: list[Tensor]) -> torch.optim.Optimizer:
        adam = toy.adam(weights)
        if is_held:
            adam.register_step_post_hook(hold)
        return adam

    model, _, _ = toy.fit(layer, toy.play, 160, optimizer)
    return first, radius(), toy.won(model)


def clipped_run(rate: float, c: float, seed: int) -> tuple[list[float], list[float]]:
    """A training on the silent game from a spectral radius of 1.2, with clipped gradients.

    Args:
        rate: Step size of gradient descent with momentum.
        c: The norm to which gradients are clipped.
        seed: Of the start and the games.

    Returns:
        The losses of all 60 steps, and the norms of the first 20 gradients before they are clipped.
    """

    def optimizer(weights: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(weights, lr=rate, momentum=0.9)

    torch.manual_seed(seed)
    layer = toy.rotating(RNN(6, 24), 1.2)
    _, losses, norms = toy.fit(layer, toy.silent, 60, optimizer, c)
    return losses, norms[:20]


def gru(seed: int) -> toy.WithOutput:
    """A GRU that was trained for 120 steps from its good start; `seed` is of start and games."""
    return toy.learn_game("GRU", True, seed, 120)[0]


def lesioned(layer: GRU, x: Tensor, cut: Cut) -> Tensor:
    """The last state of a GRU with something cut in bins 12 to 20.

    Args:
        layer: A GRU of 24 units.
        x: Games, shape (n, T, 6).
        cut: One of `CUTS`: cut(Z, W) gives the update gate Z, shape (n, h), and the weights of H to
            the candidate, shape (h, h), that are used instead.

    Returns:
        The state, shape (n, h).
    """
    h = 24
    w_x, w_h, b_x, b_h = layer.all_weights[0]
    H = x.new_zeros(len(x), h)
    for t, X_t in enumerate(x.unbind(1)):
        xr, xz, xn = (X_t @ w_x.T + b_x).chunk(3, -1)
        hr, hz, hn = (H @ w_h.T + b_h).chunk(3, -1)
        Z = torch.sigmoid(xz + hz)
        if 12 <= t < toy.N_BINS - 1:
            Z, W = cut(Z, w_h[2 * h :])
            hn = H @ W.T + b_h[2 * h :]
        H = Z * H + (1 - Z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
    return H


def cut_losses(seed: int) -> list[float]:
    """The cross entropy of a trained GRU, of this `seed`, on 500 new games for each of `CUTS`."""
    model = gru(seed)
    games, lamp = toy.play(500, seed=3)
    losses = []
    with torch.no_grad():
        for cut in CUTS.values():
            H = lesioned(model.layer, games, cut)
            scores = H @ model.w_q.T + model.b_q  # (500, 4)
            losses.append(nn.functional.cross_entropy(scores, lamp).item())
    return losses


def integrate(n_units: int, is_frozen: bool, seed: int) -> tuple[float, float, float]:
    """A GRU that adds up a way, with its reset gate or without.

    Args:
        n_units: Units of the layer.
        is_frozen: Whether R = 1.
        seed: Of the start and the paths.

    Returns:
        The root mean squared error on new paths, and the mean of R at a beep and elsewhere.
    """
    form = toy.frozen if is_frozen else _unchanged
    model, error = toy.integrate(n_units, form, seed)
    torch.manual_seed(99)
    games, _ = toy.paths(500)
    with torch.no_grad():
        w_x, w_h, b_x, b_h = (w.chunk(3)[0] for w in model.layer.all_weights[0])  # those of R
        states, _ = model.layer(games)
        before = nn.functional.pad(states[:, :-1], (0, 0, 1, 0))  # H_{t-1}
        R = torch.sigmoid(games @ w_x.T + b_x + before @ w_h.T + b_h)
        at_beep = games[..., 1] == 1
    return error, R[at_beep].mean().item(), R[~at_beep].mean().item()


def _unchanged(layer: GRU) -> GRU:
    """The same layer."""
    return layer


def trained(function: Callable, settings: Iterable[tuple], n_seeds: int) -> list[list]:
    """What a function gives for each of the settings and seeds, computed in parallel.

    Args:
        function: function(*setting, seed).
        settings: The arguments before the seed.
        n_seeds: Seeds 0, 1, ... for each setting.

    Returns:
        The results, [setting][seed].
    """
    calls = [(*setting, seed) for setting in settings for seed in range(n_seeds)]
    found = in_parallel(function, calls)
    return [found[i : i + n_seeds] for i in range(0, len(found), n_seeds)]
