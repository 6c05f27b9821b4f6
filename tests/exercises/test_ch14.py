"""Chapter 14: right answers in other styles."""

import numpy as np
import torch
from torch.nn.functional import normalize

from .helpers import answers, load

check = load("ch14")


def stream_in_windows(bins, step, answer, k):
    """All hidden states first, then windows of them."""
    hidden, state = [], None
    for x in bins:
        h, state = step(x, state)
        hidden.append(h)
    return [answer(hidden[max(0, b + 1 - k) : b + 1]) for b in range(len(bins))]


def user_with_padding(cursor, target, delay, gain, max_speed):
    """The path with its first entry repeated before it, so that no index is negative."""
    path = torch.cat([cursor[:1].expand(delay, 2), cursor])
    u = gain * (target - path[-1 - delay])
    return normalize(u, dim=0) * u.norm().clamp(max=max_speed)


def user_who_divides(cursor, target, delay, gain, max_speed):
    u = gain * (target - cursor[-1 - min(delay, len(cursor) - 1)])
    return min(1, max_speed / float(u.norm())) * u


class FedInArrays(check.PacketDecoder.reference):
    """All spikes so far in one array, and all hidden states."""

    def feed(self, packet):
        *spikes, now = packet
        self.waiting.append(torch.stack(spikes))
        (units, ticks), begun = torch.cat(self.waiting, 1), len(self.recent)
        for b in range(begun, now // 1500):
            mine = ticks // 1500 == b
            h, self.state = self.step(self.read(units[mine], ticks[mine] % 1500 / 30_000), self.state)
            self.recent.append(h)
        return [self.answer(self.recent[max(0, b + 1 - self.k) : b + 1]) for b in range(begun, len(self.recent))]


test_answers = answers(
    check,
    ("stream", stream_in_windows),
    ("offsets_in_bin", lambda t, b, width: (t.numpy() - b.numpy() * width).astype(np.float32)),
    ("mean_age_ms", np.mean([50 - spike + 1 + use for spike in range(51) for use in range(51)])),
    ("intention", lambda *args: user_with_padding(*args).double()),
    ("intention", user_who_divides, "right on the target", "divide"),
    ("meant", lambda v, p, q, r: normalize(q - p) * torch.where((q - p).norm(dim=1) > r, v.norm(dim=1), 0)[:, None]),
    ("PacketDecoder", FedInArrays),
)
