"""Beam search for the likeliest sequence of an autoregressive model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

# step(tokens (K,), state) -> (log-probabilities of the next token (K, V), state)
# A state is None, a tensor or a tuple of tensors, each with one row per hypothesis.
Step = Callable[[Tensor, Any], tuple[Tensor, Any]]


class Hypothesis(NamedTuple):
    """A sequence and its log-probability.

    Attributes:
        tokens: Without the begin token, with the end token.
        log_prob: The sum over the tokens, in nats.
        finished: Whether it ends with the end token; otherwise it was cut off.
    """

    tokens: tuple[int, ...] = ()
    log_prob: float = 0.0
    finished: bool = False

    def score(self, length_power: float = 0.0) -> float:
        """log p / |y|^alpha with alpha = `length_power`; the end token counts."""
        return self.log_prob / len(self.tokens) ** length_power


def beam_search(
    step: Step,
    state: Any,
    *,
    begin: int,
    end: int,
    max_len: int,
    width: int,
    length_power: float = 0.0,
) -> list[Hypothesis]:
    """Keeps the best hypotheses at every length; with a width of 1 it is greedy search.

        score(y) = sum_t log p(y_t | y_1 ... y_{t-1}) / |y|^alpha        (7.10)

    Args:
        step: step(tokens, state) gives the log-probabilities of the next token, shape (K, V), and
            the next state, from the last tokens of K hypotheses, shape (K,).
        state: The first state, of one row.
        begin: The token before the first.
        end: The token after which a hypothesis is finished.
        max_len: Tokens of a hypothesis at most.
        width: How many hypotheses are kept.
        length_power: alpha.

    Returns:
        The hypotheses, best first.

    Source: Sutskever et al. 2014, section 3.2; for the length Wu et al. 2016, section 7.
    """
    beam = [Hypothesis()]
    while any(not y.finished for y in beam):
        unfinished = [y for y in beam if not y.finished]
        if len(unfinished[0].tokens) == max_len:
            break
        tokens = torch.tensor([y.tokens[-1] if y.tokens else begin for y in unfinished])
        log_probs, state = step(tokens, state)  # (K, V)
        candidates = [(y, None) for y in beam if y.finished]  # (hypothesis, row of its parent)
        candidates += _continued(unfinished, log_probs, width, end)
        candidates.sort(key=lambda pair: -pair[0].score(length_power))
        selected = candidates[:width]
        beam = [y for y, _ in selected]
        state = _rows(state, [row for y, row in selected if not y.finished])
    return beam


def _continued(
    hypotheses: list[Hypothesis], log_probs: Tensor, width: int, end: int
) -> list[tuple[Hypothesis, int]]:
    """The `width` likeliest continuations of K hypotheses, with their rows in log_probs (K, V).

    All continuations of one have one length, so the likeliest are the best by any length power.
    """
    best, token = log_probs.double().topk(min(width, log_probs.shape[-1]), -1)  # (K, width)
    continued = []
    for row, y in enumerate(hypotheses):
        for log_p, v in zip(best[row].tolist(), token[row].tolist(), strict=True):
            if log_p > -torch.inf:
                longer = Hypothesis((*y.tokens, v), y.log_prob + log_p, v == end)
                continued.append((longer, row))
    return continued


def _rows(state: Any, rows: list[int]) -> Any:
    """The rows of a state, a parent's for each selected hypothesis."""
    if state is None or not rows:
        return state
    if isinstance(state, tuple):
        return tuple(_rows(part, rows) for part in state)
    return state[torch.tensor(rows)]
