"""Trained decoders, and unfinished trainings, in a file each: arrays and JSON, no pickle; nothing in them is executed.

The same training resumes from its file with the same result, bit for bit.
"""

import hashlib
import json
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..errors import CheckpointError, FileFormatError, prefix_errors, wrap_errors
from ..spikes.arrays import atomic_write, read_arrays, write_arrays
from ..spikes.io.contents import Selection
from ..spikes.recording import default_columns
from ..spikes.split import SplitConfig
from .distributed import SINGLE_PROCESS, ProcessGroup
from .session import MAX_LAG_S, Session
from .windows import MultiSessionSampler

_DECODER_FORMAT, _TRAINING_FORMAT = "possm-lite checkpoint 1", "possm-lite training 1"
# Ranges of numbers in files and options. Sizes can take memory and time before, or without, an array of that size.
_RANGES = {
    "n_layers": (1, 100),
    "context_bins": (1, 200),
    **dict.fromkeys(("dim", "hidden", "batch", "samples"), (1, 4096)),
    "bin_width_s": (0.001, 10.0),
    "window_s": (0.01, 600.0),
    "lag_s": (-MAX_LAG_S, MAX_LAG_S),
    "seed": (0, 2**63 - 1),
    "epochs": (1, 10**6),
    "lr": (1e-9, 10.0),
    "weight_decay": (0.0, 1000.0),
    "unit_dropout": (0.0, 1.0),
}
_SIZES = (0, 100_000)  # of all other whole numbers


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
        r = session.recording
        names = r.session_id, tuple(r.unit_ids.tolist()), r.behavior_name, tuple(r.behavior_columns.tolist())
        config = session.split_config
        about = r.behavior_unit, session.timeline.lag_s, str(config), config.seed
        return cls(source, selection or Selection(), *names, *about)


def save_checkpoint(path: str | Path, model: POSSM, trained_on: TrainedOn):
    """Write a trained decoder of one session; a file at `path` is replaced once the new one is complete.

    Args:
        path: `.npz`. As `checkpoint.npz` it makes its folder a RUN of the commands.
        model: the decoder.
        trained_on: `TrainedOn.from_session(session)`.

    Raises:
        CheckpointError: it could not be written, or `load_checkpoint` would not read it.
    """
    if not isinstance(trained_on, TrainedOn):
        raise TypeError(f"trained_on must be TrainedOn.from_session(session), not a {type(trained_on).__name__}.")
    metadata = {"config": asdict(model.config), "trained_on": asdict(trained_on)}
    arrays = _pack(_DECODER_FORMAT, metadata, _prefixed("model", model.state_dict()))
    _decoder(path, arrays)
    write_arrays(path, arrays, error=CheckpointError)


def load_checkpoint(path: str | Path) -> tuple[POSSM, TrainedOn]:
    """Read a trained decoder.

    Raises:
        CheckpointError: missing, damaged, of another version, or with weights that do not fit its configuration.
    """
    return _decoder(path, read_arrays(path, error=CheckpointError))


def _decoder(path: str | Path, packed: Mapping[str, np.ndarray]) -> tuple[POSSM, TrainedOn]:
    """The decoder in the arrays of a file. Raises CheckpointError as `load_checkpoint`."""
    metadata, arrays = _unpack(path, packed, _DECODER_FORMAT)
    with prefix_errors(path, CheckpointError):
        with wrap_errors("about is invalid"):
            config = POSSMConfig(**({"reading": "softmax"} | check_ranges(metadata["config"])))  # older ones name none
            trained_on = _parse_trained_on(_update(check_ranges(metadata["trained_on"]), config.n_outputs))
            SplitConfig.parse(trained_on.split)
            with torch.device("meta"):  # shapes without memory: nothing of an untrusted size is allocated
                model = POSSM(config)
        for name, n in (("unit_ids", config.n_units), ("behavior_columns", config.n_outputs)):
            if len(getattr(trained_on, name)) != n:
                raise FileFormatError(f"{name} has {len(getattr(trained_on, name))} names, the model {n}.")
        if arrays.get("model.readout.weight", np.zeros(0)).dtype == np.float64:
            model.double()
        _check_arrays(arrays, _prefixed("model", model.state_dict()))
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise FileFormatError(f"{name} must be finite.")
    weights = {name.removeprefix("model."): torch.from_numpy(array) for name, array in arrays.items()}
    model.load_state_dict(weights, assign=True)
    return model.eval(), trained_on


@dataclass
class History:
    """Course of a training."""

    loss: list[float] = field(default_factory=list)  # mean training loss of each epoch
    valid_r2: dict[int, float] = field(default_factory=dict)  # by the number of epochs it was measured after
    seconds: float = 0.0  # of training, validation and saving; not between an interruption and resuming


