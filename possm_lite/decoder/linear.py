"""The linear baselines, fitted in closed form: Wiener filter and Kalman filter."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from .binned import BinnedDecoder, history


class WienerFilter(BinnedDecoder):
    """Ridge regression of velocity on the square-root counts of the last `n_history` bins.

        v_t = W [n_{t-H+1}, ..., n_t, 1],     W = argmin |V - X W|^2 + ridge |W|^2   (the offset is not penalised)

    Source: Wiener filter as in Glaser et al. 2020, with a ridge penalty.
    """

    def __init__(self, n_units, bin_width_s=0.05, n_slots=1, n_history: int = 10):
        super().__init__(n_units, bin_width_s, n_slots)
        self.n_history = n_history
        self.weight = nn.Parameter(torch.zeros(n_history * n_units, 2 * n_slots), requires_grad=False)
        self.offset = nn.Parameter(torch.zeros(2 * n_slots), requires_grad=False)

    def decode_counts(self, counts: Tensor) -> Tensor:
        slots = history(counts, self.n_history) @ self.weight + self.offset
        return slots.unflatten(-1, (self.n_slots, 2))

    def solve(self, counts: list[np.ndarray], velocity: list[np.ndarray], ridges) -> list[tuple[Tensor, Tensor]]:
        """Weights and offset for each ridge; the sums over time are formed once.

        Args:
            counts: square-root counts of each continuous stretch, (T, U).
            velocity: standardised velocity of each slot there, (T, n_slots, 2); rows with NaN are left out.
            ridges: penalties to solve for.
        """
        x = np.concatenate([history(torch.as_tensor(c)[None], self.n_history)[0].numpy() for c in counts])
        y = np.concatenate([v.reshape(len(v), -1) for v in velocity])
        known = np.isfinite(y).all(1)
        x, y = x[known].astype(np.float64), y[known]
        x_mean, y_mean = x.mean(0), y.mean(0)
        x -= x_mean
        gram, cross = x.T @ x, x.T @ (y - y_mean)
        solutions = []
        for ridge in ridges:
            weight = np.linalg.solve(gram + ridge * np.eye(len(gram)), cross)
            solutions.append((torch.from_numpy(weight).float(), torch.from_numpy(y_mean - x_mean @ weight).float()))
        return solutions


class KalmanFilter(BinnedDecoder):
    """Velocity as a hidden state that drifts, square-root counts as its noisy linear image.

        v_t = A v_{t-1} + w,  w ~ N(0, W);     n_t = H v_t + b + q,  q ~ N(0, Q)

    The gain settles within seconds, so it is computed once, in the limit. All slots of a bin get the bin's velocity.

    Source: Wu et al. 2006, with velocity alone as state.
    """

    def __init__(self, n_units, bin_width_s=0.05, n_slots=1):
        super().__init__(n_units, bin_width_s, n_slots)
        self.transition = nn.Parameter(torch.eye(2), requires_grad=False)  # A
        self.image = nn.Parameter(torch.zeros(n_units, 2), requires_grad=False)  # H
        self.offset = nn.Parameter(torch.zeros(n_units), requires_grad=False)  # b
        self.gain = nn.Parameter(torch.zeros(2, n_units), requires_grad=False)  # K

    def solve(self, counts: list[np.ndarray], velocity: list[np.ndarray]):
        """Maximum likelihood on (T, U) square-root counts and (T, n_slots, 2) standardised velocity per stretch."""
        v = [np.nanmean(x, axis=1) for x in velocity]
        now, before = np.concatenate([x[1:] for x in v]), np.concatenate([x[:-1] for x in v])
        known = np.isfinite(now).all(1) & np.isfinite(before).all(1)
        now, before = now[known], before[known]
        transition = np.linalg.lstsq(before, now, rcond=None)[0].T
        drift = np.cov((now - before @ transition.T).T)
        n, v = np.concatenate(counts), np.concatenate(v)
        n, v = n[np.isfinite(v).all(1)], v[np.isfinite(v).all(1)]
        image = np.linalg.lstsq(np.c_[v, np.ones(len(v))], n, rcond=None)[0].T
        # a unit that never fires has no noise of its own: a small floor keeps the covariance invertible
        noise = np.cov((n - np.c_[v, np.ones(len(v))] @ image.T).T) + 1e-6 * np.eye(n.shape[1])
        gain = _steady_gain(transition, drift, image[:, :2], noise)
        values = (transition, image[:, :2], image[:, 2], gain)
        for name, value in zip(("transition", "image", "offset", "gain"), values, strict=True):
            getattr(self, name).data = torch.from_numpy(np.ascontiguousarray(value)).float()

    def decode_counts(self, counts: Tensor) -> Tensor:
        state, states = counts.new_zeros(len(counts), 2), []
        for n in counts.unbind(1):
            predicted = state @ self.transition.T
            state = predicted + (n - self.offset - predicted @ self.image.T) @ self.gain.T
            states.append(state)
        return torch.stack(states, 1)[:, :, None].expand(-1, -1, self.n_slots, -1)


def _steady_gain(transition, drift, image, noise, steps: int = 200) -> np.ndarray:
    """K = P H' (H P H' + Q)^-1 with the covariance P iterated to its limit."""
    covariance = np.eye(2)
    for _ in range(steps):
        predicted = transition @ covariance @ transition.T + drift
        gain = np.linalg.solve(image @ predicted @ image.T + noise, image @ predicted).T
        covariance = predicted - gain @ image @ predicted
    return gain
