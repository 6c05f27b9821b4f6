"""Sessions in one model share no units; a new session gets everything else of a model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from possm_lite.decoder import StreamingDecoder
from possm_lite.errors import RecordingError
from possm_lite.training import (
    TrainingCheckpoint,
    adapt,
    combine_sessions,
    evaluate,
    extract_session,
    fit,
    for_new_session,
    prepare,
)
from possm_lite.training.evaluate import batch_decode, replay, slot_offsets

from .helpers import QUICK, InterruptedCheckpoint, same_weights, simulated, small_possm


def session(seed, n_units, width=0.05):
    return prepare(simulated(seed, n_units), bin_width_s=width)


@pytest.fixture(scope="module")
def single():
    return [session(1, 5), session(2, 7), session(3, 4)]


@pytest.fixture(scope="module")
def trained(single):
    model, joined = small_possm(*single), combine_sessions(single)
    fit(model, joined, replace(QUICK, batch=6), progress=False)
    return model, joined


def test_sessions_of_another_model_are_refused(single):
    with pytest.raises(ValueError, match=r"combine_sessions: their indices are \[1, 1, 1\]"):
        fit(small_possm(*single), single, QUICK, progress=False)
    with pytest.raises(ValueError, match="n_units 5 and n_outputs 2, the session has units 1..7"):
        evaluate(small_possm(single[0]), single[1])
    with pytest.raises(ValueError, match="n_outputs 1, the session has units 1..5 and 2 columns"):
        fit(small_possm(single[0], n_outputs=1), single[0], QUICK, progress=False)


def test_sessions_share_no_units(single):
    assert [(s.index, s.first_unit) for s in combine_sessions(single)] == [(1, 1), (2, 6), (3, 13)]
    start = single[1].split.test[0, 0]
    ours, theirs = single[1].cut(start, 1.0), combine_sessions(single)[1].cut(start, 1.0)
    silent = ours.unit == 0
    assert torch.equal(theirs.unit, torch.where(silent, 0, ours.unit + 5)) and torch.equal(ours.offset, theirs.offset)
    with pytest.raises(RecordingError, match="bin_width_s"):
        combine_sessions([single[0], session(2, 7, width=0.1)])
    renamed = replace(single[1].recording, behavior_columns=["east", "north"])
    with pytest.raises(RecordingError, match="behavior_columns"):
        combine_sessions([single[0], prepare(renamed)])


@pytest.mark.parametrize("which", [0, 1, 2])
def test_extracted_session_decodes_the_same(trained, single, which):
    model, joined = trained
    one = extract_session(model, joined[which])
    assert (one.config.n_units, one.config.n_sessions) == (single[which].recording.n_units, 1)
    expected = evaluate(model, joined[which]).decoded
    np.testing.assert_array_equal(evaluate(one, single[which]).decoded, expected)
    played = replay(StreamingDecoder(model, which + 1, slot_offsets(joined[which])), joined[which])
    np.testing.assert_allclose(played.outputs, batch_decode(one, single[which], played), atol=1e-3)


def test_new_session_copies_all_but_embeddings(trained):
    model, _ = trained
    new = for_new_session(model, 9)
    assert (new.config.n_units, new.config.n_sessions) == (9, 1)
    assert torch.equal(new.unit_embedding.weight[0], model.unit_embedding.weight[0])
    assert not torch.equal(new.unit_embedding.weight[1:6], model.unit_embedding.weight[1:6])
    theirs = model.state_dict()
    own = {"unit_embedding.weight", "session_embedding.weight", "behavior_mean", "behavior_std"}
    for name, tensor in new.state_dict().items():
        assert name in own or torch.equal(tensor, theirs[name]), name
    assert (new.behavior_mean == 0).all() and (new.behavior_std == 1).all()


def test_adapt_trains_embeddings_then_all_weights(trained, tmp_path):
    model, fresh, config = trained[0], session(4, 6), replace(QUICK, batch=6)
    untouched = for_new_session(model, 6)
    untouched.behavior_mean[1], untouched.behavior_std[1] = torch.from_numpy(fresh.mean), torch.from_numpy(fresh.std)
    expected, history = adapt(model, fresh, config, 10, progress=False)
    assert evaluate(expected, fresh, "train").r2 > evaluate(untouched, fresh, "train").r2
    assert not torch.equal(expected.readout.weight, model.readout.weight)
    assert len(history.loss) >= 2 * 2 and max(history.valid_r2) == len(history.loss)
    torch.manual_seed(9)  # the result depends on the seed in `config` only
    first, second = tmp_path / "units.pt", tmp_path / "all.pt"
    with pytest.raises(KeyboardInterrupt):
        adapt(model, fresh, config, 10, False, (TrainingCheckpoint(first), InterruptedCheckpoint(second, 1)))
    state = torch.load(first, weights_only=True)["model"]
    for name, tensor in untouched.state_dict().items():  # the first stage trains embeddings only
        assert torch.equal(state[name], tensor) != (name in ("unit_embedding.weight", "session_embedding.weight")), name
    resumed, again = adapt(model, fresh, config, 10, False, (TrainingCheckpoint(first), TrainingCheckpoint(second)))
    assert same_weights(resumed, expected) and (again.loss, again.valid_r2) == (history.loss, history.valid_r2)


def test_first_trials_set_the_scale(single):
    few = single[0].first_trials(2)
    assert len(few.split.train) == 2 and few.split.test is single[0].split.test
    clock, stop = few.timeline.times, few.split.train[-1, 1]
    velocity = few.timeline.behavior[(clock >= 0) & (clock < stop)]
    np.testing.assert_allclose(few.std, velocity.std(0))
    np.testing.assert_allclose(few.mean, velocity.mean(0))
    with pytest.raises(ValueError, match=r"n must lie in 1\.\.6"):
        single[0].first_trials(7)
