"""The decoders POSSM is compared with: networks, Wiener filter and Kalman filter on spike counts.

They are called like POSSM, with a `SpikeBatch`, output times and session. A bin is divided into
slots, one for each behaviour sample it usually holds, and a decoder gives one sample per slot, used
for all times in it. Counts enter as square roots, which makes their variance nearly constant.
"""

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import RecordingError
from ..nn.recurrent import GRU
from ..recordings.batch import SpikeBatch
from .cells import Backbone, GRUCell, Linear, frozen
from .possm import check_arguments, query_bins
from .stream import checked_spikes, softmax


def bin_counts(batch: SpikeBatch, n_units: int) -> Tensor:
    """Spikes per bin and unit.

    Args:
        batch: spikes of B trials, the longest of T bins.
        n_units: U, units of the decoder.

    Returns:
        Counts, float32, shape (B, T, U), zeros after the last bin of a shorter trial.
    """
    device = batch.bin.device
    trial = torch.repeat_interleave(torch.arange(batch.n_trials, device=device), batch.n_bins)
    n_bins = int(batch.n_bins.max())
    n_columns = n_units + 1  # with the blank token
    number = torch.arange(len(trial), device=device) - batch.first_bin()[trial]  # in its trial
    row = trial * n_bins + number  # of each bin
    flat = row[batch.bin] * n_columns + batch.unit
    counts = torch.bincount(flat, minlength=batch.n_trials * n_bins * n_columns)
    counts = counts.view(batch.n_trials, n_bins, n_columns)
    return counts[..., 1:].float()


def history(counts: Tensor, n_bins: int) -> Tensor:
    """The last bins before and at each bin, side by side.

    Args:
        counts: shape (B, T, U).
        n_bins: how many bins, the current one among them.

    Returns:
        Bins t - n_bins + 1 to t in row t, shape (B, T, n_bins * U), zeros before the first bin.
    """
    before = counts.new_zeros(len(counts), n_bins - 1, counts.shape[-1])
    padded = torch.cat([before, counts], 1)
    windows = padded.unfold(1, n_bins, 1)  # (B, T, U, n_bins)
    return windows.transpose(-1, -2).flatten(-2)


class BinnedDecoder(nn.Module):
    """Base class of the decoders of binned counts.

    A subclass has `decode_counts`, which makes standardised behaviour, or logits of classes,
    (B, T, n_slots, C) of square-root counts (B, T, U).

    Args:
        n_units: U, units.
        bin_width_s: width of a bin, s.
        n_slots: samples of behaviour per bin.
        n_outputs: C, columns of behaviour, or classes.

    Attributes:
        decodes: as of `POSSMConfig`.
        behavior_mean: shape (2, C), row 0 of no session, as in POSSM, in the recording's unit.
        behavior_std: likewise; behaviour = mean + std * standardised behaviour.
    """

    decodes = "continuous"

    def __init__(
        self, n_units: int, bin_width_s: float = 0.05, n_slots: int = 1, n_outputs: int = 2
    ):
        super().__init__()
        self.n_units = n_units
        self.bin_width_s = bin_width_s
        self.n_slots = n_slots
        self.n_outputs = n_outputs
        self.register_buffer("behavior_mean", torch.zeros(2, n_outputs))
        self.register_buffer("behavior_std", torch.ones(2, n_outputs))

    @property
    def n_sessions(self) -> int:
        """How many sessions the decoder has: 1."""
        return len(self.behavior_mean) - 1

    def forward(self, batch: SpikeBatch, output_times_s: Tensor, session: Tensor) -> Tensor:
        """Behaviour at the output times.

        Args:
            batch: spikes of B trials.
            output_times_s: s since the start of each trial, inside it, float64, shape (B, Q).
            session: 1 for each trial, shape (B,).

        Returns:
            Behaviour in the unit of the recording, shape (B, Q, C).

        Raises:
            ValueError: the arguments do not fit each other or the decoder.
        """
        check_arguments(self, batch, output_times_s, session)
        slots = self.decode_counts(bin_counts(batch, self.n_units).sqrt())  # (B, T, n_slots, C)
        # the slots of a trial are counted through it: (B, Q)
        slot = query_bins(output_times_s, self.bin_width_s / self.n_slots)
        index = slot[..., None].expand(-1, -1, self.n_outputs)
        standardized = slots.flatten(1, 2).gather(1, index)
        mean = self.behavior_mean[session][:, None]  # (B, 1, C)
        std = self.behavior_std[session][:, None]
        return mean + std * standardized


