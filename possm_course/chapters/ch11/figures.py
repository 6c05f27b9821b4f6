"""Bins as they are and as they are read, what three forms of the reader cost, and trained readers (chapter 11)."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from possm_course.stored import result
from possm_course.style import BLUE, GRAY, GREEN, INK, ORANGE
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.cross_attention import softmax_by_bin
from possm_lite.decoder.textbook import encode_textbook
from possm_lite.nn.positions import rotate
from possm_lite.recordings import SpikeBatch
from possm_lite.training import Session

SIZES = {"head_dim": 32, "n_freqs": 8}


def tables(model: POSSM) -> dict[str, Tensor]:
    """The query (d,) of the first latent and head, and keys and values (U+1, d) of all units."""
    with torch.no_grad():
        q = model.encoder.queries(model.encoder.latents)[0, 0]
        k, v = (x[:, 0] for x in model.encoder.keys_values(model.unit_embedding.weight))
    return {"q": q, "k": k, "v": v}


def untrained(seed: int, reading: str = "softmax", **switches) -> POSSM:
    """A decoder with the heads of the chapter; "mean" is a softmax whose query is held at zero."""
    torch.manual_seed(seed)
    model = POSSM(POSSMConfig(n_units=120, reading=reading.replace("mean", "softmax"), **SIZES, **switches))
    if reading == "mean":
        model.encoder.to_q.weight.requires_grad_(False).zero_()
    return model


def trained() -> dict[str, Tensor]:
    """What experiments/ch11_latent_cross_attention.py stored, in half precision: q (3, d), k and v (3, U+1, d)."""
    with np.load(result("ch11_latent_cross_attention.npz")) as stored:
        return {name: torch.from_numpy(stored[name]).float() for name in stored.files}


def draw_bins(batch: SpikeBatch, tuned: Tensor, share: Tensor | None = None, z: Tensor | None = None) -> None:
    """The emptiest, a middling and the fullest bin; with the share (N,) of each token, what was read of them below."""
    n = torch.bincount(batch.bin)
    rank = torch.cat([torch.arange(1), tuned.int().argsort(stable=True) + 1]).argsort()  # untuned units at the bottom
    chosen = n.argsort(stable=True)[[0, len(n) // 2, -1]].tolist()
    figure, axes = plt.subplots(
        2, 3, figsize=(6.4, 4.0), layout="constrained", height_ratios=[5, 1], sharex="row", sharey="row"
    )
    look = {"cmap": "PuOr_r", "vmin": 0.6, "vmax": 1.4} if share is not None else {"color": INK}
    for b, above, below in zip(chosen, *axes, strict=True):
        own = batch.bin == b
        colour = {} if share is None else {"c": share[own]}
        edge = {} if share is None else {"edgecolors": INK, "linewidths": 0.5}
        dots = above.scatter(1000 * batch.offset[own], rank[batch.unit[own]], 26, **look, **colour, **edge)
        above.axhline(int((~tuned).sum()) + 0.5, color=GRAY, lw=1)
        above.set(title=f"{n[b]} spikes", xlim=(-2, 52), ylim=(0, len(tuned) + 1), xticks=[0, 25, 50])
        above.set(yticks=[9, 70])
        below.set(xticks=[], yticks=[])
        if z is None:
            below.text(0.5, 0.5, "?", ha="center", va="center", fontsize=16, transform=below.transAxes)
        else:
            below.imshow(z[b][None], cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
    axes[0, 1].set_xlabel("time in the bin (ms)")
    axes[0, 0].set_yticklabels(["untuned\nunits", "tuned\nunits"])
    axes[1, 0].set_ylabel("32\nnumbers", rotation=0, ha="right", va="center")
    if share is not None:
        figure.colorbar(dots, ax=axes[0], label="weight,\nin equal shares", ticks=[0.6, 1, 1.4], extend="both")
    plt.show()


def draw_units(shares: dict[str, Tensor], tuned: Tensor) -> None:
    """The mean share of a spike of each unit, (seeds, U), one panel for each entry of `shares`."""
    figure, axes = plt.subplots(1, len(shares), figsize=(6.4, 2.8), sharey=True, layout="constrained")
    jitter = np.random.default_rng(0).uniform(-0.13, 0.13, len(tuned))
    for ax, (when, of_seed) in zip(axes, shares.items(), strict=True):
        for seed, share in enumerate(of_seed):
            for who, x, color, marker in ((~tuned, -0.2, ORANGE, "D"), (tuned, 0.2, BLUE, "o")):
                at = seed + x
                ax.plot(at + jitter[who], share[who], marker, color=color, ms=3, mfc="none", mew=0.8)
                ax.plot([at - 0.17, at + 0.17], [share[who].mean()] * 2, color=INK, lw=2)
        ax.axhline(1, color=GRAY, lw=1, ls="--")
        ax.set(title=when, xlabel="seed", xticks=range(len(of_seed)))
    axes[0].set_ylabel("weight of its spikes,\nin equal shares")
    lines = [plt.Line2D([], [], color=c, marker=m, ls="", mfc="none") for c, m in ((ORANGE, "D"), (BLUE, "o"))]
    figure.legend(lines, ["untuned unit", "tuned unit"], loc="outside lower center", ncols=2)
    plt.show()


def read_with_keys(model: POSSM, batch: SpikeBatch) -> Tensor:
    """A list without padding, but with a key and a value projected for every spike: (n_bins, D)."""
    encoder, n_bins = model.encoder, int(batch.n_bins.sum())
    keys, values = (y[:, 0] for y in encoder.keys_values(model.unit_embedding(batch.unit)))  # (N, d) each
    phase = model.rotation(batch.offset - batch.bin_width_s / 2, keys.dtype)  # (N, F)
    s = rotate(keys, phase) @ encoder.queries(encoder.latents)[0, 0] / math.sqrt(keys.shape[-1])  # (N,)
    p = softmax_by_bin(s, batch.bin, n_bins)
    z = values.new_zeros(n_bins, values.shape[-1]).index_add(0, batch.bin, p[:, None] * rotate(values, phase))
    return encoder.project_out(encoder.latents[0], z[:, None])


def measure_cost(model: POSSM, session: Session, windows=(1, 3, 10, 30)) -> tuple[np.ndarray, np.ndarray]:
    """Spikes (n,), and milliseconds and megabytes (n, 2, 3) of a padded grid, a list with keys, a table of units.

    Processor time forward and backward, the least of several runs; what the forward pass keeps for the backward pass.
    """
    spikes, cost = [], []
    for n_windows in windows:
        batch = session.timeline.cut(session.split.train[0, 0] + np.arange(n_windows), 1.0)
        grid = batch.padded()  # made once and not counted, in favour of the textbook
        forms = [
            lambda: encode_textbook(model, grid),  # noqa: B023  (used before the next pass)
            lambda: read_with_keys(model, batch),  # noqa: B023
            lambda: model.encode(batch),  # noqa: B023
        ]
        n_rounds = 5 + 10 // n_windows  # what is short is measured more often
        taken = np.array([[_seconds(form) for form in forms] for _ in range(n_rounds)])[1:].min(0)
        spikes.append(batch.n_spikes)
        cost.append([1000 * taken, [_saved_mb(model, form) for form in forms]])
    return np.array(spikes), np.array(cost)


def _seconds(form: Callable[[], Tensor]) -> float:
    began = time.process_time()  # of this process alone, whatever else the machine does
    form().square().sum().backward()
    return time.process_time() - began


def _saved_mb(model: POSSM, form: Callable[[], Tensor]) -> float:
    """Each piece of memory once, parameters left out."""
    pieces, own = {}, {p.untyped_storage().data_ptr() for p in model.parameters()}

    def note(x):
        memory = x.untyped_storage()
        if memory.data_ptr() not in own:
            pieces[memory.data_ptr()] = memory.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        form()  # the graph goes with the result, which nobody keeps
    return sum(pieces.values()) / 1e6


def draw_cost(spikes: np.ndarray, cost: np.ndarray) -> None:
    figure, panels = plt.subplots(1, 2, figsize=(6.4, 3.3), layout="constrained")
    names = "padded, a key per slot", "list, a key per spike", "list, a row per unit"
    for j, (name, look) in enumerate(zip(names, (("s--", ORANGE), ("^-.", GREEN), ("o-", BLUE)), strict=True)):
        for axes, measure in zip(panels, (0, 1), strict=True):
            axes.loglog(spikes, cost[:, measure, j], look[0], color=look[1], lw=1.8, ms=6, label=name)
    panels[0].set(xlabel="spikes", ylabel="forward and backward (ms)")
    panels[1].set(xlabel="spikes", ylabel="memory kept (MB)")
    for axes in panels:
        low, high = axes.get_ylim()
        ticks = [t for t in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if low < t < high]
        axes.set_yticks(ticks, ticks)
        axes.set_xticks([1000, 10_000], ["1,000", "10,000"])
        axes.minorticks_off()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    plt.show()


def with_reading(model: POSSM, reading: str) -> POSSM:
    """A decoder with the weights of the model, whose encoder reads in another way."""
    torch.manual_seed(0)
    config = replace(model.config, reading=reading.replace("mean", "softmax"))
    twin, weights = POSSM(config), model.state_dict()
    if reading == "sum":
        weights["encoder.to_kv.weight"] = weights["encoder.to_kv.weight"].chunk(2)[1]  # it has no keys
    twin.load_state_dict(weights, strict=False)  # not strict: gain and bias are new, a sum has no query
    if reading == "mean":
        twin.encoder.to_q.weight.requires_grad_(False).zero_()
    return twin
