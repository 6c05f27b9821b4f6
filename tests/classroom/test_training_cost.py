"""Computed training costs equal those counted on a real model."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from possm_lite.classroom.training_cost import (
    exchange_s,
    operations,
    parameters,
    recording_bytes,
    ring_bytes,
    training_bytes,
)
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes import SpikeBatch, simulate_session
from possm_lite.spikes.simulation.neurons import SimulationConfig

CONFIGS = [
    POSSMConfig(7),
    POSSMConfig(30, 4, dim=24, head_dim=12, n_heads=4, n_kv_heads=2, n_freqs=5, hidden=20, n_layers=3, expansion=2),
    POSSMConfig(5, 2, backbone="rnn", feed_forward=False, n_latents=3, query="per_ms"),
    POSSMConfig(5, backbone="lstm", rotate_values=False, context_bins=2),
]


def some_spikes(n_units, n_trials=3, seed=0):
    """Trials of four bins, each of three to six spikes."""
    generator = torch.Generator().manual_seed(seed)
    trial, time = [], []
    for i in range(n_trials):
        for b in range(4):
            n = int(torch.randint(3, 7, (), generator=generator))
            trial += [i] * n
            time += [0.05 * b + 0.04 * (j + 1) / n for j in range(n)]
    unit = torch.randint(1, n_units + 1, (len(trial),), generator=generator)
    return SpikeBatch.from_events(trial, unit, time, n_trials, 0.2)


def decode(model, batch, n_queries=5):
    times = torch.linspace(0.01, 0.19, n_queries, dtype=torch.float64).expand(batch.n_trials, -1)
    return model(batch, times, torch.ones(batch.n_trials, dtype=torch.int64))


def test_parameters_grow_with_units_and_sessions():
    counts = [parameters(POSSMConfig(n_units, n_sessions)) for n_units, n_sessions in ((7, 1), (10, 3))]
    assert [count.embeddings for count in counts] == [64 * (8 + 2), 64 * (11 + 4)]
    assert counts[0].shared == counts[1].shared == sum(p.numel() for p in POSSM(CONFIGS[0]).parameters()) - 640


def test_operations_refuse_a_backbone_without_gates():
    with pytest.raises(ValueError, match="backbone must be one of rnn, gru, lstm here, not 's4d'"):
        operations(POSSMConfig(3, backbone="s4d"))


def test_training_bytes_match_a_real_step():
    model, batch = POSSM(CONFIGS[0]), some_spikes(7)
    optimizer = torch.optim.AdamW(model.parameters())
    decode(model, batch).square().mean().backward()
    optimizer.step()
    held = sum(p.nbytes + p.grad.nbytes for p in model.parameters())
    held += sum(state[name].nbytes for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq"))
    assert training_bytes(parameters(CONFIGS[0]).total) == held
    assert training_bytes(1000, n_processes=2) - training_bytes(1000) == 4000
    assert training_bytes(1000, bytes_each=2) == 8000


@pytest.mark.parametrize("config", CONFIGS)
def test_operations_match_torch_flop_counter(config):
    """Torch counts matrix products alone: not the rotation of spikes, and not always the scores of a query."""
    model, batch, n_queries = POSSM(config).double(), some_spikes(config.n_units), 5  # float32 LSTMs are not counted
    with FlopCounterMode(display=False) as counter:
        decode(model, batch, n_queries)
    query_scores = counter.get_flop_counts()["POSSM.decoder"].get(torch.ops.aten.bmm, 0)
    ours, n_bins, n_trials = operations(config), int(batch.n_bins.sum()), batch.n_trials
    heads = config.n_heads * config.head_dim
    products = ours.forward(config.n_units, 0, n_bins, n_trials * n_queries)
    products -= 4 * config.context_bins * heads * n_trials * n_queries
    # once a pass, or once a trial: too few to be in the formulas
    products += 2 * config.dim * heads * (config.n_latents + (n_trials if config.query == "time" else 0))
    assert products == counter.get_total_flops() - query_scores


def test_backward_costs_twice_forward():
    """But for the products that need no gradient of their input: that of the first tokens, of a learned latent, ..."""
    config = POSSMConfig(40)
    model, batch = POSSM(config), some_spikes(40)
    with FlopCounterMode(display=False) as counter:
        decode(model, batch).square().mean().backward()
    ours = operations(config)
    sizes = (40, 0, int(batch.n_bins.sum()), 5 * batch.n_trials)
    assert counter.get_total_flops() == pytest.approx(ours.step(*sizes), rel=0.05)
    assert ours.step(40, 10, 4, 5) == 3 * ours.forward(40, 10, 4, 5)


def test_operations_per_spike():
    """Score: 2F products and sums. Value: F complex products (4 and 2 each), 2F products with the weight, 2F sums."""
    assert operations(POSSMConfig(3)).spike == 2 * 32 + 16 * 6 + 32 + 32
    assert operations(POSSMConfig(3, rotate_values=False)).spike == 2 * 32
    assert operations(POSSMConfig(3, n_heads=2, n_latents=3)).spike == 6 * operations(POSSMConfig(3)).spike


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_ring_bytes_match_a_simulated_ring(n):
    """Chunks passed round, one by one: n - 1 rounds of sums, n - 1 rounds of results."""
    chunk, sent = 60 // n, [0] * n
    for _ in range(2 * (n - 1)):
        for rank in range(n):
            sent[rank] += chunk
    assert {ring_bytes(chunk * n, n)} == set(map(float, sent))


def test_exchange_seconds():
    assert exchange_s(1e6, 1, 1e9, latency_s=1.0) == 0.0
    assert exchange_s(1e6, 2, 1e9) == pytest.approx(8e-3)  # a megabyte is eight megabits
    assert exchange_s(1e6, 4, 1e9, latency_s=1e-3) == pytest.approx(12e-3 + 6e-3)


def test_recording_bytes_match_its_arrays():
    recording = simulate_session(1, SimulationConfig(n_trials=4, n_units=5)).recording
    held = [recording.spike_times, recording.spike_units, recording.behavior_times, recording.velocity]
    counted = recording_bytes(len(recording.spike_times), len(recording.behavior_times))
    assert counted == sum(array.nbytes for array in held)