class BinnedMLP(BinnedDecoder):
    """A perceptron with one hidden layer over the last bins.

    Args:
        n_units: as of `BinnedDecoder`, with bin_width_s, n_slots and n_outputs.
        bin_width_s: s.
        n_slots: samples per bin.
        n_outputs: C.
        n_history: bins that are read, the current one among them.
        hidden: units of the hidden layer.
    """

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
    """A gated recurrent network over bins.

    Args:
        n_units: as of `BinnedDecoder`, with bin_width_s, n_slots and n_outputs.
        bin_width_s: s.
        n_slots: samples per bin.
        n_outputs: C.
        hidden: units of the network, by default as many as of a POSSM of default size.
        decodes: as of `POSSMConfig`.
    """

    def __init__(
        self,
        n_units,
        bin_width_s=0.05,
        n_slots=1,
        n_outputs=2,
        hidden: int = 256,
        decodes: str = "continuous",
    ):
        super().__init__(n_units, bin_width_s, n_slots, n_outputs)
        self.decodes = decodes
        self.backbone = GRU(n_units, hidden)
        self.readout = nn.Linear(hidden, n_outputs * n_slots)

    def decode_counts(self, counts: Tensor) -> Tensor:
        hidden, _ = self.backbone(counts)
        return self.readout(hidden).unflatten(-1, (self.n_slots, self.n_outputs))


