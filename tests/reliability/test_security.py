"""No file can run code, JupyterLab answers to its own machine and to a token only, nothing is written elsewhere."""

import ast
import contextlib
import json
import os
import shlex
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from possm_lite.spikes import load_recording
from possm_lite.spikes.io.nwb_write import write_nwb
from tests.test_structure import pickle_uses

ROOT = Path(__file__).parents[2]
SOURCES = sorted((*ROOT.glob("possm_lite/**/*.py"), *ROOT.glob("site/*.py"), *ROOT.glob("notebooks/**/*.ipynb")))
SOURCES = [path for path in SOURCES if not any(part.startswith((".", "_build")) for part in path.parts)]
SANDBOX = "possm_lite/classroom/checks/sandbox.py"

# Code in the sources

RUNS_FILES = {"marshal", "cPickle", "pickle5", "jsonpickle", "hickle", "sklearn.externals.joblib", "code", "codeop"}
RUNS_TEXT = {"eval", "exec", "compile", "__import__", "execfile"}  # as names; model.eval() is something else
RUNS_COMMANDS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
MUST_SAY = {  # the call by its last part, and what it has to say
    "load": {"np": "allow_pickle=False", "numpy": "allow_pickle=False", "yaml": "Loader=yaml.SafeLoader"},
    "read_array": {"": "allow_pickle=False"},
    "loadmat": {"": "variable_names="},
    "read_pickle": {"": "never="},
    "unsafe_load": {"": "never="},
    "full_load": {"": "never="},
}


