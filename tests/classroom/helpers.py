"""What the tests of the chapters' checks share."""


def assert_right(exercise, answer):
    """A right answer is called right, in one line."""
    verdict = exercise.examine(answer)
    assert (verdict.status, verdict.line) == ("right", f"✓ {exercise.name}")


def assert_wrong(exercise, answer, words):
    """A planted mistake is found, and told with these words."""
    verdict = exercise.examine(answer)
    assert verdict.status == "wrong" and words in verdict.line, verdict.line