@dataclass
class TrainingState:
    """All that changes while a model is trained."""

    model: nn.Module  # its weights and buffers
    optimizer: torch.optim.Optimizer  # AdamW over the parameters that require a gradient
    schedule: torch.optim.lr_scheduler.LRScheduler  # of the learning rate; depends on the number of steps only
    sampler: MultiSessionSampler  # the windows, with their random generators
    settings: dict  # dicts of the `FitConfig` and of the model's configuration, and a `fingerprint` by session index
    history: History = field(default_factory=History)  # epochs done

    def pack(self) -> dict[str, np.ndarray]:
        """The state as arrays. Collective: every process has random generators."""
        metadata = {
            "given": self.settings,
            "history": asdict(self.history),
            "lr": self.optimizer.param_groups[0]["lr"],
            "draw": self.sampler.state(),
        }
        # torch's generator is that of dropout; windows have their own
        tensors = {"torch": torch.get_rng_state(), **_prefixed("model", self.model.state_dict())}
        for name, parameter in self.model.named_parameters():
            tensors |= {f"{key}.{name}": moment for key, moment in self.optimizer.state.get(parameter, {}).items()}
        return _pack(_TRAINING_FORMAT, metadata, tensors)

    def restore(self, metadata: dict, arrays: dict[str, np.ndarray]):
        """Set everything to a packed state. Raises FileFormatError if it is damaged or of another training."""
        with wrap_errors("about is invalid"):
            config, history = metadata["given"]["config"], metadata["history"]
            for name, value in self.settings["config"].items():
                if config.get(name) != value:
                    raise FileFormatError(f"was trained with {name}={str(config.get(name))[:80]}, not {value}.")
            if metadata["given"]["sessions"] != {str(i): digest for i, digest in self.settings["sessions"].items()}:
                raise FileFormatError("was trained on other recordings, or they have changed since.")
            stored = metadata["given"].get("model", {})  # files of before 2026-11-25 have none
            for name, value in self.settings["model"].items():
                if stored.get(name, value) != value:
                    raise FileFormatError(f"was trained with a model of {name}={str(stored[name])[:80]}, not {value}.")
            valid_r2 = {int(epoch): float(r2) for epoch, r2 in history["valid_r2"].items()}
            self.history = History([float(loss) for loss in history["loss"]], valid_r2, float(history["seconds"]))
            self.schedule.last_epoch = len(self.history.loss) * self.sampler.steps_per_epoch  # it counts steps
            self.optimizer.param_groups[0]["lr"] = float(metadata["lr"])
            self.sampler.restore(metadata["draw"])
        expected = {"torch": torch.get_rng_state(), **_prefixed("model", self.model.state_dict())}
        started = {n: p for n, p in self.model.named_parameters() if p.requires_grad and f"step.{n}" in arrays}
        for name, p in started.items():
            expected |= {f"step.{name}": torch.zeros(()), f"exp_avg.{name}": p, f"exp_avg_sq.{name}": p}
        _check_arrays(arrays, expected)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        for name, p in self.model.named_parameters():
            if not p.requires_grad and not torch.equal(p.cpu(), tensors[f"model.{name}"]):
                raise FileFormatError(f"is of another model: {name}, which is not trained, differs.")
        self.model.load_state_dict({name: tensors[f"model.{name}"] for name in self.model.state_dict()})
        for name, p in started.items():
            keys = ("step", "exp_avg", "exp_avg_sq")
            self.optimizer.state[p] = {key: tensors[f"{key}.{name}"].to(p.device) for key in keys}
        with wrap_errors("torch is damaged"):
            torch.set_rng_state(tensors["torch"])


class TrainingCheckpoint:
    """A file that `fit` saves the state of a training in, and resumes from if it exists.

    The file is replaced as a whole, so the newest state can be read whenever the process ends. With the same machine,
    threads and versions, a resumed training ends with the weights of an uninterrupted one, bit for bit. With more than
    two processes torch may add up the gradients of the first step in another order: then they are equal to rounding.

    Args:
        path: the file, `.npz`. It is not removed at the end.
        share: largest share of the time to spend on saving, apart from the last epoch.
    """

    def __init__(self, path: str | Path, share: float = 0.01):
        self.path, self._share = Path(path), share
        self._saved_at, self._duration_s = time.perf_counter(), 0.05  # a guess until one save has been timed

    def restore(self, state: TrainingState, group: ProcessGroup = SINGLE_PROCESS):
        """Set a new training to the state in the file, if it exists; the main process reads it.

        Raises:
            CheckpointError: the file is damaged, or of another model, recording or settings.
        """
        packed = None
        if group.is_main and self.path.exists():
            packed = _unpack(self.path, read_arrays(self.path, error=CheckpointError), _TRAINING_FORMAT)
        packed = group.broadcast(packed)
        if packed is not None:
            with prefix_errors(self.path, CheckpointError):
                state.restore(*packed)

    def save_if_due(self, state: TrainingState, group: ProcessGroup = SINGLE_PROCESS, last: bool = False):
        """Save after an epoch if it is the last one, or the last save was long enough ago. Collective.

        Raises:
            CheckpointError: the file could not be written, and is as it was.
        """
        start = time.perf_counter()
        due = last or (start - self._saved_at) * self._share >= self._duration_s
        if not group.all_reduce_sum(float(due and group.is_main)):
            return
        arrays = state.pack()
        if group.is_main:
            with prefix_errors(self.path, CheckpointError), atomic_write(self.path) as new, open(new, "xb") as file:
                np.savez(file, **arrays)  # uncompressed: compression is slow and gains a tenth
        self._saved_at = time.perf_counter()
        self._duration_s = self._saved_at - start


