"""Our layers over whole sequences against torch's with the same weights: layers, directions, lengths, gradients."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from possm_course.chapters.ch06.unrolled import (
    UnrolledGRU,
    UnrolledRNN,
    UnrolledTextbookGRU,
    clip_by_global_norm,
    gradients_through_time,
)
from possm_lite.nn import recurrent

KINDS = {"rnn": (UnrolledRNN, nn.RNN), "gru": (UnrolledGRU, nn.GRU)}
KERNELS = {"rnn": (recurrent.RNN, nn.RNN), "gru": (recurrent.GRU, nn.GRU), "lstm": (recurrent.LSTM, nn.LSTM)}

LENGTHS = [6, 1, 4]
every_kind = pytest.mark.parametrize("kind", KINDS)


def make_pair(kind, n_layers=1, both=False):
    """Ours and torch's, with torch's weights in both."""
    ours, theirs = KINDS[kind]
    theirs = theirs(5, 7, n_layers, bidirectional=both, batch_first=True).double()
    ours = ours(5, 7, n_layers, both).double()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def sequences():
    return torch.randn(3, 6, 5, dtype=torch.float64)


def gradients(layer, x, call):
    """Answer, last state, and the gradients of an uneven sum of both by input and parameters."""
    x = x.clone().requires_grad_()
    answer, state = call(x)
    total = sum((y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum() for y in (answer, state))
    return answer.detach(), state, torch.autograd.grad(total, [x, *layer.parameters()])


def by_torch(layer, x, state, lengths):
    if lengths is None:
        return layer(x, state)
    answer, state = layer(pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False), state)
    return pad_packed_sequence(answer, batch_first=True, total_length=6)[0], state


@every_kind
@pytest.mark.parametrize(("n_layers", "both"), [(1, False), (2, False), (3, True)])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_layers_match_torch_with_gradients(kind, n_layers, both, lengths):
    ours, theirs = make_pair(kind, n_layers, both)
    x, state = sequences(), torch.randn(n_layers * (1 + both), 3, 7, dtype=torch.float64)
    *of_ours, grads = gradients(ours, x, lambda x: ours(x, state, lengths))
    *of_theirs, expected = gradients(theirs, x, lambda x: by_torch(theirs, x, state, lengths))
    assert_close(of_ours, of_theirs, rtol=0, atol=1e-12)
    assert all(gradient.abs().max() > 0 for gradient in expected)
    assert_close(grads, expected, rtol=1e-10, atol=1e-11)


@every_kind
def test_padding_is_never_read(kind):
    """Any padding, NaN too: the same output and gradients, and zero gradients of the padding."""
    ours, _ = make_pair(kind, 2, both=True)
    x, padding = sequences(), torch.arange(6) >= torch.tensor(LENGTHS)[:, None]

    def look(filler):
        filled = x.masked_fill(padding[..., None], filler)
        return gradients(ours, filled, lambda x: ours(x, lengths=torch.tensor(LENGTHS)))

    output, state, grads = look(0.0)
    assert_close(look(float("nan")), (output, state, grads), rtol=0, atol=0)
    assert (output[padding] == 0).all() and (grads[0][padding] == 0).all()
    output, state = ours(x, lengths=[6, 0, 2])
    assert (output[1] == 0).all() and (state[:, 1] == 0).all()


def test_textbook_gru_is_a_loop_over_its_cell():
    textbook, x, h = UnrolledTextbookGRU(5, 7).double(), sequences(), torch.zeros(3, 7, dtype=torch.float64)
    for x_t in x.unbind(1):
        h = recurrent.textbook_gru_cell(x_t, h, *textbook.all_weights[0])
    assert_close(textbook(x)[1][0], h, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KERNELS)
def test_gradients_through_time_match_autograd(kind):
    ours, theirs = KERNELS[kind]
    layer, theirs = ours(5, 7).double(), theirs(5, 7, batch_first=True).double()
    layer.load_state_dict(theirs.state_dict())
    x = sequences()
    ours = gradients_through_time(layer, x)  # (7, 3, 7, S)
    with torch.no_grad():  # as in a notebook that only looks
        torch.testing.assert_close(gradients_through_time(layer, x), ours, rtol=0, atol=0)
    assert ours.shape == (7, 3, 7, 14 if kind == "lstm" else 7)
    assert_close(ours[6], torch.eye(7, ours.shape[-1], dtype=torch.float64).expand(3, 7, -1))
    for t in (0, 3, 5):
        state = theirs(x[:, :t])[1] if t else (torch.zeros(1, 3, 7).double(),) * (ours.shape[-1] // 7)
        state = state if isinstance(state, tuple) else (state,)

        def rest(*state, t=t):
            return theirs(x[:, t:], state if kind == "lstm" else state[0])[0][:, -1]

        blocks = torch.autograd.functional.jacobian(rest, state)  # (3, 7, 1, 3, 7) each
        for i in range(3):
            expected = torch.cat([block[i, :, 0, i] for block in blocks], -1)  # (7, S)
            assert_close(ours[t, i], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("max_norm", [0.5, 3.0, 1e3])
def test_clipping_matches_torch(max_norm):
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in ((4, 5), (3,), (2, 2))]
    for p in parameters:
        p.grad = 5 * torch.randn_like(p)
    clipped, norm = clip_by_global_norm([p.grad for p in parameters], max_norm)
    assert_close(norm, nn.utils.clip_grad_norm_(parameters, max_norm))  # in place
    assert_close(clipped, [p.grad for p in parameters], rtol=1e-5, atol=1e-7)
    assert_close(clip_by_global_norm([torch.zeros(3)], 1.0), ([torch.zeros(3)], torch.tensor(0.0)))
