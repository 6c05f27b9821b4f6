"""Networks that deeper/07 tells of; those that it does not train itself, experiments/ch07_deeper.py has trained.

Their tasks and their training are those of chapter 07.
"""

import torch

from possm_course.chapters.ch07 import task
from possm_course.chapters.ch07.pointer import PointerNetwork
from possm_course.chapters.ch07.seq2seq import PAD, BahdanauSeq2Seq, LuongSeq2Seq

KINDS = {"copy, (7.5)": (BahdanauSeq2Seq,), "reversed, (7.5)": (BahdanauSeq2Seq, True), "copy, (7.6)": (LuongSeq2Seq,)}
ROWS_OF = (2, 4, 6, 8, 12, 16, 24)


def what_changes(model, n: int = 683_554) -> dict:
    """The weights of a number's words, and how often another digit in a place changes the likeliest word, (T, N)."""
    x, y = task.to_tokens([n])
    with torch.no_grad():
        word = model(x, y).argmax(-1)[0]  # (T,)
        changed = torch.zeros(y.shape[1], x.shape[1])  # (T, N)
        for i in range(x.shape[1]):
            others = [digit for digit in range(3, 13) if digit != x[0, i] and (i or digit > 3)]  # no 0 in front
            variants = x.repeat(len(others), 1)
            variants[:, i] = torch.tensor(others)
            changed[:, i] = (model(variants, y.expand(len(others), -1)).argmax(-1) != word).float().mean(0)
    return {"weight": model.align(x, y)[0], "what changes the word": changed}


def from_the_end(y):
    """The words of each row in the other order, padding last: (B, T)."""
    i, n = torch.arange(y.shape[1]), (y != PAD).sum(1, keepdim=True)
    return y.gather(1, (n - 1 - i).where(i < n, i))


def after_a_mistake(model) -> list[float]:
    """Share of right words after it: in answers of the right length, of a wrong one, and of those from the end."""
    y = task.Y_TEST
    real, answers = y != PAD, model.generate(task.X_TEST, y.shape[1])
    same_length = (answers != PAD).sum(1) == real.sum(1)
    later = (((answers != y) & real).cumsum(1) > 0) & real  # from the first mistake on
    later = later & (later.cumsum(1) > 1)  # and after it
    right, other = (((answers == y) & later)[rows].sum() / later[rows].sum() for rows in (same_length, ~same_length))
    at_end = torch.arange(later.shape[1]) < later.sum(1, keepdim=True)  # as many words, counted from the end
    moved = (from_the_end(answers) == from_the_end(y))[~same_length][at_end[~same_length]].float().mean()
    return [float(right), float(other), float(moved)]


@torch.no_grad()
def after_a_lie(model) -> dict[str, list[float]]:
    """Share of right words at the places 2 to 8, after a first word that the teacher has read to the network."""
    y, one, two = task.Y_TEST, task.TOKEN["ein"], task.TOKEN["zwei"]
    lies = {"the truth": y[:, 0], "another digit": torch.where(y[:, 0] == one, two, one)}
    lies["tausend"] = torch.full((len(y),), task.TOKEN["tausend"])
    shares = {}
    for name, first in lies.items():
        right = model(task.X_TEST, torch.cat([first[:, None], y[:, 1:]], 1)).argmax(-1) == y
        shares[name] = ((right & (y != PAD)).sum(0) / (y != PAD).sum(0))[1:8].tolist()
    return shares


def german(seed: int) -> tuple[list, dict, dict]:
    """A network after 80 steps: after a mistake, and after a lie; and what changes a word when all 200 are done."""
    model, early = task.learn_german("looking back", seed)
    half_baked = task.with_weights("looking back", early)
    return after_a_mistake(half_baked), after_a_lie(half_baked), what_changes(model)


def learn_to_sort(repeats: bool, seed: int) -> PointerNetwork:
    torch.manual_seed(seed)
    network = PointerNetwork(1, hidden=32, repeats=repeats)
    task.train(network, task.sorting_loss, steps=120)
    return network


def sorting(repeats: bool, seed: int) -> tuple[list[float], list[float]]:
    """Share of rows sorted by their length; and of rows of six, by their smallest gap: below 0.01, to 0.05, above."""
    network = learn_to_sort(repeats, seed)
    numbers = torch.rand(3000, 6, generator=torch.Generator().manual_seed(6))
    group = torch.bucketize(numbers.sort(1).values.diff(dim=1).amin(1), torch.tensor([0.01, 0.05]))  # (3000,)
    right = (network.point(numbers[..., None], torch.full((3000,), 6)) == numbers.argsort(1)).all(1).float()
    return [task.sorted_share(network, n) for n in ROWS_OF], [right[group == k].mean().item() for k in range(3)]