def fingerprint(session: Session) -> str:
    """SHA-256 of a recording and how it was prepared for training."""
    recording, timeline = session.recording, session.timeline
    digest = hashlib.sha256(repr((recording.session_id, timeline.lag_s, timeline.bin_width_s)).encode())
    fields = ("spike_times", "spike_units", "unit_ids", "behavior_times", "behavior", "trials")
    for array in (*(getattr(recording, name) for name in fields), session.split.train, session.split.valid):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _pack(version: str, metadata: dict, tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    about = json.dumps(metadata, default=lambda number: number.item())  # of NumPy's types
    return {"format": np.array(version), "about": np.array(about), **arrays}


def _unpack(path: str | Path, packed: Mapping[str, np.ndarray], version: str) -> tuple[dict, dict[str, np.ndarray]]:
    """Metadata and arrays, by their current names, of a file of this format version. Raises CheckpointError."""
    arrays = dict(packed)
    with prefix_errors(path, CheckpointError):
        texts = [arrays.pop(name, np.array(0)) for name in ("format", "about")]
        for name, text in zip(("format", "about"), texts, strict=True):
            if text.ndim or text.dtype.kind != "U":
                raise FileFormatError(f"{name} is missing or not a text: this is not a file of {version!r}.")
        if str(texts[0]) != version:
            raise FileFormatError(f"format is {str(texts[0])[:80]!r}, this version reads {version!r}.")
        with wrap_errors("about is invalid"):
            return dict(json.loads(str(texts[1]))), arrays


def _check_arrays(arrays: Mapping[str, np.ndarray], expected: Mapping[str, Tensor]):
    """Raises FileFormatError for a missing or unknown name, or another shape or dtype than that of the tensor."""
    for name in sorted(set(arrays) ^ set(expected)):
        raise FileFormatError(f"{name} is {'missing' if name in expected else 'unknown'}: it is of another model.")
    for name, tensor in expected.items():
        array, shape, dtype = arrays[name], tuple(tensor.shape), np.dtype(str(tensor.dtype).removeprefix("torch."))
        if array.shape != shape or array.dtype != dtype:
            raise FileFormatError(f"{name} must be {shape} of {dtype}, not {array.shape} of {array.dtype}.")


def check_ranges(values: dict) -> dict:
    """The values, of a file or of options. Raises ValueError for a number that means nothing, or takes too much."""
    for name, value in values.items():
        low, high = _RANGES.get(name, _SIZES if isinstance(value, int) else (-math.inf, math.inf))
        if isinstance(value, (int, float)) and not low <= value <= high:
            raise ValueError(f"{name} must lie in {low}..{high}, not {value!r}")
    return values


def _parse_trained_on(values: dict) -> TrainedOn:
    """Raises ValueError, KeyError or TypeError if a value is missing or invalid."""
    types = {"selection": dict, "unit_ids": list, "behavior_columns": list, "lag_s": (int, float), "seed": int}
    for name in (f.name for f in fields(TrainedOn)):
        if not isinstance(values[name], types.get(name, str)):
            raise TypeError(f"{name} is {values[name]!r}")
    names = {name: tuple(map(str, values[name])) for name in ("unit_ids", "behavior_columns")}
    return TrainedOn(**values | names | {"selection": Selection(**values["selection"])})


def _update(values: dict, n_outputs: int) -> dict:
    """What was stored before there were selections and other behaviour than velocity, with the names of today."""
    if "behavior" not in values:
        return values
    warnings.warn("older checkpoint: the test part may differ where behaviour pauses or is unobserved", stacklevel=2)
    old = {"behavior_unit" if name == "velocity_unit" else name: value for name, value in values.items()}
    selection, columns = {"behavior": old.pop("behavior") or ()}, default_columns(n_outputs).tolist()
    return {"behavior_name": "velocity", "behavior_columns": columns, "selection": selection} | old
