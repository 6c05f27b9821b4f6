"""The three forms of POSSM give the authors' numbers and each other's; causality, independence, error messages."""

from pathlib import Path

import numpy as np
import pytest
import torch

from possm_lite.blocks.time_features import rotary_kernel
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.decoder.attention import precompute_scores
from possm_lite.decoder.config import READINGS
from possm_lite.decoder.renamed import current_names
from possm_lite.spikes import SpikeBatch
from possm_lite.spikes.io.contents import Selection
from possm_lite.training import TrainedOn, load_checkpoint, save_checkpoint

from .helpers import (
    FORMS,
    LAYERS,
    ONE,
    VARIANTS,
    assert_same_with_gradients,
    make_batch,
    make_bins,
    make_model,
    make_queries,
    one_trial,
)

# The equalities: textbook = authors, fast = authors, streaming = authors; textbook = fast; streaming = fast


def authors_numbers(name: str) -> dict[str, np.ndarray]:
    """Weights, inputs and outputs of torch_brain's POSSM (branch possm, commit a440fe2), computed in float64.

    one_head: a head of 64, hidden 256, with the input of the backbone and its states. two_heads: heads of 16, hidden
    48, dim 32, with velocity only.
    """
    with np.load(Path(__file__).with_name(f"authors_{name}.npz")) as arrays:
        return dict(arrays)


@pytest.fixture(params=["one_head", "two_heads"])
def authors(request) -> dict[str, np.ndarray]:
    return authors_numbers(request.param)


def authors_model(arrays: dict[str, np.ndarray]) -> POSSM:
    return POSSM.from_torch_brain({k[6:]: v for k, v in arrays.items() if k.startswith("param.")})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_textbook_and_fast_equal_authors(authors, form, dtype, limit):
    model = authors_model(authors).to(dtype)
    batch = SpikeBatch.from_events(authors["spike_trial"], authors["spike_unit"], authors["spike_time_s"], 3, 1.0)
    queries = torch.from_numpy(authors["output_time_s"]), torch.from_numpy(authors["session"])
    encode, forward = FORMS[form]
    with torch.no_grad():
        encoded = encode(model, batch)
        hidden, _ = model.backbone(encoded)
        velocity = forward(model, batch, *queries)
    for ours, name in ((encoded, "encoder_out"), (hidden, "backbone_out"), (velocity, "velocity")):
        if name in authors:
            assert np.abs(ours.numpy() - authors[name]).max() < limit, name


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_streaming_equals_authors(authors, dtype, limit):
    model = authors_model(authors).to(dtype)
    spike_bin, query_bin = (np.floor(authors[name] / 0.05 + 1e-6) for name in ("spike_time_s", "output_time_s"))
    offsets, query_offsets = authors["spike_time_s"] - 0.05 * spike_bin, authors["output_time_s"] - 0.05 * query_bin
    for trial in range(3):
        stream = StreamingDecoder(model, authors["session"][trial], query_offsets[trial].clip(0))
        for i in range(20):
            spikes = (authors["spike_trial"] == trial) & (spike_bin == i)
            _, velocity = stream.step(authors["spike_unit"][spikes], offsets[spikes].clip(0))  # at every offset, (Q, 2)
            in_bin = query_bin[trial] == i
            assert (np.abs(velocity - authors["velocity"][trial])[in_bin] < limit).all()


@pytest.mark.parametrize("switches", [*VARIANTS.values(), *LAYERS.values()], ids=[*VARIANTS, *LAYERS])
def test_fast_equals_textbook_with_gradients(rng, switches):
    model, batch, queries = make_model(**switches), make_batch(rng), make_queries(rng)
    outputs = [forward(model, batch, *queries) for _, forward in FORMS.values()]
    gradients = assert_same_with_gradients(outputs, model.parameters())
    for (name, _), gradient in zip(model.named_parameters(), gradients, strict=True):
        assert gradient.abs().max() > 0 or "embedding" in name, name


