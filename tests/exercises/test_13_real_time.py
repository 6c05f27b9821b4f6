"""The exercises of chapter 13: other right answers pass, and planted mistakes are told by their names."""

import numpy as np
import pytest
import torch

from .helpers import assert_wrong, load

check = load("13_real_time")

# 13.1


def stream_by_lists(bins, step, answer, k):
    """All hidden states first, then windows of them."""
    hidden, state = [], None
    for x in bins:
        h, state = step(x, state)
        hidden.append(h)
    return [answer(hidden[max(0, b + 1 - k) : b + 1]) for b in range(len(bins))]


def make_stream(carry="state", order="oldest first", keep=0, pad=False, late=False):
    def stream(bins, step, answer, k):
        state, recent, answers = None, [], []
        for x in bins:
            h, new = step(x, state)
            state = {"state": new, "h": h, "nothing": None}[carry]
            if late:
                answers.append(answer(recent[-k:] if recent else [h]))
            recent.append(h)
            if not late:
                window = recent[-(k + keep) :] if k + keep else recent[-1:]
                window = [torch.zeros(2)] * (k - len(window)) * pad + window
                answers.append(answer(window if order == "oldest first" else window[::-1]))
        return answers

    return stream


def test_right_streams():
    assert check.stream.examine(stream_by_lists).message == "✓ stream"
    assert check.stream.examine(make_stream()).status == "right"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"carry": "nothing"}, "empty memory"),
        ({"carry": "h"}, "the hidden state h went into"),
        ({"order": "newest first"}, "newest first"),
        ({"keep": 1000}, "would grow all day"),
        ({"keep": -1}, "k - 1 states"),
        ({"pad": True}, "filled up with zeros"),
        ({"late": True}, "one bin late"),
    ],
)
def test_wrong_streams(wrong, words):
    assert_wrong(check.stream, make_stream(**wrong), words)


def test_a_stream_that_answers_once_only():
    def last(bins, step, answer, k):
        return stream_by_lists(bins, step, answer, k)[-1:]

    assert_wrong(check.stream, last, "on five bins and k = 1")


def test_a_stream_that_waits_or_reads_the_state_or_nothing():
    def waiting(bins, step, answer, k):
        return [a for b, a in enumerate(stream_by_lists(bins, step, answer, k)) if b >= k - 1]

    def reading_the_state(bins, step, answer, k):
        states = []
        for x in bins:
            states.append(step(x, states[-1] if states else None)[1])
        return [answer(states[max(0, b + 1 - k) : b + 1]) for b in range(len(bins))]

    assert_wrong(check.stream, waiting, "no answer before k states")
    assert_wrong(check.stream, reading_the_state, "reads what is carried on")
    assert_wrong(check.stream, lambda bins, step, answer, k: [answer([]) for _ in bins], "an empty list")


# 13.2


def offsets_in_numpy(time_s, bin, width):
    return torch.from_numpy((time_s.numpy() - bin.numpy() * width).astype(np.float32))


def offsets_by_a_float64_width(time_s, bin, width):
    return (time_s - bin * torch.tensor([width], dtype=torch.float64)).to(torch.float32)


@pytest.mark.parametrize("answer", [offsets_in_numpy, offsets_by_a_float64_width])
def test_right_offsets(answer):
    assert check.offsets_in_bin.examine(answer).message == "✓ offsets_in_bin"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda t, b, w: t.float() - b.double().mul(w).float(), "Subtract first"),
        (lambda t, b, w: (t - b * w).to(torch.float32), "`bin.double()`"),
        (lambda t, b, w: torch.remainder(t, w).float(), "0.15 % 0.05"),
        (lambda t, b, w: t - b.double() * w, "float64"),
        (lambda t, b, w: t.float() - b * w, "✗ offsets_in_bin"),  # both bugs of the friend
    ],
)
def test_wrong_offsets(answer, words):
    assert_wrong(check.offsets_in_bin, answer, words)


# 13.3


def report_in_numpy(step_ms, deadline_ms):
    x = step_ms.numpy()
    return np.median(x).item(), np.percentile(x, 99).item(), float(np.mean(x > deadline_ms))


