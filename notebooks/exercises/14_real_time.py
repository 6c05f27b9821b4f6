"""Exercises of chapter 14: one bin at a time, times within a bin, how late is late, how old, what a user sees, and a
decoder fed by packets."""

from functools import partial

import torch
from torch import Tensor

from possm_lite.classroom.checks import Case, Check, Complaint, ValueCheck, normal
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes import SpikeBatch

# Exercise 14.1: one bin at a time


def _stream(
    bins, step, answer, k, *, carry=lambda h, state: state, keep=lambda h, state: h, read=lambda kept, k: kept[-k:]
):
    state, kept, answers = None, [], []
    for x in bins:
        h, state = step(x, state)
        kept.append(keep(h, state))
        state = carry(h, state)
        answers.append(answer(read(kept, k)))
    return answers


def _toy_step(x, state):
    """A memory whose output is not its state, as that of an LSTM is not."""
    state = 0.5 * (torch.zeros(2) if state is None else state) + x
    return torch.tanh(state), state


def _toy_answer(recent):
    """A mean in which newer states weigh more; it shows how many there are."""
    if not len(recent):
        raise ValueError("`answer` got an empty list, but the state of this bin belongs in it")
    weight = 2.0 ** -torch.arange(len(recent) - 1, -1, -1.0)
    return weight @ torch.stack(list(recent)) / weight.sum()


def _toy_stream(function, bins, k):
    answers = function(bins, _toy_step, _toy_answer, k)
    if isinstance(answers, list | tuple) and all(isinstance(a, Tensor) for a in answers):
        return torch.stack(list(answers)) if answers else torch.empty(0, 2)
    return answers


def _inputs(n, k):
    return lambda: ([*normal(n, 2, seed=13)], k)


stream = Check(
    "stream",
    reference=_stream,
    cases=[
        Case("a single bin", _inputs(1, k=3), _toy_stream),
        Case("five bins and k = 1", _inputs(5, k=1), _toy_stream),
        Case("two bins, fewer than k = 3", _inputs(2, k=3), _toy_stream),
        Case("eight bins and k = 3", _inputs(8, k=3), _toy_stream),
    ],
    traps={
        "every bin begins with an empty memory. Give the state that `step` returns to the next `step`.": (
            partial(_stream, carry=lambda h, state: None)
        ),
        "the hidden state h went into the next `step`. What is carried on is the second thing that `step` "
        "returns.": partial(_stream, carry=lambda h, state: h),
        "`answer` reads what is carried on. It needs the hidden states h, the first thing that `step` "
        "returns.": partial(_stream, keep=lambda h, state: state),
        "there is no answer before k states are known. In the first bins `answer` takes as many as there are.": (
            lambda bins, step, answer, k: _stream(bins, step, answer, k)[k - 1 :]
        ),
        "the last states come newest first. `answer` needs the oldest first, as time goes, to know which one is "
        "new.": partial(_stream, read=lambda kept, k: kept[-k:][::-1]),
        "these are the first k states, not the last k. Drop the oldest.": partial(_stream, read=lambda h, k: h[:k]),
        "`answer` gets all states there have ever been. At a rig that list would grow all day: keep the last "
        "k.": partial(_stream, read=lambda kept, k: kept),
        "k - 1 states reach `answer`. This bin's is one of the k.": (
            partial(_stream, read=lambda kept, k: kept[-max(1, k - 1) :])
        ),
        "k - 1 states reach `answer`, and all of them where k is 1, as [-0:] is the whole list. This bin's state is "
        "one of the k.": partial(_stream, read=lambda kept, k: kept[-(k - 1) :]),
        "before there are k states the list is filled up with zeros. A zero is a state too, and is read: give `answer` "
        "only what there is.": partial(_stream, read=lambda h, k: [torch.zeros(2)] * (k - len(h)) + h[-k:]),
        "the answer is one bin late: add the state of this bin to the others before you call `answer`.": (
            partial(_stream, read=lambda kept, k: kept[:-1][-k:] or kept)
        ),
    },
)


# Exercise 14.2: times since the bin began, in float32


def _times_and_bins(times, bins, width=0.05):
    return lambda: (torch.tensor(times, dtype=torch.float64), torch.tensor(bins), width)


