"""Heads against torch with copied weights: same answers, same gradients, same groups; and blind to order."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from possm_lite.blocks.attention import attend, scaled_dot_score
from possm_lite.blocks.heads import MultiHeadAttention, merge_heads, multi_head_attention, share_heads, split_heads

B, N, M, D, H = 2, 5, 7, 12, 3


def doubles(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def torch_attention(ours: MultiHeadAttention, x, context, **options):
    """torch's layer as a function of the parameters of ours, so that its gradients reach them."""
    sizes = {"kdim": ours.to_k.in_features, "vdim": ours.to_k.in_features, "bias": ours.to_q.bias is not None}
    theirs = nn.MultiheadAttention(ours.to_q.in_features, ours.n_heads, batch_first=True, **sizes).double()
    projections = (ours.to_q, ours.to_k, ours.to_v)
    weights = {f"{name}_proj_weight": p.weight for name, p in zip("qkv", projections, strict=True)}
    if theirs.in_proj_weight is not None:  # queries and keys of one size
        weights = {"in_proj_weight": torch.cat(list(weights.values()))}
    weights["out_proj.weight"] = ours.to_out.weight
    if sizes["bias"]:
        weights |= {"in_proj_bias": torch.cat([p.bias for p in projections]), "out_proj.bias": ours.to_out.bias}
    return torch.func.functional_call(theirs, weights, (x, context, context), options, strict=True)


def assert_same_gradients(inputs, *outputs):
    wanted = torch.randn_like(outputs[0])
    assert_close(*(torch.autograd.grad((output * wanted).sum(), inputs) for output in outputs))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("context_dim", [None, 8])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention_matches_torch(bias, context_dim, masked):
    ours = MultiHeadAttention(D, H, context_dim=context_dim, bias=bias).double()
    x = doubles(B, N, D)
    context = None if context_dim is None else doubles(B, M, context_dim)
    read = x if context is None else context
    mask = torch.arange(read.shape[1]) < torch.tensor([3, read.shape[1]])[:, None] if masked else None  # (B, M)

    output, weights = ours(x, context, None if mask is None else mask[:, None])
    padding = None if mask is None else ~mask
    expected = torch_attention(ours, x, read, key_padding_mask=padding, average_attn_weights=False)
    assert_close((output, weights), expected)
    inputs = [x, read, *ours.parameters()]
    assert_same_gradients(inputs, output, expected[0])


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_grouped_queries_match_torch(n_kv_heads):
    n_heads, d = 4, 6
    q, k, v = doubles(B, N, n_heads * d), doubles(B, M, n_kv_heads * d), doubles(B, M, n_kv_heads * d)
    ours, _ = multi_head_attention(q, k, v, n_heads, n_kv_heads)
    theirs = merge_heads(
        F.scaled_dot_product_attention(
            split_heads(q, n_heads), split_heads(k, n_kv_heads), split_heads(v, n_kv_heads), enable_gqa=True
        )
    )
    assert_close(ours, theirs)
    assert_same_gradients([q, k, v], ours, theirs)


def test_each_head_attends_on_its_own_slice():
    """The definition, one head at a time; values may have another size than keys."""
    d, v_dim, groups = 4, 3, 2
    q, k, v = doubles(B, N, 4 * d), doubles(B, M, groups * d), doubles(B, M, groups * v_dim)
    ours, weights = multi_head_attention(q, k, v, 4, groups)
    assert ours.shape == (B, N, 4 * v_dim) and weights.shape == (B, 4, N, M)
    for head in range(4):
        g = head // 2
        s = scaled_dot_score(q[..., head * d : (head + 1) * d], k[..., g * d : (g + 1) * d])
        expected, w = attend(s, v[..., g * v_dim : (g + 1) * v_dim])
        assert_close(ours[..., head * v_dim : (head + 1) * v_dim], expected)
        assert_close(weights[:, head], w)


def test_split_and_share_heads_match_loops():
    x = torch.randn(B, N, H * 4)
    heads = split_heads(x, H)
    assert heads.shape == (B, H, N, 4)
    for b, h, n in itertools.product(range(B), range(H), range(N)):
        assert torch.equal(heads[b, h, n], x[b, n, 4 * h : 4 * h + 4])
    assert share_heads(torch.arange(2.0)[:, None, None], 6).flatten().tolist() == [0, 0, 0, 1, 1, 1]


