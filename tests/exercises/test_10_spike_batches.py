"""Chapter 10, on tokens: right answers, written anew, get their tick; planted mistakes get the line that names them."""

import math

import pytest
import torch

from possm_lite.spikes import SpikeBatch

from .helpers import assert_wrong, load

check = load("10_spikes_as_tokens")

# 10.5


def slot_by_slot(padded_bin, spike_mask, *, blanks=True, carry=True, box=False, silent=True):
    """Loops; the keywords make the mistakes."""
    unit, offset, bins, number = [], [], [], -1
    for i, of_trial in enumerate(spike_mask):
        number = number if carry else -1
        for b, slots in enumerate(of_trial):
            spiking = (slots & (padded_bin[i, b, :, 0] != 0)).any()
            number += int(spiking if not silent else slots.any())
            for m in torch.nonzero(slots)[:, 0].tolist():
                u, dt = padded_bin[i, b, m].tolist()
                if blanks or u != 0:
                    unit, offset = [*unit, int(u)], [*offset, dt]
                    bins.append(i * len(of_trial) + b if box else number)
    return torch.tensor(unit), torch.tensor(offset, dtype=torch.float64), torch.tensor(bins)


def by_repeating(padded_bin, spike_mask):
    n = spike_mask.sum(-1).flatten()
    bins = torch.arange(int((n > 0).sum())).repeat_interleave(n[n > 0])
    return padded_bin[..., 0][spike_mask].to(torch.int64), padded_bin[..., 1][spike_mask], bins


@pytest.mark.parametrize("answer", [slot_by_slot, by_repeating])
def test_right_lists(answer):
    assert check.unpadded.examine(answer).message == "✓ unpadded"


@pytest.mark.parametrize("answer", [check.unpadded.reference, slot_by_slot])
def test_the_padded_batch_without_its_padding_is_the_ragged_one(answer):
    """The oracle of the ragged batch, on random spikes with silent bins and trials of unequal length."""
    g = torch.Generator().manual_seed(0)
    trial = torch.randint(0, 4, (30,), generator=g)
    duration = torch.tensor([0.2, 0.5, 0.35, 0.9, 0.1], dtype=torch.float64)  # the last trial has no spikes
    time_s = torch.rand(30, generator=g, dtype=torch.float64) * duration[trial]
    unit = torch.randint(1, 6, (30,), generator=g)
    batch = SpikeBatch.from_events(trial, unit, time_s, 5, duration.numpy())
    padded = batch.padded()
    for got, wanted in zip(
        answer(padded.padded_bin, padded.spike_mask), (batch.unit, batch.offset, batch.bin), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def everything(padded_bin, spike_mask):
    bins = torch.arange(spike_mask[..., 0].numel()).repeat_interleave(spike_mask.shape[-1])
    return padded_bin[..., 0].flatten().long(), padded_bin[..., 1].flatten(), bins


def with_offset(padded_bin, spike_mask):
    unit, offset, bins = slot_by_slot(padded_bin, spike_mask)
    return unit[offset > 0], offset[offset > 0], bins[offset > 0]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (everything, "padding is still in the list"),
        (lambda p, m: slot_by_slot(p, m, box=True), "bins that do not exist have no number"),
        (lambda p, m: slot_by_slot(p, m, carry=False), "begins with bin 0 again"),
        (lambda p, m: slot_by_slot(p, m, blanks=False), "the blank tokens are gone"),
        (lambda p, m: slot_by_slot(p, m, blanks=False, silent=False), "only where there are spikes"),
        (with_offset, "Ask the mask, not the values"),
        (lambda p, m: (*slot_by_slot(p, m)[:2], slot_by_slot(p, m)[2] + 1), "yours from 1"),
        (lambda p, m: (p[m][:, 0], *slot_by_slot(p, m)[1:]), "on one trial of two equally full bins"),
        (lambda p, m: p[m], "3 values are wanted"),
    ],
)
def test_bugs_of_the_list(answer, words):
    assert_wrong(check.unpadded, answer, words)


# 10.6


def by_complex_numbers(unit, time_s, b, E, omega, width_s):
    offset = [t - k * width_s for t, k in zip(time_s.tolist(), b.tolist(), strict=True)]
    turn = torch.exp(1j * torch.tensor(offset, dtype=torch.float64).outer(omega))
    pairs = torch.view_as_complex(E[unit].double().reshape(len(unit), -1, 2))
    return torch.view_as_real(pairs * turn).reshape(len(unit), -1).float()


def by_matrices(unit, time_s, b, E, omega, width_s):
    """R as a matrix of blocks, spike by spike; in float64 to the end, which is no mistake."""
    tokens = []
    for u, t, k in zip(unit.tolist(), time_s.tolist(), b.tolist(), strict=True):
        angles = [w * (t - k * width_s) for w in omega.tolist()]
        blocks = [torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]).double() for a in angles]
        tokens.append(torch.block_diag(*blocks) @ E[u].double())
    return torch.stack(tokens)


@pytest.mark.parametrize("answer", [by_complex_numbers, by_matrices])
def test_right_tokens(answer):
    assert check.spike_tokens.examine(answer).message == "✓ spike_tokens"


def planted(*, start=lambda b, w: b.double() * w, precision=torch.float64, sign=1, halves=False, added=False):
    def answer(unit, time_s, b, E, omega, width_s):
        angle = (time_s - start(b, width_s)).to(precision)[:, None] * omega.to(precision)
        cos, sin = angle.cos().float(), sign * angle.sin().float()
        if added:
            return E[unit] + torch.stack([sin, cos], -1).flatten(1)
        x, y = E[unit].chunk(2, -1) if halves else (E[unit][:, ::2], E[unit][:, 1::2])
        turned = x * cos - y * sin, x * sin + y * cos
        return torch.cat(turned, -1) if halves else torch.stack(turned, -1).flatten(1)

    return answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (planted(start=lambda b, w: 0 * b), "since the start of the trial"),
        (planted(precision=torch.float32), "the angle was float32"),
        (planted(start=lambda b, w: b * w), "the start of the bin was float32"),
        (planted(sign=-1), "look at the sign of the sine"),
        (planted(halves=True), "paired by halves"),
        (lambda *args: planted()(*args).unflatten(1, (-1, 2)).transpose(1, 2).flatten(1), "all x, then all y"),
        (planted(added=True), "*added*"),
        (lambda u, t, b, E, om, w: E[u], "the vector of the unit alone"),
        (lambda u, t, b, E, om, w: planted()(u, t, b, E, 2 * math.pi * om, w), "without another 2π"),
        (lambda u, t, b, E, om, w: planted()(u - 1, t, b, E, om, w), "the vector of the unit before"),
        (lambda u, t, b, E, om, w: planted()(u, t, b, E.index_fill(0, torch.tensor(0), 0.0), om, w), "was made zero"),
        (lambda u, t, b, E, om, w: planted()(u, t, b, E, om, w).flatten(), "on a spike at the very start"),
    ],
)
def test_bugs_of_the_token(answer, words):
    assert_wrong(check.spike_tokens, answer, words)
