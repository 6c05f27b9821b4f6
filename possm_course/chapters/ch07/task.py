"""German numerals: the task of chapter 07, how networks learn it, a transformer, searches, pictures."""

import random
from collections.abc import Callable, Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor, nn
from torch.optim import AdamW

from possm_course.chapters.ch07.seq2seq import (
    BEGIN,
    END,
    PAD,
    AttentionSeq2Seq,
    BahdanauSeq2Seq,
    Seq2Seq,
    masked_cross_entropy,
    shift_right,
)
from possm_course.style import BLUE, GRAY, INK, ORANGE
from possm_lite.nn.attention import length_mask
from possm_lite.nn.heads import MultiHeadAttention, TransformerBlock

NUMERALS = """null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
    siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"""
ONES, TENS = NUMERALS.split()[:20], NUMERALS.split()[20:]
WORDS = ["<pad>", "<begin>", "<end>", *ONES, "eins", *TENS, "und", "hundert", "tausend"]
TOKEN = {word: token for token, word in enumerate(WORDS)}
N_DIGITS, N_WORDS = 13, len(WORDS)  # tokens of a source: three that are no digits, ten digits
SEEDS = (0, 1, 2)


def below_thousand(n: int) -> list[str]:
    hundreds, n = divmod(n, 100)
    words = [ONES[hundreds], "hundert"] if hundreds else []
    if 0 < n < 20:
        return [*words, ONES[n]]
    tens, ones = divmod(n, 10)
    words += [ONES[ones], "und"] if ones else []  # two and forty
    return words + ([TENS[tens - 2]] if tens else [])


def german(n: int) -> list[str]:
    """The words of a number from 0 to 999,999."""
    thousands, rest = divmod(n, 1000)
    words = ([*below_thousand(thousands), "tausend"] if thousands else []) + below_thousand(rest)
    return [*words[:-1], "eins"] if words[-1:] == ["ein"] else words or ["null"]


BELOW = {tuple(below_thousand(n)) for n in range(1000)}  # all that can be said of three digits


def is_german(words: list[str]) -> bool:
    """Whether some number is read like this."""
    words = [*words[:-1], "ein"] if words[-1:] == ["eins"] else words
    i = words.index("tausend") if "tausend" in words else 0
    return bool(words) and tuple(words[:i]) in BELOW and tuple(words[i + 1 :] if i else words) in BELOW


def to_tokens(numbers: Iterable[int]) -> tuple[Tensor, Tensor]:
    """Digits (B, N) and words (B, T), padded at the end."""
    source = [torch.tensor([3 + int(digit) for digit in str(n)]) for n in numbers]
    target = [torch.tensor([TOKEN[word] for word in german(n)] + [END]) for n in numbers]
    return tuple(nn.utils.rnn.pad_sequence(rows, batch_first=True) for rows in (source, target))


def to_words(tokens: Iterable[int]) -> list[str]:
    return [WORDS[token] for token in tokens if token > END]


_random = random.Random(7)
HELD_OUT = _random.sample(range(1000, 1_000_000), 500)
_draws = [_random.randrange(10**n_digits) for n_digits in (_random.randint(1, 6) for _ in range(20_000))]
X_TRAIN, Y_TRAIN = to_tokens(sorted(set(_draws) - set(HELD_OUT)) + [n for n in _draws if n < 1000])
X_TEST, Y_TEST = to_tokens(HELD_OUT)


def train(
    model: nn.Module,
    loss_of: Callable,
    steps: int,
    rate: float = 0.01,
    keep_at: int | None = None,
    stop: int | None = None,
):
    """Trains `model` in place by Adam, the rate up and down again, or only for the first `stop` of the `steps`; gives
    its weights after `keep_at` steps."""
    kept, optimizer = None, AdamW(model.parameters(), rate, weight_decay=0.0, fused=True)
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
    rows = torch.randint(len(X_TRAIN), (96,))
    return masked_cross_entropy(model(X_TRAIN[rows], Y_TRAIN[rows]), Y_TRAIN[rows])


