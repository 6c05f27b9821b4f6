"""Press and tone, the task of chapter 05: did the tone come within a second of the press?"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from possm_course.chapters.ch02.adam import Adam

KINDS = ("click", "press", "tone")
N_EVENTS, N_TEST = 8, 1000  # events in a trial, trials not trained on


def make_trials(n: int, seed: int, even: bool = False) -> list[Tensor]:
    """Trials of eight events: clicks, one press, which comes first, and one tone.

    The index of the tone says nothing of its lag, unless the events are even.

    Args:
        n: Trials.
        seed: Of the draws.
        even: Whether an event comes every 0.4 s.

    Returns:
        The kinds, as in `KINDS`, shape (n, 8), the times in s, shape (n, 8), and, shape (n,) each,
        the index of the tone, the lag from press to tone in s, and the label: was it soon?
    """
    rng = np.random.default_rng(seed)
    soon = rng.random(n) < 0.5
    if even:
        tone, times = _even_times(soon, rng)
    else:
        tone, times = _uneven_times(soon, rng)
    trial = np.arange(n)
    kind = np.zeros((n, N_EVENTS), int)
    kind[:, 0] = KINDS.index("press")
    kind[trial, tone] = KINDS.index("tone")
    lag = times[trial, tone]
    times = times + rng.uniform(0, 100, (n, 1))  # the clock starts anywhere
    return [torch.tensor(x) for x in (kind, times, tone, lag, soon)]


def _even_times(soon: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The index of the tone (n,) and times (n, 8) in s: here the index is as good as the time."""
    n = len(soon)
    early = rng.integers(1, 3, n)
    late = rng.integers(3, N_EVENTS, n)
    times = np.tile(0.4 * np.arange(N_EVENTS), (n, 1))
    return np.where(soon, early, late), times


def _uneven_times(soon: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The index of the tone (n,) and times (n, 8) in s, in order, the press at 0."""
    n = len(soon)
    tone = rng.integers(1, N_EVENTS, n)
    sign = np.where(soon, -1, 1)
    lag = np.exp(sign * rng.uniform(0.05, 1.5, n))[:, None]  # (n, 1), to either side of 1 s
    u = rng.random((n, N_EVENTS))
    is_before = np.arange(N_EVENTS) < tone[:, None]
    times = np.where(is_before, u * lag, lag + 5 * u)  # clicks before the tone, and in 5 s after
    times[:, 0] = 0
    times[np.arange(n), tone] = lag[:, 0]
    times.sort(1)
    return tone, times


def on_the_index(kind: Tensor, times: Tensor, *rest: Tensor) -> list[Tensor]:
    """The same trials for a network that knows the index alone: as if an event came every 0.4 s.

    Args:
        kind: As `make_trials` gives it, shape (n, 8).
        times: In s, shape (n, 8).
        rest: What else `make_trials` gives.

    Returns:
        The same list with other times.
    """
    index = torch.arange(times.shape[-1], dtype=torch.float64)
    return [kind, 0.4 * index.expand_as(times), *rest]


def train(
    make: Callable[[], nn.Module], data: list[Tensor], seed: int, steps: int = 100
) -> tuple[nn.Module, float]:
    """A network that has learned to say whether the tone came soon.

    Args:
        make: Makes a model; model(kind, times, tone) gives the logits, shape (B,).
        data: Trials, as `make_trials` gives them; the last `N_TEST` are not trained on.
        seed: Of the start and the batches.
        steps: Training steps, of 64 trials.

    Returns:
        The trained model, and its share of right answers on the trials it was not trained on.
    """
    torch.manual_seed(seed)
    model = make()
    adam = Adam([p for p in model.parameters() if p.requires_grad], 0.05)
    kind, times, tone, _, soon = data
    for b in torch.randint(len(kind) - N_TEST, (steps, 64)):
        logits = model(kind[b], times[b], tone[b])
        adam.step(F.binary_cross_entropy_with_logits(logits, soon[b].float()))
    with torch.no_grad():
        yes = model(kind[-N_TEST:], times[-N_TEST:], tone[-N_TEST:]) > 0
    return model.eval(), (yes == soon[-N_TEST:]).double().mean().item()
