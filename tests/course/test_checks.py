"""The engine of the checks, and what holds for every exercise of the course."""

import functools
import importlib
import inspect
import linecache
import math
import re
import signal
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from possm_course import checks, exercises
from possm_course.checks import Case, Check, ValueCheck, exercise, gradient, sandbox
from tools import execute

from ..exercises.helpers import NOTEBOOKS, load

EXERCISES = [
    pytest.param(found, id=f"{path.stem}.{name}")
    for path in sorted(Path(exercises.__file__).parent.glob("ch*.py"))
    for name, found in vars(load(path.stem)).items()
    if isinstance(found, Check | ValueCheck)
]


@exercise(
    cases={
        "two keys": lambda: (torch.tensor([1.0, 2.0]),),
        "large scores": lambda: (torch.tensor([1000.0, 0.0]),),
        "a table": lambda: (torch.tensor([[1.0, 2.0], [0.0, 3.0]]),),
        "a gradient": Case(lambda: (torch.tensor([1.0, 2.0]),), gradient(0)),
    },
    mistakes={
        "torch.softmax(x, -1) → x.exp()": "nothing is divided",
        lambda x: torch.softmax(x.flatten(), 0).reshape(x.shape): "all axes are divided by one sum",
        ("torch.softmax(x, -1) → e / e.sum(-1, keepdim=True)", "return → e = x.exp(); return"): "large scores overflow",
    },
)
def softmax(x):
    return torch.softmax(x, -1)


def check(reference, make, *observe):
    """A check without known mistakes."""
    return Check(reference, {"a case": Case(make, *observe)}, mistakes={})


def stub(*args, **kwargs):
    """A stub as in the chapters."""
    ...  # noqa: PIE790


def stub_with_code(x):
    weights = ...
    return weights


def changes_its_input(x):
    x -= x.max(-1, keepdim=True).values
    return torch.softmax(x, -1)


@pytest.mark.parametrize("student", [None, ..., stub, stub_with_code])
def test_stub_is_not_attempted_yet(student):
    only_gradient = Check(softmax.reference, {"a gradient": softmax.cases["a gradient"]}, mistakes={})
    for each in (softmax, only_gradient):
        verdict = each.examine(student)
        assert (verdict.status, verdict.message) == ("missing", "· softmax: not attempted yet")


@pytest.mark.parametrize(
    "student",
    [
        lambda x: (x - x.logsumexp(-1, keepdim=True)).exp(),
        lambda x: print("not shown") or torch.softmax(x, -1),
        lambda x: torch.nn.Sequential(torch.nn.Identity(), torch.nn.Softmax(-1))(x),
        lambda x: torch.softmax(x.double(), -1),
        lambda x: list(torch.softmax(x, -1)),
    ],
)
def test_right_answer_prints_one_line(student, capsys):
    softmax(student)
    assert capsys.readouterr().out == "✓ softmax\n"


@pytest.mark.parametrize(
    ("student", "words"),
    [
        (lambda x: x.softmax(-1) if x.dim() == 1 else 1 / 0, "on a table: it raised ZeroDivisionError"),
        (lambda x: torch.softmax(x, -1)[..., :1], "on two keys: the shape is (1,), expected (2,)."),
        (lambda x: torch.softmax(x, -1) > 0, "the dtype is torch.bool, expected torch.float32."),
        (lambda x: [1.0, [2.0]], "expected a tensor or an array of numbers, got a list of 2."),
        (lambda x: x * math.nan, "on two keys: expected 0.268941 at [0], got nan; 2 of 2 are wrong."),
        (lambda x: torch.softmax(x, -1) - 2e-5, "expected 0.268941 at [0], got 0.268921; 2 of 2 are wrong."),
        (lambda x: torch.softmax(x, -1).detach(), "on a gradient: no gradient flows back from the result"),
        (lambda x: torch.softmax(torch.from_numpy(x.numpy()), -1), "A gradient is asked for here"),
        (changes_its_input, "on two keys: argument 1 was changed in place."),
        (lambda x: [].append(x), "the function returns nothing. Is its `return` missing?"),
        (lambda x: sys.exit(3), "it raised SystemExit: 3"),
        (3, "expected a function, got 3."),
        (lambda x: x.exp(), "softmax: nothing is divided"),
        (lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), "softmax: large scores overflow"),
        (lambda x: torch.softmax(x, 0), "on a table: "),
    ],
)
def test_wrong_answer_is_reported_in_one_line(student, words):
    verdict = softmax.examine(student)
    assert verdict.status == "wrong"
    assert verdict.message.startswith("✗ softmax: ") and words in verdict.message and "\n" not in verdict.message


