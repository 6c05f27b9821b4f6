"""The command line: what its commands write and print, and one line on stderr and no file for bad input."""

import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from possm_lite.app import experiment
from possm_lite.app.cli import _parse, main
from possm_lite.app.commands import read_matching
from possm_lite.app.report import plot
from possm_lite.decoder.config import BACKBONES, POSSMConfig
from possm_lite.recordings.arrays import read_arrays
from possm_lite.recordings.formats import load_recording
from possm_lite.recordings.timeline import Timeline
from possm_lite.training import FitConfig, load_checkpoint

from .training.helpers import InterruptedCheckpoint, simulated

ROOT = Path(__file__).parents[1]
RESULTS = ["checkpoint.npz", "decoded.npz", "decoded.png", "metrics.json"]
SMALL = ["--dim", "16", "--head-dim", "16", "--n-freqs", "4", "--hidden", "32"]


@pytest.fixture(scope="module")
def finished(small_recording, tmp_path_factory):
    """Recordings, and `run`, trained on `a.npz` with a lag; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("finished")
    unit_ids = small_recording.unit_ids
    spikes = replace(small_recording, behavior_times=[], behavior=np.empty((0, 2)), trials=[])
    order = np.arange(len(unit_ids))[::-1]
    recordings = {
        "a": small_recording,
        "spikes": spikes,
        "reordered": replace(small_recording, unit_ids=unit_ids[order], spike_units=order[small_recording.spike_units]),
        "other": replace(small_recording, unit_ids=[*unit_ids[:5], "other", *unit_ids[6:]]),
        "mV": replace(small_recording, behavior_unit="mV"),
        "one": replace(
            small_recording, session_id="1", behavior=small_recording.behavior[:, :1], behavior_columns=["x"]
        ),
        "whole": replace(small_recording, trials=[]),
        "ms": replace(small_recording, spike_times=small_recording.spike_times * 1e3),
        "next": simulated(3, 7),
    }
    for name, recording in recordings.items():
        recording.save(folder / f"{name}.npz")
    decode = ["decode", str(folder / "a.npz"), "--quick", "--lag", "0.05", *SMALL, "--out", str(folder / "run")]
    assert main(decode) == 0
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
    arguments = ["decode", "a.npz", "--quick", *SMALL, "--json", "metrics.json", "--seed", "5", "--lag", "0.1"]
    assert main(arguments) == 0
    out = capfd.readouterr().out
    table = [re.split("  +", line) for line in out.splitlines()]
    assert ["", "POSSM", "Wiener filter", "GRU on counts"] in table
    assert [row[0] for row in table if len(row) == 4][1:5] == ["R² x", "R² y", "R² mean", "R² displayed"]
    assert "note: Simulated: no animal was recorded." in out and "  units: 12, median rate " in out
    run = here / "runs" / "simulated-1-1"
    assert "Trained for 3 epochs, usual are 40" in out
    assert names(run) == RESULTS
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics == json.loads((here / "metrics.json").read_text())
    others = "source selection notes behavior_name behavior_columns behavior_unit unit_ids model training epochs"
    assert metrics.keys() >= {*others.split(), "adapted_from", "device", "valid_r2", "versions"}
    assert metrics["epochs"] == 3
    assert (metrics["session"], metrics["split"]) == ("simulated-1", "chronological:70/10/20")
    assert (metrics["lag_s"], metrics["bin_width_s"], metrics["seed"]) == (0.1, 0.05, 5)
    assert set(metrics["models"]) == {"possm", "wiener", "gru"}
    for model in metrics["models"].values():
        assert {"r2_displayed", "train_s"} < model.keys()
        assert model["r2"] == pytest.approx(np.mean(model["r2_columns"])) and len(model["r2_columns"]) == 2
        assert model["params"] > 0 and 0 < model["step_us_p50"] <= model["step_us_p99"]


@pytest.mark.parametrize(
    ("config", "others"),
    [(POSSMConfig(1), {"n_units", "n_sessions", "n_outputs"}), (FitConfig(), {"validations"})],
)
def test_every_number_of_a_configuration_is_an_option(config, others):
    """But for those that follow from the recording, and the number of validations."""
    options = vars(_parse(["decode"]))
    numbers = {name for name, value in vars(config).items() if type(value) in (int, float)}
    assert numbers - options.keys() == others


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone_trains_and_streams(here, capfd, backbone):
    assert main(["decode", "a.npz", "--epochs", "1", *SMALL, "--backbone", backbone, "--out", "new"]) == 0
    assert load_checkpoint(here / "new" / "checkpoint.npz")[0].config.backbone == backbone
    assert main(["stream", "new"]) == 0
    difference = re.search(r"largest difference to the batch form  (\S+) mm/s", capfd.readouterr().out)
    assert float(difference[1]) < 1e-2  # of several hundred, in float32


def test_stream_prints_latency_and_r2(here, finished, capfd):
    assert main(["stream", "run"]) == 0
    lines = {line.split("  ")[0]: line for line in capfd.readouterr().out.splitlines()}
    assert all(f"p{q}" in lines["latency"] for q in ("50", "90", "99", "99.9"))
    decoded = json.loads((here / "run" / "metrics.json").read_text())["models"]["possm"]["r2"]
    assert float(lines["R²"].split("  ")[1]) == pytest.approx(decoded, abs=0.01)
    assert "hold no whole number of samples" not in "".join(lines)
    assert listing(here) == listing(finished)


def test_stream_says_that_samples_do_not_fit_into_bins(here, capfd):
    recording = load_recording(here / "a.npz")
    interval = float(np.median(np.diff(recording.behavior_times)))
    every = round(0.02 / interval)  # 50 Hz: two and a half samples in a bin
    slow = {name: getattr(recording, name)[::every] for name in ("behavior_times", "behavior")}
    replace(recording, **slow).save(here / "slow.npz")
    assert main(["stream", "run", "slow.npz"]) == 0
    assert "hold no whole number of samples, 0.02 s apart" in capfd.readouterr().out


def test_several_recordings_train_one_model(here, capfd):
    assert main(["decode", "a.npz", "next.npz", "--epochs", "1", *SMALL, "--json", "all.json"]) == 0
    assert capfd.readouterr().out.count("R² mean") == 2
    sessions = json.loads((here / "all.json").read_text())["sessions"]
    assert [m["session"] for m in sessions] == ["simulated-1", "simulated-3"]
    for metrics, n_units in zip(sessions, (12, 7), strict=True):
        run = here / "runs" / "joint-1" / metrics["session"]
        assert names(run) == RESULTS
        assert json.loads((run / "metrics.json").read_text()) == metrics
        model, trained_on = load_checkpoint(run / "checkpoint.npz")
        assert (model.config.n_units, model.config.n_sessions, len(trained_on.unit_ids)) == (n_units, 1, n_units)
        assert main(["stream", str(run)]) == 0


def test_lag_auto_is_searched_once(here, monkeypatch, capfd):
    searched = []

    def search(recording, lags_s, *_):
        searched.append(np.array(list(lags_s)))
        return np.where(searched[-1] <= 0.1, 0.5 - 1e-3 * np.abs(searched[-1]), 0.4)  # alike up to the true lag

    monkeypatch.setattr(experiment, "search_lag", search)
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "TrainingCheckpoint", InterruptedCheckpoint)
        assert main(["decode", "a.npz", "--lag", "auto", "--epochs", "3", *SMALL, "--out", "auto"]) == 130
    assert "lag 0.1 s" in capfd.readouterr().out
    assert main(["decode", "--resume", "auto"]) == 0
    np.testing.assert_allclose(searched, [0.025 * np.arange(-8, 13)])
    assert json.loads((here / "auto" / "metrics.json").read_text())["lag_s"] == 0.1


def test_predict_equals_the_batch_form(here, small_recording, capfd):
    """With units in another order, found by name."""
    assert main(["predict", "run", "reordered.npz", "--out", "new/a"]) == 0
    out = capfd.readouterr().out
    assert "R²  x " in out and "RUN was trained on this session" in out and "order of the decoder" in out
    assert names(here / "new" / "a") == ["decoded.csv", "decoded.npz"]
    arrays = read_arrays(here / "new" / "a" / "decoded.npz")
    assert arrays["columns"].tolist() == ["x", "y"] and arrays["unit"] == "mm/s"
    times, model = arrays["times"], load_checkpoint(here / "run" / "checkpoint.npz")[0]
    assert (np.diff(times) > 0).all() and len(times) == pytest.approx(100 * np.diff(small_recording.span)[0], abs=5)
    start, stop = small_recording.span
    batch = Timeline(small_recording, 0.05).cut(start, stop - start)
    with torch.no_grad():
        expected = model(batch, torch.from_numpy(times - start)[None], torch.ones(1, dtype=torch.int64))[0]
    np.testing.assert_allclose(arrays["decoded"], expected, atol=1e-2)  # mm/s, of hundreds
    table = np.loadtxt(here / "new" / "a" / "decoded.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(table, np.c_[times, arrays["decoded"]], rtol=1e-5, atol=1e-5)


def test_predict_reads_spikes_alone(here, small_recording, capfd):
    assert main(["predict", "run", "spikes.npz"]) == 0
    out = capfd.readouterr().out
    assert "R²  " not in out and "only spikes were used: no behaviour was read" in out
    times = read_arrays(here / "runs" / "simulated-1-predicted-1" / "decoded.npz")["times"]
    first, last = small_recording.spike_times[[0, -1]] + 0.05
    assert times[0] == pytest.approx(first) and times[-1] == pytest.approx(last, abs=0.06)


def test_selection_is_stored_for_later_commands(here, small_recording, monkeypatch, capfd):
    """In another file a unit may have become too slow for the filter, or trials are unknown."""
    selection = ["--columns", "y", "--units", "rate > 1 and id != 'sim003'", "--trials", "duration > 1"]
    assert main(["decode", "a.npz", "--epochs", "1", *SMALL, *selection, "--out", "y"]) == 0
    metrics = json.loads((here / "y" / "metrics.json").read_text())
    assert (metrics["behavior_columns"], len(metrics["unit_ids"])) == (["y"], 11)
    assert {"hidden": 32, "n_outputs": 1}.items() <= metrics["model"].items() and metrics["training"]["epochs"] == 1
    assert list(metrics["valid_r2"]) == ["1"] and metrics["device"] == "cpu"
    decoded = read_arrays(here / "y" / "decoded.npz")
    assert decoded["recorded"].shape == decoded["decoded"].shape == (len(decoded["times"]), 1)
    assert main(["stream", "y"]) == 0 and main(["predict", "y", "a.npz"]) == 0
    assert "R²  y " in capfd.readouterr().out
    kept = small_recording.spike_units != 0
    kept[np.flatnonzero(~kept)[:2]] = True
    spikes = {name: getattr(small_recording, name)[kept] for name in ("spike_times", "spike_units")}
    replace(small_recording, **spikes).save(here / "slow.npz")
    matched = read_matching(here / "slow.npz", load_checkpoint(here / "y" / "checkpoint.npz")[1])
    assert matched.unit_ids.tolist() == metrics["unit_ids"] and (matched.spike_units == 0).sum() == 2
    of_unit_4 = small_recording.spike_times[small_recording.spike_units == 4]
    np.testing.assert_array_equal(matched.spike_times[matched.spike_units == 3], of_unit_4)
    assert main(["predict", "y", "whole.npz"]) == 0
    out = capfd.readouterr().out
    assert "note: behaviour was not read: " in out and "has no trials to choose from" in out and "R²" not in out
    adapt = ["decode", "--from", "y", "whole.npz", "--epochs", "1"]
    monkeypatch.setattr(experiment, "adapt", partial(experiment.adapt, min_steps=3))
    assert_refused(capfd, adapt, "no trials to choose from")
    assert main([*adapt, "--trials", "", "--out", "adapted"]) == 0
    trained_on = load_checkpoint(here / "adapted" / "checkpoint.npz")[1]
    assert trained_on.selection.trials == "" and trained_on.behavior_columns == ("y",)


def test_check_prints_and_draws(here, small_recording, capfd):
    names = {"session_id": "m$a_$ b", "behavior_name": "ve$l^{", "behavior_columns": ["$v_x", "$v_y"]}
    merged = np.where(small_recording.spike_units < 9, 0, small_recording.spike_units)
    replace(small_recording, spike_units=merged, **names).save(here / "formulas.npz")
    for name, number in (("formulas", 1), ("spikes", 1), ("spikes", 2)):
        assert main(["check", f"{name}.npz"]) == 0
        out = capfd.readouterr().out
        assert ("more than a tenth of foreign spikes: sim000" in out) == (name == "formulas")
        assert "intervals below 2 ms" in out and "units: 12" in out and out.count("\n") < 16
        assert (here / f"{name}-check-{number}.png").read_bytes().startswith(b"\x89PNG")
    assert main(["check", "spikes.npz", "--out", "folder/picture"]) == 0 and (here / "folder" / "picture").exists()


@pytest.fixture
def chinese(here) -> Path:
    """A recording with Chinese names, the name of its file among them."""
    names = {"session_id": "猴子甲", "behavior_columns": ["水平", "y"], "behavior_unit": "毫米/s"}
    np.savez(here / "周一.npz", **{**read_arrays(here / "a.npz"), **names})
    return here / "周一.npz"


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("gbk", ["R2  ", "us  p90", "水平", "毫米/s"]),
        ("ascii", ["R2  ", "us  p90", "in ??/s"]),
        ("cp1252", ["R²  ", "µs  p90", "in ??/s"]),
    ],
)
def test_output_in_any_code_page(chinese, monkeypatch, encoding, expected):
    """SpikeInterface #3429: redirected on Chinese Windows, output is in GBK. No warnings in a log."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    for command in ("stream run", "predict run a.npz --out p", f"check {chinese.name} --out p.png"):
        assert main(command.split()) == 0
    for stream in (out, err):
        stream.flush()
    assert not err.buffer.getvalue()
    printed = out.buffer.getvalue().decode(encoding)
    for text in expected:
        assert text in printed, printed


