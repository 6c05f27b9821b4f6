"""The command line: its output files, and one line on stderr and no file for bad input."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from possm_lite.cli import main
from possm_lite.decoder.config import BACKBONES
from possm_lite.training import load_checkpoint

from .training.helpers import change_metadata, simulated

ROOT = Path(__file__).parents[1]
RESULTS = ["checkpoint.npz", "decoded.npz", "decoded.png", "metrics.json"]
SMALL = ["--dim", "16", "--head-dim", "16", "--n-freqs", "4", "--hidden", "32"]


@pytest.fixture(scope="module")
def finished(small_recording, tmp_path_factory):
    """A folder with `recording.npz` and a finished run `first`; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("finished")
    small_recording.save(folder / "recording.npz")
    main(["decode", str(folder / "recording.npz"), "--quick", *SMALL, "--out", str(folder / "first")])
    return folder


@pytest.fixture
def here(finished, tmp_path, monkeypatch) -> Path:
    """A copy of that folder as the working directory."""
    shutil.copytree(finished, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def assert_refused(capfd, arguments, *texts):
    """Exit status 2, one line on stderr with these texts, and no file changed."""
    before = listing(Path.cwd())
    capfd.readouterr()
    assert main(arguments) == 2
    line = capfd.readouterr().err
    assert line.startswith("possm-lite: ") and line.count("\n") == 1 and line.endswith("\n"), line
    for text in texts:
        assert text in line, line
    assert listing(Path.cwd()) == before


def test_decode_writes_checkpoint_metrics_and_figure(here, capfd):
    arguments = ["decode", "recording.npz", "--quick", *SMALL, "--json", "metrics.json", "--seed", "5", "--lag", "0.1"]
    assert main(arguments) == 0
    out = capfd.readouterr().out
    table = [re.split("  +", line) for line in out.splitlines()]
    assert ["", "POSSM", "Wiener filter", "GRU on counts"] in table
    assert [row[0] for row in table if len(row) == 4][1:5] == ["R² x", "R² y", "R² mean", "R² displayed"]
    assert "note: Simulated: no animal was recorded." in out and "  units: 12, median rate " in out
    run = here / "runs" / "simulated-1-1"
    assert names(run) == RESULTS
    assert (run / "decoded.png").read_bytes().startswith(b"\x89PNG")
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics == json.loads((here / "metrics.json").read_text())
    assert (metrics["session"], metrics["split"]) == ("simulated-1", "chronological:70/10/20")
    assert (metrics["lag_s"], metrics["bin_width_s"], metrics["seed"]) == (0.1, 0.05, 5)
    assert set(metrics["models"]) == {"possm", "wiener", "gru"}
    assert metrics["n_train"] + metrics["n_test"] == 11  # of 12 trials, one is for validation
    for model in metrics["models"].values():
        assert model["r2"] == pytest.approx(np.mean(model["r2_columns"]), abs=1e-5) and len(model["r2_columns"]) == 2
        assert model["params"] > 0 and 0 < model["step_us_p50"] <= model["step_us_p99"]


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone_trains_and_streams(here, capfd, backbone):
    assert main(["decode", "recording.npz", "--epochs", "1", *SMALL, "--backbone", backbone, "--out", "run"]) == 0
    assert load_checkpoint(here / "run" / "checkpoint.npz")[0].config.backbone == backbone
    assert main(["stream", "run"]) == 0
    difference = re.search(r"largest difference to the batch form  (\S+) mm/s", capfd.readouterr().out)
    assert float(difference[1]) < 1e-2  # of several hundred, in float32


def test_several_recordings_train_one_model(here, capfd):
    simulated(2, 5).save(here / "other.npz")
    assert main(["decode", "recording.npz", "other.npz", "--epochs", "1", *SMALL, "--json", "all.json"]) == 0
    assert capfd.readouterr().out.count("R² mean") == 2
    sessions = json.loads((here / "all.json").read_text())["sessions"]
    assert [m["session"] for m in sessions] == ["simulated-1", "simulated-2"]
    for metrics, n_units in zip(sessions, (12, 5), strict=True):
        run = here / "runs" / "joint-1" / metrics["session"]
        assert names(run) == RESULTS
        assert json.loads((run / "metrics.json").read_text()) == metrics
        model, trained_on = load_checkpoint(run / "checkpoint.npz")
        assert (model.config.n_units, model.config.n_sessions, len(trained_on.unit_ids)) == (n_units, 1, n_units)
        assert main(["stream", str(run)]) == 0


def without_trials(recording):
    return replace(recording, trials=np.zeros((0, 2)))


def without_unit_3(recording):
    kept = recording.spike_units != 3
    return replace(recording, spike_times=recording.spike_times[kept], spike_units=recording.spike_units[kept])


def short_separate_trials(recording):
    return replace(recording, trials=recording.trials[:, :1] + [0.0, 0.5])


@pytest.mark.parametrize("change", [without_unit_3, short_separate_trials, without_trials])
def test_unusual_recordings_are_decoded(here, small_recording, change):
    change(small_recording).save(here / "unusual.npz")
    assert main(["decode", "unusual.npz", "--epochs", "1", *SMALL, "--out", "run"]) == 0
    metrics = json.loads((here / "run" / "metrics.json").read_text())
    assert all(np.isfinite(model["r2"]) for model in metrics["models"].values())
    assert main(["stream", "run"]) == 0


def test_stream_prints_latency_difference_and_r2(here, finished, capfd):
    assert main(["stream", "first"]) == 0
    lines = {line.split("  ")[0]: line for line in capfd.readouterr().out.splitlines()}
    assert all(f"p{q}" in lines["latency"] for q in ("50", "90", "99", "99.9"))
    difference = float(lines["largest difference to the batch form"].split("  ")[1].split()[0])
    assert difference < 1e-3  # mm/s, of velocities of hundreds
    decoded = json.loads((here / "first" / "metrics.json").read_text())["models"]["possm"]["r2"]
    assert float(lines["R²"].split("  ")[1]) == pytest.approx(decoded, abs=0.01)
    assert listing(here) == listing(finished)


def test_nothing_is_overwritten(here, capfd):
    (here / "file").write_text("mine")
    decode = ["decode", "recording.npz"]
    assert_refused(capfd, [*decode, "--out", "first"], "first exists already")
    assert_refused(capfd, [*decode, "--json", "file"], "file exists already")
    assert_refused(capfd, [*decode, "--out", "file/run"], "file")
    assert_refused(capfd, [*decode, "recording.npz"], "session_id must differ")


def test_unusable_recordings_are_named(here, small_recording, capfd):
    content = (here / "recording.npz").read_bytes()
    (here / "cut.npz").write_bytes(content[: len(content) // 2])
    replace(small_recording, spike_times=1e3 * small_recording.spike_times).save(here / "ms.npz")
    for name, text in (
        ("missing", "No such file"),
        ("cut", "cannot be read as .npz"),
        ("ms", "look like milliseconds"),
    ):
        for command in (["decode", f"{name}.npz", "--quick"], ["stream", "first", f"{name}.npz"]):
            assert_refused(capfd, command, f"{name}.npz: ", text)


def test_stream_refuses_unusable_runs(here, capfd):
    assert_refused(capfd, ["stream", "nowhere"], "nowhere/checkpoint.npz: cannot be read: No such file")
    checkpoint, moved = here / "first" / "checkpoint.npz", here / "moved.npz"
    change_metadata(checkpoint, lambda metadata: metadata["trained_on"].update(source=str(moved)))
    assert_refused(capfd, ["stream", "first"], f"{moved}: cannot be read: No such file")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    assert_refused(capfd, ["stream", "first"], "first/checkpoint.npz: is damaged")


@pytest.mark.parametrize(("option", "value"), [("--epochs", "2.5"), ("--lag", "best"), ("--backbone", "transformer")])
def test_invalid_option_is_named(here, finished, capfd, option, value):
    with pytest.raises(SystemExit) as caught:
        main(["decode", "recording.npz", option, value])
    assert caught.value.code == 2
    assert f"{option}: invalid" in capfd.readouterr().err
    assert listing(here) == listing(finished)


def run(*command, **environment) -> subprocess.CompletedProcess:
    others = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return subprocess.run([sys.executable, *command], env=others | environment, capture_output=True, text=True)


def test_process_exits_with_status_2_and_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = run("-m", "possm_lite", "decode", "missing.npz", PYTHONPATH=str(ROOT))
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr.startswith("possm-lite: missing.npz: cannot be read: ") and ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("environment", "threads"), [({}, "1"), ({"OMP_NUM_THREADS": "2"}, "2")])
def test_commands_compute_on_one_thread_by_default(environment, threads):
    ended = run("-c", "import possm_lite.cli, torch; print(torch.get_num_threads())", **environment)
    assert ended.stdout.strip() == threads
