"""Downloads from a server in this process, and through a stand-in for DANDI's client. The archives are not reached."""

import hashlib
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from possm_lite.app.cli import main
from possm_lite.recordings.formats.download import ADDRESSES, CHECKSUMS, recording_at_hand

PATH = Path("data", "recordings", "s1.mat")
CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(here, monkeypatch):
    pytest.importorskip("pooch")
    served = here / "served" / "any.mat"
    served.parent.mkdir()
    served.write_bytes(CONTENT)
    handler = partial(SimpleHTTPRequestHandler, directory=served.parent)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setitem(ADDRESSES, "s1", f"http://127.0.0.1:{server.server_port}/any.mat")
        monkeypatch.setitem(CHECKSUMS, "s1", f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")
        yield served
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
        server.write_bytes(b"not downloaded")
    server.write_bytes(CONTENT)
    assert main(["download", "s1", "--to", "else where"]) == 0
    assert Path("else where", "s1.mat").read_bytes() == CONTENT
    assert "decode 'else where/s1.mat'" in capfd.readouterr().out


def test_failures_leave_what_was_there(server, monkeypatch, capfd):
    server.write_bytes(CONTENT[:-1] + b"?")
    assert_refused(capfd, "s1", ADDRESSES["s1"], "does not match the known hash")
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_bytes(b"damaged")
    assert_refused(capfd, "s1", ADDRESSES["s1"])
    assert_refused(capfd, "mc_maze", "'mc_maze'", *ADDRESSES)
    server.write_bytes(CONTENT)
    assert main(["download", "s1"]) == 0
    assert PATH.read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["s1.mat", "mc-rtt.nwb"])
def test_downloaded_files_are_found_from_subfolders(here, monkeypatch, name):
    path = here / "data" / "recordings" / name
    assert recording_at_hand() is None
    path.parent.mkdir(parents=True)
    path.touch()
    (here / "notebooks" / "solutions").mkdir(parents=True)
    monkeypatch.chdir(here / "notebooks" / "solutions")
    assert recording_at_hand().samefile(path)
    monkeypatch.setenv("POSSM_LITE_RECORDING", "~/monday.nwb")
    assert recording_at_hand() == Path.home() / "monday.nwb"


def test_dandi_set_gives_its_training_file(here, monkeypatch, capfd):
    """A stand-in for DANDI's client writes files as its `download` does, and raises `error` after the first."""
    files, error = ["sub-A/sub-A_desc-test_ecephys.nwb", "sub-A/sub-A_desc-train_ecephys.nwb"], None

    def download(urls, output_dir):
        for file in files:
            path = Path(output_dir, urls.removeprefix("DANDI:"), file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file)
            if error:
                raise error

    monkeypatch.setitem(sys.modules, "dandi", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "dandi.download", SimpleNamespace(download=download))
    path = Path("data", "recordings", "mc-maze-small.nwb")
    for _ in range(2):
        assert main(["download", "mc-maze-small"]) == 0
        assert path.read_text() == files[1] and list(path.parent.iterdir()) == [path]
        error = RuntimeError("broken\nconnection")  # a second download would fail
    assert_refused(capfd, "mc-rtt", "mc-rtt: DANDI:000129", "broken connection")
    files, error = files[:1], None
    assert_refused(capfd, "mc-rtt", "mc-rtt: DANDI:000129")
