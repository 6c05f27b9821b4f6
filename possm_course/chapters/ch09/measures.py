"""What chapter 09 measures: how many memories fit, what damage does, Cover's count, sparse codes."""

import math

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Generator, Tensor

from possm_course.chapters.ch09.hopfield import (
    corrupt,
    hebb_weights,
    modern_hopfield,
    recall,
    sign_or_keep,
)


def coins(*shape: int, seed: int = 0) -> Tensor:
    """Random units of -1 and 1."""
    return torch.randint(0, 2, shape, generator=Generator().manual_seed(seed)) * 2.0 - 1


def recalled_share(
    d: int, n_memories: int, n_wrong: int, modern: bool, beta: float = 1.0
) -> Tensor:
    """Share of cues with n_wrong of d units wrong that end at their memory, exactly, for each set: (5,)."""
    memories = coins(5, n_memories, d, seed=1000 * d + n_memories)
    wanted = memories[:, :50]  # (5, up to 50, d)
    cues = corrupt(wanted, n_wrong, Generator().manual_seed(d))
    ends = (
        modern_hopfield(cues, memories, beta).sign()
        if modern
        else recall(cues, hebb_weights(memories))
    )
    return (ends == wanted).all(-1).float().mean(-1)


def half_recalled(
    d: int, n_wrong: int, modern: bool, beta: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of memories (K,), shares recalled (K, sets), and where each set falls below one half, linear in log M."""
    counts, shares = [], []
    while not shares or shares[-1].mean() > 0.05:  # until more memories do not help
        counts.append(2 ** len(counts))
        shares.append(recalled_share(d, counts[-1], n_wrong, modern, beta).numpy())
    counts, shares = np.array(counts), np.array(shares)
    capacity = []
    for share in shares.T:
        k = int(np.nonzero(share < 0.5)[0][0])
        if k == 0:
            raise ValueError(
                f"d = {d}, {n_wrong} wrong: fewer than half of the cues come back to a single memory."
            )
        part = (share[k - 1] - 0.5) / (share[k - 1] - share[k])
        capacity.append(counts[k - 1] * 2**part)
    return counts, shares, np.array(capacity)


def cut(weights: Tensor, share: float, generator: Generator) -> Tensor:
    """Weights (N, N) of which each connection is gone with probability `share`, in both directions."""
    present = torch.rand(weights.shape, generator=generator).triu(1) > share
    return weights * (present | present.T)


def after_damage(n_patterns: int, share: float, seed: int) -> list[float]:
    """Overlaps with patterns of 144 units after recall from cues with 14 wrong units, a share of the storage lost.

    Of a Hopfield network, of a table of the patterns, and of a table in twelve copies that vote.
    """
    generator, stored = Generator().manual_seed(seed), coins(n_patterns, 144, seed=200 + seed)
    cues = corrupt(stored, 14, generator)
    ends = recall(cues, cut(hebb_weights(stored), share, generator), max_sweeps=10)
    copies = stored * (
        torch.rand(12, n_patterns, 144, generator=generator) >= share
    )  # a lost number is 0
    tables = [sign_or_keep(votes, cues) for votes in (copies[0], copies.sum(0))]
    return [float((state * stored).mean()) for state in (ends, *tables)]


def cover_share(m: int, n: int) -> float:
    """The share of all labels of m points in general position that a unit with n inputs can produce (9.16)."""
    return sum(math.comb(m - 1, r) for r in range(n)) / 2 ** (m - 1)


def separable(inputs: np.ndarray, labels: np.ndarray) -> bool:
    """Whether weights (n,) exist with labels (M,) = sign(inputs (M, n) @ weights): a linear program."""
    n = inputs.shape[1]
    return (
        linprog(
            np.zeros(n), -labels[:, None] * inputs, -np.ones(len(labels)), bounds=(None, None)
        ).status
        == 0
    )


def strongest(field: Tensor, n_on: int) -> Tensor:
    """A sparse code (..., cells): 1 for the n_on cells with the largest field, else 0."""
    return torch.zeros_like(field).scatter(-1, field.topk(n_on, -1).indices, 1.0)


def completed(codes: Tensor, stored: Tensor, n_on: int) -> Tensor:
    """Five steps of recall by Hebb's rule on stored codes (M, cells) less their mean, n_on cells on at each."""
    centred = stored - stored.mean()
    weights = (centred.T @ centred).fill_diagonal_(0)
    for _ in range(5):
        codes = strongest(codes @ weights, n_on)
    return codes
