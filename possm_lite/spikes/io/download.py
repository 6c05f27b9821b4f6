"""Public recordings by name, for `possm-lite download`."""

import os
import tempfile
from pathlib import Path

from ...errors import FileFormatError, PossmError, wrap_errors

FOLDER = Path("data", "recordings")
_SPYKES_ML = "https://raw.githubusercontent.com/KordingLab/spykesML/ff2b1830ae07909e5f1a0811445ca3fd5732dc6f/data"
ADDRESSES = {
    "stevenson-2011": f"{_SPYKES_ML}/m1_stevenson_2011.mat",
    "s1": f"{_SPYKES_ML}/s1_data.mat",
    "indy-20160915": "https://zenodo.org/records/583331/files/indy_20160915_01.mat",
    "mc-maze": "DANDI:000128",
    "mc-maze-small": "DANDI:000140",
    "mc-maze-medium": "DANDI:000139",
    "mc-maze-large": "DANDI:000138",
    "mc-rtt": "DANDI:000129",
}
CHECKSUMS = {  # DANDI's client knows those of its files
    "stevenson-2011": "sha256:cb1af830e34f5094e5c542ad4adfaca66dea05514680940016173b35fa6aad94",
    "s1": "sha256:f6bbe27135636b944e0b715778dadae41dccf043c26cb880d0191665ca9e7dde",
    "indy-20160915": "md5:ef6a95c5a1a8d2126b90f5be0505e398",
}


def downloaded(name: str) -> Path | None:
    """The file of a recording in `data/recordings/` of the current folder or of one above it; None without one."""
    paths = (folder / FOLDER / _file_name(name) for folder in (Path.cwd(), *Path.cwd().parents))
    return next((path for path in paths if path.is_file()), None)


def recording_at_hand() -> Path | None:
    """The path in the environment variable `POSSM_LITE_RECORDING`, else a downloaded recording, else None."""
    if named := os.environ.get("POSSM_LITE_RECORDING"):
        return Path(named).expanduser()
    return next((path for name in ADDRESSES if (path := downloaded(name))), None)


def download(name: str, folder: Path = FOLDER) -> Path:
    """Download a recording into a folder, unless it is there already, and return its path.

    The file gets this path once it is complete and its checksum is right.

    Raises:
        PossmError: an unknown name, a package that is not installed, no connection, or a wrong checksum.
    """
    if name not in ADDRESSES:
        raise PossmError(f"{name!r} is not a recording that can be downloaded; choose from {', '.join(ADDRESSES)}.")
    path = folder / _file_name(name)
    is_dandiset = ADDRESSES[name].startswith("DANDI:")
    with wrap_errors(f"{name}: {ADDRESSES[name]} cannot be saved as {path}"):
        try:
            (_fetch_dandiset if is_dandiset else _fetch_file)(name, path)
        except ImportError as exc:
            package = "dandi" if is_dandiset else "possm-lite[recordings]"
            raise FileFormatError(f"{name}: needs {exc.name}: pip install {package}") from exc
    return path


def _file_name(name: str) -> str:
    return name + (".nwb" if ADDRESSES[name].startswith("DANDI:") else Path(ADDRESSES[name]).suffix)


def _fetch_file(name: str, path: Path):
    import pooch

    pooch.get_logger().setLevel("WARNING")
    client = pooch.HTTPDownloader(progressbar=True, timeout=30)
    pooch.retrieve(ADDRESSES[name], CHECKSUMS[name], path.name, path.parent, downloader=client)


def _fetch_dandiset(name: str, path: Path):  # of the Neural Latents Benchmark; test files have no behaviour
    from dandi.download import download as dandi_download

    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as partial:
        dandi_download(ADDRESSES[name], partial)
        found = list(Path(partial).rglob("*train*.nwb"))
        if len(found) != 1:
            raise FileFormatError(f"{ADDRESSES[name]} has {len(found)} files named *train*.nwb instead of one")
        found[0].replace(path)
