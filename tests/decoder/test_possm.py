"""The three forms of POSSM give the authors' numbers and each other's; causality, independence, error messages."""

import itertools
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.decoder.attention import softmax_by_bin
from possm_lite.decoder.config import READINGS
from possm_lite.decoder.textbook import decode_textbook
from possm_lite.spikes import SpikeBatch

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


@pytest.mark.parametrize("name", ["rotary_emb.omega", "backbone.net.bias_hh_l0", "dec_atn.to_kv.weight"])
def test_no_missing_array_stays_random(name):
    params = {k[6:]: v for k, v in authors_numbers("two_heads").items() if k.startswith("param.")}
    assert params.pop(name).size
    with pytest.raises((KeyError, RuntimeError), match=r"omega|bias_hh_l0|to_kv"):
        POSSM.from_torch_brain(params)


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
    again = POSSM.from_torch_brain(model.to_torch_brain()).eval().to(dtype)
    batch, queries = make_batch(rng), make_queries(rng)
    with torch.no_grad():
        assert torch.equal(again(batch, *queries), model(batch, *queries))
    assert again.state_dict().keys() == model.state_dict().keys()
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


NOT_THEIRS = dict(n_outputs=3, backbone="lstm", bin_width_s=0.02, context_bins=2, n_latents=2, n_kv_heads=1, n_freqs=8)
NOT_THEIRS |= dict(reading="sum", feed_forward=False, expansion=2)


@pytest.mark.parametrize("name", NOT_THEIRS)
def test_what_torch_brain_lacks_is_refused(name):
    switches = {"reading": "softmax", "n_heads": 2, "n_kv_heads": 2} | {name: NOT_THEIRS[name]}
    with pytest.raises(ValueError, match=f"{name} is {NOT_THEIRS[name]!r}"):
        POSSM(POSSMConfig(8, **switches)).to_torch_brain()


# Explicit lines


