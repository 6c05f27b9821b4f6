"""The game of chapter 06, how networks start and learn it, and what is measured of a layer."""

import json
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from possm_course.chapters.ch06.unrolled import WithOutput, gradients_through_time
from possm_course.stored import result
from possm_lite.nn.recurrent import GRU, LSTM, RNN

N_LAMPS, N_BINS = 4, 22
ROWS = ["A", "B", "C", "D", "beep", "?"]
KINDS = {"RNN": RNN, "GRU": GRU, "LSTM": LSTM}
# in training: 2385, 2304 and 3072 weights in the layer
N_UNITS = {"RNN": 45, "GRU": 24, "LSTM": 24}


def play(n: int, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """Games: a lamp flashes in every bin, and the first, with a beep, is asked for at the end.

    Args:
        n: How many games.
        seed: Of the draws; None draws from torch's own generator.

    Returns:
        The inputs, four lamps, beep and question mark, shape (n, T, 6), and the lamp to remember,
        shape (n,).
    """
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    lamp = torch.randint(N_LAMPS, (n, N_BINS), generator=generator)
    x = torch.zeros(n, N_BINS, N_LAMPS + 2)
    x[:, :-1, :N_LAMPS] = nn.functional.one_hot(lamp[:, :-1], N_LAMPS).float()
    x[:, 0, N_LAMPS] = 1  # the beep
    x[:, -1, N_LAMPS + 1] = 1  # the question mark; no lamp with it
    return x, lamp[:, 0]


def silent(n: int, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """The game without the twenty flashes in between.

    Args:
        n: How many games.
        seed: Of the draws; None draws from torch's own generator.

    Returns:
        The inputs, shape (n, T, 6), and the lamp to remember, shape (n,).
    """
    x, answer = play(n, seed)
    x[:, 1:-1, :N_LAMPS] = 0
    return x, answer


def start(kind: str, good: bool, n_units: int = 24) -> nn.RNNBase:
    """A layer for the game, as torch starts it or with a good start.

    The good start of an RNN is an orthogonal W_hh; that of a GRU or an LSTM is a bias of 3 for the
    gate that keeps the state.

    Args:
        kind: A name in `KINDS`.
        good: Whether with the good start.
        n_units: h, units of the layer.

    Returns:
        The layer, with 6 inputs.
    """
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
    """A layer whose recurrent weights rotate the state, and that has no bias.

    Args:
        layer: Changed in place.
        radius: W_hh is an orthogonal matrix times this.

    Returns:
        The same layer.
    """
    orthogonal = nn.init.orthogonal_(torch.empty_like(layer.weight_hh_l0))
    layer.weight_hh_l0.copy_(radius * orthogonal)
    layer.bias_ih_l0.zero_()
    layer.bias_hh_l0.zero_()
    return layer


@torch.no_grad()
def frozen(layer: GRU) -> GRU:
    """The GRU `layer`, changed in place, with a reset gate R = 1 that no training changes."""
    for weight in layer.all_weights[0]:
        weight[: layer.hidden_size] = 0
    layer.bias_ih_l0[: layer.hidden_size] = 50  # no gradient passes this sigmoid
    return layer


def five(make: Callable[[], nn.Module]) -> list[nn.Module]:
    """What `make` makes, one layer for each of five seeds."""
    layers = []
    for seed in range(5):
        torch.manual_seed(seed)
        layers.append(make())
    return layers


@torch.no_grad()
def trace(layer: nn.RNNBase, x: Tensor) -> Tensor:
    """How far apart the states of two games are that differ in the first lamp alone.

    Args:
        layer: The layer.
        x: Games, shape (n, T, 6).

    Returns:
        The mean distance in every bin, divided by that in the first one, shape (T,).
    """
    other = x.clone()
    other[:, 0, :N_LAMPS] = x[:, 0, :N_LAMPS].roll(1, -1)
    distance = (layer(x)[0] - layer(other)[0]).norm(dim=-1).mean(0)  # (T,)
    return distance / distance[0]


@torch.no_grad()
def look_inside(layer: GRU, x: Tensor) -> tuple[Tensor, Tensor]:
    """Update gates and states of a GRU in games.

    Args:
        layer: The GRU.
        x: Games, shape (n, T, 6).

    Returns:
        Z and H of every bin, shape (n, T, h) each.
    """
    w_x, w_h, b_x, b_h = layer.all_weights[0]
    H, _ = layer(x)  # (n, T, h)
    before = nn.functional.pad(H[:, :-1], (0, 0, 1, 0))  # H_{t-1}
    rows = slice(layer.hidden_size, 2 * layer.hidden_size)  # the second block is Z
    of_input = x @ w_x[rows].T + b_x[rows]
    of_state = before @ w_h[rows].T + b_h[rows]
    return torch.sigmoid(of_input + of_state), H


def reach(layer: nn.RNNBase, x: Tensor) -> Tensor:
    """How far back a gradient reaches.

    Args:
        layer: The layer.
        x: Games, shape (n, T, 6).

    Returns:
        The spectral norm of dH_T/dS_t, a mean over games, from t = T back to t = 0, shape
        (T + 1,).
    """
    jacobians = gradients_through_time(layer, x)  # (T + 1, n, h, S)
    return torch.linalg.matrix_norm(jacobians, 2).mean(1).flip(0)


def adam(weights: list[Tensor]) -> torch.optim.Optimizer:
    """The optimizer of the trainings, Adam for these `weights`."""
    return AdamW(weights, lr=0.01, weight_decay=0.0)


def fit(
    layer: nn.RNNBase,
    games: Callable[[int], tuple[Tensor, Tensor]],
    n_steps: int,
    optimizer: Callable[[list[Tensor]], torch.optim.Optimizer] = adam,
    max_norm: float = 1.0,
) -> tuple[WithOutput, list[float], list[float]]:
    """A layer and its output layer, trained on the answer in the last bin.

    Args:
        layer: Trained in place.
        games: games(n) gives inputs, shape (n, T, 6), and lamps, shape (n,), as `play` does.
        n_steps: Training steps, of 32 games.
        optimizer: Makes the optimizer of a list of weights.
        max_norm: The gradient is clipped to this norm.

    Returns:
        The model, and the loss and the norm of the gradient before clipping of every step.
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


def learn_game(
    kind: str, good: bool, seed: int, n_steps: int = 160
) -> tuple[WithOutput, list[float], float]:
    """A model that learns the game.

    Args:
        kind: A name in `KINDS`.
        good: Whether with the good start.
        seed: Of the start and the games.
        n_steps: Training steps.

    Returns:
        The trained model, the loss of every step, and the share of 500 new games that it wins.
    """
    torch.manual_seed(seed)
    model, losses, _ = fit(start(kind, good, N_UNITS[kind]), play, n_steps)
    return model, losses, won(model)


def run(kind: str, good: bool, seed: int, n_steps: int = 160) -> dict:
    """A training in numbers.

    Args:
        kind: A name in `KINDS`.
        good: Whether with the good start.
        seed: Of the start and the games.
        n_steps: Training steps.

    Returns:
        The "losses" as means of ten steps, the "share" of new games won, and the "trace" of the
        lamp in the trained network, T numbers.
    """
    model, losses, share = learn_game(kind, good, seed, n_steps)
    games, _ = play(200, seed=1)
    return {
        "losses": np.reshape(losses, (-1, 10)).mean(-1).round(3).tolist(),
        "share": round(share, 3),
        "trace": trace(model.layer, games).double().numpy().round(4).tolist(),
    }


def stored_runs() -> dict[tuple[str, bool], list[dict]]:
    """What experiments/ch06_game.py has trained: the `run` of four seeds by (kind, good)."""
    stored = json.loads(result("ch06_game.json").read_text(encoding="utf-8"))
    runs = {}
    for kind, by_start in stored.items():
        for name, each in by_start.items():
            runs[kind, name == "good"] = each
    return runs


@torch.no_grad()
def won(model: WithOutput) -> float:
    """The share of 500 new games that a `model` wins: it names the first lamp in the last bin."""
    x, answer = play(500, seed=3)
    return (model(x)[:, -1].argmax(-1) == answer).float().mean().item()


def paths(n: int) -> tuple[Tensor, Tensor]:
    """Paths along a line, with beeps at which the way starts anew.

    Args:
        n: How many paths.

    Returns:
        The velocities and the beeps, shape (n, 12, 2), and the way since the last beep, shape
        (n, 12).
    """
    v = 0.3 * torch.randn(n, 12)
    beep = torch.rand(n, 12) < 0.15
    way, now = [], torch.zeros(n)
    for t in range(12):
        now = torch.where(beep[:, t], 0, now) + v[:, t]
        way.append(now)
    return torch.stack([v, beep.float()], -1), torch.stack(way, 1)


def integrate(
    n_units: int, form: Callable[[GRU], GRU], seed: int, n_steps: int = 200
) -> tuple[WithOutput, float]:
    """A GRU that has learned to add up the way.

    Args:
        n_units: Units of the layer.
        form: What becomes of the layer before the training, as `frozen`.
        seed: Of the start and the paths.
        n_steps: Training steps, of 32 paths.

    Returns:
        The model, and its root mean squared error on 500 new paths.
    """
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
        error = model(new_paths)[..., 0] - new_way  # (500, 12)
        return model, error.square().mean().sqrt().item()
