"""The commands with labels: what decode, check, stream and predict write and print, and one line for what cannot be."""

import json
from dataclasses import replace

import numpy as np
import pytest

from possm_lite.app.cli import main
from possm_lite.recordings.arrays import read_arrays
from possm_lite.recordings.formats import load_recording
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.simulate.session import save_session
from possm_lite.training import load_checkpoint

SMALL = ["--dim", "16", "--head-dim", "16", "--n-freqs", "4", "--hidden", "32"]
CONFIG = SimulationConfig(n_trials=60, n_units=8, n_directions=2, random_target_share=0.2)
OUTPUTS = ["left", "right"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two sessions with the targets of their trials, and `run`, trained on the first."""
    folder = tmp_path_factory.mktemp("classes")
    for seed, name in enumerate("ab"):
        save_session(simulate_session(seed, CONFIG), folder / f"{name}.npz")
    decode = ["decode", str(folder / "a.npz"), "--behavior", "target", "--quick", *SMALL]
    assert main([*decode, "--out", str(folder / "run")]) == 0
    return folder


def test_decode_writes_metrics_predictions_and_a_picture(folder):
    run = folder / "run"
    assert sorted(path.name for path in run.iterdir()) == [
        "checkpoint.npz",
        "classes.png",
        "metrics.json",
        "predictions.npz",
    ]
    metrics = json.loads((run / "metrics.json").read_text())
    assert list(metrics["models"]) == ["possm", "logistic", "gru"] and metrics["behavior_columns"] == OUTPUTS
    assert metrics["model"]["decodes"] == "classes"
    assert metrics["training"]["unit_dropout"] == 0.5 and metrics["training"]["lr"] == 1e-3
    for model in metrics["models"].values():
        low, high = model["interval"]
        assert low <= model["balanced_accuracy"] <= high and 0 <= model["at_end"] <= 1
        assert len(model["by_time"]["accuracy"]) == len(model["by_time"]["chance_95"]) > 10
    predictions = read_arrays(run / "predictions.npz")
    assert predictions["classes"].tolist() == OUTPUTS
    np.testing.assert_allclose(predictions["probabilities_gru"].sum(1), 1, rtol=1e-6)
    assert len(predictions["times"]) == len(predictions["true"]) == len(predictions["probabilities_possm"])
    model, trained_on = load_checkpoint(run / "checkpoint.npz")
    assert model.config.decodes == "classes" and trained_on.behavior_unit == "probability"


def test_several_sessions_print_a_table_each(folder, capsys):
    decode = ["decode", str(folder / "a.npz"), str(folder / "b.npz"), "--behavior", "target", "--quick", *SMALL]
    assert main([*decode, "--out", str(folder / "joint")]) == 0
    out = capsys.readouterr().out
    assert out.count("balanced accuracy ") == 2 and out.count("chance, labels shuffled") == 2
    assert "Weights of the classes in the loss, n / (K n_k): left " in out
    assert "classes, trials of each: left " in out and "at the end of a trial" in out
    assert (folder / "joint" / "simulated-1" / "classes.png").exists()


def test_decoders_of_classes_are_applied(folder, capsys, tmp_path):
    run, a = str(folder / "run"), str(folder / "a.npz")
    assert main(["stream", run, a]) == 0
    out = capsys.readouterr().out
    assert "probability" in out and "balanced accuracy  0." in out
    assert main(["predict", run, a, "--out", str(tmp_path / "predicted")]) == 0
    assert "RUN was trained on this session" in capsys.readouterr().out
    header, *rows = (tmp_path / "predicted" / "decoded.csv").read_text().splitlines()
    assert header == "time,left,right"
    assert sum(map(float, rows[0].split(",")[1:])) == pytest.approx(1, abs=1e-5)


def test_check_counts_the_classes(folder, capsys, tmp_path):
    assert main(["check", str(folder / "a.npz"), "--behavior", "target", "--out", str(tmp_path / "a.png")]) == 0
    out = capsys.readouterr().out
    assert "decoded: target, 2 classes" in out and "classes, trials of each: left " in out
    assert "trials have no target and were left out." in out and "The file has a movement too" in out


def test_what_cannot_be_decoded_is_one_line(folder, capsys, tmp_path):
    run, a = str(folder / "run"), str(folder / "a.npz")
    other = load_recording(a, "target")
    replace(other, classes=["left", "up"]).save(tmp_path / "other.npz")
    for arguments, text in (
        (["decode", a, "--behavior", "target", "--lag", "auto"], "--lag auto is of continuous behaviour"),
        (["decode", a, "--behavior", "target", "--behavior", "velocity"], "classes are decoded alone"),
        (["decode", str(tmp_path / "other.npz"), "--behavior", "target", "--from", run], "the decoder has the classes"),
        (["decode", a, "--behavior", "velocity", "--from", run], "the decoder has the classes left, right"),
        (["stream", run, str(tmp_path / "other.npz")], "the decoder has the classes left, right"),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert text in error and error.count("\n") == 1
