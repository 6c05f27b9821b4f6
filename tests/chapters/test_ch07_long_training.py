"""The stored results of the long training are of its script."""

import json

from experiments import ch07_long_training as long_training

from ..exercises.helpers import NOTEBOOKS


def test_stored_table_is_of_this_script():
    stored = json.loads((NOTEBOOKS.parent / "experiments" / "ch07_long_training.json").read_text(encoding="utf-8"))
    assert tuple(stored["steps"]) == long_training.STEPS
    assert list(stored["models"]) == list(long_training.MODELS)
    assert tuple(stored["rates"]) == long_training.RATES
    assert tuple(stored["sorting"]["rows_of"]) == long_training.ROWS_OF
    middle = [shares[1] for shares in stored["shares_by_rate"].values()]  # the chapter's rate: trained a second time
    assert middle == [[row[5] for row in stored["models"][name]["shares"][0]] for name in stored["shares_by_rate"]]
    sizes = [model["n_weights"] for model in stored["models"].values()]
    assert max(sizes[1:]) < 1.01 * min(sizes[1:])
    n_weights = [sum(w.numel() for w in make().parameters()) for make in long_training.MODELS.values()]
    assert sizes == n_weights
