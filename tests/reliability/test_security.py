"""No file can run code, JupyterLab accepts local requests with a token only, commands write only to their folders."""

import contextlib
import os
import re
import shlex
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

from possm_lite.spikes import load_recording
from possm_lite.spikes.io.nwb_write import write_nwb

from ..browser.lab import stop, wait_until_it_listens

ROOT = Path(__file__).parents[2]
# ruff (S and TID251 in pyproject.toml) finds pickle, torch.load, eval, exec, shells and unsafe YAML; these it does not.
UNSAFE = re.compile(
    r"allow_pickle\s*=(?!\s*False\b)|verify_compressed_data_integrity\s*=\s*False|loadmat\((?![^()]*variable_names=)"
)


def test_no_source_reads_with_unsafe_options():
    assert UNSAFE.search("np.load('a.npz', allow_pickle = trusted)") and UNSAFE.search("loadmat(path)")
    assert not UNSAFE.search("np.load('a.npz', allow_pickle=False); loadmat(path, variable_names=wanted)")
    sources = [path for path in (ROOT / "possm_lite").rglob("*.py")] + [*(ROOT / "notebooks").glob("**/[0-9]*.ipynb")]
    assert len(sources) > 50
    assert [path.name for path in sources if UNSAFE.search(path.read_text(encoding="utf-8"))] == []


# JupyterLab, as `make lab` starts it


def lab_command() -> list[str]:
    """The line of the Makefile, with the Python that runs the tests and without a browser, on a free port."""
    (line,) = (line.strip() for line in (ROOT / "Makefile").read_text().splitlines() if "$(BIN)/jupyter lab" in line)
    jupyter, *arguments = line.replace("$(ARGS)", "--no-browser --ServerApp.port=0").split("jupyter lab")
    assert ' JUPYTER_CONFIG_PATH="$(CURDIR)/.jupyter' in jupyter and len(arguments) == 1
    as_root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    return [sys.executable, "-m", "jupyterlab", *shlex.split(arguments[0]), *as_root]


@contextlib.contextmanager
def running_lab(folder: Path):
    """Server information of a running JupyterLab without local settings, and the `file` it is in."""
    (folder / "notebooks").mkdir()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {"HOME": str(folder), "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_CONFIG_PATH": str(ROOT / ".jupyter")}
    log = folder / "log"
    with log.open("w") as stream:
        server = subprocess.Popen(lab_command(), cwd=folder, env=inherited | own, stdout=stream, stderr=stream)
    try:
        yield wait_until_it_listens(server, folder / "runtime", log)
    finally:
        stop(server)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow the redirection to the login page."""

    def redirect_request(self, *_):
        return None


def status_of(url: str, **headers: str) -> int:
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=30) as response:
            return response.status
    except urllib.error.HTTPError as exc:
        return exc.code


def test_jupyterlab_is_local_and_asks_for_a_token(tmp_path):
    if find_spec("jupyterlab") is None:
        pytest.skip("jupyterlab is not installed")
    with running_lab(tmp_path) as lab:
        assert lab["url"].startswith("http://127.0.0.1:") and lab["hostname"] == "127.0.0.1"
        sockets = Path("/proc/net/tcp"), Path("/proc/net/tcp6")
        lines = [line.split() for path in sockets if path.exists() for line in path.read_text().splitlines()[1:]]
        port = f":{lab['port']:04X}"
        listening = [line[1].split(":")[0] for line in lines if line[3] == "0A" and line[1].endswith(port)]
        assert listening == (["0100007F"] if lines else [])  # 127.0.0.1, as the kernel writes it

        assert len(lab["token"]) >= 32 and not lab["password"]
        contents = f"{lab['url']}api/contents"
        assert status_of(f"{contents}?token={lab['token']}") == 200
        for path in ("api/contents", "api/kernels", "api/sessions"):
            assert status_of(f"{lab['url']}{path}", Accept="application/json") == 403, path
        assert status_of(f"{lab['url']}files/log") == status_of(f"{lab['url']}lab") == 302  # to the login page
        assert status_of(f"{contents}?token={lab['token'][:-1]}") == status_of(f"{contents}?token=") == 403
        assert status_of(contents, Authorization=f"token {lab['token']}") == 200
        # DNS rebinding
        assert status_of(contents, Authorization=f"token {lab['token']}", Host="elsewhere.example") == 403
        if os.name == "posix":  # only the owner can read the token
            assert stat.S_IMODE(lab["file"].stat().st_mode) & 0o077 == 0


# The pickle that pynwb writes to the user's cache and loads from there


def test_nwb_reading_ignores_the_cached_pickle(small_recording, tmp_path, monkeypatch):
    pytest.importorskip("pynwb")
    for name in ("HOME", "XDG_CACHE_HOME", "USERPROFILE", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write_nwb(small_recording, tmp_path / "a.nwb")
    monkeypatch.delenv("PYNWB_NO_CACHE_DIR")
    subprocess.run([sys.executable, "-c", "import pynwb"], check=True)
    cached = list(tmp_path.rglob("*.pkl"))
    if not cached:
        pytest.skip("this pynwb writes none")
    cached[0].write_bytes(b"cos\nmkdir\n(S'unpickled'\ntR.")
    assert load_recording(tmp_path / "a.nwb").n_units == 12
    assert not Path("unpickled").exists()
    subprocess.run([sys.executable, "-c", "import pynwb"], capture_output=True)  # control: pynwb itself loads it
    assert Path("unpickled").exists()


# Files written by the commands

RECORD_WRITES = """
import os, sys, tempfile
written = open(sys.argv[1], "a")
def record(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)):
        if (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.write(os.path.abspath(os.fsdecode(args[0])) + chr(10))
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "shutil.move"):
        written.write(os.path.abspath(os.fsdecode(args[0 if event in ("os.mkdir", "os.truncate") else 1])) + chr(10))
