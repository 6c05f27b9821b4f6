"""An end-to-end memory network: a question reads facts, is updated by the result, and reads again."""

import torch
from torch import Tensor, nn

from possm_lite.nn.attention import attend


def hop(query: Tensor, addresses: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """One read: attention with addresses a (..., N, D) as keys, outputs c as values. Sukhbaatar et al. 2015, eq. 1-2.

    p_n = softmax_n(a_n . q),   r = sum_n p_n c_n   (8.1): the read vector r (..., D) and the weights p (..., N)
    """
    read, weights = attend(query[..., None, :] @ addresses.mT, outputs)  # (..., 1, D), (..., 1, N)
    return read.squeeze(-2), weights.squeeze(-2)


def multi_hop_read(query: Tensor, addresses: Tensor, outputs: Tensor, n_hops: int) -> tuple[Tensor, Tensor]:
    """q <- q + r (8.3) n_hops times: the last q (..., D), all weights (..., n_hops, N). Sukhbaatar et al., eq. 4."""
    weights = []
    for _ in range(n_hops):
        read, p = hop(query, addresses, outputs)
        query = query + read
        weights.append(p)
    return query, torch.stack(weights, dim=-2)


class MemoryNetwork(nn.Module):
    """Answers a question u about facts x_n, with the same A and C in every hop. Sukhbaatar et al. 2015, section 2.

    a_n = A x_n,   c_n = C x_n,   q = B u;   `n_hops` times q <- q + r;   scores = W q
    """

    def __init__(self, n_fact: int, n_question: int, n_answers: int, dim: int = 16, n_hops: int = 2):
        super().__init__()
        self.n_hops = n_hops
        self.address = nn.Linear(n_fact, dim, bias=False)
        self.output = nn.Linear(n_fact, dim, bias=False)
        self.question = nn.Linear(n_question, dim, bias=False)
        self.readout = nn.Linear(dim, n_answers, bias=False)

    def forward(self, facts: Tensor, question: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (B, n_answers) and weights (B, n_hops, N) for facts (B, N, n_fact) and question (B, n_question)."""
        query = self.question(question)  # (B, D)
        query, weights = multi_hop_read(query, self.address(facts), self.output(facts), self.n_hops)
        return self.readout(query), weights
