"""German numerals: the task of chapter 07, and how networks learn it."""

import random
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from possm_course.chapters.ch07.seq2seq import END, BahdanauSeq2Seq, Seq2Seq, masked_cross_entropy
from possm_course.chapters.ch07.transformer import Transformer

NUMERALS = """null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn
    fünfzehn sechzehn siebzehn achtzehn neunzehn
    zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"""
ONES, TENS = NUMERALS.split()[:20], NUMERALS.split()[20:]
WORDS = ["<pad>", "<begin>", "<end>", *ONES, "eins", *TENS, "und", "hundert", "tausend"]
TOKEN = {word: token for token, word in enumerate(WORDS)}
N_DIGITS, N_WORDS = 13, len(WORDS)  # tokens of a source: three that are no digits, ten digits
SEEDS = (0, 1, 2)


def below_thousand(n: int) -> list[str]:
    """The words of three digits, without a last s and with nothing for zero.

    Args:
        n: From 0 to 999.

    Returns:
        The words.
    """
    hundreds, n = divmod(n, 100)
    words = [ONES[hundreds], "hundert"] if hundreds else []
    if 0 < n < 20:
        return [*words, ONES[n]]
    tens, ones = divmod(n, 10)
    if ones:
        words += [ONES[ones], "und"]  # two and forty
    if tens:
        words.append(TENS[tens - 2])
    return words


def german(n: int) -> list[str]:
    """The words of a number.

    Args:
        n: From 0 to 999,999.

    Returns:
        The words.
    """
    thousands, rest = divmod(n, 1000)
    words = [*below_thousand(thousands), "tausend"] if thousands else []
    words += below_thousand(rest)
    if not words:
        return ["null"]
    if words[-1] == "ein":
        words[-1] = "eins"
    return words


BELOW = {tuple(below_thousand(n)) for n in range(1000)}  # all that can be said of three digits


def is_german(words: list[str]) -> bool:
    """Whether some number is read like these `words`."""
    if not words:
        return False
    if words[-1] == "eins":
        words = [*words[:-1], "ein"]
    i = words.index("tausend") if "tausend" in words else 0
    if i == 0:
        return tuple(words) in BELOW
    return tuple(words[:i]) in BELOW and tuple(words[i + 1 :]) in BELOW


def to_tokens(numbers: Iterable[int]) -> tuple[Tensor, Tensor]:
    """Numbers as a source and a target.

    Args:
        numbers: B numbers from 0 to 999,999.

    Returns:
        The tokens of their digits, shape (B, N), and of their words with END, shape (B, T), padded
        at the end.
    """
    sources, targets = [], []
    for n in numbers:
        digits = [3 + int(digit) for digit in str(n)]
        words = [TOKEN[word] for word in german(n)]
        sources.append(torch.tensor(digits))
        targets.append(torch.tensor([*words, END]))
    pad = nn.utils.rnn.pad_sequence
    return pad(sources, batch_first=True), pad(targets, batch_first=True)


def to_words(tokens: Iterable[int]) -> list[str]:
    """The words of target `tokens`, without those of padding, begin and end."""
    return [WORDS[token] for token in tokens if token > END]


def _draw_numbers(n: int, generator: random.Random) -> list[int]:
    """n numbers of one to six digits, as many of each."""
    numbers = []
    for _ in range(n):
        n_digits = generator.randint(1, 6)
        numbers.append(generator.randrange(10**n_digits))
    return numbers


_random = random.Random(7)
HELD_OUT = _random.sample(range(1000, 1_000_000), 500)
_draws = _draw_numbers(20_000, _random)
_small = [n for n in _draws if n < 1000]  # as often as they were drawn
X_TRAIN, Y_TRAIN = to_tokens(sorted(set(_draws) - set(HELD_OUT)) + _small)
X_TEST, Y_TEST = to_tokens(HELD_OUT)


def train(
    model: nn.Module,
    loss_of: Callable[[nn.Module], Tensor],
    steps: int,
    rate: float = 0.01,
    keep_at: int | None = None,
    stop: int | None = None,
) -> dict[str, Tensor] | None:
    """Trains a model in place by Adam, with a rate that goes up and down again.

    Args:
        model: The network.
        loss_of: loss_of(model) gives the loss of a new batch, shape ().
        steps: Training steps of the whole schedule.
        rate: The largest step size.
        keep_at: After how many steps to keep a copy of the weights.
        stop: After how many steps to stop; None makes all.

    Returns:
        The weights after `keep_at` steps, by name, or None.
    """
    kept = None
    optimizer = AdamW(model.parameters(), rate, weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for i in range(stop or steps):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if i + 1 == keep_at:
            kept = {name: weight.clone() for name, weight in model.state_dict().items()}
    return kept


def translation_loss(model: nn.Module) -> Tensor:
    """The cross entropy of a `model` as `Seq2Seq` on 96 random numbers of the training set, ()."""
    rows = torch.randint(len(X_TRAIN), (96,))
    return masked_cross_entropy(model(X_TRAIN[rows], Y_TRAIN[rows]), Y_TRAIN[rows])


def all_right(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Which numbers come out without a single wrong word, in a free run.

    Args:
        model: As `Seq2Seq`, with `generate`.
        x: Sources, shape (B, N).
        y: Targets, shape (B, T).

    Returns:
        True where all is right, shape (B,).
    """
    return (model.generate(x, y.shape[1]) == y).all(1)


KINDS = {"one vector": Seq2Seq, "looking back": BahdanauSeq2Seq, "transformer": Transformer}


def learn_german(kind: str, seed: int, stop: int = 200) -> tuple[nn.Module, dict]:
    """A network that learns to say numbers.

    Args:
        kind: A name in `KINDS`.
        seed: Of the start and the batches.
        stop: After how many of the 200 steps to stop.

    Returns:
        The trained network, and its weights as they were after 80 steps.
    """
    torch.manual_seed(seed)
    model = KINDS[kind](N_DIGITS, N_WORDS)
    return model, train(model, translation_loss, steps=200, keep_at=80, stop=stop)


def with_weights(kind: str, weights: dict) -> nn.Module:
    """A network of a `kind` in `KINDS` with these `weights`, a state_dict."""
    model = KINDS[kind](N_DIGITS, N_WORDS)
    model.load_state_dict(weights)
    return model
