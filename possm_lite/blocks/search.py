"""Search for the likeliest sequence of an autoregressive model: beam and exhaustive."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

# step(tokens (K,), state) -> (log-probabilities of the next token (K, V), state); a state is None, a tensor or a tuple
# of tensors, each with one row per hypothesis
Step = Callable[[Tensor, Any], tuple[Tensor, Any]]


class Hypothesis(NamedTuple):
    """A sequence and its log-probability."""

    tokens: tuple[int, ...] = ()  # without the begin token, with the end token
    log_prob: float = 0.0  # sum over the tokens, in nats
    finished: bool = False  # whether it ends with the end token; otherwise it was cut off

    def score(self, length_power: float = 0.0) -> float:
        """Summed log-probability over length to a power: log p / |y|^alpha. The end token counts."""
        return self.log_prob / len(self.tokens) ** length_power


def beam_search(
    step: Step, state: Any, *, begin: int, end: int, max_len: int, width: int, length_power: float = 0.0
) -> list[Hypothesis]:
    """The `width` best hypotheses at every length.

        score(y) = sum_t log p(y_t | y_1 ... y_{t-1}) / |y|^alpha                                    (7.7)

    A finished hypothesis stays in the beam as long as its score suffices; only the others are extended. `state` is that
    of the first call of `step`, with one row. A beam of one is greedy search; length_power is alpha, 0 for no
    normalisation, 1 for the mean per token. Returns up to `width` hypotheses, best first.
    Source: Sutskever et al. 2014, section 3.2; for the length Wu et al. 2016, section 7 (there another penalty).
    """
    beam = [Hypothesis()]
    while any(not y.finished for y in beam):
        unfinished = [y for y in beam if not y.finished]
        if len(unfinished[0].tokens) == max_len:
            break
        tokens = torch.tensor([y.tokens[-1] if y.tokens else begin for y in unfinished])
        log_probs, state = step(tokens, state)  # (K, V)
        # of one hypothesis all continuations have one length, so the likeliest are also the best by any length power
        best, token = log_probs.double().topk(min(width, log_probs.shape[-1]), -1)  # (K, width)
        candidates = [(y, None) for y in beam if y.finished]
        candidates += [
            (Hypothesis((*y.tokens, v), y.log_prob + log_p, v == end), row)
            for row, y in enumerate(unfinished)
            for log_p, v in zip(best[row].tolist(), token[row].tolist(), strict=True)
            if log_p > -torch.inf
        ]
        candidates.sort(key=lambda pair: -pair[0].score(length_power))
        selected = candidates[:width]
        beam = [y for y, _ in selected]
        state = _rows(state, [row for y, row in selected if not y.finished])
    return beam


def exhaustive_search(
    step: Step, state: Any, *, begin: int, end: int, max_len: int, length_power: float = 0.0
) -> Hypothesis:
    """The best of all sequences: up to V^max_len of them, so only for the smallest examples."""

    def complete(so_far: Hypothesis, state: Any) -> Iterator[Hypothesis]:
        if so_far.finished or len(so_far.tokens) == max_len:
            yield so_far
            return
        log_probs, state = step(torch.tensor([so_far.tokens[-1] if so_far.tokens else begin]), state)
        for v, log_p in enumerate(log_probs[0].double().tolist()):
            if log_p > -torch.inf:
                yield from complete(Hypothesis((*so_far.tokens, v), so_far.log_prob + log_p, v == end), state)

    return max(complete(Hypothesis(), state), key=lambda y: y.score(length_power))


def _rows(state: Any, rows: list[int]) -> Any:
    """The states of these rows: each selected hypothesis continues its parent's."""
    if state is None or not rows:
        return state
    if isinstance(state, tuple):
        return tuple(_rows(part, rows) for part in state)
    return state[torch.tensor(rows)]
