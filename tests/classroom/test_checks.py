"""The checking itself, and what holds of every check of the course."""

import contextlib
import math
import sys
import time

import numpy as np
import pytest
import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck

from ..exercises.helpers import NOTEBOOKS, load

CHAPTERS = sorted(path.stem for path in (NOTEBOOKS / "exercises").glob("*.py"))


def exercises(chapter: str) -> list:
    return [value for value in vars(load(chapter)).values() if isinstance(value, Check | ValueCheck)]


EXERCISES = [
    pytest.param(exercise, id=f"{chapter}.{exercise.name}") for chapter in CHAPTERS for exercise in exercises(chapter)
]
WRITTEN = [p for p in EXERCISES if isinstance(p.values[0], Check)]
PREDICTED = [p for p in EXERCISES if isinstance(p.values[0], ValueCheck)]


def gradient(function, x):
    x = x.requires_grad_()
    return torch.autograd.grad(function(x)[..., 0].sum(), x)[0]


softmax = Check(
    "softmax",
    reference=lambda x: torch.softmax(x, -1),
    cases=[
        Case("two keys", lambda: (torch.tensor([1.0, 2.0]),)),
        Case("large scores", lambda: (torch.tensor([1000.0, 0.0]),)),
        Case("a table", lambda: (torch.tensor([[1.0, 2.0], [0.0, 3.0]]),)),
        Case("a gradient", lambda: (torch.tensor([1.0, 2.0]),), observe=gradient),
    ],
    traps={
        "nothing is divided": lambda x: x.exp(),
        "all axes are divided by one sum": lambda x: torch.softmax(x.flatten(), 0).reshape(x.shape),
        "large scores overflow": lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
    },
)


def stub(x):
    """Says what is wanted.

    At length.
    """
    ...  # noqa: PIE790  (what a stub looks like)


def stub_of_any_arguments(*args, **kwargs):
    """Says what is wanted."""


def stub_that_refuses(x):
    raise NotImplementedError


def stub_with_a_frame(x):
    weights = ...  # your code here
    return weights


def changes_its_input(x):
    x -= x.max(-1, keepdim=True).values
    return torch.softmax(x, -1)


def runs_on(x):
    while True:
        x = x + 1


def runs_on_and_will_not_stop(x):
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            runs_on(x)
    return x


def prints_on(x):
    while True:
        print(x)


def yields_on(x):
    while True:
        yield x


def forgets_its_return(x):
    torch.softmax(x, -1)


def leaves(x):
    sys.exit(3)


def falls(x):
    return falls(x)


@pytest.mark.parametrize("student", [None, ..., stub, stub_that_refuses, stub_with_a_frame])
def test_a_stub_is_not_attempted_yet(student):
    verdict = softmax.examine(student)
    assert (verdict.status, verdict.message) == ("missing", "· softmax: not attempted yet")


def test_a_stub_is_known_where_only_a_gradient_is_observed():
    assert Check("g", reference=softmax.reference, cases=softmax.cases[3:], traps={}).examine(stub).status == "missing"


@pytest.mark.parametrize(
    "student",
    [lambda x: torch.softmax(x, -1), lambda x: (x - x.logsumexp(-1, keepdim=True)).exp(), torch.nn.Softmax(-1)],
)
def test_a_right_answer_is_right(student, capsys):
    softmax(student)
    assert capsys.readouterr().out == "✓ softmax\n"


@pytest.mark.parametrize(
    ("student", "told"),
    [
        (lambda x: 1 / 0, "on two keys: it raised ZeroDivisionError: division by zero"),
        (lambda: 1, "it raised TypeError: "),
        (lambda x: torch.softmax(x, -1)[..., :1], "on two keys: the shape is (1,), it must be (2,)."),
        (lambda x: torch.softmax(x, -1).double(), "the dtype is torch.float64, it must be torch.float32."),
        (lambda x: torch.softmax(x, -1).tolist(), "a tensor is wanted, this is of type list."),
        (lambda x: torch.softmax(x, -1).numpy(), "a tensor is wanted, this is of type ndarray."),
        (lambda x: torch.softmax(x, -1).to_sparse(), "a plain tensor that holds its numbers is wanted"),
        (lambda x: torch.softmax(x, -1).to("meta"), "a plain tensor that holds its numbers is wanted"),
        (lambda x: x * float("nan"), "on two keys: 2 of 2 numbers are NaN."),
        (lambda x: x * float("inf"), "on two keys: 0.2689 is right at [0], this is inf; 2 of 2 are off."),
        (lambda x: torch.softmax(x, -1).detach(), "on a gradient: it raised RuntimeError"),
        (changes_its_input, "on two keys: the first argument was changed in place."),
        (lambda x: torch.nn.Module()(x), "on two keys: it raised NotImplementedError: "),
        (forgets_its_return, "on two keys: the function returns nothing. Is its `return` missing?"),
        (yields_on, "a tensor is wanted, this is of type generator."),
        (prints_on, "on two keys: it prints without end."),
        (leaves, "on two keys: it raised SystemExit: 3"),
        (falls, "on two keys: it raised RecursionError"),
        (3, "a function is wanted, this is of type int."),
        (lambda x: x.exp(), "softmax: nothing is divided"),
        (lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), "softmax: large scores overflow"),
        (lambda x: torch.softmax(x, 0), "on a table: "),
    ],
)
def test_a_wrong_answer_is_told_in_one_line(student, told):
    verdict = softmax.examine(student)
    assert verdict.status == "wrong"
    assert verdict.message.startswith("✗ softmax: ") and told in verdict.message and "\n" not in verdict.message


