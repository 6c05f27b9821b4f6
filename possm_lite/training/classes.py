"""Decoded classes and their scores: balanced accuracy, chance, log loss, and when it is known.

Chance is what the same output scores when labels are shuffled, not 1 / K. Averages over trials come
with the spread of a bootstrap that draws trials.
"""

from dataclasses import dataclass, replace

import numpy as np

from .evaluate import Decoded, evaluate
from .session import Session

# of `FitConfig` for classes: labels are few, and known by heart where most units are shown or steps
# are large. The best of `python -m experiments.benchmarks classes` on the simulated session
CLASS_SETTINGS = {"lr": 1e-3, "unit_dropout": 0.5}
_BLOCK_S = 10.0  # that a bootstrap draws where there are no trials
_N_DRAWS = 1000  # of bootstrap and shuffles


def class_weights(counts: np.ndarray) -> np.ndarray:
    """Weights that give each class the same share of the loss.

        w_k = n / (K n_k)

    Args:
        counts: n_k, samples of each class in the training part, (K,).

    Returns:
        Weights, (K,); 0 for a class without a sample, and K is that of the others.
    """
    n_classes = np.count_nonzero(counts)
    return np.where(counts > 0, counts.sum() / (n_classes * np.maximum(counts, 1)), 0.0)


def class_counts(session: Session, part: str = "train") -> np.ndarray:
    """Samples of each class in a part of a session.

    Args:
        session: of labels.
        part: "train", "valid" or "test".

    Returns:
        Numbers of samples, (K,).
    """
    return np.bincount(session.labels(part), minlength=len(session.recording.classes))


