"""The engine of the checks, and what holds for every exercise of the course."""

import contextlib
import functools
import inspect
import linecache
import math
import signal
import sys
import time

import execute
import numpy as np
import pytest
import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck, exercise, gradient

from ..exercises.helpers import NOTEBOOKS, load

EXERCISES = [
    pytest.param(found, id=f"{path.stem}.{name}")
    for path in sorted((NOTEBOOKS / "exercises").glob("*.py"))
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
    return Check(reference, [Case(make, *observe, name="a case")], mistakes={})


def stub(*args, **kwargs):
    """A stub as in the chapters."""
    ...  # noqa: PIE790


def stub_that_raises(x):
    raise NotImplementedError


def stub_with_code(x):
    weights = ...
    return weights


def changes_its_input(x):
    x -= x.max(-1, keepdim=True).values
    return torch.softmax(x, -1)


def loops_forever(x):
    while True:
        x = x + 1


def loops_forever_and_ignores_interrupts(x):
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            loops_forever(x)
    return x


def recurses_forever(x):
    return recurses_forever(x)


def uses_a_variable_too_early(x):
    total = total + x  # noqa: F821
    return total


@pytest.mark.parametrize("student", [None, ..., stub, stub_that_raises, stub_with_code])
def test_stub_is_not_attempted_yet(student):
    only_gradient = Check(softmax.reference, softmax.cases[3:], mistakes={})
    for check in (softmax, only_gradient):
        verdict = check.examine(student)
        assert (verdict.status, verdict.message) == ("missing", "· softmax: not attempted yet")


@pytest.mark.parametrize(
    "student",
    [
        lambda x: torch.softmax(x, -1),
        lambda x: (x - x.logsumexp(-1, keepdim=True)).exp(),
        lambda x: print("not shown") or torch.softmax(x, -1),
        lambda x: torch.nn.Sequential(torch.nn.Identity(), torch.nn.Softmax(-1))(x),
        lambda x: torch.softmax(x.double(), -1),
        lambda x: list(torch.softmax(x, -1)),
        torch.nn.Softmax(-1),
    ],
)
def test_right_answer_prints_one_line(student, capsys):
    softmax(student)
    assert capsys.readouterr().out == "✓ softmax\n"


@pytest.mark.parametrize(
    ("student", "words"),
    [
        (lambda x: x.softmax(-1) if x.dim() == 1 else 1 / 0, "on a table: it raised ZeroDivisionError"),
        (lambda x: 1 / 0, "✗ softmax: it raised ZeroDivisionError: division by zero"),
        (lambda: 1, "it raised TypeError: "),
        (lambda x: torch.softmax(x, -1)[..., :1], "on two keys: the shape is (1,), expected (2,)."),
        (lambda x: torch.softmax(x, -1) > 0, "the dtype is torch.bool, expected torch.float32."),
        (lambda x: [1.0, [2.0]], "expected a tensor or an array of numbers, got a list of 2."),
        (lambda x: np.array(["a", "b"]), "expected a tensor or an array of numbers, got a value of type ndarray."),
        (lambda x: torch.softmax(x, -1).to_sparse(), "expected a dense tensor"),
        (lambda x: torch.softmax(x, -1).to("meta"), "expected a dense tensor"),
        (lambda x: torch.nested.nested_tensor([x, x[:1]]), "expected a dense tensor"),
        (lambda x: x * float("nan"), "on two keys: 2 of 2 numbers are NaN."),
        (lambda x: x * float("inf"), "on two keys: expected 0.2689 at [0], got inf; 2 of 2 are wrong."),
        (lambda x: torch.softmax(x, -1) - 2e-5, "on two keys: expected 0.26894 at [0], got 0.26892; 2 of 2 are wrong."),
        (lambda x: torch.softmax(x, -1).detach(), "on a gradient: no gradient flows back from the result"),
        (changes_its_input, "on two keys: the first argument was changed in place."),
        (lambda x: torch.nn.Module()(x), "✗ softmax: it raised NotImplementedError: "),
        (lambda x: [].append(x), "✗ softmax: the function returns nothing. Is its `return` missing?"),
        (lambda x: (yield x), "expected a tensor or an array of numbers, got a value of type generator."),
        (lambda x: sys.exit(3), "✗ softmax: it raised SystemExit: 3"),
        (recurses_forever, "✗ softmax: it raised RecursionError"),
        (3, "expected a function, got 3."),
        (lambda x: x.exp(), "softmax: nothing is divided"),
        (lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), "softmax: large scores overflow"),
        (lambda x: torch.softmax(x, 0), "on a table: "),
        (lambda x: np.zeros(10**16), "It asked for more memory than there is"),
        (lambda x: torch.zeros(10**16), "It asked for more memory than there is"),
    ],
)
def test_wrong_answer_is_reported_in_one_line(student, words):
    verdict = softmax.examine(student)
    assert verdict.status == "wrong"
    assert verdict.message.startswith("✗ softmax: ") and words in verdict.message and "\n" not in verdict.message


