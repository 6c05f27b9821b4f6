"""Chapter 16: right and wrong answers in other styles than the references and the traps."""

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


MODEL = POSSM(POSSMConfig(40, dim=32, head_dim=32, n_freqs=8, hidden=128))  # that of the question
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


def norms_too(model):
    norms = [m for m in model.modules() if isinstance(m, torch.nn.LayerNorm)]
    return off_and_on(model) + [p.requires_grad_() for norm in norms for p in norm.parameters()]


def scale_in_numpy(times_s, velocity, trials, n):
    v = np.concatenate([velocity[(times_s >= start) & (times_s < stop)].numpy() for start, stop in trials[:n]])
    return torch.from_numpy(v.mean(0)), torch.from_numpy(v.std(0) + (v.std(0) == 0))


def paired_in_numpy(a, b):
    d = (a - b).numpy()
    return d.mean(), d.std(ddof=1) / len(d) ** 0.5


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
        ("may_learn", off_and_on, "✓"),
        ("may_learn", lambda model: [p for p in freeze_backbone(model).parameters() if p.requires_grad], "✓"),
        ("may_learn", by_word("embedding"), "`task_embedding` learns as well"),
        ("may_learn", by_word("encoder"), "on a new decoder"),
        ("may_learn", attribute_of_the_module, "nothing was frozen"),
        ("may_learn", norms_too, "layer norms"),
        ("may_learn", lambda model: off_and_on(model)[:1], "on a new decoder"),
        ("may_learn", lambda model: len(off_and_on(model)), "on a new decoder"),
        ("scale_of", scale_in_numpy, "✓"),
        ("scale_of", lambda t, v, trials, n: scale_in_numpy(t, v, trials, 4), "all training trials"),
        ("scale_of", lambda t, v, x, n: scale_in_numpy(t, v, x.view(-1)[[0, 5]][None], 1), "between two trials"),
        ("scale_of", lambda *args: scale_in_numpy(*args)[::-1], "on trials that follow"),
        ("paired", paired_in_numpy, "✓"),
        ("paired", lambda a, b: paired_in_numpy(b, a), "the sign: "),
        ("paired", lambda a, b: (paired_in_numpy(a, b)[0], np.std((a - b).numpy()) / len(a) ** 0.5), "S − 1"),
        ("paired", lambda a, b: paired_in_numpy(a, b)[0], "tuple of 2"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
