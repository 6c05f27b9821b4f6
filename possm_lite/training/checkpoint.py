"""A trained decoder in one file: arrays and a description, no pickle."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..decoder.renamed import current_names
from ..errors import CheckpointError
from ..spikes.arrays import read_arrays, write_arrays
from ..spikes.split import SplitConfig

FORMAT = "possm-lite checkpoint 1"
_PREFIX = "model."
# what a file may ask for: sizes that no array vouches for are made before or without looking at the arrays
_MOST = {"n_layers": 100, "context_bins": 200}
_MOST_OF_OTHERS = 100_000
_BIN_WIDTH_S = (0.001, 10.0)
_LAG_S = 3600.0


@dataclass(frozen=True)
class TrainedOn:
    """What a decoder was trained on, so that it can be given the same again.

    Args:
        source: path of the recording, empty where it was never in a file.
        behavior: which series of it, empty for the first choice.
        session_id, unit_ids, velocity_unit: of the recording; the units in the order of the embeddings.
        lag_s, split, seed: as it was prepared; seed is also that of the training.
    """

    source: str
    behavior: str
    session_id: str
    unit_ids: tuple[str, ...]
    velocity_unit: str
    lag_s: float
    split: str
    seed: int


def save_checkpoint(path: str | Path, model: POSSM, trained_on: TrainedOn):
    """Write to a temporary name and rename; what stood at `path` stands until the new file is whole.

    Raises:
        CheckpointError: it could not be written.
    """
    about = json.dumps({"config": asdict(model.config), "trained_on": asdict(trained_on)})
    weights = {_PREFIX + name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
    write_arrays(path, {"format": np.array(FORMAT), "about": np.array(about), **weights}, error=CheckpointError)


def load_checkpoint(path: str | Path) -> tuple[POSSM, TrainedOn]:
    """Read a checkpoint; nothing in it is ever run.

    Raises:
        CheckpointError: missing, damaged, of another version, or with weights that do not fit its configuration.
    """
    arrays = read_arrays(path, error=CheckpointError)
    version = text_of(path, arrays, "format")
    if version != FORMAT:
        raise CheckpointError(f"{path}: format is {version[:80]!r}, this version reads {FORMAT!r}.")
    try:
        about = json.loads(text_of(path, arrays, "about"))
        config = _config(about["config"])
        trained_on = _trained_on(about["trained_on"])
    except (ValueError, TypeError, KeyError, RecursionError) as trouble:
        raise CheckpointError(f"{path}: about is damaged: {type(trouble).__name__}: {str(trouble)[:200]}") from trouble
    weights = current_names(
        {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
    )
    with torch.device("meta"):  # the sizes, before anything of these sizes is made
        expected = POSSM(config).state_dict()
    _check_weights(path, weights, expected)
    if len(trained_on.unit_ids) != config.n_units:
        raise CheckpointError(f"{path}: unit_ids has {len(trained_on.unit_ids)} names for {config.n_units} units.")
    model = POSSM(config).to(torch.from_numpy(weights["readout.weight"]).dtype)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return model.eval(), trained_on


def text_of(path, arrays: dict[str, np.ndarray], name: str) -> str:
    """A text among the arrays of a file. Raises CheckpointError."""
    if name not in arrays or arrays[name].ndim or arrays[name].dtype.kind != "U":
        raise CheckpointError(f"{path}: {name} is missing or no text: this is no checkpoint of possm-lite.")
    return str(arrays[name])


def _config(found: dict) -> POSSMConfig:
    config = POSSMConfig(**found)
    for name, value in asdict(config).items():
        most = _MOST.get(name, _MOST_OF_OTHERS)
        if isinstance(value, int) and value > most:
            raise ValueError(f"{name} must be at most {most}, not {value}.")
    if not _BIN_WIDTH_S[0] <= config.bin_width_s <= _BIN_WIDTH_S[1]:
        raise ValueError(
            f"bin_width_s must lie between {_BIN_WIDTH_S[0]} and {_BIN_WIDTH_S[1]}, not {config.bin_width_s}"
        )
    return config


def _trained_on(found: dict) -> TrainedOn:
    kinds = {"lag_s": (int, float), "seed": int, "unit_ids": list}
    for name in TrainedOn.__dataclass_fields__:
        if not isinstance(found[name], kinds.get(name, str)):
            raise TypeError(f"{name} is {found[name]!r}")
    SplitConfig.parse(found["split"])
    if not -_LAG_S <= found["lag_s"] <= _LAG_S:
        raise ValueError(f"lag_s must lie within {_LAG_S} s of zero, not {found['lag_s']!r}")
    if found["seed"] < 0:
        raise ValueError(f"seed must be 0 or more, not {found['seed']!r}")
    return TrainedOn(**found | {"unit_ids": tuple(str(u) for u in found["unit_ids"])})


def _check_weights(path, weights: dict[str, np.ndarray], expected: dict[str, torch.Tensor]):
    odd = sorted(set(weights) ^ set(expected))
    if odd:
        raise CheckpointError(f"{path}: {odd[0]} is {'missing' if odd[0] in expected else 'not known'}.")
    precision = weights["readout.weight"].dtype
    if precision not in (np.float32, np.float64):  # halves, long doubles, the other byte order: torch refuses these
        raise CheckpointError(f"{path}: readout.weight must be of float32 or float64, not {precision}.")
    for name, tensor in expected.items():
        array = weights[name]
        wanted = np.dtype(np.float64) if name == "rotation.omega" else precision
        if array.shape != tuple(tensor.shape) or array.dtype != wanted:
            raise CheckpointError(
                f"{path}: {name} must be {tuple(tensor.shape)} of {wanted}, not {array.shape} of {array.dtype}."
            )
        if not np.isfinite(array).all():
            raise CheckpointError(f"{path}: {name} holds a number that is not finite.")
