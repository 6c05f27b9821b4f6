"""What three forms of the input attention cost, in time and memory (chapter 11)."""

import math
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from possm_lite.decoder import POSSM
from possm_lite.decoder.cross_attention import softmax_by_bin
from possm_lite.decoder.textbook import encode_textbook
from possm_lite.nn.positions import rotate
from possm_lite.recordings import SpikeBatch
from possm_lite.training import Session


def read_with_keys(model: POSSM, batch: SpikeBatch) -> Tensor:
    """The input attention on a list without padding, with a key and a value for every spike.

    Args:
        model: a decoder with one latent and one head.
        batch: N spikes in n_bins bins.

    Returns:
        The bins as they are read, shape (n_bins, D).
    """
    encoder = model.encoder
    n_bins = int(batch.n_bins.sum())
    keys, values = encoder.keys_values(model.unit_embedding(batch.unit))  # (N, H, d) each
    keys, values = keys[:, 0], values[:, 0]  # (N, d) each
    phase = model.rotation(batch.offset - batch.bin_width_s / 2, keys.dtype)  # (N, F)
    query = encoder.queries(encoder.latents)[0, 0]  # (d,)
    scores = rotate(keys, phase) @ query / math.sqrt(keys.shape[-1])  # (N,)
    p = softmax_by_bin(scores, batch.bin, n_bins)
    weighted = p[:, None] * rotate(values, phase)  # (N, d)
    z = values.new_zeros(n_bins, values.shape[-1]).index_add(0, batch.bin, weighted)
    return encoder.project_out(encoder.latents[0], z[:, None])


def measure_cost(
    model: POSSM, session: Session, windows=(1, 3, 10, 30)
) -> tuple[np.ndarray, np.ndarray]:
    """The cost of three forms of input attention: a padded grid, a list with keys, unit tables.

    Time is processor time forward and backward, the least of several runs. Memory is what the
    forward pass keeps for the backward pass.

    Args:
        model: the decoder.
        session: its training part is cut into windows of 1 s.
        windows: numbers of windows in a batch, n of them.

    Returns:
        Spikes in each batch, shape (n,), and milliseconds and megabytes, shape (n, 2, 3).
    """
    spikes, cost = [], []
    for n_windows in windows:
        starts = session.split.train[0, 0] + np.arange(n_windows)
        batch = session.timeline.cut(starts, 1.0)
        grid = batch.padded()  # made once and not counted, in favour of the textbook
        forms = [
            lambda: encode_textbook(model, grid),  # noqa: B023  (used before the next pass)
            lambda: read_with_keys(model, batch),  # noqa: B023
            lambda: model.encode(batch),  # noqa: B023
        ]
        n_rounds = 5 + 10 // n_windows  # what is short is measured more often
        rounds = [[_seconds(form) for form in forms] for _ in range(n_rounds)]
        taken_s = np.min(rounds[1:], axis=0)  # (3,), without the first round
        saved_mb = [_saved_mb(model, form) for form in forms]
        spikes.append(batch.n_spikes)
        cost.append([1000 * taken_s, saved_mb])
    return np.array(spikes), np.array(cost)


def _seconds(form: Callable[[], Tensor]) -> float:
    """Processor time of a form, forward and backward, in s."""
    began = time.process_time()  # of this process alone, whatever else the machine does
    form().square().sum().backward()
    return time.process_time() - began


def _saved_mb(model: POSSM, form: Callable[[], Tensor]) -> float:
    """Megabytes that a form keeps for the backward pass, each piece once, parameters left out."""
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    pieces = {}

    def note(x):
        memory = x.untyped_storage()
        if memory.data_ptr() not in parameters:
            pieces[memory.data_ptr()] = memory.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        form()  # the graph goes with the result, which nobody keeps
    return sum(pieces.values()) / 1e6
