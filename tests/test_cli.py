"""The command line: what it leaves behind, and that bad input ends in one line on stderr and in nothing else."""

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
from possm_lite.spikes import simulate_session
from possm_lite.spikes.arrays import read_arrays, write_arrays
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.training import load_checkpoint

ROOT = Path(__file__).parents[1]
FIELDS = {"r2", "r2_xy", "params", "train_s", "step_us_p50", "step_us_p99"}
SESSION = {"session", "split", "lag_s", "bin_width_s", "n_train", "n_test", "models"}


@pytest.fixture(scope="module")
def finished(small_recording, tmp_path_factory):
    """A folder with `recording.npz` and the run `first`, decoded from it once; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("finished")
    small_recording.save(folder / "recording.npz")
    main(["decode", str(folder / "recording.npz"), "--quick", "--out", str(folder / "first")])
    return folder


@pytest.fixture
def here(finished, tmp_path, monkeypatch) -> Path:
    """A copy of that folder to work in."""
    shutil.copytree(finished, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def rewrite(name, **changes):
    """The recording of the folder with some arrays changed, as a file that nobody checked."""
    arrays = {k: v for k, v in read_arrays("recording.npz").items() if k not in ("format", "behavior_clock")}
    n_samples = len(arrays["velocity"])
    arrays.setdefault("behavior_times", np.arange(n_samples) / 1000)
    for key, change in changes.items():
        arrays[key] = change(arrays[key].copy())
    write_arrays(name, arrays)


def put(index, value):
    def change(array):
        array[index] = value
        return array

    return change


def assert_refused(capfd, arguments, *says):
    """Exit status 2, one line on stderr that says this, and every file as it was."""
    before = listing(Path.cwd())
    capfd.readouterr()
    assert main(arguments) == 2
    line = capfd.readouterr().err
    assert line.startswith("possm-lite: ") and line.count("\n") == 1 and line.endswith("\n"), line
    assert "Traceback" not in line
    for words in says:
        assert words in line, line
    assert listing(Path.cwd()) == before


# decode


def test_decode_writes_checkpoint_figures_and_picture(here):
    assert sorted(p.name for p in (here / "first").iterdir()) == ["checkpoint.npz", "decoded.png", "metrics.json"]
    assert (here / "first" / "decoded.png").read_bytes().startswith(b"\x89PNG")
    metrics = json.loads((here / "first" / "metrics.json").read_text())
    assert set(metrics) == SESSION and set(metrics["models"]) == {"possm", "wiener", "gru"}
    assert (metrics["session"], metrics["split"]) == ("simulated-1", "chronological:70/10/20")
    assert (metrics["lag_s"], metrics["bin_width_s"]) == (0.0, 0.05)
    assert metrics["n_train"] + metrics["n_test"] == 11  # of 12 trials, one chooses
    for name, model in metrics["models"].items():
        assert set(model) == FIELDS, name
        assert model["r2"] == pytest.approx(np.mean(model["r2_xy"]), abs=1e-5) and len(model["r2_xy"]) == 2
        assert model["params"] > 0 and 0 < model["step_us_p50"] <= model["step_us_p99"]


def test_decode_prints_a_table_of_three_models_and_writes_json_where_asked(here, capfd):
    assert main(["decode", "recording.npz", "--quick", "--json", "figures.json", "--seed", "5", "--lag", "0.1"]) == 0
    out = capfd.readouterr().out
    for name in ("POSSM", "Wiener filter", "GRU on counts"):
        assert sum(line.startswith(name) for line in out.splitlines()) == 1
    assert "note: Simulated: no animal was recorded." in out
    run = here / "runs" / "simulated-1-1"
    assert sorted(p.name for p in run.iterdir()) == ["checkpoint.npz", "decoded.png", "metrics.json"]
    assert json.loads((here / "figures.json").read_text()) == json.loads((run / "metrics.json").read_text())
    assert json.loads((here / "figures.json").read_text())["lag_s"] == 0.1
    first = listing(run)
    assert main(["decode", "recording.npz", "--epochs", "1", "--backbone", "rnn"]) == 0
    assert sorted(p.name for p in (here / "runs").iterdir()) == ["simulated-1-1", "simulated-1-2"]
    assert listing(run) == first


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone_trains_and_streams(here, capfd, backbone):
    assert main(["decode", "recording.npz", "--epochs", "1", "--backbone", backbone, "--out", "run"]) == 0
    assert load_checkpoint(here / "run" / "checkpoint.npz")[0].config.backbone == backbone
    assert main(["stream", "run"]) == 0
    apart = re.search(r"largest difference to the batch answer  (\S+) mm/s", capfd.readouterr().out)
    assert float(apart[1]) < 1e-2  # of several hundred: float32


def test_several_recordings_make_one_model_and_a_folder_for_each(here, small_recording, capfd):
    other = simulate_session(2, SimulationConfig(n_trials=8, n_units=5)).recording
    other.save(here / "other.npz")
    assert main(["decode", "recording.npz", "other.npz", "--epochs", "1", "--out", "joint", "--json", "all.json"]) == 0
    assert sum(line.startswith("POSSM") for line in capfd.readouterr().out.splitlines()) == 2
    sessions = json.loads((here / "all.json").read_text())["sessions"]
    assert [m["session"] for m in sessions] == ["simulated-1", "simulated-2"]
    for metrics, n_units in zip(sessions, (12, 5), strict=True):
        run = here / "joint" / metrics["session"]
        assert sorted(p.name for p in run.iterdir()) == ["checkpoint.npz", "decoded.png", "metrics.json"]
        assert json.loads((run / "metrics.json").read_text()) == metrics
        model, about = load_checkpoint(run / "checkpoint.npz")
        assert (model.config.n_units, model.config.n_sessions, len(about.unit_ids)) == (n_units, 1, n_units)
        assert main(["stream", str(run)]) == 0
    assert main(["decode", "recording.npz", "other.npz", "--epochs", "1"]) == 0
    assert (here / "runs" / "joint-1" / "simulated-2").is_dir()


def test_two_recordings_of_one_name_are_refused(here, capfd):
    shutil.copy("recording.npz", "again.npz")
    words = "session_id is 'simulated-1' in each"
    assert_refused(capfd, ["decode", "recording.npz", "again.npz"], "recording.npz and again.npz", words)


def test_a_rank_that_torchrun_did_not_give_silences_nothing(monkeypatch, capfd):
    """Schedulers set RANK too; of torchrun's processes only the first tells what is wrong with an option."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    for silent in (False, True):
        with pytest.raises(SystemExit):
            main(["decode", "--epochs", "x"])
        assert bool(capfd.readouterr().err) is not silent
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")


