"""What a check withstands: settings of the notebook, objects that raise, loops that swallow, states that are kept."""

import contextlib
import io
import random
import sys
import time
import warnings

import numpy as np
import pytest
import torch

from possm_course.checks import Case, Check, edited, exercise, gradient, normal, sandbox
from possm_course.checks.compare import difference
from possm_course.checks.likeness import likeness


@exercise(
    cases={
        "two rows": lambda: (normal(2, 5), normal(5, 4, seed=1)),
        "three rows": lambda: (normal(3, 6, seed=2), normal(6, 4, seed=3)),
        "the gradients": Case(lambda: (normal(2, 5), normal(5, 4, seed=1)), gradient(0, 1)),
    },
    mistakes={
        "+ 1 → ": "the one is missing",
        "torch.relu(x @ W) → (x @ W)": "the relu is missing",
        "x @ W → x @ W / len(W) ** 0.5": "divided by a root",
        "+ 1 → + x.detach().sum()": "a sum is added",
    },
)
def layer(x, W):
    return torch.relu(x @ W) + 1


def right(x, W):
    return torch.relu(x @ W) + 1


class Strange:
    """Whatever is asked of it, it raises."""

    def __eq__(self, other):
        raise ValueError("no")

    __hash__ = None
    __repr__ = __len__ = __bool__ = __array__ = __iter__ = __eq__


class StrangeText(str):
    def __repr__(self):
        raise ValueError("no")


class StrangeError(Exception):
    def __str__(self):
        raise ValueError("no")


def raises_strangely(x, W):
    raise StrangeError


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x, W: right(x, W).to("meta"), "the result is on the device meta"),
        (lambda x, W: Strange(), "expected a tensor or an array of numbers, got a value of type Strange."),
        (lambda x, W: [Strange(), 2], "got a list of 2."),
        (lambda x, W: StrangeText("a"), "got a value of type StrangeText."),
        (lambda x, W: "seven", "got 'seven'."),
        (lambda x, W: "a" * 10**6, "expected a tensor or an array of numbers"),
        (lambda x, W: np.array(["a"]), "expected a tensor or an array of numbers"),
        (lambda x, W: {1, 2}, "got a value of type set."),
        (raises_strangely, "it raised StrangeError"),
        (lambda x, W: x.fill_(2.0) @ W, "argument 1 was changed in place."),
    ],
)
def test_a_check_never_raises(make, words):
    verdict = layer.examine(make)
    assert verdict.status == "wrong" and words in verdict.message and "\n" not in verdict.message


@pytest.mark.parametrize(
    "answer",
    [
        lambda x, W: np.asmatrix(np.maximum(x.numpy() @ W.numpy(), 0) + 1),
        lambda x, W: (row for row in right(x, W)),
        lambda x, W: np.maximum(x.numpy() @ W.numpy(), 0).astype(">f8") + 1,
        lambda x, W: np.maximum(x.numpy() @ W.numpy(), 0).astype(np.longdouble) + 1,
        lambda x, W: right(x, W).half(),
        lambda x, W: right(x.bfloat16(), W.bfloat16()),
        lambda x, W: right(x, W).double(),
        lambda x, W: right(x, W).to_sparse(),
        lambda x, W: torch.nn.Parameter(right(x, W)),
    ],
)
def test_right_numbers_pass_in_any_form_and_precision(answer):
    only_values = Check(layer.reference, {name: layer.cases[name] for name in ("two rows", "three rows")}, {})
    assert only_values.examine(answer).message == "✓ layer"


def test_precision_is_not_asked_for_less_than_it_has():
    numbers = torch.tensor([1.0, 2.0])
    assert difference((numbers * 1.001).half(), numbers, 1e-5) is None
    assert difference((numbers * 1.02).half(), numbers, 1e-5) is not None
    assert difference(numbers * 1.001, numbers, 1e-5) is not None


def test_settings_of_the_notebook_are_set_aside_and_put_back():
    was = torch.get_default_dtype(), torch.get_num_threads(), np.geterr(), torch.empty(0).device
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        np.seterr(all="raise")
        random.seed(7)
        np.random.seed(7)

        def changes_them(x, W):
            torch.set_default_dtype(torch.bfloat16)
            torch.set_num_threads(1)
            random.random(), np.random.random()
            warnings.warn("loud", stacklevel=1)
            np.float32(1e30) * np.float32(1e30)
            return right(x, W)

        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("error")
            filters = list(warnings.filters)
            assert layer.examine(changes_them).message == "✓ layer"
            assert warnings.filters == filters and torch.is_inference_mode_enabled()
        assert torch.get_default_dtype() == torch.float64 and torch.empty(0).device.type == "meta"
        assert np.geterr()["over"] == "raise" and torch.get_num_threads() == was[1]
        drawn = random.random(), np.random.random()
        random.seed(7)
        np.random.seed(7)
        assert drawn == (random.random(), np.random.random())
    finally:
        torch.set_default_dtype(was[0])
        torch.set_num_threads(was[1])
        np.seterr(**was[2])
        torch.set_default_device(None)


