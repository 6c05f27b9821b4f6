"""Chapter 14: right answers in other styles, and wrong ones that no known mistake explains."""

from collections import deque

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from .helpers import assert_verdict, load

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


class PacketDecoder:
    """One spike at a time, with an open bin that is closed by the next spike or by the end of the packet."""

    def __init__(self, read, step, answer, k):
        self.read, self.step, self.answer = read, step, answer
        self.state, self.recent, self.b = None, deque(maxlen=k), 0
        self.units, self.offsets = [], []

    def close(self):
        units, offsets = torch.tensor(self.units, dtype=torch.int64), torch.tensor(self.offsets, dtype=torch.float64)
        h, self.state = self.step(self.read(units, offsets), self.state)
        self.recent.append(h)
        self.units, self.offsets, self.b = [], [], self.b + 1
        return self.answer(list(self.recent))

    def push(self, units, ticks, now):
        answers = []
        for unit, tick in zip(units.tolist(), ticks.tolist(), strict=True):
            b, sample = divmod(tick, 1500)
            answers += [self.close() for _ in range(b - self.b)]
            self.units.append(unit)
            self.offsets.append(sample / 30_000)
        return answers + [self.close() for _ in range(now // 1500 - self.b)]


def decode_with_class(packets, *functions):
    decoder = PacketDecoder(*functions)
    return [decoder.push(*packet) for packet in packets]


def decode_in_hindsight(packets, read, step, answer, k):
    """All bins first, and then to which packet each belongs."""
    units, ticks = (torch.cat([packet[i] for packet in packets]) for i in (0, 1))
    bins, offsets = ticks // 1500, ticks % 1500 / 30_000
    xs = [read(units[bins == b], offsets[bins == b]) for b in range(packets[-1][2] // 1500)]
    answers = stream_in_windows(xs, step, answer, k)
    over = [0] + [now // 1500 for _, _, now in packets]
    return [answers[a:b] for a, b in zip(over[:-1], over[1:], strict=True)]


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("stream", stream_in_windows, "✓"),
        ("stream", lambda *args: stream_in_windows(*args)[-1:], "on five bins and k = 1"),
        ("stream", lambda bins, step, answer, k: [answer([]) for _ in bins], "an empty list"),
        ("offsets_in_bin", offsets_in_numpy, "✓"),
        ("offsets_in_bin", lambda t, bin, width: ((t / width - bin) * width).float(), "✓"),
        ("offsets_in_bin", lambda t, bin, width: offsets_in_numpy(t, bin, 0.05), "on bins of 20 ms"),
        ("latency_report", report_in_numpy, "✓"),
        ("latency_report", lambda x, d: report_in_numpy(x, d, "higher"), "at index 197"),
        ("latency_report", lambda x, d: report_in_numpy(x, d)[:2], "return three numbers"),
        ("mean_age_ms", np.mean([50 - spike + 1 + use for spike in range(51) for use in range(51)]), "✓"),
        ("intention", lambda *args: user_with_padding(*args).double(), "✓"),
        ("intention", lambda *args: normalize(user_with_padding(*args), dim=0) * args[4], "on a user who sees"),
        ("decode_packets", decode_with_class, "✓"),
        ("decode_packets", decode_in_hindsight, "✓"),
        ("decode_packets", lambda *args: sum(decode_with_class(*args), []), "one entry for each packet"),
        ("decode_packets", lambda p, *args: decode_with_class([x for x in p if len(x[0])], *args), "comes in pieces"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
