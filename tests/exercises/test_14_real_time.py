"""Chapter 14: right and wrong answers in other styles than the references and the traps."""

from collections import deque
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes import SpikeBatch

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


def nearest_rank(x):
    return np.percentile(x, 99, method="inverted_cdf")


def rounded_down(x):
    return sorted(x)[99 * len(x) // 100 - 1]


def one_too_far(x):
    return sorted(x)[-(-99 * len(x) // 100)]


def interpolated(x):
    return np.percentile(x, 99)


def k_minus_one(b, k):
    """recent[-(k - 1):], which is everything for k = 1."""
    return slice(max(0, b + 2 - k) if k > 1 else 0, b + 1)


def report_in_numpy(step_ms, deadline_ms, median=np.median, p99=nearest_rank, late=np.greater):
    x = step_ms.numpy()
    return float(median(x)), float(p99(x)), float(np.mean(late(x, deadline_ms)))


def user_with_padding(cursor, target, delay, gain, max_speed):
    """The path with its first entry repeated before it, so that no index is negative."""
    path = torch.cat([cursor[:1].expand(delay, 2), cursor])
    u = gain * (target - path[-1 - delay])
    return normalize(u, dim=0) * u.norm().clamp(max=max_speed)


def user_who_divides(cursor, target, delay, gain, max_speed):
    u = gain * (target - cursor[max(0, len(cursor) - 1 - delay)])
    return u / u.norm() * min(u.norm(), max_speed)


def user_who_sees(entry):
    """A user who sees the entry entry(n, delay) of the path."""
    return lambda cursor, target, delay, gain, top: user_with_padding(
        cursor[entry(len(cursor), delay)][None], target, 0, gain, top
    )


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


def decode_in_hindsight(packets, read, step, answer, k, seconds=lambda samples: samples / 30_000):
    """All bins first, and then to which packet each belongs."""
    units, ticks = (torch.cat([packet[i] for packet in packets]) for i in (0, 1))
    bins, offsets = ticks // 1500, seconds(ticks % 1500)
    xs = [read(units[bins == b], offsets[bins == b]) for b in range(packets[-1][2] // 1500)]
    answers = stream_in_windows(xs, step, answer, k)
    over = [0] + [now // 1500 for _, _, now in packets]
    return [answers[a:b] for a, b in zip(over[:-1], over[1:], strict=True)]


def decode_in_seconds(packets, read, step, answer, k):
    """The times of all spikes become seconds first."""
    ticks = torch.cat([packet[1] for packet in packets])
    bins, seconds = ticks // 1500, ticks / 30_000

    def read_times(units, samples):
        nonlocal bins, seconds
        n, b = len(units), bins[:1]
        offsets, bins, seconds = seconds[:n] - b * 0.05, bins[n:], seconds[n:]
        return read(units, offsets)

    return decode_in_hindsight(packets, read_times, step, answer, k)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("stream", stream_in_windows, "✓"),
        ("stream", stream_with_zeros, "filled up with zeros"),
        ("stream", lambda *args: stream_in_windows(*args)[-1:], "on five bins and k = 1"),
        ("stream", lambda *args: stream_in_windows(*args, window=lambda b, k: slice(b + 1)), "grow all day"),
        ("stream", lambda *args: stream_in_windows(*args, window=lambda b, k: slice(k)), "on five bins and k = 1"),
        ("stream", partial(stream_in_windows, window=k_minus_one), "k - 1 states reach"),
        ("stream", lambda bins, step, answer, k: [answer([]) for _ in bins], "an empty list"),
        ("offsets_in_bin", offsets_in_numpy, "✓"),
        ("offsets_in_bin", lambda t, bin, width: offsets_in_numpy(t, bin, 0.05), "on bins of 20 ms"),
        ("offsets_in_bin", lambda t, *rest: offsets_in_numpy(t, *rest).double().round(decimals=6).float(), "millionth"),
        ("offsets_in_bin", lambda t, bin, width: (t - bin * torch.tensor([width], dtype=torch.float64)).float(), "✓"),
        ("offsets_in_bin", lambda t, bin, width: ((t / width - bin) * width).float(), "✓"),
        ("offsets_in_bin", lambda t, bin, width: ((t - bin.double() * width) * 1e4).round().float() / 1e4, "0.1 ms"),
        ("offsets_in_bin", lambda t, bin, width: t.float() - bin * width, "rounded to float32"),
        ("offsets_in_bin", lambda t, bin, width: torch.fmod(t, width).float(), "0.15 % 0.05"),
        ("latency_report", report_in_numpy, "✓"),
        ("latency_report", lambda x, d: np.array(report_in_numpy(x, d)), "✓"),
        ("latency_report", lambda x, d: report_in_numpy(x, d, median=np.mean), "the mean"),
        ("latency_report", partial(report_in_numpy, p99=one_too_far), "too far"),
        ("latency_report", partial(report_in_numpy, p99=interpolated), "between two of"),
        ("latency_report", partial(report_in_numpy, p99=lambda x: sorted(x)[int(0.99 * len(x))]), "at index 197"),
        ("latency_report", partial(report_in_numpy, p99=partial(np.percentile, q=99, method="higher")), "at index 197"),
        (
            "latency_report",
            partial(report_in_numpy, p99=partial(np.percentile, q=99, method="nearest")),
            "the nearest of",
        ),
        ("latency_report", partial(report_in_numpy, p99=rounded_down), "rounded down"),
        ("latency_report", lambda x, d: report_in_numpy(x, d, p99=np.max), "largest time"),
        ("latency_report", lambda x, d: report_in_numpy(x, d, late=np.greater_equal), "exactly as long"),
        ("latency_report", lambda x, d: report_in_numpy(x, d)[:2], "return three numbers"),
        ("mean_age_ms", np.mean([50 - spike + 1 + use for spike in range(51) for use in range(51)]), "✓"),
        ("mean_age_ms", 52, "is not right"),
        ("intention", user_with_padding, "✓"),
        ("intention", user_who_sees(lambda n, delay: n - 1 - delay if n >= delay else 0), "just as long as the delay"),
        ("intention", lambda *args: user_with_padding(*args).double(), "✓"),
        ("intention", user_who_sees(lambda n, delay: max(n - delay, 1) - 1), "✓"),
        ("intention", user_who_sees(lambda n, delay: -1 - delay if delay < n else n - 1 - delay), "see the future"),
        ("intention", user_who_sees(lambda n, delay: -1 - delay), "IndexError"),
        ("intention", lambda *args: user_with_padding(*args[:2], 0, *args[3:]), "not on what is seen"),
        ("intention", lambda *args: normalize(user_with_padding(*args), dim=0) * args[4], "on a user who sees"),
        ("intention", lambda *args: user_with_padding(*args[:3], 1, args[4]), "`gain`"),
        ("intention", lambda *args: user_with_padding(*args[:4], torch.inf), "nothing limits"),
        ("intention", user_who_divides, "divided by its length is NaN"),
        ("decode_packets", decode_with_class, "✓"),
        ("decode_packets", decode_in_seconds, "off after minutes"),
        ("decode_packets", decode_in_hindsight, "✓"),
        ("decode_packets", partial(decode_in_hindsight, seconds=lambda samples: samples), "floating-point"),
        ("decode_packets", partial(decode_in_hindsight, seconds=lambda samples: samples.float()), "in samples"),
        ("decode_packets", lambda *args: sum(decode_with_class(*args), []), "one entry for each packet"),
        ("decode_packets", lambda p, *args: decode_with_class([x for x in p if len(x[0])], *args), "comes in pieces"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)


def test_packets_of_a_model_give_its_batch_form():
    """The reference of `decode_packets` through an untrained POSSM."""
    packets, k = next(case for case in check.decode_packets.cases if case.name == "an untrained POSSM").make()
    streamed = check._of_a_model(check.decode_packets.reference, packets, k)
    config = POSSMConfig(n_units=4, dim=16, head_dim=8, n_freqs=4, hidden=24, context_bins=k)
    torch.manual_seed(0)
    model = POSSM(config).eval()
    units, ticks = (torch.cat([packet[i] for packet in packets]) for i in (0, 1))
    n_bins, seconds = packets[-1][2] // 1500, ticks.double() / 30_000
    batch = SpikeBatch.from_events([0] * len(units), units, seconds, n_trials=1, duration_s=0.05 * n_bins)
    times = (torch.arange(n_bins, dtype=torch.float64) * 0.05 + 0.04)[None]
    with torch.no_grad():
        whole = model(batch, times, torch.ones(1, dtype=torch.int64))[0]
    torch.testing.assert_close(streamed, whole, atol=1e-5, rtol=1e-5)
