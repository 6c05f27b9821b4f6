"""The ring of chapter 18, which sums gradients over processes."""

import torch


def full_after(n: int) -> list[torch.Tensor]:
    """How many gradients are in each chunk of each process after every round of the ring.

    Args:
        n: number of processes, and of chunks.

    Returns:
        For the start and each of the 2 (n - 1) rounds a table [process, chunk], shape (n, n).
    """
    held = torch.ones(n, n, dtype=torch.int64)  # [process, chunk]
    rounds = [held.clone()]
    for i in range(2 * (n - 1)):
        for r in range(n):
            c = (r - i) % n  # the chunk that process r sends
            held[(r + 1) % n, c] = i + 2 if i < n - 1 else n
        rounds.append(held.clone())
    return rounds
