"""Connectionist temporal classification: the loss, ways to decode, and how wrong a text is."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from possm_course.chapters.ch07.decoding import word_errors
from possm_course.chapters.ch19.writer import BIN_S, N_UNITS, SIGNS, Writing
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import SpikeBatch


class LetterReader(nn.Module):
    """The input attention and the GRU of a POSSM, and a readout of signs from each hidden state.

    Args:
        hidden: h, size of the state.

    Attributes:
        possm: the decoder, of which `encode` and `backbone` are used.
        signs: the readout, h to 13.
    """

    def __init__(self, hidden: int = 96):
        super().__init__()
        sizes = {"dim": 32, "head_dim": 32, "n_freqs": 8, "hidden": hidden}
        self.possm = POSSM(POSSMConfig(n_units=N_UNITS, **sizes))
        self.signs = nn.Linear(hidden, len(SIGNS))

    def forward(self, batch: SpikeBatch) -> Tensor:
        """Log-probabilities of the signs in each bin, (B, T, 13).

        Args:
            batch: the spikes of B words.
        """
        hidden, _ = self.possm.backbone(self.possm.encode(batch))  # (B, T, h)
        return self.signs(hidden).log_softmax(-1)


def log_probabilities(model: LetterReader, writing: Writing) -> list[Tensor]:
    """Log-probabilities of the signs in each bin of each word, (T, 13) each.

    Args:
        model: trained.
        writing: the words.
    """
    with torch.no_grad():
        batch = writing.batch(range(len(writing.texts)))
        log_p = model(batch)
    return [row[:n] for row, n in zip(log_p, batch.n_bins.tolist(), strict=True)]


def log_likelihood(log_p: Tensor, y: Sequence[int]) -> Tensor:
    """log p(y) by the forward recursion (19.6), a scalar with gradients.

    Args:
        log_p: of the signs in each bin, (T, K + 1); the blank is sign 0.
        y: signs of the text, without blanks.
    """
    spelled = torch.tensor([0, *(sign for letter in y for sign in (letter, 0))])  # (S,)
    skips = torch.zeros(len(spelled), dtype=torch.bool)
    skips[2:] = (spelled[2:] != 0) & (spelled[2:] != spelled[:-2])
    never = -1e30  # with -inf, the gradient would be NaN
    nothing = log_p.new_full((2,), never)
    alpha = torch.where(torch.arange(len(spelled)) < 2, log_p[0, spelled], never)
    for row in log_p[1:]:
        padded = torch.cat([nothing, alpha])
        skipped = torch.where(skips, padded[:-2], never)
        alpha = torch.stack([alpha, padded[1:-1], skipped]).logsumexp(0) + row[spelled]
    return alpha[-2:].logsumexp(0)


def greedy(log_p: Tensor) -> str:
    """The likeliest sign of each bin, collapsed.

    Args:
        log_p: of the signs in each bin, (T, K + 1).
    """
    path = log_p.argmax(-1).tolist()
    return "".join(
        SIGNS[s] for s, before in zip(path, [0, *path], strict=False) if s and s != before
    )


def said_at(log_p: Tensor) -> list[float]:
    """When greedy decoding says each letter: the end of its first bin, seconds.

    Args:
        log_p: of the signs in each bin, (T, K + 1).
    """
    path = log_p.argmax(-1).tolist()
    begins = [
        t for t, (s, before) in enumerate(zip(path, [0, *path], strict=False)) if s and s != before
    ]
    return [BIN_S * (t + 1) for t in begins]


def beam_search(
    log_p: Tensor, k: int = 8, words: Iterable[str] | None = None, weight: dict | None = None
) -> tuple[str, float]:
    """The likeliest text of a beam of k, each with the sum over its paths.

    Of each text the beam keeps two probabilities: of paths that end in a blank, and of paths that
    end in its last letter.

    Args:
        log_p: of the signs in each bin, (T, K + 1).
        k: texts that are kept after each bin.
        words: a table; None: any text. Texts that begin no word of the table are dropped.
        weight: factor on the probability of each whole word, such as how common it is.

    Returns:
        The text and the log of its probability.
    """
    begins = None if words is None else {word[:i] for word in words for i in range(len(word) + 1)}
    beam = {"": (1.0, 0.0)}
    log_scale = 0.0
    for row in log_p.double().exp().tolist():
        grown: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for text, (blank, letter) in beam.items():
            grown[text][0] += (blank + letter) * row[0]
            if text:
                grown[text][1] += letter * row[SIGNS.index(text[-1])]
            for sign, p in enumerate(row[1:], start=1):
                longer = text + SIGNS[sign]
                if begins is None or longer in begins:
                    doubles = text and text[-1] == SIGNS[sign]
                    grown[longer][1] += (blank if doubles else blank + letter) * p
        kept = sorted(grown.items(), key=lambda item: -sum(item[1]))[:k]
        total = sum(sum(both) for _, both in kept)
        log_scale += np.log(total)
        beam = {text: (a / total, b / total) for text, (a, b) in kept}
    if words is not None:
        known = set(words)
        beam = {text: both for text, both in beam.items() if text in known} or beam
    scores = {text: sum(both) * (weight or {}).get(text, 1.0) for text, both in beam.items()}
    best = max(scores, key=scores.get)
    return best, float(np.log(scores[best]) + log_scale)


def letter_error_rate(said: Sequence[str], right: Sequence[str]) -> float:
    """Letters to change, put in or leave out in all texts, over the number of right letters.

    Args:
        said: texts that were decoded.
        right: what was written.
    """
    errors = sum(word_errors(list(a), list(b)) for a, b in zip(said, right, strict=True))
    return errors / sum(map(len, right))


def letter_errors(said: str, right: str) -> int:
    """Fewest letters to change, put in or leave out until `said` is `right`."""
    return word_errors(list(said), list(right))


def begun_by_bin(log_p: Tensor, words: Sequence[Sequence[int]]) -> Tensor:
    """log p, by the bins so far, that a beginning of each word was written, or all of it, (T, W).

    It is the sum over all states of (19.6).

    Args:
        log_p: of the signs in each bin, (T, K + 1); the blank is sign 0.
        words: W texts, lists of signs.
    """
    longest = max(map(len, words))
    spelled = torch.zeros(len(words), 2 * longest + 1, dtype=torch.int64)
    for row, word in zip(spelled, words, strict=True):
        row[1 : 2 * len(word) : 2] = torch.tensor(word)
    lengths = torch.tensor([2 * len(word) + 1 for word in words])
    is_state = torch.arange(spelled.shape[1]) < lengths[:, None]
    skips = torch.zeros_like(is_state)
    skips[:, 2:] = (spelled[:, 2:] != 0) & (spelled[:, 2:] != spelled[:, :-2])
    alpha = log_p[0][spelled].masked_fill(torch.arange(spelled.shape[1]) > 1, -torch.inf)
    rows = [alpha.logsumexp(-1)]
    for row in log_p[1:]:
        before = nn.functional.pad(alpha, (2, 0), value=-torch.inf)
        skipped = before[:, :-2].masked_fill(~skips, -torch.inf)
        alpha = torch.stack([alpha, before[:, 1:-1], skipped]).logsumexp(0) + row[spelled]
        alpha = alpha.masked_fill(~is_state, -torch.inf)
        rows.append(alpha.logsumexp(-1))
    return torch.stack(rows)