def by_explicit_lines(model: POSSM, unit, offset) -> torch.Tensor:
    """What the spikes of one bin are read as, (L D,): formulas of the paper, a number at a time for every head."""
    config, encoder = model.config, model.encoder
    H, G, d = config.n_heads, config.n_kv_heads, config.head_dim

    def normed(x, norm):
        centred = x - x.mean()
        return centred / (centred.square().mean() + 1e-5).sqrt() * norm.weight + norm.bias

    def turned(x, t):
        x = x.clone()
        for f in range(config.n_freqs):
            period = 10 ** (-4 + 5 * f / (config.n_freqs - 1))
            cos, sin = math.cos(2 * math.pi * t / period), math.sin(2 * math.pi * t / period)
            x[2 * f], x[2 * f + 1] = x[2 * f] * cos - x[2 * f + 1] * sin, x[2 * f] * sin + x[2 * f + 1] * cos
        return x

    if config.reading == "softmax_blank":
        unit, offset = [*unit, 0], [*offset, 0.0]
    tokens = [normed(model.unit_embedding.weight[u], encoder.norm_context) for u in unit]
    outputs = []
    for latent in encoder.latents:
        heads = []
        for h in range(H):
            g = h // (H // G)  # neighbouring heads share
            first_v = 0 if config.reading == "sum" else G * d
            W_v = encoder.to_kv.weight[first_v + g * d : first_v + (g + 1) * d]
            if config.reading == "sum":
                weights = [encoder.gain[h]] * len(unit)
            else:
                W_q, W_k = encoder.to_q.weight[h * d : (h + 1) * d], encoder.to_kv.weight[g * d : (g + 1) * d]
                q = turned(W_q @ normed(latent, encoder.norm_query), 0.025)
                weights = [math.exp(q @ turned(W_k @ x, t) / d**0.5) for x, t in zip(tokens, offset, strict=True)]
                if config.reading == "sigmoid":
                    weights = [encoder.gain[h] * w / (w + math.exp(-encoder.bias[h])) for w in weights]
                else:
                    weights = [w / sum(weights) for w in weights]
            terms = zip(weights, tokens, offset, strict=True)
            heads.append(turned(sum(w * turned(W_v @ x, t) for w, x, t in terms), -0.025))
        x = latent + encoder.to_out.weight @ torch.cat(heads) + encoder.to_out.bias
        if config.feed_forward:
            layer = encoder.feed_forward
            a, b = (layer.expand.weight @ normed(x, layer.norm) + layer.expand.bias).chunk(2)
            x = x + layer.contract.weight @ (a * b * 0.5 * (1 + torch.erf(b / 2**0.5))) + layer.contract.bias
        outputs.append(x)
    return torch.cat(outputs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("feed_forward", [True, False])
@torch.no_grad()
def test_shared_keys_and_latents_equal_explicit_lines(rng, form, reading, feed_forward):
    sizes = dict(n_latents=3, n_heads=4, n_kv_heads=2, head_dim=6, n_freqs=2, dim=10, feed_forward=feed_forward)
    model = make_model(reading=reading, **sizes)
    unit, offset = rng.integers(1, 9, 7), rng.random(7) * 0.05
    expected = torch.stack([by_explicit_lines(model, unit, offset), by_explicit_lines(model, [0], [0.0])])  # 2: silent
    encoded = FORMS[form][0](model, one_trial(unit, offset, 0.1))[0]
    torch.testing.assert_close(encoded, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_output_attention_equals_explicit_lines(form):
    """Shared keys; at the first query two of the three bins do not exist."""
    model = make_model(n_heads=4, n_kv_heads=2, head_dim=6, n_freqs=3, feed_forward=False)
    hidden, layer, d = torch.randn(2, 5, 32).double(), model.decoder, 6
    times, session = torch.tensor([[0.02, 0.05, 0.231], [0.11, 0.2, 0.2]]).double(), torch.tensor([2, 1])
    omega = model.rotation.omega

    def turned(x, t):
        pairs = torch.complex(x[0::2], x[1::2]) * torch.exp(1j * omega * t)
        return torch.view_as_real(pairs).flatten()

    expected = torch.zeros(2, 3, 2).double()
    for i, j in itertools.product(range(2), range(3)):
        t, own = float(times[i, j]), int(times[i, j] / 0.05 + 1e-6)
        read = [b for b in (own - 2, own - 1, own) if b >= 0]
        query = model.task_embedding + model.session_embedding.weight[session[i]]
        q, heads = layer.to_q(layer.norm_query(query)), []
        kv = {b: layer.to_kv(layer.norm_context(hidden[i, b])) for b in read}
        for h in range(4):
            k, v = (
                {b: turned(x[c : c + d], 0.05 * (b + 1) - t) for b, x in kv.items()}
                for c in (h // 2 * d, (2 + h // 2) * d)
            )
            w = torch.softmax(torch.stack([q[h * d : (h + 1) * d] @ k[b] for b in read]) / d**0.5, 0)
            heads.append(sum(w_b * v[b] for w_b, b in zip(w, read, strict=True)))
        decoded = model.readout(query + layer.to_out(torch.cat(heads)))
        expected[i, j] = model.behavior_mean[session[i]] + model.behavior_std[session[i]] * decoded
    decode = model.decode if form == "fast" else partial(decode_textbook, model)
    torch.testing.assert_close(decode(hidden, times, session), expected, rtol=0, atol=1e-11)


def test_softmax_by_bin_equals_torch_for_large_scores():
    scores = 1e4 * torch.randn(9, 2, 3, dtype=torch.float64)
    weights = softmax_by_bin(scores, torch.tensor([0, 0, 0, 0, 1, 2, 2, 2, 2]), 3)
    expected = torch.cat([torch.softmax(part, 0) for part in scores.split([4, 1, 4])])
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-12)


# Shapes and causality


def test_chunks_of_spikes_change_nothing(rng, monkeypatch):
    model, batch, queries = make_model(), make_batch(rng), make_queries(rng)
    whole = model(batch, *queries)
    monkeypatch.setattr(type(model.encoder), "CHUNK", 37)
    torch.testing.assert_close(model(batch, *queries), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("switches", [*VARIANTS.values(), *LAYERS.values()], ids=[*VARIANTS, *LAYERS])
def test_a_spike_changes_only_what_follows(rng, switches, dtype):
    """A trial longer than the chunks of the state-space layers; the past stays as it was to the last bit."""
    model, unit, time = make_model(dtype, **switches), rng.integers(1, 9, 300), rng.random(300) * 5
    times = torch.arange(0, 5, 0.05, dtype=torch.float64)[None]
    with torch.no_grad():
        before = model(one_trial(unit, time, 5.0), times, ONE)[0]
        after = model(one_trial(np.r_[unit, 3], np.r_[time, 3.52], 5.0), times, ONE)[0]
    edge = 70  # the bin from 3.50 s
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
    assert torch.allclose(once, twice) == (reading == "softmax")


def test_forward_is_captured_as_graphs(rng):
    """Without the C++ compiler of `torch.compile`: every graph between two breaks must be traced."""
    model, batch, queries = make_model(torch.float32), make_batch(rng), make_queries(rng)
    with torch.no_grad():
        captured = torch._dynamo.explain(model)(batch, *queries)
    torch.compiler.reset()
    assert captured.graph_count > 1


def test_silence_is_decoded(rng):
    model, (times, session) = make_model(), make_queries(rng, 2)
    silent = SpikeBatch.from_events([], [], [], 2, 1.0)
    assert torch.isfinite(model(silent, times, session)).all()
    assert silent.n_spikes == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": torch.tensor([[0.5], [1.0]]).double()}, "1 s lies outside the trial"),
        ({"times": torch.tensor([[0.5], [-0.01]]).double()}, "-0.01 s lies outside"),
        ({"times": torch.full((2, 1), 0.5)}, "output_times_s must be float64"),
        ({"session": torch.tensor([1, 3])}, r"session must lie in 1\.\.2, not \[1, 3\]"),
        ({"session": torch.tensor([0, 1])}, r"session must lie in 1\.\.2, not \[0, 1\]"),
        ({"session": torch.tensor([1])}, "one row per trial"),
        ({"unit": 9}, "n_units = 8, not 9"),
        ({"width": 0.02}, "bin_width_s of the batch is 0.02"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    batch = SpikeBatch.from_events([0], [change.get("unit", 1)], [0.5], 2, 1.0, change.get("width", 0.05))
    times = change.get("times", torch.full((2, 1), 0.5, dtype=torch.float64))
    with pytest.raises(ValueError, match=message):
        make_model()(batch, times, change.get("session", torch.tensor([1, 2])))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden": 0}, "hidden must be a whole number of 1 or more, not 0"),
        ({"hidden": 2.5}, "hidden must be a whole number"),
        ({"bin_width_s": -0.05}, "bin_width_s must be a positive number"),
        ({"backbone": "transformer"}, "backbone must be one of rnn, gru, lstm, s4d, mamba"),
        ({"reading": "max"}, "reading must be one of softmax, softmax_blank, sigmoid, sum"),
        ({"n_heads": 4, "n_kv_heads": 3}, "3 does not divide 4"),
        ({"n_freqs": 33}, "at least 2 x 33, not 64"),
        ({"head_dim": 33}, "head_dim must be even"),
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
