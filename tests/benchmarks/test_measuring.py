"""Each benchmark in a small form: that it compares like with like, and yields what it should."""

from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.spikes import SpikeBatch
from possm_lite.training import prepare

from . import accuracy, claims, course, latency, machine, training
from .contenders import BareCell, PaddedEager, Poyo, Products
from .parts import Note, Picture, Row, Table

OFFSETS = np.array([0.0, 0.02])


@pytest.fixture(autouse=True)
def _found_by_other_processes(monkeypatch):
    """Under whatever name pytest has imported the benchmarks."""
    monkeypatch.syspath_prepend(str(Path(machine.__file__).parents[machine.__name__.count(".")]))


@pytest.fixture
def bins(rng) -> list:
    return [(rng.integers(1, 6, 4), rng.random(4) * 0.05) for _ in range(30)]


def of(kind, parts) -> list:
    return [part for part in parts if isinstance(part, kind)]


# The contenders answer what they are said to answer.


def test_streamed_padded_and_batch_answers_are_one(bins):
    model = POSSM(POSSMConfig(n_units=5)).double()
    stream, eager = StreamingDecoder(model, 1, OFFSETS), PaddedEager(model, OFFSETS)
    for units, offsets in bins:
        np.testing.assert_allclose(eager.step(units, offsets), stream.step(units, offsets)[1], rtol=0, atol=1e-9)
    assert claims.streamed_and_batch_apart(model, bins, OFFSETS) < 1e-9


def test_the_bare_cell_is_the_backbones_and_the_products_are_its_products():
    model = POSSM(POSSMConfig(n_units=5))
    cell, products = BareCell(model), Products(model)
    with torch.no_grad():
        torch.testing.assert_close(cell.step(), model.backbone.step(cell._x, cell._h[None])[0])
        x, h = torch.ones(1, 64), torch.ones(1, 256)
        w_x, w_h = model.backbone.all_weights[0][:2]
        torch.testing.assert_close(torch.from_numpy(products.step()), (x @ w_x.T + h @ w_h.T)[0])


def test_poyo_answers_as_through_its_own_tokenizer_from_the_last_second_alone(rng, bins):
    pytest.importorskip("torch_brain.models", reason="the extra bench is not installed", exc_type=ImportError)
    from types import SimpleNamespace

    from torch_brain.batching import collate

    torch.manual_seed(0)
    poyo = Poyo(5, OFFSETS)
    assert abs(Poyo(182, OFFSETS).n_parameters - 1.27e6) < 1e4
    for units, offsets in bins:
        answer = poyo.step(units, offsets)
    last = bins[-20:]
    units = SimpleNamespace(id=np.array([str(unit) for unit in range(1, 6)]))
    spikes = SimpleNamespace(
        unit_index=np.concatenate([u for u, _ in last]) - 1,
        timestamps=np.concatenate([0.05 * i + o for i, (_, o) in enumerate(last)]),
    )
    data = SimpleNamespace(units=units, spikes=spikes, session=SimpleNamespace(id="session"))
    asked = poyo._model.tokenize(data) | {"output_timestamps": 0.95 + OFFSETS}
    with torch.no_grad():
        theirs = poyo._model(**collate([asked]))[0]
    np.testing.assert_allclose(answer, theirs, rtol=0, atol=1e-5)
    assert np.abs(answer - Poyo.step(poyo, *bins[0])).max() > 1e-4  # it does look at the spikes


def test_without_torch_brain_poyo_is_skipped_with_a_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch_brain.models.poyo", None)
    parts = list(latency.measure(short=True))
    assert [note for note in of(Note, parts) if "POYO was skipped" in note.text]
    assert not [row for row in of(Row, parts) if "POYO" in row.what]


# Stopwatches


def test_calls_in_turn_are_all_timed_but_the_first_of_each():
    called = []
    calls = {"a": lambda: called.append("a"), "b": lambda: called.append("b")}
    times = machine.in_turn(calls, 2, {"a": 2, "b": 1})
    assert "".join(called) == "aaabb" * 2
    assert times["a"].shape == (2, 2) and times["b"].shape == (2, 1) and (times["a"] >= 0).all()


def test_a_ratio_is_that_of_the_rounds_however_the_machine_drifts():
    fast = np.array([[1.0, 1.0, 9.0], [2.0, 2.0, 2.0], [8.0, 8.0, 8.0]])
    assert machine.ratio(3 * fast, fast) == 3


def test_growth_is_found_in_points_that_have_it():
    x = np.array([64.0, 128, 256, 1024])
    start, slope, error = latency.fitted(x, 100 + 0.002 * x**2, 2)
    assert start == pytest.approx(100) and slope == pytest.approx(0.002) and error < 1e-9
    assert latency.fitted(x, 100 + 0.002 * x**2, 1)[2] > 0.1  # a straight line is not it


def test_the_machine_is_described():
    about = machine.describe()
    assert f"torch {torch.__version__}" in about["software"] and "cores" in about["processor"]
    assert machine.product_rate(n=64, rounds=3) > 1e6


# The sections


def test_latency_has_its_limits_a_table_of_percentiles_and_the_growth():
    parts = list(latency.measure(short=True))
    assert [row.limit for row in of(Row, parts)[:2]] == ["<= 150 µs", "<= 5 x"]
    percentiles, growth = of(Table, parts)
    assert percentiles.head[1:4] == ["p50 µs", "p99 µs", "p99.9 µs"] and len(percentiles.rows) >= 4
    for cells in percentiles.rows:
        p50, p99, p999 = (float(cell.replace(",", "")) for cell in cells[1:4])
        assert 0 < p50 <= p99 <= p999
    assert {cells[0] for cells in growth.rows} >= {f"streaming step, {axis}" for axis in latency.FULL.axes}
    assert len(of(Picture, parts)[0].figure.axes) == 3
    assert latency.FULL.rounds * latency.FULL.bins == 20_000


