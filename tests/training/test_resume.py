"""A resumed training gives the same weights bit for bit; states of other trainings and damaged files are refused."""

import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes import simulate_session
from possm_lite.spikes.arrays import read_arrays, write_arrays
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.training import (
    CheckpointError,
    FitConfig,
    TrainingCheckpoint,
    combine_sessions,
    fit,
    freeze_backbone,
    prepare,
)
from possm_lite.training.checkpoint import fingerprint
from possm_lite.training.distributed import ProcessGroup

CONFIG = FitConfig(epochs=4, window_s=1.0, batch=4, samples=20, validations=2)


class Interrupted(Exception):
    pass


class StopsAfterEpoch(TrainingCheckpoint):
    """Saves after every epoch, and raises Interrupted after one of them."""

    def __init__(self, path, epoch=None):
        super().__init__(path, share=math.inf)
        self.epoch = epoch

    def save_if_due(self, state, *args, **options):
        super().save_if_due(state, *args, **options)
        if len(state.history.loss) == self.epoch:
            raise Interrupted


class DropoutPOSSM(POSSM):
    """Uses torch's generator in training."""

    def forward(self, *args):
        return nn.functional.dropout(super().forward(*args), 0.2, self.training)


def simulated(*seeds):
    recordings = [simulate_session(seed, SimulationConfig(6, n_units=3 + seed)).recording for seed in seeds]
    return combine_sessions([prepare(recording) for recording in recordings])


@pytest.fixture(scope="module")
def session():
    return simulated(1)[0]


def possm(*sessions, kind=POSSM):
    torch.manual_seed(0)
    n_units = sum(s.recording.n_units for s in sessions)
    return kind(POSSMConfig(n_units, len(sessions), dim=16, head_dim=16, n_freqs=4, hidden=32))


def frozen(*sessions):
    return freeze_backbone(possm(*sessions))


def with_dropout(*sessions):
    return possm(*sessions, kind=DropoutPOSSM)


def train(model, sessions, path, epoch=None, config=CONFIG):
    """The history, or None if interrupted after an epoch."""
    try:
        return fit(model, sessions, config, progress=False, checkpoint=StopsAfterEpoch(path, epoch))
    except Interrupted:
        return None


def assert_same(model, expected):
    for (name, tensor), other in zip(model.state_dict().items(), expected.state_dict().values(), strict=True):
        assert torch.equal(tensor, other), name


@pytest.fixture
def path(session, tmp_path):
    """The file of a training interrupted after two of four epochs."""
    assert train(possm(session), session, tmp_path / "training.npz", 2) is None
    return tmp_path / "training.npz"


@pytest.mark.parametrize(
    ("create", "seeds", "batch"),
    [
        (possm, [1], 4),
        (frozen, [1], 4),
        (with_dropout, [1], 4),
        (possm, [1, 2], 4),
        (possm, [1, 2, 3], 2),  # more sessions than slots: each slot has a generator that chooses among its own
    ],
)
def test_resume_gives_the_same_weights(tmp_path, create, seeds, batch):
    sessions, config = simulated(*seeds), replace(CONFIG, batch=batch)
    expected = create(*sessions)
    history = fit(expected, sessions, config, progress=False)  # never saved: saving changes no weight
    for epoch in (1, 2, 3, None, None):  # the last finds a finished training
        model = create(*sessions)
        if epoch != 1:
            torch.manual_seed(9)  # a new process has another generator state
        resumed = train(model, sessions, tmp_path / "training.npz", epoch, config)
    assert_same(model, expected)
    assert (resumed.loss, resumed.valid_r2) == (history.loss, history.valid_r2) and len(resumed.loss) == 4
    assert not model.training and os.listdir(tmp_path) == ["training.npz"]


def change_metadata(path, change):
    arrays = read_arrays(path)
    metadata = json.loads(str(arrays["about"]))
    change(metadata)
    write_arrays(path, arrays | {"about": np.array(json.dumps(metadata))})


def test_training_seconds_are_added(session, path):
    change_metadata(path, lambda metadata: metadata["history"].update(seconds=1000.0))
    assert 1000.0 < train(possm(session), session, path).seconds < 1100.0


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

    class State:
        packed = False

        def pack(self):
            self.packed = True

    state = State()
    TrainingCheckpoint(tmp_path / "training.npz").save_if_due(state, SecondOfTwo(1, 2))
    assert state.packed and os.listdir(tmp_path) == []


def assert_refused(path, session, text, model=None, config=CONFIG):
    before = path.read_bytes()
    with pytest.raises(CheckpointError) as caught:
        train(model or possm(session), session, path, config=config)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and text in message, message
    assert path.read_bytes() == before


def test_other_settings_recordings_and_models_are_refused(session, path):
    assert_refused(path, session, "lr=0.002, not 0.001", config=replace(CONFIG, lr=1e-3))
    assert_refused(path, session, "epochs=4, not 5", config=replace(CONFIG, epochs=5))
    velocity = session.recording.velocity.copy()
    velocity[7, 1] += 1e-9
    assert_refused(path, prepare(replace(session.recording, velocity=velocity)), "other recordings")
    wider = POSSM(replace(possm(session).config, hidden=40))
    assert_refused(path, session, "model.backbone.weight_ih_l0 must be (120, 16)", model=wider)
    deeper = POSSM(replace(possm(session).config, n_layers=2))
    assert_refused(path, session, "_l1 is missing", model=deeper)
    path.unlink()
    assert train(deeper, session, path, 1) is None
    assert_refused(path, session, "_l1 is unknown")


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
    ("changes", "text"),
    [
        ({"format": np.array("possm-lite training 2")}, "this version reads 'possm-lite training 1'"),
        ({"about": np.array("[" * 100_000)}, "about is damaged"),
        ({"torch": np.zeros(3, np.uint8)}, "torch must be"),
        ({"torch": None}, "torch is missing"),
        ({"exp_avg.readout.bias": None}, "exp_avg.readout.bias is missing"),
        ({"exp_avg.readout.bias": np.zeros(2)}, "exp_avg.readout.bias must be (2,) of float32, not (2,) of float64"),
        ({"exp_avg.readout.bias": np.array(["a", "b"])}, "not (2,) of <U1"),
        ({"exp_avg_sq.readout.bias": np.zeros(2, ">f4")}, "not (2,) of >f4"),
        ({"step.readout.bias": np.zeros(1, np.float32)}, "step.readout.bias must be () of float32"),
        ({"model.readout.bias": np.array([object()])}, "model.readout.bias must hold plain numbers or text"),
    ],
)
def test_invalid_arrays_are_refused(session, path, changes, text):
    arrays = read_arrays(path) | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    assert_refused(path, session, text)


@pytest.mark.parametrize(
    "damage",
    [
        lambda metadata: metadata.pop("given"),
        lambda metadata: metadata.pop("lr"),
        lambda metadata: metadata["draw"].pop("session 1"),
        lambda metadata: metadata["draw"]["session 1"].update(bit_generator="MT19937"),
        lambda metadata: metadata["draw"]["session 1"]["state"].update(state=-1),
        lambda metadata: metadata["history"].update(loss="abc"),
        lambda metadata: metadata["history"].update(valid_r2={"x": 1}),
    ],
)
def test_invalid_metadata_is_refused(session, path, damage):
    change_metadata(path, damage)
    assert_refused(path, session, "about is damaged")
