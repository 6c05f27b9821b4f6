"""Ways to choose the words of an answer, and how right the answers are."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from possm_course.chapters.ch07.seq2seq import BEGIN, END, PAD
from possm_course.chapters.ch07.task import N_WORDS, X_TEST, Y_TEST, to_words


@torch.no_grad()
def search(
    model: nn.Module, x: Tensor, width: int = 1, power: float = 0.0, max_len: int = 12
) -> tuple[Tensor, Tensor]:
    """Beam search by (7.10) for many sources at once; for one, it is `beam_search`.

    Args:
        model: As `Seq2Seq`, with `start` and `step`.
        x: Sources, shape (B, N).
        width: k, hypotheses that are kept; 1 is greedy search.
        power: The length power alpha.
        max_len: Words of an answer at most.

    Returns:
        The best answer of each source, padded, shape (B, max_len), and its log-probability in nats,
        shape (B,).
    """
    B = len(x)
    # a finished text goes on with padding, at no cost, and with nothing else
    ended = torch.full((N_WORDS,), -torch.inf)
    ended[PAD] = 0.0
    state = tuple(part.repeat_interleave(width, 0) for part in model.start(x))
    texts = torch.full((B, width, 1), BEGIN)
    log_p = torch.full((B, width), -torch.inf)
    log_p[:, 0] = 0.0  # all k places begin with one text
    first_place = width * torch.arange(B)[:, None]  # of each source, in a state (B k, ...)
    for _ in range(max_len):
        logits, state = model.step(texts[:, :, -1].flatten(), state)
        done = (texts[:, :, 1:] == END).any(-1, keepdim=True)  # (B, k, 1)
        next_word = logits.log_softmax(-1).unflatten(0, (B, width))  # (B, k, V)
        grown = log_p[..., None] + torch.where(done, ended, next_word)
        n_words = (texts[:, :, 1:] != PAD).sum(-1, keepdim=True) + ~done  # (B, k, 1)
        best = (grown / n_words**power).flatten(1).topk(width).indices  # (B, k) of k V candidates
        log_p = grown.flatten(1).gather(1, best)
        parent = best // N_WORDS
        word = best % N_WORDS
        parents_text = texts.gather(1, parent[..., None].expand_as(texts))
        texts = torch.cat([parents_text, word[..., None]], -1)
        rows = (first_place + parent).flatten()  # (B k,)
        state = tuple(part[rows] for part in state)
    return texts[:, 0, 1:], log_p[:, 0]


@torch.no_grad()
def sample(
    model: nn.Module, x: Tensor, temperature: float = 1.0, max_len: int = 12
) -> tuple[Tensor, Tensor]:
    """Answers whose words are drawn, each from softmax(logits / temperature).

    Args:
        model: As `Seq2Seq`, with `start` and `step`.
        x: Sources, shape (B, N).
        temperature: Below 1, likely words are drawn more often than the model says.
        max_len: Words of an answer at most.

    Returns:
        The answers, padded, shape (B, max_len), and their log-probabilities under the model, in
        nats, shape (B,).
    """
    state = model.start(x)
    token = torch.full_like(x[:, 0], BEGIN)
    done = torch.zeros(len(x)).bool()
    log_p = torch.zeros(len(x))
    texts = []
    for _ in range(max_len):
        logits, state = model.step(token, state)
        drawn = torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]  # (B,)
        token = drawn.masked_fill(done, PAD)
        log_p_token = logits.log_softmax(-1).gather(1, token[:, None])[:, 0]
        log_p += log_p_token.masked_fill(done, 0.0)
        texts.append(token)
        done = done | (token == END)
    return torch.stack(texts, 1), log_p


def word_errors(said: Sequence, right: Sequence) -> int:
    """The fewest words to change, put in or leave out until one text is another.

    Args:
        said: The words of an answer.
        right: The words of the right answer.

    Returns:
        The number of words.

    Source: Levenshtein 1966.
    """
    row = list(range(len(right) + 1))  # of an empty text
    for i, word in enumerate(said):
        above = row
        row = [i + 1]
        for j, wanted in enumerate(right):
            changed = above[j] + (word != wanted)
            left_out = above[j + 1] + 1
            put_in = row[j] + 1
            row.append(min(changed, left_out, put_in))
    return row[-1]


def judged(texts: Tensor, log_p: Tensor) -> dict[str, float]:
    """How good the answers to all held-out numbers are.

    Args:
        texts: The answers, shape (500, T).
        log_p: Their log-probabilities in nats, shape (500,).

    Returns:
        By name, the mean log p, words too many an answer, numbers right in % and the word error
        rate in %.
    """
    answers = [to_words(row) for row in texts.tolist()]
    wanted = [to_words(row) for row in Y_TEST.tolist()]
    pairs = list(zip(answers, wanted, strict=True))
    n_words = sum(len(right) for right in wanted)
    too_many = sum(len(said) - len(right) for said, right in pairs)
    n_right = sum(said == right for said, right in pairs)
    n_errors = sum(word_errors(said, right) for said, right in pairs)
    return {
        "mean log p": log_p.mean().item(),
        "words too many": too_many / len(pairs),
        "numbers right (%)": 100 * n_right / len(pairs),
        "word error rate (%)": 100 * n_errors / n_words,
    }


@torch.no_grad()
def with_and_without_teacher(model: nn.Module) -> dict[str, dict]:
    """What is right of the held-out answers with the teacher and in a free run.

    Args:
        model: As `Seq2Seq`, with `forward` and `generate`.

    Returns:
        For "with the teacher" and "free" what is right in %: the words at each "places" that at
        least 100 answers have, all "words", and whole "numbers".
    """
    is_real = Y_TEST != PAD  # (500, T)
    forced = model(X_TEST, Y_TEST).argmax(-1) == Y_TEST
    free = model.generate(X_TEST, Y_TEST.shape[1]) == Y_TEST
    assert ((forced | ~is_real).all(1) == free.all(1)).all()
    return {"with the teacher": _shares(forced, is_real), "free": _shares(free, is_real)}


def _shares(right: Tensor, is_real: Tensor) -> dict:
    """What is right in % of words (500, T): by their place, all words, and whole numbers."""
    n_words = is_real.sum(0)  # (T,)
    by_place = (right & is_real).sum(0) / n_words
    return {
        "places": _percent(by_place[n_words >= 100]),
        "words": _percent(right[is_real].float().mean()),
        "numbers": _percent((right | ~is_real).all(1).float().mean()),
    }


def _percent(share: Tensor) -> float | list[float]:
    """Shares in %, rounded to one decimal."""
    return (100 * share.double()).round(decimals=1).tolist()


def four_ways(model: nn.Module) -> dict[str, dict]:
    """How good the answers are that four ways of choosing words find.

    Args:
        model: As `Seq2Seq`, with `start` and `step`.

    Returns:
        What `judged` gives, by the name of the way.
    """
    torch.manual_seed(0)
    ways = {
        "greedy": search(model, X_TEST),
        "beam, k = 5": search(model, X_TEST, width=5),
        "beam, k = 5, α = 1": search(model, X_TEST, width=5, power=1.0),
        "sampled, τ = 0.5": sample(model, X_TEST, temperature=0.5),
    }
    return {name: judged(*found) for name, found in ways.items()}


def collapse(path: Iterable[str]) -> str:
    """The text of a path of CTC: repeats become one, then blanks go.

    "JJ-A" is "JA", "J-JA" is "JJA".

    Args:
        path: The sign of each time step, "-" for the blank.

    Returns:
        The text.
    """
    text = ""
    previous = ""
    for sign in path:
        if sign != previous and sign != "-":
            text += sign
        previous = sign
    return text
