"""What a training step costs: processor time and memory kept (chapter 18)."""

import time
from collections.abc import Callable

import torch
from torch.optim import AdamW

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import SpikeBatch


def fastest_s(*functions: Callable[[], None], times: int = 4) -> list[float]:
    """The least processor time of some functions, called in turns.

    Time spent waiting for other programs is not counted.

    Args:
        functions: called without arguments.
        times: calls of each that count, after one that does not.

    Returns:
        Time of each in s.
    """
    seconds = [[] for _ in functions]
    for _ in range(times + 1):
        for own, function in zip(seconds, functions, strict=True):
            began = time.process_time()
            function()
            own.append(time.process_time() - began)
    return [min(own[1:]) for own in seconds]


def make_step(n_units: int, batch: SpikeBatch) -> Callable[[], None]:
    """A whole training step of a decoder, as a function to be timed.

    Args:
        n_units: units that the decoder knows.
        batch: what it is trained on.

    Returns:
        The function, without arguments.
    """
    model = POSSM(POSSMConfig(n_units))
    optimizer = AdamW(model.parameters(), fused=True)
    session = torch.ones(batch.n_trials, dtype=torch.int64)

    def step():
        optimizer.zero_grad()
        (model(batch, batch.times_s, session) - batch.behavior).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def make_update(n_units: int) -> Callable[[], None]:
    """What a step does to the embeddings of units that nobody reads, as a function to be timed.

    Args:
        n_units: number of these units.

    Returns:
        The function, without arguments.
    """
    table = torch.nn.Parameter(torch.randn(n_units, 64))
    optimizer = AdamW([table], fused=True)

    def step():
        table.grad = torch.zeros_like(table)
        torch.nn.utils.clip_grad_norm_([table], 1.0)
        optimizer.step()

    return step


def kept_bytes(forward: Callable[[], torch.Tensor]) -> int:
    """Bytes of all tensors that a forward pass keeps for the backward pass, each counted once.

    Args:
        forward: the forward pass, without arguments; gives a tensor.

    Returns:
        Bytes; 0 if the result needs no gradient.
    """
    kept = {}

    def remember(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(remember, lambda tensor: tensor):
        output = forward()
    return sum(kept.values()) if output.requires_grad else 0
