"""Chapter 16: right answers in other styles, and wrong ones that no known mistake explains."""

import copy

import numpy as np
import pytest
import torch

from possm_lite.training import freeze_backbone

from .helpers import assert_verdict, load

check = load("16_new_sessions")


def token_by_token(unit, session, n_units):
    pairs = zip(unit.tolist(), session.tolist(), strict=True)
    return torch.tensor([u and u + sum(n_units.tolist()[: s - 1]) for u, s in pairs])


def off_and_on(model):
    model.requires_grad_(False)
    own = [model.session_embedding, model.unit_embedding]
    return [module.requires_grad_(True).weight for module in own]


def paired_in_numpy(a, b):
    d = (a - b).numpy()
    return d.mean(), d.std(ddof=1) / len(d) ** 0.5


def align_by_covariances(x, y):
    """CCA by symmetric whitening, another way to the same map."""
    x, y = (z.numpy() - z.numpy().mean(0) for z in (x, y))

    def root(z, power):
        values, axes = np.linalg.eigh(z.T @ z)
        return axes * values**power @ axes.T

    u, s, vt = np.linalg.svd(root(x, -0.5) @ x.T @ y @ root(y, -0.5))
    return torch.from_numpy(root(x, -0.5) @ u @ vt @ root(y, 0.5)), torch.from_numpy(s)


def align_of_one_mean(x, y):
    """Takes off the mean of all numbers, not that of each column."""
    (q_x, r_x), (q_y, r_y) = (torch.linalg.qr(z - z.mean()) for z in (x, y))
    u, s, vt = torch.linalg.svd(q_x.T @ q_y)
    return torch.linalg.solve(r_x, u @ vt @ r_y), s


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


def optimizer_first(decoder, counts, velocity):
    """The table is exchanged after the optimizer has got the old one."""
    new = copy.deepcopy(decoder).requires_grad_()
    optimizer = torch.optim.RMSprop([new.table], lr=0.003)
    new.table = torch.nn.Parameter(0.1 * torch.randn(counts.shape[-1], decoder.table.shape[1]))
    (new(counts) - velocity).square().mean().backward()
    optimizer.step()
    return new


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("table_row", token_by_token, "✓"),
        ("table_row", lambda u, s, n: token_by_token(u, s, n + 1), "on two sessions of four units each"),
        ("table_row", lambda u, s, n: token_by_token(u, s, n).float(), "dtype"),
        ("own_numbers", torch.tensor(1312), "✓"),
        ("may_learn", off_and_on, "✓"),
        ("may_learn", lambda model: [p for p in freeze_backbone(model).parameters() if p.requires_grad], "✓"),
        ("may_learn", lambda model: [p.clone() for p in off_and_on(model)], "returned: another Tensor"),
        ("may_learn", lambda model: len(off_and_on(model)), "returned: another int"),
        ("paired", paired_in_numpy, "✓"),
        ("paired", lambda a, b: (float((a - b).float().mean()), float((a - b).float().std() / len(a) ** 0.5)), "✓"),
        ("paired", lambda a, b: paired_in_numpy(a.sort().values, b.sort().values), "on six seeds"),
        ("align", align_by_covariances, "✓"),
        ("align", align_of_one_mean, "on latents that do not have the mean zero"),
        ("align", lambda x, y: (align_by_covariances(x, y)[0].T, align_by_covariances(x, y)[1]), "on latents that are"),
        ("identify_from_scratch", least_squares, "✓"),
        ("identify_from_scratch", optimizer_first, "has not learned anything"),
        ("identify_from_scratch", lambda d, *new: least_squares(d.requires_grad_(False), *new), "was switched"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
