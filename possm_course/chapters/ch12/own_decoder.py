"""A decoder of one's own: watched while it learns in chapter 12 and saved there; chapters 13, 14 and 16 load it.

    own = own_decoder.load(package)

`own.model` is a POSSM. It has the weights of the `Decoder` that a student has built and trained, or it is `package`, a
trained model of the package, where there is none. It is used like any other:

    own.model(batch, batch.times_s, ones)                  velocity (B, Q, 2) in mm/s; ones (B,), int64: session 1
    forward_textbook(own.model, batch.padded(), batch.times_s, ones)       the same, from padded tensors
    evaluate(own.model, session)                           a part of a session: R² as asked and as displayed
    StreamingDecoder(own.model).step(units, offsets)       bin by bin
    adapt(own.model, other)                                on a new session

`own.whose` is "your decoder" or "the package's decoder". The file is a checkpoint of the package, so the commands take
its folder too: possm-lite stream runs/own_decoder. It is trained on data/simulated_session.npz at a lag of 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from possm_course.stored import project_root
from possm_course.style import BLUE, GRAY, INK, ORANGE
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.training.checkpoint import TrainedOn, load_checkpoint, save_checkpoint

MOMENTS = (0, 60, 300)  # steps before which a training is looked at, and at its end
YOURS, PACKAGE = "your decoder", "the package's decoder"


@dataclass(frozen=True)
class Own:
    model: POSSM
    whose: str  # YOURS or PACKAGE


def default_file() -> Path:
    """Where a student's decoder is kept: runs/own_decoder/checkpoint.npz. git ignores runs/."""
    return project_root() / "runs" / "own_decoder" / "checkpoint.npz"


def save(model: POSSM, session, file: Path | None = None) -> None:
    """Write the student's decoder, as a model of the package (`as_package` of the exercises of chapter 12)."""
    file = file or default_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(file, model, TrainedOn.from_session(session, "data/simulated_session.npz"))


def load(package: POSSM, file: Path | None = None) -> Own:
    """The student's decoder, or `package` where none was saved."""
    file = file or default_file()
    return Own(load_checkpoint(file)[0], YOURS) if file.exists() else Own(package, PACKAGE)


class Packaged(nn.Module):
    """The package's decoder of the sizes of `Decoder`, called like one: velocity in standard deviations."""

    def __init__(self, n_units):
        super().__init__()
        self.model = POSSM(POSSMConfig(n_units, head_dim=32, n_freqs=8, reading="softmax"))

    def forward(self, spikes, times):
        return self.model(spikes, times, torch.ones(len(times), dtype=torch.int64))


@dataclass(frozen=True)
class Run:
    """A training that was watched."""

    decoder: nn.Module
    loss: list[float]  # of each step
    decoded: dict[int, dict[str, Tensor]]  # by the number of steps done: what it made of each thing to look at


def watch(make: Callable, loop: Callable, draw: Callable, rate: Callable, n_steps: int, look_at: dict) -> Run:
    """Train `make()` by `loop`, a `train` of exercise 12.6; before some steps and at the end, decode what to look at.

    `draw(rng)` gives spikes, times, target and known; `look_at` has spikes and times (1, Q) by name.
    """
    torch.manual_seed(0)
    decoder, rng, decoded, n_drawn = make(), np.random.default_rng(0), {}, 0

    def look():
        training = decoder.training
        with torch.no_grad():
            decoded[n_drawn] = {name: decoder.eval()(*given)[0] for name, given in look_at.items()}
        decoder.train(training)

    def draw_and_look():
        nonlocal n_drawn
        if n_drawn in MOMENTS:
            look()
        n_drawn += 1
        return draw(rng)

    loss = [float(value) for value in loop(decoder, draw_and_look, n_steps, lambda step: rate(step, n_steps))]
    look()
    return Run(decoder, loss, decoded)


def losses(runs: dict[str, Run]) -> Figure:
    """The loss of each step, smoothed; on the right, one minus it."""
    figure, axes = plt.subplots(figsize=(6.4, 2.7), layout="constrained")
    for whose, run in runs.items():
        color = ORANGE if whose == YOURS else BLUE
        smooth = np.convolve(run.loss, np.full(15, 1 / 15), "valid")  # mean of 15 steps
        axes.plot(run.loss, ".", color=color, ms=3, alpha=0.35)
        axes.plot(np.arange(len(smooth)) + 7, smooth, color=color, lw=2, label=whose)
    axes.axhline(1, color=GRAY, lw=1.2, ls="--")
    axes.text(len(run.loss), 1.02, "always the mean", color=INK, ha="right", va="bottom", size=10)
    axes.set(xlabel="step", ylabel="loss", ylim=(0, 1.3), xlim=(0, len(run.loss)))
    axes.secondary_yaxis("right", functions=(lambda x: 1 - x, lambda x: 1 - x)).set_ylabel("1 − loss")
    axes.legend(loc="upper center")
    plt.close(figure)
    return figure


def hand(run: Run, session, start: float, duration: float, what: str = "five seconds") -> Figure:
    """The hand, recorded and decoded, after some steps: velocity (mm/s), and the way (mm) of each trial from its start.

    `run` has decoded `session.cut(start, duration)`.
    """
    batch = session.cut(start, duration)
    times_s, recorded = batch.times_s[0].numpy(), batch.behavior[0].numpy()
    step_s = np.median(np.diff(times_s))
    trials = session.recording.trials[:, 0] - start
    edges = [0, *np.searchsorted(times_s, trials[(trials > 0.01) & (trials < times_s[-1])]), len(times_s)]
    begin = np.cumsum(recorded, 0) * step_s
    figure, axes = plt.subplots(len(run.decoded), 3, figsize=(6.4, 6.6), layout="constrained")
    for i, (n_steps, looks) in enumerate(run.decoded.items()):
        decoded = session.mean + session.std * looks[what].numpy()
        for velocity, color, width, name in ((recorded, GRAY, 3.5, "recorded"), (decoded, ORANGE, 1.4, "decoded")):
            for axis in range(2):
                axes[i, axis].plot(times_s, velocity[:, axis], color=color, lw=width, label=name)
            for first, last in zip(edges, edges[1:], strict=False):
                way = begin[first] + np.cumsum(velocity[first:last], 0) * step_s
                axes[i, 2].plot(*way.T, color=color, lw=width)
                axes[i, 2].plot(*begin[first], "o", color=INK, ms=3)
        axes[i, 0].set_ylabel(f"step {n_steps}", fontweight="bold")
    top = 1.1 * np.abs(recorded).max()
    for panel in axes[:, :2].flat:
        panel.set(xlim=(0, duration), ylim=(-top, top))
    for panel in axes[:, 2]:
        panel.set(xlim=(begin[:, 0].min() - 30, begin[:, 0].max() + 30), aspect="equal", anchor="C")
        panel.set_ylim(begin[:, 1].min() - 30, begin[:, 1].max() + 30)
    for panel in axes[:-1].flat:
        panel.tick_params(labelbottom=False)
    for panel in axes[:, 1]:
        panel.tick_params(labelleft=False)
    for panel, title in zip(axes[0], ("x (mm/s)", "y (mm/s)", "way (mm)"), strict=True):
        panel.set_title(title, fontsize=11)
    for panel in axes[-1, :2]:
        panel.set_xlabel("time (s)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    plt.close(figure)
    return figure
