"""A class's answers in one table: what is said of them, and what they cannot do to the computer that grades them."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from possm_course import grade

from ..exercises.helpers import NOTEBOOKS

CHAPTER = "06_recurrent_networks.ipynb"
SOLVED = ("00_start_here.ipynb", CHAPTER, "13_is_it_any_good.ipynb")
SECONDS = 8  # for a notebook; the one with an endless loop takes them all, asleep

GRU = "torch_gru_step"
RIGHT_GRU = """
def torch_gru_step(x, h, w_ih, w_hh, b_ih, b_hh):
    return by_hand(x, h, w_ih, w_hh, b_ih, b_hh)

def by_hand(x, h, w_ih, w_hh, b_ih, b_hh):
    xr, xz, xn = (x @ w_ih.T + b_ih).chunk(3, -1)
    hr, hz, hn = (h @ w_hh.T + b_hh).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    n = torch.tanh(xn + r * hn)
    return (1 - z) * n + z * h
"""
RIGHT_GATE = "my_gate = 0.966"
SIGNATURE = "def torch_gru_step(x, h, w_ih, w_hh, b_ih, b_hh):\n    "


def chapter(answers: dict[str, str], *cells: str, before: tuple[str, ...] = ()) -> dict:
    """Chapter 06 with these answers instead of the stubs, and more cells after or before all others."""
    notebook = json.loads((NOTEBOOKS / CHAPTER).read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        for tag in cell["metadata"].get("tags", []):
            if tag.removeprefix("exercise:") in answers:
                cell["source"] = answers[tag.removeprefix("exercise:")]
    notebook["cells"] += [code(cell) for cell in cells]
    notebook["cells"][1:1] = [code(cell) for cell in before]
    return notebook


def code(source: str) -> dict:
    return {"cell_type": "code", "id": "new", "metadata": {}, "outputs": [], "execution_count": None, "source": source}


def untagged(notebook: dict) -> dict:
    """The notebook without the tags of exercises."""
    for cell in notebook["cells"]:
        cell["metadata"].pop("tags", None)
    return notebook


def handed_in(outside: Path) -> dict[str, dict | str]:
    """Student -> notebook."""
    swapped = RIGHT_GRU.replace("(1 - z) * n + z * h", "z * n + (1 - z) * h")
    native = f"torch.save(x, {str(outside / 'native.pt')!r})"
    return {
        "loop": chapter({GRU: "import time\n" + SIGNATURE + "while True: time.sleep(0.01)", "my_gate": RIGHT_GATE}),
        "writes": chapter(
            {
                "my_gate": "from pathlib import Path\npath = Path('in')\n"
                "my_gate = path.write_text('0.966') and float(path.read_text())",
                GRU: SIGNATURE + f"open({str(outside / 'outside.txt')!r}, 'w')",
                "back_through_time": f"import os\ndef back_through_time(*_): os.remove({str(outside / 'mine')!r})",
                "chunk_gradients": f"def chunk_gradients(layer, x, n): {native}",
            }
        ),
        "reads": chapter(
            {
                "my_gate": f"my_gate = open({str(outside / 'mine')!r}).read()",
                GRU: "import subprocess\n" + SIGNATURE + "subprocess.run(['ls'])",
                "back_through_time": "import socket as s\ndef back_through_time(*_): s.create_connection(('::1', 1))",
                "chunk_gradients": "import ctypes\ndef chunk_gradients(*_): return ctypes.string_at(0)",
            }
        ),
        "crash": chapter(
            {
                "my_gate": "import os\nmy_gate = os._exit(3)",
                GRU: "import faulthandler\n" + SIGNATURE + "faulthandler._sigsegv()",
                "back_through_time": "import sys\ndef back_through_time(*_): sys.exit()",
                "chunk_gradients": "def chunk_gradients(*_): raise NotImplementedError",
            }
        ),
        "renamed": chapter(
            {GRU: RIGHT_GRU.replace("def torch_gru_step", "def my_step") + "\ndef other(x): return x\n"}
        ),
        "untagged": untagged(chapter({GRU: RIGHT_GRU, "my_gate": "my_gate = 0.034"})),
        "moved": chapter({}, RIGHT_GRU),
        "loud": chapter({GRU: RIGHT_GRU.replace("    xr,", "    print('x' * 10_000_000)\n    xr,")}),
        "shadows": chapter({"my_gate": "torch = None\n" + RIGHT_GATE, GRU: RIGHT_GRU}, "torch = None", "del torch"),
        "helped": chapter(
            {
                GRU: SIGNATURE + "return helper(x, h, w_ih, w_hh, b_ih, b_hh, N_BLOCKS)",
                "my_gate": "my_gate = half ** (1 / 20)",
            },
            before=(
                "%matplotlib inline\nhalf = 1 / 2\nN_BLOCKS = 3\nprint(undefined)",
                RIGHT_GRU.replace("torch_gru_step", "_").replace("b_hh):", "b_hh, n=3):").replace("by_hand", "helper"),
            ),
        ),
        "trained": chapter(
            {GRU: SIGNATURE + "return w_trained * h"},
            "w_trained = torch.ones(())\nfor _ in range(10**9):\n    w_trained -= 0.1",
        ),
        "broken": chapter({GRU: SIGNATURE + "return (x"}),
        "swapped": chapter({GRU: swapped}),
        "swapped2": chapter({GRU: swapped.replace("by_hand", "hand_made")}),
        "=cmd|' ": chapter({}),
        "text": "Dear teacher, here are my answers.",
        "half": json.dumps(chapter({}))[:50_000],
        "no cells": '{"cells": [3], "from": "possm_course.exercises import ch06"}',
        "other": json.dumps({"cells": [code("print('hello')")], "metadata": {}, "nbformat": 4}),
    }


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """What the command prints about a class, its verdicts by student and exercise, and a folder not to be touched."""
    folder, outside = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("outside")
    (outside / "mine").write_text("0.966")
    for student, notebook in handed_in(outside).items():
        (folder / f"{student}.ipynb").write_text(notebook if isinstance(notebook, str) else json.dumps(notebook))
    (folder / "solved").mkdir()
    for name in SOLVED:
        (folder / "solved" / name).write_bytes((NOTEBOOKS / "solutions" / name).read_bytes())
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*.ipynb")}
    command = [sys.executable, "-m", "possm_course.grade", folder, "--seconds", str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert before == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*.ipynb")}
    with (folder / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    verdicts = {(row["student"], row["exercise"]): (row["status"], row["message"]) for row in rows}
    return done.stdout, verdicts, outside


def test_solutions_are_right(graded):
    _, verdicts, _ = graded
    chapters = [grade.CHAPTERS[name[:2]] for name in SOLVED]
    assert all(verdicts["solved", name] == ("right", "") for exercises in chapters for name in exercises)


@pytest.mark.parametrize(
    ("student", "exercise", "status", "words"),
    [
        ("loop", "my_gate", "right", ""),
        ("loop", GRU, "not run", "the time of its notebook was up"),
        ("writes", "my_gate", "right", ""),  # in its own folder
        ("writes", GRU, "wrong", "may not do this: open"),
        ("writes", "back_through_time", "wrong", "may not do this: os.remove"),
        ("writes", "chunk_gradients", "wrong", ""),
        ("reads", "my_gate", "not run", "may not do this: open"),
        ("reads", GRU, "wrong", "may not do this: subprocess.Popen"),
        ("reads", "back_through_time", "wrong", "may not do this: socket"),
        ("reads", "chunk_gradients", "wrong", "may not do this: ctypes"),
        ("crash", "my_gate", "not run", "ended the process that checked it (exit status 3)"),
        ("crash", GRU, "not run", "ended the process that checked it"),
        ("crash", "back_through_time", "wrong", "SystemExit"),  # those after it have been checked
        ("crash", "chunk_gradients", "missing", ""),
        ("renamed", GRU, "right", ""),
        ("untagged", GRU, "right", ""),
        ("untagged", "my_gate", "wrong", "that is 1 - Z"),
        ("untagged", "chunk_gradients", "missing", ""),
        ("moved", GRU, "right", ""),
        ("loud", GRU, "right", ""),
        ("shadows", GRU, "right", ""),
        ("helped", GRU, "right", ""),
        ("helped", "my_gate", "right", ""),
        ("trained", GRU, "not run", "it reads `w_trained`: a cell makes it that does more than import and define"),
        ("broken", GRU, "not run", "SyntaxError in line 2 of its cell"),
        ("broken", "my_gate", "missing", ""),
        ("swapped", GRU, "wrong", "Z and 1 - Z are swapped."),
        ("=cmd|'", GRU, "missing", ""),
        ("half", GRU, "not run", "it is not a notebook"),
        ("no cells", GRU, "not run", "it is not a notebook"),
        ("text", "", "not run", "it is not a notebook"),
        ("other", "", "not run", "of which chapter is it?"),
    ],
)
def test_verdicts(graded, student, exercise, status, words):
    found = graded[1]["'" * student.startswith("=") + student, exercise]  # no formula for a spreadsheet
    assert found[0] == status and words in found[1], found
    assert bool(found[1]) == (status in ("wrong", "not run"))


def test_nothing_is_written_outside(graded):
    outside = graded[2]
    if sys.platform != "linux":
        (outside / "native.pt").unlink(missing_ok=True)  # torch writes it itself, which Python cannot refuse
    assert [path.name for path in outside.iterdir()] == ["mine"]


def test_table_and_the_commonest_mistake(graded):
    printed = graded[0]
    lines = [line.split() for line in printed.splitlines()]
    assert "What they wrote will be RUN" in printed.partition("Chapter")[0]
    assert ["helped", "✓", "✓", "–"] in [line[:4] for line in lines]
    assert ["loop", "✓", "?"] in [line[:3] for line in lines]
    assert any(line[:5] == ["swapped", "–", "Z", "and", "1"] for line in lines)
    assert max(map(len, printed.partition("\n✓ right")[0].splitlines())) <= 140
    first = "1. 2 students, torch_gru_step (chapter 06): Z and 1 - Z are swapped. Torch's Z keeps the old state."
    assert first in printed.replace("\n   ", " ")
    assert "TEACHING, chapter 06, what goes wrong: A time constant taken for a half-life; Z and 1-Z;" in printed


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("that is 1 - Z, what makes room. Here Z is the share that stays.", "1 - Z, what makes room"),
        ("on two keys: it raised TypeError in line 2 of its cell, `x`: no.", "TypeError"),
        ("on two keys: expected 0.25, got 0.5; 2 of 4 are wrong.", "expected 0.25, got 0.5"),
        ("it was still running after 15 s. Is there a loop without end?", "endless loop"),
        ("two things are wrong. First: the bias is outside. Second: it is not.", "the bias is outside"),
        ("R is multiplied before the product: that is the textbook's GRU.", "R is multiplied before th…"),
    ],
)
def test_phrase(message, words):
    assert grade.phrase(message, 26) == words


def test_what_is_not_graded(tmp_path, capsys):
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert grade.main([str(folder)]) == 2
        assert capsys.readouterr().err.endswith(": NAME.ipynb of each student, or NAME/NN_chapter.ipynb\n")
    (tmp_path / "anna.ipynb").write_text(json.dumps(chapter({})))
    (tmp_path / "grades.csv").write_text("anna,1.0\n")
    assert grade.main([str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and "is there already" in printed.err


def test_better_of_two_notebooks_counts(tmp_path):
    first, second = (grade.Notebook("anna", tmp_path, chapter="06") for _ in range(2))
    first.verdicts = {GRU: ("wrong", "no"), "my_gate": ("missing", "")}
    second.verdicts = {GRU: ("missing", ""), "my_gate": ("right", "")}
    rows = grade.table_rows([first, second])
    assert rows == [["anna", "06", "my_gate", "right", ""], ["anna", "06", GRU, "wrong", "no"]]


def test_what_an_answer_needs():
    """Only what it reads is run, an import before what shadows it, and nothing that a loop has changed."""
    cells = [
        "from math import pi, e",
        "a = pi",
        "b = [a]\nunused = 1 / 0",
        "b.append(2)",
        "model = fit()",
        "def helper(x):\n    return x + a",
        "def answer(x):\n    c = 3\n    return helper(x) + c + later + b[0] + model\nanswer(1)",
        "later = 5\npi = 3",
    ]
    statements, _, _ = grade._read(json.dumps({"cells": [code(cell) for cell in cells]}))
    chosen, undone = grade._needed(statements, 7, "answer")
    assert [(each.cell, *sorted(each.binds)) for each in chosen] == [
        (1, "e", "pi"),
        (2, "a"),
        (6, "helper"),
        (8, "later"),
        (7, "answer"),
    ]
    assert undone == {"b", "model"}
