"""One vector against attention, trained longer than a chapter may take: writes 07_long_training.json beside itself.

python notebooks/figures/07_long_training.py

The task and the training are those of chapter 07: its cells that define them are executed. About eight minutes.
"""

import json
from pathlib import Path

import torch

from possm_lite.blocks.seq2seq import BahdanauSeq2Seq, LuongSeq2Seq, Seq2Seq


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


def chapter() -> dict:
    """The names that three cells of the chapter define: the task, its training pairs, the loop of training."""
    cells = json.loads((HERE.parent / "07_sequence_to_sequence.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict = {}
    for source in ("".join(cell["source"]) for cell in cells if cell["id"] in ("61c1e397", "41d1cf0c", "c2c28fee")):
        exec(source.replace('check = load_exercises("07_sequence_to_sequence")', ""), names)  # noqa: S102
    return names


def measure(models=MODELS, steps=STEPS, seeds=SEEDS) -> dict:
    """Share of numbers of 1 to 6 digits without a wrong word, in a free run: [steps][seed][digits] for each model.

    Numbers of 4 to 6 digits are not in the training set; those of 1 to 3 digits all are.
    """
    task, random = chapter(), torch.Generator().manual_seed(0)
    seen, numbers = {tuple(row) for row in task["x_train"].tolist()}, []
    for digits in range(1, 7):
        some = torch.randint(10 ** (digits - 1), 10**digits, (20 * N_TESTED,), generator=random).tolist()
        unseen = [n for n in some if digits < 4 or tuple(task["to_tokens"]([n, 111_111])[0][0].tolist()) not in seen]
        numbers.append(task["to_tokens"](unseen[:N_TESTED]))
    results: dict = {"steps": list(steps), "models": {}}
    for name, (kind, hidden) in models.items():
        shares = [[[0.0] * 6 for _ in seeds] for _ in steps]
        for i, n_steps in enumerate(steps):
            for j, seed in enumerate(seeds):
                torch.manual_seed(seed)
                model = kind(13, len(task["WORDS"]), hidden=hidden)
                task["train"](model, task["translation_loss"], steps=n_steps)
                shares[i][j] = [round(task["all_right"](model, *pair).float().mean().item(), 3) for pair in numbers]
                print(f"{name:16} {n_steps:5} steps, seed {seed}:", shares[i][j], flush=True)
        n_weights = sum(weight.numel() for weight in model.parameters())
        results["models"][name] = {"n_weights": n_weights, "shares": shares}
    return results


if __name__ == "__main__":
    (HERE / "07_long_training.json").write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
