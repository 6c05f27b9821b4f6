"""Networks that deeper/07 tells of.

Those that it does not train itself, experiments/ch07_deeper.py has trained. Their training, and all
tasks but sorting, are those of chapter 07.
"""

import torch
from torch import Tensor

from possm_course.chapters.ch07 import task
from possm_course.chapters.ch07.pointer import PointerNetwork
from possm_course.chapters.ch07.seq2seq import PAD, BahdanauSeq2Seq, LuongSeq2Seq, Seq2Seq
from possm_lite.nn.attention import length_mask

KINDS = {  # arguments of `mean_alignment`
    "copy, Bahdanau": (BahdanauSeq2Seq,),
    "reversed, Bahdanau": (BahdanauSeq2Seq, True),
    "copy, Luong": (LuongSeq2Seq,),
}
ROWS_OF = (2, 4, 6, 8, 12, 16, 24)


def what_changes(model: Seq2Seq, n: int = 683_554) -> dict[str, Tensor]:
    """The alignment of a number's words, and which digits change them.

    Args:
        model: A trained network with `align`.
        n: The number, of N digits and T words.

    Returns:
        The "weight" of each digit, shape (T, N), and under "what changes the word" the share of
        other digits in a place with which the likeliest word is another one, shape (T, N).
    """
    x, y = task.to_tokens([n])
    changed = torch.zeros(y.shape[1], x.shape[1])  # (T, N)
    with torch.no_grad():
        word = model(x, y).argmax(-1)[0]  # (T,)
        for i in range(x.shape[1]):
            variants = _with_other_digits(x, i)  # (variants, N)
            words = model(variants, y.expand(len(variants), -1)).argmax(-1)
            changed[:, i] = (words != word).float().mean(0)
    return {"weight": model.align(x, y)[0], "what changes the word": changed}


def _with_other_digits(x: Tensor, i: int) -> Tensor:
    """x (1, N) with each other digit in place i: (variants, N), none with a 0 in front."""
    zero = 3  # its token
    lowest = zero + 1 if i == 0 else zero
    others = [digit for digit in range(lowest, zero + 10) if digit != x[0, i]]
    variants = x.repeat(len(others), 1)
    variants[:, i] = torch.tensor(others)
    return variants


def from_the_end(y: Tensor) -> Tensor:
    """The words of each row of y, shape (B, T), in the other order, padding last: (B, T)."""
    i = torch.arange(y.shape[1])
    n = (y != PAD).sum(1, keepdim=True)  # (B, 1)
    return y.gather(1, (n - 1 - i).where(i < n, i))


def after_a_mistake(model: Seq2Seq) -> list[float]:
    """How right a network is after its first mistake, in a free run on the held-out numbers.

    Args:
        model: A trained network.

    Returns:
        The share of right words in answers of the right length, in those of a wrong length, and in
        the latter when places are counted from the end.
    """
    y = task.Y_TEST
    is_real = y != PAD
    answers = model.generate(task.X_TEST, y.shape[1])
    same_length = (answers != PAD).sum(1) == is_real.sum(1)
    other_length = ~same_length

    since_mistake = (((answers != y) & is_real).cumsum(1) > 0) & is_real  # with the mistake
    later = since_mistake & (since_mistake.cumsum(1) > 1)  # without it
    right = (answers == y) & later
    same = right[same_length].sum() / later[same_length].sum()
    other = right[other_length].sum() / later[other_length].sum()

    at_end = torch.arange(later.shape[1]) < later.sum(1, keepdim=True)  # as many words
    from_end = from_the_end(answers) == from_the_end(y)
    moved = from_end[other_length][at_end[other_length]].float().mean()
    return [float(same), float(other), float(moved)]


