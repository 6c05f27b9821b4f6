"""A trained decoder in an `.npz` file, and the state of an unfinished training in one of torch.

Neither file can hold code.
"""

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
from ..recordings.formats.contents import Selection
from ..recordings.recording import Recording
from .distributed import ProcessGroup
from .session import Session

_FORMAT = "possm-lite checkpoint 1"


@dataclass(frozen=True)
class TrainedOn:
    """What a decoder was trained on, so that the same can be prepared again.

    Attributes:
        source: path of the recording; empty if it has no file.
        selection: what was read of the file.
        session_id: name of the session.
        unit_ids: names of the units, in the order of their embeddings, U of them.
        behavior_name: name of the series that is decoded.
        behavior_columns: names of its columns, in the order of the outputs, C of them; or of its
            classes.
        behavior_unit: unit of the outputs, such as "mm/s"; of classes "probability".
        lag_s: behaviour minus spikes, seconds.
        split: how the recording was divided, in words, as for `prepare`.
        seed: seed of a random split; in `decode` that of the training, too.
    """

    source: str
    selection: Selection
    session_id: str
    unit_ids: tuple[str, ...]
    behavior_name: str
    behavior_columns: tuple[str, ...]
    behavior_unit: str
    lag_s: float
    split: str
    seed: int

    @classmethod
    def from_session(
        cls, session: Session, source: str = "", selection: Selection | None = None
    ) -> "TrainedOn":
        """What is to be known of a session that a decoder was trained on.

        Args:
            session: a session of `prepare`.
            source: path of its recording, which `possm-lite stream` reads if it is given no file.
            selection: what of the file was read; None: all of it, the default behaviour.
        """
        recording = session.recording
        return cls(
            source=source,
            selection=selection or Selection(),
            session_id=recording.session_id,
            unit_ids=tuple(recording.unit_ids.tolist()),
            behavior_name=recording.behavior_name,
            behavior_columns=tuple(recording.outputs.tolist()),
            behavior_unit=output_unit(recording),
            lag_s=session.timeline.lag_s,
            split=str(session.split_config),
            seed=session.split_config.seed,
        )


def output_unit(recording: Recording) -> str:
    """The unit of what a decoder of a `recording` gives: that of behaviour, or "probability"."""
    return "probability" if len(recording.classes) else recording.behavior_unit


def save_checkpoint(path: str | Path, model: POSSM, trained_on: TrainedOn):
    """Write a trained decoder of one session.

    Args:
        path: the file; as `checkpoint.npz` it makes its folder a RUN of the commands.
        model: the decoder, on any device.
        trained_on: what it was trained on.

    Raises:
        CheckpointError: the file could not be written, or `trained_on` has other numbers of units
            or columns than the model.
    """
    sizes = {"unit_ids": model.config.n_units, "behavior_columns": model.config.n_outputs}
    for name, size in sizes.items():
        n_names = len(getattr(trained_on, name))
        if n_names != size:
            raise CheckpointError(f"{path}: {name} has {n_names} names, the model {size}.")
    about = {"config": asdict(model.config), "trained_on": asdict(trained_on)}
    weights = {
        f"model.{name}": tensor.detach().cpu().numpy()
        for name, tensor in model.state_dict().items()
    }
    arrays = {"format": _FORMAT, "about": json.dumps(about, default=np.generic.item), **weights}
    write_arrays(path, arrays, error=CheckpointError)


def load_checkpoint(path: str | Path) -> tuple[POSSM, TrainedOn]:
    """A trained decoder from its file.

    Args:
        path: a file of `save_checkpoint`.

    Returns:
        The decoder, ready to decode, and what it was trained on.

    Raises:
        CheckpointError: the file cannot be used: it is missing, damaged or of another kind.
    """
    arrays = read_arrays(path, error=CheckpointError)
    with prefix_errors(path, CheckpointError):
        if str(arrays.pop("format", "")) != _FORMAT:
            raise FileFormatError(
                f"is not a decoder ({_FORMAT!r}): name the folder that `possm-lite decode` wrote."
            )
        with wrap_errors("is damaged"):
            about = json.loads(str(arrays.pop("about")))
            trained_on = _trained_on(about["trained_on"])
            with torch.device("meta"):  # shapes without memory: the weights are those of the file
                model = POSSM(POSSMConfig(**about["config"]))
            weights = {
                name.removeprefix("model."): torch.from_numpy(array)
                for name, array in arrays.items()
            }
            model.load_state_dict(weights, assign=True)
            return model.eval(), trained_on


