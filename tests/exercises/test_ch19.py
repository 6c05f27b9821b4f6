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


def forward_in_numpy(alpha, log_p, y):
    alpha, log_p = np.asarray(alpha), np.asarray(log_p)
    signs = np.zeros(len(alpha), dtype=int)
    signs[1::2] = y
    new = alpha.copy()
    new[1:] = np.logaddexp(new[1:], alpha[:-1])
    for s in range(3, len(signs), 2):
        if signs[s] != signs[s - 2]:
            new[s] = np.logaddexp(new[s], alpha[s - 2])
    return new + log_p[signs]


def forward(zero=-1e30, add=torch.logsumexp, may_skip=lambda signs, s: signs[s] not in (0, signs[s - 2])):
    """An answer as in section 6, with the log of 0, how the ways are added, and which states skip a blank."""

    def forward_step(alpha, log_p, y):
        signs = [0, *(sign for letter in y for sign in (letter, 0))]
        skips = torch.tensor([s > 1 and may_skip(signs, s) for s in range(len(signs))])
        before = F.pad(alpha, (2, 0), value=zero)
        ways = torch.stack([alpha, before[1:-1], before[:-2].masked_fill(~skips, -1e30)])
        return add(ways, 0) + log_p[torch.tensor(signs)]

    return forward_step


def forward_that_wraps(alpha, log_p, y):
    signs = [0, *(sign for letter in y for sign in (letter, 0))]
    ways = [[alpha[s], alpha[s - 1]] for s in range(len(signs))]
    for s, sign in enumerate(signs):
        if sign not in (0, signs[s - 2]):
            ways[s].append(alpha[s - 2])
    return torch.stack([torch.stack(w).logsumexp(0) + log_p[sign] for w, sign in zip(ways, signs, strict=True)])


