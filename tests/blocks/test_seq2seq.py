"""Encoder and decoder: a loss without padding, one step equal to many, formulas by loops."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from possm_lite.blocks.attention import additive_score
from possm_lite.blocks.recurrent import gru_cell
from possm_lite.blocks.seq2seq import (
    BEGIN,
    END,
    PAD,
    BahdanauSeq2Seq,
    LuongSeq2Seq,
    Seq2Seq,
    bahdanau_context,
    masked_cross_entropy,
    shift_right,
    source_mask,
)

ALL = pytest.mark.parametrize("kind", [Seq2Seq, BahdanauSeq2Seq, LuongSeq2Seq])
SOURCE = torch.tensor([[3, 4, 5, 6], [5, 3, PAD, PAD], [7, PAD, PAD, PAD]])
TARGET = torch.tensor([[4, 4, END, PAD, PAD], [3, 7, 5, 4, END], [END, PAD, PAD, PAD, PAD]])


def make(kind, **sizes):
    torch.manual_seed(7)
    return kind(8, 8, **({"dim": 5, "hidden": 6} | sizes)).double()


def test_loss_matches_cross_entropy_without_padding():
    logits = torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    real = [(b, t) for b in range(3) for t in range(5) if TARGET[b, t] != PAD]
    by_hand = sum(logits[b, t].logsumexp(0) - logits[b, t, TARGET[b, t]] for b, t in real) / len(real)
    ours = masked_cross_entropy(logits, TARGET)
    for pad in (-1, logits.shape[-1]):  # outside of the vocabulary
        assert_close(masked_cross_entropy(logits, TARGET.masked_fill(TARGET == PAD, pad), pad), ours)
    assert_close(ours, by_hand)
    assert_close(ours, F.cross_entropy(logits.transpose(1, 2), TARGET, ignore_index=PAD))
    assert_close(*(torch.autograd.grad(loss, logits) for loss in (ours, by_hand)))
    filler = torch.cat([logits, 100 * torch.randn(3, 4, 8)], 1)
    assert_close(masked_cross_entropy(filler, F.pad(TARGET, (0, 4), value=PAD)), ours)
    empty = masked_cross_entropy(logits, torch.full((3, 5), PAD))
    assert empty == 0 and not torch.autograd.grad(empty, logits)[0].any()
    another = masked_cross_entropy(logits[0, :4], torch.tensor([0, 3, 7, 7]), pad=7)
    assert_close(another, F.cross_entropy(logits[0, :2], torch.tensor([0, 3])))


def test_shift_right():
    assert shift_right(TARGET).tolist()[1] == [BEGIN, 3, 7, 5, 4]
    assert shift_right(torch.tensor([5, 6, END])).tolist() == [BEGIN, 5, 6]


@pytest.mark.parametrize("rows", [[[3, 4], [PAD, PAD]], [[PAD, 4], [3, 4]], [[3, PAD, 4]]])
def test_padding_must_follow_the_last_token(rows):
    with pytest.raises(ValueError, match="padding"):
        source_mask(torch.tensor(rows))


@ALL
def test_teacher_forcing_matches_single_steps(kind):
    model = make(kind)
    state, logits = model.start(SOURCE), []
    for tokens in shift_right(TARGET).unbind(1):
        out, state = model.step(tokens, state)
        logits.append(out)
    assert_close(model(SOURCE, TARGET), torch.stack(logits, 1))


@ALL
def test_source_padding_changes_nothing(kind):
    """Each row alone and without its padding gives the same logits; so does wider padding."""
    model = make(kind)
    together = model(SOURCE, TARGET)
    assert_close(model(F.pad(SOURCE, (0, 3), value=PAD), TARGET), together)
    for row, n in enumerate((4, 2, 1)):
        assert_close(model(SOURCE[row : row + 1, :n], TARGET[row : row + 1])[0], together[row])


@ALL
def test_later_target_words_are_not_read(kind):
    model, changed = make(kind), TARGET.clone()
    changed[:, 3:] = 6
    assert_close(model(SOURCE, TARGET)[:, :4], model(SOURCE, changed)[:, :4])
    changed[:, 2] = 6
    assert not torch.allclose(model(SOURCE, TARGET)[:, 3], model(SOURCE, changed)[:, 3])


@ALL
def test_generate_feeds_back_its_words_and_stops(kind):
    """What is generated is the argmax under teacher forcing with that very text as the teacher."""
    model = make(kind, hidden=12)
    torch.nn.init.normal_(model.readout.weight, std=3)  # decided answers, of different lengths
    source = torch.randint(3, 8, (40, 4))
    text = model.generate(source, 9)
    real = text != PAD
    assert (model(source, text).argmax(-1)[real] == text[real]).all()
    for row in text.tolist():
        if END in row:
            assert set(row[row.index(END) + 1 :]) <= {PAD}


def test_context_matches_loops():
    s, H, mask = torch.randn(2, 3), torch.randn(2, 4, 5), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()
    W_q, W_k, w_v = torch.randn(6, 3), torch.randn(6, 5), torch.randn(6)
    c, weights = bahdanau_context(s, H, H @ W_k.T, W_q, w_v, mask)
    for b, n in enumerate((4, 2)):
        scores = torch.stack([w_v @ torch.tanh(W_q @ s[b] + W_k @ H[b, i]) for i in range(n)])
        alpha = scores.exp() / scores.exp().sum()
        assert_close((weights[b, :n], c[b]), (alpha, sum(alpha[i] * H[b, i] for i in range(n))))
        assert not weights[b, n:].any()
    additive = additive_score(s[:, None], H, W_q, W_k, w_v)[:, 0]
    assert_close(weights, torch.softmax(additive.masked_fill(~mask, -torch.inf), -1))


def test_query_is_the_previous_state():
    """s_t by hand from s_{t-1}: the weights are those of s_{t-1}, and they do not depend on the word that comes in."""
    model = make(BahdanauSeq2Seq)
    state = model.start(SOURCE)
    s, H, keys, mask = state
    c, alpha = bahdanau_context(s, H, keys, model.W_q, model.w_v, mask)
    by_hand = gru_cell(torch.cat([model.write(TARGET[:, 0]), c], -1), s, *model.decoder.all_weights[0])
    assert_close(model.attend_and_step(TARGET[:, 0], state), (by_hand, alpha))
    assert_close(model.attend_and_step(TARGET[:, 1], state)[1], alpha)
    alignment = model.align(SOURCE, TARGET)
    assert_close(alignment[:, 0], alpha)
    state = (model.attend_and_step(torch.full((3,), BEGIN), state)[0], *state[1:])
    assert_close(alignment[:, 1], bahdanau_context(state[0], H, keys, model.W_q, model.w_v, mask)[1])
    assert not torch.allclose(bahdanau_context(by_hand, H, keys, model.W_q, model.w_v, mask)[1], alpha)


def test_backward_encoder_starts_at_the_last_token():
    model = make(BahdanauSeq2Seq)
    H = model.encode(SOURCE)[0]
    for row, n in enumerate((4, 2, 1)):
        states = model.backward_encoder(model.read(SOURCE[row : row + 1, :n].flip(1)))[0][0].flip(0)
        assert_close(H[row, :n, 6:], states)


def test_luong_asks_with_the_new_state():
    """One step of one sentence by loops over the places."""
    model = make(LuongSeq2Seq)
    s, H, keys, mask = model.start(SOURCE[1:2])
    s_1 = gru_cell(model.write(TARGET[1, :1]), s, *model.decoder.all_weights[0])  # (1, h): it has not looked yet
    scores = [model.w_v @ torch.tanh(model.W_q @ s_1[0] + model.W_k @ H[0, i]) for i in range(2)]
    alpha = torch.stack(scores).exp() / torch.stack(scores).exp().sum()
    c = alpha[0] * H[0, 0] + alpha[1] * H[0, 1]
    logits, state = model.step(TARGET[1, :1], (s, H, keys, mask))
    assert_close(logits[0], model.readout(torch.tanh(model.W_c @ torch.cat([c, s_1[0]]))))
    assert_close(state[0], s_1)
    assert_close(model.look_up(s_1[:, None], H, keys, mask)[1][0, 0, :2], alpha)
    assert_close(model.align(SOURCE[1:2], torch.tensor([[END]]))[0, 0, :2], model.align(SOURCE, TARGET)[1, 0, :2])
    assert_close(model.align(SOURCE, TARGET).sum(-1), torch.ones(3, 5, dtype=torch.float64))
