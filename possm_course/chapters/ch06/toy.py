"""The game of chapter 06, how networks start and learn it, and what is measured of a layer (path and deeper)."""

import json
from collections.abc import Callable, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor, nn
from torch.optim import AdamW

from possm_course.chapters.ch06.unrolled import WithOutput, gradients_through_time
from possm_course.stored import result
from possm_lite.nn.recurrent import GRU, LSTM, RNN

N_LAMPS, N_BINS = 4, 22
ROWS = ["A", "B", "C", "D", "beep", "?"]
KINDS = {"RNN": RNN, "GRU": GRU, "LSTM": LSTM}
N_UNITS = {"RNN": 45, "GRU": 24, "LSTM": 24}  # in training: 2385, 2304 and 3072 weights in the layer


def play(n: int, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """n games: inputs x (n, T, 6), four lamps, beep, question mark; and the lamp to remember, (n,)."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    lamp = torch.randint(N_LAMPS, (n, N_BINS), generator=generator)
    x = torch.zeros(n, N_BINS, N_LAMPS + 2)
    x[:, :-1, :N_LAMPS] = nn.functional.one_hot(lamp[:, :-1], N_LAMPS).float()
    x[:, 0, N_LAMPS] = 1  # the beep
    x[:, -1, N_LAMPS + 1] = 1  # the question mark; no lamp with it
    return x, lamp[:, 0]


def silent(n: int, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """The game without the twenty flashes in between."""
    x, answer = play(n, seed)
    x[:, 1:-1, :N_LAMPS] = 0
    return x, answer


def start(kind: str, good: bool, n_units: int = 24) -> nn.RNNBase:
    """A layer as torch starts it, or with a good start: W_hh orthogonal, or the bias of the gate that keeps at 3."""
    layer = KINDS[kind](6, n_units)
    if good and kind == "RNN":
        return rotating(layer)
    if good:
        with torch.no_grad():  # the second block, in a GRU and in an LSTM
            layer.bias_ih_l0[n_units : 2 * n_units] = 3
            layer.bias_hh_l0[n_units : 2 * n_units] = 0
    return layer


@torch.no_grad()
def rotating(layer: RNN, radius: float = 1.0) -> RNN:
    """The layer with an orthogonal W_hh times radius, and without bias."""
    layer.weight_hh_l0.copy_(radius * nn.init.orthogonal_(torch.empty_like(layer.weight_hh_l0)))
    layer.bias_ih_l0.zero_()
    layer.bias_hh_l0.zero_()
    return layer


@torch.no_grad()
def frozen(layer: GRU) -> GRU:
    """The same GRU with R = 1 for good."""
    for weight in layer.all_weights[0]:
        weight[: layer.hidden_size] = 0
    layer.bias_ih_l0[: layer.hidden_size] = 50  # no gradient passes this sigmoid
    return layer


def five(make: Callable) -> list:
    """One layer for each of five seeds."""
    layers = []
    for seed in range(5):
        torch.manual_seed(seed)
        layers.append(make())
    return layers


@torch.no_grad()
def trace(layer: nn.RNNBase, x: Tensor) -> Tensor:
    """Distance of the states of two games that differ in the first lamp alone; first bin: 1. Gives (T,)."""
    other = x.clone()
    other[:, 0, :N_LAMPS] = x[:, 0, :N_LAMPS].roll(1, -1)
    distance = (layer(x)[0] - layer(other)[0]).norm(dim=-1).mean(0)  # (T,)
    return distance / distance[0]


def reach(layer: nn.RNNBase, x: Tensor) -> Tensor:
    """Norm of dH_T/dS_t, mean over games, from t = T back to t = 0: (T + 1,)."""
    return torch.linalg.matrix_norm(gradients_through_time(layer, x), 2).mean(1).flip(0)


def band(axes: Axes, steps: Sequence, curves: Sequence, color: str, style: str, label: str) -> None:
    """Mean of curves (seeds, T) as a line, smallest to largest as a band."""
    curves = np.stack([np.asarray(curve) for curve in curves])  # NumPy 1.24 stacks no tensors
    axes.plot(steps, curves.mean(0), style, color=color, lw=2, label=label)
    axes.fill_between(steps, curves.min(0), curves.max(0), color=color, alpha=0.2, lw=0)


def adam(weights: list) -> torch.optim.Optimizer:
    return AdamW(weights, lr=0.01, weight_decay=0.0)


def fit(layer: nn.RNNBase, games: Callable, n_steps: int, optimizer: Callable = adam, max_norm: float = 1.0):
    """Train a layer and its output layer on the answer in the last bin, 32 games a step.

    Gives the model, and the loss and the norm of the gradient of every step.
    """
    model = WithOutput(layer, N_LAMPS)
    optimizer = optimizer(list(model.parameters()))
    losses, norms = [], []
    with torch.enable_grad():
        for _ in range(n_steps):
            x, answer = games(32)
            loss = nn.functional.cross_entropy(model(x)[:, -1], answer)
            optimizer.zero_grad()
            loss.backward()
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
            optimizer.step()
            losses.append(loss.item())
    return model, losses, norms


def learn_game(kind: str, good: bool, seed: int, n_steps: int = 160) -> tuple[WithOutput, list, float]:
    """A model after training, its losses, and the share of 500 new games in which it is right."""
    torch.manual_seed(seed)
    model, losses, _ = fit(start(kind, good, N_UNITS[kind]), play, n_steps)
    return model, losses, won(model)


def run(kind: str, good: bool, seed: int, n_steps: int = 160) -> dict:
    """A training in numbers: losses as means of ten steps, the share of games won, the trace of the lamp (T,)."""
    model, losses, share = learn_game(kind, good, seed, n_steps)
    return {
        "losses": np.reshape(losses, (-1, 10)).mean(-1).round(3).tolist(),
        "share": round(share, 3),
        "trace": trace(model.layer, play(200, seed=1)[0]).double().numpy().round(4).tolist(),
    }


def stored_runs() -> dict[tuple[str, bool], list[dict]]:
    """What experiments/ch06_game.py has trained: for each kind and start the `run` of four seeds."""
    stored = json.loads(result("ch06_game.json").read_text(encoding="utf-8"))
    return {(kind, start == "good"): runs for kind in stored for start, runs in stored[kind].items()}


@torch.no_grad()
def won(model: WithOutput) -> float:
    x, answer = play(500, seed=3)
    return (model(x)[:, -1].argmax(-1) == answer).float().mean().item()


def paths(n: int) -> tuple[Tensor, Tensor]:
    """n velocities with beeps, (n, 12, 2), and the way since the last beep, (n, 12)."""
    v, beep = 0.3 * torch.randn(n, 12), torch.rand(n, 12) < 0.15
    way, now = [], torch.zeros(n)
    for t in range(12):
        now = torch.where(beep[:, t], 0, now) + v[:, t]
        way.append(now)
    return torch.stack([v, beep.float()], -1), torch.stack(way, 1)


def integrate(n_units: int, form: Callable, seed: int, n_steps: int = 200) -> tuple[WithOutput, float]:
    """A GRU, `form` of it, that has learned to add up the way; and its error on 500 new paths."""
    torch.manual_seed(99)
    new_paths, new_way = paths(500)
    torch.manual_seed(seed)
    model = WithOutput(form(GRU(2, n_units)), 1)
    optimizer = adam(list(model.parameters()))
    with torch.enable_grad():
        for _ in range(n_steps):
            x, way = paths(32)
            loss = (model(x)[..., 0] - way).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return model, (model(new_paths)[..., 0] - new_way).square().mean().sqrt().item()
