"""Selection against torch's own operations, and the estimator of hard attention against the enumerated gradient."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from possm_course.chapters.ch02.selection import (
    exact_gradient,
    expected_loss,
    gate_items,
    leave_one_out_mean,
    log_probability,
    max_pool_items,
    reinforce_loss,
    sample_choice,
    straight_through_gumbel,
)
from possm_lite.nn.attention import length_mask

N_SAMPLES = 40_000
SCORES = torch.tensor([0.5, -0.3, 1.0, 0.0], dtype=torch.float64)
VALUES = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
TARGET = 1.2
LOSSES = (VALUES - TARGET).square()  # (M,): what reading item m costs


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_max_pooling_matches_the_unpadded_slice():
    lengths = (4, 1, 0)
    mask = length_mask(torch.tensor(lengths), 4)
    items = torch.randn(3, 4, 2).masked_fill(~mask[..., None], 1e6).requires_grad_()
    with torch.autograd.detect_anomaly(check_nan=True):
        value, winner = max_pool_items(items, mask)
        value.square().sum().backward()
    for row, n in enumerate(lengths[:2]):
        assert_close((value[row], winner[row]), (items[row, :n].amax(0), items[row, :n].argmax(0)))
        assert_close(max_pool_items(items[row, :n]), (value[row], winner[row]))
        assert (items.grad[row].count_nonzero(dim=0) == 1).all()  # the winner alone has a gradient
    assert (value[2] == 0).all() and (winner[2] == -1).all() and (items.grad[~mask] == 0).all()


@pytest.mark.parametrize("n_gates", [3, 1])
def test_gate_multiplies_by_its_sigmoid(n_gates):
    items, W, b = torch.randn(2, 5, 3), torch.randn(n_gates, 3), torch.randn(n_gates)
    gated, opening = gate_items(items, W, b)
    for m in range(5):
        expected = 1 / (1 + torch.exp(-(W @ items[1, m] + b)))
        assert_close((opening[1, m], gated[1, m]), (expected, expected * items[1, m]))


def test_sample_frequencies_follow_softmax():
    counts = sample_choice(SCORES.repeat(N_SAMPLES, 1)).sum(0)
    expected = N_SAMPLES * torch.softmax(SCORES, -1)
    assert counts.sum() == N_SAMPLES
    chi2 = ((counts - expected).square() / expected).sum()
    assert chi2 < 16.3  # three degrees of freedom: one run in a thousand


def test_log_probability_matches_torch():
    scores, choice = torch.randn(6, 4), F.one_hot(torch.arange(6) % 4, 4).float()
    expected = torch.distributions.Categorical(logits=scores).log_prob(torch.arange(6) % 4)
    assert_close(log_probability(scores, choice), expected)
    masked = torch.tensor([1.0, -torch.inf])
    assert log_probability(masked, torch.tensor([1.0, 0.0])) == 0


def test_exact_gradient_matches_enumeration():
    scores = SCORES.clone().requires_grad_()
    (by_autograd,) = torch.autograd.grad(expected_loss(scores, LOSSES), scores)
    assert_close(exact_gradient(SCORES, LOSSES), by_autograd)
    for m, nudge in enumerate(1e-6 * torch.eye(4, dtype=torch.float64)):
        p_up, p_down = torch.softmax(SCORES + nudge, -1), torch.softmax(SCORES - nudge, -1)
        rise = sum((p_up[j] - p_down[j]) * LOSSES[j] for j in range(4))
        assert abs(rise.item() / 2e-6 - by_autograd[m].item()) < 1e-8
    together = exact_gradient(torch.stack([SCORES, SCORES]), torch.stack([0 * LOSSES, LOSSES]))
    assert_close(together, torch.stack([0 * by_autograd, by_autograd]))


def test_reinforce_differentiates_the_loss_too():
    """The expected loss depends on the values too; both parts of its gradient are those of enumeration."""
    values, scores = VALUES.clone().requires_grad_(), SCORES.clone().requires_grad_()
    losses = (values - TARGET).square()
    exact = torch.autograd.grad(expected_loss(scores, losses), (scores, values))
    choice = torch.eye(4, dtype=torch.float64)  # every choice once, weighted by p below
    surrogate = reinforce_loss(log_probability(scores.expand(4, 4), choice), (choice @ values - TARGET).square(), 0.7)
    weighted = (torch.softmax(SCORES, -1) * surrogate).sum()
    assert_close(torch.autograd.grad(weighted, (scores, values)), exact)
    log_p, loss, baseline = (torch.randn(3, requires_grad=True) for _ in range(3))
    reinforce_loss(log_p, loss, baseline).sum().backward()
    assert_close((log_p.grad, loss.grad), ((loss - baseline).detach(), torch.ones(3)))
    assert baseline.grad is None


def test_leave_one_out_mean_matches_loops():
    loss = torch.randn(5, 2)
    for i in range(5):
        assert_close(leave_one_out_mean(loss)[i], torch.cat([loss[:i], loss[i + 1 :]]).mean(0))


def test_straight_through_gumbel_matches_torch():
    scores, wanted = torch.randn(50, 6, requires_grad=True), torch.randn(50, 6)
    draws = []
    for draw in (lambda: straight_through_gumbel(scores, 0.7), lambda: F.gumbel_softmax(scores, tau=0.7, hard=True)):
        torch.manual_seed(3)
        choice = draw()
        draws.append((choice.detach(), torch.autograd.grad((choice * wanted).sum(), scores)[0]))
    assert_close(*draws)
