"""The exercises of the course, a module for each chapter: right answers, cases and known mistakes.

In a chapter, `check` is its module: `check.name(name)` compares a student's answer with `check.name.reference`, the
right one. `possm_course.checks` says how an exercise is written.
"""