def report_by_quantile(step_ms, deadline_ms):
    median, p99 = step_ms.quantile(torch.tensor([0.5, 0.99], dtype=torch.float64))
    return median, p99, (step_ms > deadline_ms).sum() / len(step_ms)


@pytest.mark.parametrize("answer", [report_in_numpy, report_by_quantile])
def test_right_reports(answer):
    assert check.latency_report.examine(answer).message == "✓ latency_report"


@pytest.mark.parametrize(
    ("place", "wrong", "words"),
    [
        (0, lambda x, d: x.mean(), "the mean"),
        (1, lambda x, d: x.sort().values[-1], "the largest time of all"),
        (1, lambda x, d: x[int(0.99 * len(x)) - 1], "not sorted"),
        (1, lambda x, d: x.sort().values[99 * len(x) // 100], "one place too far"),
        (1, lambda x, d: x.mean() + 2.326 * x.std(), "bell curve"),
        (2, lambda x, d: (x > d).sum(), "a count"),
        (2, lambda x, d: 100 * (x > d).double().mean(), "a percentage"),
        (2, lambda x, d: (x >= d).double().mean(), "exactly as long"),
    ],
)
def test_wrong_reports(place, wrong, words):
    def answer(step_ms, deadline_ms):
        numbers = list(report_in_numpy(step_ms, deadline_ms))
        numbers[place] = float(wrong(step_ms, deadline_ms))
        return tuple(numbers)

    assert_wrong(check.latency_report, answer, words)


# 13.4


def test_the_age_of_a_spike():
    rng = np.random.default_rng(0)
    age = (50 - rng.uniform(0, 50, 100_000)) + 1 + rng.uniform(0, 50, 100_000)
    assert check.mean_age_ms.examine(round(float(age.mean()))).message == "✓ mean_age_ms"
    for wrong, words in (
        (26, "half a bin is missing"),
        (50, "computing is missing"),
        (101, "worst case"),
        (1, "only the computing"),
        (76, "in full"),
    ):
        assert_wrong(check.mean_age_ms, wrong, words)


# 13.5


def user(which, limit="length"):
    def intention(cursor, target, delay, gain, max_speed):
        u = gain * (target - cursor[which(len(cursor), delay)])
        if limit == "length":
            return u * min(1.0, max_speed / max(float(u.square().sum().sqrt()), 1e-9))
        return u.clamp(-max_speed, max_speed) if limit == "each" else u

    return intention


def padded(cursor, target, delay, gain, max_speed):
    """The path with its first entry repeated before it, so that no place is negative."""
    path = torch.cat([cursor[:1].expand(delay, 2), cursor])
    u = gain * (target - path[-1 - delay])
    return torch.nn.functional.normalize(u, dim=0) * u.norm().clamp(max=max_speed)


@pytest.mark.parametrize("answer", [padded, user(lambda n, delay: max(n - delay, 1) - 1)])
def test_right_users(answer):
    assert check.intention.examine(answer).message == "✓ intention"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (user(lambda n, delay: -1), "not on what is seen"),
        (user(lambda n, delay: max(0, n - delay - 2)), "one moment off"),
        (user(lambda n, delay: n - 1 - delay), "would see the future"),
        (user(lambda n, delay: min(delay, n - 1)), "from the start of the path"),
        (user(lambda n, delay: -delay), "cursor[0]"),
        (lambda c, t, delay, gain, top: top * (v := padded(c, t, delay, gain, top)) / v.norm(), "always the largest"),
        (lambda c, t, delay, gain, top: padded(c, t, delay, 1.0, top), "`gain` does not come in"),
        (user(lambda n, delay: max(0, n - 1 - delay), limit="each"), "limited separately"),
        (user(lambda n, delay: max(0, n - 1 - delay), limit="none"), "nothing limits"),
        (lambda *a: -padded(*a), "runs away"),
        (user(lambda n, delay: -1 - delay), "IndexError"),
    ],
)
def test_wrong_users(answer, words):
    assert_wrong(check.intention, answer, words)
