"""Downloads from a server in this process, and through a stand-in for DANDI's client. The archives are not reached."""

import hashlib
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from possm_lite.cli import main
from possm_lite.spikes.io.download import ADDRESSES, CHECKSUMS, downloaded, recording_at_hand

PATH = Path("data", "recordings", "s1.mat")
CONTENT = bytes(range(256)) * 4000


class Server(ThreadingHTTPServer):
    """Answers every request with `content`, or with its first half before it hangs up; counts requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.hangs_up, self.requests = CONTENT, False, 0
        self.address = f"http://127.0.0.1:{self.server_port}/any.mat"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        content, self.server.requests = self.server.content, self.server.requests + 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.server.hangs_up else content)

    def log_message(self, *args):
        pass


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(here, monkeypatch):
    pytest.importorskip("pooch")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setitem(ADDRESSES, "s1", server.address)
        monkeypatch.setitem(CHECKSUMS, "s1", f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")
        yield server
        server.shutdown()
        thread.join()


def assert_refused(capfd, name: str, *texts: str):
    """Exit status 2; the last line on stderr, after the progress bar, has these texts; no file changed."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(["download", name]) == 2
    *bar, line = capfd.readouterr().err.splitlines()
    assert line.startswith("possm-lite: ") and all(text in line for text in texts), line
    assert not any("possm-lite" in each or "Traceback" in each for each in bar)
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_second_call_does_not_download(server, capfd):
    for _ in range(2):
        assert main(["download", "s1"]) == 0
        assert PATH.read_bytes() == CONTENT and list(PATH.parent.iterdir()) == [PATH]
        assert f"decode {PATH}" in capfd.readouterr().out
    assert server.requests == 1
    assert main(["download", "s1", "--to", "else where"]) == 0
    assert Path("else where", "s1.mat").read_bytes() == CONTENT
    assert "decode 'else where/s1.mat'" in capfd.readouterr().out


def test_damaged_file_is_replaced_once_complete(server, capfd):
    PATH.parent.mkdir(parents=True)
    PATH.write_bytes(b"damaged")
    server.hangs_up = True
    assert_refused(capfd, "s1", server.address)
    server.hangs_up = False
    assert main(["download", "s1"]) == 0
    assert PATH.read_bytes() == CONTENT


def test_wrong_checksum_leaves_nothing(server, capfd):
    server.content = CONTENT[:-1] + b"?"
    assert_refused(capfd, "s1", server.address, "does not match the known hash")


def test_no_network_is_one_line(server, monkeypatch, capfd):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setitem(ADDRESSES, "s1", f"http://127.0.0.1:{free.getsockname()[1]}/any.mat")
    assert_refused(capfd, "s1", ADDRESSES["s1"])
    assert_refused(capfd, "mc_maze", "'mc_maze'", *ADDRESSES)


@pytest.mark.parametrize("name", ["s1", "mc-rtt"])
def test_downloaded_files_are_found_from_subfolders(here, monkeypatch, name):
    assert downloaded(name) is None
    path = here / "data" / "recordings" / f"{name}{PATH.suffix if name == 's1' else '.nwb'}"
    path.parent.mkdir(parents=True)
    path.touch()
    (here / "notebooks" / "solutions").mkdir(parents=True)
    monkeypatch.chdir(here / "notebooks" / "solutions")
    assert downloaded(name).samefile(path)
    assert recording_at_hand().samefile(path)
    monkeypatch.setenv("POSSM_LITE_RECORDING", "~/monday.nwb")
    assert recording_at_hand() == Path.home() / "monday.nwb"


# DANDI


@pytest.fixture
def dandi(here, monkeypatch):
    """Stands in for DANDI's client: writes `files` as its `download` does, and raises `error` after the first."""
    dandi = SimpleNamespace(
        files=["sub-A/sub-A_desc-test_ecephys.nwb", "sub-A/sub-A_desc-train_ecephys.nwb"], error=None
    )

    def download(urls, output_dir):
        for file in dandi.files:
            path = Path(output_dir, urls.removeprefix("DANDI:"), file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file)
            if dandi.error:
                raise dandi.error

    dandi.download = download
    monkeypatch.setitem(sys.modules, "dandi", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "dandi.download", dandi)
    return dandi


def test_dandi_set_gives_its_training_file(dandi):
    path = Path("data", "recordings", "mc-maze-small.nwb")
    for _ in range(2):
        assert main(["download", "mc-maze-small"]) == 0
        assert path.read_text() == "sub-A/sub-A_desc-train_ecephys.nwb" and list(path.parent.iterdir()) == [path]
        dandi.error = RuntimeError("a second download")


def test_failures_of_dandi_leave_nothing(dandi, capfd):
    dandi.error = RuntimeError("broken\nconnection")
    assert_refused(capfd, "mc-rtt", "mc-rtt: DANDI:000129", "broken connection")
    dandi.error, dandi.files = None, dandi.files[:1]
    assert_refused(capfd, "mc-rtt", "DANDI:000129 has 0 files")


@pytest.mark.parametrize(
    ("name", "module", "cure"),
    [("s1", "pooch", "pip install possm-lite[recordings]"), ("mc-rtt", "dandi.download", "pip install dandi")],
)
def test_missing_package_is_named(here, monkeypatch, capfd, name, module, cure):
    monkeypatch.setitem(sys.modules, module.split(".")[0], None)
    monkeypatch.setitem(sys.modules, module, None)
    assert_refused(capfd, name, f"{name}: needs {module}", cure)
