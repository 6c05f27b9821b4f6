"""Weights under the names of the authors' implementation (torch_brain, branch possm, commit a440fe2)."""

import numpy as np
import torch

from .config import POSSMConfig

# modules, ours: theirs
_NAMES = {"readout": "readout.projections.cursor_velocity_2d", "session_embedding": "session_emb"}
for _ours, _theirs in (("encoder", "enc"), ("decoder", "dec")):
    _NAMES |= {f"{_ours}.{name}": f"{_theirs}_atn.{name}" for name in ("norm_context", "to_q", "to_kv", "to_out")}
    _NAMES |= {
        f"{_ours}.norm_query": f"{_theirs}_atn.norm",
        f"{_ours}.feed_forward.norm": f"{_theirs}_ffn.0",
        f"{_ours}.feed_forward.expand": f"{_theirs}_ffn.1.net.0",
        f"{_ours}.feed_forward.contract": f"{_theirs}_ffn.1.net.3",
    }
_SPIKE_TOKEN, _VELOCITY_TASK = 0, 1  # the rows of token_type_emb and task_emb in use


def convert(params: dict) -> tuple[POSSMConfig, dict[str, torch.Tensor]]:
    """The authors' arrays as a configuration and a state dict in float64; KeyError naming an array that is missing.

    Their readout is standardised, and so is the output, unless the arrays are from `export`. The type embedding of a
    spike is added to every unit's row, since it never changes.
    """
    arrays = {k: torch.from_numpy(np.array(v, dtype=np.float64)) for k, v in params.items()}
    omega = arrays["rotary_emb.omega"]
    state = {
        "unit_embedding.weight": arrays["unit_emb.weight"] + arrays["token_type_emb.weight"][_SPIKE_TOKEN],
        "task_embedding": arrays["task_emb.weight"][_VELOCITY_TASK],
        "encoder.latents": arrays["latent_emb.weight"],
        "rotation.omega": omega[omega != 0],  # 0: not rotated
    }
    for ours, theirs in _NAMES.items():
        state |= {k.replace(theirs, ours): v for k, v in arrays.items() if k.rpartition(".")[0] == theirs}
    state |= {k.replace("backbone.net.", "backbone."): v for k, v in arrays.items() if k.startswith("backbone.net.")}
    n_sessions = len(state["session_embedding.weight"]) - 1
    state["behavior_mean"] = arrays.get("behavior_mean", torch.zeros(n_sessions + 1, 2).double())
    state["behavior_std"] = arrays.get("behavior_std", torch.ones(n_sessions + 1, 2).double())
    gates_and_hidden, hidden = state["backbone.weight_hh_l0"].shape
    head_dim = 2 * len(omega)  # one frequency per pair of a head's dimensions
    n_units, dim = state["unit_embedding.weight"].shape
    config = POSSMConfig(
        n_units=n_units - 1,
        n_sessions=n_sessions,
        dim=dim,
        n_heads=len(state["encoder.to_q.weight"]) // head_dim,
        n_kv_heads=len(state["encoder.to_kv.weight"]) // (2 * head_dim),
        head_dim=head_dim,
        n_latents=len(state["encoder.latents"]),
        reading="softmax",
        n_freqs=len(state["rotation.omega"]),
        expansion=state["encoder.feed_forward.contract.weight"].shape[1] // dim,
        backbone={1: "rnn", 3: "gru", 4: "lstm"}[gates_and_hidden // hidden],
        hidden=hidden,
        n_layers=sum(k.startswith("backbone.weight_hh_l") for k in state),
    )
    return config, state


def export(config: POSSMConfig, state: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """The arrays of a configuration and state dict under the authors' names; `convert` is the inverse.

    Token types are zero, as theirs is a part of every unit's row here; rows that are never read are zero, too. Two
    arrays are not of theirs: `behavior_mean` and `behavior_std`, with a row for each session, from 1. Their readout is
    standardised: put the two rows into the configuration of a recording, as `normalize_mean` and `normalize_std`, and
    remove both arrays before `load_state_dict`. It also expects the names of the rows of the embeddings,
    `unit_emb.vocab` and `session_emb.vocab`: dicts from name to row, with "NA" for row 0.

    Raises:
        ValueError: the configuration has a value that torch_brain's POSSM lacks; the message names it.
    """
    required = {
        "n_outputs": 2,
        "backbone": "gru",
        "bin_width_s": 0.05,  # this and the next are no arrays: `convert` takes the defaults
        "context_bins": 3,
        "n_latents": 1,  # with more, theirs makes n_latents^2 tokens a bin and fails
        "n_kv_heads": config.n_heads,
        "reading": "softmax",
        "n_freqs": config.head_dim // 4,
        "feed_forward": True,
        "expansion": 4,
    }
    for name, value in required.items():
        if (own := getattr(config, name)) != value:
            raise ValueError(f"{name} is {own!r}, which torch_brain's POSSM does not have: it must be {value!r}.")
    arrays = {name: tensor.detach().cpu().numpy().copy() for name, tensor in state.items()}
    omega, task = arrays["rotation.omega"], arrays["task_embedding"]
    params = {
        "unit_emb.weight": arrays["unit_embedding.weight"],
        "token_type_emb.weight": np.zeros((4, config.dim), task.dtype),
        "task_emb.weight": np.zeros((2, config.dim), task.dtype),  # velocity is the only task
        "latent_emb.weight": arrays["encoder.latents"],
        "rotary_emb.omega": np.pad(omega, (0, config.head_dim // 2 - len(omega))),
    }
    params["task_emb.weight"][_VELOCITY_TASK] = task
    for ours, theirs in _NAMES.items():
        params |= {k.replace(ours, theirs): v for k, v in arrays.items() if k.rpartition(".")[0] == ours}
    params |= {f"backbone.net.{k[9:]}": v for k, v in arrays.items() if k.startswith("backbone.")}
    return params | {name: arrays[name] for name in ("behavior_mean", "behavior_std")}
