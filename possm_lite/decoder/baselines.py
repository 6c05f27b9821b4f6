"""The decoders POSSM is compared with: networks, Wiener filter and Kalman filter on spike counts per bin.

They are called like POSSM, with a `SpikeBatch`, output times and session. A bin is divided into slots, one for each
behaviour sample it usually holds, and a decoder gives one sample per slot, used for all times in it. Counts enter as
square roots, which makes their variance nearly constant.
"""

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import RecordingError
from ..nn.recurrent import GRU
from ..recordings.batch import SpikeBatch
from .cells import Backbone, Linear, frozen
from .possm import check_arguments, query_bins
from .stream import checked_spikes


def bin_counts(batch: SpikeBatch, n_units: int) -> Tensor:
    """Spikes per bin and unit as (B, T, U), float32, zeros after the last bin of a shorter trial."""
    trial = torch.repeat_interleave(
        torch.arange(batch.n_trials, device=batch.bin.device), batch.n_bins
    )
    longest = int(batch.n_bins.max())
    slot = (
        trial * longest + torch.arange(len(trial), device=trial.device) - batch.first_bin()[trial]
    )
    flat = slot[batch.bin] * (n_units + 1) + batch.unit
    counts = torch.bincount(flat, minlength=batch.n_trials * longest * (n_units + 1))
    return counts.view(batch.n_trials, longest, n_units + 1)[
        ..., 1:
    ].float()  # without the blank token


def history(counts: Tensor, n_bins: int) -> Tensor:
    """Bins t - n_bins + 1 to t in row t: (B, T, U) to (B, T, n_bins * U), with zeros before the first bin."""
    padded = torch.cat([counts.new_zeros(len(counts), n_bins - 1, counts.shape[-1]), counts], 1)
    return padded.unfold(1, n_bins, 1).transpose(-1, -2).flatten(-2)


class BinnedDecoder(nn.Module):
    """Base class: U units, bins of `bin_width_s` seconds, `n_slots` samples of `n_outputs` columns per bin.

    `decode_counts` makes standardised behaviour (B, T, n_slots, C) of square-root counts (B, T, U).
    """

    def __init__(
        self, n_units: int, bin_width_s: float = 0.05, n_slots: int = 1, n_outputs: int = 2
    ):
        super().__init__()
        self.n_units, self.bin_width_s, self.n_slots, self.n_outputs = (
            n_units,
            bin_width_s,
            n_slots,
            n_outputs,
        )
        self.register_buffer(
            "behavior_mean", torch.zeros(2, n_outputs)
        )  # row 0: no session, as in POSSM
        self.register_buffer("behavior_std", torch.ones(2, n_outputs))

    @property
    def n_sessions(self) -> int:
        return len(self.behavior_mean) - 1

    def forward(self, batch: SpikeBatch, output_times_s: Tensor, session: Tensor) -> Tensor:
        """Behaviour at the output times, (B, Q, C): arguments and errors as of `POSSM.forward`."""
        check_arguments(self, batch, output_times_s, session)
        slots = self.decode_counts(bin_counts(batch, self.n_units).sqrt())  # (B, T, n_slots, C)
        slot = query_bins(
            output_times_s, self.bin_width_s / self.n_slots
        )  # (B, Q), counted through the trial
        standardized = slots.flatten(1, 2).gather(1, slot[..., None].expand(-1, -1, self.n_outputs))
        return (
            self.behavior_mean[session][:, None]
            + self.behavior_std[session][:, None] * standardized
        )


class BinnedMLP(BinnedDecoder):
    """A perceptron with one hidden layer over the last `n_history` bins."""

    def __init__(
        self,
        n_units,
        bin_width_s=0.05,
        n_slots=1,
        n_outputs=2,
        n_history: int = 10,
        hidden: int = 256,
    ):
        super().__init__(n_units, bin_width_s, n_slots, n_outputs)
        self.n_history = n_history
        self.expand = nn.Linear(n_history * n_units, hidden)
        self.readout = nn.Linear(hidden, n_outputs * n_slots)

    def decode_counts(self, counts: Tensor) -> Tensor:
        hidden = torch.relu(self.expand(history(counts, self.n_history)))
        return self.readout(hidden).unflatten(-1, (self.n_slots, self.n_outputs))


