"""Why a file cannot be read, in the words of a laboratory.

Before a file is opened, `check_content` looks at what lies there; after a library has failed,
`explain` says what its exception means. Each rule stands for a public report.
"""

import contextlib
import os
import re
import zipfile
from pathlib import Path

import numpy as np

from ...errors import RecordingError, listed

_POINTER_BYTES = 1024  # a pointer is shorter than this, a recording longer
_PACKED = (".gz", ".bz2", ".xz", ".zip", ".7z", ".rar", ".tar", ".tgz")
_UNFINISHED = (".part", ".crdownload", ".partial", ".download", ".tmp")
_FETCH = "fetch it: datalad get FILE, or git annex get FILE"

# What a library's message means. {0} is what the first group matched, {kind} the format.
_MEANINGS = {
    # h5py #1066, pynwb #1790: a notebook that adds units holds the file
    r"unable to lock file.*errno = (?:11|35|13|33)\b|being used by another process|"
    r"Resource temporarily unavailable|unable to lock file.*GetLastError": (
        "is open for writing in another program, such as a notebook: close it there "
        "(in Python: io.close()), or read a copy of the file."
    ),
    # network drives without locks
    r"unable to lock file": (
        "lies on a drive that cannot lock files: copy it to a disk of this computer, "
        "or set the variable HDF5_USE_FILE_LOCKING to FALSE."
    ),
    # a program crashed while it wrote
    r"already open for (?:write|read)|consistency flags": (
        "was not closed by the program that wrote it: close it there; if the program has crashed, "
        "run h5clear -s FILE, which comes with HDF5."
    ),
    # h5py: a download or a copy that was broken off
    r"truncated file: eof = (\d+), .*stored_eof = (\d+)": (
        "is incomplete, {0} bytes of {1}: copy or download it again."
    ),
    # pynwb #1529, h5py #2294: written with Blosc, Zstandard, ...
    r"filter '?([^']*?)'? is not registered|can't open directory": (
        "is compressed in a way that is not installed here: pip install hdf5plugin, "
        "or save it with the compression gzip."
    ),
    r"does not support the context manager protocol": (
        "is a single array, as of np.save, not {kind} with several: np.savez."
    ),
    # SciPy, h5py: a file of another program, renamed
    r"file signature not found|Unknown mat file type|not a zip file|bad magic": (
        "is not a {kind} file, though its name ends so: was it copied or downloaded as a whole?"
    ),
    # NumPy: np.save of a dict or a list
    r"pickled \(object\) data|containing pickled data": (
        "is not a {kind} file, or holds objects of Python, which could run code and are not read: "
        "save arrays of numbers or text."
    ),
    r"object '([^']+)' doesn't exist|^'([^']+)'$|(\S+) is not a file in the archive": (
        "has no {0}, which is needed. The layouts that are read: CONVERTERS.md."
    ),
}


def check_content(path: Path):
    """Raise RecordingError, without the path, where what lies at a path is no recording.

    Named are: nothing, a broken link, pointers of git-annex, DataLad and Git LFS, an empty file,
    a packed or unfinished one, a web page in its place, and a file that may not be read.
    """
    if path.is_symlink() and not path.exists():
        _refuse_broken_link(os.readlink(path))
    suffix = path.suffix.lower()
    if path.is_file() and suffix in _PACKED:
        raise RecordingError(f"is packed ({suffix}): unpack it, and name what is in it.")
    if path.is_file() and suffix in _UNFINISHED:
        raise RecordingError(f"is a download that has not ended ({suffix}): download it again.")
    if not path.is_file():
        raise RecordingError("cannot be read: No such file.")
    try:
        with open(path, "rb") as file:
            _check_first_bytes(file.read(_POINTER_BYTES))
    except PermissionError as exc:
        raise RecordingError(
            "may not be read by you: it is open in another program, "
            "or its owner has to give you the right to read it."
        ) from exc


def _refuse_broken_link(target: str):
    """Say where a link leads that leads to nothing.

    datalad #6973: of a locked file that was not fetched, `ls` shows such a link.
    """
    if "annex" in Path(target.replace("\\", "/")).parts:
        raise RecordingError(
            f"has no content here, it is a link of git-annex or DataLad: {_FETCH}."
        )
    raise RecordingError(
        f"is a link to {target}, where no file is: is its drive connected, was the file moved?"
    )