def test_line_of_the_cell_is_shown():
    name, line = "/tmp/ipykernel_1/2.py", "    return helper_of_the_chapter(x)\n"
    lines = ["def inner(x):\n", line, "def student(x):\n", "    return inner(x)\n"]
    linecache.cache[name] = (1, None, lines, name)
    exec(compile("".join(lines), name, "exec"), cell := {})
    message = softmax.examine(cell["student"]).message
    assert "it raised NameError in line 2 of its cell, `return helper_of_the_chapter(x)`: name" in message
    assert "If a cell above makes `helper_of_the_chapter`, run that first" in message  # as after a restart


def test_loop_without_end_is_ended(monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 0.2)

    def endless(x):
        while True:
            pass

    assert softmax.examine(endless).message.startswith("✗ softmax: it was still running after 0.2 s.")
    with pytest.raises(KeyboardInterrupt):  # of the user
        softmax.examine(lambda x: signal.raise_signal(signal.SIGINT))


@pytest.mark.parametrize(
    ("expected", "answer", "status"),
    [
        (-math.inf, -math.inf, "right"),
        (-math.inf, -99.0, "wrong"),
        (torch.tensor(-math.inf), torch.tensor(math.inf), "wrong"),
        (2, np.int64(2), "right"),
        (2, 2.0, "right"),
        (2.5, 10**400, "wrong"),
        (torch.tensor(2.5), np.float32(2.5), "right"),
        (torch.tensor(2), 2.5, "wrong"),
        (1e6, 1e6 + 5, "right"),
        (1e6, 1e6 + 15, "wrong"),
        (1e-6, 2e-5, "wrong"),
    ],
)
def test_numbers_are_compared(expected, answer, status):
    assert check(lambda: expected, tuple).examine(lambda: answer).status == status
    assert check(lambda: 1 / 0, tuple).examine(lambda: 1 / 0).status == "wrong"  # the right answer fails, too


@exercise(
    cases={"three numbers": lambda: (torch.tensor([1.0, 2.0, 4.0]),)},
    mistakes={},
    results=("the sum", "the running sums", "the answer"),
)
def sums(x):
    return x.sum(), x.cumsum(0), x.max() > 2


@pytest.mark.parametrize(
    ("student", "words"),
    [
        (lambda x: (x.numpy().sum(), x.numpy().cumsum()[::-1][::-1], x.numpy().max() > 2), "✓ sums"),
        (lambda x: [x.numpy().astype(int).sum(), x.numpy().cumsum(), np.array(True)], "✓ sums"),
        (lambda x: [np.float16(7), (1.0, torch.tensor(3.0), 7), np.True_], "✓ sums"),
        (lambda x: (x.sum(), x.cumsum(0) + 1, True), "on three numbers: the running sums: expected 1 at [0], got 2"),
        (lambda x: (x.sum(), x.cumsum(0), 1), "the answer: expected True, got 1."),
        (lambda x: (x.sum()[None], x.cumsum(0), True), "the sum: expected a number, got a tensor of shape (1,)."),
        (lambda x: x.sum(), "expected 3 results, got a tensor of shape ()."),
    ],
)
def test_parts_are_compared_whatever_holds_them(student, words):
    assert words in sums.examine(student).message


def test_a_missing_gradient_is_that_of_its_argument():
    product = check(torch.mul, lambda: (torch.ones(2), torch.ones(2)), gradient(0, 1))
    message = product.examine(lambda x, y: x * y.detach()).message
    assert "on a case: the gradient by argument 2: expected -1 at [0], got 0" in message


@exercise(
    cases={str(x): lambda x=x: (float(x),) for x in (0, 2, 3, -1)},
    mistakes={
        "2 * x → x * x": "squared",
        "2 * x → x + 2": "two added",
        "2 * x → 2 * abs(x)": "the size",
        lambda x: 5 if x == 2 else 2 * x: "only at 2",
        lambda x: 5 if x >= 2 else 2 * x: "from 2 on",
    },
)
def double(x):
    return 2 * x


@pytest.mark.parametrize(
    ("student", "words"),
    [
        (lambda x: x * x, "squared"),
        (lambda x: x + 2 if x < 3 else 7, "on 0: expected 0, got 2."),  # as the second trap on three of four cases
        (lambda x: x * x if x > 0 else 0, "on 3: expected 6, got 9."),  # as the first trap, but for the last case
        (lambda x: 2 * abs(x) if x < 3 else 7, "on 3: expected 6, got 7."),  # "the size" is not what is wrong on 3
        (lambda x: 5 if x >= 2 else x, "from 2 on"),  # "only at 2" agrees as well, but not as long
    ],
)
def test_trap_counts_only_where_it_agrees_on_every_case_that_tells_it(student, words):
    assert double.examine(student).message == f"✗ double: {words}"


