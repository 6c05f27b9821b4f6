"""Checkpoints: what is saved comes back exactly, what is no checkpoint is refused in one line, and nothing is run."""

import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes.arrays import read_arrays, write_arrays
from possm_lite.training import CheckpointError, TrainedOn, load_checkpoint, save_checkpoint

CONFIG = POSSMConfig(n_units=5, dim=8, head_dim=8, n_freqs=2, hidden=8, backbone="lstm", n_layers=2, query="per_ms")
TRAINED_ON = TrainedOn(
    source="/somewhere/Größe.npz",
    behavior="",
    session_id="a session",
    unit_ids=("a", "b", "c", "d", "ë"),
    velocity_unit="mm/s",
    lag_s=0.1,
    split="random:60/20/20",
    seed=3,
)


class Planted:
    """Unpickled, it makes a file: the trace of code that was run."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def make_model() -> POSSM:
    model = POSSM(CONFIG).eval()
    model.velocity_mean[1], model.velocity_std[1] = torch.tensor([1.5, -2.0]), torch.tensor([30.0, 0.1])
    return model


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    save_checkpoint(tmp_path / "checkpoint.npz", make_model(), TRAINED_ON)
    return tmp_path / "checkpoint.npz"


def changed(path, **changes):
    """The checkpoint with some arrays replaced, and those that are None left out; dots of names are written as __."""
    arrays = read_arrays(path) | {name.replace("__", "."): array for name, array in changes.items()}
    write_arrays(path, {name: array for name, array in arrays.items() if array is not None})


def change_about(path, part, **changes):
    about = json.loads(str(read_arrays(path)["about"]))
    changed(path, about=np.array(json.dumps(about | {part: about[part] | changes})))


def assert_refused(path, says=""):
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < len(str(path)) + 400, message
    assert says in message, message


# Round trips


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_comes_back_exactly(tmp_path, dtype):
    model = make_model().to(dtype)
    save_checkpoint(tmp_path / "a.npz", model, TRAINED_ON)
    again, trained_on = load_checkpoint(tmp_path / "a.npz")
    assert again.config == CONFIG and trained_on == TRAINED_ON and not again.training
    theirs = again.state_dict()
    assert {"velocity_mean", "velocity_std", "rotation.omega"} <= set(theirs) == set(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == theirs[name].dtype and torch.equal(tensor, theirs[name]), name
    assert [f.name for f in tmp_path.iterdir()] == ["a.npz"]


def test_a_loaded_model_does_not_depend_on_the_seed(checkpoint):
    torch.manual_seed(1)
    one, _ = load_checkpoint(checkpoint)
    torch.manual_seed(2)
    other, _ = load_checkpoint(checkpoint)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


# Files that are no checkpoint


def test_a_missing_file_a_folder_an_empty_file_and_another_archive(tmp_path):
    assert_refused(tmp_path / "none.npz", "No such file")
    assert_refused(tmp_path, "is a folder")
    (tmp_path / "empty.npz").touch()
    assert_refused(tmp_path / "empty.npz", "is empty")
    (tmp_path / "text.npz").write_text("velocity")
    assert_refused(tmp_path / "text.npz", "damaged or not an .npz")
    write_arrays(tmp_path / "recording.npz", {"spike_times": np.zeros(3)})
    assert_refused(tmp_path / "recording.npz", "format is missing")


def test_another_version_is_named(checkpoint):
    changed(checkpoint, format=np.array("possm-lite checkpoint 2"))
    assert_refused(checkpoint, "format is 'possm-lite checkpoint 2', this version reads 'possm-lite checkpoint 1'")


@pytest.mark.parametrize("version", [np.array(1), np.array(["possm-lite checkpoint 1"]), np.array(b"1"), None])
def test_a_version_that_is_no_text(checkpoint, version):
    changed(checkpoint, format=version)
    assert_refused(checkpoint, "format is missing or no text")


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file(checkpoint, share):
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: int(share * len(whole))])
    assert_refused(checkpoint)


def test_a_flipped_byte_in_the_weights(checkpoint):
    whole = bytearray(checkpoint.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    checkpoint.write_bytes(whole)
    assert_refused(checkpoint)


@pytest.mark.parametrize("name", ["format", "about", "model.readout.weight", "model.planted"])
def test_pickled_code_is_refused_and_not_run(tmp_path, checkpoint, name):
    trace, arrays = tmp_path / "trace", read_arrays(checkpoint)
    np.savez(checkpoint, **arrays | {name: np.array([Planted(trace)], dtype=object)})
    assert_refused(checkpoint, name)
    assert not trace.exists()
    with np.load(checkpoint, allow_pickle=True) as trusting:  # the trap is a real one
        trusting[name]
    assert trace.exists()


def test_a_bare_pickle_is_refused_and_not_run(tmp_path):
    trace, path = tmp_path / "trace", tmp_path / "checkpoint.npz"
    torch.save({"model": Planted(trace)}, path)
    assert zipfile.is_zipfile(path)
    assert_refused(path)
    assert not trace.exists()


# Weights that do not fit


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model__readout__bias": None}, "readout.bias is missing"),
        ({"model__surplus": np.zeros(2)}, "surplus is not known"),
        (
            {"model__readout__bias": np.zeros(3, np.float32)},
            "readout.bias must be (2,) of float32, not (3,) of float32",
        ),
        ({"model__readout__bias": np.zeros(2)}, "readout.bias must be (2,) of float32, not (2,) of float64"),
        ({"model__readout__bias": np.zeros(2, np.int32)}, "not (2,) of int32"),
        ({"model__readout__bias": np.array(["a", "b"])}, "not (2,) of <U1"),
        ({"model__readout__bias": np.array([0, np.nan], np.float32)}, "readout.bias holds a number that is not finite"),
        ({"model__velocity_std": np.full((2, 2), np.inf, np.float32)}, "velocity_std holds a number"),
        ({"model__rotation__omega": np.ones(2, np.float32)}, "rotation.omega must be (2,) of float64"),
    ],
)
def test_weights_that_do_not_fit_are_named(checkpoint, changes, says):
    changed(checkpoint, **changes)
    assert_refused(checkpoint, says)


@pytest.mark.parametrize("dtype", ["f2", ">f4", "g", "c8", "i4"])
def test_numbers_that_torch_does_not_take_are_refused(checkpoint, dtype):
    if np.dtype(dtype) == np.float64:
        pytest.skip("a long double is a double here")
    weights = {n: a.astype(dtype) for n, a in read_arrays(checkpoint).items() if n.startswith("model.")}
    changed(checkpoint, **weights)
    assert_refused(checkpoint, "readout.weight must be of float32 or float64")


# A description that does not fit


@pytest.mark.parametrize(
    "about",
    [
        "",
        "{",
        "null",
        "[]",
        "7",
        '"config"',
        "{}",
        '{"config": 3, "trained_on": {}}',
        '{"config": {"n_units": 5}}',
        '{"config": {"n_units": 5}, "trained_on": []}',
        '{"config": {"n_units": 5, "surplus": 1}, "trained_on": {}}',
        '{"config": {"n_units": 1e3}, "trained_on": {}}',
        '{"config": {"n_units": ' + "9" * 5000 + '}, "trained_on": {}}',
        "[" * 100_000,
        '{"config": ' * 5_000,
    ],
)
def test_a_hostile_description_is_refused(checkpoint, about):
    changed(checkpoint, about=np.array(about))
    assert_refused(checkpoint, "about")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"n_units": 6}, "unit_embedding.weight must be (7, 8)"),
        ({"backbone": "gru"}, "backbone"),
        ({"backbone": "os.system"}, "backbone must be one of"),
        ({"bin_width_s": -1}, "bin_width_s must be a positive number"),
        ({"bin_width_s": 1e300}, "bin_width_s must lie between"),
        ({"bin_width_s": 1e-12}, "bin_width_s must lie between"),
        ({"dim": 2**40}, "dim must be at most"),
        ({"hidden": 10**18}, "hidden must be at most"),
        ({"n_units": 10**30}, "n_units must be at most"),
        ({"n_layers": 10**6}, "n_layers must be at most"),
        ({"context_bins": 10**13}, "context_bins must be at most"),
        ({"dim": 100_000, "expansion": 100_000}, "must be"),  # sizes of 2 PB, never made
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_before_it_is_built(checkpoint, changes, says):
    change_about(checkpoint, "config", **changes)
    assert_refused(checkpoint, says)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"unit_ids": ["a"]}, "unit_ids has 1 names for 5 units"),
        ({"unit_ids": "abcde"}, "unit_ids is 'abcde'"),
        ({"lag_s": "0.1"}, "lag_s is '0.1'"),
        ({"lag_s": float("nan")}, "lag_s must lie within"),
        ({"lag_s": 1e308}, "lag_s must lie within"),
        ({"lag_s": 10**400}, "lag_s must lie within"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"split": "nonsense"}, "split must be"),
        ({"source": None}, "source is None"),
        ({"surplus": 1}, "surplus"),
    ],
)
def test_what_it_was_trained_on_is_checked(checkpoint, changes, says):
    change_about(checkpoint, "trained_on", **changes)
    assert_refused(checkpoint, says)


# Saving


@pytest.mark.parametrize("fails", ["np.savez_compressed", "os.replace"])
def test_a_save_that_fails_leaves_the_old_file(checkpoint, monkeypatch, fails):
    old = checkpoint.read_bytes()

    def no_space(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr({"np": np, "os": os}[fails.split(".")[0]], fails.split(".")[1], no_space)
    with pytest.raises(CheckpointError, match="could not be written: No space left on device"):
        save_checkpoint(checkpoint, make_model(), TRAINED_ON)
    assert checkpoint.read_bytes() == old and os.listdir(checkpoint.parent) == ["checkpoint.npz"]


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(CheckpointError, match="none/a.npz: could not be written"):
        save_checkpoint(tmp_path / "none" / "a.npz", make_model(), TRAINED_ON)


def test_the_description_is_readable_json(checkpoint):
    about = json.loads(str(read_arrays(checkpoint)["about"]))
    assert about["config"] == asdict(CONFIG)
    assert about["trained_on"]["unit_ids"] == list(TRAINED_ON.unit_ids)