def _check_first_bytes(start: bytes):
    """Refuse what is no recording by its first bytes.

    datalad #3513: a clone has pointers until the content is fetched.
    """
    if not start:
        raise RecordingError("is empty, 0 bytes: copy or download it again.")
    text = start.decode("latin-1").lstrip().lower()
    if text.startswith("version https://git-lfs.github.com"):
        raise RecordingError(
            "is a pointer of Git LFS, the content is not here: fetch it: git lfs pull."
        )
    if len(start) < _POINTER_BYTES and "annex/objects/" in text.replace("\\", "/"):
        raise RecordingError(
            f"is a pointer of git-annex or DataLad, the content is not here: {_FETCH}."
        )
    if text.startswith(("<!doctype html", "<html", "<?xml")):
        raise RecordingError(
            "is a web page, not a recording: it may say that you must log in. "
            "Download it again with a browser."
        )


def explain(error: Exception, path: Path, kind: str) -> str:
    """What an exception of a library says about a file, in a sentence without the path.

    Args:
        error: of the reader.
        path: the file or folder.
        kind: its format, a key of `READERS`.
    """
    if isinstance(error, MemoryError):
        return "needs more memory than this computer has free."
    if "Object arrays cannot be loaded" in str(error):
        return _explain_objects(path)
    if lost := _lost_files(path):
        return f"has links to files that are not there: {listed(lost)}. Put them beside it."
    if missing := _missing_filters(path):
        return (
            f"is compressed by {listed(missing)}, which is not installed here: "
            "pip install hdf5plugin, or save it with the compression gzip."
        )
    text = " ".join(str(error).split())
    for pattern, meaning in _MEANINGS.items():
        if found := re.search(pattern, text):
            groups = [group for group in found.groups() if group]
            return meaning.format(*groups, "", "", kind=kind)
    if isinstance(error, OSError) and error.strerror and error.errno:
        return f"cannot be read from its drive ({error.strerror}): is it connected?"
    return (
        f"is damaged, or is laid out in another way than CONVERTERS.md says of {kind}"
        + f" (its reader stopped at: {text[:160]})." * bool(text)
    )


def _explain_objects(path: Path) -> str:
    """Which arrays of an `.npz` file are lists of Python, and what to save in their place.

    NumPy: trains of several lengths, put into one array, become such a list.
    """
    names = []
    with contextlib.suppress(Exception), zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
                if read(file)[2].hasobject:
                    names.append(member.removesuffix(".npy"))
    if "spike_times" in names:
        return (
            "spike_times is no array of numbers but, it seems, a list of arrays, one for each "
            "unit: put all times into one array, sorted by time, and the number of each spike's "
            "unit (from 0) into spike_units."
        )
    return (
        f"{listed(names) or 'an array'} holds objects of Python, such as lists, which could run "
        "code and are not read: save arrays of numbers or text."
    )


def refuse_old_nwb(path: Path):
    """Raise RecordingError, without the path, for a file of NWB 1, in which all is elsewhere.

    Older public data sets are in it.
    """
    h5py, file = _open_hdf5(path)
    if file is None:
        return
    with file:
        version = file.get("nwb_version")  # a data set only in NWB 1, later an attribute
        if isinstance(version, h5py.Dataset):
            raise RecordingError(
                f"is of {version.asstr()[()]:.40}: only NWB 2 is read. Convert it to an .npz: "
                "CONVERTERS.md shows how."
            )


def _lost_files(path: Path) -> list[str]:
    """Names of other files that an HDF5 file links to and that are not there.

    Data were written as a link, and one file was moved without the other.
    """
    h5py, file = _open_hdf5(path)
    if file is None:
        return []
    lost = set()

    def visit(name, link):
        if isinstance(link, h5py.ExternalLink) and not (path.parent / link.filename).exists():
            lost.add(link.filename)

    with file:
        try:
            file.visititems_links(visit)
        except Exception:  # of a damaged file h5py raises anything, SystemError too
            return []
    return sorted(lost)


def _missing_filters(path: Path) -> list[str]:
    """Names of the filters of HDF5 that a file needs and that are not installed."""
    h5py, file = _open_hdf5(path)
    if file is None:
        return []
    missing = {}

    def visit(name, data):
        if isinstance(data, h5py.Dataset):
            plist = data.id.get_create_plist()
            for i in range(plist.get_nfilters()):
                code, _, _, called = plist.get_filter(i)
                if not h5py.h5z.filter_avail(code):
                    label = called.decode("latin-1").partition(";")[0]
                    missing[label or f"filter {code}"] = name

    with file:
        try:
            file.visititems(visit)
        except Exception:  # of a damaged file h5py raises anything, SystemError too
            return []
    return sorted(missing)


def _open_hdf5(path: Path):
    """The package h5py and an HDF5 file, open; None in its place where it is none."""
    try:
        import h5py

        return h5py, h5py.File(path, "r")
    except (ImportError, OSError):
        return None, None
