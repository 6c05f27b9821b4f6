"""The command and the page: a missed limit is said, a section measured anew replaces only itself."""

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from . import __main__ as bench
from .parts import Note, Picture, Row, Table, row
from .report import FIGURES, PAGE, RESULTS, TITLES, render, results

ROOT = Path(__file__).resolve().parents[2]


def toy(measured: float):
    """A section with one row that misses its limit of 2 s, or keeps it, and one part of each other kind."""

    def measure(short):
        figure = Figure()
        figure.subplots().plot([1, 2])
        yield row("how long", measured, "{:.1f} s", "< 2 s", measured < 2)
        yield row("how many", 7, "{:.0f}")
        yield Note("A remark.")
        yield Table("Side by side", ["a", "b"], [["x|y", "1"]])
        yield Picture("toy", "a line that rises", figure)

    return measure


@pytest.fixture
def sections(monkeypatch):
    """Two sections that take no time, in place of the real ones."""
    found = {"latency": toy(1.0), "course": toy(1.5)}
    monkeypatch.setattr(bench, "SECTIONS", found)
    return found


def test_a_missed_limit_shows_in_line_page_and_exit_status(sections, tmp_path, capsys):
    sections["course"] = toy(3.0)
    assert bench.main(["--out", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if "how long" in line] == [["ok", "latency"], ["MISS", "course"]]
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "**2 limits, 1 missed:**" in page
    assert "* The course: how long: 3.0 s, limit < 2 s" in page
    assert "| how long | 3.0 s | < 2 s, **missed** |" in page and "| how long | 1.0 s | < 2 s |" in page


def test_kept_limits_end_in_status_0_and_are_said_so(sections, tmp_path):
    assert bench.main(["--out", str(tmp_path)]) == 0
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "**2 limits, all of them kept.**" in page and "missed" not in page


def test_every_part_is_on_the_page_with_the_machine_and_the_command(sections, tmp_path):
    bench.main(["latency", "--out", str(tmp_path)])
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    for written in (
        '`make bench ARGS="latency"` on 20',
        "cores; ",
        "torch ",
        "| what | measured | limit |\n| --- | --- | --- |\n| how long | 1.0 s | < 2 s |\n| how many | 7 |  |\n",
        "\n\nA remark.\n\n",
        "### Side by side\n\n| a | b |\n| --- | --- |\n| x\\|y | 1 |",
        "![a line that rises](tests/benchmarks/figures/toy.png)",
    ):
        assert written in page
    assert (tmp_path / FIGURES / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_a_section_measured_anew_replaces_only_itself(sections, tmp_path):
    bench.main(["--out", str(tmp_path)])
    before = results(tmp_path)
    sections["latency"] = toy(1.25)
    assert bench.main(["latency", "--out", str(tmp_path)]) == 0
    after = results(tmp_path)
    assert after["course"] == before["course"]
    assert after["latency"]["parts"][0] == Row("how long", "1.2 s", "< 2 s", True)
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert page.index("## Latency") < page.index("| how long | 1.2 s |") < page.index("## The course")
    assert "| how long | 1.5 s |" in page and "| how long | 1.0 s |" not in page


def test_the_page_can_be_written_without_measuring(sections, tmp_path):
    bench.main(["--out", str(tmp_path)])
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    (tmp_path / PAGE).unlink()
    sections.clear()
    assert bench.main(["--page", "--out", str(tmp_path)]) == 0
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["speed"], "no 'speed'"), (["--short"], "--out DIR")],
)
def test_what_cannot_be_asked_is_refused_with_status_2(arguments, says, capsys):
    with pytest.raises(SystemExit) as left:
        bench.main(arguments)
    assert left.value.code == 2
    assert says in capsys.readouterr().err


def test_every_section_has_its_title():
    assert list(bench.SECTIONS) == list(TITLES)


def test_the_page_in_the_repository_says_what_was_measured():
    """No figure of it is by hand: it is what the kept results make."""
    found = results(ROOT)
    assert (ROOT / PAGE).exists() == bool(found)
    if found:
        assert (ROOT / PAGE).read_text(encoding="utf-8") == render(found), 'make bench ARGS="--page"'
    assert {path.stem for path in (ROOT / RESULTS).glob("*.json")} == set(found)


def test_pictures_in_the_repository_are_small_and_all_shown():
    shown = {p.name for section in results(ROOT).values() for p in section["parts"] if isinstance(p, Picture)}
    files = list((ROOT / FIGURES).glob("*"))
    assert {path.stem for path in files} == shown
    assert [path.name for path in files if path.stat().st_size >= 100_000] == []


def test_results_are_plain_json(sections, tmp_path):
    bench.main(["course", "--out", str(tmp_path)])
    kept = json.loads((tmp_path / RESULTS / "course.json").read_text(encoding="utf-8"))
    assert kept["section"] == "course" and kept["parts"][0]["kind"] == "row"
    assert set(kept["machine"]) == {"processor", "memory", "system", "software", "threads", "load"}
