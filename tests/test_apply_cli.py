"""Commands on a trained decoder, `predict`, `stream` and `decode --from`; what of a file is read; and `check`."""

import json
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from possm_lite.cli import main
from possm_lite.spikes import Recording
from possm_lite.spikes.arrays import read_arrays
from possm_lite.spikes.timeline import Timeline
from possm_lite.training import experiment, load_checkpoint
from possm_lite.training.check import check_recording
from possm_lite.training.predict import read_matching

from .test_cli import RESULTS, SMALL, assert_refused, names
from .test_resume_cli import assert_same_checkpoints
from .training.helpers import InterruptedCheckpoint, simulated


def spikes_alone(recording: Recording) -> Recording:
    return replace(recording, behavior_times=[], behavior=np.empty((0, 2)), trials=[])


def reordered(recording: Recording) -> Recording:
    order = np.arange(recording.n_units)[::-1]
    return replace(recording, unit_ids=recording.unit_ids[order], spike_units=order[recording.spike_units])


@pytest.fixture(scope="module")
def finished(small_recording, tmp_path_factory):
    """Recordings, and `run`, trained on `a.npz` with a lag."""
    folder = tmp_path_factory.mktemp("applied")
    unit_ids = small_recording.unit_ids.tolist()
    recordings = {
        "a": small_recording,
        "spikes": spikes_alone(small_recording),
        "reordered": reordered(small_recording),
        "other": replace(small_recording, unit_ids=[*unit_ids[:5], "other", *unit_ids[6:]]),
        "mV": replace(small_recording, behavior_unit="mV"),
        "one": replace(small_recording, behavior=small_recording.behavior[:, :1], behavior_columns=["x"]),
        "ms": replace(spikes_alone(small_recording), spike_times=small_recording.spike_times * 1e6),
        "next": simulated(3, 7),
    }
    for name, recording in recordings.items():
        recording.save(folder / f"{name}.npz")
    decode = ["decode", str(folder / "a.npz"), "--quick", "--lag", "0.05", *SMALL, "--out", str(folder / "run")]
    assert main(decode) == 0
    return folder


