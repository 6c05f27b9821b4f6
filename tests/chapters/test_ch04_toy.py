"""The networks of chapter 04 are torch's attention."""

import json

import pytest
import torch
from torch.nn import functional as F

from possm_course.chapters.ch04 import toy
from possm_lite.nn.attention import attend, scaled_dot_score
from possm_lite.nn.positions import sinusoidal_encoding

from ..exercises.helpers import NOTEBOOKS


@pytest.fixture(scope="module")
def predict():
    """The network of section 6, from its cell in the chapter."""
    cells = json.loads((NOTEBOOKS / "04_positions.ipynb").read_text(encoding="utf-8"))["cells"]
    [source] = ["".join(cell["source"]) for cell in cells if cell["id"] == "predict-back"]
    names = {"F": F, "attend": attend, "scaled_dot_score": scaled_dot_score}
    exec(source.partition("\n\n\ncodes = ")[0], names)
    return names["predict"]


@pytest.mark.parametrize("code", ["none", "learned", "added", "rotated"])
def test_networks_side_by_side_are_torch_attention_each(predict, code):
    weights = {name: w.detach() for name, w in toy.initial_weights().items()}
    symbols, places = torch.randint(8, (3, 2, 12)), torch.arange(5, 17)
    together = predict(weights, symbols, places, code)
    for s in range(3):
        w = {name: each[s, 0] for name, each in weights.items()}
        x = w["E"][symbols[s]]  # (B, N, D)
        x = x + {"learned": w["P"][places], "added": sinusoidal_encoding(places, 64)}.get(code, 0)
        q, k, v = x @ w["W_q"], x @ w["W_k"], x @ w["W_v"]
        if code == "rotated":
            z = torch.exp(1j * places[:, None] * 10_000.0 ** (-torch.arange(0, 64, 2) / 64))  # (N, D/2)
            q, k = (torch.view_as_real(torch.complex(x[..., 0::2], x[..., 1::2]) * z).flatten(-2) for x in (q, k))
        expected = F.scaled_dot_product_attention(q, k, v) @ w["W_out"]
        torch.testing.assert_close(together[s], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("code", "moves"), [("none", False), ("learned", True), ("added", True), ("rotated", False)])
def test_which_answers_move_with_the_text(predict, code, moves):
    """The answer of exercise 4.3, with weights that nobody trained."""
    weights = {name: 3 * w.detach() for name, w in toy.initial_weights().items()}
    symbols, places = torch.randint(8, (3, 4, 32)), torch.arange(32)
    here, later = (predict(weights, symbols, places + start, code) for start in (0, 100))
    assert ((here - later).abs().max() > 0.1 * here.std()) == moves


def test_learns_to_look_three_places_back(predict):
    trained = toy.train(predict, "rotated", n_steps=150)
    assert (toy.share_right(predict, trained, "rotated", torch.arange(100, 132)) > 0.95).all()
