"""Selection against torch's own operations, and the estimator of hard attention against the enumerated gradient."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from possm_lite.blocks.attention import length_mask
from possm_lite.blocks.selection import (
    argmax_choice,
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

N_SAMPLES = 40_000
SCORES = torch.tensor([0.5, -0.3, 1.0, 0.0], dtype=torch.float64)
VALUES = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
TARGET = 1.2
LOSSES = (VALUES - TARGET).square()  # (M,): what reading item m costs


def test_max_pooling_matches_torch():
    items = torch.randn(3, 6, 4, requires_grad=True)
    value, winner = max_pool_items(items)
    assert_close(value, F.adaptive_max_pool1d(items.transpose(1, 2), 1)[..., 0])
    assert_close(items.gather(1, winner[:, None])[:, 0], value)
    value.sum().backward()
    assert (items.grad.count_nonzero(dim=1) == 1).all()  # the winner alone has a gradient


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_masked_max_pooling_matches_the_unpadded_slice():
    lengths = (4, 1, 0)
    mask = length_mask(torch.tensor(lengths), 4)
    items = torch.randn(3, 4, 2).masked_fill(~mask[..., None], 1e6).requires_grad_()
    with torch.autograd.detect_anomaly(check_nan=True):
        value, winner = max_pool_items(items, mask)
        value.square().sum().backward()
    for row, n in enumerate(lengths[:2]):
        assert_close((value[row], winner[row]), (items[row, :n].amax(0), items[row, :n].argmax(0)))
    assert (value[2] == 0).all() and (winner[2] == -1).all() and (items.grad[~mask] == 0).all()


@pytest.mark.parametrize("per_feature", [True, False])
def test_gate_multiplies_by_its_sigmoid(per_feature):
    items, n_gates = torch.randn(2, 5, 3), 3 if per_feature else 1
    W, b = torch.randn(n_gates, 3), torch.randn(n_gates)
    gated, opening = gate_items(items, W, b)
    for m in range(5):
        expected = 1 / (1 + torch.exp(-(W @ items[1, m] + b)))
        assert_close(opening[1, m], expected)
        assert_close(gated[1, m], expected * items[1, m])
    if per_feature:  # torch's gated linear unit, with x itself as the thing that is gated
        assert_close(gated, F.glu(torch.cat([items, F.linear(items, W, b)], -1), -1))


def test_argmax_choice_is_one_hot_without_gradient():
    scores = torch.randn(5, 7, requires_grad=True)
    choice = argmax_choice(scores)
    assert_close(choice, F.one_hot(scores.argmax(-1), 7).to(choice.dtype))
    assert not choice.requires_grad
    # one float apart: a softmax would call it a draw
    assert argmax_choice(torch.tensor([1.0, 1.0 + 1.2e-7])).tolist() == [0.0, 1.0]


def test_sample_frequencies_follow_softmax():
    mask = torch.tensor([True, True, False, True])
    counts = sample_choice(SCORES.repeat(N_SAMPLES, 1), mask).sum(0)
    p = torch.softmax(SCORES[mask], -1)
    assert counts[2] == 0 and counts.sum() == N_SAMPLES
    chi2 = ((counts[mask] - N_SAMPLES * p).square() / (N_SAMPLES * p)).sum()
    assert chi2 < 13.8  # two degrees of freedom: one run in a thousand


@pytest.mark.parametrize("choose", [argmax_choice, sample_choice, lambda s, m: straight_through_gumbel(s, 0.5, m)])
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_fully_masked_row_chooses_nothing(choose):
    mask = length_mask(torch.tensor([3, 1, 0]), 3)
    scores = torch.randn(3, 3).masked_fill(~mask, 50.0).requires_grad_()
    with torch.autograd.detect_anomaly(check_nan=True):
        choice = choose(scores, mask)
        log_p = log_probability(scores, choice.detach(), mask)
        (log_p.sum() + choice.square().sum()).backward()
    assert choice.sum(-1).tolist() == [1, 1, 0] and (choice[~mask] == 0).all()
    assert (log_p[1:] == 0).all() and (scores.grad[~mask] == 0).all() and scores.grad.isfinite().all()


def test_log_probability_matches_torch():
    scores, choice = torch.randn(6, 4), F.one_hot(torch.arange(6) % 4, 4).float()
    expected = torch.distributions.Categorical(logits=scores).log_prob(torch.arange(6) % 4)
    assert_close(log_probability(scores, choice), expected)


def test_exact_gradient_matches_enumeration_and_respects_the_mask():
    scores = SCORES.clone().requires_grad_()
    (by_autograd,) = torch.autograd.grad(expected_loss(scores, LOSSES), scores)
    assert_close(exact_gradient(SCORES, LOSSES), by_autograd)
    for m, nudge in enumerate(1e-6 * torch.eye(4, dtype=torch.float64)):
        p_up, p_down = torch.softmax(SCORES + nudge, -1), torch.softmax(SCORES - nudge, -1)
        rise = sum((p_up[j] - p_down[j]) * LOSSES[j] for j in range(4))
        assert abs(rise.item() / 2e-6 - by_autograd[m].item()) < 1e-8
    mask = length_mask(torch.tensor([3, 0]), 4)
    gradient = exact_gradient(SCORES.repeat(2, 1), LOSSES, mask)
    assert_close(gradient[0, :3], exact_gradient(SCORES[:3], LOSSES[:3]))
    assert (gradient[0, 3:] == 0).all() and (gradient[1] == 0).all()


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
    scores = torch.randn(50, 6, requires_grad=True)
    wanted = torch.randn(50, 6)
    draws = []
    for draw in (lambda: straight_through_gumbel(scores, 0.7), lambda: F.gumbel_softmax(scores, tau=0.7, hard=True)):
        torch.manual_seed(3)
        choice = draw()
        draws.append((choice.detach(), torch.autograd.grad((choice * wanted).sum(), scores)[0]))
    assert_close(*draws)
    assert set(draws[0][0].unique().tolist()) == {0.0, 1.0}


def test_generator_makes_draws_repeatable():
    scores = torch.zeros(20, 5)
    for draw in (sample_choice, straight_through_gumbel):
        one, other = (draw(scores, generator=torch.Generator().manual_seed(1)) for _ in range(2))
        assert_close(one, other, rtol=0, atol=0)