offsets_in_bin = Check(
    "offsets_in_bin",
    reference=lambda time_s, bin, width: (time_s - bin.double() * width).float(),
    cases=[
        Case("the first three bins", _times_and_bins([0.01, 0.052, 0.149], [0, 1, 2]), tolerance=1e-7),
        Case("a spike right on the edge of its bin", _times_and_bins([0.15, 0.35], [3, 7]), tolerance=1e-7),
        Case("bins after an hour", _times_and_bins([3600.012345, 3600.051], [72_000, 72_001]), tolerance=1e-7),
        Case("bins of 20 ms", _times_and_bins([0.0312, 0.0477], [1, 2], width=0.02), tolerance=1e-7),
        Case("the millionth bin", _times_and_bins([50_000.0371234], [1_000_000]), tolerance=1e-7),
        Case("the dtype", _times_and_bins([0.01, 0.052], [0, 1]), lambda function, *args: str(function(*args).dtype)),
    ],
    traps={
        "the times were rounded to float32 before the start of the bin was subtracted. Subtract first, round "
        "last.": lambda time_s, bin, width: time_s.float() - (bin.double() * width).float(),
        "a tensor of whole numbers times 0.05 is float32 in torch, so the starts of the bins are rounded. Start with "
        "`bin.double()`.": lambda time_s, bin, width: (time_s - bin * width).float(),
        "the remainder of a division puts a spike on an edge at the end of the bin before: 0.15 % 0.05 is 0.04999... "
        "You know the bin, so subtract its start.": lambda time_s, bin, width: (time_s % width).float(),
        "the times are rounded to 0.1 ms, and the fastest phasor rotates once in as much. Round to float32, and to "
        "nothing coarser.": lambda time_s, bin, width: (time_s - bin.double() * width).round(decimals=4).float(),
        "the result is float64. Round it to float32 at the end: the network computes in float32.": (
            lambda time_s, bin, width: time_s - bin.double() * width
        ),
    },
)


# Exercise 14.3: how late is late