def test_a_name_of_another_cell_is_told_with_what_to_do():
    """As it is after a restart; in a notebook, the function is one of a cell."""
    told = softmax.examine(eval("lambda x: helper_of_the_chapter(x)")).message
    cure = "If a cell above makes `helper_of_the_chapter`, run that first: menu Run, Run All Above Selected Cell."
    wanted = "on two keys: it raised NameError in line 1 of its cell: name 'helper_of_the_chapter' is not defined."
    assert told == f"✗ softmax: {wanted} {cure}"


def test_a_name_that_the_function_itself_forgot_is_its_own_affair():
    def too_early(x):
        total = total + x  # noqa: F821
        return total

    line = softmax.examine(too_early).message
    assert "it raised UnboundLocalError" in line and "cell above" not in line


@pytest.mark.parametrize("make", [np.zeros, torch.zeros])
def test_more_memory_than_there_is(make):
    """So much more that no computer so much as begins to give it."""
    line = softmax.examine(lambda x: make(10**16)).message
    assert line.endswith("It asked for more memory than there is: look at the shapes of what it makes.")


def test_any_argument_may_be_the_one_that_is_changed():
    def spoils_the_eighth(*args):
        args[7].zero_()
        return args[0]

    eight = Check("f", reference=lambda *a: a[0], cases=[Case("ones", lambda: tuple(torch.ones(8, 1)))], traps={})
    assert "the 8th argument was changed in place" in eight.examine(spoils_the_eighth).message


@pytest.mark.parametrize("kind", [float, torch.tensor])
@pytest.mark.parametrize(("answer", "status"), [(-math.inf, "right"), (-99.0, "wrong"), (math.inf, "wrong")])
def test_only_infinity_is_as_good_as_infinity(answer, status, kind):
    infinite = Check("f", reference=lambda: kind(-math.inf), cases=[Case("nothing", tuple)], traps={})
    assert infinite.examine(lambda: kind(answer)).status == status


@pytest.mark.parametrize("student", [runs_on, runs_on_and_will_not_stop])
def test_an_endless_loop_is_stopped(student, monkeypatch):
    monkeypatch.setattr("possm_lite.classroom.checks.check.SECONDS", 0.3)
    began = time.perf_counter()
    verdict = softmax.examine(student)
    assert "it was still running after 0.3 s" in verdict.message
    assert time.perf_counter() - began < 5


def test_a_check_leaves_random_numbers_and_gradient_mode_alone():
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    with torch.no_grad():
        assert softmax.examine(lambda x: torch.softmax(x + 0 * torch.rand(2), -1)).status == "right"
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(1), wanted)


def test_what_a_student_prints_does_not_clutter_the_notebook(capsys):
    softmax(lambda x: print("here") or torch.softmax(x, -1))
    assert capsys.readouterr().out == "✓ softmax\n"


def test_the_person_at_the_keyboard_can_still_interrupt():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        softmax.examine(interrupted)


guess = ValueCheck("guess", expected=0.5, tolerance=0.01, traps={"that is twice as much": 1.0})
order = ValueCheck("order", expected="2, 0, 1", traps={"that is the order it had": "0, 1, 2"})
word = ValueCheck("word", expected="key 2", traps={"that one is masked": "key 1"})


@pytest.mark.parametrize(
    ("exercise", "value", "line"),
    [
        (guess, None, "· guess: not attempted yet"),
        (guess, 0.505, "✓ guess"),
        (guess, torch.tensor(0.5), "✓ guess"),
        (guess, 1, "✗ guess: that is twice as much"),
        (guess, 0.7, "✗ guess: 0.7 is not it."),
        (guess, float("nan"), "✗ guess: nan is not it."),
        (guess, "half", "✗ guess: a number is wanted, this is of type str."),
        (guess, [0.5], "✗ guess: a number is wanted, this is of type list."),
        (word, "Key2", "✓ word"),
        (word, ["key", 2], "✗ word: \"['key', 2]\" is not it."),
        (order, [2, 0, 1], "✓ order"),
        (order, "2 0 1", "✓ order"),
        (order, "(0, 1, 2)", "✗ order: that is the order it had"),
        (word, "key 1", "✗ word: that one is masked"),
        (word, "3", "✗ word: '3' is not it."),
        (word, 2, "✗ word: a word is wanted, this is of type int."),
    ],
)
def test_an_answer_is_judged(exercise, value, line):
    assert exercise.examine(value).message.startswith(line)


@pytest.mark.parametrize("exercise", WRITTEN)
def test_the_right_answer_passes(exercise):
    assert exercise.examine(exercise.reference).message == f"✓ {exercise.name}"


@pytest.mark.parametrize("exercise", WRITTEN)
def test_every_trap_is_told_by_its_own_name(exercise):
    assert len(exercise.traps) >= 3
    for message, trap in exercise.traps.items():
        assert exercise.examine(trap).message == f"✗ {exercise.name}: {message}"


@pytest.mark.parametrize("exercise", PREDICTED)
def test_every_predicted_answer_and_its_traps(exercise):
    assert exercise.examine(exercise.expected).status == "right"
    assert len(exercise.traps) >= 3
    for message, value in exercise.traps.items():
        assert exercise.examine(value).message == f"✗ {exercise.name}: {message}"


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_stub_is_not_attempted_yet(exercise):
    assert exercise.examine(stub_of_any_arguments if isinstance(exercise, Check) else None).status == "missing"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_exercise_has_its_own_name(chapter):
    module = load(chapter)
    for name, value in vars(module).items():
        assert not isinstance(value, Check | ValueCheck) or value.name == name
