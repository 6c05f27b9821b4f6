"""Weights under the names of the authors' implementation (torch_brain, branch possm, commit a440fe2)."""

import numpy as np
import torch

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
    _NAMES |= {
        f"{_ours}.{name}": f"{_theirs}_atn.{name}"
        for name in ("norm_context", "to_q", "to_kv", "to_out")
    }
    _NAMES |= {
        f"{_ours}.norm_query": f"{_theirs}_atn.norm",
        f"{_ours}.feed_forward.norm": f"{_theirs}_ffn.0",
        f"{_ours}.feed_forward.expand": f"{_theirs}_ffn.1.net.0",
        f"{_ours}.feed_forward.contract": f"{_theirs}_ffn.1.net.3",
    }


def _their_name(ours: str) -> str:
    module = ours.rpartition(".")[0]
    return _NAMES.get(ours) or ours.replace(module, _NAMES.get(module, ""), 1)


def convert(params: dict, model_class: type[torch.nn.Module]) -> torch.nn.Module:
    """A POSSM, `model_class`, in float64 with the authors' weights; KeyError naming an array that is missing.

    Their readout is standardised, and so is the output, unless the arrays are from `export`. The type embedding of a
    spike is added to every unit's row, since it never changes.
    """
    arrays = {k: torch.from_numpy(np.array(v, dtype=np.float64)) for k, v in params.items()}
    omega = arrays["rotary_emb.omega"]
    head_dim = 2 * len(omega)  # one frequency per pair of a head's dimensions
    gates_and_hidden, hidden = arrays["backbone.net.weight_hh_l0"].shape
    n_units, dim = arrays["unit_emb.weight"].shape
    n_sessions = len(arrays["session_emb.weight"])
    config = POSSMConfig(
        n_units=n_units - 1,  # row 0 is of none
        n_sessions=n_sessions - 1,
        dim=dim,
        n_heads=len(arrays["enc_atn.to_q.weight"]) // head_dim,
        n_kv_heads=len(arrays["enc_atn.to_kv.weight"]) // (2 * head_dim),
        head_dim=head_dim,
        n_latents=len(arrays["latent_emb.weight"]),
        reading="softmax",
        n_freqs=int((omega != 0).sum()),  # 0: not rotated
        expansion=arrays["enc_ffn.1.net.3.weight"].shape[1] // dim,
        backbone={1: "rnn", 3: "gru", 4: "lstm"}[gates_and_hidden // hidden],
        hidden=hidden,
        n_layers=sum(k.startswith("backbone.net.weight_hh_l") for k in arrays),
    )
    arrays["unit_emb.weight"] += arrays["token_type_emb.weight"][0]  # of a spike
    arrays["task_emb.weight"] = arrays["task_emb.weight"][1]  # velocity
    arrays["rotary_emb.omega"] = omega[omega != 0]
    arrays.setdefault("behavior_mean", torch.zeros(n_sessions, 2))
    arrays.setdefault("behavior_std", torch.ones(n_sessions, 2))
    model = model_class(config).double()
    model.load_state_dict({name: arrays[_their_name(name)] for name in model.state_dict()})
    return model


def export(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The arrays of a model under the authors' names; ValueError naming a setting that torch_brain's POSSM lacks.

    Two arrays are not of theirs: `behavior_mean` and `behavior_std`, with a row for each session, from 1. Put them into
    the configuration of a recording, as `normalize_mean` and `normalize_std`, and remove them before `load_state_dict`,
    which also expects `unit_emb.vocab` and `session_emb.vocab`: dicts from name to row, with "NA" for row 0.
    """
    config = model.config
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
            raise ValueError(
                f"{name} is {own!r}, which torch_brain's POSSM does not have: it must be {value!r}."
            )
    params = {
        _their_name(name): tensor.cpu().numpy().copy()
        for name, tensor in model.state_dict().items()
    }
    task, omega = params["task_emb.weight"], params["rotary_emb.omega"]
    params["token_type_emb.weight"] = np.zeros((4, config.dim), task.dtype)
    params["task_emb.weight"] = np.stack([np.zeros_like(task), task])
    params["rotary_emb.omega"] = np.pad(omega, (0, config.head_dim // 2 - len(omega)))
    return params
