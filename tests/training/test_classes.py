"""Classes: scores against their definitions, training against the Bayes classifier of the simulator, streaming."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.decoder.baselines import BinnedGRU, BinnedStream
from possm_lite.errors import RecordingError
from possm_lite.recordings.labels import label_trials
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig, firing_rate
from possm_lite.simulate.reaches import hand_at, target_names
from possm_lite.training import FitConfig, TrainingCheckpoint, adapt, combine_sessions, decode_classes, fit, prepare
from possm_lite.training.classes import DecodedClasses, class_counts, class_weights
from possm_lite.training.evaluate import batch_decode, evaluate, replay, slot_offsets
from possm_lite.training.linear import fit_logistic, search_lag

from .helpers import InterruptedCheckpoint, same_weights, small_possm

SIZES = {"dim": 16, "head_dim": 16, "n_freqs": 4, "hidden": 32}


@pytest.fixture(scope="module")
def simulated():
    """A session of two targets, centre-out alone, with its truth, and labelled."""
    config = SimulationConfig(n_trials=160, n_units=40, n_directions=2, random_target_share=0, depth=1.5)
    session = simulate_session(0, config)
    return session, label_trials(session.recording, target_names(session.truth.reaches), "target")


def decoded_of(true, probabilities, n_trials=3, times=None, labels=None) -> DecodedClasses:
    """Trials of one second each, with as many samples in each."""
    n = len(true)
    times = np.arange(n) * n_trials / n if times is None else times
    trials = np.column_stack([np.arange(n_trials), np.arange(n_trials) + 1.0])
    classes = np.array(["a", "b", "c"])[: np.shape(probabilities)[1]]
    return DecodedClasses(times, np.array(true), np.array(probabilities, float), trials, classes, labels)


def test_scores_by_hand():
    """Class a: 3 of 4 right, b: 1 of 2, c is not there."""
    sure = np.eye(3) * 0.8 + 0.1 * (1 - np.eye(3))
    decoded = decoded_of([0, 0, 0, 0, 1, 1], sure[[0, 0, 0, 2, 1, 0]])
    assert decoded.balanced_accuracy == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert decoded.confusion.tolist() == [[3, 0, 1], [1, 1, 0], [0, 0, 0]]
    assert decoded.log_loss == pytest.approx(-(4 * np.log(0.8) + 2 * np.log(0.1)) / 6)
    assert decoded.at_end.true.tolist() == [0, 0, 1] and decoded.at_end.balanced_accuracy == 0.25
    low, high = decoded.interval()
    assert 0 <= low < decoded.balanced_accuracy < high <= 1


def test_log_loss_equals_that_of_torch(rng):
    logits = torch.from_numpy(rng.normal(size=(60, 3)))
    true = torch.from_numpy(rng.integers(0, 3, 60))
    ours = decoded_of(true.numpy(), logits.softmax(-1).numpy()).log_loss
    assert ours == pytest.approx(functional.cross_entropy(logits, true).item(), rel=1e-12)


def test_chance_of_shuffled_labels_knows_the_imbalance():
    """A decoder that always says the frequent class is at chance, though it is right in nine of ten trials."""
    labels = np.array([0] * 27 + [1] * 3)
    always = decoded_of(np.repeat(labels, 4), np.tile([0.9, 0.1], (120, 1)), 30, labels=labels)
    assert np.unique(always.null()).tolist() == [0.5] == [always.balanced_accuracy]
    perfect = decoded_of(np.repeat(labels, 4), np.eye(2)[np.repeat(labels, 4)], 30, labels=labels)
    assert perfect.balanced_accuracy == 1 and 0.4 < perfect.null().mean() < 0.6


def test_chance_of_labels_at_each_time_keeps_their_runs(rng):
    true = np.repeat(rng.integers(0, 2, 30), 40)
    slow = np.eye(2)[np.repeat(rng.integers(0, 2, 30), 40)]
    decoded = decoded_of(true, slow, 30)
    null = decoded.null()
    assert np.std(null) > 3 * 0.5 / np.sqrt(len(true))  # runs make chance wider than samples would
    assert null.min() < decoded.balanced_accuracy < null.max()


def test_accuracy_against_time():
    """Right from 0.5 s on; a trial of half the length alone is not drawn beyond its end."""
    labels = np.array([0, 1, 0, 1])
    times = (np.arange(4)[:, None] + np.arange(10) / 10).ravel()
    right = np.tile(np.arange(10) >= 5, 4)
    true = np.repeat(labels, 10)
    decoded = decoded_of(true, np.eye(2)[np.where(right, true, 1 - true)], 4, times, labels)
    rows = decoded.accuracy_by_time(0.1)
    np.testing.assert_allclose(rows["since_s"], np.arange(1, 11) / 10)
    assert rows["accuracy"] == [0] * 5 + [1] * 5
    assert all(0.4 < mean < 0.6 for mean in rows["chance"]) and min(rows["chance_95"]) == 1
    first = times < 1.5
    part = replace(decoded, times_s=times[first], true=true[first], probabilities=decoded.probabilities[first])
    assert len(replace(part, trials=part.trials[:2], labels=labels[:2]).accuracy_by_time(0.1)["accuracy"]) == 10
    assert replace(decoded, labels=None).accuracy_by_time(0.1) == {}


def test_weights_of_classes():
    np.testing.assert_allclose(class_weights(np.array([30, 10, 0])), [40 / 60, 40 / 20, 0])


def test_loss_of_training_is_cross_entropy_with_the_weights_of_classes(simulated):
    """One step of an untrained model with a learning rate of nothing; all samples of one window are used."""
    session = prepare(simulated[1])
    gru = BinnedGRU(40, 0.05, 1, 2, hidden=8, decodes="classes")
    before = {name: x.clone() for name, x in gru.state_dict().items()}
    history = fit(gru, session, FitConfig(epochs=1, lr=1e-9, unit_dropout=0, validations=0), progress=False)
    gru.load_state_dict(before)
    weights = class_weights(class_counts(session))
    decoded = decode_classes(gru, session, "train")
    loss = weights[decoded.true] * -np.log(decoded.probabilities[np.arange(len(decoded.true)), decoded.true])
    assert history.loss[0] == pytest.approx(loss.mean(), rel=0.05)


def bayes(session, recording, part: np.ndarray, window_s: float = 0.4) -> float:
    """Accuracy at the ends of trials, (n, 2) s, of who knows the rates for each target and when the hand moves.

    Counts of the last window are Poisson, with the mean of the rates in it.
    """
    truth = session.truth
    rates = {}
    for target in recording.classes:
        reaches = truth.reaches
        last = np.append(np.diff(reaches.trial) > 0, True)
        side = {"right": 80.0, "left": -80.0}[target]
        changed = reaches.target_mm.copy()
        changed[last] = [side, 0.0]
        changed_origin = reaches.origin_mm.copy()
        rates[target] = replace(reaches, target_mm=changed, origin_mm=changed_origin)
    right = []
    for start, stop in part:
        times = np.arange(stop - window_s, stop, 0.005)
        first, end = np.searchsorted(recording.spike_times, (stop - window_s, stop))
        counts = np.bincount(recording.spike_units[first:end], minlength=recording.n_units)
        grid = np.arange(len(truth.common)) / truth.config.common_rate_hz
        common = np.stack([np.interp(times, grid, z) for z in truth.common.T], axis=-1)
        score = []
        for reaches in rates.values():
            mean = np.array(
                [
                    firing_rate(truth.units, u, *hand_at(reaches, times + truth.units.lag_s[u]), common).mean()
                    for u in range(recording.n_units)
                ]
            )
            score.append((counts * np.log(mean * window_s) - mean * window_s).sum())
        row = np.searchsorted(recording.trials[:, 0], start)
        right.append(np.argmax(score) == recording.trial_labels[row])
    return float(np.mean(right))


def test_accuracy_is_near_and_below_that_of_who_knows_the_tuning(simulated):
    truth, recording = simulated
    session = prepare(recording, "chronological:60/10/30")
    best = bayes(truth, recording, session.split.test)
    assert best > 0.9
    config = FitConfig(epochs=20, batch=8, samples=40, unit_dropout=0.5, validations=0)
    gru = BinnedGRU(40, 0.05, 1, 2, hidden=32, decodes="classes")
    fit(gru, session, config, progress=False)
    for model in (fit_logistic(session, penalties=(0.1, 0.01)), gru):
        decoded = decode_classes(model, session)
        assert best - 0.2 < decoded.at_end.balanced_accuracy <= best + 0.05
        assert decoded.balanced_accuracy > np.percentile(decoded.null(), 95)
        rows = decoded.accuracy_by_time(0.2)
        assert rows["accuracy"][0] < 0.75 and max(rows["accuracy"]) > 0.75  # it knows late, not from the start


def test_shuffled_labels_decode_at_chance(simulated, rng):
    session, _ = simulated
    labels = rng.permutation(target_names(session.truth.reaches))
    shuffled = prepare(label_trials(session.recording, labels, "target"), "chronological:60/10/30")
    decoded = decode_classes(fit_logistic(shuffled, n_history=6, penalties=(0.1,)), shuffled)
    low, high = np.percentile(decoded.null(), (2.5, 97.5))
    assert low <= decoded.balanced_accuracy <= high


def test_streams_give_the_probabilities_of_the_batch(simulated):
    session = prepare(simulated[1])
    possm = small_possm(session, n_outputs=2, decodes="classes")
    torch.nn.init.normal_(possm.readout.weight)
    played = replay(StreamingDecoder(possm, 1, slot_offsets(session)), session)
    np.testing.assert_allclose(played.outputs.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(played.outputs, batch_decode(possm, session, played), rtol=0, atol=1e-5)
    gru = BinnedGRU(40, 0.05, 1, 2, hidden=8, decodes="classes")
    for model in (gru, fit_logistic(session, penalties=(0.1,))):
        played = replay(BinnedStream(model), session)
        np.testing.assert_allclose(played.decoded, evaluate(model, session).decoded, rtol=0, atol=1e-5)


def test_an_interrupted_training_resumes(simulated, tmp_path):
    session = prepare(simulated[1])
    config = FitConfig(epochs=2, batch=8, samples=5)
    fit(whole := small_possm(session, n_outputs=2, decodes="classes"), session, config, progress=False)
    for checkpoint in (InterruptedCheckpoint(tmp_path / "a.pt", epoch=1), TrainingCheckpoint(tmp_path / "a.pt")):
        model = small_possm(session, n_outputs=2, decodes="classes")
        with contextlib.suppress(KeyboardInterrupt):
            history = fit(model, session, config, progress=False, checkpoint=checkpoint)
    assert same_weights(model, whole) and 0 <= history.valid_r2[2] <= 1


def test_a_decoder_is_adapted_to_a_new_session(simulated):
    session = prepare(simulated[1])
    model = small_possm(session, n_outputs=2, decodes="classes")
    adapted, history = adapt(model, session, FitConfig(epochs=1, samples=5), min_steps=1, progress=False)
    assert adapted.config.decodes == "classes" and len(history.loss) == 2
    assert decode_classes(adapted, session).probabilities.shape[1] == 2


def test_models_and_sessions_must_decode_the_same(simulated):
    session = prepare(simulated[1])
    with pytest.raises(ValueError, match="either the model decodes classes, or the session holds them"):
        evaluate(small_possm(session), session)
    with pytest.raises(ValueError, match="decodes must be one of continuous, classes"):
        POSSMConfig(40, decodes="labels")
    with pytest.raises(ValueError, match="decodes is 'classes', which torch_brain's POSSM does not have"):
        POSSM(POSSMConfig(4, n_outputs=2, decodes="classes", reading="softmax")).to_torch_brain()
    with pytest.raises(RecordingError, match="--lag auto is of continuous behaviour"):
        search_lag(simulated[1], [0.0])
    other = replace(simulated[1], classes=["left", "up"], session_id="other")
    with pytest.raises(RecordingError, match="classes must be the same in all sessions"):
        combine_sessions([session, prepare(other)])


def test_a_training_part_of_one_class_is_refused(simulated):
    session, _ = simulated
    labels = np.where(np.arange(160) < 140, "left", "right")
    with pytest.raises(RecordingError, match="the training part has one class alone, left"):
        prepare(label_trials(session.recording, labels))
