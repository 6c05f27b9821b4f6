"""Search for the likeliest sequence of an autoregressive model: greedy, beam and exhaustive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# step(tokens (K,), state) -> (log-probabilities of the next token (K, V), state); a state is None, a tensor or a tuple
# of tensors, each with one row per hypothesis
Step = Callable[[Tensor, Any], tuple[Tensor, Any]]


@dataclass(frozen=True)
class Hypothesis:
    """A sequence and its log-probability.

    Args:
        tokens: without the begin token, with the end token.
        log_prob: sum of the log-probabilities of the tokens, in nats.
        finished: whether it ends with the end token; otherwise it was cut off.
    """

    tokens: tuple[int, ...]
    log_prob: float
    finished: bool

    def score(self, length_power: float = 0.0) -> float:
        """Summed log-probability over length to a power: log p / |y|^alpha. The end token counts."""
        return self.log_prob / len(self.tokens) ** length_power if self.tokens else self.log_prob


def greedy_search(step: Step, state: Any, *, begin: int, end: int, max_len: int) -> Hypothesis:
    """The likeliest token, then the likeliest after it, and so on, until `end` or `max_len` tokens.

    Args:
        step: as `Step`; state: of its first call, with one row.
    """
    return beam_search(step, state, begin=begin, end=end, max_len=max_len, width=1)[0]


def beam_search(
    step: Step, state: Any, *, begin: int, end: int, max_len: int, width: int, length_power: float = 0.0
) -> list[Hypothesis]:
    """The `width` best hypotheses at every length.

        score(y) = sum_t log p(y_t | y_1 ... y_{t-1}) / |y|^alpha

    A finished hypothesis stays in the beam as long as its score suffices; only the others are extended.

    Args:
        step: as `Step`; state: of its first call, with one row.
        width: hypotheses in the beam (k); length_power: alpha, 0 for no normalisation, 1 for the mean per token.

    Returns:
        Up to `width` hypotheses, best first.

    Raises:
        ValueError: width or max_len is below 1.

    Source: Sutskever et al. 2014, section 3.2; Wu et al. 2016, section 7, for the length (their penalty has another
    form).
    """
    if width < 1 or max_len < 1:
        raise ValueError(f"width and max_len must be at least 1, got {width} and {max_len}.")
    beam = [Hypothesis((), 0.0, False)]
    while any(not y.finished for y in beam):
        unfinished = [y for y in beam if not y.finished]
        if len(unfinished[0].tokens) == max_len:
            break
        tokens = torch.tensor([y.tokens[-1] if y.tokens else begin for y in unfinished])
        log_probs, state = step(tokens, state)  # (K, V)
        candidates = [(y, None) for y in beam if y.finished]
        candidates += _extended(unfinished, log_probs, end, width)
        candidates.sort(key=lambda pair: -pair[0].score(length_power))  # stable: earlier tokens first
        selected = candidates[:width]
        beam = [y for y, _ in selected]
        state = _rows(state, [row for y, row in selected if not y.finished])
    return beam


def exhaustive_search(
    step: Step, state: Any, *, begin: int, end: int, max_len: int, length_power: float = 0.0
) -> Hypothesis:
    """The best of all sequences: V^max_len of them, so only for the smallest examples."""
    complete = _all_sequences(step, state, Hypothesis((), 0.0, False), begin, end, max_len)
    return max(complete, key=lambda y: y.score(length_power))


def _extended(unfinished: list[Hypothesis], log_probs: Tensor, end: int, width: int) -> list[tuple[Hypothesis, int]]:
    """The `width` likeliest continuations of each hypothesis, with the row of their parent.

    Of one hypothesis all continuations have one length, so the likeliest are also the best by any length power.
    """
    best, token = log_probs.double().topk(min(width, log_probs.shape[-1]), -1)  # (K, width)
    return [
        (Hypothesis((*y.tokens, v), y.log_prob + log_p, v == end), row)
        for row, y in enumerate(unfinished)
        for log_p, v in zip(best[row].tolist(), token[row].tolist(), strict=True)
        if log_p > -torch.inf
    ]


def _rows(state: Any, rows: list[int]) -> Any:
    """The states of these rows: each selected hypothesis continues its parent's."""
    if state is None or not rows:
        return state
    if isinstance(state, tuple):
        return tuple(_rows(part, rows) for part in state)
    return state[torch.tensor(rows)]


def _all_sequences(step: Step, state: Any, so_far: Hypothesis, begin: int, end: int, max_len: int):
    if so_far.finished or len(so_far.tokens) == max_len:
        yield so_far
        return
    log_probs, state = step(torch.tensor([so_far.tokens[-1] if so_far.tokens else begin]), state)
    for v, log_p in enumerate(log_probs[0].double().tolist()):
        if log_p > -torch.inf:
            longer = Hypothesis((*so_far.tokens, v), so_far.log_prob + log_p, v == end)
            yield from _all_sequences(step, state, longer, begin, end, max_len)
