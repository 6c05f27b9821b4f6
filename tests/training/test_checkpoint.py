"""Checkpoints come back exactly; invalid files are refused with one line, and nothing in them is executed."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings.arrays import write_arrays
from possm_lite.recordings.formats.contents import Selection
from possm_lite.training import CheckpointError, TrainedOn, load_checkpoint, prepare, save_checkpoint

from .helpers import change_metadata

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
    model.behavior_mean[1] = torch.tensor([1.5, -2.0])
    model.behavior_std[1] = torch.tensor([30.0, 0.1])
    return model


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    save_checkpoint(tmp_path / "checkpoint.npz", make_model(), TRAINED_ON)
    return tmp_path / "checkpoint.npz"


def assert_refused(path, text=""):
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and text in message and "\n" not in message, message


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_checkpoint_round_trip(tmp_path, dtype):
    model = make_model().to(dtype)
    save_checkpoint(tmp_path / "a.npz", model, replace(TRAINED_ON, seed=np.int64(3)))
    torch.manual_seed(1)  # the loaded weights do not depend on it
    loaded, trained_on = load_checkpoint(tmp_path / "a.npz")
    assert loaded.config == CONFIG and trained_on == TRAINED_ON and not loaded.training
    state = loaded.state_dict()
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == state[name].dtype and torch.equal(tensor, state[name]), name
    assert all(p.requires_grad for p in loaded.parameters())
    assert os.listdir(tmp_path) == ["a.npz"]


def test_other_and_damaged_files_are_refused(tmp_path, checkpoint):
    assert_refused(tmp_path / "none.npz", "No such file")
    write_arrays(tmp_path / "recording.npz", {"spike_times": np.zeros(3)})
    assert_refused(tmp_path / "recording.npz", "is not a decoder ('possm-lite checkpoint 1')")
    content = checkpoint.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    for damaged in (b"", content[:-10], flipped):
        checkpoint.write_bytes(damaged)
        assert_refused(checkpoint)


@pytest.mark.parametrize(
    ("part", "changes", "text"),
    [
        ("config", {"dim": 4096, "expansion": 100_000}, "size mismatch"),  # 7 TB, never allocated
        ("trained_on", {"selection": {"code": "exit()"}}, "code"),
    ],
)
def test_invalid_metadata_is_refused(checkpoint, part, changes, text):
    change_metadata(checkpoint, lambda metadata: metadata[part].update(changes))
    assert_refused(checkpoint, text)


def test_names_of_other_units_are_not_saved(tmp_path, small_recording):
    with pytest.raises(CheckpointError, match="unit_ids has 12 names, the model 5"):
        save_checkpoint(tmp_path / "a.npz", make_model(), TrainedOn.from_session(prepare(small_recording)))
    assert os.listdir(tmp_path) == []
