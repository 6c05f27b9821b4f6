"""A recording prepared for training: spikes paired with behaviour, split, with the scale of behaviour."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import RecordingError
from ..recordings.batch import SpikeBatch
from ..recordings.data_report import check_decodable
from ..recordings.recording import Recording
from ..recordings.split import Split, SplitConfig, segments
from ..recordings.timeline import Timeline


@dataclass(frozen=True)
class Session:
    """A recording to train and test a model on, made by `prepare`."""

    timeline: Timeline  # spikes and behaviour on one clock
    split_config: SplitConfig  # how the recording was divided
    split: Split  # trials, or pieces of recorded time, of each part
    mean: np.ndarray  # of behaviour in the training part, (C,)
    std: np.ndarray
    index: int = 1  # of the session in the model, from 1
    first_unit: int = 1  # index of its first unit in the model, from 1

    @property
    def recording(self) -> Recording:
        return self.timeline.recording

    def segments(self, part: str) -> np.ndarray:
        """Start and stop of the continuous segments of a part, (n, 2): adjacent trials are joined."""
        return segments(getattr(self.split, part), gap_s=1e-3)

    def cut(self, starts, duration_s: float, keep_unit: np.ndarray | None = None) -> SpikeBatch:
        """`Timeline.cut`, with units numbered as in the model."""
        return self.timeline.cut(starts, duration_s, keep_unit).offset_units(self.first_unit)

    def first_trials(self, n: int) -> "Session":
        """The session with its first `n` training trials; other parts are the same. ValueError if it has fewer."""
        if not 1 <= n <= len(self.split.train):
            raise ValueError(
                f"n must lie in 1..{len(self.split.train)}, the trials of the training part, not {n}."
            )
        split = replace(self.split, train=self.split.train[:n])
        mean, std = _scale(self.timeline, split.train)
        return replace(self, split=split, mean=mean, std=std)


def prepare(
    recording: Recording,
    split: str | SplitConfig = "chronological",
    lag_s: float = 0.0,
    bin_width_s: float = 0.05,
    seed: int = 0,
) -> Session:
    """Pair behaviour with spikes, split, and take mean and standard deviation of behaviour from the training part.

    `lag_s` is behaviour minus spikes. For a `split` in words see `SplitConfig.parse`; `seed` is that of a random one.
    Trials shorter than a bin, or without a behaviour sample, are left out with a note. RecordingError if too little is
    left, or decoding it cannot mean anything.
    """
    if len(recording.behavior_times) == 0:
        raise RecordingError(
            "behavior_times is empty: spikes alone can be decoded, but not trained on."
        )
    config = SplitConfig.parse(split, seed) if isinstance(split, str) else split
    recording = _drop_short_trials(recording, bin_width_s)
    timeline = Timeline(recording, lag_s, bin_width_s)
    divided = config.apply(recording, bin_width_s)
    for name, part in vars(divided).items():
        n_samples = np.diff(np.searchsorted(timeline.times + timeline.lag_s, part)).sum()
        if n_samples < 2:
            raise RecordingError(
                f"the {name} part of split {config} is too short: {n_samples} samples of behaviour."
            )
    check_decodable(
        recording, {name: part - timeline.lag_s for name, part in vars(divided).items()}
    )
    return Session(timeline, config, divided, *_scale(timeline, divided.train))


def _drop_short_trials(recording: Recording, bin_width_s: float) -> Recording:
    """The recording, with a note if it lost trials. RecordingError if none is long enough."""
    clock = Timeline(recording, bin_width_s=bin_width_s).times
    n_samples = np.diff(np.searchsorted(clock, recording.trials))[:, 0]
    kept = (np.diff(recording.trials)[:, 0] >= bin_width_s * (1 - 1e-6)) & (n_samples > 0)
    if kept.all():
        return recording
    if not kept.any():
        raise RecordingError(
            f"trials must be at least a bin of {bin_width_s} s long: choose a smaller bin width."
        )
    note = f"{(~kept).sum()} of {len(kept)} trials shorter than a bin, or without a sample of behaviour, were left out."
    return replace(recording, trials=recording.trials[kept], notes=(*recording.notes, note))


def _scale(timeline: Timeline, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of behaviour in the training trials, (C,) each."""
    # a sample on the edge of a part is in the part that begins there, as in `Timeline.cut`, however it was rounded
    ranges = np.searchsorted(timeline.times + timeline.lag_s, train - 1e-6)
    behavior = np.concatenate([timeline.behavior[first:last] for first, last in ranges])
    varies = columns_that_vary(behavior)
    mean = behavior.mean(0)
    std = np.where(varies, behavior.std(0), 1.0)
    if (np.abs(mean) > 1e6 * std)[varies].any():  # float32 has seven digits
        raise RecordingError(
            "behaviour varies by less than a millionth of its mean: subtract a constant from it."
        )
    return mean, std


def columns_that_vary(behavior: np.ndarray) -> np.ndarray:
    """Which columns of (T, C) are not constant, (C,); rounding makes the deviation of a constant one tiny, not 0."""
    return (behavior != behavior[:1]).any(0)


def check_sessions(model, sessions: Sequence[Session]):
    """Raises ValueError for sessions that share an index, or have other units or columns than the model."""
    indices = [s.index for s in sessions]
    if len(set(indices)) < len(indices):
        raise ValueError(f"sessions must be from combine_sessions: their indices are {indices}.")
    n_sessions = len(model.behavior_mean) - 1
    n_outputs = model.behavior_mean.shape[1]
    n_units = model.config.n_units if hasattr(model, "config") else model.n_units
    for s in sessions:
        n_columns = s.recording.n_columns
        last = s.first_unit - 1 + s.recording.n_units
        if n_columns != n_outputs or last > n_units or (n_sessions == 1 and last != n_units):
            its = f"the session has units {s.first_unit}..{last} and {n_columns} columns"
            raise ValueError(f"the model has n_units {n_units} and n_outputs {n_outputs}, {its}.")