class WienerFilter(BinnedDecoder):
    """Ridge regression of behaviour on the square-root counts of the last m = `n_history` bins.

        v_t = x_t W + c,   x_t = [n_{t-m+1}, ..., n_t]
        W, c = argmin sum_t |v_t - x_t W - c|^2 + ridge |W|^2

    Args:
        n_units: as of `BinnedDecoder`, with bin_width_s, n_slots and n_outputs.
        bin_width_s: s.
        n_slots: samples per bin.
        n_outputs: C.
        n_history: m, bins that are read, the current one among them.

    Attributes:
        weight: W, shape (m U, n_slots C), zeros until it is solved for.
        offset: c, shape (n_slots C,).

    Source: Glaser et al. 2020.
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
        """Weights and offsets, for each of several ridges.

        Bins without a sample in every slot are left out; where they are many, each slot is solved
        on the bins that it has.

        Args:
            counts: square-root counts of each segment, shape (T, U) each.
            behavior: standardised behaviour of each segment, shape (T, n_slots, C) each, NaN where
                a slot has no sample.
            ridges: the penalties.

        Returns:
            `weight` and `offset` for each ridge, float32; the decoder itself is not changed.

        Raises:
            RecordingError: a slot has no sample at all.
        """
        rows = [history(torch.as_tensor(n)[None], self.n_history)[0].numpy() for n in counts]
        x = np.concatenate(rows)
        y = np.concatenate([v.reshape(len(v), -1) for v in behavior])
        known = np.isfinite(y)
        ridges = tuple(ridges)
        weights = np.empty((len(ridges), x.shape[1], y.shape[1]))
        offsets = np.empty((len(ridges), y.shape[1]))
        for columns in self._solved_together(known):
            is_known = known[:, columns].all(1)
            if not is_known.any():
                raise RecordingError(
                    "behaviour has no sample in one of the slots of a bin: "
                    "choose another bin width."
                )
            x_known = x[is_known].astype(np.float64)
            y_known = y[is_known][:, columns]
            solutions = _ridge_regressions(x_known, y_known, ridges)
            for i, (weight, offset) in enumerate(solutions):
                weights[i][:, columns] = weight
                offsets[i][columns] = offset
        weights = torch.from_numpy(weights).float()
        offsets = torch.from_numpy(offsets).float()
        return list(zip(weights, offsets, strict=True))

    def _solved_together(self, known: np.ndarray) -> list[np.ndarray]:
        """Columns of `known` (T, n_slots C) in groups, each solved on the bins that it has.

        One group needs one sum over time for all slots; it loses the bins that lack a slot.
        """
        columns = np.arange(known.shape[1])
        few_are_lost = known.all(1).sum() >= 0.9 * known.any(1).sum()
        return np.split(columns, 1 if few_are_lost else self.n_slots)


class LogisticRegression(WienerFilter):
    """Multinomial logistic regression on the square-root counts of the last m = `n_history` bins.

        p_t = softmax(x_t W + c),   x_t as of `WienerFilter`
        W, c = argmin mean_t w_t (-log p_t[y_t]) + penalty |W|^2 / 2

    The arguments are those of `WienerFilter`, with `n_outputs` classes.
    """

    decodes = "classes"

    def solve(
        self, counts: list[np.ndarray], labels: np.ndarray, weights: np.ndarray, penalties
    ) -> list[tuple[Tensor, Tensor]]:
        """Weights and offsets, for each of several penalties, by L-BFGS.

        Args:
            counts: square-root counts of each segment, shape (T, U) each.
            labels: y, the class of each bin of all segments, -1 where it has none, shape (n,).
            weights: w, of each bin, shape (n,).
            penalties: from large to small: each begins where the last one ended.

        Returns:
            `weight` and `offset` for each penalty; the decoder itself is not changed.
        """
        rows = [history(torch.as_tensor(n)[None], self.n_history)[0] for n in counts]
        known = torch.as_tensor(labels >= 0)
        x = torch.cat(rows)[known]
        y = torch.as_tensor(labels)[known]
        w = torch.as_tensor(weights, dtype=torch.float32)[known]
        weight = torch.zeros_like(self.weight, requires_grad=True)
        offset = torch.zeros_like(self.offset, requires_grad=True)
        solutions = []
        for penalty in penalties:
            solver = torch.optim.LBFGS(
                [weight, offset], max_iter=30, line_search_fn="strong_wolfe", tolerance_change=1e-6
            )

            def closure(solver=solver, penalty=penalty):
                solver.zero_grad()
                error = nn.functional.cross_entropy(x @ weight + offset, y, reduction="none")
                loss = (w * error).mean() + penalty / 2 * weight.square().sum()
                loss.backward()
                return loss

            solver.step(closure)
            solutions.append((weight.detach().clone(), offset.detach().clone()))
        return solutions


class KalmanFilter(BinnedDecoder):
    """Behaviour as a hidden state that drifts, square-root counts as its noisy linear observation.

        v_t = A v_{t-1} + w,  w ~ N(0, W);     n_t = H v_t + b + q,  q ~ N(0, Q)

    The gain converges within seconds, so its limit is used throughout. All slots of a bin get the
    bin's value.

    Args:
        n_units: as of `BinnedDecoder`, with bin_width_s, n_slots and n_outputs.
        bin_width_s: s.
        n_slots: samples per bin.
        n_outputs: C.

    Attributes:
        transition: A, shape (C, C).
        observation: H, shape (U, C).
        offset: b, shape (U,).
        gain: K, shape (C, U), its limit.

    Source: Wu et al. 2006.
    """

    def __init__(self, n_units, bin_width_s=0.05, n_slots=1, n_outputs=2):
        super().__init__(n_units, bin_width_s, n_slots, n_outputs)
        self.transition = nn.Parameter(torch.eye(n_outputs), requires_grad=False)  # A
        self.observation = nn.Parameter(torch.zeros(n_units, n_outputs), requires_grad=False)  # H
        self.offset = nn.Parameter(torch.zeros(n_units), requires_grad=False)  # b
        self.gain = nn.Parameter(torch.zeros(n_outputs, n_units), requires_grad=False)  # K

    def solve(self, counts: list[np.ndarray], behavior: list[np.ndarray]):
        """Sets the parameters to those of maximum likelihood.

        Args:
            counts: square-root counts of each segment, shape (T, U) each.
            behavior: standardised behaviour of each segment, shape (T, n_slots, C) each, NaN where
                a slot has no sample.
        """
        velocity = [_mean_of_slots(v) for v in behavior]
        before = np.concatenate([v[:-1] for v in velocity])
        now = np.concatenate([v[1:] for v in velocity])
        transition, drift = _linear_model(before, now)  # A and W
        v = np.concatenate(velocity)
        with_one = np.column_stack([v, np.ones(len(v))])
        weight, noise = _linear_model(with_one, np.concatenate(counts))
        observation, offset = weight[:, :-1], weight[:, -1]  # H and b
        solution = {
            "transition": transition,
            "observation": observation,
            "offset": offset,
            "gain": _steady_gain(transition, drift, observation, noise),
        }
        arrays = {name: torch.from_numpy(x) for name, x in solution.items()}
        self.load_state_dict(arrays, strict=False)

    def decode_counts(self, counts: Tensor) -> Tensor:
        state = counts.new_zeros(len(counts), self.n_outputs)
        states = []
        for n in counts.unbind(1):
            predicted = state @ self.transition.T
            surprise = n - self.offset - predicted @ self.observation.T
            state = predicted + surprise @ self.gain.T
            states.append(state)
        return torch.stack(states, 1)[:, :, None].expand(-1, -1, self.n_slots, -1)


def _ridge_regressions(
    x: np.ndarray, y: np.ndarray, ridges: tuple[float, ...]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weight (X, Y) and offset (Y,) for each ridge, of x (n, X), which is centred, and y (n, Y)."""
    x_mean, y_mean = x.mean(0), y.mean(0)
    x -= x_mean
    gram = x.T @ x
    cross = x.T @ (y - y_mean)
    solutions = []
    for ridge in ridges:
        weight = np.linalg.solve(gram + ridge * np.eye(len(gram)), cross)
        solutions.append((weight, y_mean - x_mean @ weight))
    return solutions


