"""The longer training of chapter 07: its table is that of the script, and the script runs."""

import json

from possm_lite.classroom.load import load_figures

from ..exercises.helpers import NOTEBOOKS

long_training = load_figures("07_long_training", NOTEBOOKS)


def test_stored_table_is_of_this_script():
    stored = json.loads((NOTEBOOKS / "figures" / "07_long_training.json").read_text(encoding="utf-8"))
    assert tuple(stored["steps"]) == long_training.STEPS
    assert list(stored["models"]) == list(long_training.MODELS)
    sizes = [model["n_weights"] for model in stored["models"].values()]
    assert max(sizes[1:]) < 1.01 * min(sizes[1:])


def test_script_measures(capsys):
    models = {"Luong": (long_training.LuongSeq2Seq, 4)}
    (model,) = long_training.measure(models, steps=(2,), seeds=(0,))["models"].values()
    assert len(model["shares"][0][0]) == 6 and max(model["shares"][0][0]) < 0.5
