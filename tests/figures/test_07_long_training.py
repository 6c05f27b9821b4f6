"""The longer training of chapter 07: its table is that of the script, and the script runs."""

import json

from possm_lite.course.load import load_figures

from ..exercises.helpers import NOTEBOOKS

long_training = load_figures("07_long_training", NOTEBOOKS)


def test_stored_table_is_of_this_script():
    stored = json.loads((NOTEBOOKS / "figures" / "07_long_training.json").read_text(encoding="utf-8"))
    assert tuple(stored["steps"]) == long_training.STEPS
    assert list(stored["models"]) == list(long_training.MODELS)
    assert (
        tuple(stored["rates"]) == long_training.RATES and tuple(stored["sorting"]["rows_of"]) == long_training.ROWS_OF
    )
    middle = [shares[1] for shares in stored["shares_by_rate"].values()]  # the chapter's rate: trained a second time
    assert middle == [[row[5] for row in stored["models"][name]["shares"][0]] for name in stored["shares_by_rate"]]
    sizes = [model["n_weights"] for model in stored["models"].values()]
    assert max(sizes[1:]) < 1.01 * min(sizes[1:])


def test_script_measures(capsys):
    models = {"Luong": (long_training.LuongSeq2Seq, 4)}
    (model,) = long_training.measure(long_training.chapter(), models, steps=(2,), seeds=(0,))["models"].values()
    assert len(model["shares"][0][0]) == 6 and max(model["shares"][0][0]) < 0.5
