"""What each line of the recipe buys, in a short training and in one ten times as long: writes 12_recipe.json.

python notebooks/figures/12_recipe.py

The loop and the lines are those of chapter 12: its cells that define them are executed. About ten minutes on two cores.
"""

import json
from pathlib import Path

import matplotlib
import numpy as np

from possm_lite.course.parallel import in_parallel

HERE = Path(__file__).parent
CELLS = "cell-02", "recipe-12-parts", "valid-12", "price-12-loop"
STEPS, SEEDS, SGD_RATES = (60, 600), (0, 1, 2, 3, 4), (0.03, 0.1, 0.3)


def chapter() -> dict:
    """The names that some cells of the chapter define: the session, the draws, the loop with a switch for each line."""
    cells = json.loads((HERE.parent / "12_spike_decoder.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict = {"__name__": "chapter_12"}
    for source in ("".join(cell["source"]) for cell in cells if cell["id"] in CELLS):
        lines = [line for line in source.splitlines() if "load_exercises" not in line]
        exec("\n".join(lines).replace("../data", str(HERE.parents[1] / "data")), names)  # noqa: S102
    return names


def measure(task: dict, n_steps: int) -> dict:
    """Validation R² of each seed, and mean seconds, of the whole recipe and without each line."""
    train, sgd = task["brief_training"], task["LINES"]["SGD, best of 3 rates"]
    searched = in_parallel(lambda peak: train(0, n_steps, peak=peak, **sgd)[0], [(peak,) for peak in SGD_RATES])
    lines = {"the whole recipe": {}, **task["LINES"]}
    lines["SGD, best of 3 rates"] = {**sgd, "peak": SGD_RATES[np.argmax(searched)]}
    calls = [(seed, line) for line in lines.values() for seed in SEEDS]
    runs = in_parallel(lambda seed, line: train(seed, n_steps, **line), calls)
    r2, seconds = np.moveaxis(np.reshape(runs, (len(lines), len(SEEDS), 2)), -1, 0)
    print(n_steps, "steps:", dict(zip(lines, r2.round(2).tolist(), strict=True)), flush=True)
    return {
        "sgd_rate": lines["SGD, best of 3 rates"]["peak"],
        "r2": dict(zip(lines, r2.round(4).tolist(), strict=True)),
        "seconds": dict(zip(lines, seconds.mean(1).round(1).tolist(), strict=True)),
    }


if __name__ == "__main__":
    matplotlib.use("agg")
    task = chapter()
    results = {str(n_steps): measure(task, n_steps) for n_steps in STEPS}
    (HERE / "12_recipe.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
