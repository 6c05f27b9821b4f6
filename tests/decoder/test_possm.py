"""The three forms of POSSM give the authors' numbers and each other's; causality, independence, error messages."""

import itertools
import math
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.decoder.config import CHOICES, COUNTS, POSITIVE, READINGS, SWITCHES
from possm_lite.decoder.textbook import decode_textbook
from possm_lite.recordings import SpikeBatch

from .helpers import FORMS, LAYERS, VARIANTS, make_batch, make_bins, make_model, make_queries, one_trial

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


DIFFERENT = "POSSM.forward and textbook.py compute different things: change both in the same way."


@pytest.mark.parametrize("switches", [*VARIANTS.values(), *LAYERS.values()], ids=[*VARIANTS, *LAYERS])
def test_fast_equals_textbook_with_gradients(rng, switches):
    model, batch, queries = make_model(n_units=11, **switches), make_batch(rng), make_queries(rng)  # 3 are silent
    outputs = [forward(model, batch, *queries) for _, forward in FORMS.values()]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-9, msg=lambda text: f"{DIFFERENT} {text}")
    gradients = [torch.autograd.grad(output.square().sum(), list(model.parameters())) for output in outputs]
    for (name, _), one, other in zip(model.named_parameters(), *gradients, strict=True):
        message = f"the gradient of {name}: {DIFFERENT}"
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9, msg=lambda text, m=message: f"{m} {text}")
        assert one.abs().max() > 0 or "embedding" in name, f"{name} changes no output: its gradient is zero"


@pytest.mark.parametrize(
    "switches", [*list(VARIANTS.values())[1:], *LAYERS.values()], ids=[*list(VARIANTS)[1:], *LAYERS]
)
def test_each_variant_is_another_model(rng, switches):
    """A switch that changes nothing would make the tests of that variant empty."""
    batch, queries = make_batch(rng), make_queries(rng)

    def outputs(**switches):
        torch.manual_seed(0)
        return make_model(**switches)(batch, *queries)

    if switches == dict(backbone="gru", n_layers=1):  # what the default is
        assert torch.equal(outputs(**switches), outputs())
    else:
        assert not torch.allclose(outputs(**switches), outputs()), f"{switches} gives the outputs of the default model"


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
    difference = np.abs(velocity - expected).max()
    assert difference < (1e-9 if dtype == torch.float64 else limit32), (
        f"StreamingDecoder.step and POSSM.forward differ by {difference:.3g}: "
        "what one computes, the other has to (decoder/stream.py and its cells in decoder/cells.py)"
    )
    for arrays in stream._state:
        assert all(np.finfo(array.dtype).dtype == expected.dtype for array in arrays)


# Weights from elsewhere


def test_authors_sizes_are_inferred():
    oracle = authors_numbers("one_head")
    model = authors_model(oracle)
    assert model.config == POSSMConfig(n_units=12, n_sessions=2, reading="softmax")
    n_parameters = sum(p.numel() for name, p in model.named_parameters() if "embedding" not in name)
    assert 0.40e6 < n_parameters < 0.42e6


