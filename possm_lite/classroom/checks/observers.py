"""What a case observes of a function, and inputs that are the same every time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .compare import as_tensor, ordinal
from .sandbox import Complaint


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers from their own generator."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def call(function: Callable, *args: Any) -> Any:
    """Observe the return value. The default of a case."""
    return function(*args)


float32_result = call  # the precision of an answer is free in all checks


def gradient(*arguments: int) -> Callable:
    """Observe the gradient by some arguments, counted from 0, of a sum that weighs every output differently.

    One argument gives a tensor, several give a dict; an argument that is not used has the gradient zero.
    """

    def observe(function: Callable, *args: Any) -> Any:
        args = [a.clone().requires_grad_() if i in arguments else a for i, a in enumerate(args)]
        output = as_tensor(function(*args))
        if not (isinstance(output, Tensor) and output.requires_grad):
            raise Complaint("no gradient flows back from the result: is there NumPy, .item(), .detach() or no_grad()?")
        weights = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)  # their sum is not zero
        gradients = torch.autograd.grad((output * weights).sum(), [args[i] for i in arguments], materialize_grads=True)
        named = {f"the gradient by the {ordinal(i)} argument": g for i, g in zip(arguments, gradients, strict=True)}
        return named if len(arguments) > 1 else gradients[0]

    return observe
