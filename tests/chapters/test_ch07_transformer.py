"""The transformer of chapter 07 against torch's layers, and what it may see."""

import torch
from torch import nn
from torch.testing import assert_close

from possm_course.chapters.ch07 import task
from possm_course.chapters.ch07.seq2seq import PAD, shift_right
from possm_course.chapters.ch07.transformer import Transformer


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
    model = Transformer(task.N_DIGITS, task.N_WORDS)
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