@given(st.integers(1, 4), st.integers(0, 6), st.integers(1, 4), st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_merge_inverts_split(batch, n, n_heads, d):
    x = torch.randn(batch, n, n_heads * d)
    assert torch.equal(merge_heads(split_heads(x, n_heads)), x)


@given(st.integers(2, 7), st.sampled_from([(1, 1), (2, 2), (4, 2), (4, 1)]), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=40)
def test_self_attention_is_permutation_equivariant(n, heads, random):
    """f(P X) = P f(X), and the weights of P X are P W P^T."""
    order = list(range(n))
    random.shuffle(order)
    layer = MultiHeadAttention(8, *heads, bias=True).double()
    x = torch.randn(n, 8, dtype=torch.float64)
    y, w = layer(x)
    y_permuted, w_permuted = layer(x[order])
    assert_close(y_permuted, y[order])
    assert_close(w_permuted, w[:, order][:, :, order])


def test_fully_masked_query_gets_zeros():
    x = doubles(B, N, D)
    layer = MultiHeadAttention(D, H).double()
    mask = torch.ones(B, 1, N, dtype=torch.bool)
    mask[0] = False
    y, weights = layer(x, mask=mask)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    assert (y[0] == 0).all() and (weights[0] == 0).all() and (gradient[0] == 0).all()
    assert gradient.isfinite().all() and gradient[1].abs().max() > 0


@pytest.mark.parametrize("shape", [(N,), (N, N), (B, 1, N), (B, N, N)])
def test_mask_applies_to_every_head(shape):
    mask = torch.rand(shape) < 0.5
    mask[..., 0] = True
    x = doubles(B, N, D)
    _, weights = MultiHeadAttention(D, H).double()(x, mask=mask)
    everywhere = mask.broadcast_to(B, N, N)[:, None].broadcast_to(B, H, N, N)
    assert torch.equal(weights > 0, everywhere)


def test_projections_are_separate_parameters():
    """Self-attention is not value = key: the three projections of one sequence are three sets of parameters."""
    layer = MultiHeadAttention(D, H)
    assert len({id(p) for p in layer.parameters()}) == 4
    assert not torch.equal(layer.to_k.weight, layer.to_v.weight)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: split_heads(torch.zeros(2, 10), 4), "n_heads must divide the 10 features"),
        (lambda: share_heads(torch.zeros(4, 2, 3), 6), "4 does not divide 6"),
        (lambda: MultiHeadAttention(10, 4), "4 does not divide 10"),
        (lambda: MultiHeadAttention(12, 4, 3), "3 does not divide 4"),
        (
            lambda: multi_head_attention(torch.zeros(2, 8), torch.zeros(3, 8), torch.zeros(3, 8), 4, 2),
            "queries has 2 features and a head of keys 4",
        ),
        (
            lambda: MultiHeadAttention(4, 2)(torch.zeros(5, 3, 4), mask=torch.ones(5, 2, 3, 3, dtype=torch.bool)),
            "mask must be broadcastable",
        ),
    ],
)
def test_size_errors_name_the_sizes(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_scores_depend_on_the_product_of_projections():
    """x W_q W_k^T x' is a bilinear score of rank d, and W_v W_o is one map of rank d for each head."""
    ours, x = MultiHeadAttention(D, H).double(), doubles(B, N, D)
    d = D // H
    W_q, W_k, W_v = (to.weight.T.split(d, dim=1) for to in (ours.to_q, ours.to_k, ours.to_v))  # H of (D, d)
    W_o = ours.to_out.weight.T.split(d)  # H of (d, D)
    merged = [(q @ k.T, v @ o) for q, k, v, o in zip(W_q, W_k, W_v, W_o, strict=True)]
    assert [torch.linalg.matrix_rank(m) for pair in merged for m in pair] == [d] * 2 * H
    heads = [attend(x @ A @ x.mT / d**0.5, x @ VO)[0] for A, VO in merged]
    y, weights = ours(x)
    assert_close(sum(heads), y)
    # with its weights frozen, self-attention is a dense layer on all N D numbers
    VO = [vo.T.contiguous() for _, vo in merged]
    dense = sum(torch.kron(w, vo) for w, vo in zip(weights[0], VO, strict=True))  # (N D, N D)
    assert_close(dense @ x[0].flatten(), y[0].flatten())