def _trained_on(values: dict) -> TrainedOn:
    """The fields of a `TrainedOn` with their types, which JSON does not keep."""
    selection = Selection(**values.pop("selection"))
    unit_ids = tuple(values.pop("unit_ids"))
    behavior_columns = tuple(values.pop("behavior_columns"))
    return TrainedOn(
        selection=selection, unit_ids=unit_ids, behavior_columns=behavior_columns, **values
    )


@dataclass
class History:
    """Course of a training.

    Attributes:
        loss: mean training loss of each epoch, on standardised behaviour.
        valid_r2: mean validation R², of classes balanced accuracy, by the number of epochs that it
            was measured after.
        seconds: duration of training, validation and saving, without the time between an
            interruption and resuming.
    """

    loss: list[float] = field(default_factory=list)
    valid_r2: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0


class TrainingCheckpoint:
    """A file that `fit` saves the state of a training in, and resumes from if it exists.

    On the same machine, with the same threads and versions, a resumed training ends with the
    weights of an uninterrupted one, bit for bit; with more than two processes to rounding, as sums
    have no fixed order.

    Args:
        path: the file, `.pt`.
        every_s: least time between two times of saving, seconds; the last epoch is always saved.

    Attributes:
        history: the course of the training so far, from `restore` on.
    """

    def __init__(self, path: str | Path, every_s: float = 10.0):
        self.path = Path(path)
        self._every_s = every_s

    def restore(
        self, parts: dict, sessions: Sequence[Session], settings: dict, group: ProcessGroup
    ) -> History:
        """Set the parts of a training to the state in the file, if it exists. Collective.

        Args:
            parts: what has `state_dict` and `load_state_dict`, by name: model, optimizer, ...
            sessions: those of this process.
            settings: those of the training and the model, which must be the same on resuming.
            group: the processes of the training; the main one reads and writes.

        Returns:
            The history of the training in the file, or an empty one.

        Raises:
            CheckpointError: the file is damaged, or of a training with other settings or
                recordings.
        """
        self._parts = parts
        self._group = group
        recordings = group.all_gather({s.index: fingerprint(s) for s in sessions})
        self._about = {"recordings": recordings, "settings": settings}
        self._saved_at = time.perf_counter()
        self.history = History()
        packed = group.broadcast(self._read() if group.is_main and self.path.exists() else None)
        if packed is not None:
            with prefix_errors(self.path, CheckpointError), wrap_errors("is damaged"):
                self._unpack(packed)
        return self.history

    def _unpack(self, packed: dict):
        """Set parts, history and torch's generator to a saved state of the same training."""
        for name, value in self._about.items():
            if packed[name] != value:
                raise FileFormatError(f"was trained with other {name}, or they have changed since.")
        for name, part in self._parts.items():
            part.load_state_dict(packed[name])
        self.history = History(**packed["history"])
        torch.set_rng_state(packed["torch"])

    def _read(self) -> dict:
        """The state in the file, as it was packed."""
        with prefix_errors(self.path, CheckpointError), wrap_errors("is damaged"):
            with zipfile.ZipFile(self.path) as archive:
                if damaged := archive.testzip():  # torch does not compare the checksums
                    raise FileFormatError(f"is damaged: {damaged} has another checksum.")
            return torch.load(self.path, map_location="cpu", weights_only=True)  # noqa: TID251  runs no code

    def save_if_due(self, last: bool = False):
        """Save the state of the training if it is time to. Collective: all have random generators.

        Args:
            last: this is the last epoch, which is always saved; others `every_s` seconds apart.

        Raises:
            CheckpointError: the file could not be written.
        """
        due = last or time.perf_counter() - self._saved_at >= self._every_s
        if not self._group.broadcast(due):
            return
        packed = {
            **self._about,
            **{name: part.state_dict() for name, part in self._parts.items()},
            "history": asdict(self.history),
            "torch": torch.get_rng_state(),  # which dropout draws from
        }
        if self._group.is_main:
            file = io.BytesIO()  # torch, writing to a full disk, says something else
            torch.save(packed, file)
            with prefix_errors(self.path, CheckpointError), atomic_write(self.path) as partial:
                partial.write_bytes(file.getbuffer())
        self._saved_at = time.perf_counter()


def fingerprint(session: Session) -> str:
    """SHA-256 of a recording and how it was prepared for training.

    Args:
        session: a session of `prepare`.

    Returns:
        64 hexadecimal digits.
    """
    recording = session.recording
    timeline = session.timeline
    names = repr((recording.session_id, timeline.lag_s, timeline.bin_width_s))
    arrays = [
        recording.spike_times,
        recording.spike_units,
        recording.unit_ids,
        recording.behavior_times,
        recording.behavior,
        recording.trials,
        session.split.train,
        session.split.valid,
        *[recording.classes] * (len(recording.classes) > 0),
    ]
    digest = hashlib.sha256(names.encode())
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
