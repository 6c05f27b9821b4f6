"""Chapter 14: right answers in other styles."""

import numpy as np
import torch
from torch.nn.functional import normalize

from .helpers import answers, load

check = load("14_real_time")


def stream_in_windows(bins, step, answer, k):
    """All hidden states first, then windows of them."""
    hidden, state = [], None
    for x in bins:
        h, state = step(x, state)
        hidden.append(h)
    return [answer(hidden[max(0, b + 1 - k) : b + 1]) for b in range(len(bins))]


def offsets_in_numpy(time_s, bin, width):
    return torch.from_numpy((time_s.numpy() - bin.numpy() * width).astype(np.float32))


def report_in_numpy(step_ms, deadline_ms, p99="inverted_cdf"):
    x = step_ms.numpy()
    return np.array([np.median(x), np.percentile(x, 99, method=p99), np.mean(x > deadline_ms)])


def user_with_padding(cursor, target, delay, gain, max_speed):
    """The path with its first entry repeated before it, so that no index is negative."""
    path = torch.cat([cursor[:1].expand(delay, 2), cursor])
    u = gain * (target - path[-1 - delay])
    return normalize(u, dim=0) * u.norm().clamp(max=max_speed)


def decode_in_hindsight(packets, read, step, answer, k):
    """All bins first, and then to which packet each belongs."""
    units, ticks = (torch.cat([packet[i] for packet in packets]) for i in (0, 1))
    bins, offsets = ticks // 1500, ticks % 1500 / 30_000
    xs = [read(units[bins == b], offsets[bins == b]) for b in range(packets[-1][2] // 1500)]
    answers = stream_in_windows(xs, step, answer, k)
    over = [0] + [now // 1500 for _, _, now in packets]
    return [answers[a:b] for a, b in zip(over[:-1], over[1:], strict=True)]


test_answers = answers(
    check,
    [
        ("stream", stream_in_windows),
        ("offsets_in_bin", offsets_in_numpy),
        ("latency_report", report_in_numpy),
        ("mean_age_ms", np.mean([50 - spike + 1 + use for spike in range(51) for use in range(51)])),
        ("intention", lambda *args: user_with_padding(*args).double()),
        ("decode_packets", decode_in_hindsight),
    ],
)
