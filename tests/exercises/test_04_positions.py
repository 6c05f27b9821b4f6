"""The checks of chapter 04 tell right answers, written in other ways, from planted mistakes, and name the mistake."""

import math

import pytest
import torch

from .helpers import assert_wrong, load

check = load("04_positions")

# 4.1: right answers in a loop and in float64


def encode_entry_by_entry(n, d, base=10_000.0, exponent=lambda j, d: 2 * j / d, first=math.sin, second=math.cos):
    rows = []
    for i in range(n):
        rows.append([])
        for j in range(d // 2):
            angle = i / base ** exponent(j, d)
            rows[-1] += [first(angle), second(angle)]
    return torch.tensor(rows)


def encode_with_exp(n, d, base=10_000.0):
    p = torch.zeros(n, d, dtype=torch.float64)
    paces = torch.exp(torch.arange(0, d, 2, dtype=torch.float64) * (-math.log(base) / d))
    p[:, 0::2] = torch.sin(torch.arange(n, dtype=torch.float64).outer(paces))
    p[:, 1::2] = torch.cos(torch.arange(n, dtype=torch.float64).outer(paces))
    return p


@pytest.mark.parametrize("answer", [encode_entry_by_entry, encode_with_exp])
def test_right_encodings(answer):
    assert check.fixed_encoding.examine(answer).message == "✓ fixed_encoding"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"exponent": lambda j, d: j / d}, "j/d and should be 2j/d"),
        ({"exponent": lambda j, d: 2 * (2 * j) / d}, "doubled once more"),
        ({"exponent": lambda j, d: -2 * j / d}, "divided by base^(2j/d), not multiplied"),
        ({"exponent": lambda j, d: j / max(d / 2 - 1, 1)}, "number of pairs minus one"),
        ({"first": math.cos, "second": math.sin}, "sine and cosine have changed places"),
    ],
)
def test_bugs_of_the_encoding(changed, words):
    assert_wrong(check.fixed_encoding, lambda n, d, b=10_000.0: encode_entry_by_entry(n, d, b, **changed), words)


def test_an_exponent_for_each_column():
    def answer(n, d, base=10_000.0):
        angle = torch.arange(n)[:, None] / base ** (torch.arange(d) / d)
        angle[:, 0::2], angle[:, 1::2] = angle[:, 0::2].sin(), angle[:, 1::2].cos()
        return angle

    assert_wrong(check.fixed_encoding, answer, "no hand of a clock")


