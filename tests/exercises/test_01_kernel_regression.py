"""Chapter 01: right answers are told so however they are written, wrong ones which mistake they look like."""

import math

import pytest
import torch

from .helpers import assert_right, load

check = load("01_kernel_regression")


def weights_by_hand(x, x_i, w):
    """Row by row, the largest exponent taken off by hand."""
    rows = []
    for q in x:
        e = -0.5 * w**2 * (x_i - q) ** 2
        k = torch.exp(e - e.max())
        rows.append(k / k.sum())
    return torch.stack(rows)


def errors_by_hand(x_i, y_i, w):
    """Every point is taken out of the data set, and predicted from what is left."""
    total = 0
    for i in range(len(x_i)):
        others = torch.arange(len(x_i)) != i
        share = torch.softmax(-0.5 * w**2 * (x_i[others] - x_i[i]) ** 2, 0)
        total = total + (y_i[i] - (share * y_i[others]).sum()) ** 2
    return total / len(x_i)


def pool_by_hand(scores, values):
    """Query by query, key by key; the largest score of the query taken off by hand."""
    weights, pooled = torch.zeros(scores.shape), torch.zeros(len(scores), values.shape[1])
    for q, row in enumerate(scores):
        e = (row - max(row)).exp()
        weights[q] = e / e.sum()
        for share, value in zip(weights[q], values, strict=True):
            pooled[q] += share * value
    return pooled, weights


def pool_by_einsum(scores, values):
    p = (scores - scores.logsumexp(1, keepdim=True)).exp()
    return torch.einsum("qm,mv->qv", p, values), p


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (check.gaussian_weights, weights_by_hand),
        (check.loo_error, errors_by_hand),
        (check.pool, pool_by_hand),
        (check.pool, pool_by_einsum),
        (check.doubled_weight, math.exp(-2)),
        (check.doubled_weight, 0.14),
        (check.far_answer, "first"),
        (check.far_answer, " First "),
    ],
)
def test_a_right_answer_is_right(exercise, answer):
    assert_right(exercise, answer)


def weights_stub(x, x_i, w):
    """As it stands in the chapter."""
    ...  # noqa: PIE790


def pool_stub(scores, values):
    """As it stands in the chapter."""
    ...  # noqa: PIE790


def w_outside(x, x_i, w):
    distance = x.unsqueeze(1) - x_i.unsqueeze(0)
    return (-w * distance.square() / 2).softmax(dim=1)


def w_for_the_width(x, x_i, w):
    distance = x.unsqueeze(1) - x_i.unsqueeze(0)
    return (-((distance / w) ** 2) / 2).softmax(dim=1)


def over_the_wrong_axis(x, x_i, w):
    return (-(w**2) * (x[:, None] - x_i[None]) ** 2 / 2).softmax(dim=0)


def exp_over_sum(x, x_i, w):
    k = (-((w * (x[:, None] - x_i[None])) ** 2) / 2).exp()
    return k / k.sum(1, keepdim=True)


def sums_without_keepdim(x, x_i, w):
    k = (-((w * (x[:, None] - x_i[None])) ** 2) / 2).exp()
    return k / k.sum(1)


def softmax_of_the_kernel(x, x_i, w):
    return (-((w * (x[:, None] - x_i[None])) ** 2) / 2).exp().softmax(1)


def one_sum_for_all(x, x_i, w):
    k = (-((w * (x[:, None] - x_i[None])) ** 2) / 2).exp()
    return k / k.sum()


def points_by_queries(x, x_i, w):
    return weights_by_hand(x, x_i, w).T


def forgets_itself_too_late(x_i, y_i, w):
    p = weights_by_hand(x_i, x_i, w)
    p = p - torch.diag(p.diagonal())
    return ((p @ y_i - y_i) ** 2).mean()


def divides_its_columns(x_i, y_i, w):
    p = weights_by_hand(x_i, x_i, w)
    p = p - torch.diag(p.diagonal())
    return ((p / p.sum(1) @ y_i - y_i) ** 2).mean()


def softmax_twice(x_i, y_i, w):
    p = weights_by_hand(x_i, x_i, w)
    return (((p - torch.diag(p.diagonal())).softmax(1) @ y_i - y_i) ** 2).mean()


def sees_itself(x_i, y_i, w):
    return ((weights_by_hand(x_i, x_i, w) @ y_i - y_i) ** 2).sum() / len(y_i)


