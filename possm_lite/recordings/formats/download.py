"""Public recordings by name, for `possm-lite download`."""

import os
import sys
import tempfile
from functools import partial
from pathlib import Path

from ...errors import PossmError, wrap_errors

FOLDER = Path("data", "recordings")
_SPYKES_ML = (
    "https://raw.githubusercontent.com/KordingLab/spykesML/"
    "ff2b1830ae07909e5f1a0811445ca3fd5732dc6f/data"
)
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


def recording_at_hand() -> Path | None:
    """The path in the environment variable `POSSM_LITE_RECORDING`, else a download, else None.

    Downloads are in `data/recordings/` of the current folder or of one above it.
    """
    named = os.environ.get("POSSM_LITE_RECORDING")
    if named:
        return Path(named).expanduser()
    folders = [folder / FOLDER for folder in (Path.cwd(), *Path.cwd().parents)]
    for name in ADDRESSES:
        for folder in folders:
            path = folder / _file_name(name)
            if path.is_file():
                return path
    return None


def download(name: str, folder: Path = FOLDER) -> Path:
    """Download a recording into a folder, unless it is there already.

    Args:
        name: of the recording, one of `ADDRESSES`.
        folder: where it is saved.

    Returns:
        The path of the file, which has this path once it is complete and its checksum is right.

    Raises:
        PossmError: an unknown name, a package that is not installed, no connection, or a wrong
            checksum. One line.
    """
    if name not in ADDRESSES:
        names = ", ".join(ADDRESSES)
        raise PossmError(
            f"{name!r} is not a recording that can be downloaded; choose from {names}."
        )
    path = folder / _file_name(name)
    with wrap_errors(partial(_failure, name, path)):
        if name in CHECKSUMS:
            _download_file(name, path)
        elif not path.is_file():
            _download_from_dandi(name, path)
    return path


def _failure(name: str, path: Path, error: Exception) -> str:
    """What has gone wrong in a download, and what to do."""
    line = f"{name}: {ADDRESSES[name]} cannot be saved as {path}"
    if isinstance(error, OSError) and error.strerror:
        return f"{line} ({error.strerror}): choose another folder with --to."
    if isinstance(error, OSError):  # of the network, in the package requests
        return f"{line}: there is no connection. Is the network up, does it need a proxy?"
    return f"{line}: {error}"


def _download_file(name: str, path: Path):
    """Download a file whose checksum is known, unless it is there with this checksum."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    client = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30)
    pooch.retrieve(ADDRESSES[name], CHECKSUMS[name], path.name, path.parent, downloader=client)


def _download_from_dandi(name: str, path: Path):
    """Download a data set of DANDI, of which the file of the training part is kept."""
    from dandi.download import download as dandi_download

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as partial:
        dandi_download(ADDRESSES[name], partial)
        (found,) = Path(partial).rglob("*train*.nwb")  # test files have no behaviour
        found.replace(path)


def _file_name(name: str) -> str:
    """The name of the file of a recording."""
    return name + (".mat" if name in CHECKSUMS else ".nwb")