def test_check_restores_random_state_and_gradient_mode():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with torch.no_grad():
        assert softmax.examine(lambda x: torch.softmax(x + 0 * torch.rand(2), -1)).status == "right"
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(1), expected)


guess = ValueCheck("guess", expected=0.5, tolerance=0.01, mistakes={1.0: "that is twice as much"})
order = ValueCheck("order", expected="2, 0, 1", mistakes={"0, 1, 2": "that is the old order"})


@pytest.mark.parametrize(
    ("exercise", "value", "message"),
    [
        (guess, None, "· guess: not attempted yet"),
        (guess, 0.505, "✓ guess"),
        (guess, torch.tensor(0.5), "✓ guess"),
        (guess, np.float32(0.5), "✓ guess"),
        (guess, 1, "✗ guess: that is twice as much"),
        (guess, 0.7, "✗ guess: 0.7 is not right."),
        (guess, "half", "✗ guess: expected a number, got 'half'."),
        (order, [2, 0, 1], "✓ order"),
        (order, np.array([2, 0, 1]), "✓ order"),
        (order, "2 0 1", "✓ order"),
        (order, "(0, 1, 2)", "✗ order: that is the old order"),
        (order, 2, "✗ order: expected text, got 2."),
    ],
)
def test_value_is_compared(exercise, value, message):
    assert exercise.examine(value).message.startswith(message)


def test_example_of_the_package_is_an_exercise(tmp_path, monkeypatch, capsys):
    """What `help(possm_course.checks)` shows to somebody who adds an exercise, as a module of its own."""
    example = re.search(r"^    from possm_course.*?(?=^\S)", checks.__doc__, flags=re.M | re.S)[0]
    (tmp_path / "example.py").write_text(textwrap.dedent(example), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    centered = importlib.import_module("example").centered
    for answer in (stub, lambda x: x - x.mean(-1, keepdim=True), lambda x: x - x.mean()):
        centered(answer)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["· centered: not attempted yet", "✓ centered"]
    assert lines[2:] == ["✗ centered: one mean is subtracted from all rows. Each has its own."]


def test_edit_of_other_code_is_an_error():
    with pytest.raises(ValueError, match="'x - 1 → x' is not an edit of the right answer"):
        Check(double.reference, double.cases, {"x - 1 → x": "one is subtracted"}).examine(lambda x: 1.0)


@pytest.mark.parametrize("found", EXERCISES)
def test_stub_right_answer_and_every_mistake_are_recognised(found, monkeypatch, request):
    assert f".{found.name}]" in request.node.name, f"give the variable and the exercise {found.name} one name"
    if isinstance(found, ValueCheck):
        empty, right, traps = None, found.expected, [(message, value) for value, message in found.mistakes.items()]
    else:
        empty, right, traps = stub, found.reference, found.traps
        # each mistake is an attempt as well: run every one once
        monkeypatch.setattr(found, "outcome", functools.cache(found.outcome))
        monkeypatch.setattr(found, "_known_outcome", found.outcome)
    assert found.examine(empty).status == "missing", f"an empty answer to {found.name} passes for an attempt"
    assert found.examine(right).message == f"✓ {found.name}", (
        f"the right answer to {found.name} is called wrong: is it the same in every call, and does it leave its "
        "arguments as they are?"
    )
    for message, trap in traps:
        assert found.examine(trap).message == f"✗ {found.name}: {message}", (
            f"the answer with this mistake gets another line than {message!r}. If it is ✓, no case shows the mistake: "
            "add one. If it is the message of another mistake, no case tells the two apart, and the first one wins. "
            "If it begins with 'on', another mistake is in the answer too, or it fails by an error"
        )


def source(answer) -> str:
    """The source of a function or class, without its decorators."""
    lines = inspect.getsource(answer).splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.startswith(("def ", "class ")))
    return "".join(lines[first:]).strip()


@pytest.mark.parametrize("found", [each for each in EXERCISES if isinstance(each.values[0], Check)])
def test_solution_is_the_right_answer(found):
    """Word for word, so that what students read is what was tested."""
    number = found.reference.__module__.removeprefix("possm_course.exercises.ch")
    (notebook,) = (NOTEBOOKS / "solutions").glob(f"{number}_*.ipynb")
    where = f"notebooks/solutions/{notebook.name}"
    cells = execute.read(notebook).cells
    tagged = [cell for cell in cells if f"exercise:{found.name}" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1, f"{len(tagged)} cells of {where} have the tag exercise:{found.name}: there must be one"
    right = source(found.reference)
    assert right in tagged[0].source, (
        f"the cell exercise:{found.name} of {where} must have this function of possm_course/exercises/ch{number}.py, "
        f"word for word:\n\n{right}\n"
    )
