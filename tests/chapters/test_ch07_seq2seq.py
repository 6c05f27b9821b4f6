"""Encoder and decoder: a loss without padding, one step equal to many, formulas by loops."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from possm_course.chapters.ch07.seq2seq import (
    BEGIN,
    END,
    PAD,
    BahdanauSeq2Seq,
    LuongSeq2Seq,
    Seq2Seq,
    masked_cross_entropy,
    shift_right,
)
from possm_lite.nn.recurrent import gru_cell

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
    assert_close(ours, by_hand)
    assert_close(*(torch.autograd.grad(loss, logits) for loss in (ours, by_hand)))
    assert_close(masked_cross_entropy(logits, TARGET.masked_fill(TARGET == PAD, -1), pad=-1), ours)
    empty = masked_cross_entropy(logits, torch.full((3, 5), PAD))
    assert empty == 0 and not torch.autograd.grad(empty, logits)[0].any()


def test_embedding_is_a_one_hot_vector_times_a_table():
    model = make(Seq2Seq)
    onehot = F.one_hot(SOURCE, 8).double()  # (B, N, V)
    assert_close(onehot @ model.read.weight, model.read(SOURCE))
    model.read(SOURCE).sum().backward()  # a row is learned where its token occurs
    assert model.read.weight.grad.any(1).nonzero()[:, 0].tolist() == SOURCE.unique().tolist()


def test_overfits_a_tiny_task():
    model = make(Seq2Seq, hidden=24)
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(40):
        adam.zero_grad()
        masked_cross_entropy(model(SOURCE, TARGET), TARGET).backward()
        adam.step()
    assert torch.equal(model.generate(SOURCE, 5), TARGET)


@pytest.mark.parametrize("rows", [[[3, 4], [PAD, PAD]], [[PAD, 4], [3, 4]], [[3, PAD, 4]]])
def test_padding_must_follow_the_last_token(rows):
    with pytest.raises(ValueError, match="padding"):
        make(Seq2Seq).encode(torch.tensor(rows))


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
def test_generate_feeds_back_its_words_and_stops(kind):
    """What is generated is the argmax under teacher forcing with that very text as the teacher."""
    model = make(kind, hidden=12)
    torch.nn.init.normal_(model.readout.weight, std=3)  # decided answers, of different lengths
    source = torch.randint(3, 8, (40, 4))
    text = model.generate(source, 9)
    real = text != PAD
    assert (model(source, text).argmax(-1)[real] == text[real]).all()
    ended = (text == END).cumsum(1)[:, :-1] > 0
    assert ended.any() and not real[:, 1:][ended].any()


def context_by_loops(model, s, H):
    """(7.4) for one state s (h,) and the real places H (n, 2h) of its sentence, one place after the other."""
    scores = torch.stack([model.w_v @ torch.tanh(model.W_q @ s + model.W_k @ h) for h in H])
    alpha = scores.exp() / scores.exp().sum()
    return sum(a * h for a, h in zip(alpha, H, strict=True)), alpha


def test_bahdanau_asks_with_the_previous_state():
    """Two steps of each sentence by loops: the weights of a step are those of the state before it."""
    model = make(BahdanauSeq2Seq)
    start, alignment, logits = model.start(SOURCE), model.align(SOURCE, TARGET), model(SOURCE, TARGET)
    for b, n in enumerate((4, 2, 1)):
        s, H = start[0][b], start[1][b, :n]
        for t, word in enumerate((BEGIN, TARGET[b, 0])):
            c, alpha = context_by_loops(model, s, H)
            x = torch.cat([model.write.weight[word], c])
            s = gru_cell(x[None], s[None], *model.decoder.all_weights[0])[0]
            assert_close((alignment[b, t, :n], logits[b, t]), (alpha, model.readout(s)))
            assert not alignment[b, t, n:].any()


def test_backward_encoder_starts_at_the_last_token():
    model = make(BahdanauSeq2Seq)
    H = model.encode(SOURCE)[0]
    for row, n in enumerate((4, 2, 1)):
        states = model.backward_encoder(model.read(SOURCE[row : row + 1, :n].flip(1)))[0][0].flip(0)
        assert_close(H[row, :n, 6:], states)


def test_luong_asks_with_the_new_state():
    """The first step of each sentence by loops: the new state has not looked yet."""
    model = make(LuongSeq2Seq)
    start, alignment, logits = model.start(SOURCE), model.align(SOURCE, TARGET), model(SOURCE, TARGET)
    s = gru_cell(model.write.weight[[BEGIN] * 3], start[0], *model.decoder.all_weights[0])
    for b, n in enumerate((4, 2, 1)):
        c, alpha = context_by_loops(model, s[b], start[1][b, :n])
        expected = model.readout(torch.tanh(model.W_c @ torch.cat([c, s[b]])))
        assert_close((alignment[b, 0, :n], logits[b, 0]), (alpha, expected))
        assert not alignment[b, 0, n:].any()
