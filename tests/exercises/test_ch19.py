"""Chapter 19: right answers in other styles."""

import math
from itertools import groupby

import numpy as np
import torch
from torch.nn import functional as F

from .helpers import answers, load

check = load("ch19")


def loss_of_torch(logits, y, w):
    return (F.cross_entropy(logits, y, reduction="none") * w[y]).mean()


def mean_of_the_diagonal(true, decoded):
    names = np.union1d(true, decoded)
    table = np.array([[np.sum((true == a) & (decoded == b)) for b in names] for a in names])
    present = table.sum(1) > 0
    return (np.diag(table)[present] / table.sum(1)[present]).mean()


def collapse_by_groups(path):
    return [sign for sign, _ in groupby(path) if sign != 0]


def forward_without_a_loop(alpha, log_p, y):
    signs = torch.zeros(2 * len(y) + 1, dtype=torch.int64)
    signs[1::2] = torch.tensor(y)
    one = F.pad(alpha[:-1], (1, 0), value=-math.inf)
    two = F.pad(alpha[:-2], (2, 0), value=-math.inf)
    closed = torch.ones(len(signs), dtype=torch.bool)
    closed[3::2] = signs[3::2] == signs[1:-2:2]
    return torch.logaddexp(torch.logaddexp(alpha, one), two.masked_fill(closed, -math.inf)) + log_p[signs]


def errors_of_all_beginnings(said, right):
    def distance(a, b):
        if not a or not b:
            return len(a) + len(b)
        return min(distance(a[:-1], b) + 1, distance(a, b[:-1]) + 1, distance(a[:-1], b[:-1]) + (a[-1] != b[-1]))

    return [min(distance(said[:i], right[:j]) for j in range(len(right) + 1)) for i in range(len(said) + 1)]


test_answers = answers(
    check,
    ("class_loss", loss_of_torch),
    ("class_loss", lambda logits, y, w: F.cross_entropy(logits, y, weight=w), "sum of the weights"),
    ("balanced_accuracy", mean_of_the_diagonal),
    ("collapse", collapse_by_groups),
    ("forward_step", forward_without_a_loop),
    ("running_errors", errors_of_all_beginnings),
)
