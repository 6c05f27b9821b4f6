"""Checkpoints come back exactly; invalid files are refused with one line, and nothing in them is executed."""

import json
import os
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes.arrays import read_arrays, write_arrays
from possm_lite.spikes.io.contents import Selection
from possm_lite.training import CheckpointError, TrainedOn, load_checkpoint, prepare, save_checkpoint

from . import helpers
from .helpers import change_arrays, change_metadata

CONFIG = POSSMConfig(n_units=5, dim=8, head_dim=8, n_freqs=2, hidden=8, backbone="lstm", n_layers=2)
TRAINED_ON = TrainedOn(
    source="/somewhere/Größe.npz",
    selection=Selection(("hand_vel", "force"), ("x", "1"), "quality == 'good'", "duration > 0.3"),
    session_id="a session",
    unit_ids=("a", "b", "c", "d", "ë"),
    behavior_name="hand_vel + force",
    behavior_columns=("x", "force"),
    behavior_unit="mm/s",
    lag_s=0.1,
    split="random:60/20/20",
    seed=3,
)


class MakesDirectory:
    """Creates a directory when unpickled: a trace of executed code."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def make_model() -> POSSM:
    model = POSSM(CONFIG).eval()
    model.behavior_mean[1], model.behavior_std[1] = torch.tensor([1.5, -2.0]), torch.tensor([30.0, 0.1])
    return model


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    save_checkpoint(tmp_path / "checkpoint.npz", make_model(), TRAINED_ON)
    return tmp_path / "checkpoint.npz"


def assert_refused(path, text=""):
    helpers.assert_refused(path, text, load_checkpoint)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_checkpoint_round_trip(tmp_path, dtype):
    model = make_model().to(dtype)
    save_checkpoint(tmp_path / "a.npz", model, TRAINED_ON)
    torch.manual_seed(1)  # the loaded weights do not depend on it
    loaded, trained_on = load_checkpoint(tmp_path / "a.npz")
    assert loaded.config == CONFIG and trained_on == TRAINED_ON and not loaded.training
    state = loaded.state_dict()
    assert {"behavior_mean", "behavior_std", "rotation.omega"} <= set(state) == set(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == state[name].dtype and torch.equal(tensor, state[name]), name
    assert all(p.requires_grad for p in loaded.parameters())
    assert [f.name for f in tmp_path.iterdir()] == ["a.npz"]
    metadata = json.loads(str(read_arrays(tmp_path / "a.npz")["about"]))
    assert metadata["config"] == asdict(CONFIG)
    assert metadata["trained_on"]["unit_ids"] == list(TRAINED_ON.unit_ids)


def test_checkpoint_of_version_0_1_loads(checkpoint):
    """Before selections: `behavior` was the name of a series, what was decoded a velocity in the plane, one reading."""
    config = replace(CONFIG, reading="softmax")
    save_checkpoint(checkpoint, POSSM(config), TRAINED_ON)

    def change(metadata):
        trained_on = metadata["trained_on"]
        for name in ("selection", "behavior_name", "behavior_columns"):
            del trained_on[name]
        trained_on |= {"behavior": "hand_vel", "velocity_unit": trained_on.pop("behavior_unit")}
        del metadata["config"]["reading"]

    change_metadata(checkpoint, change)
    expected = {"selection": Selection("hand_vel"), "behavior_name": "velocity", "behavior_columns": ("x", "y")}
    model, trained_on = load_checkpoint(checkpoint)
    assert model.config == config and trained_on == replace(TRAINED_ON, **expected)
    change_metadata(checkpoint, lambda metadata: metadata["trained_on"].update(behavior=""))
    assert load_checkpoint(checkpoint)[1].selection == Selection()


def test_other_files_are_refused(tmp_path):
    assert_refused(tmp_path / "none.npz", "No such file")
    assert_refused(tmp_path, "is a folder")
    write_arrays(tmp_path / "recording.npz", {"spike_times": np.zeros(3)})
    assert_refused(tmp_path / "recording.npz", "format is missing")


def test_truncated_and_changed_bytes_are_refused(checkpoint):
    content = checkpoint.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    for damaged in (*(content[: int(size * len(content))] for size in (0.0, 0.01, 0.5, 0.9, 0.999)), flipped):
        checkpoint.write_bytes(damaged)
        assert_refused(checkpoint)


@pytest.mark.parametrize("name", ["format", "about", "model.readout.weight", "model.extra"])
def test_pickled_code_is_not_executed(tmp_path, checkpoint, name):
    trace, arrays = tmp_path / "trace", read_arrays(checkpoint)
    np.savez(checkpoint, **arrays | {name: np.array([MakesDirectory(trace)], dtype=object)})
    assert_refused(checkpoint, name)
    assert not trace.exists()
    with np.load(checkpoint, allow_pickle=True) as trusted:
        trusted[name]
    assert trace.exists()  # the file does contain executable code
    trace.rmdir()
    torch.save({"model": MakesDirectory(trace)}, checkpoint)
    assert_refused(checkpoint)
    assert zipfile.is_zipfile(checkpoint) and not trace.exists()


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("format", np.array("possm-lite checkpoint 2"), "format is 'possm-lite checkpoint 2'"),
        ("format", np.array(1), "format is missing"),
        ("about", None, "about is missing"),
        ("model.readout.bias", None, "readout.bias is missing"),
        ("model.extra", np.zeros(2), "model.extra is unknown"),
        ("model.readout.bias", np.zeros(3, np.float32), "readout.bias must be (2,) of float32, not (3,) of float32"),
        ("model.readout.bias", np.zeros(2), "readout.bias must be (2,) of float32, not (2,) of float64"),
        ("model.readout.bias", np.array(["a", "b"]), "not (2,) of <U1"),
        ("model.readout.bias", np.array([0, np.nan], np.float32), "readout.bias must be finite"),
        ("model.rotation.omega", np.ones(2, np.float32), "rotation.omega must be (2,) of float64"),
    ],
)
def test_invalid_arrays_are_named(checkpoint, name, array, text):
    change_arrays(checkpoint, {name: array})
    assert_refused(checkpoint, text)


def test_other_number_types_are_refused(checkpoint):
    arrays = read_arrays(checkpoint)
    for dtype in map(np.dtype, ("f2", ">f4", "g", "c8", "i4")):
        if dtype != np.float64:  # long double is double on some platforms
            change_arrays(checkpoint, {n: a.astype(dtype) for n, a in arrays.items() if n.startswith("model.")})
            assert_refused(checkpoint, f"of {dtype}")


@pytest.mark.parametrize(
    "metadata",
    [
        *("", "{", "null", "[]", "7", '"config"', "{}", "[" * 100_000, '{"config": ' * 5_000),
        '{"config": 3, "trained_on": {}}',
        '{"config": {"n_units": 5}, "trained_on": []}',
        '{"config": {"n_units": 5, "extra": 1}, "trained_on": {}}',
        '{"config": {"n_units": 1e3}, "trained_on": {}}',
        '{"config": {"n_units": ' + "9" * 5000 + '}, "trained_on": {}}',
    ],
)
def test_damaged_metadata_is_refused(checkpoint, metadata):
    change_arrays(checkpoint, {"about": np.array(metadata)})
    assert_refused(checkpoint, "about is invalid")


@pytest.mark.parametrize(
    ("part", "changes", "text"),
    [
        ("config", {"n_units": 6}, "unit_ids has 5 names, the model 6"),
        ("config", {"backbone": "gru"}, "backbone"),
        ("config", {"backbone": "os.system"}, "backbone must be one of"),
        ("config", {"bin_width_s": -1}, "bin_width_s must"),
        ("config", {"bin_width_s": 1e300}, "bin_width_s must lie in"),
        ("config", {"dim": 2**40}, "dim must lie in"),
        ("config", {"n_units": 10**30}, "n_units must lie in"),
        ("config", {"context_bins": 10**13}, "context_bins must lie in"),
        ("config", {"dim": 4096, "expansion": 100_000}, "must be"),  # 7 TB, never allocated
        ("trained_on", {"unit_ids": ["a"]}, "unit_ids has 1 names, the model 5"),
        ("trained_on", {"unit_ids": "abcde"}, "unit_ids is 'abcde'"),
        ("trained_on", {"lag_s": "0.1"}, "lag_s is '0.1'"),
        ("trained_on", {"lag_s": float("nan")}, "lag_s must lie in"),
        ("trained_on", {"seed": 1.5}, "seed is 1.5"),
        ("trained_on", {"split": "nonsense"}, "split must be"),
        ("trained_on", {"source": None}, "source is None"),
        ("trained_on", {"selection": {"code": "exit()"}}, "code"),
        ("trained_on", {"behavior_columns": ["x"]}, "behavior_columns has 1 names, the model 2"),
        ("trained_on", {"extra": 1}, "extra"),
    ],
)
def test_invalid_metadata_is_named(checkpoint, part, changes, text):
    change_metadata(checkpoint, lambda metadata: metadata[part].update(changes))
    assert_refused(checkpoint, text)


@pytest.mark.parametrize(("module", "function"), [(np, "savez_compressed"), (os, "replace")])
def test_failed_save_leaves_the_old_file(checkpoint, monkeypatch, module, function):
    content = checkpoint.read_bytes()

    def no_space(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, function, no_space)
    with pytest.raises(CheckpointError, match="could not be written: No space left on device"):
        save_checkpoint(checkpoint, make_model(), TRAINED_ON)
    assert checkpoint.read_bytes() == content and os.listdir(checkpoint.parent) == ["checkpoint.npz"]
    with pytest.raises(CheckpointError, match="none/a.npz: could not be written"):
        save_checkpoint(checkpoint.parent / "none" / "a.npz", make_model(), TRAINED_ON)


@pytest.mark.parametrize(
    ("config", "trained_on", "text"),
    [
        ({}, {"lag_s": 20.0}, "lag_s must lie in"),
        ({"hidden": 8192}, {}, "hidden must lie in"),
        ({"n_units": 10}, {}, "unit_ids has 5 names, the model 10"),  # of two sessions
    ],
)
def test_what_could_not_be_read_again_is_not_saved(checkpoint, config, trained_on, text):
    content = checkpoint.read_bytes()
    model = POSSM(replace(CONFIG, **config))
    with pytest.raises(CheckpointError, match=text):
        save_checkpoint(checkpoint, model, replace(TRAINED_ON, **trained_on))
    assert checkpoint.read_bytes() == content


def test_weights_that_could_not_be_read_again_are_not_saved(tmp_path):
    model = make_model()
    with pytest.raises(CheckpointError, match="of float32, not .* of float16"):
        save_checkpoint(tmp_path / "a.npz", make_model().half(), TRAINED_ON)
    model.readout.bias.data[0] = torch.nan
    with pytest.raises(CheckpointError, match="readout.bias must be finite"):
        save_checkpoint(tmp_path / "a.npz", model, TRAINED_ON)
    assert os.listdir(tmp_path) == []


def test_a_session_says_what_a_decoder_was_trained_on(tmp_path, small_recording):
    session = prepare(small_recording)
    model = POSSM(POSSMConfig(small_recording.n_units, dim=8, head_dim=8, n_freqs=2, hidden=8))
    save_checkpoint(tmp_path / "a.npz", model, TrainedOn.from_session(session))
    assert load_checkpoint(tmp_path / "a.npz")[1].unit_ids == tuple(small_recording.unit_ids.tolist())
    with pytest.raises(TypeError, match=r"must be TrainedOn.from_session\(session\), not a Session"):
        save_checkpoint(tmp_path / "a.npz", model, session)


def test_numbers_of_numpy_are_numbers(tmp_path):
    save_checkpoint(tmp_path / "a.npz", make_model(), replace(TRAINED_ON, seed=np.int64(3), lag_s=np.float32(0.5)))
    assert load_checkpoint(tmp_path / "a.npz")[1] == replace(TRAINED_ON, lag_s=0.5)