def _mean_of_slots(behavior: np.ndarray) -> np.ndarray:
    """The mean over the slots that have a sample, (T, n_slots, C) to (T, C); NaN where none has."""
    n_known = np.isfinite(behavior).sum(1)
    return np.nansum(behavior, 1) / np.where(n_known > 0, n_known, np.nan)


def _linear_model(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A and the covariance of the noise in y = A x + noise, from those rows that have no NaN."""
    known = np.isfinite(x).all(1) & np.isfinite(y).all(1)
    x, y = x[known], y[known]
    weight = np.linalg.lstsq(x, y, rcond=None)[0].T
    residual = y - x @ weight.T
    return weight, np.atleast_2d(np.cov(residual.T))


def _steady_gain(
    transition: np.ndarray, drift: np.ndarray, observation: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """The limit of the Kalman gain, K = P H^T Q^-1, (C, U), of A, W, H and Q.

    The posterior covariance P to its limit: P = (I + M H^T Q^-1 H)^-1 M with M = A P A^T + W.
    """
    # a unit that never fires has no noise: a small floor keeps the covariance invertible
    floored = noise + 1e-6 * np.eye(len(noise))
    information = np.linalg.solve(floored, observation).T  # H^T Q^-1
    identity = np.eye(len(transition))
    covariance = identity
    for _ in range(200):
        predicted = transition @ covariance @ transition.T + drift
        covariance = np.linalg.solve(identity + predicted @ information @ observation, predicted)
    return covariance @ information


class _History:
    """A cell whose output is the counts of the last bins, oldest first."""

    def __init__(self, size: int):
        self.start = np.zeros(size, np.float32)

    def step(self, counts, history):
        history = np.concatenate([history[len(counts) :], counts])
        return history, history


class BinnedStream:
    """A `WienerFilter` or a `BinnedGRU`, one bin at a time, in NumPy.

    Args:
        model: the decoder, whose weights are copied.

    Attributes:
        readout: a `Linear` to the behaviour of all slots of a bin, in the unit of the recording, or
            to logits.
    """

    def __init__(self, model: WienerFilter | BinnedGRU):
        model = frozen(model)
        if isinstance(model, WienerFilter):
            self._cell = _History(len(model.weight))
            weight, bias = model.weight.T, model.offset
        else:
            self._cell = Backbone(GRUCell, model.backbone, np.float32)
            weight, bias = model.readout.weight, model.readout.bias
        mean = model.behavior_mean[1].repeat(model.n_slots)
        std = model.behavior_std[1].repeat(model.n_slots)
        self.readout = Linear(np.float32, std[:, None] * weight, std * bias + mean)
        self._decodes = model.decodes
        self._n_units = model.n_units
        self._bin_width_s = model.bin_width_s
        self._slots_s = np.arange(model.n_slots) * (model.bin_width_s / model.n_slots)
        self.reset()

    def reset(self):
        """Back to before the first bin."""
        self._n_bins = 0
        self._state = self._cell.start

    def step(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Decodes one bin, as `StreamingDecoder.step`.

        Args:
            units: the unit of each spike of the bin, from 1, shape (n,), in any order.
            offsets: when each spike occurred, s since the bin began, shape (n,).

        Returns:
            Times of the slots, s since the first bin began, shape (n_slots,), and behaviour there,
            in the unit of the recording, shape (n_slots, C).

        Raises:
            ValueError: spikes that do not fit; the decoder is then as it was before the call.
        """
        units, _ = checked_spikes(units, offsets, self._n_units, self._bin_width_s)
        counts = np.bincount(units, minlength=self._n_units + 1)[1:]
        output, self._state = self._cell.step(np.sqrt(counts, dtype=np.float32), self._state)
        times = self._n_bins * self._bin_width_s + self._slots_s
        self._n_bins += 1
        decoded = self.readout(output).reshape(len(times), -1)
        return times, softmax(decoded) if self._decodes == "classes" else decoded