class BinnedGRU(BinnedDecoder):
    """A gated recurrent network over bins, by default with as many hidden units as a POSSM of default size."""

    def __init__(self, n_units, bin_width_s=0.05, n_slots=1, n_outputs=2, hidden: int = 256):
        super().__init__(n_units, bin_width_s, n_slots, n_outputs)
        self.backbone = GRU(n_units, hidden)
        self.readout = nn.Linear(hidden, n_outputs * n_slots)

    def decode_counts(self, counts: Tensor) -> Tensor:
        return self.readout(self.backbone(counts)[0]).unflatten(-1, (self.n_slots, self.n_outputs))


class WienerFilter(BinnedDecoder):
    """Ridge regression of behaviour on the square-root counts of the last m = `n_history` bins. Glaser et al. 2020.

    v_t = x_t W + c,  x_t = [n_{t-m+1}, ..., n_t];     W, c = argmin sum_t |v_t - x_t W - c|^2 + ridge |W|^2
    """

    def __init__(self, n_units, bin_width_s=0.05, n_slots=1, n_outputs=2, n_history: int = 10):
        super().__init__(n_units, bin_width_s, n_slots, n_outputs)
        self.n_history = n_history
        self.weight = nn.Parameter(
            torch.zeros(n_history * n_units, n_outputs * n_slots), requires_grad=False
        )
        self.offset = nn.Parameter(torch.zeros(n_outputs * n_slots), requires_grad=False)

    def decode_counts(self, counts: Tensor) -> Tensor:
        slots = history(counts, self.n_history) @ self.weight + self.offset
        return slots.unflatten(-1, (self.n_slots, self.n_outputs))

    def solve(
        self, counts: list[np.ndarray], behavior: list[np.ndarray], ridges
    ) -> list[tuple[Tensor, Tensor]]:
        """Weights and offset for each ridge, of (T, U) square-root counts and (T, n_slots, C) standardised behaviour.

        Behaviour is NaN where a slot has no sample. Bins without a sample in every slot are left out; where they are
        many, each slot is solved on the bins that it has.
        """
        x = np.concatenate(
            [history(torch.as_tensor(c)[None], self.n_history)[0].numpy() for c in counts]
        )
        y = np.concatenate([v.reshape(len(v), -1) for v in behavior])
        known = np.isfinite(y)
        ridges = tuple(ridges)
        one_sum = known.all(1).sum() >= 0.9 * known.any(1).sum()  # over time, for all slots
        groups = np.split(
            np.arange(y.shape[1]), 1 if one_sum else self.n_slots
        )  # columns that are solved together
        weights = np.empty((len(ridges), x.shape[1], y.shape[1]))
        offsets = np.empty((len(ridges), y.shape[1]))
        for columns in groups:
            rows = known[:, columns].all(1)
            if not rows.any():
                raise RecordingError(
                    "behaviour has no sample in one of the slots of a bin: choose another bin width."
                )
            x_known = x[rows].astype(np.float64)
            y_known = y[rows][:, columns]
            x_mean = x_known.mean(0)
            y_mean = y_known.mean(0)
            x_known -= x_mean
            gram = x_known.T @ x_known
            cross = x_known.T @ (y_known - y_mean)
            for i, ridge in enumerate(ridges):
                weight = np.linalg.solve(gram + ridge * np.eye(len(gram)), cross)
                weights[i][:, columns] = weight
                offsets[i][columns] = y_mean - x_mean @ weight
        return list(
            zip(torch.from_numpy(weights).float(), torch.from_numpy(offsets).float(), strict=True)
        )


