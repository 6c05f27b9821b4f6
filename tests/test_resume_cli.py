"""A run that was cut short goes on: the same decoder in the end, nothing left over; or one line says why not."""

import contextlib
import io
import json
import math
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from possm_lite import commands
from possm_lite.cli import main
from possm_lite.spikes import simulate_session
from possm_lite.spikes.arrays import read_arrays
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.training.resume import TrainingCheckpoint

RESULTS = ["checkpoint.npz", "decoded.png", "metrics.json"]


class Interrupting(TrainingCheckpoint):
    """Saves after every epoch; with the second comes Ctrl-C."""

    def __init__(self, path):
        super().__init__(path, share=math.inf)

    def keep(self, training, *args, **options):
        super().keep(training, *args, **options)
        if len(training.history.loss) == 2:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`a.npz`, `b.npz`, the runs `one` and `two` of the first and of both, and `cut` of the first, cut short."""
    folder = tmp_path_factory.mktemp("runs")
    for n, name in enumerate("ab"):
        simulate_session(n, SimulationConfig(n_trials=8, n_units=4 + n)).recording.save(folder / f"{name}.npz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*decode("a.npz"), "--out", "one", "--json", "one.json"]) == 0
        assert main([*decode("a.npz", "b.npz"), "--out", "two"]) == 0
        patch.setattr(commands, "TrainingCheckpoint", Interrupting)
        assert main([*decode("a.npz"), "--out", "cut", "--json", "cut.json"]) == 130
    return folder


def decode(*recordings):
    return ["decode", *recordings, "--epochs", "3", "--backbone", "rnn", "--lag", "-0.05", "--seed", "4"]


@pytest.fixture
def here(folder, tmp_path, monkeypatch) -> Path:
    shutil.copytree(folder, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    for unfinished in (tmp_path / "here").glob("*/unfinished.json"):  # it says where the recordings are
        unfinished.write_text(unfinished.read_text().replace(str(folder), str(tmp_path / "here")))
    return tmp_path / "here"


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def assert_same_decoder(one: Path, other: Path):
    ours, theirs = (read_arrays(run / "checkpoint.npz") for run in (one, other))
    assert list(ours) == list(theirs)
    for name in ours.keys() - {"about"}:  # it says where the recording is
        assert ours[name].tobytes() == theirs[name].tobytes(), name


def assert_refused(capfd, arguments, *says):
    before = listing(Path.cwd())
    capfd.readouterr()
    assert main(arguments) == 2
    line = capfd.readouterr().err
    assert line.startswith("possm-lite: ") and line.count("\n") == 1, line
    for words in says:
        assert words in line, line
    assert listing(Path.cwd()) == before


# Going on


def test_a_run_goes_on_from_anywhere_with_the_options_it_was_started_with(here, tmp_path, monkeypatch, capfd):
    assert names(here / "cut") == ["training.npz", "unfinished.json"]
    elsewhere = tmp_path / "else" / "where"
    elsewhere.mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    assert main(["decode", "--resume", "../../here/cut"]) == 0
    assert names(here / "cut") == RESULTS and list(elsewhere.iterdir()) == []
    assert_same_decoder(here / "one", here / "cut")
    metrics = json.loads((here / "cut" / "metrics.json").read_text())
    assert metrics == json.loads((here / "cut.json").read_text()) and metrics["lag_s"] == -0.05
    whole = json.loads((here / "one" / "metrics.json").read_text())
    assert [m["r2"] for m in metrics["models"].values()] == [m["r2"] for m in whole["models"].values()]
    assert "../../here/cut: checkpoint.npz, metrics.json, decoded.png" in capfd.readouterr().out


@pytest.mark.parametrize("quick", [True, False])
def test_an_interrupt_says_how_to_go_on(here, monkeypatch, capfd, quick):
    arguments = ["decode", "a.npz", "b.npz", "--quick"] if quick else decode("a.npz", "b.npz")
    with monkeypatch.context() as patch:
        patch.setattr(commands, "TrainingCheckpoint", Interrupting)
        assert main([*arguments, "--out", "my run"]) == 130
    assert names(here / "my run") == ["training.npz", "unfinished.json"]
    said = capfd.readouterr().err.splitlines()[-1]
    assert said == "possm-lite: interrupted; to go on: possm-lite decode --resume 'my run'"
    assert main(shlex.split(said.split("possm-lite ")[-1])) == 0
    for session in ("simulated-0", "simulated-1"):
        assert names(here / "my run" / session) == RESULTS
        if not quick:
            assert_same_decoder(here / "two" / session, here / "my run" / session)
    assert names(here / "my run") == ["simulated-0", "simulated-1"]


def test_an_interrupt_before_there_is_anything_leaves_nothing(here, monkeypatch, capfd):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "load_recording", interrupt)
    before = listing(here)
    assert main([*decode("a.npz"), "--out", "new"]) == 130
    assert capfd.readouterr().err == "possm-lite: interrupted; nothing was written\n"
    assert listing(here) == before and not (here / "new").exists()


def test_before_the_first_epoch_a_run_starts_again(here):
    (here / "cut" / "training.npz").unlink()
    assert main(["decode", "--resume", "cut"]) == 0
    assert_same_decoder(here / "one", here / "cut")


def test_what_was_being_written_is_swept_away(here):
    (here / "cut" / ".0f.partial").write_bytes(b"half")
    (here / "cut" / ".1f.partial").mkdir()
    (here / "cut" / ".1f.partial" / "checkpoint.npz").write_bytes(b"half")
    (here / "cut" / "checkpoint.npz").write_bytes(b"whole, but not all of the results were there")
    assert main(["decode", "--resume", "cut"]) == 0
    assert names(here / "cut") == RESULTS
    assert_same_decoder(here / "one", here / "cut")


def test_runs_that_start_at_once_get_folders_of_their_own(here, monkeypatch):
    first, other = commands.next_folder, []

    def slowly(parent, name):
        folder = first(parent, name)
        if not other:  # between choosing a name and taking it
            other.append(folder)
            folder.mkdir(parents=True)
        return folder

    monkeypatch.setattr(commands, "next_folder", slowly)
    assert main(["decode", "a.npz", "--epochs", "1"]) == 0
    assert names(here / "runs" / "simulated-0-1") == [] and names(here / "runs" / "simulated-0-2") == RESULTS


# What is refused


def test_there_is_nothing_to_resume(here, capfd):
    (here / "empty").mkdir()
    assert_refused(capfd, ["decode", "--resume", "one"], "one: is finished; there is nothing to resume")
    assert_refused(capfd, ["decode", "--resume", "two"], "two: is finished")
    for name in ("empty", "nowhere", "a.npz"):
        assert_refused(capfd, ["decode", "--resume", name], f"{name}: is no run; there is nothing to resume")


def test_a_recording_that_changed_is_refused(here, capfd):
    shutil.copy("b.npz", "a.npz")
    assert_refused(capfd, ["decode", "--resume", "cut"], "cut/training.npz: was trained on other recordings")
    (here / "a.npz").unlink()
    assert_refused(capfd, ["decode", "--resume", "cut"], f"{here / 'a.npz'}: cannot be read: No such file")


def test_a_state_that_is_damaged_is_refused(here, capfd):
    state = here / "cut" / "training.npz"
    state.write_bytes(state.read_bytes()[:-100])
    assert_refused(capfd, ["decode", "--resume", "cut"], "cut/training.npz: is damaged")


@pytest.mark.parametrize(
    "command",
    [
        "",
        "{",
        "7",
        "[7]",
        "null",
        '["--epochs=0"]',
        '["--epochs=x"]',
        '["--help"]',
        '["stream"]',
        '["--nonsense"]',
        '"ab"',
    ],
)
def test_a_command_that_is_damaged_is_refused(here, capfd, command):
    (here / "cut" / "unfinished.json").write_text(command)
    assert_refused(capfd, ["decode", "--resume", "cut"])


def test_the_file_of_json_is_not_overwritten(here, capfd):
    (here / "cut.json").write_text("mine")
    assert_refused(capfd, ["decode", "--resume", "cut"], "cut.json exists already")


def test_other_options_beside_resume_are_refused(here, capfd):
    before = listing(here)
    for more in (["a.npz"], ["--epochs", "4"], ["--quick"], ["--out", "new"], ["--json", "new.json"]):
        with pytest.raises(SystemExit) as caught:
            main(["decode", "--resume", "cut", *more])
        assert caught.value.code == 2
        assert "--resume goes on with the recordings and options of the run" in capfd.readouterr().err
    assert listing(here) == before


def test_a_folder_that_is_unfinished_is_not_started_anew(here, capfd):
    arguments = [*decode("a.npz"), "--out", "cut"]
    assert_refused(capfd, arguments, "cut exists already", "Go on with --resume cut, or choose another name")


# A disk that is full


@pytest.mark.parametrize("kilobytes", [0, 4, 1000])
def test_a_full_disk_loses_nothing(here, kilobytes):
    """The limit on the size of a file stands for the disk: a write beyond it fails in the middle."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = listing(here)
    for arguments in (["decode", "--resume", "cut"], [*decode("a.npz"), "--out", "new"]):
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * kilobytes, limits[1]))
                assert main(arguments) == 2
            assert said.getvalue().count("possm-lite: ") == 1 and ": could not be written: " in said.getvalue()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    left = listing(here)
    assert {name: there for name, there in left.items() if not name.startswith("new")} == before
    assert [name for name in left if name.startswith("new")] == ["new/unfinished.json"] * (kilobytes > 0)
    assert main(["decode", "--resume", "cut"]) == 0
    assert_same_decoder(here / "one", here / "cut")
    assert np.isfinite(json.loads((here / "cut" / "metrics.json").read_text())["models"]["possm"]["r2"])
