"""What a wrong figure in BENCHMARKS.md would come from: competitors, timers, fits, limits, tables, the page."""

import sys

import numpy as np
import pytest
import torch

from experiments.benchmarks import __main__ as bench
from experiments.benchmarks import accuracy, comparison, machine, page, readme_claims, suite, training
from experiments.benchmarks.competitors import PaddedPossm, gru_cell
from experiments.benchmarks.page import Note, Plot, Row, Table
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder

OFFSETS_S = np.array([0.0, 0.02])


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")


@pytest.fixture
def bins(rng) -> list:
    return [(rng.integers(1, 6, 4), rng.random(4) * 0.05) for _ in range(30)]


def of(kind, items) -> list:
    return [item for item in items if isinstance(item, kind)]


def test_streaming_padded_and_batch_outputs_agree(bins):
    model = POSSM(POSSMConfig(n_units=5)).double()
    stream, padded = StreamingDecoder(model, 1, OFFSETS_S), PaddedPossm(model, OFFSETS_S)
    for units, offsets in bins:
        np.testing.assert_allclose(padded.step(units, offsets), stream.step(units, offsets)[1], rtol=0, atol=1e-9)


def test_gru_competitor_matches_the_backbone():
    model = POSSM(POSSMConfig(n_units=5))
    x, h = torch.ones(1, 64), torch.ones(1, 256)
    with torch.no_grad():
        torch.testing.assert_close(gru_cell(model)(None, None), model.backbone.step(x, h[None])[0])


def test_timers_interleave_and_ratios_survive_drift():
    called = []
    calls = {name: lambda name=name: called.append(name) for name in "ab"}
    times = machine.time_in_turns(calls, 2, {"a": 2, "b": 1})
    assert "".join(called) == "aaabb" * 2 and times["a"].shape == (2, 2) and times["b"].shape == (2, 1)
    fast = np.array([[1.0, 1.0, 9.0], [2.0, 2.0, 2.0], [8.0, 8.0, 8.0]])
    assert machine.ratio(3 * fast, fast) == 3


LIMITS = {
    "latency": ["<= 150 µs", "<= 5 x", "<= 2,000 µs", "<= 1.6 x"],
    "live": ["<= 1e-6", "0", "0"],
    "training": [">= 3 x", "<= 75 ms", "<= 45 ms", "<= 0.5"],
    "trials": [],
    "weights": ["<= 0.1", ">= 0.2"],
    "faults": ["all", "all"],
    "suite": ["<= 330 s, exit status 0"],
}


@pytest.mark.parametrize("section", LIMITS)
def test_section_runs_in_its_short_form(section, tmp_path, monkeypatch):
    monkeypatch.setenv("LSLAPICFG", "")  # a section sets it; restored afterwards
    monkeypatch.setitem(sys.modules, "torch_brain.models.poyo", None)
    monkeypatch.setattr(training, "in_new_process", lambda function, *args: 1 + function(*args))
    bench.main([section, "--short", "--out", str(tmp_path)])
    items = page.load_results(tmp_path)[section]["items"]
    if section == "live" and of(Note, items):
        pytest.skip(of(Note, items)[0].text)
    assert [r.limit for r in of(Row, items) if r.limit] == LIMITS[section]
    assert all(r.holds for r in of(Row, items) if section in ("live", "faults", "suite"))
    assert all(len(cells) == len(table.head) for table in of(Table, items) for cells in table.rows)
    assert len(list(tmp_path.rglob("*.png"))) == len(of(Plot, items))


def test_decoders_are_tuned_and_compared(small_recording, tmp_path):
    small_recording.save(path := tmp_path / "small.npz")
    recordings = {comparison.SIMULATED: path, comparison.REAL: tmp_path / "absent"}
    items = list(accuracy.measure(short=True, recordings=recordings))
    assert comparison.REAL in of(Note, items)[0].text
    searched, scored, read = of(Table, items)
    assert [cells[0] for cells in searched.rows] == ["POSSM, rnn", "POSSM, gru", "GRU on counts"]
    assert [cells[0] for cells in scored.rows[3:]] == ["Wiener filter", "Kalman filter"]
    best = searched.rows[2][1]
    settings = [s for s in comparison.GRID if f"lr {s['lr']:g}, {s['batch']} w" in best][0]
    calls = [comparison.call(recordings, comparison.SIMULATED, comparison.GRU, i, True, **settings) for i in (0, 1)]
    r2 = [comparison.train_and_score(*call)["r2"] for call in calls]
    assert scored.rows[2][1:3] == [page.with_spread(np.array(r2)), f"{min(r2):.3f} to {max(r2):.3f}"]
    codes = of(Table, accuracy.measure_codes(short=True, recordings=recordings))[0]
    assert [cells[0] for cells in read.rows] == [accuracy.DEFAULT, "reading: softmax", comparison.GRU]
    assert [cells[0] for cells in codes.rows] == [accuracy.ROTATION, "code of time: embedding"]


def test_readme_claims_hold(monkeypatch):
    r2 = {"possm": {"r2": 0.75}, "wiener": {"r2": 0.7}, "gru": {"r2": 0.72}}
    monkeypatch.setattr(readme_claims, "run_decode", lambda _: (r2, 30.0))
    assert [r.holds for r in readme_claims.decode([])] == [True, True, False, True]


def test_page_in_the_repository_matches_its_results():
    results = page.load_results(page.ROOT)
    assert [*bench.SECTIONS, "reliability"] == list(page.TITLES)  # that one is written by make soak
    assert {path.stem for path in (page.ROOT / page.RESULTS).glob("*.json")} == set(results)
    pages = {page.FOLDER / "RESULTS.md": page.render(results), page.PAGE: page.fill(page.TEMPLATE.read_text(), results)}
    for path, text in pages.items():
        assert (page.ROOT / path).read_text(encoding="utf-8") == text, 'make bench ARGS="--page"'
    with pytest.raises(ValueError, match="names 0 figures"):
        page.fill("{{claims / R²}}", results)
    plots = {f"{item.name}.png" for section in results.values() for item in section["items"] if isinstance(item, Plot)}
    assert {path.name for path in (page.ROOT / page.FIGURES).glob("*")} == plots


def test_figures_of_the_readme_are_the_measured_ones():
    rows = [r for section in page.load_results(page.ROOT).values() for r in of(Row, section["items"])]
    measured, readme = {r.what: r.measured for r in rows}, (page.ROOT / "README.md").read_text(encoding="utf-8")
    assert [what for what in page.IN_README if measured[what] not in readme] == []


def test_statements_are_counted_without_docstrings():
    source = '"""Of the module."""\nx = 1\n\n\ndef f():\n    """Of the function."""\n    return x\n'
    assert suite.count_statements(source) == 3