class KalmanFilter(BinnedDecoder):
    """Behaviour as a hidden state that drifts, square-root counts as its noisy linear observation. Wu et al. 2006.

        v_t = A v_{t-1} + w,  w ~ N(0, W);     n_t = H v_t + b + q,  q ~ N(0, Q)

    The gain converges within seconds, so its limit is used throughout. All slots of a bin get the bin's value.
    """

    def __init__(self, n_units, bin_width_s=0.05, n_slots=1, n_outputs=2):
        super().__init__(n_units, bin_width_s, n_slots, n_outputs)
        self.transition = nn.Parameter(torch.eye(n_outputs), requires_grad=False)  # A
        self.observation = nn.Parameter(torch.zeros(n_units, n_outputs), requires_grad=False)  # H
        self.offset = nn.Parameter(torch.zeros(n_units), requires_grad=False)  # b
        self.gain = nn.Parameter(torch.zeros(n_outputs, n_units), requires_grad=False)  # K

    def solve(self, counts: list[np.ndarray], behavior: list[np.ndarray]):
        """Maximum likelihood on (T, U) square-root counts and (T, n_slots, C) standardised behaviour, by segment."""
        n_known = [np.isfinite(x).sum(1) for x in behavior]  # samples of a bin, which may have none
        v = [
            np.nansum(x, 1) / np.where(n > 0, n, np.nan)
            for x, n in zip(behavior, n_known, strict=True)
        ]
        before = np.concatenate([x[:-1] for x in v])
        now = np.concatenate([x[1:] for x in v])
        transition, drift = _linear_model(before, now)
        v = np.concatenate(v)
        weight, noise = _linear_model(np.c_[v, np.ones(len(v))], np.concatenate(counts))
        h, b = weight[:, :-1], weight[:, -1]
        # a unit that never fires has no noise: a small floor keeps the covariance invertible
        information = np.linalg.solve(noise + 1e-6 * np.eye(len(noise)), h).T  # H^T Q^-1
        # the posterior covariance P to its limit: P = (I + M H^T Q^-1 H)^-1 M with M = A P A^T + W
        covariance = np.eye(self.n_outputs)
        for _ in range(200):
            predicted = transition @ covariance @ transition.T + drift
            covariance = np.linalg.solve(
                np.eye(self.n_outputs) + predicted @ information @ h, predicted
            )
        solution = {
            "transition": transition,
            "observation": h,
            "offset": b,
            "gain": covariance @ information,
        }
        self.load_state_dict(
            {name: torch.from_numpy(x) for name, x in solution.items()}, strict=False
        )

    def decode_counts(self, counts: Tensor) -> Tensor:
        state = counts.new_zeros(len(counts), self.n_outputs)
        states = []
        for n in counts.unbind(1):
            predicted = state @ self.transition.T
            state = predicted + (n - self.offset - predicted @ self.observation.T) @ self.gain.T
            states.append(state)
        return torch.stack(states, 1)[:, :, None].expand(-1, -1, self.n_slots, -1)


def _linear_model(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A and the covariance of the noise in y = A x + noise, from rows (n, X) and (n, Y) but for those with a NaN."""
    known = np.isfinite(x).all(1) & np.isfinite(y).all(1)
    x, y = x[known], y[known]
    weight = np.linalg.lstsq(x, y, rcond=None)[0].T
    return weight, np.atleast_2d(np.cov((y - x @ weight.T).T))


class _History:
    """A cell whose output is the counts of the last bins, oldest first."""

    def __init__(self, size: int):
        self.start = np.zeros(size, np.float32)

    def step(self, counts, history):
        history = np.concatenate([history[len(counts) :], counts])
        return history, history


class BinnedStream:
    """A `WienerFilter` or a `BinnedGRU`, one bin at a time, in NumPy."""

    def __init__(self, model: WienerFilter | BinnedGRU):
        model = frozen(model)
        if isinstance(model, WienerFilter):
            self._cell = _History(len(model.weight))
            weight, bias = model.weight.T, model.offset
        else:
            self._cell = Backbone("gru", model.backbone, np.float32)
            weight, bias = model.readout.weight, model.readout.bias
        mean = model.behavior_mean[1].repeat(model.n_slots)
        std = model.behavior_std[1].repeat(model.n_slots)
        self.readout = Linear(np.float32, std[:, None] * weight, std * bias + mean)
        self._sizes = model.n_units, model.bin_width_s
        self._slots_s = np.arange(model.n_slots) * (model.bin_width_s / model.n_slots)
        self.reset()

    def reset(self):
        """Back to before the first bin."""
        self._n_bins = 0
        self._state = self._cell.start

    def step(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """As `StreamingDecoder.step`: times of the slots, (n_slots,), and behaviour there, (n_slots, C)."""
        n_units, width_s = self._sizes
        units, _ = checked_spikes(units, offsets, n_units, width_s)
        counts = np.bincount(units, minlength=n_units + 1)[1:]
        output, self._state = self._cell.step(np.sqrt(counts, dtype=np.float32), self._state)
        times = self._n_bins * width_s + self._slots_s
        self._n_bins += 1
        return times, self.readout(output).reshape(len(times), -1)
