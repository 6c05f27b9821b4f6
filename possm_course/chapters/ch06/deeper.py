"""Networks that deeper/06 tells of; those that it does not train itself, experiments/ch06_deeper.py has trained.

The games and the training are those of chapter 06.
"""

import math

import torch
from torch import nn

from possm_course.chapters.ch06 import toy
from possm_course.parallel import in_parallel
from possm_lite.nn.recurrent import RNN

RATES, LIMITS = (0.1, 0.03), (math.inf, 5.0, 1.0)
SIZES = {"with R, 6 units": (6, False), "R = 1, 8 units": (8, True)}
CUTS = {  # from bin 12 up to the question: what becomes of Z, and of the weights of H to the candidate
    "nothing": lambda Z, W: (Z, W),
    "the unit hears itself": lambda Z, W: (Z, W - torch.diag(W.diagonal())),
    "the unit hears the others": lambda Z, W: (Z, torch.diag(W.diagonal())),
    "the unit hears nobody": lambda Z, W: (Z, 0 * W),
    "gates: Z halved": lambda Z, W: (0.5 * Z, W),
    "candidates: Z = 1": lambda Z, W: (0 * Z + 1, W),
    "both: Z halved, nobody heard": lambda Z, W: (0.5 * Z, 0 * W),
}


def held(is_held, seed):
    """A plain RNN learns the game from torch's start: its radius before and after, and the share of new games won."""
    torch.manual_seed(seed)
    layer = toy.start("RNN", False, toy.N_UNITS["RNN"])
    W = layer.weight_hh_l0.data

    def radius():
        return torch.linalg.eigvals(W).abs().max().item()

    def optimizer(weights):
        adam = toy.adam(weights)
        if is_held:
            adam.register_step_post_hook(lambda *_: W.mul_(min(1.0, first / radius())))
        return adam

    first = radius()
    model, *_ = toy.fit(layer, toy.play, 160, optimizer)
    return first, radius(), toy.won(model)


def clipped_run(rate, c, seed):
    """The losses of a training, and the norms of its first gradients before they are clipped."""
    torch.manual_seed(seed)
    layer = toy.rotating(RNN(6, 24), 1.2)
    _, losses, norms = toy.fit(layer, toy.silent, 60, lambda w: torch.optim.SGD(w, lr=rate, momentum=0.9), c)
    return losses, norms[:20]


def gru(seed):
    return toy.learn_game("GRU", True, seed, 120)[0]


def lesioned(layer, x, cut):
    """Last state of a GRU, (n, h), with something cut in bins 12 to 20."""
    w_x, w_h, b_x, b_h = layer.all_weights[0]
    H = x.new_zeros(len(x), 24)
    for t, X_t in enumerate(x.unbind(1)):
        xr, xz, xn = (X_t @ w_x.T + b_x).chunk(3, -1)
        hr, hz, hn = (H @ w_h.T + b_h).chunk(3, -1)
        Z = torch.sigmoid(xz + hz)
        if 12 <= t < toy.N_BINS - 1:
            Z, W = cut(Z, w_h[2 * 24 :])
            hn = H @ W.T + b_h[2 * 24 :]
        H = Z * H + (1 - Z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
    return H


def cut_losses(seed):
    """The loss of a trained GRU on new games, for each of the CUTS."""
    model, (fresh, lamp) = gru(seed), toy.play(500, seed=3)
    with torch.no_grad():
        scores = [lesioned(model.layer, fresh, cut) @ model.w_q.T + model.b_q for cut in CUTS.values()]  # (500, 4) each
    return [nn.functional.cross_entropy(s, lamp).item() for s in scores]


def integrate(n_units, is_frozen, seed):
    """The error of a GRU that adds up a way, and the mean of its R at a beep and elsewhere."""
    model, error = toy.integrate(n_units, toy.frozen if is_frozen else (lambda layer: layer), seed)
    torch.manual_seed(99)
    games, _ = toy.paths(500)
    with torch.no_grad():
        w_x, w_h, b_x, b_h = (w.chunk(3)[0] for w in model.layer.all_weights[0])
        before = nn.functional.pad(model.layer(games)[0][:, :-1], (0, 0, 1, 0))  # H_{t-1}
        R, at_beep = torch.sigmoid(games @ w_x.T + b_x + before @ w_h.T + b_h), games[..., 1] == 1
    return error, R[at_beep].mean().item(), R[~at_beep].mean().item()


def trained(function, settings, n_seeds):
    """What a function gives for each of the settings and seeds, (settings, seeds, ...)."""
    found = in_parallel(function, [(*setting, seed) for setting in settings for seed in range(n_seeds)])
    return [found[i : i + n_seeds] for i in range(0, len(found), n_seeds)]
