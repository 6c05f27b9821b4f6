"""The engine of the exercises, which are in `possm_course.exercises`."""

from .check import Case, Check, Exercise, ValueCheck, Verdict, edited, exercise, gradient, normal
from .compare import as_tensor
from .sandbox import MISSING, Complaint

__all__ = ["Case", "Check", "Complaint", "Exercise", "MISSING", "ValueCheck", "Verdict", "as_tensor", "edited"]
__all__ += ["exercise", "gradient", "normal"]
