"""What a wrong line in the table of changes of the recipe would come from."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.benchmarks import recipe
from experiments.benchmarks.comparison import GRU, SIMULATED
from experiments.benchmarks.recipe import POSSM_GRU, Change
from possm_lite.training import FitConfig, evaluate, fit, prepare

from ..training.helpers import simulated

SETTINGS = {"lr": 1e-3, "window_s": 1.0, "batch": 4, "samples": 5, "epochs": 1}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "session.npz"
    simulated(1, 6).save(path)
    return path


@pytest.fixture(scope="module")
def session(file):
    return prepare(recipe.load_recording(file))


def test_settings_are_those_of_the_section_on_accuracy():
    assert recipe.settings_found(SIMULATED, GRU) == {"lr": 0.002, "window_s": 4.0, "batch": 8}


def test_spikes_are_moved_in_training_and_nowhere_else(session):
    moved = recipe.JitteredTimeline(session.timeline, 0.005, seed=0)
    start, stop = session.split.train[0, 0], session.split.train[-1, 1]
    before, after = (timeline.cut(start, stop - start) for timeline in (session.timeline, moved))
    shift = moved.spike_times - session.timeline.spike_times
    assert abs(len(before.unit) - len(after.unit)) < 0.01 * len(before.unit)
    assert 0.5e-3 < np.abs(shift).mean() < 5e-3 and (np.diff(moved.spike_times) >= 0).all()
    again = session.timeline.cut(start, stop - start)
    torch.testing.assert_close(before.offset, again.offset, rtol=0, atol=0)


def test_the_average_is_that_of_the_last_steps(session):
    torch.manual_seed(0)
    model = recipe.make(GRU, session)
    config = FitConfig(validations=0, **SETTINGS | {"epochs": 5})
    seen = []
    model.register_forward_pre_hook(lambda m, _: seen.append(m.readout.bias.detach().clone()) if m.training else None)
    average = recipe.average_of_last(model, session, config)
    fit(model, session, config, progress=False)
    last = torch.stack(seen[round(0.8 * len(seen)) :]).mean(0)
    torch.testing.assert_close(average.module.readout.bias.detach(), last)
    assert not torch.equal(last, model.readout.bias)
    assert average.module.behavior_std[1].tolist() == pytest.approx(session.std.tolist())


def test_sessions_one_after_the_other_keep_their_units_apart():
    first, second = simulated(1, 4), simulated(2, 5)
    joined = recipe.one_after_the_other([first, second])
    assert joined.n_units == 9 and len(joined.trials) == len(first.trials) + len(second.trials)
    border = first.trials[-1, 1]
    assert joined.spike_units[joined.spike_times < border].max() < 4
    assert joined.spike_units[joined.spike_times > border].min() >= 4


@pytest.mark.parametrize("decoder", [POSSM_GRU, GRU])
def test_a_pretrained_decoder_keeps_all_but_its_units(decoder, session, monkeypatch):
    others = {3000: simulated(3, 4), 3001: simulated(4, 4)}
    monkeypatch.setattr(recipe, "simulate_session", lambda seed: type("Simulated", (), {"recording": others[seed]}))
    config = FitConfig(validations=0, **SETTINGS)
    torch.manual_seed(0)
    model = recipe.pretrained(decoder, session, 2, config)
    assert all(p.requires_grad for p in model.parameters())
    assert np.isfinite(evaluate(model, session).r2)


def test_the_best_of_each_kind_is_adopted_if_it_is_worth_it():
    gains = dict.fromkeys(recipe.CHANGES, 0.0)
    gains |= {"spike times moved by 5 ms": 0.004, "spike times moved by 20 ms": 0.005, "windows of 8 s": 0.0029}
    assert recipe.best_of_each_kind(gains) == ["spike times moved by 20 ms"]


def test_decoders_together_and_their_interval(file):
    settings = SETTINGS | {"epochs": 2}
    runs = [
        recipe.train(file, GRU, (Change(), Change(jitter_s=0.01)), 0.1, seed, False, settings)[recipe.AS_IT_IS]
        for seed in (0, 1)
    ]
    both = recipe.together(runs)["test"]
    np.testing.assert_allclose(both.decoded, (runs[0]["test"].decoded + runs[1]["test"].decoded) / 2)
    better = [run | {"test": replace(run["test"], decoded=run["test"].true)} for run in runs]
    low, high = recipe.interval_over_trials(better, runs, shown=False)
    assert 0 < low <= high
    assert recipe.interval_over_trials(runs, runs, shown=True).tolist() == [0, 0]
