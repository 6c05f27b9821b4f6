"""A resumed training gives the same weights bit for bit; states of other trainings and damaged files are refused."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from possm_lite.decoder import POSSM
from possm_lite.training import CheckpointError, combine_sessions, fit, freeze_backbone, prepare
from possm_lite.training.checkpoint import fingerprint

from .helpers import QUICK, InterruptedCheckpoint, same_weights, simulated, small_possm
from .test_checkpoint import MakesDirectory

CONFIG = replace(QUICK, epochs=4, validations=2)


class DropoutPOSSM(POSSM):
    """Uses torch's generator in training."""

    def forward(self, *args):
        return nn.functional.dropout(super().forward(*args), 0.2, self.training)


def frozen(*sessions):
    return freeze_backbone(small_possm(*sessions))


def with_dropout(*sessions):
    return small_possm(*sessions, kind=DropoutPOSSM)


def make_sessions(*seeds):
    return combine_sessions([prepare(simulated(seed, 3 + seed, n_trials=6)) for seed in seeds])


@pytest.fixture(scope="module")
def session():
    return make_sessions(1)[0]


def train(model, sessions, path, epoch=None, config=CONFIG):
    """The history, or None if interrupted after an epoch."""
    try:
        return fit(model, sessions, config, progress=False, checkpoint=InterruptedCheckpoint(path, epoch))
    except KeyboardInterrupt:
        return None


@pytest.fixture
def path(session, tmp_path):
    """The file of a training interrupted after two of four epochs."""
    assert train(small_possm(session), session, tmp_path / "training.pt", 2) is None
    return tmp_path / "training.pt"


@pytest.mark.parametrize(
    ("create", "seeds", "batch"),
    [
        (frozen, [1], 4),
        (with_dropout, [1], 4),
        (small_possm, [1, 2], 4),
        (small_possm, [1, 2, 3], 2),  # more sessions than slots: each slot has a generator that chooses among its own
    ],
)
def test_resume_gives_the_same_weights(tmp_path, create, seeds, batch):
    sessions, config = make_sessions(*seeds), replace(CONFIG, batch=batch)
    expected = create(*sessions)
    history = fit(expected, sessions, config, progress=False)  # never saved: saving changes no weight
    for epoch in (1, 2, 3, None, None):  # the last finds a finished training
        model = create(*sessions)
        if epoch != 1:
            torch.manual_seed(9)  # a new process has another generator state
        resumed = train(model, sessions, tmp_path / "training.pt", epoch, config)
    assert same_weights(model, expected)
    assert (resumed.loss, resumed.valid_r2) == (history.loss, history.valid_r2) and len(resumed.loss) == 4
    assert not model.training and os.listdir(tmp_path) == ["training.pt"]


def assert_refused(path, session, text="", model=None, config=CONFIG):
    before = path.read_bytes()
    with pytest.raises(CheckpointError) as caught:
        train(model or small_possm(session), session, path, config=config)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and text in message and "\n" not in message, message
    assert path.read_bytes() == before


def test_other_settings_recordings_and_models_are_refused(session, path):
    assert_refused(path, session, "was trained with other settings", config=replace(CONFIG, lr=1e-3))
    assert_refused(path, session, "was trained with other settings", model=small_possm(session, context_bins=5))
    velocity = session.recording.behavior.copy()
    velocity[7, 1] += 1e-9
    assert_refused(path, prepare(replace(session.recording, behavior=velocity)), "was trained with other recordings")


def test_fingerprint_depends_on_data_and_preparation(session):
    recording = session.recording
    preparations = [{"lag_s": 0.01}, {"bin_width_s": 0.04}, {"split": "chronological:40/40/20"}, {"split": "random"}]
    units = {"unit_ids": ["x", *recording.unit_ids[1:]]}
    changes = [{"session_id": "another"}, units, {"spike_units": np.roll(recording.spike_units, 1)}]
    others = [prepare(recording, **preparation) for preparation in preparations]
    others += [prepare(replace(recording, **change)) for change in changes]
    assert len({fingerprint(s) for s in (session, *others)}) == 1 + len(others)
    assert fingerprint(prepare(recording)) == fingerprint(session)


def test_damaged_states_are_refused(session, path, tmp_path):
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    for damaged in (b"", content[:-100], bytes(flipped)):
        path.write_bytes(damaged)
        assert_refused(path, session, "is damaged")
    path.write_bytes(content)
    state = torch.load(path, weights_only=True)
    torch.save(state | {"optimizer": {}}, path)
    assert_refused(path, session, "is damaged")
    torch.save({"model": MakesDirectory(tmp_path / "trace")}, path)
    assert_refused(path, session, "is damaged")
    assert not (tmp_path / "trace").exists()
