"""Machines of one size, trained longer than a chapter may take: writes ch07_long_training.json beside itself.

python experiments/ch07_long_training.py

With it two questions about the training: is another rate better, and does a pointer that may choose again only need
more steps? And what the networks do, and where they look, that the chapter does not train itself. The tasks and the
training are those of chapter 07. About ten minutes.
"""

import json
from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch07 import alignment, decoding, deeper, task
from possm_course.chapters.ch07.pointer import PointerNetwork
from possm_course.chapters.ch07.seq2seq import BahdanauSeq2Seq, LuongSeq2Seq, Seq2Seq
from possm_course.chapters.ch07.transformer import Transformer

FILE = Path(__file__).with_suffix(".json")


class BothForwards(BahdanauSeq2Seq):
    """Both encoders read from the first digit on: as large as Bahdanau's, but no h_i knows what comes after digit i."""

    def encode(self, source):
        H, mask, last = Seq2Seq.encode(self, source)
        return torch.cat([H, self.backward_encoder(self.read(source))[0]], -1), mask, last


MODELS = {  # sizes that make the number of weights nearly the same, but for the first
    "one vector, 64": lambda: Seq2Seq(13, task.N_WORDS),
    "one vector, 108": lambda: Seq2Seq(13, task.N_WORDS, hidden=108),
    "Bahdanau": lambda: BahdanauSeq2Seq(13, task.N_WORDS),
    "Luong": lambda: LuongSeq2Seq(13, task.N_WORDS, hidden=69),
    "both forwards": lambda: BothForwards(13, task.N_WORDS),
    "transformer": lambda: Transformer(13, task.N_WORDS),
}
STEPS, SEEDS, N_TESTED = (200, 800, 2000), (0, 1, 2), 200
RATES, ROWS_OF = (0.003, 0.01, 0.03), (6, 8, 12)


def numbers_by_digits() -> list:
    """Numbers of 1 to 6 digits. Those of 4 to 6 digits are not in the training set; nearly all shorter ones are."""
    generator = torch.Generator().manual_seed(0)
    seen = {tuple(row) for row in task.X_TRAIN.tolist()}

    def is_seen(n: int) -> bool:
        x, _ = task.to_tokens([n, 111_111])  # as wide as a row of the training set
        return tuple(x[0].tolist()) in seen

    numbers = []
    for digits in range(1, 7):
        low, high = 10 ** (digits - 1), 10**digits
        drawn = torch.randint(low, high, (20 * N_TESTED,), generator=generator).tolist()
        if digits >= 4:
            drawn = [n for n in drawn if not is_seen(n)]
        numbers.append(task.to_tokens(drawn[:N_TESTED]))
    return numbers


def trained(name: str, steps: int, seed: int, **how):
    """One of the MODELS after its training; `how` goes to `task.train`."""
    torch.manual_seed(seed)
    model = MODELS[name]()
    task.train(model, task.translation_loss, steps=steps, **how)
    return model


def share(model, pair: tuple) -> float:
    """Share of numbers without a wrong word, in a free run."""
    return round(task.all_right(model, *pair).float().mean().item(), 3)


def measure(names=MODELS, steps=STEPS, seeds=SEEDS) -> dict:
    """Share of numbers of 1 to 6 digits without a wrong word: [steps][seed][digits] for each model."""
    numbers, measured = numbers_by_digits(), {}
    for name in names:
        shares = []
        for n_steps in steps:
            each = [trained(name, n_steps, seed) for seed in seeds]
            shares.append([[share(model, pair) for pair in numbers] for model in each])
            print(f"{name:16} {n_steps:5} steps:", shares[-1], flush=True)
        n_weights = sum(weight.numel() for weight in each[0].parameters())
        measured[name] = {"n_weights": n_weights, "shares": shares}
    return {"steps": steps, "models": measured}


def other_rates(names=("one vector, 108", "Bahdanau", "transformer")) -> dict:
    """Share of numbers of six digits after 200 steps, at other rates: [rate][seed] for each model."""
    six = numbers_by_digits()[-1]
    shares = {
        name: [[share(trained(name, 200, seed, rate=rate), six) for seed in SEEDS] for rate in RATES] for name in names
    }
    print(shares, flush=True)
    return {"rates": RATES, "shares_by_rate": shares}


def longer_sorting() -> dict:
    """Share of rows sorted by a pointer that may choose again, after 120 steps and more: [steps][seed][length]."""
    shares = []
    for steps in (120, 2000):
        shares.append([])
        for seed in SEEDS:
            torch.manual_seed(seed)
            network = PointerNetwork(1, hidden=32, repeats=True)
            task.train(network, deeper.sorting_loss, steps=steps)
            shares[-1].append([round(deeper.sorted_share(network, n), 3) for n in ROWS_OF])
    print(shares, flush=True)
    return {"sorting": {"rows_of": ROWS_OF, "steps": (120, 2000), "shares": shares}}


def alignments(n: int = 683_554) -> dict:
    """Where each word of a number looks after 200 steps, in networks that say it right: [seed][word][digit]."""
    x, y = task.to_tokens([n])
    weights = {}
    for name, seeds in (("Bahdanau", SEEDS), ("transformer", SEEDS[:1])):
        each = [trained(name, 200, seed) for seed in seeds]
        assert all(task.all_right(model, x, y) for model in each)
        weights[name] = [np.round(model.align(x, y)[0].double(), 3).tolist() for model in each]
    weights["copy"] = np.round(alignment.mean_alignment(BahdanauSeq2Seq).double(), 3).tolist()
    return {"alignments": {"number": n, "weights": weights}}


def half_baked() -> dict:
    """Seeds 0 and 1 as they are after 80 of 200 steps: right words with and without the teacher, and four searches."""
    models = [trained("Bahdanau", 200, seed, stop=80) for seed in SEEDS[:2]]
    return {
        "half-baked": [{"teacher": decoding.with_and_without_teacher(m), "ways": decoding.four_ways(m)} for m in models]
    }


def chapter() -> dict:
    """Two networks after all 200 steps: share of held-out numbers right; how many answers of the one are German, and
    where the other looks, a mean over numbers of eleven words without a zero (11 words and END, 6 digits)."""
    one, looking = trained("one vector, 64", 200, 0), trained("Bahdanau", 200, 2)
    told = [task.is_german(task.to_words(row)) for row in one.generate(task.X_TEST, 12).tolist()]
    long = [n for n in task.HELD_OUT if n > 100_000 and len(task.german(n)) == 11 and "0" not in str(n)]
    mean = looking.align(*task.to_tokens(long)).mean(0)
    test = task.X_TEST, task.Y_TEST
    one_vector = {"right": share(one, test), "german": round(float(np.mean(told)), 3)}
    back = {"right": share(looking, test), "n_aligned": len(long), "mean": np.round(mean.double(), 3).tolist()}
    return {"chapter": {"one vector": one_vector, "looking back": back}}


if __name__ == "__main__":
    results = measure() | other_rates() | longer_sorting() | alignments() | half_baked() | chapter()
    FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
