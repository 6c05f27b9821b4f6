"""Chapter 14: right and wrong answers in other styles than the references and the traps."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from .helpers import assert_verdict, load

check = load("14_real_time")


def stream_in_windows(bins, step, answer, k, window=lambda b, k: slice(max(0, b + 1 - k), b + 1)):
    """All hidden states first, then windows of them."""
    hidden, state = [], None
    for x in bins:
        h, state = step(x, state)
        hidden.append(h)
    return [answer(hidden[window(b, k)]) for b in range(len(bins))]


def stream_with_zeros(bins, step, answer, k):
    state, recent, answers = None, torch.zeros(k, 2), []
    for x in bins:
        h, state = step(x, state)
        recent = torch.cat([recent[1:], h[None]])
        answers.append(answer(list(recent)))
    return answers


def offsets_in_numpy(time_s, bin, width):
    return torch.from_numpy((time_s.numpy() - bin.numpy() * width).astype(np.float32))


def report_in_numpy(step_ms, deadline_ms, median=np.median, p99=lambda x: np.percentile(x, 99), late=np.greater):
    x = step_ms.numpy()
    return float(median(x)), float(p99(x)), float(np.mean(late(x, deadline_ms)))


def user_with_padding(cursor, target, delay, gain, max_speed):
    """The path with its first entry repeated before it, so that no index is negative."""
    path = torch.cat([cursor[:1].expand(delay, 2), cursor])
    u = gain * (target - path[-1 - delay])
    return normalize(u, dim=0) * u.norm().clamp(max=max_speed)


def user_who_sees(entry):
    """A user who sees the entry entry(n, delay) of the path."""
    return lambda cursor, target, delay, gain, top: user_with_padding(
        cursor[entry(len(cursor), delay)][None], target, 0, gain, top
    )


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("stream", stream_in_windows, "✓"),
        ("stream", stream_with_zeros, "filled up with zeros"),
        ("stream", lambda *args: stream_in_windows(*args)[-1:], "on five bins and k = 1"),
        ("stream", lambda *args: stream_in_windows(*args, window=lambda b, k: slice(b + 1)), "grow all day"),
        ("stream", lambda *args: stream_in_windows(*args, window=lambda b, k: slice(k)), "first k states"),
        ("stream", lambda bins, step, answer, k: [answer([]) for _ in bins], "an empty list"),
        ("offsets_in_bin", offsets_in_numpy, "✓"),
        ("offsets_in_bin", lambda t, bin, width: (t - bin * torch.tensor([width], dtype=torch.float64)).float(), "✓"),
        ("offsets_in_bin", lambda t, bin, width: t.float() - bin * width, "rounded to float32"),
        ("offsets_in_bin", lambda t, bin, width: torch.fmod(t, width).float(), "0.15 % 0.05"),
        ("latency_report", report_in_numpy, "✓"),
        ("latency_report", lambda x, d: report_in_numpy(x, d, median=np.mean), "the mean"),
        ("latency_report", lambda x, d: report_in_numpy(x, d, p99=lambda x: sorted(x)[99 * len(x) // 100]), "too far"),
        ("latency_report", lambda x, d: report_in_numpy(x, d, p99=np.max), "largest time"),
        ("latency_report", lambda x, d: report_in_numpy(x, d, late=np.greater_equal), "exactly as long"),
        ("latency_report", lambda x, d: report_in_numpy(x, d)[:2], "tuple of 3"),
        ("mean_age_ms", np.mean([50 - spike + 1 + use for spike in range(51) for use in range(51)]), "✓"),
        ("mean_age_ms", 52, "is not right"),
        ("intention", user_with_padding, "✓"),
        ("intention", user_who_sees(lambda n, delay: max(n - delay, 1) - 1), "✓"),
        ("intention", user_who_sees(lambda n, delay: -1 - delay if delay < n else n - 1 - delay), "see the future"),
        ("intention", user_who_sees(lambda n, delay: -1 - delay), "IndexError"),
        ("intention", lambda *args: user_with_padding(*args[:2], 0, *args[3:]), "not on what is seen"),
        ("intention", lambda *args: normalize(user_with_padding(*args), dim=0) * args[4], "always the largest"),
        ("intention", lambda *args: user_with_padding(*args[:3], 1, args[4]), "`gain`"),
        ("intention", lambda *args: user_with_padding(*args[:4], torch.inf), "nothing limits"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