def test_training_compares_both_forms_on_the_same_windows():
    seen = []
    for form in training.FORMS:
        step = training.training_step(form, 2, 60)
        batch = next(cell.cell_contents for cell in step.__closure__ if isinstance(cell.cell_contents, SpikeBatch))
        seen.append((batch.unit.tolist(), batch.offset.tolist()))
        step()
    assert seen[0] == seen[1]


def test_training_has_its_limits_and_both_curves():
    parts = list(training.measure(short=True))
    assert [row.limit for row in of(Row, parts)] == [">= 3 x", "<= 0.5", ""]
    assert len(of(Table, parts)) == len(of(Picture, parts)) == 2
    for cells in of(Table, parts)[0].rows:
        numbers = [float(cell.replace(",", "")) for cell in cells]
        assert min(numbers[:4]) > 0 and numbers[-1] > 0


def test_memory_of_a_step_grows_with_its_windows():
    sizes = [(0, training.RAGGED, 1, 100), (1, training.RAGGED, 64, 6400)]
    peaks = dict((place, mib) for place, _, mib in machine.apart(training.peak_mib, sizes, fresh=True))
    assert peaks[1] > peaks[0] + 10  # MiB


def test_accuracy_scores_every_decoder_with_every_seed(small_recording, tmp_path):
    small_recording.save(tmp_path / "small.npz")
    sources = {accuracy.SIMULATED: tmp_path / "small.npz", accuracy.REAL: tmp_path / "absent.mat"}
    parts = list(accuracy.measure(short=True, sources=sources))
    assert "skipped" in of(Note, parts)[0].text and accuracy.REAL in of(Note, parts)[0].text
    (table,) = of(Table, parts)
    by_model = {cells[0]: cells for cells in table.rows}
    assert list(by_model) == ["POSSM, rnn", "POSSM, gru", "GRU on counts", "Wiener filter", "Kalman filter"]
    assert "±" in by_model["POSSM, gru"][1] and "±" not in by_model["Wiener filter"][1]
    n_parameters = sum(p.numel() for p in POSSM(POSSMConfig(n_units=12)).parameters())
    assert by_model["POSSM, gru"][3] == f"{n_parameters:,}"
    assert len({row.what for row in of(Row, parts)}) == 3


def test_a_seed_gives_one_score_and_another_seed_another(small_recording, tmp_path):
    small_recording.save(tmp_path / "small.npz")
    r2 = [accuracy.score("here", tmp_path / "small.npz", accuracy.GRU, seed, 2).r2 for seed in (0, 0, 1)]
    assert r2[0] == r2[1] != r2[2]


def test_the_limits_of_accuracy_can_be_missed():
    def scores(possm, gru, wiener, seconds=60.0):
        of_models = {accuracy.POSSM_GRU: possm, accuracy.GRU: gru, accuracy.WIENER: wiener}
        places = (accuracy.SIMULATED, accuracy.REAL)
        return [accuracy.Score(place, m, r2, 1, seconds) for place in places for m, r2 in of_models.items()]

    def holds(place, *figures):
        return [row.holds for row in accuracy._limits(place, scores(*figures))]

    assert holds(accuracy.SIMULATED, 0.86, 0.85, 0.7) == [True, True]
    assert holds(accuracy.SIMULATED, 0.79, 0.80, 0.7) == [False, False]
    assert holds(accuracy.REAL, 0.89, 0.85, 0.7) == [True, True]
    assert holds(accuracy.REAL, 0.87, 0.85, 0.7, 121.0) == [False, False]


def test_the_wiener_filter_is_scikit_learns_ridge(small_recording):
    pytest.importorskip("sklearn")
    said = accuracy.ridge_row(prepare(small_recording))
    assert said.holds and float(said.measured) < 1e-4


def test_chapters_are_timed_cell_by_cell_and_stay_as_they_are(tmp_path):
    cells = [nbformat.v4.new_markdown_cell("# A"), *map(nbformat.v4.new_code_cell, ("# wait", "1 + 1"))]
    cells[1].source = "# a remark\nimport time\ntime.sleep(0.5)"
    path = tmp_path / "07_toy.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    before = path.read_bytes()
    parts = list(course.measure_chapters([path]))
    assert path.read_bytes() == before
    chapter, together = of(Row, parts)
    assert chapter.what == "07_toy, 2 cells" and chapter.limit == "<= 75 s" and together.what == "all 1 chapters"
    slowest = of(Table, parts)[0].rows[0]
    assert slowest[:3] == ["07_toy", "2", "`import time`"] and 0.5 <= float(slowest[3]) < 5


def test_claims_of_the_command_are_read_off_its_figures(small_recording, tmp_path):
    small_recording.save(tmp_path / "small.npz")
    rows = list(claims.decode([str(tmp_path / "small.npz"), "--quick"]))
    assert [row.what for row in rows][0] == "`make decode`, set-up aside" and rows[0].holds
    assert not rows[2].holds  # three epochs on twelve trials are no match for the filter


def test_importing_the_package_adds_next_to_nothing():
    package, all_of_it = claims.imports(rounds=1)
    assert package.holds and float(all_of_it.measured.split()[0]) > 0


def test_the_authors_numbers_hold():
    rows = of(Row, claims.oracle())
    assert [row.what for row in rows if not row.holds] == []
    assert len(rows) in (0, 5)
