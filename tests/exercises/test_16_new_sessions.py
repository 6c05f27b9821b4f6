"""Chapter 16: right and wrong answers in other styles than the references and the traps."""

import copy

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig
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


MODEL = POSSM(POSSMConfig(40, dim=32, head_dim=24, n_freqs=8, hidden=128))  # that of the question
TABLES = [MODEL.unit_embedding.weight, MODEL.session_embedding.weight]


def by_word(word):
    def learning(model):
        for name, parameter in model.named_parameters():
            parameter.requires_grad = word in name
        return [p for p in model.parameters() if p.requires_grad]

    return learning


def attribute_of_the_module(model):
    model.requires_grad = False
    return [model.unit_embedding.weight, model.session_embedding.weight]


TABLE_NAMES = ["unit_embedding.weight", "session_embedding.weight"]


def modules(model):
    off_and_on(model)
    return [model.unit_embedding, model.session_embedding]


def norms_too(model):
    norms = [m for m in model.modules() if isinstance(m, torch.nn.LayerNorm)]
    return off_and_on(model) + [p.requires_grad_() for norm in norms for p in norm.parameters()]


def frozen_only(model):
    model.requires_grad_(False)
    return [model.unit_embedding.weight, model.session_embedding.weight]


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


def by_least_squares(x, y):
    return torch.linalg.pinv(x - x.mean(0)) @ (y - y.mean(0)), align_by_covariances(x, y)[1]


def with_table(decoder, table):
    decoder.table = torch.nn.Parameter(table)
    return decoder


def least_squares(given, counts, velocity, decoder=None):
    """Without a gradient: the decoder is linear."""
    new = decoder if decoder is not None else copy.deepcopy(given)
    n, features = counts.shape[-1], []
    with torch.no_grad():
        for row in torch.eye(n * given.table.shape[1]):
            table = row.view(n, -1)
            features.append((given.memory @ (counts @ table) @ given.readout.weight.T).flatten())
        target = (velocity - given.readout.bias).flatten()
        solution = torch.linalg.lstsq(torch.stack(features, 1), target[:, None], driver="gelsd").solution
    return with_table(new, solution.view(n, -1))


def trained(new, parameters, counts, velocity, after=lambda new: None):
    optimizer = torch.optim.RMSprop(parameters, lr=0.003)
    after(new)
    for _ in range(100):
        loss = (new(counts) - velocity).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return new


def fresh_table(decoder, counts):
    return 0.1 * torch.randn(counts.shape[-1], decoder.table.shape[1])


def finetuned(decoder, counts, velocity):
    new = with_table(copy.deepcopy(decoder), fresh_table(decoder, counts)).requires_grad_()
    return trained(new, new.parameters(), counts, velocity)


def finetuned_where_it_may(decoder, counts, velocity):
    """In the decoder that comes frozen, right by luck."""
    new = with_table(copy.deepcopy(decoder), fresh_table(decoder, counts))
    return trained(new, new.parameters(), counts, velocity)


def optimizer_first(decoder, counts, velocity):
    new = copy.deepcopy(decoder).requires_grad_()
    return trained(new, [new.table], counts, velocity, lambda new: with_table(new, fresh_table(decoder, counts)))


def diverged(decoder):
    with torch.no_grad():
        decoder.table.fill_(torch.nan)
    return decoder