def test_nothing_is_overwritten(here, capfd):
    (here / "file").write_text("mine")
    assert_refused(capfd, ["decode", "recording.npz", "--out", "first"], "first exists already")
    assert_refused(capfd, ["decode", "recording.npz", "--json", "file"], "file exists already")
    assert_refused(capfd, ["decode", "recording.npz", "--out", "file/run"], "file/run cannot be written", "file")
    assert_refused(capfd, ["decode", "recording.npz", "--out", "new", "--json", "new"], "new cannot be both")


def without_spikes(recording):
    return replace(recording, spike_times=[], spike_units=[])


def without_those_of_unit_3(recording):
    kept = recording.spike_units != 3
    return replace(recording, spike_times=recording.spike_times[kept], spike_units=recording.spike_units[kept])


def without_a_trial_of_spikes(recording):
    kept = (recording.spike_times < recording.trials[-1, 0]) | (recording.spike_times >= recording.trials[-1, 1])
    return replace(recording, spike_times=recording.spike_times[kept], spike_units=recording.spike_units[kept])


def without_trials(recording):
    return replace(recording, trials=np.zeros((0, 2)))


def with_trials_of_one_sample(recording):
    """Behaviour 20 times a second, and trials just as long as a bin."""
    starts = 0.04 + 0.05 * np.arange(300)
    return replace(
        recording,
        behavior_times=recording.behavior_times[::50],
        velocity=recording.velocity[::50],
        trials=np.stack([starts, np.r_[starts[1:], starts[-1] + 0.05]], 1),
    )


