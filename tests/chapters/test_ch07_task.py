"""Beside chapter 07: the transformer against torch's layers, searches, wrong words, CTC, the stored table."""

import json
import math
from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from experiments import ch07_long_training as long_training
from possm_course.chapters.ch07 import task
from possm_course.chapters.ch07.search import beam_search
from possm_course.chapters.ch07.seq2seq import BEGIN, END, PAD, BahdanauSeq2Seq, shift_right

from ..exercises.helpers import NOTEBOOKS, load


def copy_attention(theirs, ours):
    parts = [ours.to_q, ours.to_k, ours.to_v]
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.to_out.state_dict())


def torchs(layer, block, norms):
    """A layer of torch with the weights of a block."""
    layer = layer(56, 4, 4 * 56, dropout=0.0, activation="gelu", batch_first=True, norm_first=True).eval()
    with torch.no_grad():
        copy_attention(layer.self_attn, block.attention)
        if hasattr(block, "look"):
            copy_attention(layer.multihead_attn, block.look)
        for i, norm in enumerate(norms, 1):
            getattr(layer, f"norm{i}").load_state_dict(norm.state_dict())
        layer.linear1.load_state_dict(block.mlp[0].state_dict())
        layer.linear2.load_state_dict(block.mlp[2].state_dict())
    return layer


def fresh():
    torch.manual_seed(3)
    model = task.Transformer(task.N_DIGITS, task.N_WORDS)
    return model, *task.to_tokens([342_576, 7, 51_999])


def test_transformer_matches_torchs_layers():
    """Encoder and decoder layers with copied weights, under the mask of padding and the causal one."""
    model, x, y = fresh()
    reader, writer = model.readers[0], model.writers[0]
    encoder = torchs(nn.TransformerEncoderLayer, reader, (reader.attention_norm, reader.mlp_norm))
    decoder = torchs(nn.TransformerDecoderLayer, writer, (writer.attention_norm, writer.look_norm, writer.mlp_norm))
    H = encoder(model.read(x) + model.read_at.weight[: x.shape[1]], src_key_padding_mask=x == PAD)
    Y = model.write(shift_right(y)) + model.write_at.weight[: y.shape[1]]
    may_not = ~torch.ones(y.shape[1], y.shape[1]).tril().bool()
    Y = decoder(Y, model.read_norm(H), tgt_mask=may_not, memory_key_padding_mask=x == PAD)
    assert_close(model(x, y), model.readout(model.write_norm(Y)), atol=1e-5, rtol=1e-5)


def test_transformer_sees_neither_padding_nor_later_words():
    model, x, y = fresh()
    logits = model(x, y)
    assert_close(model(x[2:, :5], y[2:])[0], logits[2], atol=1e-5, rtol=1e-5)
    assert_close(model(x, y[:, :4]), logits[:, :4], atol=1e-5, rtol=1e-5)
    text = model.generate(x, 6)
    real = text != PAD
    assert (model(x, text).argmax(-1)[real] == text[real]).all()


@pytest.mark.parametrize(("width", "power"), [(1, 0.0), (4, 0.0), (4, 1.0)])
@torch.no_grad()
def test_search_is_a_beam_for_each_row(width, power):
    torch.manual_seed(2)
    model = BahdanauSeq2Seq(task.N_DIGITS, task.N_WORDS)
    model.readout.weight *= 8  # decided answers, of different lengths
    model.readout.bias[PAD] = -50  # as after training: padding is never said

    def step(tokens, state):
        logits, state = model.step(tokens, state)
        return torch.log_softmax(logits, -1), state

    x = task.X_TEST[:20]
    for row, text, log_p in zip(x, *task.search(model, x, width, power), strict=True):
        found = {"begin": BEGIN, "end": END, "max_len": 12, "width": width, "length_power": power}
        best = beam_search(step, model.start(row[None, row != PAD]), **found)[0]
        assert tuple(text[: len(best.tokens)].tolist()) == best.tokens
        assert math.isclose(best.log_prob, log_p, abs_tol=1e-3)


@torch.no_grad()
def test_samples_are_greedy_when_cold_and_their_probability_is_that_of_the_model():
    torch.manual_seed(2)
    model, x = BahdanauSeq2Seq(task.N_DIGITS, task.N_WORDS), task.X_TEST[:20]
    model.readout.bias[PAD] = -50
    assert torch.equal(task.sample(model, x, temperature=1e-6)[0], task.search(model, x)[0])
    texts, log_p = task.sample(model, x)
    each = model(x, texts).log_softmax(-1).gather(-1, texts[..., None])[..., 0]
    assert_close(log_p, each.masked_fill(texts == PAD, 0.0).sum(1), atol=1e-3, rtol=1e-4)


def test_word_errors_are_those_of_the_exercise():
    """For every pair of texts of up to three letters."""
    texts = [text for n in range(4) for text in product("ab", repeat=n)]
    for a, b in product(texts, texts):
        assert task.word_errors(a, b) == load("ch07").word_errors.reference(a, b)


@pytest.mark.parametrize("wanted", ["A", "JA", "AA", "JAJ"])
def test_ctc_is_the_sum_over_all_alignments(wanted):
    """`collapse` and (7.11) against torch's `ctc_loss`; "AA" needs a blank between its letters."""
    p = torch.rand(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    p = p / p.sum(-1, keepdim=True)
    paths = [path for path in product(range(3), repeat=5) if task.collapse("-JA"[s] for s in path) == wanted]
    total = sum(math.prod(p[t, s].item() for t, s in enumerate(path)) for path in paths)
    target = torch.tensor([["-JA".index(sign) for sign in wanted]])
    lengths = torch.tensor([5]), torch.tensor([len(wanted)])
    assert math.isclose(total, math.exp(-nn.functional.ctc_loss(p.log()[:, None], target, *lengths, reduction="sum")))


def test_stored_table_is_of_this_script():
    stored = json.loads((NOTEBOOKS.parent / "experiments" / "ch07_long_training.json").read_text(encoding="utf-8"))
    assert tuple(stored["steps"]) == long_training.STEPS
    assert list(stored["models"]) == list(long_training.MODELS)
    assert tuple(stored["rates"]) == long_training.RATES
    assert tuple(stored["sorting"]["rows_of"]) == long_training.ROWS_OF
    middle = [shares[1] for shares in stored["shares_by_rate"].values()]  # the chapter's rate: trained a second time
    assert middle == [[row[5] for row in stored["models"][name]["shares"][0]] for name in stored["shares_by_rate"]]
    sizes = [model["n_weights"] for model in stored["models"].values()]
    assert max(sizes[1:]) < 1.01 * min(sizes[1:])
    n_weights = [sum(w.numel() for w in make().parameters()) for make in long_training.MODELS.values()]
    assert sizes == n_weights
