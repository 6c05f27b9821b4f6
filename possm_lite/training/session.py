"""A recording prepared for training: spikes paired with behaviour, split, with its scale."""

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
    """A recording to train and test a model on, made by `prepare`.

    Attributes:
        timeline: spikes and behaviour on one clock.
        split_config: how the recording was divided.
        split: trials, or pieces of recorded time, of each part; start and stop in s, (n, 2).
        mean: mean of behaviour in the training part, in the unit of the recording, (C,); of labels
            0 for each class, (K,).
        std: standard deviation of behaviour likewise, (C,); 1 for a constant column or a class.
        index: index of the session in the model, from 1.
        first_unit: index of its first unit in the model, from 1.
    """

    timeline: Timeline
    split_config: SplitConfig
    split: Split
    mean: np.ndarray
    std: np.ndarray
    index: int = 1
    first_unit: int = 1

    @property
    def recording(self) -> Recording:
        """The recording, without trials that are too short to decode."""
        return self.timeline.recording

    def segments(self, part: str) -> np.ndarray:
        """Start and stop of the continuous segments of a part: adjacent trials are joined.

        Where there is one label a trial, each trial is a segment, in which a decoder begins anew.

        Args:
            part: "train", "valid" or "test".

        Returns:
            Seconds on the clock of behaviour, (n, 2).
        """
        pieces = getattr(self.split, part)
        is_by_trial = self.recording.trial_labels is not None and len(self.recording.trials) >= 3
        return pieces if is_by_trial else segments(pieces, gap_s=1e-3)

    def cut(self, starts, duration_s: float, keep_unit: np.ndarray | None = None) -> SpikeBatch:
        """Windows of one length as by `Timeline.cut`, with units numbered as in the model.

        Args:
            starts: starts of the windows, seconds on the clock of behaviour, (B,) or a number.
            duration_s: length of each window, seconds.
            keep_unit: False where the spikes of a unit are dropped from a window, (B, U), bool;
                None: all are kept.

        Returns:
            Spikes and behaviour of B windows.
        """
        return self.timeline.cut(starts, duration_s, keep_unit).offset_units(self.first_unit)

    def labels(self, part: str) -> np.ndarray:
        """The labels at the samples of a part, as places in the classes of the recording.

        Args:
            part: "train", "valid" or "test".

        Returns:
            Whole numbers, (n,).
        """
        return _behavior_in(self.timeline, getattr(self.split, part))[:, 0].astype(int)

    def first_trials(self, n: int) -> "Session":
        """The session with fewer training trials and their scale; the other parts are the same.

        Args:
            n: number of training trials to keep, the first ones.

        Returns:
            A session with `n` trials in its training part.

        Raises:
            ValueError: the training part has fewer trials than `n`, or `n` is below 1.
        """
        if not 1 <= n <= len(self.split.train):
            raise ValueError(
                f"n must lie in 1..{len(self.split.train)}, the trials of the training part, "
                f"not {n}."
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
    """Pair behaviour with spikes, split, and take the scale of behaviour from the training part.

    Trials shorter than a bin, or without a behaviour sample, are left out with a note.

    Args:
        recording: spikes and behaviour.
        split: how to divide the recording; in words, see `SplitConfig.parse`.
        lag_s: behaviour minus spikes, seconds: behaviour at t is paired with spikes at t - lag.
        bin_width_s: width of a bin of spikes, seconds.
        seed: of a random split in words.

    Returns:
        A session to train and test one model on, alone or after `combine_sessions`.

    Raises:
        RecordingError: too little is left to train and test on, or decoding it cannot mean
            anything.
        ValueError: the split is unknown, or the bin width is not positive.
    """
    if len(recording.behavior_times) == 0:
        raise RecordingError(
            "behavior_times is empty: spikes alone can be decoded, but not trained on."
        )
    config = SplitConfig.parse(split, seed) if isinstance(split, str) else split
    recording = _drop_short_trials(recording, bin_width_s)
    timeline = Timeline(recording, lag_s, bin_width_s)
    divided = config.apply(recording, bin_width_s)
    parts = vars(divided)  # train, valid, test: (n, 2) each
    for name, part in parts.items():
        n_samples = np.diff(np.searchsorted(timeline.times + timeline.lag_s, part)).sum()
        if n_samples < 2:
            raise RecordingError(
                f"the {name} part of split {config} is too short: {n_samples} samples of behaviour."
            )
    of_spikes = {name: part - timeline.lag_s for name, part in parts.items()}
    check_decodable(recording, of_spikes)
    mean, std = _scale(timeline, divided.train)
    return Session(timeline, config, divided, mean, std)


def _drop_short_trials(recording: Recording, bin_width_s: float) -> Recording:
    """The recording, with a note if it lost trials. RecordingError if none is long enough."""
    clock = Timeline(recording, bin_width_s=bin_width_s).times
    n_samples = np.diff(np.searchsorted(clock, recording.trials))[:, 0]
    is_long_enough = np.diff(recording.trials)[:, 0] >= bin_width_s * (1 - 1e-6)
    kept = is_long_enough & (n_samples > 0)
    if kept.all():
        return recording
    if not kept.any():
        raise RecordingError(
            f"trials must be at least a bin of {bin_width_s} s long: choose a smaller bin width."
        )
    note = (
        f"{(~kept).sum()} of {len(kept)} trials shorter than a bin, or without a sample of "
        "behaviour, were left out."
    )
    return replace(recording, trials=recording.trials[kept], notes=(*recording.notes, note))


def _scale(timeline: Timeline, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of behaviour in the training trials, (C,) or (K,) each."""
    behavior = _behavior_in(timeline, train)
    if n_classes := len(timeline.recording.classes):
        if (behavior == behavior[0]).all():
            only = timeline.recording.classes[int(behavior[0, 0])]
            raise RecordingError(f"the training part has one class alone, {only}.")
        return np.zeros(n_classes), np.ones(n_classes)
    varies = columns_that_vary(behavior)
    mean = behavior.mean(0)
    std = np.where(varies, behavior.std(0), 1.0)
    if (np.abs(mean) > 1e6 * std)[varies].any():  # float32 has seven digits
        raise RecordingError(
            "behaviour varies by less than a millionth of its mean: subtract a constant from it."
        )
    return mean, std


def _behavior_in(timeline: Timeline, part: np.ndarray) -> np.ndarray:
    """The samples of behaviour in a part, (n, 2) s, of a session, (T, C)."""
    # a sample on the edge of a part is in the part that begins there, as in `Timeline.cut`,
    # however it was rounded
    ranges = np.searchsorted(timeline.times + timeline.lag_s, part - 1e-6)
    return np.concatenate([timeline.behavior[first:last] for first, last in ranges])


def columns_that_vary(behavior: np.ndarray) -> np.ndarray:
    """Which columns of behaviour are not constant.

    Their values are compared: rounding makes the deviation of a constant column tiny, not 0.

    Args:
        behavior: samples of behaviour, (T, C).

    Returns:
        True for each column that varies, (C,).
    """
    return (behavior != behavior[:1]).any(0)


def decodes_classes(model) -> bool:
    """Whether a `model`, a POSSM or a decoder of `decoder.baselines`, gives logits of classes."""
    return getattr(getattr(model, "config", model), "decodes", "continuous") == "classes"


def check_sessions(model, sessions: Sequence[Session]):
    """Check that sessions can be decoded by one model.

    Args:
        model: a POSSM, or a decoder of `decoder.baselines`.
        sessions: from `prepare`, or several from `combine_sessions`.

    Raises:
        ValueError: two sessions share an index, or one has other units, columns or classes than the
            model.
    """
    indices = [s.index for s in sessions]
    if len(set(indices)) < len(indices):
        raise ValueError(f"sessions must be from combine_sessions: their indices are {indices}.")
    n_sessions = len(model.behavior_mean) - 1
    n_outputs = model.behavior_mean.shape[1]
    n_units = model.config.n_units if hasattr(model, "config") else model.n_units
    for s in sessions:
        n_columns = len(s.recording.outputs)
        if decodes_classes(model) != (len(s.recording.classes) > 0):
            raise ValueError("either the model decodes classes, or the session holds them.")
        last = s.first_unit - 1 + s.recording.n_units
        has_its_units = last == n_units if n_sessions == 1 else last <= n_units
        if n_columns != n_outputs or not has_its_units:
            its = f"the session has units {s.first_unit}..{last} and {n_columns} columns"
            raise ValueError(f"the model has n_units {n_units} and n_outputs {n_outputs}, {its}.")