@pytest.mark.parametrize(
    "change",
    [without_spikes, without_those_of_unit_3, without_a_trial_of_spikes, without_trials, with_trials_of_one_sample],
)
def test_silence_and_other_oddities_are_decoded_like_anything_else(here, small_recording, change):
    change(small_recording).save(here / "odd.npz")
    assert main(["decode", "odd.npz", "--epochs", "1", "--out", "run"]) == 0
    metrics = json.loads((here / "run" / "metrics.json").read_text())
    assert all(np.isfinite(model["r2"]) for model in metrics["models"].values())
    assert main(["stream", "run"]) == 0


# stream


@pytest.mark.parametrize("named", [[], ["recording.npz"]])
def test_stream_replays_and_says_how_fast_and_how_well(here, finished, capfd, named):
    assert main(["stream", "first", *named]) == 0
    out = capfd.readouterr().out
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert all(f"p{q}" in lines["latency"] for q in ("50", "90", "99", "99.9"))
    difference = float(lines["largest difference to the batch answer"].split("  ")[1].split()[0])
    assert difference < 1e-3  # mm/s, of velocities of hundreds
    streamed = float(lines["R²"].split("  ")[1])
    decoded = json.loads((here / "first" / "metrics.json").read_text())["models"]["possm"]["r2"]
    assert streamed == pytest.approx(decoded, abs=0.1)
    assert listing(here) == listing(finished)


# Bad recordings


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"spike_times": put(7, np.nan)}, ("spike_times[7] = nan",)),
        ({"behavior_times": put(3, np.inf)}, ("behavior_times[3] = inf",)),
        ({"velocity": put((5, 1), np.nan)}, ("velocity[5, 1] = nan",)),
        ({"spike_times": lambda t: t[::-1]}, ("spike_times must be sorted: spike_times[1]",)),
        ({"spike_units": put(4, 99)}, ("spike_units must lie in 0..11", "spike_units[4] = 99")),
        ({"trials": put((-1, 1), 1e4)}, ("behavior_times must cover every trial: trials[11]", "10000.000000")),
        ({"spike_units": lambda u: u.astype(float)}, ("spike_units must hold whole numbers, not float64",)),
        ({"spike_times": lambda t: t.astype(str)}, ("spike_times must hold numbers, not <U",)),
        ({"velocity": lambda v: v[:, 0]}, ("velocity must have shape (n, 2)",)),
        ({"spike_times": lambda t: t[:-1]}, ("spike_units must have one entry per spike",)),
    ],
)
def test_a_bad_recording_is_named_with_field_and_value(here, capfd, changes, says):
    rewrite("bad.npz", **changes)
    assert_refused(capfd, ["decode", "bad.npz", "--quick"], "bad.npz: ", *says)
    assert_refused(capfd, ["stream", "first", "bad.npz"], "bad.npz: ", *says)