def test_all_sines_first():
    def answer(n, d, base=10_000.0):
        angle = torch.arange(n)[:, None] / base ** (2 * torch.arange(d // 2) / d)
        return torch.cat([angle.sin(), angle.cos()], 1)

    assert_wrong(check.fixed_encoding, answer, "side by side")


def test_a_forgotten_base_is_a_case_of_its_own():
    assert_wrong(check.fixed_encoding, lambda n, d, base=0: encode_with_exp(n, d), "on a base that is not 10,000")


# 4.2: right answers by complex numbers, by a matrix, and with repeated angles


def angles(x, positions, base, exponent=2):
    d = x.shape[-1]
    return positions[:, None] * base ** (-exponent * torch.arange(d // 2) / d)  # (M, d/2)


def rope_complex(x, positions, base=10_000.0):
    z = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.exp(1j * angles(x, positions, base).double())).flatten(-2)


def rope_pair_by_pair(x, positions, base=10_000.0):
    out, d = x.clone(), x.shape[-1]
    for row, m in enumerate(positions.tolist()):
        for j in range(d // 2):
            a = m * base ** (-2 * j / d)
            matrix = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
            out[..., row, 2 * j : 2 * j + 2] = x[..., row, 2 * j : 2 * j + 2] @ matrix.T
    return out


def rope_repeated(x, positions, base=10_000.0, sign=1, exponent=2, halves=False, mixed=False):
    angle = sign * angles(x, positions, base, exponent)
    angle = torch.cat([angle, angle], -1) if halves or mixed else angle.repeat_interleave(2, -1)
    if halves:
        first, second = x.chunk(2, -1)
        partner = torch.cat([-second, first], -1)
    else:
        partner = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * angle.cos() + partner * angle.sin()


@pytest.mark.parametrize("answer", [rope_complex, rope_pair_by_pair, rope_repeated])
def test_right_ropes(answer):
    assert check.rope.examine(answer).message == "✓ rope"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sign": -1}, "wrong way round"),
        ({"halves": True}, "the other valid pairing"),
        ({"mixed": True}, "two pairings are mixed"),
        ({"exponent": 1}, "j/d and should be 2j/d"),
    ],
)
def test_bugs_of_rope(changed, words):
    assert_wrong(check.rope, lambda x, m, base=10_000.0: rope_repeated(x, m, base, **changed), words)


def test_a_coordinate_overwritten_too_early():
    def answer(x, positions, base=10_000.0):
        x, angle = x.clone(), angles(x, positions, base)
        x[..., 0::2] = angle.cos() * x[..., 0::2] - angle.sin() * x[..., 1::2]
        x[..., 1::2] = angle.sin() * x[..., 0::2] + angle.cos() * x[..., 1::2]
        return x

    assert_wrong(check.rope, answer, "after its turn")


def test_a_missing_minus_sign():
    def answer(x, positions, base=10_000.0):
        angle, even, odd = angles(x, positions, base), x[..., 0::2], x[..., 1::2]
        first, second = angle.cos() * even + angle.sin() * odd, angle.sin() * even + angle.cos() * odd
        return torch.stack([first, second], -1).flatten(-2)

    assert_wrong(check.rope, answer, "one minus sign is missing")


def test_positions_that_are_not_looked_at():
    assert_wrong(
        check.rope,
        lambda x, positions, base=10_000.0: rope_repeated(x, 1 + torch.arange(len(positions)), base),
        "three vectors of two pairs",
    )
    assert_wrong(
        check.rope,
        lambda x, positions, base=10_000.0: rope_repeated(x, torch.arange(len(positions)), base),
        "whatever positions say",
    )


def test_pairs_that_are_not_put_back_side_by_side():
    def answer(x, positions, base=10_000.0):
        angle, even, odd = angles(x, positions, base), x[..., 0::2], x[..., 1::2]
        return torch.cat([angle.cos() * even - angle.sin() * odd, angle.sin() * even + angle.cos() * odd], -1)

    assert_wrong(check.rope, answer, "side by side again")


def test_one_pace_for_all_pairs():
    assert_wrong(check.rope, lambda x, m, base=10_000.0: rope_repeated(x, m, 1.0), "at the same pace")


def test_a_position_that_is_added():
    def answer(x, positions, base=10_000.0):
        angle = angles(x, positions, base)
        return x + torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)

    assert_wrong(check.rope, answer, "nothing is added")


def test_an_argument_changed_in_place():
    assert_wrong(check.rope, lambda x, positions, base=10_000.0: x.copy_(rope_repeated(x, positions, base)), "in place")


# 4.3


def test_predictions():
    assert check.slow_hands.examine(7).status == "right"
    theta = 10_000 ** (-2 * torch.arange(16) / 32)
    assert int((200 * theta < torch.pi / 2).sum()) == 7
    for wrong, words in ((9, "have left"), (8, "half a turn"), (0, "exponent j/d"), (10, "a million"), (16, "sixteen")):
        assert_wrong(check.slow_hands, wrong, words)
    assert int((200 * theta < 1).sum()) == 6 and int((200 * theta < 90).sum()) == 14
    assert int((200 * theta**2 < torch.pi / 2).sum()) == 11  # d = 16 in the exponent
    for wrong, words in ((6, "one radian"), (14, "90 degrees"), (11, "d = 16")):
        assert_wrong(check.slow_hands, wrong, words)
    assert check.slow_hands.examine("7").status == "wrong"


# 4.4: subtract first, or keep everything in float64


def score(q, k, angle_q, angle_k):
    """Turn by real matrices: q (d,), k (n, d), angles (d/2,) and (n, d/2)."""

    def turned(x, angle):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    return (turned(k, angle_k) * turned(q, angle_q)).sum(-1)


def subtract_first(q, k, t_q, t_k, omega):
    return score(q, k, torch.zeros(4), ((t_k - t_q)[:, None] * omega).float())


def float64_throughout(q, k, t_q, t_k, omega):
    return score(q.double(), k.double(), t_q * omega, t_k[:, None] * omega)


def turn_the_query_back(q, k, t_q, t_k, omega):
    return score(q[None], k, (t_q - t_k)[:, None] * omega, torch.zeros(len(k), 4))


@pytest.mark.parametrize("answer", [subtract_first, float64_throughout, turn_the_query_back])
def test_right_scores(answer):
    assert check.safe_score.examine(answer).message == "✓ safe_score"


def test_times_that_are_not_spread_over_the_paces():
    answer = check.safe_score.examine(lambda q, k, t_q, t_k, w: score(q, k, torch.zeros(4), (t_k - t_q) * w))
    assert answer.status == "wrong" and "RuntimeError" in answer.line


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            lambda q, k, t_q, t_k, w: score(q, k, t_q.float() * w.float(), t_k.float()[:, None] * w.float()),
            "long times",
        ),
        (lambda q, k, t_q, t_k, w: score(q, k, (t_q * w).float(), (t_k[:, None] * w).float()), "rounded to float32"),
        (lambda q, k, t_q, t_k, w: subtract_first(q, k, t_q.float(), t_k.float(), w.float()), "too late"),
        (lambda q, k, t_q, t_k, w: subtract_first(q, k, t_q, t_k, w).flip(0), "on a query at t = 0 s"),
        (lambda q, k, t_q, t_k, w: score(q, k, torch.zeros(4), ((t_q - t_k)[:, None] * w).float()), "the wrong way"),
        (lambda q, k, t_q, t_k, w: score(q, k, ((t_k - t_q)[:, None] * w), ((t_k - t_q)[:, None] * w)), "cancels"),
    ],
)
def test_bugs_of_scores(answer, words):
    assert_wrong(check.safe_score, answer, words)