def all_right(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Which numbers come out without a single wrong word, in a free run: (B,)."""
    return (model.generate(x, y.shape[1]) == y).all(1)


# the transformer


class WritingBlock(TransformerBlock):
    """A block that looks at what was read, between its two parts: u = z + att(LN(z), H)."""

    def __init__(self, dim: int, n_heads: int):
        super().__init__(dim, n_heads)
        self.look_norm, self.look = nn.LayerNorm(dim), MultiHeadAttention(dim, n_heads, bias=True)

    def forward(self, y: Tensor, H: Tensor, causal: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        z = y + self.attention(self.attention_norm(y), mask=causal)[0]  # words look at earlier words
        looked, weights = self.look(self.look_norm(z), H, mask[:, None])  # words look at digits
        u = z + looked
        return u + self.mlp(self.mlp_norm(u)), weights  # (B, T, D), (B, H, T, N)


class Transformer(nn.Module):
    """Blocks that read, blocks that write (7.10). Vaswani et al. 2017, with the norm before each part."""

    def __init__(self, n_source: int, n_target: int, dim: int = 56, n_heads: int = 4, n_blocks: int = 1):
        super().__init__()
        self.read, self.write = nn.Embedding(n_source, dim), nn.Embedding(n_target, dim)
        self.read_at, self.write_at = nn.Embedding(24, dim), nn.Embedding(24, dim)  # learned positions
        self.readers = nn.ModuleList(TransformerBlock(dim, n_heads) for _ in range(n_blocks))
        self.writers = nn.ModuleList(WritingBlock(dim, n_heads) for _ in range(n_blocks))
        self.read_norm, self.write_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.readout = nn.Linear(dim, n_target)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        mask = source != PAD  # (B, N)
        x = self.read(source) + self.read_at.weight[: source.shape[1]]  # (B, N, D)
        for block in self.readers:
            x = block(x, mask[:, None])
        return self.read_norm(x), mask

    def decode(self, previous: Tensor, H: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The words before each word (B, T) to logits (B, T, V), and how the last block looks (B, T, N), a mean."""
        T = previous.shape[1]
        causal = torch.ones(T, T).tril().bool()
        y = self.write(previous) + self.write_at.weight[:T]  # (B, T, D)
        for block in self.writers:
            y, weights = block(y, H, causal, mask)
        return self.readout(self.write_norm(y)), weights.mean(1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(shift_right(target), *self.encode(source))[0]

    @torch.no_grad()
    def align(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(shift_right(target), *self.encode(source))[1]

    @torch.no_grad()
    def generate(self, source: Tensor, max_len: int) -> Tensor:
        H, mask = self.encode(source)
        said = torch.full_like(source[:, :1], BEGIN)  # (B, 1), and a word more each time
        for _ in range(max_len):
            word = self.decode(said, H, mask)[0][:, -1].argmax(-1)
            ended = (said == END).any(1) | (said[:, 1:] == PAD).any(1)
            said = torch.cat([said, word.masked_fill(ended, PAD)[:, None]], 1)
        return said[:, 1:]


KINDS = {"one vector": Seq2Seq, "looking back": BahdanauSeq2Seq, "transformer": Transformer}


def learn_german(kind: str, seed: int, stop: int = 200) -> tuple[nn.Module, dict]:
    """A network trained for the first `stop` of 200 steps, and its weights as they were after 80."""
    torch.manual_seed(seed)
    model = KINDS[kind](N_DIGITS, N_WORDS)
    return model, train(model, translation_loss, steps=200, keep_at=80, stop=stop)


def with_weights(kind: str, weights: dict) -> nn.Module:
    model = KINDS[kind](N_DIGITS, N_WORDS)
    model.load_state_dict(weights)
    return model


# a task of which the right alignment is known


class FriendsSeq2Seq(BahdanauSeq2Seq):
    """A decoder with another step: `friends_step(s, c, y, H, mask, score, cell)` gives s, c and the weights."""

    friends_step: Callable

    def unroll(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        s, H, keys, mask = self.start(source)
        score = lambda s, H: torch.tanh((s @ self.W_q.T)[:, None] + keys) @ self.w_v  # noqa: E731
        cell = lambda x, s: self.decoder.step(x, s[None])[0]  # noqa: E731
        c, states, alignment = torch.zeros_like(H[:, 0]), [], []
        for y in self.write(shift_right(target)).unbind(1):
            s, c, alpha = self.friends_step(s, c, y, H, mask, score, cell)
            states.append(s)
            alignment.append(alpha)
        return torch.stack(states, 1), torch.stack(alignment, 1)


def symbols(batch: int, shortest: int, longest: int, backwards: bool) -> tuple[Tensor, Tensor]:
    """Random rows of ten symbols, and the same rows again or from their end, with END."""
    n = torch.randint(shortest, longest + 1, (batch, 1))
    i = torch.arange(longest + 1)
    rows = torch.randint(3, 13, (batch, longest + 1)).where(i < n, PAD)
    target = rows.gather(1, (n - 1 - i).where(i < n, i)) if backwards else rows
    return rows[:, :-1], target.where(i != n, END)


def mean_alignment(
    kind: type[AttentionSeq2Seq], backwards: bool = False, friends_step: Callable | None = None
) -> Tensor:
    """Of 300 rows of 6 symbols, by a small network trained for 100 steps: (6, 6) without the end."""
    torch.manual_seed(0)
    model = (FriendsSeq2Seq if friends_step else kind)(13, 13, dim=16, hidden=32)
    model.friends_step = friends_step

    def loss_of(model):
        x, y = symbols(64, 3, 6, backwards)
        return masked_cross_entropy(model(x, y), y)

    train(model, loss_of, steps=100, rate=0.02)
    return model.align(*symbols(300, 6, 6, backwards))[:, :6].mean(0)


def places(weights: Tensor) -> Tensor:
    """Where each word looks on average, counted from 1: (6,)."""
    return weights @ torch.arange(1.0, 7.0)


# ways to choose an answer


@torch.no_grad()
def search(model: nn.Module, x: Tensor, width: int = 1, power: float = 0.0, max_len: int = 12) -> tuple[Tensor, Tensor]:
    """A beam for each row of x (B, N), by (7.7), as `beam_search`: the best text (B, max_len) and its log p (B,)."""
    B, ended = len(x), torch.full((N_WORDS,), -torch.inf)
    ended[PAD] = 0.0  # a finished text goes on with padding, at no cost, and with nothing else
    state = tuple(part.repeat_interleave(width, 0) for part in model.start(x))
    texts = torch.full((B, width, 1), BEGIN)
    log_p = torch.full((B, width), -torch.inf)
    log_p[:, 0] = 0.0  # all k places begin with one text
    for _ in range(max_len):
        logits, state = model.step(texts[:, :, -1].flatten(), state)
        done = (texts[:, :, 1:] == END).any(-1, keepdim=True)  # (B, k, 1)
        grown = log_p[..., None] + torch.where(done, ended, logits.log_softmax(-1).unflatten(0, (B, width)))
        n_words = (texts[:, :, 1:] != PAD).sum(-1, keepdim=True) + ~done  # (B, k, 1)
        place = (grown / n_words**power).flatten(1).topk(width).indices  # (B, k) of k V candidates
        log_p, row, word = grown.flatten(1).gather(1, place), place // N_WORDS, place % N_WORDS
        texts = torch.cat([texts.gather(1, row[..., None].expand_as(texts)), word[..., None]], -1)
        state = tuple(part[(row + width * torch.arange(B)[:, None]).flatten()] for part in state)
    return texts[:, 0, 1:], log_p[:, 0]


@torch.no_grad()
def sample(model: nn.Module, x: Tensor, temperature: float = 1.0, max_len: int = 12) -> tuple[Tensor, Tensor]:
    """Each word drawn from softmax(logits / temperature): texts (B, max_len), padded, and their log p (B,)."""
    state, token = model.start(x), torch.full_like(x[:, 0], BEGIN)
    done, log_p, texts = torch.zeros(len(x)).bool(), torch.zeros(len(x)), []
    for _ in range(max_len):
        logits, state = model.step(token, state)
        token = torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0].masked_fill(done, PAD)
        log_p += logits.log_softmax(-1).gather(1, token[:, None])[:, 0].masked_fill(done, 0.0)
        texts.append(token)
        done = done | (token == END)
    return torch.stack(texts, 1), log_p


def word_errors(said: Sequence, right: Sequence) -> int:
    """Fewest words to change, put in or leave out until `said` is `right` (Levenshtein 1966)."""
    row = list(range(len(right) + 1))  # of an empty text
    for i, word in enumerate(said):
        above, row = row, [i + 1]
        for j, wanted in enumerate(right):
            row.append(min(above[j] + (word != wanted), above[j + 1] + 1, row[j] + 1))
    return row[-1]


def judged(model: nn.Module, texts: Tensor, log_p: Tensor) -> dict[str, float]:
    """How good the answers to all held-out numbers are."""
    pairs = [(to_words(a), to_words(b)) for a, b in zip(texts.tolist(), Y_TEST.tolist(), strict=True)]
    n_words = sum(len(right) for _, right in pairs)
    return {
        "mean log p": log_p.mean().item(),
        "words too many": sum(len(said) - len(right) for said, right in pairs) / len(pairs),
        "numbers right (%)": 100 * sum(said == right for said, right in pairs) / len(pairs),
        "word error rate (%)": 100 * sum(word_errors(said, right) for said, right in pairs) / n_words,
    }


@torch.no_grad()
def with_and_without_teacher(model: nn.Module) -> dict[str, dict]:
    """What is right of the held-out answers with the teacher and free (%): words at each place that at least 100
    answers have, all words, whole numbers."""
    real = Y_TEST != PAD  # (500, T)
    forced = model(X_TEST, Y_TEST).argmax(-1) == Y_TEST
    free = model.generate(X_TEST, Y_TEST.shape[1]) == Y_TEST
    assert ((forced | ~real).all(1) == free.all(1)).all()
    percent = lambda right: (100 * right.double()).round(decimals=1).tolist()  # noqa: E731
    return {
        name: {
            "places": percent(((right & real).sum(0) / real.sum(0))[real.sum(0) >= 100]),
            "words": percent(right[real].float().mean()),
            "numbers": percent((right | ~real).all(1).float().mean()),
        }
        for name, right in (("with the teacher", forced), ("free", free))
    }


def four_ways(model: nn.Module) -> dict[str, dict]:
    """How good the answers are that four ways of choosing words find."""
    torch.manual_seed(0)
    ways = {
        "greedy": search(model, X_TEST),
        "beam, k = 5": search(model, X_TEST, width=5),
        "beam, k = 5, α = 1": search(model, X_TEST, width=5, power=1.0),
        "sampled, τ = 0.5": sample(model, X_TEST, temperature=0.5),
    }
    return {name: judged(model, *found) for name, found in ways.items()}


def collapse(path: Iterable[str]) -> str:
    """Repeats become one, then blanks go: "JJ-A" is "JA", "J-JA" is "JJA"."""
    path = "".join(path)
    return "".join(sign for i, sign in enumerate(path) if sign != path[i - 1 : i]).replace("-", "")


# sorting, for pointers


def sorting_loss(network: nn.Module) -> Tensor:
    lengths = torch.randint(3, 9, (64,))
    numbers, there = torch.rand(64, 8), length_mask(lengths, 8)
    order = numbers.masked_fill(~there, 2.0).argsort(1)  # (64, 8): the smallest first, padding last
    log_p = network(numbers[..., None], lengths, order)  # (64, 8, 8), teacher forcing
    return -log_p.gather(-1, order[..., None])[..., 0][there].mean()


def sorted_share(network: nn.Module, n: int, n_rows: int = 300) -> float:
    """Share of rows of n numbers that come out sorted from first to last, in a free run."""
    numbers = torch.rand(n_rows, n, generator=torch.Generator().manual_seed(n))
    places = network.point(numbers[..., None], torch.full((n_rows,), n))
    return float((places == numbers.argsort(1)).all(1).float().mean())


# pictures


def draw_lines(axes: Axes, n: int, weights: Tensor | None = None, title: str = "") -> None:
    """The digits of n above its words; a line as strong as the weight (T, N) with which a word looks at a digit."""
    digits, words = str(n), german(n)
    above = np.linspace(0, len(words) - 1, len(digits) + 2)[1:-1]
    for i, digit in enumerate(digits):
        axes.text(above[i], 1.07, digit, ha="center", va="bottom", fontsize=14, color=BLUE)
    for t, word in enumerate(words):
        axes.text(t, -0.18, word, ha="center", va="baseline", fontsize=9.5, color=INK)
        for i in range(len(digits)) if weights is not None else ():
            strongest = weights[t, i] == weights[t].max()
            color, order = (ORANGE, 2) if strongest else (GRAY, 1)
            axes.plot([t, above[i]], [0, 1], color=color, lw=5 * weights[t, i], zorder=order, solid_capstyle="round")
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.3, 1.35), title=title)
    axes.title.set_fontsize(11)
    axes.set_axis_off()


def draw_alignments(
    alignments: dict,
    sources: Sequence,
    targets: Sequence,
    names: tuple[str, str],
    height: float,
    what: str = "weight α",
):
    """Weights (T, N) each: the source runs to the right, the answer downwards."""
    figure, axes = plt.subplots(1, len(alignments), figsize=(6.4, height), sharey=True, layout="constrained")
    for ax, (title, weights) in zip(axes, alignments.items(), strict=True):
        image = ax.imshow(weights, vmin=0, vmax=1, aspect="auto")
        ax.set_xticks(range(len(sources)), sources)
        ax.set_yticks(range(len(targets)), targets)
        ax.tick_params(length=0)
        ax.set_title(title, fontsize=11)
    figure.supxlabel(names[0], fontsize=11)
    axes[0].set_ylabel(names[1])
    figure.colorbar(image, ax=axes, label=what, ticks=[0, 0.5, 1])
    plt.show()


def band(axes: Axes, x: Sequence, shares: np.ndarray, color: str, style: str, label: str) -> None:
    """Mean over seeds (seeds, ...) as a line, smallest to largest as a band."""
    axes.plot(x, shares.mean(0), style, color=color, lw=2, label=label)
    axes.fill_between(x, shares.min(0), shares.max(0), color=color, alpha=0.2, lw=0)


def draw_paths(p: Tensor, paths: dict[tuple, float], signs: str) -> None:
    """p (T, signs) as a grid beside all paths, each a column of signs over a bar of its probability."""
    ordered = sorted(paths, key=paths.get, reverse=True)
    figure, axes = plt.subplots(
        2, 2, figsize=(6.4, 3.0), width_ratios=(3, len(paths)), height_ratios=(5, 2), layout="constrained"
    )
    axes[0, 0].imshow(p, cmap="Greys", vmin=0, vmax=1.3, aspect="auto")
    for (t, s), value in np.ndenumerate(p.numpy()):
        axes[0, 0].text(s, t, f"{value:.1f}", ha="center", va="center", fontsize=9, color=INK)
    axes[0, 0].set_xticks(range(len(signs)), signs)
    axes[0, 0].set(ylabel="time step", yticks=range(len(p)), yticklabels=range(1, len(p) + 1), title="$p_t$")
    axes[0, 1].imshow(np.zeros((len(p), len(paths))), cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for i, path in enumerate(ordered):
        for t, s in enumerate(path):
            color = (GRAY, BLUE, ORANGE)[s]
            axes[0, 1].text(i, t, signs[s], ha="center", va="center", color=color, fontsize=12, weight="bold")
    axes[0, 1].set(xticks=[], yticks=[], title="all paths that say JA")
    axes[1, 1].bar(range(len(paths)), [paths[path] for path in ordered], color=INK, width=0.7)
    axes[1, 1].set(xlim=(-0.5, len(paths) - 0.5), xticks=[], ylabel="probability")
    axes[1, 0].set_axis_off()
    for ax in axes[0]:
        ax.tick_params(length=0)
        ax.title.set_fontsize(11)
    plt.show()