def test_undefined_name_is_reported_with_advice():
    """As after a restart of the kernel; `eval` gives the function a file name like that of a cell."""
    message = softmax.examine(eval("lambda x: helper_of_the_chapter(x)")).message
    assert "NameError in line 1 of its cell: name 'helper_of_the_chapter' is not defined." in message
    assert "If a cell above makes `helper_of_the_chapter`, run that first" in message
    message = softmax.examine(uses_a_variable_too_early).message
    assert "it raised UnboundLocalError" in message and "cell above" not in message


def test_line_of_the_cell_is_shown():
    lines = ["def student(x):\n", "    y = x + 1\n", "    return y @ x[:1]\n"]
    name = "/tmp/ipykernel_1/2.py"
    linecache.cache[name] = (len("".join(lines)), None, lines, name)
    exec(compile("".join(lines), name, "exec"), cell := {})
    message = softmax.examine(cell["student"]).message
    assert "it raised RuntimeError in line 3 of its cell, `return y @ x[:1]`: " in message


def test_change_in_place_is_reported():
    eight = check(lambda *a: 1, lambda: tuple(torch.ones(8, 1)))
    assert "the 8th argument was changed in place" in eight.examine(lambda *a: a[7].zero_().numel()).message
    lists = check(lambda a: 1, lambda: ([torch.ones(1)],))
    assert "the first argument was changed" in lists.examine(lambda a: a.insert(0, a.pop().item()) or 1).message


@pytest.mark.parametrize(
    ("expected", "answer", "status"),
    [
        (-math.inf, -math.inf, "right"),
        (-math.inf, -99.0, "wrong"),
        (torch.tensor(-math.inf), torch.tensor(-math.inf), "right"),
        (torch.tensor(-math.inf), torch.tensor(math.inf), "wrong"),
        (2, np.int64(2), "right"),
        (2.5, 10**400, "wrong"),
        (2.5, torch.zeros((), device="meta"), "wrong"),
        (torch.tensor(2.5), np.float32(2.5), "right"),
        (torch.tensor(2), 2.5, "wrong"),
        (torch.tensor(2), 10**400, "wrong"),
    ],
)
def test_numbers_are_compared(expected, answer, status):
    assert check(lambda: expected, tuple).examine(lambda: answer).status == status


def _np(function):
    return lambda *args: function(*(x.numpy() for x in args))


@exercise(
    cases={"three numbers": lambda: (torch.tensor([1.0, 2.0, 4.0]),)},
    mistakes={},
    results=("the sum", "the running sums", "the answer"),
)
def sums(x):
    return x.sum(), x.cumsum(0), x.max() > 2


@pytest.mark.parametrize(
    "student",
    [
        _np(lambda x: (x.sum(), x.cumsum(), x.max() > 2)),
        _np(lambda x: [x.astype(int).sum(), x.cumsum()[::-1][::-1], np.array(True)]),
        lambda x: (7, [1, 3, 7], True),
        lambda x: [np.float16(7), (1.0, torch.tensor(3.0), 7), np.True_],
        lambda x: (x.double().sum(), [torch.tensor(n) for n in (1, 3, 7)], torch.tensor(True)),
    ],
)
def test_arrays_lists_and_numbers_are_alike(student):
    assert sums.examine(student).message == "✓ sums"


