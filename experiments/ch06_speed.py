"""How fast torch's RNN, GRU and LSTM are on this computer's CPU: writes ch06_speed.json beside itself.

python experiments/ch06_speed.py

For each size: calls of operators in one forward pass of 40 bins, as the profiler of torch counts them; the time of a
training step; and that of a single bin. Times are those of the processor, so that other programs count less, and the
shortest of 40 rounds, in which the layers take turns. The LSTM is measured once more without its fused kernel, which
torch takes from the library oneDNN. A minute.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

FILE = Path(__file__).with_suffix(".json")
WITHOUT = "LSTM, kernel off"
LAYERS = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM, WITHOUT: nn.LSTM}
N_GAMES, N_BINS, N_INPUTS, ROUNDS, STEPS = 32, 40, 6, 40, 20


def seconds(function: Callable[[], object], times: int = 1) -> float:
    """The processor's time for one of so many calls."""
    begin = time.process_time()
    for _ in range(times):
        function()
    return (time.process_time() - begin) / times


def train(layer: nn.RNNBase, x: torch.Tensor) -> None:
    """Forward and back, without a step of an optimizer."""
    layer.zero_grad()
    layer(x)[0].square().mean().backward()


def operator_calls(layer: nn.RNNBase, x: torch.Tensor) -> int:
    """Calls of operators, those within operators too, in a forward pass that a gradient can follow."""
    layer(x)  # the first call prepares
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        layer(x)
    return sum(event.count for event in profiled.key_averages())


def measure(n_units: int) -> dict[str, dict[str, float]]:
    """For each layer of this size its "calls", and the times of training in "ms" and of one bin in "us"."""
    torch.manual_seed(0)
    x = torch.randn(N_GAMES, N_BINS, N_INPUTS)
    layers = {name: Layer(N_INPUTS, n_units, batch_first=True) for name, Layer in LAYERS.items()}
    found = {name: {"calls": 0, "ms": [], "us": []} for name in layers}
    for i in range(ROUNDS):
        for name, layer in layers.items():
            with torch.backends.mkldnn.flags(enabled=name != WITHOUT):
                if i == 0:
                    found[name]["calls"] = operator_calls(layer, x)
                found[name]["ms"].append(1e3 * seconds(partial(train, layer, x)))
                with torch.no_grad():
                    _, state = layer(x[:1, :1])
                    found[name]["us"].append(1e6 * seconds(partial(layer, x[:1, :1], state), STEPS))
    for numbers in found.values():
        numbers["ms"] = round(min(numbers["ms"]), 2)
        numbers["us"] = round(min(numbers["us"]))
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    results = {str(n_units): measure(n_units) for n_units in (24, 64, 128, 256)}
    FILE.write_text(json.dumps(results) + "\n", encoding="utf-8")