@pytest.mark.parametrize(
    ("switches", "offsets", "limit32"),
    [(x, (0.0, 0.011, 0.049), 1e-4) for x in VARIANTS.values()] + [(x, (0.0,), 2e-5) for x in LAYERS.values()],
    ids=[*VARIANTS, *LAYERS],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_streaming_equals_fast(rng, switches, offsets, limit32, dtype):
    model, (bins, batch) = make_model(dtype, **switches), make_bins(rng)
    times = (np.arange(len(bins))[:, None] * 0.05 + np.array(offsets)).reshape(1, -1)
    with torch.no_grad():
        expected = model(batch, torch.from_numpy(times), torch.tensor([2]))[0].numpy()
    stream = StreamingDecoder(model, session=2, query_offsets_s=offsets)
    at, velocity = (np.concatenate(x) for x in zip(*[stream.step(*spikes) for spikes in bins], strict=True))
    np.testing.assert_allclose(at, times[0], rtol=0, atol=1e-12)
    assert velocity.dtype == expected.dtype and expected.std() > 0.1
    assert np.abs(velocity - expected).max() < (1e-9 if dtype == torch.float64 else limit32)
    for arrays in stream._state:
        assert all(np.finfo(array.dtype).dtype == expected.dtype for array in arrays)


# Weights from elsewhere


def test_authors_sizes_are_inferred():
    oracle = authors_numbers("one_head")
    model = authors_model(oracle)
    assert model.config == POSSMConfig(n_units=12, n_sessions=2, reading="softmax")
    n_parameters = sum(p.numel() for name, p in model.named_parameters() if "embedding" not in name)
    assert 0.40e6 < n_parameters < 0.42e6


@pytest.mark.parametrize(
    ("backbone", "former"),
    [
        ("s4d", "log_step log_decay frequency readout skip norm.weight norm.bias mix.weight mix.bias"),
        (
            "mamba",
            "conv_weight conv_bias log_decay skip norm.weight norm.bias expand.weight select.weight to_step.weight "
            "to_step.bias contract.weight",
        ),
    ],
)
def test_checkpoints_with_former_names_load(tmp_path, backbone, former):
    model, path = make_model(backbone=backbone, n_layers=2), tmp_path / "checkpoint.npz"
    trained_on = TrainedOn(
        source="",
        selection=Selection(),
        session_id="session",
        unit_ids=tuple("abcdefgh"),
        behavior_name="velocity",
        behavior_columns=("x", "y"),
        behavior_unit="mm/s",
        lag_s=0.1,
        split="chronological:70/10/20",
        seed=0,
    )
    save_checkpoint(path, model, trained_on)
    layers = [f"layers.{i}.{name}" for i in range(2) for name in former.split()]
    names = iter(["enter.weight", "enter.bias", *layers])  # of version 0.1, in the order of its state dict
    with np.load(path) as file:
        arrays = {f"model.backbone.{next(names)}" if ".backbone." in name else name: file[name] for name in file}
    assert next(names, None) is None
    np.savez(path, **arrays)
    state = load_checkpoint(path)[0].state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    moments = current_names({name.replace("model.", "exp_avg."): array for name, array in arrays.items()})
    assert {f"exp_avg.{name}" for name in state} <= moments.keys()


def test_precomputed_scores_are_the_rotary_kernel():
    q, k = torch.randn(2, 5, 10, dtype=torch.float64)
    table, rest = precompute_scores(q, k, 3)
    a, b, c = rotary_kernel(q / 10**0.5, k, 3)
    torch.testing.assert_close(table, torch.stack([a, b], -1).flatten(-2))
    torch.testing.assert_close(rest, c)


def test_missing_weights_are_named():
    with pytest.raises(ValueError, match=r"lacks 'rotary_emb.omega'"):
        POSSM.from_torch_brain({"unit_emb.weight": np.zeros((3, 4))})


@pytest.mark.parametrize(
    "name",
    [
        "readout.projections.cursor_velocity_2d.bias",
        *(f"backbone.net.{part}_l0" for part in ("bias_hh", "weight_ih", "weight_hh")),
    ],
)
def test_no_missing_array_stays_random(name):
    params = {k[6:]: v for k, v in authors_numbers("two_heads").items() if k.startswith("param.")}
    assert name in params
    with pytest.raises(ValueError, match=r"params lacks .*(readout.bias|_l0)"):
        POSSM.from_torch_brain({key: value for key, value in params.items() if key != name})
    with pytest.raises(ValueError, match="do not fit together: .*size mismatch|lacks"):
        POSSM.from_torch_brain(params | {"backbone.net.bias_hh_l0": np.zeros(3)})


def test_round_trip_of_authors_arrays(authors):
    params = {k[6:]: v for k, v in authors.items() if k.startswith("param.")}
    exported = POSSM.from_torch_brain(params).to_torch_brain()
    assert exported.keys() == params.keys() | {"behavior_mean", "behavior_std"}
    params["unit_emb.weight"] = params["unit_emb.weight"] + params["token_type_emb.weight"][0].astype(np.float64)
    params["token_type_emb.weight"], params["task_emb.weight"][0] = np.zeros((4, params["unit_emb.weight"].shape[1])), 0
    for name, array in params.items():
        np.testing.assert_array_equal(exported[name], array, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_round_trip_of_our_weights(rng, dtype):
    sizes = dict(n_heads=2, n_kv_heads=2, head_dim=32, n_freqs=8, n_layers=2, longest_period_s=5.0)
    model = make_model(dtype, reading="softmax", **sizes)
    again, batch, queries = (
        POSSM.from_torch_brain(model.to_torch_brain()).eval().to(dtype),
        make_batch(rng),
        make_queries(rng),
    )
    with torch.no_grad():
        assert torch.equal(again(batch, *queries), model(batch, *queries))
    assert again.state_dict().keys() == model.state_dict().keys()
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"n_outputs": 3}, "n_outputs is 3"),
        ({"backbone": "lstm"}, "backbone is 'lstm'.* must be 'gru'"),
        ({"query": "per_ms"}, "query is 'per_ms'"),
        ({"bin_width_s": 0.02}, "bin_width_s is 0.02"),
        ({"n_latents": 2}, "n_latents is 2"),
        ({"n_heads": 2}, "n_kv_heads is 1"),
        ({"n_freqs": 8}, "n_freqs is 8.* must be 16"),
        ({"rotate_values": False}, "rotate_values is False"),
        ({"reading": "sum"}, "reading is 'sum'"),
        ({"time_code": "mercer"}, "time_code is 'mercer'"),
    ],
)
def test_what_torch_brain_lacks_is_refused(switches, message):
    with pytest.raises(ValueError, match=message):
        POSSM(POSSMConfig(8, **{"reading": "softmax"} | switches)).to_torch_brain()


