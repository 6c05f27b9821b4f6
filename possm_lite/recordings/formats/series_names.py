"""Names of behavioural series: which is decoded by default, which is meant, which is a position.

A name of a series that a laboratory uses, and that is not recognised, belongs here.
"""

import re
from collections.abc import Sequence

from ...errors import RecordingError, as_option, listed
from .contents import Series
from .join_series import list_series

# decoded by default, the first that a file has and that moves
SERIES = (
    "hand_vel",
    "finger_vel",
    "cursor_vel",
    "vel",
    "hand_pos",
    "finger_pos",
    "cursor_pos",
    "pos",
    "preprocessed_emg",  # of FALCON M1
    "openloopkinematicsvel",  # of FALCON H1
)
RAW = ":raw"  # ends the name of a position that is itself decoded, or of labels that are amounts
CLASS = ":class"  # ends the name of a series whose values are classes

# hand_pos, Velocity, position_x, pos_3d
_KIND = re.compile(r"(pos|vel)(ition|ocity)?(_\w{1,2})?$", re.IGNORECASE)


def split_suffix(name: str) -> tuple[str, str]:
    """A `name` as it is given, such as "choice:class", without its suffix, and that or ""."""
    for suffix in (RAW, CLASS):
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return name, ""


def find_series(name: str, series: Sequence[Series]) -> Series:
    """The series that a name means.

    It has this name; or this is the last part of its name; or it is in a container with this name.

    Args:
        name: such as "hand_vel"; but for the full name, in upper or lower case.
        series: all of a file.

    Raises:
        RecordingError: no series has this name, or several have.
    """
    lower = name.lower()
    exact = [one for one in series if one.name == name]
    by_last = [one for one in series if one.name.rpartition("/")[2].lower() == lower]
    by_part = [one for one in series if lower in one.name.lower().split("/")]
    found = exact or by_last or by_part
    if not found:
        raise RecordingError(
            f"{as_option('behavior', name)}: there is no such series; the file has "
            f"{list_series(series)}."
        )
    if len(found) > 1:
        names = listed([one.name for one in found])
        raise RecordingError(
            f"{as_option('behavior', name)}: several series are called so, {names}: name one in "
            "full."
        )
    return found[0]


def role_of(name: str) -> str:
    """The `name` of a series as it is in `SERIES`, or "" if it is not.

    That of "Velocity/cursor_vel" is cursor_vel, of "hand/vel" and "Velocity/Hand" hand_vel.
    """
    plain = name.lower().replace("velocity", "vel").replace("position", "pos")
    *containers, last = plain.split("/")
    container = containers[-1:]
    container_first = "_".join([*container, last])
    container_last = "_".join([last, *container]).removeprefix("spatialseries_")
    for role in (container_first, last, container_last):
        if role in SERIES:
            return role
    return ""


def is_position(name: str, default: bool = False) -> bool:
    """Whether the name of a series says that it is a position.

    Args:
        name: of the series; what its last part does not say, its containers may.
        default: the answer for a name that says neither position nor velocity.
    """
    for part in reversed(name.split("/")):
        match = _KIND.search(part)
        if match:
            return match[1].lower() == "pos"
    return default