def code_of(path: Path) -> str:
    """A module, or the code of a notebook without what only IPython understands."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    cells = (cell.source for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "code")
    return "\n".join("pass" if line.startswith(("%", "!")) else line for cell in cells for line in cell.splitlines())


def ways_in(path: str, source: str) -> list[str]:
    """Where text or a file could become code that runs, beside what `pickle_uses` finds."""
    tree, found = ast.parse(source), []
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    meant = {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [(node.lineno, name) for name in names if name in RUNS_FILES]
        if isinstance(node, ast.Name) and node.id in RUNS_TEXT and path != SANDBOX:
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.Call):
            found += [(node.lineno, what) for what in _wrong_call(node, meant)]
    return [f"{path}:{line} has {what}" for line, what in found] + pickle_uses(path, source)


def _wrong_call(call: ast.Call, meant: dict[str, str]) -> list[str]:
    name, said = ast.unparse(call.func), [ast.unparse(keyword) for keyword in call.keywords]
    owner, _, last = name.rpartition(".")
    owner = meant.get(owner, owner)
    wrong = [name] if f"{owner}.{last}" in RUNS_COMMANDS or "shell=True" in said else []
    for whose, needed in MUST_SAY.get(last, {}).items():
        if whose in ("", owner) and not any(word.startswith(needed) for word in said):
            wrong.append(f"{name} without {needed}")
    return wrong + (
        ["verify_compressed_data_integrity=False"] if "verify_compressed_data_integrity=False" in said else []
    )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_that_is_read_is_run(path):
    assert ways_in(path.relative_to(ROOT).as_posix(), code_of(path)) == []


PLANTED = [
    "import marshal",
    "from marshal import loads",
    "import pickle",
    "import dill as d",
    "from joblib import load",
    "import shelve",
    "def late():\n    import cPickle",
    "eval(input())",
    "exec(open('a').read())",
    "run = exec",
    "__import__('os')",
    "compile(text, 'a', 'exec')",
    "import os\nos.system('ls')",
    "import subprocess as s\ns.getoutput('ls')",
    "subprocess.run('ls', shell=True)",
    "import numpy as np\nnp.load('a.npz')",
    "import numpy\nnumpy.load('a.npz', mmap_mode='r')",
    "import numpy as n\nn.load('a.npz')",
    "import numpy as np\nnp.load('a.npz', allow_pickle=True)",
    "import torch\ntorch.load('a.pt')",
    "import yaml\nyaml.load(text)",
    "import yaml\nyaml.load(text, Loader=yaml.Loader)",
    "import yaml\nyaml.unsafe_load(text)",
    "np.lib.format.read_array(file)",
    "loadmat(path)",
    "scipy.io.loadmat(path, variable_names=wanted, verify_compressed_data_integrity=False)",
    "pandas.read_pickle(path)",
]


@pytest.mark.parametrize("source", PLANTED)
def test_the_checker_sees_what_is_planted(source):
    assert ways_in("possm_lite/spikes/arrays.py", source) != []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.load('a.npz', allow_pickle=False)",
        "import json\njson.load(file)",
        "model.eval()\nre.compile('a')\nmodel.compile()",
        "import yaml\nyaml.safe_load(text)\nyaml.load(text, Loader=yaml.SafeLoader)",
        "loadmat(path, variable_names=wanted)",
        "subprocess.run(['ls'], check=True)",
    ],
)
def test_the_checker_lets_the_rest_pass(source):
    assert ways_in("possm_lite/spikes/arrays.py", source) == []


def test_the_checker_reads_notebooks(tmp_path):
    cells = [nbformat.v4.new_code_cell("%matplotlib inline\nx = 1"), nbformat.v4.new_code_cell("import pickle")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "a.ipynb")
    assert len(ways_in("notebooks/a.ipynb", code_of(tmp_path / "a.ipynb"))) == 1
    assert sum(path.suffix == ".ipynb" for path in SOURCES) >= 18 and ROOT / "possm_lite/spikes/arrays.py" in SOURCES


# JupyterLab, as `make lab` starts it


def lab_command() -> list[str]:
    """The line of the Makefile, with the Python that runs the tests and without a browser, on a free port."""
    (line,) = (line.strip() for line in (ROOT / "Makefile").read_text().splitlines() if "$(BIN)/jupyter lab" in line)
    jupyter, *arguments = line.replace("$(ARGS)", "--no-browser --ServerApp.port=0").split("jupyter lab")
    assert jupyter == "$(BIN)/" and len(arguments) == 1
    as_root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    return [sys.executable, "-m", "jupyterlab", *shlex.split(arguments[0]), *as_root]


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> dict:
    """What a running JupyterLab says of itself, with the `file` it says it in. No settings of this machine."""
    if find_spec("jupyterlab") is None:
        pytest.skip("jupyterlab is not here")
    folder = tmp_path_factory.mktemp("lab")
    (folder / "notebooks").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {"HOME": str(folder), "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_NO_CONFIG": "1"}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(lab_command(), cwd=folder, env=kept | own, stdout=log, stderr=log)
    try:
        yield _when_it_answers(folder, server)
    finally:
        server.terminate()
        server.wait(timeout=60)


def _when_it_answers(folder: Path, server: subprocess.Popen, patience_s: float = 120.0) -> dict:
    until = time.monotonic() + patience_s
    while time.monotonic() < until and server.poll() is None:
        for file in (folder / "runtime").glob("jpserver-*.json"):
            with contextlib.suppress(OSError, ValueError):  # half written, or not listening yet
                about = json.loads(file.read_text()) | {"file": file}
                urllib.request.urlopen(f"{about['url']}api/status?token={about['token']}", timeout=10).close()
                return about
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start: {(folder / 'log').read_text()[-2000:]}")


class _Stays(urllib.request.HTTPRedirectHandler):
    """Does not go on to the page where one logs in."""

    def redirect_request(self, *_):
        return None


def status_of(url: str, **headers: str) -> int:
    stays = urllib.request.build_opener(_Stays)
    try:
        with stays.open(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


def test_jupyterlab_listens_on_the_loopback_only(lab):
    assert lab["url"].startswith("http://127.0.0.1:") and lab["hostname"] == "127.0.0.1"
    sockets = Path("/proc/net/tcp"), Path("/proc/net/tcp6")
    lines = [line.split() for path in sockets if path.exists() for line in path.read_text().splitlines()[1:]]
    listening = [line[1].split(":")[0] for line in lines if line[3] == "0A" and line[1].endswith(f":{lab['port']:04X}")]
    assert listening == (["0100007F"] if lines else [])  # 127.0.0.1, as the kernel writes it


def test_jupyterlab_asks_for_a_token(lab):
    assert len(lab["token"]) >= 32 and not lab["password"]
    contents = f"{lab['url']}api/contents"
    assert status_of(f"{contents}?token={lab['token']}") == 200
    for path in ("api/contents", "api/kernels", "api/sessions"):
        assert status_of(f"{lab['url']}{path}", Accept="application/json") == 403, path
    assert status_of(f"{lab['url']}files/log") == status_of(f"{lab['url']}lab") == 302  # to the page to log in
    assert status_of(f"{contents}?token={lab['token'][:-1]}") == status_of(f"{contents}?token=") == 403
    assert status_of(contents, Authorization=f"token {lab['token']}") == 200
    # a page elsewhere that has its name point here
    assert status_of(contents, Authorization=f"token {lab['token']}", Host="elsewhere.example") == 403


@pytest.mark.skipif(os.name != "posix", reason="who may read a file is said in other ways here")
def test_the_token_is_for_its_owner_only(lab):
    assert stat.S_IMODE(lab["file"].stat().st_mode) & 0o077 == 0


# What pynwb leaves in the user's cache, and would read from there


def test_an_nwb_file_is_read_without_the_pickle_in_the_users_cache(small_recording, tmp_path, monkeypatch):
    pytest.importorskip("pynwb")
    for name in ("HOME", "XDG_CACHE_HOME", "USERPROFILE", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("PYNWB_NO_CACHE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    write_nwb(small_recording, tmp_path / "a.nwb")
    subprocess.run([sys.executable, "-c", "import pynwb"], check=True)
    left = list(tmp_path.rglob("*.pkl"))
    if not left:
        pytest.skip("this pynwb leaves none")
    left[0].write_bytes(b"cos\nmkdir\n(S'unpickled'\ntR.")
    assert load_recording(tmp_path / "a.nwb").n_units == 12
    assert not Path("unpickled").exists()
    subprocess.run([sys.executable, "-c", "import pynwb"], capture_output=True)  # that it would have been
    assert Path("unpickled").exists()


# What is written, and where

WATCHED = """
import os, sys, tempfile
written = open(sys.argv[1], "a")
def watch(event, about):
    if event == "open" and isinstance(about[0], (str, bytes)):
        if (about[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.write(os.path.abspath(os.fsdecode(about[0])) + chr(10))
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "shutil.move"):
        written.write(os.path.abspath(os.fsdecode(about[0 if event in ("os.mkdir", "os.truncate") else 1])) + chr(10))
sys.addaudithook(watch)
from possm_lite.cli import main
sys.exit(main(sys.argv[2:]))
"""


def test_the_commands_write_into_runs_and_where_they_are_told(small_recording, tmp_path):
    work, home, temporary = (tmp_path / name for name in ("work", "home", "temporary"))
    for folder in (work, home, temporary):
        folder.mkdir()
    small_recording.save(work / "a.npz")
    recording = "a.npz"
    if find_spec("pynwb"):  # read by another process, through a temporary folder
        write_nwb(small_recording, work / "a.nwb")
        recording = "a.nwb"
    before = {path: path.read_bytes() for path in work.iterdir()}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MPL", "XDG", "TORCH", "PYTEST"))}
    own = {"HOME": home, "USERPROFILE": home, "TMPDIR": temporary, "TEMP": temporary, "TMP": temporary}
    own |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    for command in (
        ["decode", recording, "--epochs", "1", "--json", "figures.json"],
        ["stream", f"runs/{small_recording.session_id}-1", recording],
    ):
        environment = {name: str(value) for name, value in (kept | own).items()}
        arguments = [sys.executable, "-c", WATCHED, str(tmp_path / "written.txt"), *command]
        run = subprocess.run(arguments, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stderr
    assert {path.name for path in work.iterdir()} == {path.name for path in before} | {"runs", "figures.json"}
    assert all(path.read_bytes() == content for path, content in before.items())
    third_party = (home / ".cache" / "matplotlib", home / ".config" / "matplotlib")  # its list of fonts
    left = [path for path in home.rglob("*") if path.is_file() and not any(own in path.parents for own in third_party)]
    left += [path for path in temporary.rglob("*") if not path.name.startswith("torchinductor_")]  # empty, of torch
    assert left == []
    paths = {Path(line) for line in (tmp_path / "written.txt").read_text().splitlines()}
    allowed = (work, temporary, *third_party, home / ".cache", home / ".config", Path("/dev"))
    assert any(work / "runs" in path.parents for path in paths)
    assert {path for path in paths if not any(folder in (path, *path.parents) for folder in allowed)} == set()