def zero_score(x_i, y_i, w):
    s = -0.5 * w**2 * (x_i[:, None] - x_i) ** 2
    s = s.masked_fill(torch.eye(len(s)).bool(), 0.0)
    return ((s.softmax(1) @ y_i - y_i) ** 2).mean()


def summed(x_i, y_i, w):
    return errors_by_hand(x_i, y_i, w) * len(x_i)


def rooted(x_i, y_i, w):
    return errors_by_hand(x_i, y_i, w) ** 0.5


def plain_number(x_i, y_i, w):
    return errors_by_hand(x_i, y_i, w).item()


def pools_over_queries(scores, values):
    p = scores.softmax(0)
    return torch.einsum("qm,mv->qv", p, values), p


def pools_scores(scores, values):
    return scores @ values, scores


def pools_exponentials(scores, values):
    return scores.exp() @ values, scores.exp()


def pools_without_a_sum(scores, values):
    p = scores.softmax(1)
    return torch.einsum("qm,mv->qmv", p, values), p


def pools_by_the_mean(scores, values):
    p = scores.softmax(1)
    return p @ values / len(values), p


def pools_transposed_values(scores, values):
    return scores.softmax(1) @ values.mT, scores.softmax(1)


def pools_place_by_place(scores, values):
    return torch.mul(scores.softmax(1), values), scores.softmax(1)


def overflows(scores, values):
    p = scores.exp().div(scores.exp().sum(1)[:, None])
    return p @ values, p


def pools_without_keepdim(scores, values):
    p = scores.exp() / scores.exp().sum(1)
    return p @ values, p


def takes_off_the_largest_of_all(scores, values):
    return overflows(scores - scores.max(), values)


def weights_first(scores, values):
    return pool_by_hand(scores, values)[1], pool_by_hand(scores, values)[0]


def weights_forgotten(scores, values):
    return pool_by_hand(scores, values)[0]


@pytest.mark.parametrize(
    ("exercise", "answer", "told"),
    [
        (check.gaussian_weights, w_outside, "w stands outside the square"),
        (check.gaussian_weights, w_for_the_width, "divided the distance by w"),
        (check.gaussian_weights, over_the_wrong_axis, "over the queries"),
        (check.gaussian_weights, exp_over_sum, "0 / 0 is NaN"),
        (check.gaussian_weights, sums_without_keepdim, "keepdim=True"),
        (check.gaussian_weights, softmax_of_the_kernel, "the softmax of K"),
        (check.gaussian_weights, one_sum_for_all, "share one sum"),
        (check.gaussian_weights, points_by_queries, "the shape is (3, 1)"),
        (check.loo_error, sees_itself, "still sees itself"),
        (check.loo_error, forgets_itself_too_late, "no longer sums to one"),
        (check.loo_error, zero_score, "the score of distance zero"),
        (check.loo_error, divides_its_columns, "keepdim=True"),
        (check.loo_error, softmax_twice, "a second softmax"),
        (check.loo_error, summed, "are summed"),
        (check.loo_error, rooted, "the root"),
        (check.loo_error, plain_number, "no gradient flows back"),
        (check.pool, pools_over_queries, "over the queries"),
        (check.pool, pools_scores, "scores themselves"),
        (check.pool, pools_exponentials, "do not sum to one"),
        (check.pool, pools_without_a_sum, "not added up"),
        (check.pool, pools_by_the_mean, "shares already"),
        (check.pool, pools_transposed_values, "values are transposed"),
        (check.pool, pools_place_by_place, "place by place"),
        (check.pool, pools_without_keepdim, "keepdim=True"),
        (check.pool, overflows, "inf / inf is NaN"),
        (check.pool, takes_off_the_largest_of_all, "of the whole table"),
        (check.pool, weights_first, "in the other order"),
        (check.pool, weights_forgotten, "2 values are wanted"),
        (check.doubled_weight, 1.21, "twice 0.61"),
        (check.doubled_weight, math.exp(-1), "inside the square"),
        (check.doubled_weight, math.exp(-0.5) / 2, "does not halve"),
        (check.doubled_weight, math.exp(-0.125), "half the w"),
        (check.doubled_weight, 0.5, "is not it"),
        (check.far_answer, "zero", "tiny is not zero"),
        (check.far_answer, "mean", "a very *small* w"),
        (check.far_answer, "last", "the far end"),
        (check.far_answer, 0.0, "a word is wanted"),
    ],
)
def test_a_wrong_answer_is_told_its_mistake(exercise, answer, told):
    verdict = exercise.examine(answer)
    assert verdict.status == "wrong"
    assert verdict.message.startswith(f"✗ {exercise.name}: ") and told in verdict.message