@pytest.mark.parametrize(
    ("student", "words"),
    [
        (lambda x: (x.sum(), x.cumsum(0) + 1, True), "on three numbers: the running sums: expected 1 at [0], got 2"),
        (lambda x: (x.sum(), x.cumsum(0), 1), "the answer: expected True, got 1."),
        (lambda x: (x.sum()[None], x.cumsum(0), True), "the sum: expected a number, got a tensor of shape (1,)."),
        (lambda x: ([7.0], x.cumsum(0), True), "the sum: expected a number, got a list of 1."),
        (lambda x: x.sum(), "expected three results, got a tensor of shape ()."),
        (lambda x: {"sum": 7}, "expected three results, got a value of type dict."),
    ],
)
def test_part_of_several_results_is_named(student, words):
    assert words in sums.examine(student).message


def test_part_is_counted_where_it_has_no_name():
    pair = check(lambda x: (x, 2 * x), lambda: (torch.ones(2, 3),))
    assert pair.examine(lambda x: torch.stack([x, 2 * x])).status == "right"
    assert "on a case: the second of the two results: expected 2" in pair.examine(lambda x: [x, x]).message
    assert "expected two results, got a tensor of shape (2, 3)." in pair.examine(lambda x: x).message
    product = check(torch.mul, lambda: (torch.ones(2), torch.ones(2)), gradient(0, 1))
    message = product.examine(lambda x, y: x * y.detach()).message
    assert "on a case: the gradient by the second argument: expected -1 at [0], got 0" in message


def test_dict_is_compared_by_its_keys():
    table = check(lambda: {"a": 1, "b": 2}, tuple)
    assert table.examine(lambda: {"b": 2.0, "a": 1}).status == "right"
    assert "on a case: b: expected 2, got 3." in table.examine(lambda: {"a": 1, "b": 3}).message
    assert "expected a dict with the keys a, b, got a." in table.examine(lambda: {"a": 1}).message


@exercise(
    cases={str(x): lambda x=x: (float(x),) for x in (0, 2, 3, -1)},
    mistakes={
        "2 * x → x * x": "squared",
        "2 * x → x + 2": "two added",
        "2 * x → 2 * abs(x)": "the size",
        "2 * x → max(2 * x, 0.0)": "negative ones are cut off",
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
    ],
)
def test_trap_counts_only_where_it_agrees_on_every_case_that_tells_it(student, words):
    assert double.examine(student).message == f"✗ double: {words}"


def test_of_several_traps_the_one_that_agrees_longest_is_named():
    mistakes = {lambda x: 5 if x == 2 else 2 * x: "only at 2", lambda x: 5 if x >= 2 else 2 * x: "from 2 on"}
    doubled = Check(double.reference, double.cases, mistakes)
    assert doubled.examine(lambda x: 5 if x >= 2 else x).message == "✗ double: from 2 on"


def test_result_that_cannot_be_observed_is_described():
    doubled = check(lambda x: x, lambda: (torch.ones(2),), lambda f, x: f(x).dot(x))
    assert "it returns 3.5, which cannot be used." in doubled.examine(lambda x: 3.5).message
    message = doubled.examine(lambda x: torch.ones(3)).message
    assert "it returns a tensor of shape (3,), which cannot be used: inconsistent tensor size" in message


def test_gradient_asks_for_torch():
    message = softmax.examine(lambda x: torch.softmax(torch.from_numpy(x.numpy()), -1)).message
    assert message.endswith(
        "A gradient is asked for here: compute with torch alone, without NumPy, .item() and .detach()."
    )


@pytest.mark.parametrize("student", [loops_forever, loops_forever_and_ignores_interrupts])
def test_endless_loop_is_stopped(student, monkeypatch):
    monkeypatch.setattr("possm_lite.classroom.checks.check.SECONDS", 0.3)
    start = time.perf_counter()
    assert "it was still running after 0.3 s" in softmax.examine(student).message
    assert time.perf_counter() - start < 5


def test_check_restores_random_state_and_gradient_mode():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with torch.no_grad():
        assert softmax.examine(lambda x: torch.softmax(x + 0 * torch.rand(2), -1)).status == "right"
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(1), expected)


