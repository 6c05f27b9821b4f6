"""Adam for short trainings, of one network or of several that stand side by side in one tensor."""

from collections.abc import Iterable

import torch
from torch import Tensor


class Adam:
    """Adam with beta_1 = 0.9 and beta_2 = 0.99, for short trainings.

    The first use of torch.optim imports torch's compiler, which takes a second or two.

    Args:
        weights: The tensors to train. Where runs are trained side by side, they are the first axis
            of each, shape (runs, ...).
        rates: The step size for all weights, or one for each run, shape (runs,).

    Attributes:
        steps: How many steps have been taken.
        means: The running means of the gradients, in the shapes of the weights.
        squares: The running means of their squares, in the shapes of the weights.

    Source: Kingma and Ba 2015, algorithm 1.
    """

    def __init__(self, weights: Iterable[Tensor], rates: float | Tensor):
        self.weights = [*weights]
        self.steps = 0
        if isinstance(rates, Tensor):
            other_axes = [1] * (self.weights[0].dim() - 1)
            rates = rates.view(-1, *other_axes)  # (runs, 1, ...)
        self.rates = rates
        self.means = [torch.zeros_like(x) for x in self.weights]
        self.squares = [torch.zeros_like(x) for x in self.weights]

    def step(self, loss: Tensor) -> None:
        """Take one step down the gradient.

        Args:
            loss: What to make smaller, shape (); the sum over the runs, where there are several.
        """
        self.steps += 1
        gradients = torch.autograd.grad(loss, self.weights, materialize_grads=True)
        for x, mean, square, gradient in zip(
            self.weights, self.means, self.squares, gradients, strict=True
        ):
            mean.lerp_(gradient, 0.1)
            square.lerp_(gradient.square(), 0.01)
            unbiased_mean = mean / (1 - 0.9**self.steps)
            unbiased_square = square / (1 - 0.99**self.steps)
            x.data -= self.rates * unbiased_mean / (unbiased_square.sqrt() + 1e-8)
