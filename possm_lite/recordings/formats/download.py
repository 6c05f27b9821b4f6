"""Public recordings by name, for `possm-lite download`."""

import os
import tempfile
from pathlib import Path

from ...errors import PossmError, wrap_errors

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


def recording_at_hand() -> Path | None:
    """The path in the environment variable `POSSM_LITE_RECORDING`, else a downloaded recording, else None.

    Downloads are in `data/recordings/` of the current folder or of one above it.
    """
    if named := os.environ.get("POSSM_LITE_RECORDING"):
        return Path(named).expanduser()
    folders = [folder / FOLDER for folder in (Path.cwd(), *Path.cwd().parents)]
    paths = (folder / _file_name(name) for name in ADDRESSES for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def download(name: str, folder: Path = FOLDER) -> Path:
    """Download a recording into a folder, unless it is there already, and return its path.

    The file gets this path once it is complete and its checksum is right. Raises PossmError otherwise, in one line.
    """
    if name not in ADDRESSES:
        raise PossmError(
            f"{name!r} is not a recording that can be downloaded; choose from {', '.join(ADDRESSES)}."
        )
    path = folder / _file_name(name)
    with wrap_errors(f"{name}: {ADDRESSES[name]} cannot be saved as {path}"):
        if name in CHECKSUMS:
            import pooch

            pooch.get_logger().setLevel("WARNING")
            client = pooch.HTTPDownloader(progressbar=True, timeout=30)
            pooch.retrieve(ADDRESSES[name], CHECKSUMS[name], path.name, folder, downloader=client)
        elif not path.is_file():
            from dandi.download import download as dandi_download

            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as partial:
                dandi_download(ADDRESSES[name], partial)
                (found,) = Path(partial).rglob("*train*.nwb")  # test files have no behaviour
                found.replace(path)
    return path


def _file_name(name: str) -> str:
    return name + (".mat" if name in CHECKSUMS else ".nwb")
