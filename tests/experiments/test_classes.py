"""What a wrong line in the table of classes would come from."""

import numpy as np
import pytest

from experiments.benchmarks import classes
from experiments.benchmarks.comparison import SIMULATED
from possm_lite.recordings import Recording

from ..training.helpers import simulated

DIRECTIONS_DEG = np.array([0, 45, 90, 135, 180, 225, 270, 315, 20, -30])


@pytest.fixture(scope="module")
def reaches() -> Recording:
    """Ten reaches of known directions, two seconds apart, the last one slow."""
    times = np.arange(0.0, 22.0, 0.05)
    middles = 2.0 * np.arange(1, 11)
    heights = np.where(np.arange(10) < 9, 0.3, 0.05)  # m/s
    bells = heights * np.exp(-(((times[:, None] - middles) / 0.1) ** 2) / 2)  # (T, 10)
    angles = np.radians(DIRECTIONS_DEG)
    velocity = bells @ np.column_stack([np.cos(angles), np.sin(angles)])
    rng = np.random.default_rng(0)
    return Recording(
        spike_times=np.sort(rng.uniform(0, 22, 500)),
        spike_units=rng.integers(0, 3, 500),
        unit_ids=list("abc"),
        behavior_times=times,
        behavior=velocity,
        behavior_unit="m/s",
    )


def test_reaches_are_trials_with_the_sector_of_their_direction(reaches):
    labelled = classes.label_reaches(reaches)
    assert len(labelled.trials) == 9  # the slow one is none
    np.testing.assert_allclose(labelled.trials[:, 0], 2.0 * np.arange(1, 10) - classes.BEFORE_S, atol=1e-9)
    names = labelled.classes[labelled.trial_labels]
    assert names.tolist() == ["0°", "45°", "90°", "135°", "180°", "225°", "270°", "315°", "0°"]


def test_cells_are_means_over_seeds():
    first = {"balanced": 0.5, "at_end": 0.6, "log_loss": 1.0, "chance": 0.12, "chance_95": 0.2}
    second = {"balanced": 0.7, "at_end": 0.8, "log_loss": 0.8, "chance": 0.14, "chance_95": 0.2}
    assert classes.cells([first, second]) == [
        "0.600 ± 0.141",
        "0.500 to 0.700",
        "0.700 ± 0.141",
        "0.900 ± 0.141",
        "0.130",
        "0.200",
    ]


def test_settings_are_those_of_the_least_validation_loss(monkeypatch, tmp_path):
    losses = {0.3: 2.0, 0.5: 1.0}

    def score(path, source, decoder, settings, seed, short):
        return {"valid": losses[settings["unit_dropout"]] + settings["lr"]}

    monkeypatch.setattr(classes, "in_parallel", lambda function, calls: [score(*call) for call in calls])
    best, table = classes.search({SIMULATED: tmp_path}, short=False)
    assert best[SIMULATED, classes.GRU] == {"lr": 1e-3, "unit_dropout": 0.5}
    assert table.rows[0][1] == "lr 0.001, up to 50% of units hidden"


def test_every_decoder_is_trained_and_scored(monkeypatch, tmp_path):
    recording = simulated(1, 12)
    labelled = classes.label_trials(recording, np.resize(["left", "right"], len(recording.trials)))
    monkeypatch.setattr(classes, "recording_of", lambda *_: labelled)
    for decoder in classes.DECODERS:
        found = classes.train_and_score(tmp_path, SIMULATED, decoder, {}, 0, short=True)
        assert 0 <= found["balanced"] <= 1 and found["valid"] > 0 and found["chance_95"] >= found["chance"]
