"""Labels in every layout of file or folder: a choice of each trial, or at each time."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import scipy.io

from possm_lite.recordings import Recording

from .layout_files import LAYOUTS


def added(title: str, add: Callable[[Path, Recording, np.ndarray], None]) -> Callable:
    """A writer of a layout with labels of its trials, (n,), text; it returns the path and the trials in the file."""

    def write(folder: Path, recording: Recording, labels: np.ndarray) -> tuple[Path, np.ndarray]:
        layout = LAYOUTS[title](folder, recording)
        add(layout.path, layout.expected, labels)
        return layout.path, layout.expected.trials

    return write


def write_own(folder, recording, labels):
    recording.save(folder / "session.npz", extra={"trials_choice": labels})
    return folder / "session.npz", recording.trials


def write_foreign(folder, recording, labels):
    spikes = {"spike_times": recording.spike_times, "spike_units": recording.spike_units}
    np.savez(folder / "session.npz", **spikes, trials=recording.trials, choice=labels)
    return folder / "session.npz", recording.trials


def write_foreign_series(folder, recording, labels):
    """A sample at the start of each trial, of text."""
    spikes = {"spike_times": recording.spike_times, "spike_units": recording.spike_units}
    times = recording.trials[:, 0] + 0.1
    np.savez(folder / "session.npz", **spikes, trials=recording.trials, choice=labels, choice_times=times)
    return folder / "session.npz", recording.trials


def nwb_column(path, recording, labels):
    with h5py.File(path, "r+") as file:
        file["intervals/trials/choice"] = labels.astype(object)


def nwb_series(path, recording, labels):
    with h5py.File(path, "r+") as file:
        group = file.create_group("processing/events/choice")
        group["data"] = labels.astype(object)
        group["timestamps"] = recording.trials[:, 0] + 0.1


def pynapple_tsd(path, recording, labels):
    times = recording.trials[:, 0] + 0.1
    np.savez(path / "choice.npz", type=["Tsd"], t=times, d=labels, start=times[:1], end=times[-1:])


def pynapple_intervals(path, recording, labels):
    start, end = recording.trials.T
    np.savez(path / "trials.npz", type=["IntervalSet"], start=start, end=end, choice=labels)


def brainsets_column(path, recording, labels):
    with h5py.File(path, "r+") as file:
        file["trials/choice"] = labels.astype("S")


def phy_column(path, recording, labels):
    rows = [f"{start},{stop},{label}" for (start, stop), label in zip(recording.trials, labels, strict=True)]
    (path / "trials.csv").write_text("\n".join(["start,stop,choice", *rows]))


def write_mat(folder, recording, labels):
    path = LAYOUTS[".mat, counts"](folder, recording).path
    variables = {name: x for name, x in scipy.io.loadmat(path).items() if not name.startswith("__")}
    trials = recording.trials[:-1]  # the last bins may not be whole
    cells = np.empty((len(trials), 1), dtype=object)
    cells[:, 0] = labels[:-1]
    scipy.io.savemat(path, variables | {"trials": trials, "choice": cells})
    return path, trials


WRITERS = {
    ".npz, our own format": write_own,
    ".npz of others": write_foreign,
    ".npz of others, a series": write_foreign_series,
    "NWB, a column of trials": added("NWB: acquisition", nwb_column),
    "NWB, a series of text": added("NWB: acquisition", nwb_series),
    "pynapple, a Tsd": added("pynapple", pynapple_tsd),
    "pynapple, in the IntervalSet": added("pynapple", pynapple_intervals),
    "brainsets": added("brainsets", brainsets_column),
    "phy": added("phy", phy_column),
    ".mat, counts": write_mat,
}
