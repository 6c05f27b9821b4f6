"""Parameter names of older versions of this package, so that what they saved still loads."""

import re

_S4D = {"log_step": "log_dt", "log_decay": "log_A_real", "frequency": "A_imag", "readout": "C", "skip": "D"}
_S4D |= {"mix": "output_linear"}
_MAMBA = {"conv_weight": "conv1d_weight", "conv_bias": "conv1d_bias", "log_decay": "A_log", "skip": "D"}
_MAMBA |= {"expand": "in_proj", "select": "x_proj", "to_step": "dt_proj", "contract": "out_proj"}


def current_names(arrays: dict) -> dict:
    """The arrays of a state dict of POSSM under the names of today; a name may have a prefix, as `exp_avg.` of Adam."""
    layer = _S4D if any(name.endswith("backbone.layers.0.log_step") for name in arrays) else _MAMBA

    def current(name: str) -> str:
        name = re.sub(r"\bbackbone\.enter\.", "backbone.input_proj.", name)
        name = re.sub(r"\bvelocity_(mean|std)\b", r"behavior_\1", name)
        return re.sub(r"(\bbackbone\.layers\.\d+\.)(\w+)", lambda m: m[1] + layer.get(m[2], m[2]), name)

    # a name that is there already is not overwritten: the old one is then refused as unknown
    return {name if (new := current(name)) in arrays else new: array for name, array in arrays.items()}
