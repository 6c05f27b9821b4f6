"""Networks of one form with different seeds, trained side by side as a single one."""

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


class Stacked(nn.Module):
    """S linear layers as one: the first S-th of the batch goes through the first layer, and so on.

    Args:
        layers: S layers of the same sizes, with or without bias.
    """

    def __init__(self, layers: list[nn.Linear]):
        super().__init__()
        self.weight = nn.Parameter(
            torch.stack([layer.weight.detach() for layer in layers])
        )  # (S, out, in)
        self.bias = None
        if layers[0].bias is not None:
            self.bias = nn.Parameter(
                torch.stack([layer.bias.detach()[None] for layer in layers])
            )  # (S, 1, out)

    def forward(self, x: Tensor) -> Tensor:
        """The layers' outputs (..., out), one after the other in the batch.

        Args:
            x: inputs (S b, ..., in); the i-th b rows are those of layer i.
        """
        y = x.reshape(len(self.weight), -1, x.shape[-1]) @ self.weight.mT  # (S, rows, out)
        return (y if self.bias is None else y + self.bias).view(*x.shape[:-1], -1)


def seeded(make, n_seeds: int) -> list:
    """Networks that differ in their random start.

    Args:
        make: makes a network, without arguments.
        n_seeds: number of networks.

    Returns:
        The networks; number i was made with the random numbers of seed i.
    """
    networks = []
    for seed in range(n_seeds):
        torch.manual_seed(seed)
        networks.append(make())
    return networks


def side_by_side(networks: list[nn.Module]) -> nn.Module:
    """One network that is all of them: every linear layer becomes a `Stacked`.

    Args:
        networks: S networks of the same form. The first is changed in place.

    Returns:
        The first network, whose batch holds the S parts of the batch one after the other.
    """
    for name, _ in list(networks[0].named_children()):
        setattr(networks[0], name, Stacked([getattr(network, name) for network in networks]))
    return networks[0]


def train(network: nn.Module, losses, steps: int, learning_rate: float) -> Tensor:
    """Trains networks in place by Adam; the learning rate falls to zero over the last third.

    Args:
        network: S networks as one, as from `side_by_side`.
        losses: gives the loss (S,) of one step, one for each network; called once a step.
        steps: number of steps.
        learning_rate: of the first two thirds of the steps.

    Returns:
        The loss of each step, shape (steps, S).
    """
    weights = list(network.parameters())
    means = [torch.zeros_like(w) for w in weights]
    squares = [torch.zeros_like(w) for w in weights]
    counts = [torch.zeros(()) for _ in weights]
    how = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
    how |= {"amsgrad": False, "maximize": False}
    history = []
    for i in range(steps):
        loss = losses()  # (S,)
        network.zero_grad()
        # the networks share nothing, so each gets the gradient of its own loss
        loss.sum().backward()
        nn.utils.clip_grad_value_(weights, 1.0)
        gradients = [w.grad for w in weights]
        rate = learning_rate * min(1, 3 * (1 - i / steps))
        # as a function: the class imports torch._dynamo, which takes longer than a training
        with torch.no_grad():
            adam(weights, gradients, means, squares, [], counts, fused=True, lr=rate, **how)
        history.append(loss.detach())
    return torch.stack(history)
