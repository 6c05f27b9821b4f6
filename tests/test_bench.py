"""The benchmarks themselves: they say what misses, and what cannot be asked."""

import numpy as np

from possm_lite import bench
from possm_lite.cli import main
from possm_lite.decoder import POSSM, POSSMConfig


def test_a_missed_limit_shows_in_line_and_exit_status(monkeypatch, capsys):
    rows = [("first", "1 s", "< 2 s", True), ("second", "3 s", "< 2 s", False)]
    monkeypatch.setattr(bench, "BENCHMARKS", {"toy": lambda: iter(rows)})
    assert main(["bench"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["ok", "MISS"]
    assert "second" in lines[2] and "3 s" in lines[2] and "< 2 s" in lines[2]


def test_an_unknown_name_is_refused(capsys):
    assert main(["bench", "speed"]) == 2
    assert "not 'speed'" in capsys.readouterr().err


def test_streamed_and_batch_answers_are_compared_on_the_same_spikes(rng):
    model = POSSM(POSSMConfig(n_units=5)).double()
    bins = [(rng.integers(1, 6, 4), rng.random(4) * 0.05) for _ in range(6)]
    offsets = np.array([0.0, 0.02])
    assert bench._streamed_and_batch_apart(model, bins, offsets) < 1e-9
