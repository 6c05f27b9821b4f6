"""A trained decoder in an `.npz` file, and the state of an unfinished training in one of torch: no code in either."""

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch

from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..errors import CheckpointError, FileFormatError, prefix_errors, wrap_errors
from ..recordings.arrays import atomic_write, read_arrays, write_arrays
from ..recordings.formats.assemble import Selection
from .distributed import ProcessGroup
from .session import Session

_FORMAT = "possm-lite checkpoint 1"


@dataclass(frozen=True)
class TrainedOn:
    """What a decoder was trained on, so that the same can be prepared again."""

    source: str  # path of the recording, empty if it has no file
    selection: Selection  # what was read of it
    session_id: str
    unit_ids: tuple[str, ...]  # in the order of the embeddings
    behavior_name: str
    behavior_columns: tuple[str, ...]  # in the order of the outputs
    behavior_unit: str
    lag_s: float
    split: str
    seed: int  # of a random split; in `decode` that of the training, too

    @classmethod
    def from_session(
        cls, session: Session, source: str = "", selection: Selection | None = None
    ) -> "TrainedOn":
        """Of a session of `prepare`; `possm-lite stream` without a file reads `selection` of `source`."""
        recording = session.recording
        return cls(
            source,
            selection or Selection(),
            recording.session_id,
            tuple(recording.unit_ids.tolist()),
            recording.behavior_name,
            tuple(recording.behavior_columns.tolist()),
            recording.behavior_unit,
            session.timeline.lag_s,
            str(session.split_config),
            session.split_config.seed,
        )


def save_checkpoint(path: str | Path, model: POSSM, trained_on: TrainedOn):
    """Write a trained decoder of one session. As `checkpoint.npz` it makes its folder a RUN of the commands.

    CheckpointError: it could not be written, or `trained_on` has other numbers of units or columns than the model.
    """
    for name, n in (
        ("unit_ids", model.config.n_units),
        ("behavior_columns", model.config.n_outputs),
    ):
        if len(getattr(trained_on, name)) != n:
            raise CheckpointError(
                f"{path}: {name} has {len(getattr(trained_on, name))} names, the model {n}."
            )
    about = json.dumps(
        {"config": asdict(model.config), "trained_on": asdict(trained_on)}, default=np.generic.item
    )
    weights = {
        f"model.{name}": tensor.detach().cpu().numpy()
        for name, tensor in model.state_dict().items()
    }
    write_arrays(path, {"format": _FORMAT, "about": about, **weights}, error=CheckpointError)


def load_checkpoint(path: str | Path) -> tuple[POSSM, TrainedOn]:
    """A trained decoder from its file. CheckpointError if it cannot be used."""
    arrays = read_arrays(path, error=CheckpointError)
    with prefix_errors(path, CheckpointError):
        if str(arrays.pop("format", "")) != _FORMAT:
            raise FileFormatError(f"is not a file of {_FORMAT!r}.")
        with wrap_errors("is damaged"):
            about = json.loads(str(arrays.pop("about")))
            values = about["trained_on"]
            values["selection"] = Selection(**values["selection"])
            for name in ("unit_ids", "behavior_columns"):
                values[name] = tuple(values[name])
            with torch.device("meta"):  # shapes without memory: the weights are those of the file
                model = POSSM(POSSMConfig(**about["config"]))
            weights = {
                name.removeprefix("model."): torch.from_numpy(array)
                for name, array in arrays.items()
            }
            model.load_state_dict(weights, assign=True)
            return model.eval(), TrainedOn(**values)


@dataclass
class History:
    """Course of a training."""

    loss: list[float] = field(default_factory=list)  # mean training loss of each epoch
    valid_r2: dict[int, float] = field(
        default_factory=dict
    )  # by the number of epochs it was measured after
    seconds: float = (
        0.0  # of training, validation and saving; not between an interruption and resuming
    )


class TrainingCheckpoint:
    """A file, `.pt`, that `fit` saves the state of a training in, and resumes from if it exists.

    On the same machine, with the same threads and versions, a resumed training ends with the weights of an
    uninterrupted one, bit for bit; with more than two processes to rounding, as sums have no fixed order.
    """

    def __init__(self, path: str | Path, every_s: float = 10.0):
        self.path = Path(path)
        self._every_s = every_s

    def restore(
        self, parts: dict, sessions: Sequence[Session], settings: dict, group: ProcessGroup
    ) -> History:
        """Set the parts of a training to the state in the file, if it exists, and return its history. Collective."""
        self._parts = parts
        self._group = group
        recordings = group.all_gather({s.index: fingerprint(s) for s in sessions})
        self._about = {"recordings": recordings, "settings": settings}
        self._saved_at = time.perf_counter()
        self.history = History()
        packed = group.broadcast(self._read() if group.is_main and self.path.exists() else None)
        if packed is not None:
            with prefix_errors(self.path, CheckpointError), wrap_errors("is damaged"):
                for name, value in self._about.items():
                    if packed[name] != value:
                        raise FileFormatError(
                            f"was trained with other {name}, or they have changed since."
                        )
                for name, part in parts.items():
                    part.load_state_dict(packed[name])
                self.history = History(**packed["history"])
                torch.set_rng_state(packed["torch"])
        return self.history

    def _read(self) -> dict:
        with prefix_errors(self.path, CheckpointError), wrap_errors("is damaged"):
            with zipfile.ZipFile(self.path) as archive:
                if damaged := archive.testzip():  # torch does not compare the checksums
                    raise FileFormatError(f"is damaged: {damaged} has another checksum.")
            return torch.load(self.path, map_location="cpu", weights_only=True)  # noqa: TID251  runs no code

    def save_if_due(self, last: bool = False):
        """Save the last epoch, and others `every_s` seconds apart. Collective: all processes have random generators."""
        due = last or time.perf_counter() - self._saved_at >= self._every_s
        if not self._group.broadcast(due):
            return
        packed = self._about | {name: part.state_dict() for name, part in self._parts.items()}
        packed |= {
            "history": asdict(self.history),
            "torch": torch.get_rng_state(),
        }  # which dropout draws from
        if self._group.is_main:
            file = io.BytesIO()  # torch, writing to a full disk, says something else
            torch.save(packed, file)
            with prefix_errors(self.path, CheckpointError), atomic_write(self.path) as partial:
                partial.write_bytes(file.getbuffer())
        self._saved_at = time.perf_counter()


def fingerprint(session: Session) -> str:
    """SHA-256 of a recording and how it was prepared for training."""
    recording = session.recording
    timeline = session.timeline
    digest = hashlib.sha256(
        repr((recording.session_id, timeline.lag_s, timeline.bin_width_s)).encode()
    )
    fields = ("spike_times", "spike_units", "unit_ids", "behavior_times", "behavior", "trials")
    for array in (
        *(getattr(recording, name) for name in fields),
        session.split.train,
        session.split.valid,
    ):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
