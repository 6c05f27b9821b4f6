"""The starts and trainings of chapter 06: where one starts decides, and what the reset gate does, on the same seeds."""

import math

import pytest
import torch

from possm_course.chapters.ch06 import toy


def test_only_the_first_lamp_counts():
    x, answer = toy.play(50, seed=0)
    assert x.shape == (50, 22, 6)
    assert torch.equal(x[:, 0, :4].argmax(-1), answer) and torch.equal(x[:, 1:21, :4].sum(-1), torch.ones(50, 20))
    assert x[..., 4].nonzero()[:, 1].unique().tolist() == [0] and x[..., 5].nonzero()[:, 1].unique().tolist() == [21]
    quiet, same = toy.silent(50, seed=0)
    assert torch.equal(same, answer) and torch.equal(quiet[:, 0], x[:, 0]) and not quiet[:, 1:, :4].any()


def test_good_starts():
    """Spectral radius one and no length changed; a gate that keeps for 1 + e^3 bins, in the block that keeps."""
    rotation = toy.start("RNN", True).weight_hh_l0
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(24), rtol=0, atol=1e-5)
    assert torch.linalg.eigvals(toy.start("RNN", False).weight_hh_l0).abs().max() < 0.9
    for kind in ("GRU", "LSTM"):
        layer = toy.start(kind, True)
        biases = (layer.bias_ih_l0 + layer.bias_hh_l0).unflatten(0, (-1, 24))
        assert (biases[1] == 3).all() and biases[[0, *range(2, len(biases))]].abs().max() < 1


def test_gates_seen_inside_make_the_states():
    """H_t = Z H_{t-1} + (1 - Z) N, formula (6.3), with a candidate N that is the same for every input."""
    layer, (x, _) = toy.start("GRU", False), toy.play(3, seed=0)
    with torch.no_grad():
        for weight in layer.all_weights[0][:2]:
            weight[48:] = 0  # of the candidate, the third block
        layer.bias_hh_l0[48:] = 0
        layer.bias_ih_l0[48:] = 0.5
    Z, H = toy.look_inside(layer, x)
    before = torch.cat([torch.zeros(3, 1, 24), H[:, :-1]], 1)
    torch.testing.assert_close(H, Z * before + (1 - Z) * math.tanh(0.5), rtol=0, atol=1e-5)
    assert Z.std() > 0.05


@pytest.mark.parametrize("kind", toy.KINDS)
def test_the_start_decides_how_far_a_gradient_reaches(kind):
    x, _ = toy.play(4, seed=0)
    vanished, arrived = (toy.reach(toy.start(kind, good), x)[21] for good in (False, True))
    assert vanished < 1e-2 < 0.1 < arrived


def test_a_plain_network_learns_from_its_good_start():
    model, losses, share = toy.learn_game("RNN", True, 0, n_steps=60)
    assert losses[0] > 0.8 and share > 0.9
    trained = (toy.learn_game("RNN", False, 0, n)[0].layer.weight_hh_l0 for n in (1, 80))  # from torch's start
    early, late = (torch.linalg.eigvals(W.detach()).abs().max() for W in trained)
    assert early < 0.8 and late > 1


def test_frozen_reset_gate_stays_open_in_training():
    model, _ = toy.integrate(4, toy.frozen, 0, n_steps=3)
    w_x, w_h, b_x, b_h = (w.chunk(3)[0] for w in model.layer.all_weights[0])
    assert not w_x.any() and not w_h.any() and not b_h.any() and (b_x == 50).all()


def test_integrator_errs_less_with_a_reset_gate():
    """Six units with it against eight without; the same seeds."""
    errors = [
        [toy.integrate(n_units, form, seed, n_steps=120)[1] for seed in (0, 1)]
        for n_units, form in ((6, lambda layer: layer), (8, toy.frozen))
    ]
    assert sum(errors[0]) < 0.9 * sum(errors[1])