def forward_in_place(alpha, log_p, y):
    alpha = alpha.clone()
    for s, sign in enumerate([0, *(sign for letter in y for sign in (letter, 0))]):
        ways = [alpha[s - back] for back in (0, 1) if s >= back]
        if s % 2 and s > 1 and y[s // 2] != y[s // 2 - 1]:
            ways.append(alpha[s - 2])
        alpha[s] = torch.stack(ways).logsumexp(0) + log_p[sign]
    return alpha


def seen_before(signs, s):
    return signs[s] != 0 and signs[s] not in signs[:s]


def shortest(said, right):
    """Errors between two whole texts."""
    row = list(range(len(right) + 1))
    for i, letter in enumerate(said):
        new = [i + 1]
        for j, wanted in enumerate(right):
            new.append(min(row[j] + (letter != wanted), row[j + 1] + 1, new[j] + 1))
        row = new
    return row[-1]


def errors_of(ends):
    """An answer that tries the beginnings of `right` that end at the places which `ends` returns."""
    return lambda said, right: [
        min(shortest(said[:i], right[:j]) for j in ends(i, len(right))) for i in range(len(said) + 1)
    ]


class Padded:
    """Another right answer: all words in one tensor, filled up, and -1e30 for the log of 0."""

    zero = -1e30

    def __init__(self, words):
        self.lengths = torch.tensor([2 * len(word) + 1 for word in words])
        self.signs = torch.zeros(len(words), int(self.lengths.max()), dtype=torch.int64)
        for row, word in zip(self.signs, words, strict=True):
            row[1 : 2 * len(word) : 2] = torch.tensor(word)
        self.is_state = torch.arange(self.signs.shape[1]) < self.lengths[:, None]
        self.alpha, self.path, self.may_skip = None, [], self.skips()

    def skips(self):
        skips = torch.zeros_like(self.is_state)
        skips[:, 2:] = (self.signs[:, 2:] != 0) & (self.signs[:, 2:] != self.signs[:, :-2])
        return skips

    def add(self, ways):
        return ways.logsumexp(0)

    def step(self, row):
        self.path.append(int(row.argmax()))
        if self.alpha is None:
            alpha = row[self.signs].masked_fill(torch.arange(self.signs.shape[1]) > 1, -1e30)
        else:
            before = F.pad(self.alpha, (2, 0), value=self.zero)
            skipped = before[:, :-2].masked_fill(~self.may_skip, -1e30)
            alpha = self.add(torch.stack([self.alpha, before[:, 1:-1], skipped])) + row[self.signs]
        self.alpha = alpha.masked_fill(~self.is_state, -1e30)
        return collapse_by_groups(self.path)

    def ends(self):
        return self.alpha.gather(1, torch.stack([self.lengths - 1, self.lengths - 2], 1))

    def is_end(self):
        return torch.arange(self.signs.shape[1]) >= self.lengths[:, None] - 2

    def whole(self):
        return self.ends().logsumexp(1)

    def begun(self):
        return self.alpha.logsumexp(1)


def writer(**changed):
    """`Padded` with other methods or attributes."""
    return type("Writer", (Padded,), changed)


def often_blank(self):
    signs = self.signs.tolist()
    return torch.tensor([[s > 1 and seen_before(row, s) for s in range(len(row))] for row in signs])


def step_that_fills_up(self, row):
    self.is_state = torch.ones_like(self.is_state)
    return Padded.step(self, row)


def step_that_forgets(self, row):
    self.alpha = None
    return Padded.step(self, row)


def best_by_a_loop(right, since_s, pause_s, gain=lambda share: share - (1 - share), last=False):
    best, most = 0, -math.inf
    for j, t in enumerate(since_s):
        points = gain(sum(right[:, j]) / len(right)) / (t + pause_s)
        if points > most or (last and points == most):
            best, most = j, points
    return best, most


def best_by_points(right, since_s, pause_s):
    points = np.where(right, 1, -1).mean(0) / (since_s + pause_s)
    return np.flatnonzero(points == points.max())[0], max(points)


def most_accurate(right, since_s, pause_s):
    best = right.mean(0).argmax()
    return best, (2 * right.mean(0)[best] - 1) / (since_s[best] + pause_s)


PRECISION = "(precision)"
test_answers = answers(
    check,
    ("class_loss", loss_of_torch),
    ("class_loss", lambda logits, y, w: F.cross_entropy(logits, y, weight=w), "sum of the weights"),
    ("class_loss", lambda z, y, w: -(w[y] * (z.exp() / z.exp().sum(1, True)).log()[range(len(y)), y]).mean(), "NaN"),
    ("class_loss", lambda z, y, w: -(w[y] * z.softmax(1).clamp(1e-8)[range(len(y)), y].log()).mean(), "small number"),
    ("class_loss", lambda logits, y, w: -(w[y] * logits.log_softmax(1)[:, y]).mean(), "`[:, y]`"),
    ("class_loss", lambda z, y, w: loss_of_torch(z, y, len(y) / (len(w) * torch.bincount(y))), "computed again"),
    ("balanced_accuracy", mean_of_the_diagonal),
    ("balanced_accuracy", lambda t, d: np.mean([(t[d == k] == k).mean() for k in np.unique(t)]), PRECISION),
    ("balanced_accuracy", lambda t, d: np.mean([((d == k) & (t == k)).mean() for k in np.unique(t)]), "all trials"),
    ("collapse", collapse_by_groups),
    ("collapse", lambda p: [p[i] for i in range(len(p)) if p[i] and p[i] != p[i - 1]], "index -1"),
    ("collapse", lambda path: [sign for sign, _ in groupby(path)], "blanks are still there"),
    ("forward_step", forward_without_a_loop),
    ("forward_step", forward_in_numpy),
    ("forward_step", forward()),
    ("forward_step", forward(-math.inf)),
    ("forward_step", forward(may_skip=seen_before), "*side by side*"),
    ("forward_step", forward(0.0), "0 is the log of 1"),
    ("forward_step", lambda alpha, log_p, y: forward()(alpha.clamp(min=-1e9), log_p, y), "expected -inf"),
    ("forward_step", forward(add=torch.amax), "best way"),
    ("forward_step", forward_that_wraps, "index -1"),
    ("forward_step", forward_in_place, "overwritten"),
    ("running_errors", errors_of_all_beginnings),
    ("running_errors", errors_of(lambda i, m: range(m + 1))),
    ("running_errors", errors_of(lambda i, m: range(max(0, min(i, m) - 1), min(m, i + 1) + 1)), "about the length"),
    ("running_errors", errors_of(lambda i, m: range(min(i, m) + 1)), "longer than what was said"),
    ("running_errors", errors_of(lambda i, m: [m]), "all of `right`"),
    ("running_errors", lambda a, b: [sum(c not in b for c in a[:i]) for i in range(len(a) + 1)], "Their order counts"),
    ("Writer", Padded),
    ("Writer", writer(zero=-math.inf)),
    ("Writer", writer(step=lambda self, row: tuple(Padded.step(self, row)))),
    ("Writer", writer(skips=often_blank), "*side by side*"),
    ("Writer", writer(add=lambda self, ways: ways.exp().sum(0).log()), "rounded to 0"),
    ("Writer", writer(add=lambda self, ways: ways.double().exp().sum(0).log()), "rounded to 0"),
    ("Writer", writer(step=lambda self, row: Padded.step(self, row) and None), "`step` returns nothing"),
    ("Writer", writer(step=lambda self, row: "".join(map(str, Padded.step(self, row)))), "list of signs"),
    ("Writer", writer(step=step_that_fills_up), "filled up", "`begun`"),
    ("Writer", writer(ends=lambda self: self.alpha[:, -2:], step=step_that_fills_up), "filled up"),
    ("Writer", writer(step=step_that_forgets), "every bin is the first one"),
    ("Writer", writer(zero=0.0), "0 is the log of 1"),
    ("Writer", writer(skips=lambda self: (self.signs != 0) & (torch.arange(self.signs.shape[1]) > 1)), "equal letters"),
    ("Writer", writer(add=lambda self, ways: ways.amax(0)), "best way"),
    ("Writer", writer(add=lambda self, ways: ways.sum(0)), "logs were added"),
    ("Writer", writer(whole=lambda self: self.ends().sum(1)), "logs were added"),
    ("Writer", writer(begun=lambda self: self.alpha.amax(1)), "likeliest"),
    ("Writer", writer(begun=lambda self: self.alpha.masked_fill(self.is_end(), -1e30).logsumexp(1)), "*all* states"),
    ("Writer", writer(whole=lambda self: Padded.whole(self).log_softmax(0)), "over the table"),
    ("best_moment", best_by_a_loop),
    ("best_moment", best_by_points),
    ("best_moment", lambda *given: best_by_a_loop(*given, last=True), "the later one"),
    ("best_moment", lambda *given: best_by_a_loop(*given, gain=lambda share: share), "costs a point"),
    ("best_moment", lambda *given: best_by_a_loop(*given, gain=lambda share: share - 1 / 8), "chance is subtracted"),
    ("best_moment", most_accurate, "most trials are right"),
    ("best_moment", lambda right, t, pause: best_by_points(right, t, 0.0), "pause is left out"),
    ("best_moment", lambda right, t, pause: (t[best_by_points(right, t, pause)[0]], 0.0), "the index: expected"),
)


def test_stub_of_the_writer_is_not_attempted_yet():
    class Writer:
        def __init__(self, words): ...

        def step(self, row):
            """One bin."""
            ...  # noqa: PIE790

    assert check.Writer.examine(Writer).status == "missing"
