"""An end-to-end memory network: a question reads facts, is updated by the result, reads again."""

import torch
from torch import Tensor, nn

from possm_lite.nn.attention import attend


def hop(query: Tensor, addresses: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """One read: attention with addresses a as keys and outputs c as values.

        p_n = softmax_n(a_n . q),   r = sum_n p_n c_n                                        (8.1)

    Args:
        query: q, shape (..., D).
        addresses: a_n, shape (..., N, D).
        outputs: c_n, shape (..., N, D).

    Returns:
        The read vector r, shape (..., D), and the weights p, shape (..., N).

    Source: Sukhbaatar et al. 2015, eq. 1-2.
    """
    read, weights = attend(query[..., None, :] @ addresses.mT, outputs)  # (..., 1, D), (..., 1, N)
    return read.squeeze(-2), weights.squeeze(-2)


def multi_hop_read(
    query: Tensor, addresses: Tensor, outputs: Tensor, n_hops: int
) -> tuple[Tensor, Tensor]:
    """Several reads, each with the query updated by the result: q <- q + r (8.3).

    Args:
        query: q before the first read, shape (..., D).
        addresses: a_n, shape (..., N, D).
        outputs: c_n, shape (..., N, D).
        n_hops: number of reads.

    Returns:
        The last query, shape (..., D), and the weights of all reads, shape (..., n_hops, N).

    Source: Sukhbaatar et al. 2015, eq. 4.
    """
    weights = []
    for _ in range(n_hops):
        read, p = hop(query, addresses, outputs)
        query = query + read
        weights.append(p)
    return query, torch.stack(weights, dim=-2)


class MemoryNetwork(nn.Module):
    """Answers a question u about facts x_n, with the same A and C in every hop.

        a_n = A x_n,   c_n = C x_n,   q = B u;   `n_hops` times q <- q + r;   scores = W q

    Args:
        n_fact: size of a fact x_n.
        n_question: size of the question u.
        n_answers: number of possible answers.
        dim: D, size of queries, addresses and outputs.
        n_hops: number of reads.

    Source: Sukhbaatar et al. 2015, section 2.
    """

    def __init__(
        self, n_fact: int, n_question: int, n_answers: int, dim: int = 16, n_hops: int = 2
    ):
        super().__init__()
        self.n_hops = n_hops
        self.address = nn.Linear(n_fact, dim, bias=False)
        self.output = nn.Linear(n_fact, dim, bias=False)
        self.question = nn.Linear(n_question, dim, bias=False)
        self.readout = nn.Linear(dim, n_answers, bias=False)

    def forward(self, facts: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the answers, and what was read for them.

        Args:
            facts: x_n, shape (B, N, n_fact).
            question: u, shape (B, n_question).

        Returns:
            Scores, shape (B, n_answers), and weights, shape (B, n_hops, N).
        """
        query = self.question(question)  # (B, D)
        query, weights = multi_hop_read(query, self.address(facts), self.output(facts), self.n_hops)
        return self.readout(query), weights
