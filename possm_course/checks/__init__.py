"""The engine of the exercises, which are in `possm_course.exercises`.

An exercise is its right answer, a plain function under `exercise`: cases on which a student's answer is compared with
it, and the likeliest mistakes, each with the message that a student reads who made it.

    from possm_course.checks import Case, exercise, gradient, normal

    @exercise(
        cases={
            "three numbers": lambda: (normal(3),),
            "a table": lambda: (normal(2, 3, seed=1),),
            "its gradient": Case(lambda: (normal(3),), gradient(0)),
        },
        mistakes={"x.mean(-1, keepdim=True) → x.mean()": "one mean is subtracted from all rows. Each has its own."},
    )
    def centered(x):
        return x - x.mean(-1, keepdim=True)

In its chapter, the cell after the student's function runs `check.centered(centered)`. It prints "✓ centered", or
"✗ centered: " and what is wrong. docs/CONTRIBUTING.md says which cells and files belong to an exercise.

* `exercise` makes a `Check` of the right answer; a value that students predict is a `ValueCheck` instead.
* `Case` is a case that compares something else than the result, such as the `gradient`, or has its own tolerance.
* `edited` is the right answer with a mistake in it, as `Check` makes it of "old code → new code".
* `normal` draws numbers for the arguments of a case, the same ones every time.
* `Complaint` is raised by what observes a function, and says what is wrong in its own words.
"""

from .check import Case, Check, Exercise, ValueCheck, Verdict, edited, exercise, gradient, normal
from .compare import as_tensor
from .sandbox import MISSING, Complaint

__all__ = ["Case", "Check", "Complaint", "Exercise", "MISSING", "ValueCheck", "Verdict", "as_tensor", "edited"]
__all__ += ["exercise", "gradient", "normal"]
