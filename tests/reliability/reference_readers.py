"""Reference readers: `numpy.load` for `.npz`, SciPy for MATLAB files and h5py for NWB.

They raise an exception of any type for what they cannot read, and check nothing else.
"""

from pathlib import Path

import numpy as np
import scipy.io

FORMAT = "possm-lite recording 2"


def read_npz(path: Path) -> dict:
    with np.load(path, allow_pickle=False) as file:
        fields = {"format": np.array(FORMAT), **file}
    if "behavior_clock" in fields:
        start, rate, n = (fields.pop("behavior_clock") * np.float64(1)).tolist()  # text cannot be multiplied
        fields["behavior_times"] = start + np.arange(int(n)) / rate
    for name in ("format", "behavior_name", "behavior_unit", "session_id"):
        (fields[name],) = fields[name].ravel().tolist()
    fields["notes"] = tuple(fields["notes"].ravel().tolist())
    texts = (*(fields[name] for name in ("behavior_name", "behavior_unit", "session_id")), *fields["notes"])
    if fields["format"] != FORMAT or not all(isinstance(text, str) and text for text in texts):
        raise ValueError("not a recording")
    return fields


def read_mat(path: Path) -> dict:
    """`time`, `spikes` and `handVel`, each of which must occur once and be real."""
    names = [name for name, _, _ in scipy.io.whosmat(path)]
    variables = {name: scipy.io.loadmat(path)[name] for name in ("time", "spikes", "handVel")}
    for name, array in variables.items():
        if names.count(name) != 1 or array.dtype.kind not in "iuf":
            raise ValueError(f"{name} occurs {names.count(name)} times as {array.dtype}")
    return variables


def read_nwb(path: Path) -> dict:
    """All spikes, rows of behaviour and trials, with a NaN conversion as 1."""
    import h5py

    with h5py.File(path, "r") as file:
        units, behavior = file["units"], file["processing/behavior/hand_vel"]
        index = "spike_times_index" if "spike_times_index" in units else "spike_times_index_"  # its target counts
        counts = np.diff(units[index][()].astype(np.int64), prepend=0)
        spikes = units["spike_times"][()].astype(np.float64)
        attributes = behavior["data"].attrs
        velocity = behavior["data"][()].astype(np.float64)
        velocity = velocity.reshape(len(velocity), -1)
        conversion = float(attributes.get("conversion", 1))
        velocity = velocity * (1 if np.isnan(conversion) else conversion) + float(attributes.get("offset", 0))
        if "timestamps" in behavior:
            times = behavior["timestamps"][()].astype(np.float64)
        else:
            start = behavior["starting_time"]
            times = float(start[()]) + np.arange(len(velocity)) / float(start.attrs["rate"])
        trials = file.get("intervals", {}).get("trials", {})
        columns = [np.asarray(trials[name][()] if trials else [], np.float64) for name in ("start_time", "stop_time")]
        return {
            "spike_times": spikes,
            "spike_units": np.repeat(np.arange(len(counts)), counts),
            "unit_ids": units["id"][()].astype(str),
            "behavior_times": times,
            "behavior": velocity,
            "trials": np.stack(columns, axis=1),
        }
