"""The filter, the two tasks and the four memories of chapter 15, path and deeper.

`RESULTS` has the errors of both tasks by experiments/ch15_memories.py, `BACKBONES` what
ch15_backbones.py measured.
"""

import json
import math
import os
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from possm_course.stored import result
from possm_lite.nn.heads import TransformerBlock
from possm_lite.nn.mamba import Mamba
from possm_lite.nn.positions import sinusoidal_encoding
from possm_lite.nn.recurrent import GRU
from possm_lite.nn.s4d import S4D

RESULTS: dict = json.loads(result("ch15_memories.json").read_text(encoding="utf-8"))
BACKBONES: dict = json.loads(result("ch15_backbones.json").read_text(encoding="utf-8"))


# The linear dynamical system of section 1: one hidden number, eight units
A, W, V = np.array([[0.95]]), np.array([[0.1]]), 4.0 * np.eye(8)
C = np.random.default_rng(0).standard_normal((8, 1))


def simulate(n_bins: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Simulates the linear dynamical system of (15.1) from z_0 = 0.

    Args:
        n_bins: T.
        seed: of the random numbers.

    Returns:
        The hidden number z, shape (T, 1), and what eight units do, n, shape (T, 8).
    """
    rng = np.random.default_rng(seed)
    z, path = np.zeros(1), []
    for w in rng.multivariate_normal(np.zeros(1), W, n_bins):
        z = A @ z + w
        path.append(z)
    z = np.array(path)
    return z, z @ C.T + rng.multivariate_normal(np.zeros(8), V, n_bins)


def kalman_filter(n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Kalman filter of the system, (15.2) and (15.3); z_0 = 0 is known.

    Args:
        n: what the units do, shape (T, 8).

    Returns:
        Means s (T, 1), covariances P (T, 1, 1) and gains G (T, 1, 8).
    """
    s, P = np.zeros(1), np.zeros((1, 1))
    means, covariances, gains = [], [], []
    for n_t in n:
        s, P = A @ s, A @ P @ A.T + W
        G = P @ C.T @ np.linalg.inv(C @ P @ C.T + V)
        s, P = s + G @ (n_t - C @ s), P - G @ C @ P
        means.append(s)
        covariances.append(P)
        gains.append(G)
    return np.array(means), np.array(covariances), np.array(gains)


# The two tasks: inputs x (n, T, 2), answers y (n, T), and the steps that count, (T,)
def flags(n: int, n_steps: int = 20, p: float = 0.2) -> tuple[Tensor, Tensor, Tensor]:
    """The task of the flags: say the last value that had a flag, at every step.

    Args:
        n: number of sequences.
        n_steps: T.
        p: probability of a flag; the first step always has one.

    Returns:
        Values and flags (n, T, 2), answers (n, T), and the steps that count, all of them (T,).
    """
    value = torch.randn(n, n_steps)
    flag = torch.rand(n, n_steps) < p
    flag[:, 0] = True
    last = torch.where(flag, torch.arange(n_steps), 0).cummax(1).values  # (n, T): when it was
    return torch.stack([value, flag.float()], -1), value.gather(1, last), torch.ones(n_steps)


def delay(n: int, n_steps: int = 300, lag: int = 200) -> tuple[Tensor, Tensor, Tensor]:
    """The task of the delay: say what a slow random signal was some bins ago.

    Args:
        n: number of sequences.
        n_steps: T, in bins.
        lag: how long ago, in bins.

    Returns:
        The signal beside zeros (n, T, 2), answers (n, T), and the steps that count (T,): those
        from `lag` on.
    """
    bump = torch.exp(-0.5 * (torch.arange(-30.0, 31.0) / 10) ** 2)
    bump = (bump / bump.norm())[None, None]  # (1, 1, 61)
    signal = nn.functional.conv1d(torch.randn(n, 1, n_steps + 60), bump)[:, 0]  # (n, T)
    y = nn.functional.pad(signal[:, :-lag], (lag, 0))
    counts = (torch.arange(n_steps) >= lag).float()
    return torch.stack([signal, torch.zeros_like(signal)], -1), y, counts


TASKS = {"flags": flags, "delay": delay}


class Attention(nn.Module):
    """One causal transformer block, positions added.

    Args:
        input_size: size of an input.
        hidden_size: d.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.input_proj = nn.Linear(input_size, hidden_size)
        self.block = TransformerBlock(hidden_size, n_heads=2, expansion=1)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Outputs (B, T, d) for x (B, T, input_size), and None in place of a state."""
        n = x.shape[1]
        x = self.input_proj(x) + sinusoidal_encoding(torch.arange(n), self.input_proj.out_features)
        return self.block(x, torch.ones(n, n, dtype=torch.bool).tril()), None


@torch.no_grad()
def patient(memory: nn.Module, longest: float = 200.0) -> nn.Module:
    """A memory with long time-scales at its start: by the bias of Z (6.15), or by the step sizes.

    Args:
        memory: one of `MEMORIES`; it is changed in place. Attention stays as it is.
        longest: the longest time-scale in bins.

    Returns:
        The memory.
    """
    if isinstance(memory, GRU):
        rows = slice(memory.hidden_size, 2 * memory.hidden_size)
        memory.bias_ih_l0[rows] = (1 + (longest - 2) * torch.rand(memory.hidden_size)).log()
        memory.bias_hh_l0[rows] = 0
    elif isinstance(memory, S4D):  # slowest now 1 / (0.5 * 0.05) = 40 bins
        memory.layers[0].log_dt -= math.log(longest / 40)
    elif isinstance(memory, Mamba):  # slowest now 1 / (1 * 0.1) = 10 bins
        bias = memory.layers[0].dt_proj.bias
        bias.copy_((bias.exp().log1p() * 10 / longest).expm1().log())
    return memory


MEMORIES = {  # one layer each, of about 1,750 weights with the readout
    "GRU": lambda: GRU(2, 22),
    "attention": lambda: Attention(2, 16),
    "S4D": lambda: S4D(2, 16),
    "Mamba": lambda: Mamba(2, 16),
}
RATES, SEEDS, STEPS = (0.01, 0.03, 0.1), (0, 1, 2), {"flags": 300, "delay": 300}


class WithReadout(nn.Module):
    """A memory and one number that is a linear function of its output.

    Args:
        memory: gives outputs (B, T, width) and a state.
        width: size of its output.
    """

    def __init__(self, memory: nn.Module, width: int):
        super().__init__()
        self.memory, self.readout = memory, nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The number at each step, shape (B, T), for x (B, T, 2)."""
        return self.readout(self.memory(x)[0])[..., 0]


def new(name: str, task: str = "flags") -> WithReadout:
    """A memory with its readout, untrained.

    Args:
        name: a key of `MEMORIES`.
        task: "flags" or "delay"; on the delay it begins with time-scales as long as the delay.

    Returns:
        The network.
    """
    memory = MEMORIES[name]()
    if task == "delay":
        memory = patient(memory)
    width = 22 if name == "GRU" else 16
    return WithReadout(memory, width)


def error(model: nn.Module, x: Tensor, y: Tensor, counts: Tensor) -> Tensor:
    """The mean squared error of the steps that count.

    Args:
        model: gives (n, T) for x.
        x: inputs, shape (n, T, 2).
        y: answers, shape (n, T).
        counts: 1 for a step that counts, else 0, shape (T,).

    Returns:
        The error, shape ().
    """
    return ((model(x) - y).square().mean(0) * counts).sum() / counts.sum()


@torch.enable_grad()
def learn(
    name: str,
    task: str,
    seed: int,
    rate: float,
    n_steps: int,
    every: int = 50,
    change: Callable | None = None,
) -> tuple[WithReadout, list[float]]:
    """Trains a memory on fresh sequences.

    Adam, 16 sequences a step, clipped to a norm of 1; the rate rises for 50 steps and falls to
    zero along a cosine.

    Args:
        name: a key of `MEMORIES`.
        task: a key of `TASKS`.
        seed: of weights and sequences.
        rate: the largest learning rate.
        n_steps: number of steps.
        every: steps from one test on 200 unseen sequences to the next.
        change: applied to the model before the training.

    Returns:
        The model, and its errors on the unseen sequences on the way.
    """
    torch.manual_seed(1)
    unseen = TASKS[task](200)
    torch.manual_seed(seed)
    model = new(name, task)
    if change:
        change(model)
    adam = AdamW(model.parameters(), weight_decay=0.0, fused=True)
    errors = []
    for step in range(1, n_steps + 1):
        warm_up = min(1, step / 50)
        cosine = (1 + math.cos(math.pi * step / n_steps)) / 2
        adam.param_groups[0]["lr"] = rate * warm_up * cosine
        loss = error(model, *TASKS[task](16))
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        if step % every == 0:
            with torch.no_grad():
                errors.append(float(error(model, *unseen)))
    return model, errors


clock = (
    time.perf_counter if os.name == "nt" else time.process_time
)  # Windows counts processor time coarsely


def fastest_ms(run: Callable[[], object], n: int = 3) -> float:
    """Milliseconds of processor time of the fastest of some runs.

    Args:
        run: what is timed, called without arguments.
        n: number of runs, or fewer if they take half a second.

    Returns:
        Time in ms.
    """
    taken: list[float] = []
    while len(taken) < n and sum(taken) < 0.5:
        began = clock()
        run()
        taken.append(clock() - began)
    return 1e3 * min(taken)


def training_step_ms(name: str, n_steps: int) -> float:
    """Milliseconds of processor time forward and back, of eight sequences.

    Args:
        name: a key of `MEMORIES`.
        n_steps: length of the sequences in bins.

    Returns:
        Time in ms.
    """
    model, (x, y, counts) = new(name), flags(8, n_steps)

    @torch.enable_grad()
    def step():
        error(model, x, y, counts).backward()

    return fastest_ms(step, 2)
