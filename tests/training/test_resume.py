"""Training that goes on: the same weights bit for bit; no state of another training, of none, or with code in it."""

import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedGRU
from possm_lite.spikes import simulate_session
from possm_lite.spikes.arrays import read_arrays, write_arrays
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.training import CheckpointError, FitConfig, combine_sessions, fit, freeze_backbone, prepare
from possm_lite.training.distributed import ProcessGroup
from possm_lite.training.resume import TrainingCheckpoint, fingerprint

CONFIG = FitConfig(epochs=4, window_s=1.0, batch=4, samples=20, validations=2)
SMALL = {"dim": 16, "head_dim": 16, "n_freqs": 4, "hidden": 32}


class CutShort(Exception):
    """Stands for the end of a process."""


class UntilEpoch(TrainingCheckpoint):
    """Saves after every epoch; with this one the process ends."""

    def __init__(self, path, epoch=None):
        super().__init__(path, share=math.inf)
        self.epoch = epoch

    def keep(self, training, *args, **options):
        super().keep(training, *args, **options)
        if len(training.history.loss) == self.epoch:
            raise CutShort


class Dropping(POSSM):
    """Draws from torch's generator while it is trained."""

    def forward(self, *args):
        return nn.functional.dropout(super().forward(*args), 0.2, self.training)


def simulated(*numbers):
    return combine_sessions(
        [prepare(simulate_session(n, SimulationConfig(6, n_units=3 + n)).recording) for n in numbers]
    )


@pytest.fixture(scope="module")
def session():
    return simulated(1)[0]


def make(session, kind=POSSM):
    torch.manual_seed(0)
    return kind(POSSMConfig(session.recording.n_units, **SMALL))


def frozen(session):
    return freeze_backbone(make(session))


def gru(session):
    torch.manual_seed(0)
    return BinnedGRU(session.recording.n_units, n_slots=5, hidden=8)


def dropping(session):
    return make(session, Dropping)


def train(model, sessions, path, epoch=None, config=CONFIG):
    """The history, or none where the process ended after an epoch."""
    try:
        return fit(model, sessions, config, progress=False, saved=UntilEpoch(path, epoch))
    except CutShort:
        return None


def assert_same(one: nn.Module, other: nn.Module):
    theirs = other.state_dict()
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.fixture
def path(session, tmp_path):
    """The state of a training that was cut short after two of four epochs."""
    assert train(make(session), session, tmp_path / "training.npz", 2) is None
    return tmp_path / "training.npz"


# The same in the end


@pytest.mark.parametrize("kind", [make, frozen, gru, dropping])
def test_cut_short_after_every_epoch_it_ends_as_if_it_had_not_been(session, tmp_path, kind):
    whole = kind(session)
    history = fit(whole, session, CONFIG, progress=False)
    for epoch in range(1, CONFIG.epochs):
        model = kind(session)
        assert train(model, session, tmp_path / "training.npz", epoch) is None
        torch.manual_seed(epoch)  # where torch's generator stands in the process that goes on
    model = kind(session)
    resumed = train(model, session, tmp_path / "training.npz")
    assert_same(whole, model)
    assert (resumed.loss, resumed.valid_r2) == (history.loss, history.valid_r2) and len(resumed.loss) == 4
    assert not model.training and os.listdir(tmp_path) == ["training.npz"]


@pytest.mark.parametrize(("numbers", "batch"), [((1, 2), 4), ((1, 2, 3), 2)])
def test_several_sessions_go_on_too(tmp_path, numbers, batch):
    """More of them than places, and each place has a generator that chooses among its own."""
    sessions, config = simulated(*numbers), replace(CONFIG, batch=batch)
    n_units = sum(s.recording.n_units for s in sessions)
    models = []
    for epochs in ((None,), (1, 3, None)):
        for epoch in epochs:
            torch.manual_seed(0)
            models.append(POSSM(POSSMConfig(n_units, len(sessions), **SMALL)))
            train(models[-1], sessions, tmp_path / f"{len(epochs)}.npz", epoch, config)
    assert_same(models[0], models[-1])


def test_saving_changes_no_weight_and_a_finished_training_is_not_trained_further(session, tmp_path, path):
    plain = make(session)
    fit(plain, session, CONFIG, progress=False)
    seconds = train(make(session), session, path).seconds
    finished, again = path.read_bytes(), make(session)
    history = train(again, session, path)
    assert_same(plain, again)
    assert path.read_bytes() == finished and len(history.loss) == 4
    assert history.seconds == pytest.approx(seconds, abs=0.5)


def test_seconds_are_counted_on(session, path):
    arrays = read_arrays(path)
    about = json.loads(str(arrays["about"]))
    about["history"]["seconds"] = 1000.0
    write_arrays(path, arrays | {"about": np.array(json.dumps(about))})
    assert 1000.0 < train(make(session), session, path).seconds < 1100.0


# When it is saved


def test_saving_takes_a_hundredth_of_the_time(monkeypatch, tmp_path):
    """Epochs of one second and saves of two: after five seconds, then every two hundred, and at the end."""
    now = [1000.0]
    monkeypatch.setattr("possm_lite.training.resume.time.perf_counter", lambda: now[0])

    class Slow:
        def state(self):
            now[0] += 2.0
            return {"epoch": np.array(epoch)}

    saved, done = TrainingCheckpoint(tmp_path / "training.npz"), []
    for epoch in range(1, 451):
        now[0] += 1.0
        before = now[0]
        saved.keep(Slow(), last=epoch == 450)
        done += [epoch] * (now[0] > before)
    assert done == [5, 205, 405, 450]
    assert int(read_arrays(saved.path)["epoch"]) == 450


