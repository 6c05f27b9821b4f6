"""No file can run code, JupyterLab accepts local requests with a token only, commands write only to their folders."""

import http.client
import os
import shlex
import stat
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

from ..browser.lab import stop, wait_until_it_listens

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lab(tmp_path):
    """Server information of a JupyterLab as `make lab` starts it, without a browser, on a free port."""
    pytest.importorskip("jupyterlab")
    (line,) = (line.strip() for line in (ROOT / "Makefile").read_text().splitlines() if "$(BIN)/jupyter lab" in line)
    assert ' JUPYTER_CONFIG_PATH="$(CURDIR)/.jupyter' in line
    arguments = shlex.split(line.replace("$(ARGS)", "--no-browser --ServerApp.port=0").split("jupyter lab")[1])
    as_root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
    own = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
    own |= {"JUPYTER_CONFIG_PATH": str(ROOT / ".jupyter")}
    (tmp_path / "notebooks").mkdir()
    log = tmp_path / "log"
    with log.open("w") as stream:
        command = [sys.executable, "-m", "jupyterlab", *arguments, *as_root]
        server = subprocess.Popen(command, cwd=tmp_path, env=inherited | own, stdout=stream, stderr=stream)
    try:
        yield wait_until_it_listens(server, tmp_path / "runtime", log)
    finally:
        stop(server)


def status_of(url: str, **headers: str) -> int:
    """Of the answer itself: http.client does not follow the redirection to the login page."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_jupyterlab_is_local_and_asks_for_a_token(lab):
    assert lab["url"].startswith("http://127.0.0.1:") and lab["hostname"] == "127.0.0.1"
    assert len(lab["token"]) >= 32 and not lab["password"]
    contents, token = f"{lab['url']}api/contents", f"token {lab['token']}"
    assert status_of(f"{contents}?token={lab['token']}") == status_of(contents, Authorization=token) == 200
    assert status_of(contents) == status_of(f"{contents}?token={lab['token'][:-1]}") == 403
    assert status_of(f"{lab['url']}files/log") == status_of(f"{lab['url']}lab") == 302  # to the login page
    assert status_of(contents, Authorization=token, Host="elsewhere.example") == 403  # DNS rebinding
    if os.name == "posix":  # only the owner can read the token
        assert stat.S_IMODE(lab["file"].stat().st_mode) & 0o077 == 0


RECORD_WRITES = """
import os, sys
written = open(sys.argv[1], "a")
def record(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)):
        if (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.write(os.path.abspath(os.fsdecode(args[0])) + chr(10))
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "shutil.move"):
        written.write(os.path.abspath(os.fsdecode(args[0 if event in ("os.mkdir", "os.truncate") else 1])) + chr(10))
sys.addaudithook(record)
from possm_lite.app.cli import main
sys.exit(any(main(command.split()) for command in sys.argv[2:]))
"""


def test_commands_write_only_to_runs_and_given_paths(small_recording, tmp_path):
    work, home, temporary = (tmp_path / name for name in ("work", "home", "temporary"))
    for folder in (work, home, temporary):
        folder.mkdir()
    small_recording.save(work / "a.npz")
    before = (work / "a.npz").read_bytes()
    own = {"HOME": home, "USERPROFILE": home, "TMPDIR": temporary, "TEMP": temporary, "TMP": temporary}
    own |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    own |= {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "SYSTEMROOT")}
    commands = ["decode a.npz --epochs 1 --json figures.json", f"stream runs/{small_recording.session_id}-1 a.npz"]
    arguments = [sys.executable, "-c", RECORD_WRITES, str(tmp_path / "written.txt"), *commands]
    environment = {name: str(value) for name, value in own.items()}
    run = subprocess.run(arguments, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert {path.name for path in work.iterdir()} == {"a.npz", "runs", "figures.json"}
    assert (work / "a.npz").read_bytes() == before
    lines = (tmp_path / "written.txt").read_text().splitlines()
    paths = {Path(line) for line in lines if not line.endswith(".partial")}  # which a file replaces when complete
    assert any(work / "runs" in path.parents for path in paths)
    third_party = (home / ".cache", home / ".config", temporary)  # caches of matplotlib, empty folders of torch
    allowed = (work / "runs", work / "figures.json", *third_party, Path("/dev"))
    assert {path for path in paths - {work} if not any(folder in (path, *path.parents) for folder in allowed)} == set()
    assert not any(path.is_file() for path in temporary.rglob("*"))
