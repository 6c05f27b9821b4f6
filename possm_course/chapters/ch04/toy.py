"""The task of chapter 04, which symbol was three places back, and networks that learn it."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from possm_course.chapters.ch02.adam import Adam

BACK, N_SYMBOLS = 3, 8
LENGTH, WIDTH = 32, 64  # places 0 ... LENGTH - 1 in training; features of a token


def initial_weights(n_networks: int = 3) -> dict[str, Tensor]:
    """Weights of networks with seeds 0, 1, ..., side by side.

    Queries and keys start small: all places are read alike at first, and no network begins with a
    wrong place.

    Args:
        n_networks: S, how many networks.

    Returns:
        The weights by name, shape (S, 1, rows, columns) each, to multiply (S, B, N, rows): E of the
        symbols, P of the places, W_q, W_k, W_v and W_out.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in range(n_networks)]
    n, d = N_SYMBOLS, WIDTH
    sizes = {  # rows, columns, standard deviation
        "E": (n, d, 1),
        "P": (200, d, 1),
        "W_q": (d, d, 0.1 * d**-0.5),
        "W_k": (d, d, 0.1 * d**-0.5),
        "W_v": (d, d, d**-0.5),
        "W_out": (d, n, d**-0.5),
    }
    weights = {}
    for name, (rows, columns, scale) in sizes.items():
        draws = [scale * torch.randn(1, rows, columns, generator=g) for g in generators]
        weights[name] = torch.stack(draws).requires_grad_()
    return weights


def train(predict: Callable[..., Tensor], code: str, n_steps: int = 125) -> dict[str, Tensor]:
    """Weights of three networks that learn at places 0 to 31 which symbol was three places back.

    Adam takes each number by itself, so the networks do not know of each other.

    Args:
        predict: predict(weights, symbols, places, code) gives the scores of eight symbols, shape
            (S, B, N, 8), from symbols (S, B, N) and places (N,).
        code: The code of positions, passed on to `predict`.
        n_steps: Training steps, of eight texts for each network.

    Returns:
        The trained weights, in the shapes of `initial_weights`.
    """
    weights = initial_weights()
    generator = torch.Generator().manual_seed(0)
    adam = Adam(weights.values(), 0.0)
    for step in range(n_steps):
        symbols = torch.randint(N_SYMBOLS, (3, 8, LENGTH), generator=generator)  # (S, B, N)
        scores = predict(weights, symbols, torch.arange(LENGTH), code)[:, :, BACK:]
        wanted = symbols[:, :, :-BACK]
        loss = F.cross_entropy(scores.flatten(0, 2), wanted.flatten(), reduction="sum")
        adam.rates = 0.02 * math.sin(math.pi * (step + 0.5) / n_steps)  # up and down again
        adam.step(loss / scores[0, ..., 0].numel())
    return {name: w.detach() for name, w in weights.items()}


def share_right(
    predict: Callable[..., Tensor], weights: dict[str, Tensor], code: str, places: Tensor
) -> Tensor:
    """The share of right answers of each network on 100 new texts.

    Args:
        predict: As in `train`.
        weights: Of three networks, as `train` gives them.
        code: The code of positions.
        places: Where the texts are, shape (N,).

    Returns:
        The shares, shape (S,).
    """
    generator = torch.Generator().manual_seed(99)
    symbols = torch.randint(N_SYMBOLS, (1, 100, len(places)), generator=generator)
    answer = predict(weights, symbols.expand(3, -1, -1), places, code).argmax(-1)  # (S, B, N)
    return (answer[..., BACK:] == symbols[..., :-BACK]).float().mean((1, 2))