def test_in_a_crew_the_first_process_decides_and_writes(tmp_path):
    class Second(ProcessGroup):
        def total(self, amount):
            assert amount == 0.0
            return 1.0

    class Asked:
        def state(self):
            asked.append(True)
            return {}

    asked = []
    TrainingCheckpoint(tmp_path / "training.npz").keep(Asked(), Second(1, 2))
    assert asked and os.listdir(tmp_path) == []


# What is refused


def assert_refused(path, session, says, model=None, config=CONFIG):
    before = path.read_bytes()
    with pytest.raises(CheckpointError) as caught:
        train(model or make(session), session, path, config=config)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and says in message, message
    assert path.read_bytes() == before


def test_other_settings_another_recording_and_another_model_are_refused(session, path):
    assert_refused(path, session, "was trained with lr=0.002, not 0.001", config=replace(CONFIG, lr=1e-3))
    assert_refused(path, session, "was trained with epochs=4, not 5", config=replace(CONFIG, epochs=5))
    velocity = session.recording.velocity.copy()
    velocity[7, 1] += 1e-9
    changed = prepare(replace(session.recording, velocity=velocity))
    assert_refused(path, changed, "was trained on other recordings, or on these before they were changed")
    assert_refused(path, session, "model.backbone.weight_ih_l0 must be (24, 4)", model=gru(session))
    deeper = POSSM(POSSMConfig(session.recording.n_units, n_layers=2, **SMALL))
    assert_refused(path, session, "_l1 is missing: it is of another model", model=deeper)
    path.unlink()
    assert train(deeper, session, path, 1) is None
    assert_refused(path, session, "_l1 is not known: it is of another model")


def test_a_recording_prepared_in_another_way_has_another_fingerprint(session):
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
    ("changes", "says"),
    [
        ({"format": np.array("possm-lite training 2")}, "this version reads 'possm-lite training 1'"),
        ({"format": None}, "format is missing"),
        ({"about": np.array("{")}, "about is damaged"),
        ({"about": np.array("[]")}, "about is damaged"),
        ({"about": np.array('{"given": {}, "history": {}, "draw": {}}')}, "about is damaged"),
        ({"about": np.array("[" * 100_000)}, "about is damaged"),
        ({"torch": np.zeros(3, np.uint8)}, "torch is no state of a generator"),
        ({"torch": None}, "torch is no state of a generator"),
        ({"exp_avg.readout.bias": None}, "exp_avg.readout.bias is missing"),
        ({"exp_avg.readout.bias": np.zeros(2)}, "exp_avg.readout.bias must be (2,) of float32, not (2,) of float64"),
        ({"step.readout.bias": np.zeros(1, np.float32)}, "step.readout.bias must be () of float32"),
        ({"model.readout.bias": np.zeros(3, np.float32)}, "model.readout.bias must be (2,)"),
    ],
)
def test_a_state_that_cannot_be_is_refused(session, path, changes, says):
    arrays = read_arrays(path) | changes
    write_arrays(path, {name: array for name, array in arrays.items() if array is not None})
    assert_refused(path, session, says)


@pytest.mark.parametrize(
    "damage",
    [
        lambda about: about["draw"].pop("session 1"),
        lambda about: about["draw"]["session 1"].update(bit_generator="MT19937"),
        lambda about: about["draw"]["session 1"]["state"].update(state=-1),
        lambda about: about["history"].update(loss="abc"),
        lambda about: about["history"].update(valid_r2={"x": 1}),
        lambda about: about.pop("lr"),
    ],
)
def test_a_description_that_cannot_be_is_refused(session, path, damage):
    arrays = read_arrays(path)
    about = json.loads(str(arrays["about"]))
    damage(about)
    write_arrays(path, arrays | {"about": np.array(json.dumps(about))})
    assert_refused(path, session, "about is damaged")


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_a_truncated_state_is_refused(session, path, share):
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert_refused(path, session, "")


class Planted:
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("name", ["format", "about", "torch", "model.readout.bias", "planted"])
def test_pickled_code_is_refused_and_not_run(session, path, name):
    trace = path.with_name("trace")
    np.savez(path, **read_arrays(path) | {name: np.array([Planted(trace)], dtype=object)})
    assert_refused(path, session, f"{name} must hold plain numbers or text")
    assert not trace.exists()
    with np.load(path, allow_pickle=True) as trusting:  # the trap is a real one
        trusting[name]
    assert trace.exists()


# A disk that is full


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_full_disk_loses_nothing(session, path, share):
    """The limit on the size of a file stands for the disk: a write beyond it fails in the middle."""
    resource = pytest.importorskip("resource")
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(share * len(before)), limits[1]))
        with pytest.raises(CheckpointError, match="training.npz: could not be written: File too large"):
            train(make(session), session, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
    whole, model = make(session), make(session)
    fit(whole, session, CONFIG, progress=False)
    train(model, session, path)
    assert_same(whole, model)