@pytest.fixture
def here(finished, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_units_of_a_filter_are_found_by_name(here, small_recording):
    """In a file where one of them has become too slow for the filter."""
    select = ["--units", "rate > 1 and id != 'sim003'"]
    assert main(["decode", "a.npz", "--quick", *SMALL, *select, "--out", "fast"]) == 0
    kept = small_recording.spike_units != 0
    kept[np.flatnonzero(~kept)[:2]] = True
    spikes = {name: getattr(small_recording, name)[kept] for name in ("spike_times", "spike_units")}
    replace(small_recording, **spikes).save(here / "slow.npz")
    trained_on = load_checkpoint(here / "fast" / "checkpoint.npz")[1]
    matched = read_matching(here / "slow.npz", trained_on)
    assert "sim003" not in trained_on.unit_ids and tuple(matched.unit_ids) == trained_on.unit_ids
    assert (matched.spike_units == 0).sum() == 2
    of_unit_4 = small_recording.spike_times[small_recording.spike_units == 4]
    np.testing.assert_array_equal(matched.spike_times[matched.spike_units == 3], of_unit_4)


def test_without_the_trials_of_the_training_spikes_alone_are_decoded(here, small_recording, capfd):
    assert main(["decode", "a.npz", "--quick", *SMALL, "--trials", "duration > 0.1", "--out", "chosen"]) == 0
    replace(small_recording, trials=[]).save(here / "untold.npz")
    capfd.readouterr()
    assert main(["predict", "chosen", "untold.npz"]) == 0
    out = capfd.readouterr().out
    assert "note: behaviour was not read: " in out and "has no trials to choose from" in out and "R²" not in out
    adapt = ["decode", "--from", "chosen", "untold.npz", "--epochs", "1"]
    assert_refused(capfd, adapt, "no trials to choose from")
    assert main([*adapt, "--trials", "", "--out", "adapted"]) == 0
    assert load_checkpoint(here / "adapted" / "checkpoint.npz")[1].selection.trials == ""


def test_names_that_look_like_formulas_are_drawn(here, small_recording):
    names = {"session_id": "m$a_$ b", "behavior_name": "ve$l^{", "behavior_columns": ["$v_x", "$v_y"]}
    replace(small_recording, **names).save(here / "math.npz")
    assert main(["check", "math.npz"]) == 0
    assert main(["decode", "math.npz", "--quick", *SMALL, "--out", "math"]) == 0
    assert (here / "math" / "decoded.png").exists()


def test_predict_equals_the_batch_form(here, small_recording, capfd):
    assert main(["predict", "run", "a.npz", "--out", "new/a"]) == 0
    out = capfd.readouterr().out
    assert "R²  x " in out and "RUN was trained on this session" in out
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


def test_units_are_matched_by_name(here, capfd):
    for name in ("a", "reordered"):
        assert main(["predict", "run", f"{name}.npz", "--out", f"of-{name}"]) == 0
    assert "order of the decoder" in capfd.readouterr().out
    one, other = (read_arrays(here / f"of-{name}" / "decoded.npz")["decoded"] for name in ("a", "reordered"))
    np.testing.assert_allclose(one, other, atol=1e-3)
    assert main(["stream", "run", "reordered.npz"]) == 0


def test_predict_and_stream_refuse_other_recordings(here, capfd):
    missing = "other.npz: unit_ids", "1 are missing (sim005)", "1 are unknown (other)"
    for command in ("predict", "stream"):
        assert_refused(capfd, [command, "run", "other.npz"], *missing)
    assert_refused(capfd, ["stream", "run", "one.npz"], "one.npz: behavior_columns is ['x'], the decoder was trained")
    assert_refused(capfd, ["stream", "run", "mV.npz"], "mV.npz: behavior_unit is mV", "mm/s")
    assert_refused(capfd, ["predict", "run", "ms.npz"], "ms.npz: ", "milliseconds or samples")
    assert_refused(capfd, ["predict", "run", "a.npz", "--out", "run"], "run exists already")


def test_selection_is_stored_for_later_commands(here, capfd):
    selection = ["--columns", "y", "--units", "id != 'sim003'", "--trials", "duration > 1"]
    assert main(["decode", "a.npz", "--epochs", "1", *SMALL, *selection, "--out", "y"]) == 0
    metrics = json.loads((here / "y" / "metrics.json").read_text())
    assert (metrics["behavior_columns"], len(metrics["unit_ids"])) == (["y"], 11)
    assert len(metrics["models"]["possm"]["r2_columns"]) == 1 and metrics["selection"]["trials"] == "duration > 1"
    assert {"hidden": 32, "n_outputs": 1}.items() <= metrics["model"].items() and metrics["training"]["epochs"] == 1
    assert list(metrics["valid_r2"]) == ["1"] and metrics["device"] == "cpu"
    decoded = read_arrays(here / "y" / "decoded.npz")
    assert decoded["recorded"].shape == decoded["decoded"].shape == (len(decoded["times"]), 1)
    assert main(["stream", "y"]) == 0 and main(["predict", "y", "a.npz"]) == 0
    assert "R²  y " in capfd.readouterr().out


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


def test_adapted_run_resumes_to_the_same_weights(here, monkeypatch):
    monkeypatch.setattr(experiment, "adapt", partial(experiment.adapt, min_steps=3))
    decode = ["decode", "--from", "run", "next.npz", "--epochs", "3"]
    assert main([*decode, "--out", "day2"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "TrainingCheckpoint", InterruptedCheckpoint)
        assert main([*decode, "--out", "cut"]) == 130
    assert main(["decode", "--resume", "cut"]) == 0
    assert names(here / "cut") == RESULTS
    assert_same_checkpoints(here / "cut", here / "day2")
    metrics = json.loads((here / "day2" / "metrics.json").read_text())
    assert metrics["adapted_from"] == str(here / "run") and metrics["lag_s"] == 0.05
    assert main(["stream", "day2"]) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["a.npz", "--columns", "z"], "a.npz: columns"),
        (["a.npz", "--trials", "__import__('os')"], "a.npz: trials="),
        (["a.npz", "--head-dim", "15"], "head_dim must be even"),
        (["a.npz", "--epochs", "0"], "epochs must lie in 1..1000000, not 0"),
        (["a.npz", "--bin-width", "nan"], "bin_width_s must lie in"),
        (["a.npz", "--split", "random:5/5"], "split must be chronological or random"),
        (["a.npz", "--device", "cuda"], "finds no GPU"),
        (["a.npz", "one.npz"], "one.npz: decoded are ['x']"),
        (["one.npz", "--from", "run"], "one.npz: decoded are ['x'], but 2 columns"),
        (["next.npz", "--from", "run", "--hidden", "8", "--bin-width", "0.1"], "leave out hidden, bin_width_s"),
        (["next.npz", "a.npz", "--from", "run"], "to one recording"),
        (["spikes.npz"], "spikes.npz: behavior_times is empty"),
    ],
)
def test_decode_refuses_in_one_line(here, capfd, monkeypatch, arguments, text):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert_refused(capfd, ["decode", *arguments], text)


def test_check_draws_every_unit_once(small_recording):
    merged = np.where(small_recording.spike_units < 9, 0, small_recording.spike_units)
    lines, figure = check_recording(replace(small_recording, spike_units=merged))
    units, foreign, _ = figure.axes[1].lines
    fired = np.isin(np.arange(12), merged)
    assert np.isfinite(units.get_ydata()).sum() == fired.sum() - 1 and len(foreign.get_ydata()) == 1
    assert lines[-1] == f"1 of 12 units have more than a tenth of foreign spikes: {small_recording.unit_ids[0]}"


def test_check_prints_and_draws(here, capfd):
    for name, number in (("a", 1), ("spikes", 1), ("spikes", 2)):
        assert main(["check", f"{name}.npz"]) == 0
        out = capfd.readouterr().out
        assert "intervals below 2 ms" in out and "units: 12" in out and out.count("\n") < 16
        assert (here / f"{name}-check-{number}.png").read_bytes().startswith(b"\x89PNG")
    assert main(["check", "spikes.npz", "--out", "folder/picture"]) == 0 and names(here / "folder") == ["picture"]
    assert_refused(capfd, ["check", "spikes.npz", "--out", "spikes-check-1.png"], "spikes-check-1.png exists already")
    assert_refused(capfd, ["check", "a.npz", "--columns", "z"], "a.npz: columns")
