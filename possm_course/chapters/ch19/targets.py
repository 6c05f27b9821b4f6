"""Eight targets: trials around a reach, counts of spikes, and who knows the tuning."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from possm_lite.recordings import Recording
from possm_lite.recordings.labels import label_trials
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig, firing_rate
from possm_lite.simulate.reaches import hand_at, target_names
from possm_lite.simulate.session import SimulatedSession

N_UNITS, N_TRIALS = 50, 600
BEFORE_S, AFTER_S, BIN_S = 0.3, 0.4, 0.05
N_BINS = round((BEFORE_S + AFTER_S) / BIN_S)
SINCE_S = BIN_S * np.arange(1, N_BINS + 1) - BEFORE_S  # ends of the bins, since the hand moves
NAMES = ("right", "up right", "up", "up left", "left", "down left", "down", "down right")


def simulate(seed: int = 0) -> tuple[SimulatedSession, Recording]:
    """A session of reaches to eight targets, and its trials around the start of each reach.

    Args:
        seed: of the simulation.

    Returns:
        The session, and the recording with the targets as labels: a trial lasts from `BEFORE_S`
        before the hand leaves the centre to `AFTER_S` after.
    """
    session = simulate_session(
        seed, SimulationConfig(n_trials=N_TRIALS, n_units=N_UNITS, random_target_share=0)
    )
    start = session.truth.reaches.start_s[outward(session)][:-1]  # the last trial ends too early
    trials = np.column_stack([start - BEFORE_S, start + AFTER_S])
    names = target_names(session.truth.reaches)[:-1]
    return session, label_trials(replace(session.recording, trials=trials), names, "target")


def outward(session: SimulatedSession) -> np.ndarray:
    """Which reach of each trial goes from the centre to the target, (n,).

    Args:
        session: of `simulate`.
    """
    trial = session.truth.reaches.trial
    return np.flatnonzero(np.append(np.diff(trial) > 0, True))


def count_spikes(recording: Recording) -> np.ndarray:
    """Spikes of each trial, bin and unit, (n, T, U).

    Args:
        recording: of `simulate`.
    """
    start = recording.trials[:, :1]
    edges = (start + BIN_S * np.arange(N_BINS + 1)).ravel()  # trials do not overlap
    rows = []
    for unit in range(recording.n_units):
        times = recording.spike_times[recording.spike_units == unit]
        before = np.searchsorted(times, edges).reshape(len(start), -1)
        rows.append(np.diff(before, axis=1))
    return np.stack(rows, -1)


def expected_counts(session: SimulatedSession, trials: np.ndarray) -> np.ndarray:
    """Mean counts of each trial, target, bin and unit, had the reach gone to each target.

    Who computes them knows the tuning, the moment and the time course of the reach, and the
    fluctuations that all units share.

    Args:
        session: of `simulate`.
        trials: beginning and end of each, seconds, (n, 2).

    Returns:
        Shape (n, 8, T, U), in the order of `NAMES`.
    """
    truth, step = session.truth, BIN_S / 5
    times = trials[:, :1] + step * (np.arange(5 * N_BINS) + 0.5)  # (n, 5 T)
    grid = np.arange(len(truth.common)) / truth.config.common_rate_hz
    common = np.stack([np.interp(times.ravel(), grid, z) for z in truth.common.T], -1)
    counts = np.empty((len(times), 8, N_BINS, N_UNITS))
    for k in range(8):
        target = truth.reaches.target_mm.copy()
        angle = np.pi / 4 * k
        target[outward(session)] = truth.config.radius_mm * np.array([np.cos(angle), np.sin(angle)])
        reaches = replace(truth.reaches, target_mm=target)
        for unit in range(N_UNITS):
            hand = hand_at(reaches, times.ravel() + truth.units.lag_s[unit])
            rate = firing_rate(truth.units, unit, *hand, common).reshape(len(times), N_BINS, 5)
            counts[:, k, :, unit] = BIN_S * rate.mean(-1)
    return counts


def bayes(counts: np.ndarray, expected: np.ndarray, n_units: int = N_UNITS) -> np.ndarray:
    """Probabilities of the targets after each bin, for who knows the mean counts, (n, T, 8).

        log p(k | spikes) = sum_t sum_u (n_tu log m_ktu - m_ktu) + const                    (19.3)

    Args:
        counts: spikes n, (n, T, U).
        expected: m of `expected_counts`, (n, 8, T, U).
        n_units: of which the first are read.
    """
    m = expected[..., :n_units]
    score = (counts[:, None, :, :n_units] * np.log(m) - m).sum(-1).cumsum(-1)  # (n, 8, T)
    return torch.from_numpy(score).softmax(1).transpose(1, 2).numpy()


def fit_softmax(x: Tensor, y: Tensor, penalty: float = 1e-2) -> tuple[Tensor, Tensor]:
    """Weights of p = softmax(W x + b), by the smallest cross-entropy.

    Args:
        x: numbers of each trial, (n, U).
        y: its class, (n,).
        penalty: on the squares of W, against learning by heart.

    Returns:
        W, (8, U), and b, (8,).
    """
    W = torch.zeros(8, x.shape[1], dtype=x.dtype, requires_grad=True)
    b = torch.zeros(8, dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([W, b], max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(x @ W.T + b, y) + penalty * (W**2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return W.detach(), b.detach()