def test_round_trip_of_authors_arrays(authors):
    params = {k[6:]: v for k, v in authors.items() if k.startswith("param.")}
    exported = POSSM.from_torch_brain(params).to_torch_brain()
    assert exported.keys() == params.keys() | {"behavior_mean", "behavior_std"}
    params["unit_emb.weight"] = params["unit_emb.weight"] + params["token_type_emb.weight"][0].astype(np.float64)
    params["token_type_emb.weight"], params["task_emb.weight"][0] = np.zeros((4, params["unit_emb.weight"].shape[1])), 0
    for name, array in params.items():
        np.testing.assert_array_equal(exported[name], array, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_round_trip_of_our_weights(dtype):
    sizes = dict(n_heads=2, n_kv_heads=2, head_dim=32, n_freqs=8, n_layers=2, longest_period_s=5.0)
    model = make_model(dtype, reading="softmax", **sizes)
    again = POSSM.from_torch_brain(model.to_torch_brain()).to(dtype)
    assert again.state_dict().keys() == model.state_dict().keys()
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


NOT_THEIRS = dict(n_outputs=3, backbone="lstm", bin_width_s=0.02, context_bins=2, n_latents=2, n_kv_heads=1, n_freqs=8)
NOT_THEIRS |= dict(reading="sum", feed_forward=False, expansion=2)


@pytest.mark.parametrize("name", NOT_THEIRS)
def test_what_torch_brain_lacks_is_refused(name):
    switches = {"reading": "softmax", "n_heads": 2, "n_kv_heads": 2} | {name: NOT_THEIRS[name]}
    with pytest.raises(ValueError, match=name):
        POSSM(POSSMConfig(8, **switches)).to_torch_brain()


# One other value of each field of the configuration, with what has to change with it, for torch_brain
OTHER_VALUES = dict(n_units=9, n_sessions=3, dim=32, n_heads=2, n_kv_heads=2, head_dim=32, n_latents=2, n_freqs=8)
OTHER_VALUES |= dict(shortest_period_s=3e-4, longest_period_s=5.0, reading="sum", feed_forward=False, expansion=2)
OTHER_VALUES |= dict(backbone="lstm", hidden=48, n_layers=2, context_bins=2, bin_width_s=0.02, n_outputs=3)
OTHER_VALUES |= dict(decodes="classes")
WITH_IT = {"n_heads": {"n_kv_heads": 2}, "n_kv_heads": {"n_heads": 4}, "head_dim": {"n_freqs": 8}}


@pytest.mark.parametrize("name", [field.name for field in fields(POSSMConfig)])
def test_every_field_is_exported_or_refused(rng, name):
    """No field of the configuration is lost in silence; a new one has to be added to OTHER_VALUES."""
    assert name in OTHER_VALUES, f"POSSMConfig.{name} is new: add a value that is not its default to OTHER_VALUES"
    switches = {"n_units": 8, "reading": "softmax"} | WITH_IT.get(name, {}) | {name: OTHER_VALUES[name]}
    torch.manual_seed(0)
    model = POSSM(POSSMConfig(**switches)).double()
    try:
        arrays = model.to_torch_brain()
    except ValueError as error:
        assert str(error).startswith(f"{name} is ")
        return
    again = POSSM.from_torch_brain(arrays)
    assert again.config == model.config and getattr(again.config, name) == OTHER_VALUES[name]
    batch, (times, session) = make_batch(rng), make_queries(rng)
    session = session.clamp(max=model.config.n_sessions)
    with torch.no_grad():
        assert torch.equal(again(batch, times, session), model(batch, times, session))


def test_a_field_that_export_does_not_know_must_have_its_default():
    """As if somebody had added a temperature to the attention."""

    @dataclass(frozen=True)
    class Tempered(POSSMConfig):
        temperature: float = 1.0

    model = make_model(reading="softmax")
    model.config = Tempered(8, 2, hidden=32, reading="softmax")
    assert model.to_torch_brain()
    model.config = Tempered(8, 2, hidden=32, reading="softmax", temperature=0.5)
    with pytest.raises(ValueError, match="temperature is 0.5"):
        model.to_torch_brain()


def test_arrays_of_another_network_are_named(authors):
    """A deeper network would otherwise load as a shallow one. Dicts of names are no arrays of a network."""
    params = {k[6:]: v for k, v in authors.items() if k.startswith("param.")}
    POSSM.from_torch_brain(params | {"unit_emb.vocab": {"NA": 0}})
    deeper = params | {"proc_layers.0.0.norm.weight": np.ones(8), "proc_layers.0.1.0.bias": np.ones(8)}
    with pytest.raises(ValueError, match="proc_layers.0.0.norm.weight, proc_layers.0.1.0.bias"):
        POSSM.from_torch_brain(deeper)
    second = {k.replace("_l0", "_l2"): v for k, v in params.items() if "_l0" in k}
    with pytest.raises(ValueError, match="lack backbone.net.bias_hh_l1"):
        POSSM.from_torch_brain(params | second)


def test_missing_arrays_are_named():
    """All at once, those that sizes are inferred from too."""
    params = make_model(reading="softmax").to_torch_brain()
    for name in ("rotary_emb.omega", "enc_atn.norm.bias", "backbone.net.weight_hh_l0"):
        del params[name]
    with pytest.raises(ValueError, match="lack backbone.net.weight_hh_l0, enc_atn.norm.bias, rotary_emb.omega"):
        POSSM.from_torch_brain(params)


def test_reading_weights_draws_what_a_model_draws(authors):
    """Seeds of what comes after it keep their meaning."""
    params = {k[6:]: v for k, v in authors.items() if k.startswith("param.")}
    torch.manual_seed(0)
    model = POSSM.from_torch_brain(params)
    state = torch.get_rng_state()
    torch.manual_seed(0)
    POSSM(model.config)
    assert torch.equal(state, torch.get_rng_state())


# Explicit lines


def read(layer, config: POSSMConfig, x, t, contexts, times) -> torch.Tensor:
    """What the query x (D,) at time t becomes by reading contexts at their times: formulas, a number at a time."""
    G, d = config.n_kv_heads, config.head_dim

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

    contexts = [normed(c, layer.norm_context) for c in contexts]
    heads = []
    for h in range(config.n_heads):
        g = h // (config.n_heads // G)  # neighbouring heads share
        W_v = layer.to_kv.weight[-G * d :][g * d : (g + 1) * d]
        if layer.reading == "sum":
            weights = [layer.gain[h]] * len(times)
        else:
            W_q, W_k = layer.to_q.weight[h * d : (h + 1) * d], layer.to_kv.weight[g * d : (g + 1) * d]
            q = turned(W_q @ normed(x, layer.norm_query), t)
            weights = [math.exp(q @ turned(W_k @ c, s) / d**0.5) for c, s in zip(contexts, times, strict=True)]
            if layer.reading == "sigmoid":
                weights = [layer.gain[h] * w / (w + math.exp(-layer.bias[h])) for w in weights]
            else:
                weights = [w / sum(weights) for w in weights]
        terms = zip(weights, contexts, times, strict=True)
        heads.append(turned(sum(w * turned(W_v @ c, s) for w, c, s in terms), -t))
    x = x + layer.to_out.weight @ torch.cat(heads) + layer.to_out.bias
    if layer.feed_forward:
        ff = layer.feed_forward
        a, b = (ff.expand.weight @ normed(x, ff.norm) + ff.expand.bias).chunk(2)
        x = x + ff.contract.weight @ (a * b * 0.5 * (1 + torch.erf(b / 2**0.5))) + ff.contract.bias
    return x


SIZES = dict(n_latents=3, n_heads=4, n_kv_heads=2, head_dim=6, n_freqs=2, dim=10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("feed_forward", [True, False])
@torch.no_grad()
def test_input_attention_equals_explicit_lines(rng, form, reading, feed_forward):
    model = make_model(reading=reading, feed_forward=feed_forward, **SIZES)
    unit, offset = rng.integers(1, 9, 7), rng.random(7) * 0.05
    bins = [(unit, offset), ([0], [0.0])]  # the second is silent
    if reading == "softmax_blank":
        bins = [(np.append(u, 0), np.append(t, 0.0)) for u, t in bins]
    expected = [
        [read(model.encoder, model.config, x, 0.025, model.unit_embedding.weight[u], t) for x in model.encoder.latents]
        for u, t in bins
    ]
    encoded = FORMS[form][0](model, one_trial(unit, offset, 0.1))[0]
    torch.testing.assert_close(encoded, torch.stack([torch.cat(x) for x in expected]), rtol=0, atol=1e-11)
    bins = (one_trial(np.tile(unit, n), np.tile(offset, n), 0.05) for n in (1, 2))  # every spike once, and twice
    once, twice = (model.attention_weights(batch).sum(0) for batch in bins)  # (L, H)
    torch.testing.assert_close(twice, 2 * once if reading in ("sigmoid", "sum") else once)


@pytest.mark.parametrize("form", [*FORMS, "gathered"])
@torch.no_grad()
def test_output_attention_equals_explicit_lines(form):
    """At the first query two of the three bins do not exist."""
    model, hidden = make_model(**SIZES), torch.randn(2, 5, 32).double()
    times, session = torch.tensor([[0.02, 0.05, 0.231], [0.11, 0.2, 0.2]]).double(), torch.tensor([2, 1])
    expected = torch.zeros(2, 3, 2).double()
    for i, j in itertools.product(range(2), range(3)):
        t = float(times[i, j])
        last = int(t / 0.05 + 1e-6) + 1
        bins = range(max(0, last - 3), last)
        query = model.task_embedding + model.session_embedding.weight[session[i]]
        x = read(model.decoder, model.config, query, t, hidden[i, list(bins)], [0.05 * (b + 1) for b in bins])
        expected[i, j] = model.behavior_mean[session[i]] + model.behavior_std[session[i]] * model.readout(x)
    model.decoder.FEW_BINS = 0 if form == "gathered" else 64  # as in a long recording
    decode = partial(decode_textbook, model) if form == "textbook" else model.decode
    torch.testing.assert_close(decode(hidden, times, session), expected, rtol=0, atol=1e-11)


INSIDE = torch.full((2, 1), 0.5, dtype=torch.float64)


@pytest.mark.parametrize(
    ("unit", "width_s", "times", "session"),
    [
        (1, 0.05, INSIDE + torch.tensor([[0], [0.5]]), [1, 2]),  # after the end of the trial
        (1, 0.05, INSIDE - torch.tensor([[0], [0.51]]), [1, 2]),
        (1, 0.05, INSIDE.float(), [1, 2]),
        (1, 0.05, INSIDE, [1, 3]),
        (1, 0.05, INSIDE, [0, 1]),
        (1, 0.05, INSIDE, [1]),
        (9, 0.05, INSIDE, [1, 2]),
        (1, 0.02, INSIDE, [1, 2]),
    ],
)
def test_what_would_be_a_wrong_number_is_refused(unit, width_s, times, session):
    batch = SpikeBatch.from_events([0], [unit], [0.5], 2, 1.0, width_s)
    with pytest.raises(ValueError):
        make_model()(batch, times, torch.tensor(session))


@pytest.mark.parametrize(
    "wrong",
    [dict(hidden=0), dict(hidden=2.5), dict(bin_width_s=-0.05), dict(backbone="transformer"), dict(reading="max")]
    + [dict(n_heads=4, n_kv_heads=3), dict(n_freqs=33), dict(head_dim=33)],
    ids=str,
)
def test_wrong_configurations_are_refused(wrong):
    with pytest.raises(ValueError):
        POSSMConfig(n_units=3, **wrong)


def test_every_field_of_the_configuration_is_checked():
    """A field that is in none of the lists would take any value. A switch is checked by nothing."""
    listed = [*COUNTS, *POSITIVE, *CHOICES, *SWITCHES]
    assert sorted(listed) == sorted(field.name for field in fields(POSSMConfig))
    wrong = {name: 0 for name in [*COUNTS, *POSITIVE]} | {name: "other" for name in CHOICES}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=f"^{name} must be"):
            POSSMConfig(**{"n_units": 3} | {name: value})