def swallows_everything(x, W):
    while True:
        try:
            for i in range(1000):
                hash(i)
        except:  # noqa: E722
            pass


def swallows_in_layers(x, W):
    while True:
        try:
            swallows_everything(x, W)
        except BaseException:
            continue


def returns_after_it(x, W):
    try:
        while True:
            pass
    except BaseException:
        return right(x, W)


def sleeps(x, W):
    time.sleep(60)


def sleeps_in_a_try(x, W):
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


@pytest.mark.parametrize("answer", [swallows_everything, swallows_in_layers, returns_after_it, sleeps, sleeps_in_a_try])
def test_time_limit_cannot_be_swallowed(answer, monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 0.2)
    start = time.monotonic()
    assert "it was still running after 0.2 s" in layer.examine(answer).message
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "gbk", "cp437", "utf-8"])
def test_verdict_is_printed_under_any_encoding(encoding, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    layer(right)
    layer(lambda x, W: "→ ✗")
    out.flush()
    text = out.buffer.getvalue().decode(encoding)
    assert "layer" in text and ("✓" in text or "[right]" in text)


def keeps_a_list(x, W, seen=[]):  # noqa: B006
    seen.append(1)
    return right(x, W) + (len(seen) > 3)


def draws_of_its_own(x, W):
    return right(x, W) + torch.from_numpy(np.random.default_rng().normal(size=4)).float()


@pytest.mark.parametrize("answer", [keeps_a_list, draws_of_its_own])
def test_what_is_kept_between_calls_is_named(answer):
    assert "a second call with the same arguments gives something else" in layer.examine(answer).message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x, W: right(x, W.detach()), "Nothing flows back to it: `.detach()`"),
        (lambda x, W: right(x.data, W), "Nothing flows back to it: `.detach()`"),
        (lambda x, W: right(x, W).detach(), "no gradient flows back from the result"),
        (lambda x, W: torch.tensor(right(x, W)), "no gradient flows back from the result"),
        (torch.no_grad()(right), "no gradient flows back from the result"),
        (lambda x, W: right((x + x.detach()) / 2, W), "Part of it is lost on the way"),
    ],
)
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_lost_gradient_is_named(answer, words):
    assert words in layer.examine(answer).message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x, W: 2 * right(x, W), "Every number is 2 times what it should be."),
        (lambda x, W: -right(x, W), "Every number has the opposite sign"),
        (lambda x, W: right(x, W).T, "axes 0 and 1 have changed places"),
        (lambda x, W: right(x, W).flip(1), "axis 1 runs backwards"),
        (lambda x, W: right(x, W)[None], "the shape is (1, 2, 4) and should be (2, 4)"),
        (lambda x, W: right(x, W) ** 2, "These are the squares"),
        (lambda x, W: right(x, W) + 3, "Every number is too large, by 3"),
        (lambda x, W: right(x, W).roll(1, 1), "one place later than it should"),
        (lambda x, W: right(x, W) * (1 + 1e-3 * x[:, :1]), "nearly right"),
        (lambda x, W: 3 * torch.relu(x @ W), "the one is missing Besides, there is a factor"),
        (
            lambda x, W: torch.relu(x @ W).T,
            "the one is missing Besides, there is a factor, a shape or an order of axes",
        ),
        (lambda x, W: x @ W, "two things are wrong. First: the one is missing Second: the relu is missing"),
        (lambda x, W: torch.relu(x @ W) + 0.01 * (len(x) > 2), "the one is missing (Something else differs on three"),
    ],
)
def test_wrong_answer_is_likened_to_the_right_one_or_to_a_known_mistake(answer, words):
    verdict = layer.examine(answer)
    assert verdict.status == "wrong" and words in verdict.message, verdict.message


def test_results_in_another_order_are_likened():
    right_results = (torch.tensor([1.0, 2.0, 4.0]), torch.tensor([3.0, 1.0]))
    assert likeness(right_results[::-1], right_results, 1e-5).kind == "swapped"
    assert likeness((right_results[0] * 2, right_results[1]), right_results, 1e-5, ("a", "b")).message.startswith("a: ")


def test_edit_says_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="'x - 1' is not there"):
        edited(layer.reference, "x - 1 → x")
    with pytest.raises(ValueError, match="changes nothing"):
        edited(layer.reference, "x @ W")