def test_keyboard_interrupt_is_not_swallowed():
    with pytest.raises(KeyboardInterrupt):
        softmax.examine(lambda x: signal.raise_signal(signal.SIGINT))


guess = ValueCheck("guess", expected=0.5, tolerance=0.01, mistakes={1.0: "that is twice as much"})
order = ValueCheck("order", expected="2, 0, 1", mistakes={"0, 1, 2": "that is the old order"})
word = ValueCheck("word", expected="key 2", mistakes={"key 1": "that one is masked"})


@pytest.mark.parametrize(
    ("exercise", "value", "message"),
    [
        (guess, None, "· guess: not attempted yet"),
        (guess, 0.505, "✓ guess"),
        (guess, torch.tensor(0.5), "✓ guess"),
        (guess, np.float32(0.5), "✓ guess"),
        (guess, 10**400, "✗ guess: expected a number, got a value of type int."),
        (guess, 1, "✗ guess: that is twice as much"),
        (guess, 0.7, "✗ guess: 0.7 is not right."),
        (guess, 50, "✗ guess: 50 is in per cent. Give it as a share of one."),
        (guess, float("nan"), "✗ guess: nan is not right."),
        (guess, "half", "✗ guess: expected a number, got 'half'."),
        (guess, [0.5], "✗ guess: expected a number, got a list of 1."),
        (word, "Key2", "✓ word"),
        (word, ["key", 3], "✗ word: ['key', 3] is not right."),
        (word, "key 1", "✗ word: that one is masked"),
        (word, "3", "✗ word: '3' is not right."),
        (word, 2, "✗ word: expected text, got 2."),
        (word, ["key", 2], "✓ word"),
        (order, [2, 0, 1], "✓ order"),
        (order, "2 0 1", "✓ order"),
        (order, "(0, 1, 2)", "✗ order: that is the old order"),
    ],
)
def test_value_is_compared(exercise, value, message):
    assert exercise.examine(value).message.startswith(message)


def test_edit_of_other_code_is_an_error():
    with pytest.raises(ValueError, match="'x - 1 → x' is not an edit of the right answer"):
        Check(double.reference, double.cases, {"x - 1 → x": "one is subtracted"}).examine(lambda x: 0.0)


@pytest.mark.parametrize("found", EXERCISES)
def test_stub_and_right_answer_of_every_exercise(found):
    empty, right = (stub, found.reference) if isinstance(found, Check) else (None, found.expected)
    assert found.examine(empty).status == "missing"
    assert found.examine(right).message == f"✓ {found.name}"


@pytest.mark.parametrize("found", EXERCISES)
def test_every_mistake_is_recognised_by_its_message(found, monkeypatch):
    if isinstance(found, ValueCheck):
        assert 1 <= len(found.mistakes) <= 4
        for value, message in found.mistakes.items():
            assert found.examine(value).message == f"✗ {found.name}: {message}"
        return
    assert 1 <= len(found.mistakes) <= 6
    # each mistake is an attempt as well: run every one once
    outcome = functools.cache(lambda function, case: Check.outcome(found, function, case))
    monkeypatch.setattr(found, "outcome", lambda function, case, seconds=math.inf: outcome(function, case))
    for message, trap in found.traps:
        assert found.examine(trap).message == f"✗ {found.name}: {message}"


@pytest.mark.parametrize("found", [each for each in EXERCISES if isinstance(each.values[0], Check)])
def test_solution_is_the_right_answer(found):
    """Word for word, so that what students read is what was tested."""
    answer = found.reference
    lines = inspect.getsource(answer).splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.startswith(("def ", "class ")))
    chapter = answer.__module__.removeprefix("exercises_")
    cells = execute.read(NOTEBOOKS / "solutions" / f"{chapter}.ipynb").cells
    (solution,) = (cell for cell in cells if f"exercise:{found.name}" in cell.metadata.get("tags", []))
    assert "".join(lines[first:]).strip() in solution.source


def test_every_exercise_is_named_like_its_variable():
    assert all(each.id.endswith(f".{each.values[0].name}") for each in EXERCISES)
