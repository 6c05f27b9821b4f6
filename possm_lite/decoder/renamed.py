"""Parameter names of older versions of this package, so that what they saved still loads."""

from __future__ import annotations

import re

_S4D = {"log_step": "log_dt", "log_decay": "log_A_real", "frequency": "A_imag", "readout": "C", "skip": "D"}
_MAMBA = {"conv_weight": "conv1d_weight", "conv_bias": "conv1d_bias", "log_decay": "A_log", "skip": "D"}
_LAYER = {
    "s4d": _S4D | {"mix": "output_linear"},
    "mamba": _MAMBA | {"expand": "in_proj", "select": "x_proj", "to_step": "dt_proj", "contract": "out_proj"},
}


def current_names(arrays: dict, backbone: str) -> dict:
    """The same arrays under today's names. A name may have a prefix, as the moments of an optimizer have."""

    def current(name: str) -> str:
        name = re.sub(r"\bbackbone\.enter\.", "backbone.input_proj.", name)
        layer = _LAYER.get(backbone, {})
        return re.sub(r"(\bbackbone\.layers\.\d+\.)(\w+)", lambda m: m[1] + layer.get(m[2], m[2]), name)

    return {current(name): array for name, array in arrays.items()}
