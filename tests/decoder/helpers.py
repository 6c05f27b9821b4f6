"""Models and batches for the tests of the decoder."""

import numpy as np
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.config import BACKBONES, READINGS
from possm_lite.decoder.textbook import encode_textbook, forward_textbook
from possm_lite.recordings import SpikeBatch

# the default model, each switch changed, and everything at once
VARIANTS = {
    "default": {},
    "grouped-query": {"n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "n_freqs": 4},
    "no feed-forward": {"feed_forward": False},
    "several latents": {"n_latents": 3},
    **{f"reading {name}": {"reading": name} for name in READINGS if name != "sigmoid"},
    "sum, heads": dict(reading="sum", n_latents=2, n_heads=2, head_dim=16, n_freqs=8),
    "all": dict(n_heads=2, n_kv_heads=1, n_latents=2, backbone="lstm", n_layers=2, context_bins=5),
}
LAYERS = {f"{backbone}, {n}": {"backbone": backbone, "n_layers": n} for backbone in BACKBONES for n in (1, 2)}

# the two batch forms: (encode, forward)
FORMS = {
    "textbook": (
        lambda model, batch: encode_textbook(model, batch.padded()),
        lambda model, batch, *queries: forward_textbook(model, batch.padded(), *queries),
    ),
    "fast": (lambda model, batch: model.encode(batch), lambda model, batch, *queries: model(batch, *queries)),
}
ONE = torch.ones(1, dtype=torch.int64)  # session 1, for a single trial


def make_model(dtype=torch.float64, n_units=8, n_sessions=2, hidden=32, **switches) -> POSSM:
    """Random weights large enough that every part of the model matters, and a scale that is not one."""
    return randomize(POSSM(POSSMConfig(n_units=n_units, n_sessions=n_sessions, hidden=hidden, **switches)), dtype)


def randomize(model: POSSM, dtype=torch.float64) -> POSSM:
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.behavior_mean[1:] = torch.tensor([1.0, -2.0])
    model.behavior_std[1:] = torch.tensor([3.0, 0.5])
    return model.to(dtype).eval()


def make_batch(rng: np.random.Generator, n_spikes=400, n_units=8, durations=(1.0, 0.7, 0.9, 1.2)) -> SpikeBatch:
    """Trials of several lengths with random spikes and two silent bins at the start of each."""
    trial = rng.integers(0, len(durations), n_spikes)
    time = 0.12 + rng.random(n_spikes) * (np.array(durations)[trial] - 0.12)
    return SpikeBatch.from_events(trial, rng.integers(1, n_units + 1, n_spikes), time, len(durations), durations)


def make_queries(rng: np.random.Generator, n_trials=4, n_queries=11, until=0.7):
    """Times (B, Q) inside the shortest trial, on the edges of bins too, and sessions (B,)."""
    times = torch.from_numpy(rng.random((n_trials, n_queries)) * until)
    times[:, :3] = torch.tensor([0.0, 0.05, 0.15], dtype=torch.float64)
    return times, torch.arange(n_trials) % 2 + 1


def one_trial(unit, time, duration=1.0) -> SpikeBatch:
    return SpikeBatch.from_events(np.zeros(len(unit), int), unit, time, 1, duration)


def make_bins(rng: np.random.Generator, n_bins=40, n_units=8):
    """Units and offsets of each bin, some of them silent, and the same as a batch of one trial."""
    silent = (0, 7, 8, 9)
    n_spikes = [0 if i in silent else rng.integers(0, 12) for i in range(n_bins)]
    bins = [(rng.integers(1, n_units + 1, n), rng.random(n) * 0.05) for n in n_spikes]
    unit, time = (np.concatenate(x) for x in zip(*[(u, i * 0.05 + o) for i, (u, o) in enumerate(bins)], strict=True))
    return bins, one_trial(unit, time, n_bins * 0.05)
