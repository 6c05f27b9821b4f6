"""Heads and the block against torch with copied weights: answers, gradients, groups, masks."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from possm_lite.nn.heads import (
    MultiHeadAttention,
    TransformerBlock,
    merge_heads,
    multi_head_attention,
    share_heads,
    split_heads,
)

B, N, M, D, H = 2, 5, 7, 12, 3


def doubles(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def assert_same_gradients(inputs, *outputs):
    wanted = torch.randn_like(outputs[0])
    assert_close(*(torch.autograd.grad((output * wanted).sum(), inputs) for output in outputs))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention_matches_torch(bias, masked):
    ours = MultiHeadAttention(D, H, context_dim=8, bias=bias).double()
    theirs = nn.MultiheadAttention(D, H, kdim=8, vdim=8, bias=bias, batch_first=True).double()
    projections = ours.to_q, ours.to_k, ours.to_v
    weights = {f"{name}_proj_weight": p.weight for name, p in zip("qkv", projections, strict=True)}
    weights["out_proj.weight"] = ours.to_out.weight
    if bias:
        weights |= {"in_proj_bias": torch.cat([p.bias for p in projections]), "out_proj.bias": ours.to_out.bias}
    x, context = doubles(B, N, D), doubles(B, M, 8)
    mask = torch.arange(M) < torch.tensor([3, M])[:, None] if masked else None  # (B, M)
    found = ours(x, context, mask[:, None] if masked else None)
    options = {"key_padding_mask": ~mask if masked else None, "average_attn_weights": False}
    expected = torch.func.functional_call(theirs, weights, (x, context, context), options, strict=True)
    assert_close(found, expected)
    assert_same_gradients([x, context, *ours.parameters()], found[0], expected[0])


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_grouped_queries_match_torch(n_kv_heads):
    n_heads, d = 4, 6
    q, k, v = doubles(B, N, n_heads * d), doubles(B, M, n_kv_heads * d), doubles(B, M, n_kv_heads * d)
    ours, _ = multi_head_attention(q, k, v, n_heads, n_kv_heads)
    heads = split_heads(q, n_heads), split_heads(k, n_kv_heads), split_heads(v, n_kv_heads)
    theirs = merge_heads(F.scaled_dot_product_attention(*heads, enable_gqa=True))
    assert_close(ours, theirs)
    assert_same_gradients([q, k, v], ours, theirs)


def test_split_and_share_heads_match_loops():
    x = torch.randn(B, N, H * 4)
    heads = split_heads(x, H)
    for h in range(H):
        assert torch.equal(heads[:, h], x[..., 4 * h : 4 * h + 4])
    assert torch.equal(merge_heads(heads), x)
    assert share_heads(torch.arange(2.0)[:, None, None], 6).flatten().tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("shape", [(N,), (N, N), (B, 1, N)])
def test_mask_applies_to_every_head(shape):
    mask = torch.rand(shape) < 0.5
    mask[..., 0] = True
    x = doubles(B, N, D)
    _, weights = MultiHeadAttention(D, H).double()(x, mask=mask)
    everywhere = mask.broadcast_to(B, N, N)[:, None].broadcast_to(B, H, N, N)
    assert torch.equal(weights > 0, everywhere)


def test_causal_mask_matches_torch():
    q, k, v = (doubles(B, N, D) for _ in range(3))
    ours, weights = multi_head_attention(q, k, v, H, mask=torch.ones(N, N).tril().bool())
    theirs = F.scaled_dot_product_attention(*(split_heads(x, H) for x in (q, k, v)), is_causal=True)
    assert_close(ours, merge_heads(theirs))
    assert_same_gradients([q, k, v], ours, merge_heads(theirs))
    assert (weights.triu(1) == 0).all() and (weights[..., 0, 0] == 1).all()


@pytest.mark.parametrize("masked", [False, True])
def test_transformer_block_matches_torch(masked):
    """With the triangle and the padding of a batch in one mask."""
    ours = TransformerBlock(D, H, expansion=2).double()
    theirs = nn.TransformerEncoderLayer(D, H, 2 * D, 0.0, "gelu", batch_first=True, norm_first=True).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    projections = [getattr(ours.attention, f"to_{name}") for name in "qkv"]
    weights = {
        "self_attn.in_proj_weight": torch.cat([p.weight for p in projections]),
        "self_attn.in_proj_bias": torch.cat([p.bias for p in projections]),
    }
    names = {"self_attn.out_proj": "attention.to_out", "norm1": "attention_norm", "norm2": "mlp_norm"}
    for theirs_name, ours_name in (names | {"linear1": "mlp.0", "linear2": "mlp.2"}).items():
        for kind in ("weight", "bias"):
            weights[f"{theirs_name}.{kind}"] = ours.get_parameter(f"{ours_name}.{kind}")
    x = doubles(B, N, D)
    real = torch.arange(N) < torch.tensor([3, N])[:, None]  # (B, N)
    causal = torch.ones(N, N).tril().bool()
    mask = causal & real[:, None] if masked else None  # (B, N, N)
    options = {"src_mask": ~causal, "src_key_padding_mask": ~real} if masked else {}
    found, expected = ours(x, mask), torch.func.functional_call(theirs, weights, (x,), options, strict=True)
    assert_close(found, expected)
    assert_same_gradients([x, *ours.parameters()], found, expected)
    order = torch.randperm(N)  # blind to order without a mask: f(P X) = P f(X)
    assert masked or torch.allclose(ours(x[:, order]), found[:, order])
