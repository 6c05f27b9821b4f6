"""A trained decoder in an `.npz` file of arrays and JSON, and the state of an unfinished training in one of torch.

Nothing in either is executed. The same training resumes from its file with the same result, bit for bit.
"""

import hashlib
import io
import json
import time
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..errors import CheckpointError, FileFormatError, prefix_errors, wrap_errors
from ..spikes.arrays import atomic_write, check_readable, read_arrays, write_arrays
from ..spikes.io.contents import Selection
from .distributed import SINGLE_PROCESS, ProcessGroup
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
    def from_session(cls, session: Session, source: str = "", selection: Selection | None = None) -> "TrainedOn":
        """Of a session of `prepare`; `possm-lite stream` without a file reads `selection` of `source`."""
        recording = session.recording
        return cls(
            source=source,
            selection=selection or Selection(),
            session_id=recording.session_id,
            unit_ids=tuple(recording.unit_ids.tolist()),
            behavior_name=recording.behavior_name,
            behavior_columns=tuple(recording.behavior_columns.tolist()),
            behavior_unit=recording.behavior_unit,
            lag_s=session.timeline.lag_s,
            split=str(session.split_config),
            seed=session.split_config.seed,
        )


def save_checkpoint(path: str | Path, model: POSSM, trained_on: TrainedOn):
    """Write a trained decoder of one session; a file at `path` is replaced once the new one is complete.

    Args:
        path: `.npz`. As `checkpoint.npz` it makes its folder a RUN of the commands.
        model: the decoder.
        trained_on: `TrainedOn.from_session(session)`.

    Raises:
        CheckpointError: it could not be written, or names other units or columns than the model has.
    """
    _check_names(path, trained_on, model.config)
    about = json.dumps({"config": asdict(model.config), "trained_on": asdict(trained_on)}, default=np.generic.item)
    weights = {f"model.{name}": tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
    write_arrays(path, {"format": _FORMAT, "about": about, **weights}, error=CheckpointError)


def load_checkpoint(path: str | Path) -> tuple[POSSM, TrainedOn]:
    """Read a trained decoder.

    Raises:
        CheckpointError: missing, damaged, of another version, or with weights that do not fit its configuration.
    """
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
            trained_on = TrainedOn(**values)
            with torch.device("meta"):  # shapes without memory: the weights are those of the file
                model = POSSM(POSSMConfig(**about["config"]))
            weights = {name.removeprefix("model."): torch.from_numpy(array) for name, array in arrays.items()}
            model.load_state_dict(weights, assign=True)
        for name, tensor in weights.items():
            if not tensor.isfinite().all():
                raise FileFormatError(f"{name} must be finite.")
    _check_names(path, trained_on, model.config)
    return model.eval(), trained_on


def _check_names(path: str | Path, trained_on: TrainedOn, config: POSSMConfig):
    for name, n in (("unit_ids", config.n_units), ("behavior_columns", config.n_outputs)):
        if len(getattr(trained_on, name)) != n:
            raise CheckpointError(f"{path}: {name} has {len(getattr(trained_on, name))} names, the model {n}.")


@dataclass
class History:
    """Course of a training."""

    loss: list[float] = field(default_factory=list)  # mean training loss of each epoch
    valid_r2: dict[int, float] = field(default_factory=dict)  # by the number of epochs it was measured after
    seconds: float = 0.0  # of training, validation and saving; not between an interruption and resuming


@dataclass
class TrainingState:
    """All that changes while a model is trained."""

    model: nn.Module
    parts: dict  # model, optimizer, schedule of the learning rate, sampler of windows: all with a `state_dict`
    settings: dict  # fields of the `FitConfig` and of the model's configuration, and `sessions`, their fingerprints
    history: History = field(default_factory=History)  # epochs done

    def pack(self) -> dict:
        """The state as tensors and plain values. Collective: every process has random generators."""
        states = {name: part.state_dict() for name, part in self.parts.items()}
        # torch's generator is that of dropout; windows have their own
        return states | {
            "settings": self.settings,
            "history": asdict(self.history),
            "torch": torch.get_rng_state(),
        }

    def restore(self, packed: dict):
        """Set everything to a packed state. Raises FileFormatError if it is of another training."""
        for name, value in self.settings.items():
            stored = packed["settings"].get(name)
            if stored != value:
                what = (
                    "on other recordings, or they have changed since" if name == "sessions" else f"with {name}={stored}"
                )
                raise FileFormatError(f"was trained {what}.")
        for name, p in self.model.named_parameters():
            if not p.requires_grad and not torch.equal(p.cpu(), packed["model"][name]):
                raise FileFormatError(f"is of another model: {name}, which is not trained, differs.")
        for name, part in self.parts.items():
            part.load_state_dict(packed[name])
        self.history = History(**packed["history"])
        torch.set_rng_state(packed["torch"])


class TrainingCheckpoint:
    """A file, `.pt`, that `fit` saves the state of a training in, and resumes from if it exists.

    The file is replaced as a whole, so the newest state can be read whenever the process ends. With the same machine,
    threads and versions, a resumed training ends with the weights of an uninterrupted one, bit for bit. With more than
    two processes torch may add up the gradients of the first step in another order: then they are equal to rounding.
    `share` is the largest share of the time to spend on saving, apart from the last epoch.
    """

    def __init__(self, path: str | Path, share: float = 0.01):
        self.path = Path(path)
        self._share = share
        self._saved_at = time.perf_counter()
        self._duration_s = 0.05  # a guess until one save has been timed

    def restore(self, state: TrainingState, group: ProcessGroup = SINGLE_PROCESS):
        """Set a new training to the state in the file, if it exists; the main process reads it. CheckpointError."""
        packed = group.broadcast(self._read() if group.is_main and self.path.exists() else None)
        if packed is not None:
            with prefix_errors(self.path, CheckpointError), wrap_errors("is damaged"):
                state.restore(packed)

    def _read(self) -> dict:
        with prefix_errors(self.path, CheckpointError):
            check_readable(self.path)
            with wrap_errors("is damaged"), zipfile.ZipFile(self.path) as archive:
                if archive.testzip():  # torch does not compare the checksums
                    raise FileFormatError("is damaged.")
                return torch.load(self.path, map_location="cpu", weights_only=True)  # noqa: TID251  runs no code

    def save_if_due(self, state: TrainingState, group: ProcessGroup = SINGLE_PROCESS, last: bool = False):
        """Save after an epoch if it is the last, or the last save was long enough ago. Collective. CheckpointError."""
        start = time.perf_counter()
        due = last or (start - self._saved_at) * self._share >= self._duration_s
        if not group.all_reduce_sum(float(due and group.is_main)):
            return
        packed = state.pack()
        if group.is_main:
            file = io.BytesIO()  # torch, writing to a full disk, says something else
            torch.save(packed, file)
            with prefix_errors(self.path, CheckpointError), atomic_write(self.path) as partial:
                partial.write_bytes(file.getbuffer())
        self._saved_at = time.perf_counter()
        self._duration_s = self._saved_at - start


def fingerprint(session: Session) -> str:
    """SHA-256 of a recording and how it was prepared for training."""
    recording = session.recording
    timeline = session.timeline
    digest = hashlib.sha256(repr((recording.session_id, timeline.lag_s, timeline.bin_width_s)).encode())
    fields = ("spike_times", "spike_units", "unit_ids", "behavior_times", "behavior", "trials")
    for array in (*(getattr(recording, name) for name in fields), session.split.train, session.split.valid):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
