"""One vector against attention, trained longer than a chapter may take: writes 07_long_training.json beside itself.

python notebooks/figures/07_long_training.py

With it two questions about the training: is another rate better for one vector, and does a pointer that may choose
again only need more steps? The tasks and the training are those of chapter 07: its cells that define them are executed.
About ten minutes.
"""

import json
from pathlib import Path

import torch

from possm_lite.course.pointer import PointerNetwork
from possm_lite.course.seq2seq import BahdanauSeq2Seq, LuongSeq2Seq, Seq2Seq


class BothForwards(BahdanauSeq2Seq):
    """Both encoders read from the first digit on: as large as Bahdanau's, but no h_i knows what comes after digit i."""

    def encode(self, source):
        H, mask, last = Seq2Seq.encode(self, source)
        return torch.cat([H, self.backward_encoder(self.read(source))[0]], -1), mask, last


HERE = Path(__file__).parent
MODELS = {  # the size that makes the number of weights nearly the same, but for the first
    "one vector, 64": (Seq2Seq, 64),
    "one vector, 108": (Seq2Seq, 108),
    "Bahdanau": (BahdanauSeq2Seq, 64),
    "Luong": (LuongSeq2Seq, 69),
    "both forwards": (BothForwards, 64),
}
STEPS, SEEDS, N_TESTED = (200, 800, 2000), (0, 1, 2), 200
RATES, ROWS_OF = (0.003, 0.01, 0.03), (6, 8, 12)
CELLS = "61c1e397", "41d1cf0c", "c2c28fee", "2b86fb41", "c07sort"


def chapter() -> dict:
    """The names that some cells of the chapter define: the tasks, their training pairs, the loop of training."""
    cells = json.loads((HERE.parent / "07_sequence_to_sequence.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict = {}
    for source in ("".join(cell["source"]) for cell in cells if cell["id"] in CELLS):
        exec(source.replace('check = load_exercises("07_sequence_to_sequence")', ""), names)  # noqa: S102
    return names


def numbers_by_digits(task: dict) -> list:
    """Numbers of 1 to 6 digits. Those of 4 to 6 digits are not in the training set; nearly all shorter ones are."""
    random, seen = torch.Generator().manual_seed(0), {tuple(row) for row in task["x_train"].tolist()}
    numbers = []
    for digits in range(1, 7):
        some = torch.randint(10 ** (digits - 1), 10**digits, (20 * N_TESTED,), generator=random).tolist()
        unseen = [n for n in some if digits < 4 or tuple(task["to_tokens"]([n, 111_111])[0][0].tolist()) not in seen]
        numbers.append(task["to_tokens"](unseen[:N_TESTED]))
    return numbers


def trained(task: dict, kind: type, hidden: int, steps: int, seed: int, **how):
    torch.manual_seed(seed)
    model = kind(13, len(task["WORDS"]), hidden=hidden)
    task["train"](model, task["translation_loss"], steps=steps, **how)
    return model


def share(task: dict, model, pair: tuple) -> float:
    """Share of numbers without a wrong word, in a free run."""
    return round(task["all_right"](model, *pair).float().mean().item(), 3)


def measure(task: dict, models=MODELS, steps=STEPS, seeds=SEEDS) -> dict:
    """Share of numbers of 1 to 6 digits without a wrong word: [steps][seed][digits] for each model."""
    numbers, measured = numbers_by_digits(task), {}
    for name, sizes in models.items():
        shares = []
        for n_steps in steps:
            each = [trained(task, *sizes, n_steps, seed) for seed in seeds]
            shares.append([[share(task, model, pair) for pair in numbers] for model in each])
            print(f"{name:16} {n_steps:5} steps:", shares[-1], flush=True)
        n_weights = sum(weight.numel() for weight in each[0].parameters())
        measured[name] = {"n_weights": n_weights, "shares": shares}
    return {"steps": steps, "models": measured}


def other_rates(task: dict) -> dict:
    """Share of numbers of six digits after 200 steps, at other rates: [rate][seed] for two models of one size."""
    six = numbers_by_digits(task)[-1]
    shares = {
        name: [
            [share(task, trained(task, *MODELS[name], 200, seed, rate=rate), six) for seed in SEEDS] for rate in RATES
        ]
        for name in ("one vector, 108", "Bahdanau")
    }
    print(shares, flush=True)
    return {"rates": RATES, "shares_by_rate": shares}


def longer_sorting(task: dict) -> dict:
    """Share of rows sorted by a pointer that may choose again, after 120 steps and more: [steps][seed][length]."""
    shares = []
    for steps in (120, 2000):
        shares.append([])
        for seed in SEEDS:
            torch.manual_seed(seed)
            network = PointerNetwork(1, hidden=32, repeats=True)
            task["train"](network, task["sorting_loss"], steps=steps)
            shares[-1].append([round(task["sorted_share"](network, n), 3) for n in ROWS_OF])
    print(shares, flush=True)
    return {"sorting": {"rows_of": ROWS_OF, "steps": (120, 2000), "shares": shares}}


if __name__ == "__main__":
    task = chapter()
    results = measure(task) | other_rates(task) | longer_sorting(task)
    (HERE / "07_long_training.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
