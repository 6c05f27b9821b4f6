"""Everything in a trained POSSM that does not depend on spikes, computed once, as NumPy arrays.

Symbols as in `attention.py`. A score table stores [Re w_1, -Im w_1, Re w_2, -Im w_2, ..., rest], so that the score at
a time difference t is its dot product with `basis(t)`. Matrices stand transposed, to be used as x @ A. All folding is
done in float64; the arrays are cast to the model's own precision at the end. No torch here: a rig needs NumPy alone.
"""

from __future__ import annotations

import numpy as np

from ..config import POSSMConfig
from .cells import LAYER_NORM_EPS, step_constants


def turning(omega: np.ndarray, zero_s: float = 0.0) -> np.ndarray:
    """Turns a second of each entry of `basis`, and its turns at t = 0 if time is counted from `zero_s`, (2, 2F + 1)."""
    turns = np.zeros((2, 2 * len(omega) + 1))
    turns[0, :-1] = np.repeat(omega / (2 * np.pi), 2)
    turns[1] = -turns[0] * zero_s
    turns[1, 1:-1:2] -= 0.25  # a sine is a cosine a quarter of a turn late
    return turns


def basis(times: np.ndarray, turns: np.ndarray, dtype) -> np.ndarray:
    """[cos omega_1 t, sin omega_1 t, cos omega_2 t, ..., 1] of each time, (..., 2F + 1), with `turns` of `turning`.

    All but the last, viewed as complex numbers, are the phasors e^{i omega t}. Only what is left of a whole turn is
    rounded to `dtype`, as in `blocks.positions.phasors`.
    """
    phase = times[..., None] * turns[0]
    phase += turns[1]
    phase -= np.rint(phase)
    phase *= 2 * np.pi
    return np.cos(phase.astype(dtype))


def fold(weights: dict[str, np.ndarray], config: POSSMConfig, session: int, query_offsets_s: np.ndarray) -> dict:
    """Constants of the streaming decoder.

    Args:
        weights: the model's state dict as NumPy arrays.
        config: its configuration.
        session: whose embedding and scale to answer with.
        query_offsets_s: times inside a bin at which velocity is wanted, seconds, (Q,).

    Returns:
        Arrays by name, in the precision of the weights, but `in_turns` in float64; those of the backbone begin with
        "backbone.".
    """
    dtype = weights["readout.weight"].dtype
    w = {name: np.asarray(array, dtype=np.float64) for name, array in weights.items()}
    folded = {**_fold_input(w, config), **_fold_output(w, config, session, query_offsets_s)}
    folded |= {f"backbone.{name}": array for name, array in _fold_backbone(w, config).items()}
    folded = {name: _cast(array, dtype) for name, array in folded.items()}
    return folded | {"in_turns": turning(w["rotation.omega"], config.bin_width_s / 2)}


