"""A resumed training gives the same weights bit for bit; states of other trainings and damaged files are refused."""

import os
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn

from possm_lite.decoder import POSSM
from possm_lite.spikes.arrays import read_arrays
from possm_lite.training import TrainingCheckpoint, combine_sessions, fit, freeze_backbone, prepare
from possm_lite.training.checkpoint import fingerprint
from possm_lite.training.distributed import ProcessGroup

from . import helpers
from .helpers import QUICK, InterruptedCheckpoint, change_arrays, change_metadata, same_weights, simulated, small_possm

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
    assert train(small_possm(session), session, tmp_path / "training.npz", 2) is None
    return tmp_path / "training.npz"


@pytest.mark.parametrize(
    ("create", "seeds", "batch"),
    [
        (small_possm, [1], 4),
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
        resumed = train(model, sessions, tmp_path / "training.npz", epoch, config)
    assert same_weights(model, expected)
    assert (resumed.loss, resumed.valid_r2) == (history.loss, history.valid_r2) and len(resumed.loss) == 4
    assert not model.training and os.listdir(tmp_path) == ["training.npz"]


def test_training_seconds_are_added(session, path):
    change_metadata(path, lambda metadata: metadata["history"].update(seconds=1000.0))
    assert 1000.0 < train(small_possm(session), session, path).seconds < 1100.0


def test_saving_takes_one_percent_of_the_time(monkeypatch, tmp_path):
    """Epochs of one second and saves of two: after five seconds, then every two hundred, and at the end."""
    now = [1000.0]
    monkeypatch.setattr("possm_lite.training.checkpoint.time.perf_counter", lambda: now[0])

    class SlowState:
        def pack(self):
            now[0] += 2.0
            saved.append(epoch)
            return {"epoch": np.array(epoch)}

    checkpoint, saved = TrainingCheckpoint(tmp_path / "training.npz"), []
    for epoch in range(1, 451):
        now[0] += 1.0
        checkpoint.save_if_due(SlowState(), last=epoch == 450)
    assert saved == [5, 205, 405, 450]
    assert int(read_arrays(checkpoint.path)["epoch"]) == 450


def test_main_process_decides_and_writes(tmp_path):
    class SecondOfTwo(ProcessGroup):
        def all_reduce_sum(self, value):
            assert value == 0.0
            return 1.0

    state = mock.Mock(pack=mock.Mock(return_value={}))
    TrainingCheckpoint(tmp_path / "training.npz").save_if_due(state, SecondOfTwo(1, 2))
    assert state.pack.called and os.listdir(tmp_path) == []


def assert_refused(path, session, text, model=None, config=CONFIG):
    before, model = path.read_bytes(), model or small_possm(session)
    helpers.assert_refused(path, text, lambda path: train(model, session, path, config=config))
    assert path.read_bytes() == before


def test_other_settings_recordings_and_models_are_refused(session, path):
    assert_refused(path, session, "lr=0.002, not 0.001", config=replace(CONFIG, lr=1e-3))
    assert_refused(path, session, "epochs=4, not 5", config=replace(CONFIG, epochs=5))
    velocity = session.recording.behavior.copy()
    velocity[7, 1] += 1e-9
    assert_refused(path, prepare(replace(session.recording, behavior=velocity)), "other recordings")
    wider, deeper = small_possm(session, hidden=40), small_possm(session, n_layers=2)
    assert_refused(path, session, "a model of hidden=32, not 40", model=wider)
    assert_refused(path, session, "a model of n_layers=1, not 2", model=deeper)
    assert_refused(path, session, "a model of context_bins=3, not 5", model=small_possm(session, context_bins=5))
    path.unlink()
    first, second = freeze_backbone(small_possm(session)), freeze_backbone(small_possm(session))
    assert train(first, session, path, 1) is None
    with torch.no_grad():
        second.readout.weight.add_(1)
    assert_refused(path, session, "of another model: readout.weight, which is not trained", model=second)


def test_fingerprint_depends_on_data_and_preparation(session):
    recording = session.recording
    others = [
        prepare(recording, lag_s=0.01),
        prepare(recording, bin_width_s=0.04),
        prepare(recording, "chronological:40/40/20"),
        prepare(recording, "random", seed=1),
        prepare(replace(recording, session_id="another")),
        prepare(replace(recording, unit_ids=["x", *recording.unit_ids[1:]])),
        prepare(replace(recording, spike_units=np.roll(recording.spike_units, 1))),
    ]
    assert len({fingerprint(s) for s in (session, *others)}) == 1 + len(others)
    assert fingerprint(prepare(recording)) == fingerprint(session)


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("format", np.array("possm-lite training 2"), "this version reads 'possm-lite training 1'"),
        ("about", np.array("[" * 100_000), "about is invalid"),
        ("torch", None, "torch is missing"),
        ("exp_avg.readout.bias", None, "exp_avg.readout.bias is missing"),
        ("exp_avg.readout.bias", np.zeros(2), "exp_avg.readout.bias must be (2,) of float32, not (2,) of float64"),
        ("step.readout.bias", np.zeros(1, np.float32), "step.readout.bias must be () of float32"),
        ("model.readout.bias", np.array([object()]), "model.readout.bias must hold plain numbers or text"),
    ],
)
def test_invalid_arrays_are_refused(session, path, name, array, text):
    change_arrays(path, {name: array})
    assert_refused(path, session, text)


@pytest.mark.parametrize(
    "damage",
    [
        lambda metadata: metadata.pop("given"),
        lambda metadata: metadata["draw"].pop("session 1"),
        lambda metadata: metadata["draw"]["session 1"].update(bit_generator="MT19937"),
        lambda metadata: metadata["draw"]["session 1"]["state"].update(state=-1),
        lambda metadata: metadata["history"].update(valid_r2={"x": 1}),
    ],
)
def test_invalid_metadata_is_refused(session, path, damage):
    change_metadata(path, damage)
    assert_refused(path, session, "about is invalid")
