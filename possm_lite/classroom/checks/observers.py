"""What a case observes of a function, and inputs that are the same every time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers from their own generator."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def call(function: Callable, *args: Any) -> Any:
    """Observe the return value. The default of a case."""
    return function(*args)


def float32_result(function: Callable, *args: Any) -> Any:
    """Observe the return value in float32: for exercises in which the precision of the answer is free."""
    result = function(*args)
    return result.float() if isinstance(result, Tensor) and not result.is_complex() else result


def gradient(*arguments: int) -> Callable:
    """Observe the gradient by some arguments, counted from 0, of a sum that weighs every output differently.

    One argument gives a tensor, several give a tuple; an argument that is not used has the gradient zero.
    """

    def observe(function: Callable, *args: Any) -> Any:
        args = [a.clone().requires_grad_() if i in arguments else a for i, a in enumerate(args)]
        output = function(*args)
        if not (isinstance(output, Tensor) and output.requires_grad):
            raise RuntimeError("no gradient flows back from the result. Is there a .item(), .detach() or no_grad()?")
        weights = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)  # their sum is not zero
        gradients = torch.autograd.grad((output * weights).sum(), [args[i] for i in arguments], materialize_grads=True)
        return gradients if len(arguments) > 1 else gradients[0]

    return observe
