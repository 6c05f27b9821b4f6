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
_SCALE = ("behavior_mean", "behavior_std")  # without a counterpart among their arrays


def convert(params: dict) -> tuple[POSSMConfig, dict[str, torch.Tensor], torch.Tensor]:
    """The authors' arrays as a configuration, a state dict and the angular frequencies, all float64.

    The type embedding of a spike is added to every unit's row, since it never changes.

    Raises:
        ValueError: an array that sizes are inferred from is missing; the message names it.
    """
    arrays = {k: torch.from_numpy(np.array(v, dtype=np.float64)) for k, v in params.items()}
    state = {}
    try:
        omega = arrays["rotary_emb.omega"]
        state["unit_embedding.weight"] = arrays["unit_emb.weight"] + arrays["token_type_emb.weight"][_SPIKE_TOKEN]
        state["task_embedding"] = arrays["task_emb.weight"][_VELOCITY_TASK]
        state["encoder.latents"] = arrays["latent_emb.weight"]
        state |= {name: arrays[name] for name in _SCALE if name in arrays}
        for ours, theirs in _NAMES.items():
            state[f"{ours}.weight"] = arrays[f"{theirs}.weight"]
            if f"{theirs}.bias" in arrays:
                state[f"{ours}.bias"] = arrays[f"{theirs}.bias"]
        gates_and_hidden, hidden = arrays["backbone.net.weight_hh_l0"].shape
    except KeyError as error:
        raise ValueError(f"params lacks {error.args[0]!r}, which torch_brain's POSSM has.") from None
    state |= {k.replace("backbone.net.", "backbone."): v for k, v in arrays.items() if k.startswith("backbone.net.")}
    head_dim = 2 * len(omega)  # one frequency per pair of a head's dimensions
    dim = state["unit_embedding.weight"].shape[1]
    config = POSSMConfig(
        n_units=len(state["unit_embedding.weight"]) - 1,
        n_sessions=len(state["session_embedding.weight"]) - 1,
        dim=dim,
        n_heads=state["encoder.to_q.weight"].shape[0] // head_dim,
        n_kv_heads=state["encoder.to_kv.weight"].shape[0] // (2 * head_dim),
        head_dim=head_dim,
        n_latents=len(state["encoder.latents"]),
        reading="softmax",
        n_freqs=int((omega != 0).sum()),
        expansion=state["encoder.feed_forward.contract.weight"].shape[1] // dim,
        backbone={1: "rnn", 3: "gru", 4: "lstm"}[gates_and_hidden // hidden],
        hidden=hidden,
        n_layers=sum(k.startswith("backbone.weight_hh_l") for k in state),
    )
    return config, state, omega[omega != 0]


def export(config: POSSMConfig, state: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """The arrays of a configuration and state dict under the authors' names; `convert` is the inverse.

    Token types are zero, as theirs is a part of every unit's row here. Rows that are never read are zero, too.

    Raises:
        ValueError: the configuration has a value that torch_brain's POSSM lacks; the message names it.
    """
    required = {
        "n_outputs": 2,
        "backbone": "gru",
        "query": "time",
        "bin_width_s": 0.05,  # this and the next are no arrays: `convert` takes the defaults
        "context_bins": 3,
        "n_latents": 1,  # with more, theirs makes n_latents^2 tokens a bin and fails
        "n_kv_heads": config.n_heads,
        "reading": "softmax",
        "time_code": "rotation",
        "n_freqs": config.head_dim // 4,
        "rotate_values": True,
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
        "rotary_emb.omega": np.pad(omega, (0, config.head_dim // 2 - len(omega))),  # 0: not rotated
    }
    params["task_emb.weight"][_VELOCITY_TASK] = task
    for ours, theirs in _NAMES.items():
        params |= {k.replace(ours, theirs): v for k, v in arrays.items() if k.rpartition(".")[0] == ours}
    params |= {f"backbone.net.{k[9:]}": v for k, v in arrays.items() if k.startswith("backbone.")}
    return params | {name: arrays[name] for name in _SCALE}
