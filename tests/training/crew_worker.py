"""Run by `test_crew.py`, alone or under torchrun: the gradients of first steps, and threads left behind, into files."""

import sys
from pathlib import Path

import numpy as np
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes import simulate_session
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.training import FitConfig, combine_sessions, fit, prepare
from possm_lite.training.distributed import process_group
from possm_lite.training.windows import sessions_of_rank

CASES = {"one session": (1, 4), "three sessions": (3, 6), "more sessions than windows": (5, 4)}  # sessions, batch


def first_gradients(n_sessions: int, batch: int, us) -> np.ndarray:
    config = FitConfig(epochs=1, window_s=1.0, batch=batch, samples=20)
    numbers = sessions_of_rank(us, n_sessions, batch)
    sessions = combine_sessions(
        [prepare(simulate_session(n, SimulationConfig(8, n_units=4 + n)).recording) for n in numbers], numbers, us
    )
    n_units = us.all_gather({s.index: s.recording.n_units for s in sessions})
    torch.manual_seed(us.rank)  # the weights of the first process count
    model = POSSM(POSSMConfig(sum(n_units.values()), n_sessions, dim=16, head_dim=16, n_freqs=4, hidden=32))
    seen, clip = [], torch.nn.utils.clip_grad_norm_

    def look(parameters, limit):
        seen.append(torch.cat([p.grad.flatten().clone() for p in parameters]))
        return clip(parameters, limit)

    torch.nn.utils.clip_grad_norm_ = look
    fit(model, sessions, config, progress=False, group=us)
    torch.nn.utils.clip_grad_norm_ = clip
    return seen[0].numpy()


if __name__ == "__main__":
    with process_group() as us:
        gradients = {name: first_gradients(*case, us) for name, case in CASES.items()}
        np.savez(f"{sys.argv[1]}-{us.rank}.npz", **gradients)
    threads = [comm.read_text().strip() for comm in Path("/proc/self/task").glob("*/comm")]
    np.savez(f"{sys.argv[1]}-{us.rank}-threads.npz", left=[name for name in threads if "gloo" in name])
