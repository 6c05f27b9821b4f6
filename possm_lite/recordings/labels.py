"""Labels: behaviour that is one of a few classes, such as a choice, a target or a state.

A label of a trial becomes samples at regular times through it, so that windows, streaming and lags
treat it like any other behaviour. Missing labels are "", NaN and None.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import RecordingError, listed
from .recording import Recording

MOST_CLASSES = 100
CLASS_UNIT = "class"
_STEP_S = 0.02
_MISSING = ("", "nan", "NaN", "None")


def is_text(values: np.ndarray) -> bool:
    """Whether `values` are text or truth values, which are labels whatever they say."""
    return values.dtype.kind in "bOSU"


def encode_labels(values) -> tuple[np.ndarray, tuple[str, ...]]:
    """The class of each label, and the names of the classes, sorted.

    Args:
        values: text, truth values or numbers, (n,).

    Returns:
        Indices of classes, (n,), float64, NaN where the label is missing; and K names.
    """
    values = np.asarray(values)
    if is_text(values):
        values = np.char.strip(values.astype(str))
        missing = np.isin(values, _MISSING)
    else:
        missing = ~np.isfinite(values)
    found, index = np.unique(values[~missing], return_inverse=True)
    encoded = np.full(len(values), np.nan)
    encoded[~missing] = index.ravel()
    names = found.tolist() if found.dtype.kind == "U" else [f"{value:.10g}" for value in found]
    return encoded, tuple(names)


def are_few(values: np.ndarray) -> bool:
    """Whether `values`, numbers of trials, (n,), repeat as labels do: twice or more on average."""
    n = len(np.unique(values[np.isfinite(values)]))
    return n <= min(MOST_CLASSES, np.isfinite(values).sum() / 2)


def check_classes(name: str, classes: Sequence[str], n_trials: int | None = None):
    """Refuse labels from which nothing can be learned.

    Args:
        name: of the labels, for the message.
        classes: names of the K classes.
        n_trials: of trials that have a label; None: labels are not of trials.

    Raises:
        RecordingError: there is one class or none, there are too many, or as many as trials.
    """
    n = len(classes)
    if n < 2:
        only = f"one class alone, {classes[0]}" if n else "no label"
        raise RecordingError(f"{name} has {only}: there is nothing to tell apart.")
    if n == n_trials:
        raise RecordingError(
            f"{name} has a class for each of its {n:,} trials ({listed(classes)}): none repeats, "
            "so none can be learned."
        )
    if n > MOST_CLASSES:
        raise RecordingError(
            f"{name} has {n:,} classes ({listed(classes)}): at most {MOST_CLASSES} are decoded."
        )


def sample_trials(trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Regular times through each trial, from its start, 20 ms apart.

    Args:
        trials: start and stop, seconds, in order, (n, 2).

    Returns:
        Times, seconds, (T,), and the trial of each, (T,).
    """
    times = [np.arange(start, max(stop - 1e-6, start + 1e-9), _STEP_S) for start, stop in trials]
    trial = np.repeat(np.arange(len(trials)), [len(of_trial) for of_trial in times])
    return np.concatenate([np.empty(0), *times]), trial


def label_trials(recording: Recording, labels, name: str = "label") -> Recording:
    """A recording whose behaviour is the label of each trial.

    Args:
        recording: its spikes and trials are taken, its behaviour is not.
        labels: of the n trials: text, truth values or numbers, (n,). A trial whose label is missing
            is left out.
        name: of what is decoded.

    Raises:
        RecordingError: there is not one label for each trial, or `check_classes` refuses them.
    """
    index, classes = encode_labels(labels)
    if len(index) != len(recording.trials):
        raise RecordingError(
            f"{name} has {len(index)} labels for {len(recording.trials)} trials: one is needed for "
            "each."
        )
    known = np.isfinite(index)
    check_classes(name, classes, known.sum())
    times, trial = sample_trials(recording.trials[known])
    return replace(
        recording,
        behavior_times=times,
        behavior=index[known][trial],
        behavior_unit=CLASS_UNIT,
        behavior_name=name,
        behavior_columns=(name,),
        classes=classes,
        trials=recording.trials[known],
    )


def with_classes(recording: Recording, classes: Sequence[str]) -> Recording:
    """The same labels as indices in the classes of a decoder.

    Args:
        recording: with classes.
        classes: names of the decoder's classes, in its order.

    Raises:
        RecordingError: a class of the recording is not among them.
    """
    unknown = [name for name in recording.classes.tolist() if name not in classes]
    if unknown or not len(recording.classes):
        found = listed(recording.classes.tolist()) or "continuous behaviour"
        raise RecordingError(f"decoded is {found}, the decoder has the classes {listed(classes)}.")
    new = np.array([list(classes).index(name) for name in recording.classes.tolist()])
    behavior = new[recording.behavior.astype(int)]
    return replace(recording, behavior=behavior, classes=tuple(classes))