def test_a_file_that_is_no_recording(here, capfd):
    whole = (here / "recording.npz").read_bytes()
    (here / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (here / "empty.npz").touch()
    (here / "words.npz").write_text("spikes")
    (here / "table.csv").write_text("1,2,3")
    (here / "folder.npz").mkdir()
    for name, says in (
        ("missing.npz", "No such file"),
        ("cut.npz", "damaged"),
        ("empty.npz", "is empty"),
        ("words.npz", "damaged or not an .npz file"),
        ("table.csv", "suffix '.csv'"),
        ("folder.npz", "is a folder"),
    ):
        assert_refused(capfd, ["decode", name, "--quick"], f"{name}: ", says)


class Planted:
    def __reduce__(self):
        return os.mkdir, ("trace",)


def test_pickled_code_in_a_recording_is_not_run(here, capfd):
    arrays = read_arrays("recording.npz") | {"notes": np.array([Planted()], dtype=object)}
    np.savez("hostile.npz", **arrays)
    assert_refused(capfd, ["decode", "hostile.npz", "--quick"], "hostile.npz: notes must hold plain numbers or text")
    assert not Path("trace").exists()
    with np.load("hostile.npz", allow_pickle=True) as trusting:  # the trap is a real one
        trusting["notes"]
    assert Path("trace").exists()


def test_options_that_do_not_fit_the_recording(here, small_recording, capfd):
    without_trials(small_recording).save(here / "whole.npz")
    decode = ["decode", "recording.npz", "--quick"]
    assert_refused(capfd, [*decode, "--bin-width", "5"], "recording.npz: trials must be", "trials[0]", "a bin 5.0 s")
    assert_refused(capfd, ["decode", "whole.npz", "--split", "random"], "whole.npz: split random", "has 0")
    assert_refused(capfd, [*decode, "--behavior", "hand_vel"], "recording.npz: behavior='hand_vel'")


def test_short_trials_that_lie_apart_are_decoded(here, small_recording, capfd):
    start = small_recording.trials[:, 0]
    replace(small_recording, trials=np.stack([start, start + 0.5], 1)).save(here / "short.npz")
    assert main(["decode", "short.npz", "--quick"]) == 0
    assert "R² mean" in capfd.readouterr().out


# Bad runs


def test_a_run_that_is_not_there_or_damaged(here, capfd):
    assert_refused(capfd, ["stream", "nowhere"], "nowhere/checkpoint.npz: cannot be read: No such file")
    assert_refused(capfd, ["stream", "recording.npz"], "recording.npz/checkpoint.npz: cannot be read")
    checkpoint = here / "first" / "checkpoint.npz"
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-100])
    assert_refused(capfd, ["stream", "first"], "first/checkpoint.npz: is damaged")
    checkpoint.write_bytes(whole)
    write_arrays(checkpoint, read_arrays(checkpoint) | {"format": np.array("possm-lite checkpoint 9")})
    assert_refused(capfd, ["stream", "first"], "first/checkpoint.npz: format is 'possm-lite checkpoint 9'")


def test_a_recording_of_other_units(here, small_recording, capfd):
    names = small_recording.unit_ids.tolist()
    replace(small_recording, unit_ids=[*names[:5], "other", *names[6:]]).save(here / "other.npz")
    assert_refused(capfd, ["stream", "first", "other.npz"], "other.npz: unit_ids are not those", "unit_ids[5]")
    replace(small_recording, unit_ids=[*names, "more"]).save(here / "more.npz")
    assert_refused(capfd, ["stream", "first", "more.npz"], "more.npz: unit_ids", "13 against 12", "unit_ids[12]")


def test_the_recording_of_a_run_has_gone(here, capfd):
    checkpoint = here / "first" / "checkpoint.npz"
    about = json.loads(str(read_arrays(checkpoint)["about"]))
    about["trained_on"]["source"] = str(here / "moved.npz")
    write_arrays(checkpoint, read_arrays(checkpoint) | {"about": np.array(json.dumps(about))})
    assert_refused(capfd, ["stream", "first"], f"{here / 'moved.npz'}: cannot be read: No such file")


# Bad options


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--epochs", "0"], "--epochs: must be a whole number"),
        (["--epochs", "2.5"], "--epochs: must be a whole number"),
        (["--split", "nonsense"], "--split: split must be chronological or random"),
        (["--split", "random:50/50"], "--split: split must be"),
        (["--bin-width", "-1"], "--bin-width: must be seconds"),
        (["--bin-width", "nan"], "--bin-width: must be seconds"),
        (["--lag", "inf"], "--lag: must be seconds"),
        (["--seed", "x"], "--seed: must be a whole number"),
        (["--seed", "-1"], "--seed"),
        (["--seed", "9" * 30], "--seed: must be a whole number"),
        (["--seed", "²"], "--seed: must be a whole number"),
        (["--backbone", "transformer"], "--backbone: invalid choice"),
    ],
)
def test_an_option_that_cannot_be_is_refused(here, finished, capfd, option, says):
    with pytest.raises(SystemExit) as caught:
        main(["decode", "recording.npz", *option])
    assert caught.value.code == 2
    assert says in capfd.readouterr().err
    assert listing(here) == listing(finished)


def test_a_real_process_ends_with_status_2_and_one_line(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "possm_lite", "decode", "missing.npz"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr.startswith("possm-lite: missing.npz: cannot be read: ") and ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