def test_a_redirected_training_has_a_table_and_no_bar(chinese):
    """As Chinese Windows runs it: a process of its own whose output is a file in GBK."""
    python = [sys.executable, "-m", "possm_lite", "decode", chinese.name, "--quick", "--out", "new", *SMALL]
    environment = os.environ | {"PYTHONIOENCODING": "gbk", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(python, env=environment, capture_output=True)
    assert ended.returncode == 0 and not ended.stderr, ended.stderr
    printed = ended.stdout.decode("gbk")
    for text in ("R2 displayed", "us/bin p50", "猴子甲", "毫米/s"):
        assert text in printed, printed


def test_names_without_a_font_are_spelled(here, capfd, recwarn):
    replaced = replace(load_recording(here / "a.npz"), session_id="𒀀 一", behavior_columns=["𒀀", "y"])
    replaced.save(here / "names.npz")
    assert main(["check", "names.npz"]) == 0
    out, err = capfd.readouterr()
    assert not err and "note: no font of this computer has" in out and "𒀀" in out
    assert not [w for w in recwarn if "Glyph" in str(w.message)]
    figure = plot(replaced, replaced.trials[0])
    assert [axes.get_ylabel() for axes in figure.axes[1:]] == ["column 0 (mm/s)", "y (mm/s)"]
    assert figure._suptitle.get_text().startswith("?")  # Matplotlib 3.8 has get_suptitle


def test_folder_that_cannot_be_written_names_out(here, capfd, monkeypatch):
    def refuse(*args, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    for command in ("check a.npz", "predict run spikes.npz", "decode a.npz --quick"):
        assert_refused(capfd, command.split(), "cannot be written (Read-only file system)", "with --out")


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("decode a.npz --out run", ["run exists already"]),
        ("decode a.npz --json spikes.npz", ["spikes.npz exists already"]),
        ("decode a.npz a.npz", ["session_id must differ"]),
        ("decode missing.npz", ["missing.npz: ", "No such file"]),
        ("decode ms.npz", ["ms.npz: spike_times look like milliseconds"]),
        ("decode a.npz --epochs 0", ["epochs must lie in 1..1000000, not 0"]),
        ("decode a.npz --bin-width 5", ["a.npz: trials must be", "a bin of 5.0 s"]),
        ("decode whole.npz --split random", ["whole.npz: split random"]),
        ("decode a.npz --device cuda", ["finds no GPU"]),
        ("decode a.npz one.npz", ["behavior_columns must be the same in all sessions"]),
        ("decode one.npz --from run", ["one.npz: decoded are ['x'], but 2 columns"]),
        ("decode next.npz --from run --hidden 8 --bin-width 0.1", ["leave out hidden, bin_width_s"]),
        ("decode spikes.npz", ["spikes.npz: behavior_times is empty"]),
        ("stream nowhere", ["nowhere/checkpoint.npz: cannot be read: No such file"]),
        ("stream run other.npz", ["other.npz: unit_ids", "missing: sim005; unknown: other"]),
        ("stream run mV.npz", ["mV.npz: behavior_unit is mV", "mm/s"]),
    ],
)
def test_bad_input_ends_in_one_line(here, capfd, monkeypatch, command, texts):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert_refused(capfd, command.split(), *texts)


def run(*command, **environment) -> subprocess.CompletedProcess:
    others = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return subprocess.run([sys.executable, *command], env=others | environment, capture_output=True, text=True)


@pytest.mark.parametrize(("environment", "threads"), [({}, "1"), ({"OMP_NUM_THREADS": "2"}, "2")])
def test_commands_compute_on_one_thread_by_default(environment, threads):
    ended = run("-c", "import possm_lite.app.cli, torch; print(torch.get_num_threads())", **environment)
    assert ended.stdout.strip() == threads
