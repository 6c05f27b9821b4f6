"""POSSM against the authors' numbers, against the textbook form, and for what any decoder must be."""

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.config import BACKBONES
from possm_lite.decoder.textbook import encode_textbook, forward_textbook
from possm_lite.spikes import SpikeBatch

from .helpers import VARIANTS, make_batch, make_model, make_queries

FORMS = {
    "ragged": (lambda model, batch: model.encode(batch), lambda model, batch, *asked: model(batch, *asked)),
    "padded": (
        lambda model, batch: encode_textbook(model, batch.padded()),
        lambda model, batch, *asked: forward_textbook(model, batch.padded(), *asked),
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_same_numbers_as_the_authors(oracle, form, dtype, limit):
    model = POSSM.from_torch_brain({k[6:]: v for k, v in oracle.items() if k.startswith("param.")}).to(dtype)
    batch = SpikeBatch.from_events(oracle["spike_trial"], oracle["spike_unit"], oracle["spike_time_s"], 3, 1.0)
    encode, answer = FORMS[form]
    with torch.no_grad():
        entered = encode(model, batch)
        left, _ = model.backbone(entered)
        velocity = answer(model, batch, torch.from_numpy(oracle["output_time_s"]), torch.from_numpy(oracle["session"]))
    for ours, name in ((entered, "encoder_out"), (left, "backbone_out"), (velocity, "velocity")):
        assert np.abs(ours.numpy() - oracle[name]).max() < limit, name


def test_sizes_are_read_off_the_authors_weights(oracle):
    model = POSSM.from_torch_brain({k[6:]: v for k, v in oracle.items() if k.startswith("param.")})
    assert model.config == POSSMConfig(n_units=12, n_sessions=2)
    outside = sum(p.numel() for name, p in model.named_parameters() if "embedding" not in name)
    assert 0.40e6 < outside < 0.42e6


def test_missing_weights_are_named():
    with pytest.raises(ValueError, match=r"lacks 'rotary_emb.omega'"):
        POSSM.from_torch_brain({"unit_emb.weight": np.zeros((3, 4))})


@pytest.mark.parametrize("variant", VARIANTS)
def test_ragged_equals_padded_with_gradients(rng, variant):
    model, batch, asked = make_model(**VARIANTS[variant]), make_batch(rng), make_queries(rng)
    answers = [form[1](model, batch, *asked) for form in FORMS.values()]
    torch.testing.assert_close(answers[0], answers[1], rtol=0, atol=1e-9)
    gradients = [torch.autograd.grad(answer.square().sum(), list(model.parameters())) for answer in answers]
    for (name, _), ragged, padded in zip(model.named_parameters(), *gradients, strict=True):
        assert ragged.abs().max() > 0 or "embedding" in name, name
        torch.testing.assert_close(ragged, padded, rtol=1e-9, atol=1e-9, msg=name)


def test_long_input_is_cut_into_chunks_without_a_seam(rng, monkeypatch):
    model, batch, asked = make_model(), make_batch(rng), make_queries(rng)
    whole = model(batch, *asked)
    monkeypatch.setattr(type(model.encoder), "CHUNK", 37)
    torch.testing.assert_close(model(batch, *asked), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_long_trials_are_read_as_short_ones_are_with_gradients(rng, monkeypatch, variant):
    """States are gathered for each query where a trial is long; before the first bin there is nothing to gather."""
    model, batch, asked = make_model(**VARIANTS[variant]), make_batch(rng), make_queries(rng)
    answers = []
    for few in (64, 0):
        monkeypatch.setattr(type(model.decoder), "FEW_BINS", few)
        answers.append(model(batch, *asked))
    torch.testing.assert_close(*answers, rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(answer.square().sum(), list(model.parameters())) for answer in answers]
    for short, long in zip(*gradients, strict=True):
        torch.testing.assert_close(short, long, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_spike_changes_nothing_earlier_and_something_later(rng, variant):
    model, trial = make_model(**VARIANTS[variant]), np.zeros(60, int)
    unit, time = rng.integers(1, 9, 60), rng.random(60)
    times = torch.arange(0, 1, 0.01, dtype=torch.float64)[None]
    one = torch.ones(1, dtype=torch.int64)
    before = model(SpikeBatch.from_events(trial, unit, time, 1, 1.0), times, one)[0]
    changed = SpikeBatch.from_events(np.r_[trial, 0], np.r_[unit, 3], np.r_[time, 0.52], 1, 1.0)
    after = model(changed, times, one)[0]
    edge = 50  # the bin from 0.50 s
    assert torch.equal(before[:edge], after[:edge])
    assert (before[edge:] - after[edge:]).abs().max() > 1e-6


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_no_backbone_looks_ahead_and_each_remembers(rng, backbone, n_layers, dtype):
    """A trial longer than the chunks of the state-space layers; the past stays as it was to the last bit."""
    model, one = make_model(dtype, backbone=backbone, n_layers=n_layers), torch.ones(1, dtype=torch.int64)
    trial, unit, time = np.zeros(300, int), rng.integers(1, 9, 300), rng.random(300) * 5
    times = torch.arange(0, 5, 0.05, dtype=torch.float64)[None]
    with torch.no_grad():
        before = model(SpikeBatch.from_events(trial, unit, time, 1, 5.0), times, one)[0]
        moved = np.where(np.arange(300) == np.abs(time - 3.5).argmin(), time + 0.1, time)
        after = model(SpikeBatch.from_events(trial, unit, moved, 1, 5.0), times, one)[0]
    edge = int((time[np.abs(time - 3.5).argmin()] + 1e-6) / 0.05)
    assert torch.equal(before[:edge], after[:edge])
    assert (before[edge] - after[edge]).abs().max() > 1e-6
    assert (before[edge + 5 :] - after[edge + 5 :]).abs().max() > 1e-6  # behind the bins a query sees by itself


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone_runs_through_the_padded_form_too(rng, backbone):
    model, batch, asked = make_model(backbone=backbone, n_layers=2), make_batch(rng), make_queries(rng)
    answers = [form[1](model, batch, *asked) for form in FORMS.values()]
    torch.testing.assert_close(answers[0], answers[1], rtol=0, atol=1e-9)
    gradients = [torch.autograd.grad(answer.square().sum(), list(model.backbone.parameters())) for answer in answers]
    for ragged, padded in zip(*gradients, strict=True):
        assert ragged.abs().max() > 0
        torch.testing.assert_close(ragged, padded, rtol=1e-9, atol=1e-9)


def test_a_trial_does_not_see_its_neighbours(rng):
    model, batch = make_model(), make_batch(rng)
    times, session = make_queries(rng)
    together = model(batch, times, session)
    trial_of_bin = np.repeat(np.arange(4), batch.n_bins.numpy())
    for i in range(4):
        mine = torch.from_numpy(trial_of_bin)[batch.bin] == i
        mine &= batch.unit > 0
        time = batch.offset + 0.05 * (batch.bin - batch.first_bin()[i]).to(torch.float64)
        alone = SpikeBatch.from_events(
            np.zeros(int(mine.sum()), int), batch.unit[mine], time[mine], 1, float(batch.n_bins[i]) * 0.05
        )
        torch.testing.assert_close(
            model(alone, times[i : i + 1], session[i : i + 1])[0], together[i], rtol=0, atol=1e-9
        )


def test_the_order_of_spikes_does_not_matter(rng):
    model, asked = make_model(), make_queries(rng, 2)
    trial, unit, time = rng.integers(0, 2, 200), rng.integers(1, 9, 200), rng.random(200)
    shuffled = rng.permutation(200)
    answers = [
        model(SpikeBatch.from_events(trial[i], unit[i], time[i], 2, 1.0), *asked) for i in (np.arange(200), shuffled)
    ]
    torch.testing.assert_close(*answers, rtol=0, atol=1e-10)


def test_silence_is_decoded(rng):
    model, (times, session) = make_model(), make_queries(rng, 2)
    silent = SpikeBatch.from_events([], [], [], 2, 1.0)
    assert torch.isfinite(model(silent, times, session)).all()
    assert silent.n_spikes == 0


def test_only_the_last_k_states_are_read(rng):
    model = make_model()
    hidden = torch.randn(1, 20, 32, dtype=torch.float64)
    changed = hidden.clone()
    changed[:, :8] *= -1  # a constant shift would be undone by the layer norm
    one = torch.ones(1, dtype=torch.int64)
    times = torch.arange(0, 1, 0.05, dtype=torch.float64)[None]
    moved = (model.decode(hidden, times, one) - model.decode(changed, times, one))[0].abs().amax(-1)
    assert (moved[:10] > 1e-9).all()  # bins 8 and 9 still look back at bin 7
    assert (moved[10:] < 1e-12).all()


def test_the_order_of_the_k_states_is_seen(rng):
    model, one = make_model(), torch.ones(1, dtype=torch.int64)
    hidden = torch.randn(1, 3, 32, dtype=torch.float64)
    time = torch.full((1, 1), 0.12, dtype=torch.float64)
    assert (model.decode(hidden, time, one) - model.decode(hidden.flip(1), time, one)).abs().max() > 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": torch.full((2, 1), 1.0, dtype=torch.float64)}, r"output_times_s\[0, 0\] = 1.0 s"),
        ({"times": torch.full((2, 1), -0.01, dtype=torch.float64)}, r"output_times_s\[0, 0\] = -0.01 s"),
        ({"session": torch.tensor([1, 3])}, r"session must lie in 1\.\.2, not \[1, 3\]"),
        ({"session": torch.tensor([0, 1])}, r"session must lie in 1\.\.2"),
        ({"session": torch.tensor([1])}, "one row per trial"),
        ({"unit": 9}, r"n_units = 8, not 9"),
        ({"width": 0.02}, "bin_width_s of the batch is 0.02, of the model 0.05"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
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
    ],
)
def test_a_wrong_configuration_names_field_and_value(wrong, message):
    with pytest.raises(ValueError, match=message):
        POSSMConfig(n_units=3, **wrong)


def test_frequencies_stay_exact_when_the_model_is_cast():
    model = make_model()
    omega = model.rotation.omega.clone()
    assert model.float().rotation.omega.dtype == torch.float64
    assert torch.equal(model.half().double().rotation.omega, omega)
