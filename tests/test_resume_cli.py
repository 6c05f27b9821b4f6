"""An interrupted run of the command line resumes to the same decoder, or one line says why it cannot."""

import json
import shlex
import shutil
from functools import partial
from pathlib import Path

import pytest

from possm_lite.app import experiment
from possm_lite.app.cli import main

from .test_cli import RESULTS, SMALL, assert_refused, names
from .training.helpers import InterruptedCheckpoint, assert_same_checkpoints, simulated


def decode(*arguments):
    selection = ["--units", "rate > 0.1", "--trials", "duration > 0.1", "--behavior", "velocity", "--columns", "y, x"]
    options = ["--epochs", "3", "--backbone", "rnn", "--lag", "-0.05", "--seed", "4", "--unit-dropout", "0.2"]
    return main(["decode", *arguments, *options, *selection, *SMALL])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Recordings `a.npz` and `b.npz`, the runs `one` of the first and `two` of both, and `cut`: `one` interrupted."""
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("a.npz", "b.npz")):
        simulated(seed, 4 + seed).save(folder / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert decode("a.npz", "--out", "one") == 0
        assert decode("a.npz", "b.npz", "--out", "two") == 0
        patch.setattr(experiment, "TrainingCheckpoint", InterruptedCheckpoint)
        assert decode("a.npz", "--out", "cut", "--json", "cut.json") == 130
    return folder


@pytest.fixture
def here(finished, tmp_path, monkeypatch) -> Path:
    here = tmp_path / "here"
    shutil.copytree(finished, here)
    monkeypatch.chdir(here)
    command = here / "cut" / "unfinished.json"  # contains the folder that it was given in
    command.write_text(command.read_text().replace(str(finished), str(here)))
    return here


def assert_same_results(run: Path, expected: Path):
    assert names(run) == RESULTS
    assert_same_checkpoints(run, expected, ignore=["about"])  # it has the path of the recording


def test_resume_from_another_folder_uses_the_same_options(here, tmp_path, monkeypatch, capfd):
    assert names(here / "cut") == ["training.pt", "unfinished.json"]
    elsewhere = tmp_path / "else" / "where"
    elsewhere.mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    assert main(["decode", "--resume", "../../here/cut"]) == 0
    assert list(elsewhere.iterdir()) == []
    assert_same_results(here / "cut", here / "one")
    metrics, other = (json.loads((here / run / "metrics.json").read_text()) for run in ("cut", "one"))
    assert metrics == json.loads((here / "cut.json").read_text()) and metrics["lag_s"] == -0.05
    assert [m["r2"] for m in metrics["models"].values()] == [m["r2"] for m in other["models"].values()]
    assert "../../here/cut: checkpoint.npz, metrics.json, decoded.npz, decoded.png" in capfd.readouterr().out


def test_interrupt_shows_the_command_to_resume(here, monkeypatch, capfd):
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "TrainingCheckpoint", InterruptedCheckpoint)
        assert decode("a.npz", "b.npz", "--out", "my run") == 130
    line = capfd.readouterr().err.splitlines()[-1]
    assert line == "possm-lite: interrupted; to go on: possm-lite decode --resume 'my run'"
    (here / "my run" / "simulated-0").mkdir()  # killed while it wrote the results of the first session
    (here / "my run" / "simulated-0" / ".0f.partial").write_bytes(b"half")
    assert main(shlex.split(line.split("possm-lite ")[-1])) == 0
    assert names(here / "my run") == ["simulated-0", "simulated-1"]
    for session in names(here / "my run"):
        assert_same_results(here / "my run" / session, here / "two" / session)


def test_adapted_run_resumes_to_the_same_weights(here, monkeypatch):
    monkeypatch.setattr(experiment, "adapt", partial(experiment.adapt, min_steps=3))
    decode = ["decode", "--from", "one", "b.npz", "--epochs", "3"]
    assert main([*decode, "--out", "day2"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "TrainingCheckpoint", InterruptedCheckpoint)
        assert main([*decode, "--out", "half"]) == 130
    assert main(["decode", "--resume", "half"]) == 0
    assert names(here / "half") == RESULTS
    assert_same_checkpoints(here / "half", here / "day2")
    metrics = json.loads((here / "day2" / "metrics.json").read_text())
    assert metrics["adapted_from"] == str(here / "one") and metrics["lag_s"] == -0.05


def test_unusable_runs_are_refused(here, capfd):
    for command in (["stream", "cut"], ["predict", "cut", "a.npz"], ["decode", "b.npz", "--from", "cut"]):
        assert_refused(capfd, command, "cut is not finished: possm-lite decode --resume cut")
    several = "two is of several sessions: name the folder of one, two/simulated-0, two/"
    assert_refused(capfd, ["stream", "two"], several)
    resume = ["decode", "--resume"]
    (here / "empty").mkdir()
    assert_refused(capfd, [*resume, "one"], "one is finished: there is nothing to resume")
    for name in ("two", "empty", "b.npz"):
        assert_refused(capfd, [*resume, name], f"{name} is finished, or is not the folder of a run")
    assert_refused(capfd, [*resume, "nowhere"], "nowhere: there is no such folder")
    assert_refused(capfd, ["predict", "b.npz", "one"], "b.npz: is not a decoder")  # the wrong way round
    (here / "cut.json").write_text("mine")
    assert_refused(capfd, [*resume, "cut"], "cut.json exists already")
    (here / "cut.json").unlink()
    shutil.copy("b.npz", "a.npz")
    assert_refused(capfd, [*resume, "cut"], "cut/training.pt: was trained with other recordings")
    (here / "cut" / "unfinished.json").write_text("")
    assert_refused(capfd, [*resume, "cut"], "cut/unfinished.json: is damaged")
