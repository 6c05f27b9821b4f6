"""What chapter 09 measures: memories that fit, effects of damage, Cover's count, sparse codes."""

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
    """Random units of -1 and 1.

    Args:
        shape: of the result.
        seed: of the random numbers.

    Returns:
        Units, float32.
    """
    return torch.randint(0, 2, shape, generator=Generator().manual_seed(seed)) * 2.0 - 1


def recalled_share(
    d: int, n_memories: int, n_wrong: int, modern: bool, beta: float = 1.0
) -> Tensor:
    """The share of cues that end exactly at their memory, for five sets of random memories.

    Args:
        d: units of a memory.
        n_memories: memories in a set, of which up to 50 are looked for.
        n_wrong: units of a cue that are wrong.
        modern: one update of `modern_hopfield`; else recall by Hebb's weights.
        beta: inverse temperature of the modern one.

    Returns:
        Share between 0 and 1 of each set, shape (5,).
    """
    memories = coins(5, n_memories, d, seed=1000 * d + n_memories)
    wanted = memories[:, :50]  # (5, up to 50, d)
    cues = corrupt(wanted, n_wrong, Generator().manual_seed(d))
    if modern:
        ends = modern_hopfield(cues, memories, beta).sign()
    else:
        ends = recall(cues, hebb_weights(memories))
    return (ends == wanted).all(-1).float().mean(-1)


def half_recalled(
    d: int, n_wrong: int, modern: bool, beta: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How many memories fit: where the share recalled falls below one half, linear in log M.

    Args:
        d: units of a memory.
        n_wrong: units of a cue that are wrong.
        modern: as in `recalled_share`.
        beta: as in `recalled_share`.

    Returns:
        Numbers of memories (K,), shares recalled (K, sets), and the capacity of each set (sets,).

    Raises:
        ValueError: fewer than half of the cues come back to a single memory.
    """
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
                f"d = {d}, {n_wrong} wrong: "
                "fewer than half of the cues come back to a single memory."
            )
        part = (share[k - 1] - 0.5) / (share[k - 1] - share[k])
        capacity.append(counts[k - 1] * 2**part)
    return counts, shares, np.array(capacity)


def cut(weights: Tensor, share: float, generator: Generator) -> Tensor:
    """Weights of which connections are gone, in both directions.

    Args:
        weights: shape (N, N).
        share: probability of each connection to be gone.
        generator: source of the random numbers.

    Returns:
        The weights with zeros, shape (N, N).
    """
    present = torch.rand(weights.shape, generator=generator).triu(1) > share
    return weights * (present | present.T)


def after_damage(n_patterns: int, share: float, seed: int) -> list[float]:
    """Overlaps after recall with a share of the storage lost, from cues with 14 wrong units.

    Args:
        n_patterns: number of stored patterns of 144 units.
        share: share of connections, or of numbers in a table, that is lost.
        seed: of patterns, cues and damage.

    Returns:
        Mean overlaps with the patterns, between -1 and 1: of a Hopfield network, of a table of the
        patterns, and of a table in twelve copies that vote.
    """
    generator = Generator().manual_seed(seed)
    stored = coins(n_patterns, 144, seed=200 + seed)
    cues = corrupt(stored, 14, generator)
    ends = recall(cues, cut(hebb_weights(stored), share, generator), max_sweeps=10)
    present = torch.rand(12, n_patterns, 144, generator=generator) >= share
    copies = stored * present  # a lost number is 0
    one_table = sign_or_keep(copies[0], cues)
    all_tables = sign_or_keep(copies.sum(0), cues)
    return [float((state * stored).mean()) for state in (ends, one_table, all_tables)]


def cover_share(m: int, n: int) -> float:
    """The share of all labels of `m` points in general position that a unit can produce (9.16).

    Args:
        m: number of points.
        n: number of inputs of the unit.

    Returns:
        Share between 0 and 1.
    """
    return sum(math.comb(m - 1, r) for r in range(n)) / 2 ** (m - 1)


def separable(inputs: np.ndarray, labels: np.ndarray) -> bool:
    """Whether weights (n,) exist with labels = sign(inputs @ weights): a linear program.

    Args:
        inputs: points, shape (M, n).
        labels: -1 or 1, shape (M,).

    Returns:
        True if the weights exist.
    """
    n = inputs.shape[1]
    return (
        linprog(
            np.zeros(n), -labels[:, None] * inputs, -np.ones(len(labels)), bounds=(None, None)
        ).status
        == 0
    )


def strongest(field: Tensor, n_on: int) -> Tensor:
    """A sparse code: 1 for the cells with the largest field, else 0.

    Args:
        field: shape (..., cells).
        n_on: number of cells that are 1.

    Returns:
        The code, shape (..., cells).
    """
    return torch.zeros_like(field).scatter(-1, field.topk(n_on, -1).indices, 1.0)


def completed(codes: Tensor, stored: Tensor, n_on: int) -> Tensor:
    """Five steps of recall by Hebb's rule on stored codes less their mean.

    Args:
        codes: cues, shape (K, cells).
        stored: stored codes, shape (M, cells).
        n_on: cells that are on after each step.

    Returns:
        Codes, shape (K, cells).
    """
    centred = stored - stored.mean()
    weights = (centred.T @ centred).fill_diagonal_(0)
    for _ in range(5):
        codes = strongest(codes @ weights, n_on)
    return codes
