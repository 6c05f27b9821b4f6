"""Weights under the names of the authors' code (torch_brain, branch possm, commit a440fe2)."""

import math
from collections.abc import Iterable
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from .config import POSSMConfig

# modules and single arrays, ours: theirs
_NAMES = {
    "unit_embedding": "unit_emb",
    "session_embedding": "session_emb",
    "task_embedding": "task_emb.weight",
    "encoder.latents": "latent_emb.weight",
    "rotation": "rotary_emb",
    "backbone": "backbone.net",
    "readout": "readout.projections.cursor_velocity_2d",
}
for _ours, _theirs in (("encoder", "enc"), ("decoder", "dec")):
    for _name in ("norm_context", "to_q", "to_kv", "to_out"):
        _NAMES[f"{_ours}.{_name}"] = f"{_theirs}_atn.{_name}"
    _NAMES[f"{_ours}.norm_query"] = f"{_theirs}_atn.norm"
    _NAMES[f"{_ours}.feed_forward.norm"] = f"{_theirs}_ffn.0"
    _NAMES[f"{_ours}.feed_forward.expand"] = f"{_theirs}_ffn.1.net.0"
    _NAMES[f"{_ours}.feed_forward.contract"] = f"{_theirs}_ffn.1.net.3"

# Every field of POSSMConfig is in one of these two, is one of `n_kv_heads` and `n_freqs`, which
# torch_brain derives from others, or must have its default.
_IN_ARRAYS = {  # by their shapes, and the periods by the frequencies of rotation
    "n_units",
    "n_sessions",
    "dim",
    "n_heads",
    "head_dim",
    "hidden",
    "n_layers",
    "shortest_period_s",
    "longest_period_s",
}
_FIXED = {
    "decodes": "continuous",
    "n_outputs": 2,
    "backbone": "gru",
    "bin_width_s": 0.05,
    "context_bins": 3,
    "n_latents": 1,  # with more, theirs makes n_latents^2 tokens a bin and fails
    "reading": "softmax",
    "feed_forward": True,
    "expansion": 4,
}
# of theirs: added to tokens, so no array of ours; of ours: the scale of behaviour
_TYPES = "token_type_emb.weight"
_SCALES = ("behavior_mean", "behavior_std")


def _their_name(ours: str) -> str:
    """The name of an array of ours, or of one in a module of ours."""
    if ours in _NAMES:
        return _NAMES[ours]
    module = ours.rpartition(".")[0]
    return ours.replace(module, _NAMES.get(module, ""), 1)


def convert(params: dict, model_class: type[torch.nn.Module]) -> torch.nn.Module:
    """A POSSM with the authors' weights, in float64.

    Their readout is standardised, and so is the output, unless the arrays are from `export`. The
    type embedding of a spike is added to every unit's row, since it never changes.

    Args:
        params: arrays under the names of torch_brain's POSSM. Its dicts `unit_emb.vocab` and
            `session_emb.vocab` are left aside.
        model_class: the class `POSSM`.

    Returns:
        The model, whose configuration is inferred from the shapes; `bin_width_s` and `context_bins`
        are no arrays: those of torch_brain are taken.

    Raises:
        ValueError: names the arrays that are missing, or for which POSSM has no place, as those of
            another network.
    """
    params = {name: array for name, array in params.items() if not name.endswith(".vocab")}
    n_layers = sum(name.startswith("backbone.net.weight_hh_l") for name in params)
    _check_names(params, model_class, max(n_layers, 1))
    arrays = {name: _float64(array) for name, array in params.items()}
    config = _infer_config(arrays, n_layers, np.asarray(params["rotary_emb.omega"]).dtype)
    omega = arrays["rotary_emb.omega"]
    arrays["unit_emb.weight"] += arrays[_TYPES][0]  # of a spike
    arrays["task_emb.weight"] = arrays["task_emb.weight"][1]  # velocity
    arrays["rotary_emb.omega"] = omega[omega != 0]
    n_rows = config.n_sessions + 1
    arrays.setdefault("behavior_mean", torch.zeros(n_rows, config.n_outputs))
    arrays.setdefault("behavior_std", torch.ones(n_rows, config.n_outputs))
    model = model_class(config).double()
    model.load_state_dict({name: arrays[_their_name(name)] for name in model.state_dict()})
    return model


def _float64(array) -> Tensor:
    """A copy of an array as a tensor of float64."""
    return torch.from_numpy(np.array(array, dtype=np.float64))


