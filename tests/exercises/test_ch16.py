"""Chapter 16: right answers in other styles."""

import copy

import numpy as np
import torch

from possm_lite.training import freeze_backbone

from .helpers import answers, load

check = load("ch16")


def token_by_token(unit, session, n_units):
    pairs = zip(unit.tolist(), session.tolist(), strict=True)
    return torch.tensor([u and u + sum(n_units.tolist()[: s - 1]) for u, s in pairs])


def paired_in_numpy(a, b):
    d = (a - b).numpy()
    return d.mean(), d.std(ddof=1) / len(d) ** 0.5


def by_standard_scores(today, first, W, b):
    """The map, from what it makes of no spike and of one spike of each unit."""
    score = lambda n: ((n - today.mean(0)) / today.std(0) * first.std(0) + first.mean(0)) @ W + b  # noqa: E731
    none, one = torch.zeros_like(W[:, 0]), torch.eye(len(W), dtype=W.dtype)
    return score(one) - score(none), score(none)


def attempt_by_numpy(way, duration_s, times_s):
    """The integral of the profile, as a polynomial."""
    profile = np.poly1d([1, -2, 1, 0, 0])  # tau^4 - 2 tau^3 + tau^2
    whole = np.polyval(profile.integ(), 1.0)
    return np.outer(profile((times_s / duration_s).numpy()) / whole, way.numpy() / float(duration_s))


def align_by_covariances(x, y):
    """CCA by symmetric whitening, another way to the same map."""
    x, y = (z.numpy() - z.numpy().mean(0) for z in (x, y))

    def root(z, power):
        values, axes = np.linalg.eigh(z.T @ z)
        return axes * values**power @ axes.T

    u, s, vt = np.linalg.svd(root(x, -0.5) @ x.T @ y @ root(y, -0.5))
    return torch.from_numpy(root(x, -0.5) @ u @ vt @ root(y, 0.5)), torch.from_numpy(s)


def least_squares(given, counts, velocity):
    """Without a gradient: the decoder is linear."""
    new, n, features = copy.deepcopy(given), counts.shape[-1], []
    with torch.no_grad():
        for row in torch.eye(n * given.table.shape[1]):
            features.append((given.memory @ (counts @ row.view(n, -1)) @ given.readout.weight.T).flatten())
        target = (velocity - given.readout.bias).flatten()
        solution = torch.linalg.lstsq(torch.stack(features, 1), target[:, None], driver="gelsd").solution
    new.table = torch.nn.Parameter(solution.view(n, -1))
    return new


test_answers = answers(
    check,
    ("table_row", token_by_token),
    ("may_learn", lambda model: [p for p in freeze_backbone(model).parameters() if p.requires_grad]),
    ("attempt", attempt_by_numpy),
    ("identify_from_scratch", least_squares),
    ("paired", paired_in_numpy),
    ("matched", by_standard_scores),
    ("align", align_by_covariances),
)
