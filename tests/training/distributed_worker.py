"""What the processes of `test_distributed.py` do: save gradients of first steps, and names of remaining threads."""

from pathlib import Path
from unittest import mock

import numpy as np
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.training import FitConfig, combine_sessions, fit, prepare
from possm_lite.training.distributed import ProcessGroup, process_group
from possm_lite.training.windows import sessions_of_rank

CASES = {
    "one session, unequal shares": (1, 5),
    "three sessions": (3, 6),
    "more sessions than windows": (5, 4),
}  # sessions, batch


def first_gradients(n_sessions: int, batch: int, group: ProcessGroup) -> np.ndarray:
    """Gradients of all parameters in the first step of a training."""
    indices = sessions_of_rank(group, n_sessions, batch)
    recordings = [simulate_session(i, SimulationConfig(8, n_units=4 + i)).recording for i in indices]
    sessions = combine_sessions([prepare(recording) for recording in recordings], indices, group)
    n_units = group.all_gather({s.index: s.recording.n_units for s in sessions})
    torch.manual_seed(group.rank)  # the weights of the main process are used
    model = POSSM(POSSMConfig(sum(n_units.values()), n_sessions, dim=16, head_dim=16, n_freqs=4, hidden=32))
    gradients, clip = [], torch.nn.utils.clip_grad_norm_

    def spy(parameters, max_norm):
        gradients.append(torch.cat([p.grad.flatten().clone() for p in parameters]))
        return clip(parameters, max_norm)

    with mock.patch("torch.nn.utils.clip_grad_norm_", spy):
        fit(model, sessions, FitConfig(epochs=1, window_s=1.0, batch=batch, samples=20), progress=False, group=group)
    return gradients[0].numpy()


def save_gradients(path: str):
    """Save the gradients of all cases in this process of a group, and which of its threads are left at the end."""
    with process_group() as group:
        gradients = {name: first_gradients(*case, group) for name, case in CASES.items()}
    threads = [comm.read_text().strip() for comm in Path("/proc/self/task").glob("*/comm")]
    np.savez(f"{path}-{group.rank}.npz", **gradients, threads=[name for name in threads if "gloo" in name])
