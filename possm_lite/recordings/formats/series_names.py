"""Names of behavioural series: which is decoded by default, which is meant, which is a position."""

import re
from collections.abc import Sequence

from ...errors import RecordingError
from .contents import Series

SERIES = (
    "hand_vel",
    "finger_vel",
    "cursor_vel",
    "vel",
    "hand_pos",
    "finger_pos",
    "cursor_pos",
    "pos",
)
SERIES += ("preprocessed_emg", "openloopkinematicsvel")  # of FALCON M1 and H1


RAW = ":raw"  # ends the name of a position that is itself decoded


_KIND = re.compile(
    r"(pos|vel)(ition|ocity)?(_\w{1,2})?$", re.IGNORECASE
)  # hand_pos, Velocity, position_x, pos_3d


def find_series(name: str, series: Sequence[Series]) -> Series:
    """The series with this name, or with this as the last part of its name, or in a container with this name."""
    by_last = [one for one in series if one.name.rpartition("/")[2].lower() == name.lower()]
    by_part = [one for one in series if name.lower() in one.name.lower().split("/")]
    found = [one for one in series if one.name == name] or by_last or by_part
    if len(found) != 1:
        raise RecordingError(
            f"behavior={name!r} must name one of the series of the file: {list_series(series)}."
        )
    return found[0]


def list_series(series: Sequence[Series]) -> str:
    return ", ".join(f"{one.name} {one.shape or ''}".rstrip() for one in series)[:600] or "none"


def role_of(name: str) -> str:
    """Its name in `SERIES`, or "": of "Velocity/cursor_vel" cursor_vel, of "hand/vel" and "Velocity/Hand" hand_vel."""
    *containers, last = (
        name.lower().replace("velocity", "vel").replace("position", "pos").split("/")
    )
    container = containers[-1:]
    roles = (
        "_".join([*container, last]),
        last,
        "_".join([last, *container]).removeprefix("spatialseries_"),
    )
    return next((role for role in roles if role in SERIES), "")


def is_position(name: str, default: bool = False) -> bool:
    """Whether the name of a series says that it is a position or, if it says neither, that of its container."""
    found = (_KIND.search(part) for part in reversed(name.split("/")))
    return next((match[1].lower() == "pos" for match in found if match), default)