# Shapes and causality


def test_chunks_of_spikes_change_nothing(rng, monkeypatch):
    model, batch, queries = make_model(), make_batch(rng), make_queries(rng)
    whole = model(batch, *queries)
    monkeypatch.setattr(type(model.encoder), "CHUNK", 37)
    torch.testing.assert_close(model(batch, *queries), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_gathered_states_equal_masked_states(rng, monkeypatch, variant):
    """States are gathered for each query where a trial is long; before the first bin there is nothing to gather."""
    model, batch, queries = make_model(**VARIANTS[variant]), make_batch(rng), make_queries(rng)
    outputs = []
    for few in (64, 0):
        monkeypatch.setattr(type(model.decoder), "FEW_BINS", few)
        outputs.append(model(batch, *queries))
    assert_same_with_gradients(outputs, model.parameters(), atol=1e-12, grad_atol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_spike_changes_only_what_follows(rng, variant):
    model, unit, time = make_model(**VARIANTS[variant]), rng.integers(1, 9, 60), rng.random(60)
    times = torch.arange(0, 1, 0.01, dtype=torch.float64)[None]
    before = model(one_trial(unit, time), times, ONE)[0]
    after = model(one_trial(np.r_[unit, 3], np.r_[time, 0.52]), times, ONE)[0]
    edge = 50  # the bin from 0.50 s
    assert torch.equal(before[:edge], after[:edge])
    assert (before[edge:] - after[edge:]).abs().max() > 1e-6


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("layers", LAYERS)
def test_every_backbone_is_causal_and_remembers(rng, layers, dtype):
    """A trial longer than the chunks of the state-space layers; the past stays as it was to the last bit."""
    model, unit, time = make_model(dtype, **LAYERS[layers]), rng.integers(1, 9, 300), rng.random(300) * 5
    times = torch.arange(0, 5, 0.05, dtype=torch.float64)[None]
    with torch.no_grad():
        before = model(one_trial(unit, time, 5.0), times, ONE)[0]
        moved = np.where(np.arange(300) == np.abs(time - 3.5).argmin(), time + 0.1, time)
        after = model(one_trial(unit, moved, 5.0), times, ONE)[0]
    edge = int((time[np.abs(time - 3.5).argmin()] + 1e-6) / 0.05)
    assert torch.equal(before[:edge], after[:edge])
    assert (before[edge] - after[edge]).abs().max() > 1e-6
    assert (before[edge + 5 :] - after[edge + 5 :]).abs().max() > 1e-6  # after the bins that a query reads itself


def test_trials_are_independent(rng):
    model, batch = make_model(), make_batch(rng)
    times, session = make_queries(rng)
    together = model(batch, times, session)
    trial_of_bin = np.repeat(np.arange(4), batch.n_bins.numpy())
    for i in range(4):
        mine = (torch.from_numpy(trial_of_bin)[batch.bin] == i) & (batch.unit > 0)
        time = batch.offset + 0.05 * (batch.bin - batch.first_bin()[i]).to(torch.float64)
        alone = one_trial(batch.unit[mine], time[mine], float(batch.n_bins[i]) * 0.05)
        velocity = model(alone, times[i : i + 1], session[i : i + 1])[0]
        torch.testing.assert_close(velocity, together[i], rtol=0, atol=1e-9)


def test_the_order_of_spikes_does_not_matter(rng):
    model, queries = make_model(), make_queries(rng, 2)
    trial, unit, time = rng.integers(0, 2, 200), rng.integers(1, 9, 200), rng.random(200)
    orders = np.arange(200), rng.permutation(200)
    outputs = [model(SpikeBatch.from_events(trial[i], unit[i], time[i], 2, 1.0), *queries) for i in orders]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("reading", READINGS)
def test_which_readings_see_doubled_spikes(rng, reading):
    model, unit, time = make_model(reading=reading), rng.integers(1, 9, 5), rng.random(5) * 0.05
    once, twice = (model.encode(one_trial(np.tile(unit, n), np.tile(time, n), 0.05)) for n in (1, 2))
    assert torch.allclose(once, twice) == (reading in ("softmax", "mean"))


def test_features_of_time_are_added_before_the_projection(rng):
    """Score and value of a spike by the formula W (LN(E) + Phi(t)), Phi = [cos, sin, ...] with amplitudes."""
    for time_code in ("sinusoid", "bochner", "mercer"):
        model, unit, offset = (
            make_model(reading="softmax", time_code=time_code),
            torch.tensor([3, 5]),
            torch.tensor([0.01, 0.03]).double(),
        )
        encoder, relative = model.encoder, offset - 0.025
        phi = torch.zeros(2, 64).double()
        angle = relative[:, None] * model.rotation.omega
        phi[:, 0:32:2], phi[:, 1:32:2] = model.rotation.amplitude * angle.cos(), model.rotation.amplitude * angle.sin()
        x = encoder.norm_context(model.unit_embedding(unit)) + phi
        W_k, W_v = encoder.to_kv.weight.chunk(2)
        q = encoder.to_q(encoder.norm_query(encoder.latents[0]))
        z = torch.softmax(x @ W_k.T @ q / 8, 0) @ (x @ W_v.T)
        expected = encoder.latents[0] + encoder.to_out(z)
        expected = expected + encoder.feed_forward(expected)
        torch.testing.assert_close(model.encode(one_trial(unit.numpy(), offset.numpy(), 0.05))[0, 0], expected)


@pytest.mark.parametrize("reading", ["sigmoid", "softmax"])
def test_forward_is_captured_as_graphs(rng, reading):
    """Without the C++ compiler of `torch.compile`: every graph between two breaks must be traced."""
    model, batch, queries = make_model(torch.float32, reading=reading), make_batch(rng), make_queries(rng)
    with torch.no_grad():
        captured = torch._dynamo.explain(model)(batch, *queries)
    torch.compiler.reset()
    assert captured.graph_count > 1


def test_silence_is_decoded(rng):
    model, (times, session) = make_model(), make_queries(rng, 2)
    silent = SpikeBatch.from_events([], [], [], 2, 1.0)
    assert torch.isfinite(model(silent, times, session)).all()
    assert silent.n_spikes == 0


def test_only_the_last_k_states_are_read(rng):
    model = make_model()
    hidden = torch.randn(1, 20, 32, dtype=torch.float64)
    changed = hidden.clone()
    changed[:, :8] *= -1  # the layer norm would undo a constant shift
    times = torch.arange(0, 1, 0.05, dtype=torch.float64)[None]
    moved = (model.decode(hidden, times, ONE) - model.decode(changed, times, ONE))[0].abs().amax(-1)
    assert (moved[:10] > 1e-9).all()  # bins 8 and 9 still read bin 7
    assert (moved[10:] < 1e-12).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"times": torch.full((2, 1), 1.0, dtype=torch.float64)},
            r"output_times_s\[0, 0\] = 1 s lies outside the trial, whose bins end at 1 s",
        ),
        ({"times": torch.full((2, 1), -0.01, dtype=torch.float64)}, r"output_times_s\[0, 0\] = -0.01 s"),
        ({"session": torch.tensor([1, 3])}, r"session must lie in 1\.\.2, not \[1, 3\]"),
        ({"session": torch.tensor([0, 1])}, r"session must lie in 1\.\.2, not \[0, 1\]"),
        ({"session": torch.tensor([1])}, "one row per trial"),
        ({"times": torch.full((2, 1), 0.5)}, "output_times_s must be float64, not torch.float32"),
        ({"unit": 9}, r"n_units = 8, not 9"),
        ({"width": 0.02}, "bin_width_s of the batch is 0.02, of the model 0.05"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    model = make_model()
    batch = SpikeBatch.from_events([0], [change.get("unit", 1)], [0.5], 2, 1.0, change.get("width", 0.05))
    times = change.get("times", torch.full((2, 1), 0.5, dtype=torch.float64))
    with pytest.raises(ValueError, match=message):
        model(batch, times, change.get("session", torch.tensor([1, 2])))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden": 0}, "hidden must be a whole number of 1 or more, not 0"),
        ({"hidden": 2.5}, "hidden must be a whole number"),
        ({"bin_width_s": -0.05}, "bin_width_s must be a positive number, not -0.05"),
        ({"rotate_values": 1}, "rotate_values must be true or false"),
        ({"backbone": "transformer"}, "backbone must be one of rnn, gru, lstm, s4d, mamba, not 'transformer'"),
        ({"n_heads": 4, "n_kv_heads": 3}, "3 does not divide 4"),
        ({"n_freqs": 33}, "2 x 33 exceeds head_dim = 64"),
        ({"longest_period_s": 1e-5}, "longest_period_s must exceed"),
        ({"reading": "max"}, "reading must be one of softmax, softmax_blank, sigmoid, sum, mean, not 'max'"),
        ({"time_code": "none", "rotate_values": False}, "rotate_values = False needs time_code = 'rotation'"),
        ({"time_code": "sinusoid", "dim": 16}, "n_freqs: 2 x 16 exceeds dim = 16"),
        ({"time_code": "embedding", "hidden": 33}, "rotates pairs: dim = 64, hidden = 33"),
        ({"time_code": "mercer", "n_freqs": 6}, "multiple of 4"),
    ],
)
def test_wrong_configurations_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        POSSMConfig(n_units=3, **wrong)


def test_frequencies_stay_exact_when_the_model_is_cast():
    model = make_model()
    omega = model.rotation.omega.clone()
    assert model.float().rotation.omega.dtype == torch.float64
    assert torch.equal(model.half().double().rotation.omega, omega)