def of_part(arrays: dict[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with "part.", without it."""
    return {name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")}


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """In C order and in the precision of `dtype`; complex numbers stay complex."""
    return np.ascontiguousarray(array, np.result_type(dtype, np.complex64) if np.iscomplexobj(array) else dtype)


def _fold_backbone(w: dict, config: POSSMConfig) -> dict:
    # the bias of the feed-forward layer goes straight into the backbone
    bias = np.tile(w["encoder.feed_forward.contract.bias"], config.n_latents) if config.feed_forward else None
    return step_constants(config.backbone, of_part(w, "backbone"), config.n_layers, bias)


def _fold_input(w: dict, config: POSSMConfig) -> dict:
    """The score table P and the values of every unit, and the layers behind them up to the backbone."""
    queries = _queries(w, "encoder", w["encoder.latents"], config)  # (L, H, d)
    keys, values = _keys_values(
        w, "encoder", _layer_norm(w, "encoder.norm_context", w["unit_embedding.weight"]), config
    )
    table = _score_maps(queries, config) @ keys[:, None, :, :, None]  # (U+1, L, H, 2F+1, 1)
    both = np.concatenate([_centring(config.dim), np.eye(config.dim)], 1)  # centred, then plain: (D, 2 D)
    return {
        "in_table": table[..., 0].reshape(len(keys), -1, 2 * config.n_freqs + 1),  # (U+1, L H, 2F+1)
        "in_values": values,  # (U+1, H, d)
        "in_out": w["encoder.to_out.weight"].T @ both,
        "in_start": (w["encoder.latents"] + w["encoder.to_out.bias"]) @ both,  # (L, 2 D)
        **_fold_feed_forward(w, "encoder", "in", config),
    }


def _fold_output(w: dict, config: POSSMConfig, session: int, offsets: np.ndarray) -> dict:
    """Scores and values as linear maps of the normalised hidden state, and the way from there to velocity."""
    query = w["task_embedding"] + w["session_embedding.weight"][session][None]  # (1, D)
    if config.query == "per_ms":
        ms = np.floor(offsets * 1000 + 1e-3).astype(int).clip(0, len(w["ms_embedding.weight"]) - 1)
        query = query + w["ms_embedding.weight"][ms]  # (Q, D)
    keys, values = _keys_values(w, "decoder", np.eye(config.hidden), config)  # (h, H, d): the columns of W_k and W_v
    maps = _score_maps(_queries(w, "decoder", query, config), config)  # (1 or Q, H, 2F+1, d)
    tables = np.einsum("qhfd,xhd->qhfx", maps, keys)
    phase = basis(_time_differences(config, offsets), turning(w["rotation.omega"]), np.float64)  # (Q, k, 2F+1)
    scores = (phase[:, None] @ tables).transpose(2, 0, 1, 3)  # (k, Q, H, h)
    phasors = np.ones((*phase.shape[:2], config.head_dim // 2), complex)  # one where a pair is not rotated
    if config.rotate_values:
        phasors[..., : config.n_freqs] = phase[..., :-1].view(complex)
    gain, shift = w["decoder.norm_context.weight"], w["decoder.norm_context.bias"]
    velocity = (w["readout.weight"] * w["velocity_std"][session][:, None]).T  # (D, 2)
    rows = np.concatenate([scores.reshape(-1, config.hidden), values.reshape(config.hidden, -1).T])
    folded = {
        # of a hidden state normalised to mean 0 and variance 1: its score at each age, oldest first, and its values
        "out_rows": (rows * gain).T,
        "out_rows_bias": rows @ shift,
        "out_phasors": phasors,  # (Q, k, d/2)
        **_fold_feed_forward(w, "decoder", "out", config),
    }
    both = np.concatenate([_centring(config.dim), velocity], 1)  # centred, then read out: (D, D + 2)
    start = query + w["decoder.to_out.bias"]  # (1 or Q, D)
    folded |= {"out_out": w["decoder.to_out.weight"].T @ both, "out_start": start @ both}
    folded["out_start"][:, config.dim :] += w["readout.bias"] * w["velocity_std"][session] + w["velocity_mean"][session]
    if config.feed_forward:  # nothing stands between the feed-forward layer and the readout, so they are one matrix
        folded["out_start"][:, config.dim :] += w["decoder.feed_forward.contract.bias"] @ velocity
        folded["out_contract"] = folded["out_contract"] @ velocity
    return folded


def _fold_feed_forward(w: dict, layer: str, prefix: str, config: POSSMConfig) -> dict:
    """Norm folded into the first matrix; the gate scaled for gelu(g) = u (1 + erf u) / sqrt 2 with u = g / sqrt 2."""
    if not config.feed_forward:
        return {}
    expand, bias = w[f"{layer}.feed_forward.expand.weight"], w[f"{layer}.feed_forward.expand.bias"]
    gain, shift = w[f"{layer}.feed_forward.norm.weight"], w[f"{layer}.feed_forward.norm.bias"]
    half = np.ones(len(expand))
    half[len(expand) // 2 :] = 1 / np.sqrt(2)
    return {
        f"{prefix}_expand": (half[:, None] * expand * gain).T,
        f"{prefix}_expand_bias": half * (bias + expand @ shift),
        f"{prefix}_contract": w[f"{layer}.feed_forward.contract.weight"].T / np.sqrt(2),
    }


def _time_differences(config: POSSMConfig, offsets: np.ndarray) -> np.ndarray:
    """End of each of the k bins, oldest first, minus the time it is seen from: (Q, k), the same in every bin."""
    ends = (2 - config.context_bins + np.arange(config.context_bins)) * config.bin_width_s
    seen_from = offsets if config.query == "time" else np.full(len(offsets), config.bin_width_s)
    return ends - seen_from[:, None]


def _centring(size: int) -> np.ndarray:
    """The matrix that takes its mean from a vector."""
    return np.eye(size) - 1 / size


def _layer_norm(w: dict, name: str, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + LAYER_NORM_EPS)
    return normal * w[f"{name}.weight"] + w[f"{name}.bias"]


def _queries(w: dict, layer: str, x: np.ndarray, config: POSSMConfig) -> np.ndarray:
    """(n, D) to (n, H, d)."""
    projected = _layer_norm(w, f"{layer}.norm_query", x) @ w[f"{layer}.to_q.weight"].T
    return projected.reshape(len(x), config.n_heads, config.head_dim)


def _keys_values(w: dict, layer: str, x: np.ndarray, config: POSSMConfig) -> tuple[np.ndarray, np.ndarray]:
    """Normalised context (n, C) to keys and values (n, H, d)."""
    kv = (x @ w[f"{layer}.to_kv.weight"].T).reshape(len(x), 2, config.n_kv_heads, config.head_dim)
    kv = kv.repeat(config.n_heads // config.n_kv_heads, axis=2)
    return kv[:, 0], kv[:, 1]


def _score_maps(queries: np.ndarray, config: POSSMConfig) -> np.ndarray:
    """The linear map from a key (d,) to its score table (2F+1,), for each query: (..., d) to (..., 2F+1, d)."""
    n_freqs = config.n_freqs
    maps = np.zeros((*queries.shape[:-1], 2 * n_freqs + 1, config.head_dim))
    even, odd = queries[..., 0 : 2 * n_freqs : 2], queries[..., 1 : 2 * n_freqs : 2]
    f = np.arange(n_freqs)
    maps[..., 2 * f, 2 * f], maps[..., 2 * f, 2 * f + 1] = even, odd  # Re(conj(q) k)
    maps[..., 2 * f + 1, 2 * f], maps[..., 2 * f + 1, 2 * f + 1] = odd, -even  # -Im(conj(q) k)
    maps[..., -1, 2 * n_freqs :] = queries[..., 2 * n_freqs :]
    return maps / np.sqrt(config.head_dim)
