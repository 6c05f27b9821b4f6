"""Results of decoding classes: metrics, table and picture."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ..training.classes import DecodedClasses
from .report import aligned

_COSTS = {"train s": "train_s", "µs/bin p50": "step_us_p50", "µs/bin p99": "step_us_p99"}
_NAMES = {"possm": "POSSM", "gru": "GRU on counts", "logistic": "logistic regression"}


def scores(decoded: DecodedClasses, step_s: float) -> dict:
    """What metrics.json has of the output of one decoder of classes.

    Args:
        decoded: of the test part.
        step_s: width of a bin, seconds, in which accuracy against time is given.
    """
    null = decoded.null()
    at_end = decoded.at_end if decoded.labels is not None else None
    return {
        "balanced_accuracy": decoded.balanced_accuracy,
        "interval": decoded.interval(),
        "chance": float(null.mean()),
        "chance_95": float(np.percentile(null, 95)),
        "log_loss": decoded.log_loss,
        "at_end": at_end and at_end.balanced_accuracy,
        "confusion": decoded.confusion.tolist(),
        "by_time": decoded.accuracy_by_time(step_s),
    }


def class_table(models: dict[str, dict]) -> str:
    """The models of `metrics.json` side by side, each beside its chance.

    Args:
        models: the results of each model, by its name in `metrics.json`.

    Returns:
        Lines of text, one for each result, with a column for each model.
    """
    results = models.values()
    rows = [("", *(_NAMES[name] for name in models))]
    rows.append(("balanced accuracy", *(f"{m['balanced_accuracy']:.3f}" for m in results)))
    rows.append(("95 % interval", *("{:.3f} to {:.3f}".format(*m["interval"]) for m in results)))
    if all(m["at_end"] is not None for m in results):
        rows.append(("at the end of a trial", *(f"{m['at_end']:.3f}" for m in results)))
    rows.append(("chance, labels shuffled", *(f"{m['chance']:.3f}" for m in results)))
    rows.append(("95 % of shuffles below", *(f"{m['chance_95']:.3f}" for m in results)))
    rows.append(("log loss", *(f"{m['log_loss']:.3f}" for m in results)))
    rows.append(("parameters", *(f"{m['params']:,}" for m in results)))
    for label, key in _COSTS.items():
        rows.append((label, *(f"{m[key]:.1f}" for m in results)))
    return aligned(rows)


def class_lines(models: dict[str, dict], classes: Sequence[str]) -> list[str]:
    """What is to be said beside the table of `class_table`.

    Args:
        models: as there.
        classes: names of the classes.
    """
    lines = [
        "Balanced accuracy: mean over the classes, of all samples of the test part, from the first "
        f"of a trial on; log loss in nats, {np.log(len(classes)):.3f} where all classes get the "
        "same probability."
    ]
    if all(m["balanced_accuracy"] <= m["chance_95"] for m in models.values()):
        lines.append(
            "warning: no decoder is better than for shuffled labels: these units may not encode "
            "them, or spikes and labels have two clocks."
        )
    return lines


def plot_classes(decoded: DecodedClasses, by_time: dict, title: str) -> Figure:
    """A figure of a confusion matrix and, of one label a trial, of accuracy against time.

    Args:
        decoded: of the test part.
        by_time: of `DecodedClasses.accuracy_by_time`.
        title: of the figure.
    """
    figure = Figure(figsize=(11.0 if by_time else 6.0, 5.4), layout="constrained")
    axes = figure.subplots(1, 2 if by_time else 1, squeeze=False)[0]
    confusion = decoded.confusion
    share = confusion / np.maximum(confusion.sum(1, keepdims=True), 1)
    picture = axes[0].imshow(share, vmin=0, vmax=1, cmap="Blues")
    figure.colorbar(picture, ax=axes[0], label="share of the samples of a class", shrink=0.7)
    names = [name[:16] for name in decoded.classes]
    places = range(len(names))
    axes[0].set_xticks(places, names, rotation=90)
    axes[0].set_yticks(places, names)
    axes[0].set(xlabel="decoded", ylabel="true")
    if len(names) <= 12:
        for (row, column), value in np.ndenumerate(share):
            color = "white" if value > 0.6 else "black"
            label = f"{100 * value:.0f}"
            axes[0].text(column, row, label, ha="center", va="center", color=color, fontsize=8)
    if by_time:
        since = by_time["since_s"]
        axes[1].plot(since, by_time["accuracy"], color="#d55e00", label="POSSM")
        chance = by_time["chance"], by_time["chance_95"]
        axes[1].fill_between(since, *chance, color="#bbbbbb", label="shuffled labels, mean to 95 %")
        axes[1].set(xlabel="time since the trial began (s)", ylabel="accuracy", ylim=(0, 1))
        axes[1].legend(frameon=False, loc="upper left")
    figure.suptitle(title)
    return figure