def align_of_one_mean(x, y):
    """Takes off the mean of all numbers, not that of each column."""
    (q_x, r_x), (q_y, r_y) = (torch.linalg.qr(z - z.mean()) for z in (x, y))
    u, s, vt = torch.linalg.svd(q_x.T @ q_y)
    return torch.linalg.solve(r_x, u @ vt @ r_y), s


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("table_row", token_by_token, "✓"),
        ("table_row", lambda u, s, n: token_by_token(u + 1, s, n) - 1, "blank token was moved"),
        ("table_row", lambda u, s, n: token_by_token(u, s, n + 1), "a row 0 for every session"),
        ("table_row", lambda u, s, n: token_by_token(u, s, n).float(), "dtype"),
        ("own_numbers", sum(table[1:].numel() for table in TABLES), "✓"),
        ("own_numbers", sum(table.numel() for table in TABLES), "all rows of both tables"),
        ("own_numbers", sum(p.numel() for p in MODEL.parameters()), "a whole decoder"),
        ("own_numbers", "1312", "expected a number"),
        ("paired", lambda a, b: (float((a - b).float().mean()), float((a - b).float().std() / len(a) ** 0.5)), "✓"),
        ("paired", lambda a, b: ((a - b).mean(), (a - b).abs().std() / len(a) ** 0.5), "on six seeds"),
        ("may_learn", off_and_on, "✓"),
        ("may_learn", lambda model: [p.clone() for p in off_and_on(model)], "returned: copies"),
        ("may_learn", lambda model: [p for p in freeze_backbone(model).parameters() if p.requires_grad], "✓"),
        ("may_learn", by_word("embedding"), "`task_embedding` learns as well"),
        ("may_learn", by_word("encoder"), "on a new decoder"),
        ("may_learn", attribute_of_the_module, "nothing was frozen"),
        ("may_learn", norms_too, "layer norms"),
        ("may_learn", lambda model: off_and_on(model)[:1], "on a new decoder"),
        ("may_learn", lambda model: len(off_and_on(model)), "a value of type int instead of a list"),
        ("may_learn", lambda model: off_and_on(model) and TABLE_NAMES, "the list contains names"),
        ("may_learn", lambda model: dict.fromkeys(TABLE_NAMES, off_and_on(model)), "the list contains names"),
        ("may_learn", modules, "the list contains modules"),
        ("may_learn", lambda model: off_and_on(model) and "all of them", "a value of type str instead of a list"),
        ("may_learn", frozen_only, "nothing may learn"),
        ("paired", paired_in_numpy, "✓"),
        ("paired", lambda a, b: ((a - b).mean(), (a - b).std() / (len(a) - 1) ** 0.5), "twice"),
        ("paired", lambda a, b: paired_in_numpy(b, a), "the sign: "),
        ("paired", lambda a, b: (paired_in_numpy(a, b)[0], np.std((a - b).numpy()) / len(a) ** 0.5), "S − 1"),
        ("paired", lambda a, b: paired_in_numpy(a, b)[0], "two results"),
        ("paired", lambda a, b: paired_in_numpy(a.sort().values, b.sort().values), "both were sorted first"),
        ("align", align_by_covariances, "✓"),
        ("align", align_of_one_mean, "on latents that do not have the mean zero"),
        ("align", lambda x, y: align_by_covariances(y, x), "from today (`x`) to day 0 (`y`)"),
        ("align", lambda x, y: align_by_covariances(x, y)[::-1], "shape"),
        ("align", lambda x, y: (align_by_covariances(x, y)[0].T, align_by_covariances(x, y)[1]), "this is Mᵀ"),
        ("align", by_least_squares, "least squares"),
        ("identify_from_scratch", least_squares, "✓"),
        ("identify_from_scratch", lambda *args: diverged(least_squares(*args)), "the steps are too long"),
        ("identify_from_scratch", lambda *args: least_squares(*args, decoder=args[0]), "Work on a copy"),
        ("identify_from_scratch", lambda d, *trials: least_squares(d.requires_grad_(False), *trials), "was switched"),
        ("identify_from_scratch", finetuned, "full finetuning"),
        ("identify_from_scratch", finetuned_where_it_may, "full finetuning"),
        ("identify_from_scratch", optimizer_first, "has not learned anything"),
        ("identify_from_scratch", lambda decoder, counts, velocity: decoder.table, "instead of a decoder"),
        ("identify_from_scratch", lambda decoder, counts, velocity: copy.deepcopy(decoder), "it raised RuntimeError"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
