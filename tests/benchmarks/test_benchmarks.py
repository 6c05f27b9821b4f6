"""The competitors decode what they should, each section runs in its short form, the page shows what was measured."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder

from . import __main__ as bench
from . import (
    accuracy,
    choices,
    comparison,
    course,
    latency,
    layouts,
    live,
    machine,
    page,
    readme_claims,
    suite,
    threads,
    training,
    transfer,
    trials,
    weights,
)
from .competitors import PaddedPossm, Poyo, gru_cell
from .page import Note, Plot, Row, Table, row

OFFSETS_S = np.array([0.0, 0.02])


@pytest.fixture(autouse=True)
def _importable_in_new_processes(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(machine.__file__).parents[machine.__name__.count(".")]))


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
    assert readme_claims.streaming_error(model, bins, OFFSETS_S) < 1e-9


def test_gru_competitor_matches_the_backbone():
    model = POSSM(POSSMConfig(n_units=5))
    x, h = torch.ones(1, 64), torch.ones(1, 256)
    with torch.no_grad():
        torch.testing.assert_close(gru_cell(model)(None, None), model.backbone.step(x, h[None])[0])


def test_poyo_matches_its_own_tokenizer(bins):
    pytest.importorskip("torch_brain.models", reason="the extra bench is not installed", exc_type=ImportError)
    from torch_brain.batching import collate

    poyo = Poyo(5, OFFSETS_S)
    assert abs(Poyo(182, OFFSETS_S).n_parameters - 1.27e6) < 1e4
    for units, offsets in bins:
        velocity = poyo.step(units, offsets)
    last = bins[-20:]  # the window of 1 s
    spikes = SimpleNamespace(
        unit_index=np.concatenate([u for u, _ in last]) - 1,
        timestamps=np.concatenate([0.05 * i + o for i, (_, o) in enumerate(last)]),
    )
    units = SimpleNamespace(id=np.array([str(unit) for unit in range(1, 6)]))
    data = SimpleNamespace(units=units, spikes=spikes, session=SimpleNamespace(id="session"))
    tokens = poyo.model.tokenize(data) | {"output_timestamps": 0.95 + OFFSETS_S}
    with torch.no_grad():
        expected = poyo.model(**collate([tokens]))[0]
    np.testing.assert_allclose(velocity, expected, rtol=0, atol=1e-5)
    assert np.abs(velocity - poyo.step(*bins[0])).max() > 1e-4  # the spikes matter


def test_timers_interleave_and_ratios_survive_drift():
    called = []
    calls = {name: lambda name=name: called.append(name) for name in "ab"}
    times = machine.time_in_turns(calls, 2, {"a": 2, "b": 1})
    assert "".join(called) == "aaabb" * 2 and times["a"].shape == (2, 2) and times["b"].shape == (2, 1)
    fast = np.array([[1.0, 1.0, 9.0], [2.0, 2.0, 2.0], [8.0, 8.0, 8.0]])
    assert machine.ratio(3 * fast, fast) == 3
    assert machine.matmul_rate(n=64, rounds=3) > 1e6


def test_growth_is_fitted():
    x = np.array([64.0, 128, 256, 1024])
    start, slope, error = latency.fit_growth(x, 100 + 0.002 * x**2, 2)
    assert start == pytest.approx(100) and slope == pytest.approx(0.002) and error < 1e-9
    assert latency.fit_growth(x, 100 + 0.002 * x**2, 1)[2] > 0.1  # not linear


def test_latency_runs_without_torch_brain(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch_brain.models.poyo", None)
    items = list(latency.measure(short=True))
    assert [r.limit for r in of(Row, items)] == ["<= 150 µs", "<= 5 x", "<= 2,000 µs", "<= 1.6 x"]
    assert [note for note in of(Note, items) if "POYO was skipped" in note.text]
    percentiles, paced, growth = of(Table, items)
    assert len(paced.rows) == 4
    for cells in percentiles.rows:
        p50, p99, p999 = (float(cell.replace(",", "")) for cell in cells[1:4])
        assert 0 < p50 <= p99 <= p999
    assert {cells[0] for cells in growth.rows} >= {f"streaming step, {axis}" for axis in latency.AXES}
    assert len(of(Plot, items)[0].figure.axes) == 3


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C cannot be sent to another process there")
def test_live_section_runs(monkeypatch):
    monkeypatch.setenv("LSLAPICFG", "")  # the section sets it; restored afterwards
    items = list(live.measure(short=True))
    if of(Note, items):
        pytest.skip(of(Note, items)[0].text)
    assert [r.limit for r in items] == ["<= 1e-6", "0", "0", *6 * [""]] and all(r.holds for r in items)
    p50, p99 = np.reshape([float(r.measured.split()[0]) for r in items[3:]], (2, 3))
    assert (p50 > 0).all() and (p50 <= p99).all() and p50[2] < p50[1]


def test_training_section_runs(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(training, "in_new_process", lambda function, *args: 1 + function(*args))
        patch.setattr(training, "threads", lambda _: nullcontext())  # two threads wait long for each other beside tests
        items = list(training.measure(short=True))
    assert [r.limit for r in of(Row, items)] == [">= 3 x", "<= 75 ms", "<= 45 ms", "<= 0.5", ""]
    for table in of(Table, items):
        assert all(float(cell.replace(",", "")) > 0 for cells in table.rows for cell in (*cells[:4], cells[-1]))
    few, many = (machine.in_new_process(training.peak_of_step, training.RAGGED, n, 100 * n) for n in (1, 64))
    assert many > few + 10  # MiB


def test_accuracy_section_runs(small_recording, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    small_recording.save(path := tmp_path / "small.npz")
    recordings = {comparison.SIMULATED: path, comparison.REAL: tmp_path / "absent"}
    items = list(accuracy.measure(short=True, recordings=recordings))
    assert comparison.REAL in of(Note, items)[0].text
    searched, scored = of(Table, items)
    assert [cells[0] for cells in searched.rows] == ["POSSM, rnn", "POSSM, gru", "GRU on counts"]
    by_model = {cells[0]: cells for cells in scored.rows}
    assert list(by_model) == ["POSSM, rnn", "POSSM, gru", "GRU on counts", "Wiener filter", "Kalman filter"]
    assert "±" in by_model["POSSM, gru"][1] and "±" not in by_model["Wiener filter"][1]
    settings = dict(lr=1e-3, window_s=2.0, batch=4)
    jobs = [comparison.job(recordings, comparison.SIMULATED, comparison.GRU, seed, True, **settings) for seed in (0, 1)]
    r2 = [comparison.train_and_score(*job)["r2"] for job in (jobs[0], *jobs)]
    assert r2[0] == r2[1] != r2[2]


@pytest.mark.parametrize(
    ("source", "possm", "gru", "seconds", "holds"),
    [
        (comparison.SIMULATED, 0.86, 0.85, 60, [True, True]),
        (comparison.SIMULATED, 0.79, 0.80, 60, [False, False]),
        (comparison.REAL, 0.89, 0.85, 60, [True, True, True]),
        (comparison.REAL, 0.87, 0.88, 121, [False, False, False]),
        (comparison.SENSORY, 0.78, 0.75, 121, [True, True]),
    ],
)
def test_limits_of_accuracy(source, possm, gru, seconds, holds):
    r2 = {accuracy.POSSM_GRU: possm, comparison.GRU: gru, comparison.WIENER: 0.7}
    scores = {decoder: [{"r2": value, "seconds": seconds}] for decoder, value in r2.items()}
    assert [r.holds for r in accuracy.limits(source, scores)] == holds


@pytest.mark.parametrize(
    ("r2", "said"),
    [([0.80, 0.82], "-0.040, larger than"), ([0.80, 0.89], "-0.005, within"), ([0.86], "+0.010, within")],
)
def test_differences_are_compared_with_the_spread_of_the_seeds(r2, said):
    scores = {("a", name): [{"r2": x, "displayed": x, "seconds": 1.0, "parameters": 9} for x in values]
              for name, values in (("reference", [0.84, 0.86]), ("other", r2))}  # fmt: skip
    (shown,) = of(Table, comparison.tables("Title", ["a"], ["reference", "other"], scores, "reference"))
    assert shown.rows[0][3] == "" and shown.rows[1][3] == f"{said} the spread"


def test_readings_and_codes_are_compared(small_recording, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    small_recording.save(path := tmp_path / "recording.npz")
    recordings = {comparison.SIMULATED: path, comparison.REAL: tmp_path / "absent"}
    items = list(choices.measure(short=True, recordings=recordings))
    assert comparison.REAL in of(Note, items)[0].text and len(of(Row, items)) == 2
    searched, table = of(Table, items)
    assert [r[0] for r in searched.rows] == [choices.POSSM_DEFAULT, comparison.GRU] and "lr " in searched.rows[0][1]
    assert [r[0] for r in table.rows][:2] == [choices.POSSM_DEFAULT, comparison.GRU] and "reading: " in table.rows[2][0]
    (table,) = of(Table, list(choices.measure_codes(short=True, recordings=recordings)))
    assert table.rows[0][0] == choices.POSSM_DEFAULT and "code of time: " in table.rows[1][0]


def test_transfer_section_runs():
    items = list(transfer.measure(short=True))
    assert [r.limit for r in of(Row, items)] == ["1 of 1"]
    assert [cells[0] for cells in of(Table, items)[0].rows] == ["adapt", *transfer.SINGLE]
    assert [transfer.limit(28, np.array(loss)).holds for loss in ([0.0, 0.02], [0.0, 0.04])] == [True, False]


def test_trials_section_runs():
    items = list(trials.measure(short=True))
    new, _, drifted, _ = (table.rows for table in of(Table, items))
    assert [cells[0] for cells in new] == [way for way in trials.STYLES if way in {cells[0] for cells in new}]
    assert {cells[0] for cells in drifted} == set(trials.STYLES)
    assert len(of(Plot, items)[0].figure.axes) == 2


def test_a_day_layer_begins_as_the_identity():
    model, counts = trials.TableGRU(4), torch.rand(1, 3, 4)
    model._session = torch.ones(1, dtype=torch.int64)
    before = model.decode_counts(counts)
    model.day = torch.nn.Linear(4, 4)
    model.day.load_state_dict({"weight": torch.eye(4), "bias": torch.zeros(4)})
    torch.testing.assert_close(model.decode_counts(counts), before)


def test_weights_section_runs():
    items = list(weights.measure(short=True))
    assert [r.limit for r in of(Row, items)] == ["<= 0.1", ">= 0.2"]
    readings, differences, codes = (table.rows for table in of(Table, items))
    assert [cells[0] for cells in readings] == [*weights.READINGS, weights.GRU, weights.WIENER]
    r2 = {name: np.array(cells, float) for name, *cells in readings}
    for (a, b, _), (_, *cells) in zip(weights.EFFECTS.values(), differences, strict=True):
        np.testing.assert_allclose(np.array(cells, float), r2[a] - r2[b], rtol=0, atol=2e-3)
    assert [cells[0] for cells in codes] == list(weights.time_codes.CODES)
    assert len(of(Plot, items)[0].figure.axes) == 1


def test_noise_and_silence_change_what_they_should(small_recording):
    session = weights.prepare(small_recording)
    noisy, silent = weights.add_noise(small_recording, 0), weights.silence(session, 0, True)
    before, after = (np.bincount(r.spike_units, minlength=12) for r in (small_recording, noisy))
    np.testing.assert_array_equal(before, after)
    moved = [unit for unit in range(12) if not np.array_equal(*(spikes_of(r, unit) for r in (small_recording, noisy)))]
    assert len(moved) == 4 and len(set(silent.spike_units)) == 9


def spikes_of(recording, unit: int) -> np.ndarray:
    return recording.spike_times[recording.spike_units == unit]


def test_layouts_are_compared_with_our_own_format(monkeypatch, small_recording):
    def invalid(folder, recording):
        (folder / "a.npz").write_bytes(b"nothing")
        return layouts.layouts.Layout({}, recording, folder / "a.npz")

    names = [".npz, our own format", "converter: Trials in a table"]
    monkeypatch.setattr(layouts, "LAYOUTS", {name: layouts.LAYOUTS[name] for name in names} | {"another": invalid})
    monkeypatch.setattr(layouts, "score", lambda recording, epochs: (len(recording.trials) / 100, 0.5))
    monkeypatch.setattr(layouts, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    count, table, _ = layouts.measure(short=True)
    assert (count.measured, count.limit, count.holds) == ("2 of 3", "all", False)
    assert [cells[0] for cells in table.rows] == [*names, "another"] and table.rows[0][1:] == ["0.160", "0.500"] * 2 + [
        "yes"
    ]
    assert table.rows[1][1] == "0.110" and table.rows[2][-1].startswith("refused: /a.npz")


def test_cells_of_a_chapter_are_timed(tmp_path, monkeypatch):
    cells = [nbformat.v4.new_code_cell("# a remark\nimport time\ntime.sleep(0.5)"), nbformat.v4.new_code_cell("1 + 1")]
    path = tmp_path / "07_toy.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    monkeypatch.setattr(course, "TOTALS_S", {("07", "07"): 0.1, ("00", "09"): 130})
    monkeypatch.setattr(course, "ProcessPoolExecutor", lambda n, *_: ThreadPoolExecutor(n))
    chapter, total, all_of_them, table = course.measure_chapters([path])
    assert (chapter.what, chapter.limit, chapter.holds) == ("07_toy, 2 cells", "<= 40 s", True)
    assert (total.what, total.holds) == ("chapters 07 to 07 together", False)
    assert all_of_them.what.startswith("all of these, two at a time") and all_of_them.holds
    assert table.rows[0][:3] == ["07_toy", "1", "`import time`"] and 0.5 <= float(table.rows[0][3]) < 5


def test_suite_section_runs():
    items = list(suite.measure(short=True))
    assert items[0].holds and "exit status 0" in items[0].what
    assert all(int(item.measured.replace(",", "")) > 1000 for item in items[1:])


def test_long_tests_record_what_they_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "ROOT", tmp_path)
    for what, measured in (("bins", "10"), ("kills", "3"), ("bins", "20")):
        page.record(what, measured)
    (section,) = page.load_results(tmp_path).values()
    assert [(r.what, r.measured.partition(" (20")[0]) for r in section["items"]] == [("bins", "20"), ("kills", "3")]
    assert "| bins | 20 (20" in (tmp_path / page.PAGE).read_text(encoding="utf-8")


def test_readme_claims_hold(monkeypatch):
    assert [r.what for r in of(Row, readme_claims.oracle()) if not r.holds] == []
    assert next(readme_claims.imports(rounds=1)).holds

    def fake_decode(command, **options):
        r2 = {"possm": {"r2": 0.75}, "wiener": {"r2": 0.7}, "gru": {"r2": 0.72}}
        Path(command[command.index("--json") + 1]).write_text(json.dumps({"models": r2}))

    monkeypatch.setattr(readme_claims.subprocess, "run", fake_decode)
    assert [r.holds for r in readme_claims.decode([])] == [True, True, False, True]


def test_only_the_default_must_bear_a_neighbour(monkeypatch):
    """Both settings are three times slower beside a busy process; the whole command is 1.2 times slower."""
    busy = []

    @contextmanager
    def busy_process():
        busy.append(True)
        yield
        busy.clear()

    monkeypatch.setattr(threads, "busy_process", busy_process)
    monkeypatch.setattr(threads, "decode_seconds", lambda *_: (3.0, 6.0) if busy else (1.0, 5.0))
    measured = [(r.measured, bool(r.limit), r.holds) for r in of(Row, threads.measure())]
    assert measured[:2] == [("3.00 x", True, False), ("1.20 x", True, True)]
    assert measured[2:] == [("3.00 x", False, True), ("1.20 x", False, True), ("6 s", True, True)]


@pytest.fixture
def sections(monkeypatch):
    """Two sections that take no time."""

    def toy(value: float):
        def measure(short):
            figure = Figure()
            figure.subplots().plot([1, 2])
            yield row("duration", value, "{:.1f} s", "< 2 s", value < 2)
            yield from (Note("A remark."), Table("A title", ["a", "b"], [["x|y", "1"]]), Plot("toy", "a line", figure))

        return measure

    found = {"latency": toy(1.0), "course": toy(3.0)}
    monkeypatch.setattr(bench, "SECTIONS", found)
    return found | {"toy": toy}


def test_page_shows_every_item_and_missed_limits(sections, tmp_path, capsys):
    assert bench.main(["--out", str(tmp_path)]) == 1
    printed = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if "duration" in line]
    assert printed == [["ok", "latency"], ["MISS", "course"]]
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    for part in (
        "**2 limits, 1 missed:**\n\n* The course: duration: 3.0 s, limit < 2 s",
        "| duration | 3.0 s | < 2 s, **missed** |\n\nA remark.\n\n",
        "### A title\n\n| a | b |\n| --- | --- |\n| x\\|y | 1 |",
        '`make bench ARGS="latency"` on 20',
        "![a line](tests/benchmarks/figures/toy.png)",
        page.NOTES.read_text(encoding="utf-8"),
    ):
        assert part in text
    assert (tmp_path / page.FIGURES / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_section_measured_again_replaces_only_itself(sections, tmp_path):
    bench.main(["--out", str(tmp_path)])
    before = page.load_results(tmp_path)
    bench.SECTIONS["course"] = sections["toy"](1.5)
    assert bench.main(["course", "--out", str(tmp_path)]) == 0
    after = page.load_results(tmp_path)
    assert after["latency"] == before["latency"] and after["course"]["items"][0] == Row("duration", "1.5 s", "< 2 s")
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    (tmp_path / page.PAGE).unlink()
    assert bench.main(["--page", "--out", str(tmp_path)]) == 0
    assert (tmp_path / page.PAGE).read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("arguments", "message"), [(["speed"], "'speed'"), (["--short"], "--out DIR")])
def test_invalid_arguments_exit_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        bench.main(arguments)
    assert exit_.value.code == 2 and message in capsys.readouterr().err


def test_page_in_the_repository_matches_its_results():
    results = page.load_results(page.ROOT)
    assert [*bench.SECTIONS, "reliability"] == list(page.TITLES)  # that one is written by make soak
    assert {path.stem for path in (page.ROOT / page.RESULTS).glob("*.json")} == set(results)
    assert (page.ROOT / page.PAGE).read_text(encoding="utf-8") == page.render(results), 'make bench ARGS="--page"'
    plots = {f"{item.name}.png" for section in results.values() for item in section["items"] if isinstance(item, Plot)}
    assert {path.name for path in (page.ROOT / page.FIGURES).glob("*")} == plots


def test_figures_of_the_readme_are_the_measured_ones():
    sections, readme = page.load_results(page.ROOT), (page.ROOT / "README.md").read_text(encoding="utf-8")
    assert page.with_figures(readme, sections) == readme
    sections["faults"] = {"items": [page.Row("faults named correctly", "3 of 20")]}
    assert "3 of 20 faults are named" in page.with_figures(readme, sections)
    with pytest.raises(ValueError, match="one place for the figure"):
        page.with_figures(readme.replace("faults are named", "faults are found"), sections)