def _report(
    step_ms,
    deadline_ms,
    *,
    median=lambda x: x.sort().values[(len(x) + 1) // 2 - 1],
    p99=lambda x: x.sort().values[-(-99 * len(x) // 100) - 1],
    late=lambda x, deadline: (x > deadline).double().mean(),
):
    return median(step_ms), p99(step_ms), late(step_ms, deadline_ms)


def _in_words(function, *args):
    """Tensors and numbers of any precision are accepted."""
    result = function(*args)
    result = result.tolist() if isinstance(result, Tensor) else result  # an array, too, comes as a tensor
    if not isinstance(result, tuple | list) or len(result) != 3:
        raise Complaint("return three numbers: the median, the 99th percentile, and the share of late steps")
    median, p99, late = (float(x) for x in result)
    return f"median {median:.5g} ms, 99th percentile {p99:.5g} ms, share of late steps {late:.5g}"


def _times(n, slow, deadline_ms=50.0):
    def make():
        times = 0.2 + 0.1 * torch.rand(n, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        for index, value in slow.items():
            times[index] = value
        return times, deadline_ms

    return make


def _staircase(n):
    """n times in disorder, so far apart that neighbours differ; the middle two are equal, for any kind of median."""
    times = torch.arange(1.0, n + 1.0, dtype=torch.float64)
    times[n // 2] = times[n // 2 - 1]
    return times[torch.randperm(n, generator=torch.Generator().manual_seed(3))], 120.5


latency_report = Check(
    "latency_report",
    reference=_report,
    cases=[
        Case("101 steps that are about alike", _times(101, {}), _in_words),
        Case("501 steps, seven of them slow", _times(501, {70 * i + 5: 60.0 + i for i in range(7)}), _in_words),
        Case("a step of just the 50 ms it may take", _times(101, {4: 50.0, 9: 51.0}), _in_words),
        *(Case(f"{n} steps of 1 ms, 2 ms and so on", partial(_staircase, n), _in_words) for n in (150, 170, 200)),
    ],
    traps={
        "the 99th percentile lies between two of the times. As defined here it is one of them: sort and count, or give "
        "`np.percentile` the method 'inverted_cdf'.": partial(_report, p99=lambda x: x.quantile(0.99)),
        "the 99th percentile is one index too far: of 501 sorted times the 496th, at index 495, is the first that 99 % "
        "do not exceed.": partial(_report, p99=lambda x: x.sort().values[-(-99 * len(x) // 100)]),
        "the 99th percentile is one too small: of 150 sorted times 148 are 98.7 %, so it is the 149th.": (
            partial(_report, p99=lambda x: x.quantile(0.99, interpolation="lower"))
        ),
        "the 99th percentile is one index too far where 99 % of the number of steps is whole: of 200 sorted times 198 "
        "are 99 %, so it is the 198th, at index 197.": (
            partial(_report, p99=lambda x: x.sort().values[99 * len(x) // 100])
        ),
        "the 99th percentile is the nearest of the times, and that may be one too small: of 170 sorted times 168 are "
        "98.8 %, so it is the 169th.": partial(_report, p99=lambda x: x.quantile(0.99, interpolation="nearest")),
        "99 % of the number of steps is rounded down, and then fewer than 99 % do not exceed the answer. Round up.": (
            partial(_report, p99=lambda x: x.sort().values[99 * len(x) // 100 - 1])
        ),
        "the first number is the mean. A few slow steps pull it up; the median is the middle of the sorted "
        "times.": partial(_report, median=lambda x: x.mean()),
        "the 99th percentile is the largest time of all. One in a hundred is slower than it.": (
            partial(_report, p99=lambda x: x.max())
        ),
        "the 99th percentile is taken from times that are not sorted.": (
            partial(_report, p99=lambda x: x[int(0.99 * len(x)) - 1])
        ),
        "this 99th percentile is mean + 2.33 standard deviations, which is true of a bell curve only. Step times do "
        "not follow one: sort and count.": partial(_report, p99=lambda x: x.mean() + 2.326 * x.std()),
        "the last number is a count. Divide by the number of steps.": partial(_report, late=lambda x, d: (x > d).sum()),
        "the last number is a percentage. Give a share between 0 and 1.": (
            partial(_report, late=lambda x, d: 100 * (x > d).double().mean())
        ),
        "a step that takes exactly as long as it may is not late.": (
            partial(_report, late=lambda x, d: (x >= d).double().mean())
        ),
    },
)


# Exercise 14.4: 25 ms of waiting for the end of the bin, 1 ms of computing, 25 ms until half of the held 50 ms are over

mean_age_ms = ValueCheck(
    "mean_age_ms",
    expected=51,
    tolerance=0.5,
    traps={
        "half a bin is missing: a spike waits for the end of its bin, *and* the velocity is held for a whole bin.": 26,
        "that is the worst case. On average a spike waits half a bin, and the velocity is used half a bin later.": 101,
        "only the computing is counted. It is the smallest part: the spike waits, and then the answer is held.": 1,
        "the 1 ms of computing is missing. It is little, but it is a part of (14.3).": 50,
        "one of the two is counted in full. Both average to half a bin.": 76,
    },
)


# Exercise 14.5: the user


def _shorten(u, max_speed):
    return u if u.norm() <= max_speed else u * max_speed / u.norm()


def _intention(cursor, target, delay, gain, max_speed, *, seen=lambda n, delay: max(0, n - 1 - delay), limit=_shorten):
    return limit(gain * (target - cursor[seen(len(cursor), delay)]), max_speed)


def _user(target, delay, n=6):
    path = [[0.0, 0.0], [3.0, 1.0], [8.0, 2.0], [15.0, 6.0], [21.0, 12.0], [26.0, 20.0]]
    return lambda: (torch.tensor(path[:n]), torch.tensor(target), delay, 2.0, 400.0)


intention = Check(
    "intention",
    reference=_intention,
    cases=[
        Case("a user who sees without delay", _user((30.0, 10.0), 0)),
        Case("a delay of two moments", _user((30.0, 10.0), 2)),
        Case("a path that is shorter than the delay", _user((30.0, 10.0), 4, n=3)),
        Case("a path just as long as the delay", _user((30.0, 10.0), 3, n=3)),
        Case("a target so far away that the speed is limited", _user((300.0, 100.0), 2)),
        Case("a cursor that is seen right on the target", _user((26.0, 20.0), 0)),
    ],
    traps={
        "the user acts on where the cursor is, not on what is seen: the newest entry reaches the eye `delay` moments "
        "later.": partial(_intention, seen=lambda n, delay: n - 1),
        "you are one moment off: with delay 0 the newest entry, cursor[-1], is what is seen.": (
            partial(_intention, seen=lambda n, delay: max(0, n - 2 - delay))
        ),
        "while the path is shorter than the delay, a negative index counts from the end: the user would see the "
        "future. Use the first entry then.": partial(_intention, seen=lambda n, delay: n - 1 - delay),
        "that is the entry number `delay` from the start of the path. Count from its end.": (
            partial(_intention, seen=lambda n, delay: min(delay, n - 1))
        ),
        "cursor[-delay] with delay 0 is cursor[0], the first entry, and from then on you are one moment early: count "
        "from len(cursor).": partial(_intention, seen=lambda n, delay: -delay if delay <= n else 0),
        "this is always the largest speed. Shorten the velocity only where it is longer than `max_speed`.": (
            partial(_intention, limit=lambda u, max_speed: u * max_speed / u.norm())
        ),
        "`gain` is missing: the velocity is the distance that is left, times the gain.": (
            lambda cursor, target, delay, gain, max_speed: _intention(cursor, target, delay, 1.0, max_speed)
        ),
        "x and y are limited separately, which bends the direction. Limit the length of the vector.": (
            partial(_intention, limit=lambda u, max_speed: u.clamp(-max_speed, max_speed))
        ),
        "the user runs away from the target: the way is target minus cursor.": lambda *args: -_intention(*args),
        "with the cursor on the target the length is 0, and a vector divided by its length is NaN. Divide only where "
        "it is too long.": partial(_intention, limit=lambda u, max_speed: u / u.norm() * u.norm().clamp(max=max_speed)),
        "nothing limits the speed. If you shorten the way that is left, multiply by `gain` first.": partial(
            _intention, limit=lambda u, max_speed: u
        ),
    },
)


# Exercise 14.6: a decoder fed by packets

_BIN = 1500  # samples in 50 ms, at 30,000 a second


def _by_end(ticks, end):
    return ticks < end


def _seconds(ticks, b):
    return (ticks - b * _BIN) / 30_000


def _decode_packets(
    packets,
    read,
    step,
    answer,
    k,
    *,
    over=lambda now, end, ticks: now >= end,
    own=_by_end,
    offsets=_seconds,
    silence=True,
    several=True,
    keep_rest=True,
    keep_early=True,
    kept=lambda recent, k: recent[-k:],
):
    state, recent, b, answers = None, [], 0, []
    units, ticks = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    for new_units, new_ticks, now in packets:
        if keep_early:
            units, ticks = torch.cat([units, new_units]), torch.cat([ticks, new_ticks])
        else:
            units, ticks = new_units, new_ticks
        answers.append([])
        while over(now, (b + 1) * _BIN, ticks):
            mine = own(ticks, (b + 1) * _BIN)
            if silence or mine.any():
                h, state = step(read(units[mine], offsets(ticks[mine], b)), state)
                recent = [*recent, h]
                answers[-1].append(answer(kept(recent, k)))
            units, ticks = (units[~mine], ticks[~mine]) if keep_rest else (units[:0], ticks[:0])
            b += 1
            if not several:
                break
    return answers


def _each_packet_a_bin(packets, read, step, answer, k):
    state, recent, answers = None, [], []
    for b, (units, ticks, _) in enumerate(packets):
        h, state = step(read(units, _seconds(ticks, b)), state)
        recent = [*recent, h][-k:]
        answers.append([answer(recent)])
    return answers


def _toy_read(units, offsets):
    """Depends on which units fired and when, to a fraction of a millisecond; a silent bin is not zero."""
    if not (isinstance(offsets, Tensor) and offsets.is_floating_point()):
        raise TypeError("`read` needs the times within the bin in seconds, a tensor of floating-point numbers")
    return torch.stack([(units * offsets.float() * 20).sum(), torch.tensor(1 - 0.1 * len(units))])


def _answers(function, packets, read, step, answer, k):
    result = function(packets, read, step, answer, k)
    if not isinstance(result, list | tuple) or not all(isinstance(each, list | tuple) for each in result):
        raise Complaint("return a list with one entry for each packet: the list of the answers that it completes")
    return result


def _when(function, packets, k):
    result = _answers(function, packets, _toy_read, _toy_step, _toy_answer, k)
    return "answers after each packet: " + ", ".join(str(len(each)) for each in result)


def _what(function, packets, k):
    result = _answers(function, packets, _toy_read, _toy_step, _toy_answer, k)
    return torch.stack([a for each in result for a in each])


def _offsets(function, packets, k):
    """The times within their bins that `read` gets, seconds."""
    seen = []

    def read(units, offsets):
        seen.append(torch.as_tensor(offsets).double())
        return torch.zeros(1)

    _answers(function, packets, read, lambda x, state: (x, state), lambda recent: recent[-1], k)
    return torch.cat(seen)


def _of_a_model(function, packets, k):
    """The answers through an untrained POSSM, mm/s."""
    torch.manual_seed(0)
    model = POSSM(POSSMConfig(n_units=4, dim=16, head_dim=8, n_freqs=4, hidden=24, context_bins=k)).eval()

    def read(units, offsets):
        return model.encode(SpikeBatch.from_events([0] * len(units), units, offsets, n_trials=1, duration_s=0.05))[:, 0]

    def answer(recent):
        t = torch.tensor([[0.05 * (len(recent) - 1) + 0.04]], dtype=torch.float64)
        return model.decode(torch.stack(list(recent), 1), t, torch.ones(1, dtype=torch.int64))[0, 0]

    with torch.no_grad():
        result = _answers(function, packets, read, model.backbone.step, answer, k)
    return torch.stack([a for each in result for a in each])


def _packets(ticks, ends, k=3):
    """Spikes at these samples, of units 1, 2, 3, 4, 1 and so on, in packets that end before `ends`."""

    def make():
        time, unit = torch.tensor(ticks), torch.arange(len(ticks)) % 4 + 1
        inside = [(time >= start) & (time < end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        return [(unit[i], time[i], end) for i, end in zip(inside, ends, strict=True)], k

    return make


_BUSY = [30, 400, 1100, 1490, 1700, 2300, 3100, 3300, 4100, 4800, 5900, 6400, 7300]
_SITUATIONS = [
    ("packets of a bin each", _packets(_BUSY, [1500, 3000, 4500, 6000])),
    ("packets of 20 ms, so that a bin comes in pieces", _packets(_BUSY, list(range(600, 7801, 600)))),
    ("a packet of 150 ms", _packets(_BUSY, [1500, 6000, 6100, 7500])),
    ("a bin in which no unit fires", _packets([30, 700, 3200, 4000], list(range(600, 6001, 600)))),
    ("spikes right on the edge of a bin", _packets([0, 1500, 2000, 4500, 10_500], list(range(600, 12_001, 600)))),
    ("k = 1", _packets(_BUSY, [1500, 3000, 4500, 6000, 7500], k=1)),
]

decode_packets = Check(
    "decode_packets",
    reference=_decode_packets,
    cases=[
        *(Case(name, make, observe) for name, make in _SITUATIONS for observe in (_when, _what)),
        Case(
            "the times that `read` gets, ten minutes after the start",
            _packets([30, 18_000_369, 18_001_101], [1500, 18_001_500]),
            _offsets,
            1e-7,
        ),
        Case("an untrained POSSM", _packets(_BUSY, list(range(600, 7801, 600))), _of_a_model),
    ],
    traps={
        "every packet is taken for a bin. Bins are 1,500 samples long, whatever the packets are.": _each_packet_a_bin,
        "a packet can complete several bins, and this decodes one of them at most. Go on while `now` is not before the "
        "end of the next bin.": partial(_decode_packets, several=False),
        "a silent bin is left out. The state takes a step there too: 50 ms have passed.": (
            partial(_decode_packets, silence=False)
        ),
        "it waits for a spike of a later bin to know that this one is over. In a silence none comes: `now` tells "
        "you.": partial(_decode_packets, over=lambda now, end, ticks: bool((ticks >= end).any())),
        "it answers before the bin is over: spikes of it may come with the next packet.": (
            partial(_decode_packets, over=lambda now, end, ticks: now > end - _BIN)
        ),
        "a bin that ends just where the packet ends waits for the next packet. All spikes before `now` have come, so "
        "`now` equal to the end is enough.": partial(_decode_packets, over=lambda now, end, ticks: now > end),
        "spikes of the next bin that came in the same packet are lost. Keep what is not of this bin.": (
            partial(_decode_packets, keep_rest=False)
        ),
        "the spikes of earlier packets of the bin are lost. Keep them until the bin is over.": (
            partial(_decode_packets, keep_early=False)
        ),
        "a spike right on the edge belongs to the bin that begins there.": (
            partial(_decode_packets, own=lambda ticks, end: ticks <= end)
        ),
        "the times that `read` gets are in samples. Divide by 30,000.": (
            partial(_decode_packets, offsets=lambda ticks, b: (ticks - b * _BIN).float())
        ),
        "the times that `read` gets count from the start of the recording. Subtract the start of the bin.": (
            partial(_decode_packets, offsets=lambda ticks, b: ticks / 30_000)
        ),
        "right at the start, off after minutes: samples divided by 30,000 are float32, and large. Subtract the start "
        "of the bin while they are whole numbers.": (
            partial(_decode_packets, offsets=lambda ticks, b: ticks / 30_000 - b * 0.05)
        ),
        "`answer` gets all states there have ever been. Keep the last k.": (
            partial(_decode_packets, kept=lambda recent, k: recent)
        ),
        "the last states come newest first. `answer` needs the oldest first.": (
            partial(_decode_packets, kept=lambda recent, k: recent[-k:][::-1])
        ),
    },
)