sys.addaudithook(record)
from possm_lite.cli import main
sys.exit(any(main(command.split()) for command in sys.argv[2:]))
"""


def test_commands_write_only_to_runs_and_given_paths(small_recording, tmp_path):
    work, home, temporary = (tmp_path / name for name in ("work", "home", "temporary"))
    for folder in (work, home, temporary):
        folder.mkdir()
    small_recording.save(work / "a.npz")
    recording = "a.npz"
    if find_spec("pynwb"):  # read in another process, through a temporary folder
        write_nwb(small_recording, work / "a.nwb")
        recording = "a.nwb"
    before = {path: path.read_bytes() for path in work.iterdir()}
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("MPL", "XDG", "TORCH", "PYTEST"))
    }
    own = {"HOME": home, "USERPROFILE": home, "TMPDIR": temporary, "TEMP": temporary, "TMP": temporary}
    own |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    environment = {name: str(value) for name, value in (inherited | own).items()}
    commands = (f"decode {recording} --epochs 1 --json figures.json",)
    commands += (f"stream runs/{small_recording.session_id}-1 {recording}",)
    arguments = [sys.executable, "-c", RECORD_WRITES, str(tmp_path / "written.txt"), *commands]
    run = subprocess.run(arguments, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert {path.name for path in work.iterdir()} == {path.name for path in before} | {"runs", "figures.json"}
    assert all(path.read_bytes() == content for path, content in before.items())
    third_party = (home / ".cache" / "matplotlib", home / ".config" / "matplotlib")  # its font cache
    leftovers = [
        path for path in home.rglob("*") if path.is_file() and not any(folder in path.parents for folder in third_party)
    ]
    leftovers += [
        path for path in temporary.rglob("*") if not path.name.startswith("torchinductor_")
    ]  # empty, of torch
    assert leftovers == []
    paths = {Path(line) for line in (tmp_path / "written.txt").read_text().splitlines()}
    allowed = (work, temporary, *third_party, home / ".cache", home / ".config", Path("/dev"))
    assert any(work / "runs" in path.parents for path in paths)
    assert {path for path in paths if not any(folder in (path, *path.parents) for folder in allowed)} == set()