@dataclass(frozen=True)
class DecodedClasses:
    """True and decoded classes at the same times, T samples of K classes.

    Attributes:
        times_s: times on the clock of behaviour, seconds, rising, (T,).
        true: places of the true classes in `classes`, (T,), int64.
        probabilities: output of the decoder, (T, K).
        trials: start and stop of the tested trials, seconds, (n, 2); of a recording without trials
            blocks of ten seconds.
        classes: names of the classes, (K,).
        labels: places of the classes of the trials, (n,), where there is one label a trial; else
            None.
    """

    times_s: np.ndarray
    true: np.ndarray
    probabilities: np.ndarray
    trials: np.ndarray
    classes: np.ndarray
    labels: np.ndarray | None = None

    @classmethod
    def of(cls, output: Decoded, session: Session, part: str = "test") -> "DecodedClasses":
        """The output of a decoder of classes.

        Args:
            output: of `evaluate` or `replay`.
            session: that was decoded.
            part: that was decoded.
        """
        recording = session.recording
        trials, labels = getattr(session.split, part), recording.trial_labels
        if labels is not None:
            labels = labels[np.searchsorted(recording.trials[:, 0], trials[:, 0])]
        if len(recording.trials) < 3:
            labels = None
            edges = [np.append(np.arange(a, b - _BLOCK_S / 2, _BLOCK_S), b) for a, b in trials]
            blocks = [np.column_stack([edge[:-1], edge[1:]]) for edge in edges]
            trials = np.concatenate([np.empty((0, 2)), *blocks])
        true = output.true[:, 0].astype(np.int64)
        return cls(output.times_s, true, output.decoded, trials, recording.classes, labels)

    @property
    def decoded(self) -> np.ndarray:
        """Places of the likeliest classes, (T,)."""
        return self.probabilities.argmax(1)

    @property
    def trial(self) -> np.ndarray:
        """The trial of each sample, (T,)."""
        before = np.searchsorted(self.trials[:, 0], self.times_s + 1e-6, side="right")
        return np.maximum(before - 1, 0)

    @property
    def log_loss(self) -> float:
        """Mean of -log p of the true class, in nats."""
        likelihood = self.probabilities[np.arange(len(self.true)), self.true].astype(np.float64)
        return float(-np.log(np.maximum(likelihood, np.finfo(np.float64).tiny)).mean())

    @property
    def confusion(self) -> np.ndarray:
        """Samples of each true class, a row, that were decoded as each class, (K, K)."""
        return confusion(self.true, self.decoded, len(self.classes))

    @property
    def balanced_accuracy(self) -> float:
        """Mean over the classes that are there of the share that is decoded rightly."""
        return float(balanced_accuracy(self.confusion))

    @property
    def at_end(self) -> "DecodedClasses":
        """The last sample of each trial alone."""
        last = np.flatnonzero(np.append(np.diff(self.trial) > 0, True))
        return replace(
            self,
            times_s=self.times_s[last],
            true=self.true[last],
            probabilities=self.probabilities[last],
        )

    def interval(self, seed: int = 0) -> tuple[float, float]:
        """95 % interval of the balanced accuracy, by a bootstrap over trials.

        Args:
            seed: of the draws.
        """
        n, k = len(self.trials), len(self.classes)
        flat = _counts(self.trial, self.true * k + self.decoded, n, k * k)  # (n, K K)
        drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), _N_DRAWS)
        scores = balanced_accuracy((drawn @ flat).reshape(-1, k, k))
        return tuple(np.nanpercentile(scores, (2.5, 97.5)).tolist())

    def null(self, seed: int = 0) -> np.ndarray:
        """Balanced accuracy of the same output for labels that are shuffled, 1,000 times.

        One label a trial is shuffled among the trials; labels at each time are shifted in a circle,
        by a tenth to nine tenths of all samples, so that they last as long as before.

        Args:
            seed: of the shuffles.

        Returns:
            Scores, (1000,).
        """
        rng = np.random.default_rng(seed)
        k = len(self.classes)
        if self.labels is None:
            n = len(self.true)
            shifts = rng.integers(n // 10, n - n // 10, _N_DRAWS)
            flat = [_counts(np.roll(self.true, s), self.decoded, k, k) for s in shifts]
            return balanced_accuracy(np.array(flat))
        counts = _counts(self.trial, self.decoded, len(self.trials), k)  # (n, K)
        one_hot = np.eye(k)
        confusions = [one_hot[labels].T @ counts for labels in self._shuffled(rng)]
        return balanced_accuracy(np.array(confusions))

    def _shuffled(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Labels of the trials in other orders, (n,) each."""
        return [rng.permutation(self.labels) for _ in range(_N_DRAWS)]

    def accuracy_by_time(self, step_s: float, seed: int = 0) -> dict[str, list[float]]:
        """Accuracy against time since the trial began, for one label a trial.

        Args:
            step_s: width of a step, seconds.
            seed: of the shuffles.

        Returns:
            Of each step that a third of the trials reaches: `since_s`, its end, seconds; the
            `accuracy`, each trial with the same weight; and its `chance` and `chance_95`, mean and
            95 % point for shuffled labels. Empty for labels at each time.
        """
        if self.labels is None:
            return {}
        n, k = len(self.trials), len(self.classes)
        step = ((self.times_s - self.trials[self.trial, 0]) / step_s + 1e-6).astype(int)
        n_steps = int(step.max()) + 1
        place = self.trial * n_steps + step
        counts = _counts(place, self.decoded, n * n_steps, k).reshape(n, n_steps, k)
        reached = counts.sum(2) > 0  # (n, steps)
        share = counts / np.maximum(counts.sum(2, keepdims=True), 1)
        n_trials = np.maximum(reached.sum(0), 1)
        trials = np.arange(n)
        accuracy = share[trials, :, self.labels].sum(0) / n_trials  # (steps,)
        shuffled = self._shuffled(np.random.default_rng(seed))
        chance = [share[trials, :, labels].sum(0) / n_trials for labels in shuffled]
        shown = reached.sum(0) >= n / 3
        rows = {
            "since_s": step_s * np.arange(1, n_steps + 1),
            "accuracy": accuracy,
            "chance": np.mean(chance, axis=0),
            "chance_95": np.percentile(chance, 95, axis=0),
        }
        return {name: row[shown].tolist() for name, row in rows.items()}


def confusion(true: np.ndarray, decoded: np.ndarray, n_classes: int) -> np.ndarray:
    """Samples of each true class, a row, that were decoded as each class.

    Args:
        true: places of the true classes, (T,), int.
        decoded: places of the decoded classes, (T,), int.
        n_classes: K.

    Returns:
        Numbers of samples, (K, K).
    """
    return _counts(true, decoded, n_classes, n_classes)


def balanced_accuracy(confusion: np.ndarray) -> np.ndarray:
    """Mean over the classes that are there of the share that is decoded rightly.

    Args:
        confusion: samples of each true class, a row, decoded as each class, (..., K, K).

    Returns:
        Scores, (...); NaN without a sample.
    """
    n = confusion.sum(-1)  # (..., K)
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    recall = np.where(n > 0, right / np.maximum(n, 1), 0.0)
    n_present = (n > 0).sum(-1)
    return np.where(n_present > 0, recall.sum(-1) / np.maximum(n_present, 1), np.nan)


def _counts(row: np.ndarray, column: np.ndarray, n_rows: int, n_columns: int) -> np.ndarray:
    """How often each pair of places (T,) is there, (n_rows, n_columns)."""
    flat = np.bincount(row * n_columns + column, minlength=n_rows * n_columns)
    return flat.reshape(n_rows, n_columns)


def decode_classes(model, session: Session, part: str = "test") -> DecodedClasses:
    """Decode a part causally, by `evaluate`.

    Args:
        model: a POSSM, or a decoder of `decoder.baselines`, that decodes classes.
        session: a session of the model.
        part: "train", "valid" or "test".
    """
    return DecodedClasses.of(evaluate(model, session, part), session, part)
