"""Networks of one form with different seeds, trained side by side as a single one."""

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


class Stacked(nn.Module):
    """S linear layers as one: the first S-th of the batch goes through the first of them, and so on."""

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
        y = x.reshape(len(self.weight), -1, x.shape[-1]) @ self.weight.mT  # (S, rows, out)
        return (y if self.bias is None else y + self.bias).view(*x.shape[:-1], -1)


def seeded(make, n_seeds: int) -> list:
    """n_seeds networks, network i with the random numbers of seed i."""
    networks = []
    for seed in range(n_seeds):
        torch.manual_seed(seed)
        networks.append(make())
    return networks


def side_by_side(networks: list[nn.Module]) -> nn.Module:
    """One network that is all of them: every linear layer is `Stacked`."""
    for name, _ in list(networks[0].named_children()):
        setattr(networks[0], name, Stacked([getattr(network, name) for network in networks]))
    return networks[0]


def train(network: nn.Module, losses, steps: int, learning_rate: float) -> Tensor:
    """Adam on losses() (S,), one for each network. The rate falls to zero over the last third. Gives (steps, S)."""
    weights, history = list(network.parameters()), []
    means, squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    counts = [torch.zeros(()) for _ in weights]
    how = {
        "beta1": 0.9,
        "beta2": 0.999,
        "eps": 1e-8,
        "weight_decay": 0.0,
        "amsgrad": False,
        "maximize": False,
    }
    for i in range(steps):
        loss = losses()  # (S,)
        network.zero_grad()
        loss.sum().backward()  # the networks share nothing, so each gets the gradient of its own loss
        nn.utils.clip_grad_value_(weights, 1.0)
        slopes, rate = [w.grad for w in weights], learning_rate * min(1, 3 * (1 - i / steps))
        with (
            torch.no_grad()
        ):  # as a function: the class imports torch._dynamo, which takes longer than a training
            adam(weights, slopes, means, squares, [], counts, fused=True, lr=rate, **how)
        history.append(loss.detach())
    return torch.stack(history)
