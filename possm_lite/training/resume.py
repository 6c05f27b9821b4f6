"""Training that was cut short goes on: its state in one file, and the rest of it is the same bit for bit."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import CheckpointError, RecordingError, prefix_errors, wrap_errors
from ..spikes.arrays import atomic_write, read_arrays
from .checkpoint import text_of
from .distributed import SINGLE_PROCESS, ProcessGroup
from .session import Session
from .windows import MultiSessionSampler

if TYPE_CHECKING:
    from .fit import History

FORMAT = "possm-lite training 1"
_OF_ADAMW = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Training:
    """All that changes while a model is trained.

    Args:
        model: its weights and buffers.
        optimizer: an AdamW over those of its parameters that require a gradient.
        schedule: of the learning rate, which the number of steps alone decides.
        draw: the windows, and with them the random generators.
        history: epochs done, and how they went.
        given: what it was started with, in plain JSON: the settings, and a `fingerprint` of each session.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    draw: MultiSessionSampler
    history: History
    given: dict = field(default_factory=dict)

    def state(self) -> dict[str, np.ndarray]:
        """All of it as arrays of numbers and text. Every process of a crew must ask, for each has generators."""
        about = {
            "given": self.given,
            "history": asdict(self.history),
            "lr": self.optimizer.param_groups[0]["lr"],
            "draw": self.draw.state(),
        }
        tensors = {"torch": torch.get_rng_state()}  # for a model that drops out; the windows have their own generators
        tensors |= {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, parameter in self._trained():
            moments = self.optimizer.state.get(parameter, {})  # none before there was a gradient
            tensors |= {f"{kind}.{name}": tensor for kind, tensor in moments.items()}
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
        return {"format": np.array(FORMAT), "about": np.array(json.dumps(about)), **arrays}

    def restore(self, about: dict, arrays: dict[str, np.ndarray]):
        """Put everything back as `state` found it.

        Raises:
            RecordingError: it is damaged, or the state of another training.
        """
        _check_given(about["given"], json.loads(json.dumps(self.given)))
        weights = {name: _like(arrays, f"model.{name}", x) for name, x in self.model.state_dict().items()}
        surplus = {name for name in arrays if name.startswith("model.")} - {f"model.{name}" for name in weights}
        if surplus:
            raise RecordingError(f"{min(surplus)} is not known: it is of another model.")
        moments = {
            i: {kind: _like(arrays, f"{kind}.{name}", _shape_of(kind, p)) for kind in _OF_ADAMW}
            for i, (name, p) in enumerate(self._trained())
            if f"step.{name}" in arrays
        }
        self.model.load_state_dict(weights)
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        with wrap_errors("about is damaged"):
            history = about["history"]
            self.history.loss[:] = map(float, history["loss"])
            self.history.valid_r2.update((int(epoch), float(r2)) for epoch, r2 in history["valid_r2"].items())
            self.history.seconds = float(history["seconds"])
            self.schedule.last_epoch = len(self.history.loss) * self.draw.steps_per_epoch  # it counts steps
            self.optimizer.param_groups[0]["lr"] = float(about["lr"])
            self.draw.restore(about["draw"])
        with wrap_errors("torch is no state of a generator"):
            torch.set_rng_state(torch.from_numpy(arrays["torch"]))

    def _trained(self) -> list[tuple[str, nn.Parameter]]:
        """In the order in which the optimizer counts them."""
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]


class TrainingCheckpoint:
    """A file that `fit` keeps the state of a training in, and goes on from where it is there already.

    The file is replaced whole or not at all, so that whenever the process ends, the newest one can be read; nothing in
    it is ever run. With the same machine, threads and versions, training that was cut short and has gone on ends with
    the weights of one that was not, bit for bit. With more than two processes torch may add up the gradients of the
    first step in another order: then they are the same to rounding.

    Args:
        path: the file, `.npz`. It is not removed at the end.
        share: most of the time that saving may take, but for the save after the last epoch.
    """

    def __init__(self, path: str | Path, share: float = 0.01):
        self.path, self._share = Path(path), share
        self._saved_at, self._took_s = time.perf_counter(), 0.05  # a guess, until one has been timed

    def restore(self, training: Training, crew: ProcessGroup = SINGLE_PROCESS):
        """Let a training that has just been set up go on from the file, if there is one; the first process reads it.

        Raises:
            CheckpointError: the file cannot be used, or is of a training of something else, or with other settings.
        """
        found = crew.collect({"": _read(self.path) if self.path.exists() else None} if crew.leads else {})[""]
        if found is not None:
            with prefix_errors(self.path, CheckpointError):
                training.restore(*found)

    def keep(self, training: Training, crew: ProcessGroup = SINGLE_PROCESS, last: bool = False):
        """Save after an epoch, unless it was done a moment ago. Every process of a crew must call it.

        Raises:
            CheckpointError: it could not be written; the file is as it was.
        """
        began = time.perf_counter()
        due = last or (began - self._saved_at) * self._share >= self._took_s
        if not crew.total(float(due and crew.leads)):
            return
        state = training.state()
        if crew.leads:
            with (
                prefix_errors(self.path, CheckpointError),
                atomic_write(self.path) as partial,
                open(partial, "xb") as file,
            ):
                np.savez(file, **state)  # as they are: packing weights takes long and gains a tenth
        self._saved_at = time.perf_counter()
        self._took_s = self._saved_at - began


def fingerprint(session: Session) -> str:
    """A hexadecimal number for a recording and how it was prepared; anything else has another."""
    recording, timeline = session.recording, session.timeline
    digest = hashlib.sha256(repr((recording.session_id, timeline.lag_s, timeline.bin_width_s)).encode())
    for array in (
        recording.spike_times,
        recording.spike_units,
        recording.unit_ids,
        recording.behavior_times,
        recording.velocity,
        recording.trials,
        session.split.train,
        session.split.valid,
    ):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Description and arrays of a file. Raises CheckpointError."""
    arrays = read_arrays(path, error=CheckpointError)
    version = text_of(path, arrays, "format")
    if version != FORMAT:
        raise CheckpointError(f"{path}: format is {version[:80]!r}, this version reads {FORMAT!r}.")
    about = text_of(path, arrays, "about")
    with prefix_errors(path, CheckpointError), wrap_errors("about is damaged"):
        about = json.loads(about)
        for part in ("given", "history", "draw"):
            about[part].items()
    return about, arrays


def _check_given(theirs: dict, ours: dict):
    """Refuse to go on with other settings or data. Raises RecordingError."""
    for name, value in ours["config"].items():
        with wrap_errors("about is damaged"):
            before = theirs["config"][name]
        if before != value:
            raise RecordingError(f"was trained with {name}={str(before)[:80]}, not {value}.")
    if theirs.get("sessions") != ours["sessions"]:
        raise RecordingError("was trained on other recordings, or on these before they were changed.")


def _shape_of(kind: str, parameter: Tensor) -> Tensor:
    return torch.zeros(()) if kind == "step" else parameter


def _like(arrays: dict[str, np.ndarray], name: str, tensor: Tensor) -> Tensor:
    """An array, if it is there and like the tensor in shape and kind of numbers. Raises RecordingError."""
    if name not in arrays:
        raise RecordingError(f"{name} is missing: it is of another model.")
    array, dtype = arrays[name], tensor.detach().cpu().numpy().dtype
    if array.shape != tuple(tensor.shape) or array.dtype != dtype:
        raise RecordingError(
            f"{name} must be {tuple(tensor.shape)} of {dtype}, not {array.shape} of {array.dtype}: "
            "it is of another model."
        )
    return torch.from_numpy(array)