@torch.no_grad()
def after_a_lie(model: Seq2Seq) -> dict[str, list[float]]:
    """How right a network is after a first word that the teacher has read to it.

    Args:
        model: A trained network.

    Returns:
        The share of right words at the places 2 to 8 of the held-out numbers, by the name of the
        first word: "the truth", "another digit", or "tausend".
    """
    y = task.Y_TEST
    first = y[:, 0]
    one, two = task.TOKEN["ein"], task.TOKEN["zwei"]
    lies = {
        "the truth": first,
        "another digit": torch.where(first == one, two, one),
        "tausend": torch.full((len(y),), task.TOKEN["tausend"]),
    }
    is_real = y != PAD
    shares = {}
    for name, told in lies.items():
        target = torch.cat([told[:, None], y[:, 1:]], 1)
        right = model(task.X_TEST, target).argmax(-1) == y
        share = (right & is_real).sum(0) / is_real.sum(0)  # (T,)
        shares[name] = share[1:8].tolist()
    return shares


def german(seed: int) -> tuple[list, dict, dict]:
    """What a network does after a mistake and after a lie, and which digits its words depend on.

    Args:
        seed: Of the network.

    Returns:
        `after_a_mistake` and `after_a_lie` after 80 of 200 training steps, and `what_changes` after
        all of them.
    """
    model, early = task.learn_german("looking back", seed)
    half_baked = task.with_weights("looking back", early)
    return after_a_mistake(half_baked), after_a_lie(half_baked), what_changes(model)


# sorting, for pointers


def sorting_loss(network: PointerNetwork) -> Tensor:
    """The cross entropy of a pointer `network` that sorts 64 random rows of 3 to 8 numbers, ()."""
    lengths = torch.randint(3, 9, (64,))
    numbers = torch.rand(64, 8)
    is_real = length_mask(lengths, 8)
    order = numbers.masked_fill(~is_real, 2.0).argsort(1)  # (64, 8): smallest first, padding last
    log_p = network(numbers[..., None], lengths, order)  # (64, 8, 8), teacher forcing
    return -log_p.gather(-1, order[..., None])[..., 0][is_real].mean()


def sorted_share(network: PointerNetwork, n: int, n_rows: int = 300) -> float:
    """How often a pointer network sorts a row from first to last, in a free run.

    Args:
        network: As `learn_to_sort` gives it.
        n: Numbers in a row.
        n_rows: Rows to try.

    Returns:
        The share of rows that are sorted.
    """
    numbers = torch.rand(n_rows, n, generator=torch.Generator().manual_seed(n))
    return float(_sorts(network, numbers).float().mean())


def _sorts(network: PointerNetwork, numbers: Tensor) -> Tensor:
    """Which rows of numbers (B, N) the network sorts: (B,)."""
    lengths = torch.full((len(numbers),), numbers.shape[1])
    pointed = network.point(numbers[..., None], lengths)
    return (pointed == numbers.argsort(1)).all(1)


def learn_to_sort(repeats: bool, seed: int) -> PointerNetwork:
    """A pointer network that was trained for 120 steps to sort rows of 3 to 8 numbers.

    Args:
        repeats: Whether it may point at a number again.
        seed: Of the start and the batches.

    Returns:
        The network.
    """
    torch.manual_seed(seed)
    network = PointerNetwork(1, hidden=32, repeats=repeats)
    task.train(network, sorting_loss, steps=120)
    return network


def sorting(repeats: bool, seed: int) -> tuple[list[float], list[float]]:
    """How often a trained pointer network sorts, by length and by the smallest gap.

    Args:
        repeats: Whether it may point at a number again.
        seed: Of the network.

    Returns:
        The share of sorted rows for each length in `ROWS_OF`; and of rows of six numbers, for a
        smallest gap below 0.01, from there to 0.05, and above.
    """
    network = learn_to_sort(repeats, seed)
    numbers = torch.rand(3000, 6, generator=torch.Generator().manual_seed(6))
    smallest_gap = numbers.sort(1).values.diff(dim=1).amin(1)  # (3000,)
    group = torch.bucketize(smallest_gap, torch.tensor([0.01, 0.05]))
    right = _sorts(network, numbers).float()
    by_length = [sorted_share(network, n) for n in ROWS_OF]
    by_gap = [right[group == k].mean().item() for k in range(3)]
    return by_length, by_gap