def _check_names(names: Iterable[str], model_class: type[torch.nn.Module], n_layers: int) -> None:
    """ValueError if arrays are missing or left over, of a network with so many layers."""
    with torch.device("meta"):  # the names alone: no memory, no random numbers
        model = model_class(POSSMConfig(n_units=1, reading="softmax", n_layers=n_layers))
    expected = {_their_name(name) for name in model.state_dict()} | {_TYPES}
    missing = sorted(expected - set(names) - set(_SCALES))
    if missing:
        raise ValueError(f"the arrays of a torch_brain POSSM lack {', '.join(missing)}.")
    unused = sorted(set(names) - expected)
    if unused:
        raise ValueError(
            f"POSSM has no place for {', '.join(unused)}: these are arrays of another network."
        )


def _infer_config(arrays: dict[str, Tensor], n_layers: int, dtype: np.dtype) -> POSSMConfig:
    """The configuration of arrays under the authors' names; `dtype` had their frequencies."""
    omega = arrays["rotary_emb.omega"]
    head_dim = 2 * len(omega)  # one frequency per pair of a head's dimensions
    rotated = omega[omega != 0]
    gates_and_hidden, hidden = arrays["backbone.net.weight_hh_l0"].shape
    n_rows, dim = arrays["unit_emb.weight"].shape
    kinds = {1: "rnn", 3: "gru", 4: "lstm"}  # by the matrices that stand in one
    return POSSMConfig(
        n_units=n_rows - 1,  # row 0 is of none
        n_sessions=len(arrays["session_emb.weight"]) - 1,
        dim=dim,
        n_heads=len(arrays["enc_atn.to_q.weight"]) // head_dim,
        n_kv_heads=len(arrays["enc_atn.to_kv.weight"]) // (2 * head_dim),
        head_dim=head_dim,
        n_latents=len(arrays["latent_emb.weight"]),
        n_freqs=len(rotated),
        shortest_period_s=_period(rotated[0], dtype),
        longest_period_s=_period(rotated[-1], dtype),
        reading=_FIXED["reading"],
        expansion=arrays["enc_ffn.1.net.3.weight"].shape[1] // dim,
        backbone=kinds[gates_and_hidden // hidden],
        hidden=hidden,
        n_layers=n_layers,
        context_bins=_FIXED["context_bins"],
        bin_width_s=_FIXED["bin_width_s"],
        n_outputs=len(arrays["readout.projections.cursor_velocity_2d.bias"]),
    )


def _period(omega: Tensor, dtype: np.dtype) -> float:
    """2 pi / omega, without the digits that a frequency of this precision does not have."""
    digits = min(12, np.finfo(dtype).precision)
    return float(f"{2 * math.pi / float(omega):.{digits}g}")


def export(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The arrays of a model under the authors' names.

    Two arrays are not of theirs: `behavior_mean` and `behavior_std`, with a row for each session,
    from 1. Put them into the configuration of a recording, as `normalize_mean` and `normalize_std`,
    and remove them before `load_state_dict`, which also expects `unit_emb.vocab` and
    `session_emb.vocab`: dicts from name to row, with "NA" for row 0.

    Args:
        model: a POSSM.

    Returns:
        Copies of the arrays, in the precision of the model.

    Raises:
        ValueError: names a setting that torch_brain's POSSM does not have.
    """
    config = model.config
    for name, value in _required(config).items():
        own = getattr(config, name)
        if own != value:
            raise ValueError(
                f"{name} is {own!r}, which torch_brain's POSSM does not have: it must be {value!r}."
            )
    params = {}
    for name, tensor in model.state_dict().items():
        params[_their_name(name)] = tensor.cpu().numpy().copy()
    task, omega = params["task_emb.weight"], params["rotary_emb.omega"]
    params[_TYPES] = np.zeros((4, config.dim), task.dtype)
    params["task_emb.weight"] = np.stack([np.zeros_like(task), task])
    params["rotary_emb.omega"] = np.pad(omega, (0, config.head_dim // 2 - len(omega)))
    return params


def _required(config) -> dict[str, object]:
    """The value that each field must have that the arrays do not hold.

    A field that nobody has thought of here must have its default: another value would be lost.
    """
    defaults = {field.name: field.default for field in fields(config)}
    required = _FIXED | defaults | _FIXED  # of several that differ, one of `_FIXED` is named
    required["n_kv_heads"] = config.n_heads
    required["n_freqs"] = config.head_dim // 4
    return {name: value for name, value in required.items() if name not in _IN_ARRAYS}
