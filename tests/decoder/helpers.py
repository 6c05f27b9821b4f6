"""Models and batches for the tests of the decoder."""

import numpy as np
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes import SpikeBatch

# the published model, every switch turned, and everything at once
VARIANTS = {
    "published": {},
    "grouped-query": {"n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "n_freqs": 4},
    "values not rotated": {"rotate_values": False},
    "no feed-forward": {"feed_forward": False},
    "query per ms": {"query": "per_ms"},
    "several latents": {"n_latents": 3},
    "rnn": {"backbone": "rnn"},
    "all": {
        "n_heads": 2,
        "n_kv_heads": 1,
        "n_latents": 2,
        "query": "per_ms",
        "backbone": "lstm",
        "n_layers": 2,
        "context_bins": 5,
    },
}


def make_model(dtype=torch.float64, n_units=8, n_sessions=2, hidden=32, **switches) -> POSSM:
    """Random weights large enough that every part of the model matters, and a scale that is not one."""
    model = POSSM(POSSMConfig(n_units=n_units, n_sessions=n_sessions, hidden=hidden, **switches))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.velocity_mean[1:] = torch.tensor([1.0, -2.0])
    model.velocity_std[1:] = torch.tensor([3.0, 0.5])
    return model.to(dtype).eval()


def make_batch(rng: np.random.Generator, n_spikes=400, n_units=8, durations=(1.0, 0.7, 0.9, 1.2)) -> SpikeBatch:
    """Trials of several lengths with random spikes and a silent stretch at the start of each."""
    trial = rng.integers(0, len(durations), n_spikes)
    time = 0.12 + rng.random(n_spikes) * (np.array(durations)[trial] - 0.12)
    return SpikeBatch.from_events(trial, rng.integers(1, n_units + 1, n_spikes), time, len(durations), durations)


def make_queries(rng: np.random.Generator, n_trials=4, n_queries=11, until=0.7):
    """Times (B, Q) inside the shortest trial, on the edges of bins too, and sessions (B,)."""
    times = torch.from_numpy(rng.random((n_trials, n_queries)) * until)
    times[:, :3] = torch.tensor([0.0, 0.05, 0.15], dtype=torch.float64)
    return times, torch.arange(n_trials) % 2 + 1
