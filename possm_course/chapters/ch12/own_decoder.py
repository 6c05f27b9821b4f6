"""A decoder of one's own, watched while it learns in chapter 12 and saved there.

Chapters 13, 14 and 16 load it:

    own = own_decoder.load(package)

`own.model` is a POSSM. It has the weights of the `Decoder` that a student has built and trained, or
it is `package`, a trained model of the package, where there is none. It is used like any other:

    # velocity (B, Q, 2) in mm/s; ones (B,), int64: session 1
    own.model(batch, batch.times_s, ones)
    # the same, from padded tensors
    forward_textbook(own.model, batch.padded(), batch.times_s, ones)
    # a part of a session: R² as asked and as displayed
    evaluate(own.model, session)
    # bin by bin
    StreamingDecoder(own.model).step(units, offsets)
    # on a new session
    adapt(own.model, other)

`own.whose` is "your decoder" or "the stored decoder". The file is a checkpoint of the package,
so the commands take its folder too: possm-lite stream runs/own_decoder. It is trained on
data/simulated_session.npz at a lag of 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from possm_course.stored import project_root
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.training.checkpoint import TrainedOn, load_checkpoint, save_checkpoint

MOMENTS = (0, 20, 60)  # steps before which a training is looked at, and at its end
YOURS, STORED = "your decoder", "the stored decoder"
HERE = "a decoder trained here"  # in chapter 12, beside the student's


@dataclass(frozen=True)
class Own:
    """A decoder, and whose it is.

    Attributes:
        model: the decoder, trained.
        whose: `YOURS` or `STORED`.
    """

    model: POSSM
    whose: str


def default_file() -> Path:
    """Where a student's decoder is kept: runs/own_decoder/checkpoint.npz. git ignores runs/."""
    return project_root() / "runs" / "own_decoder" / "checkpoint.npz"


def save(model: POSSM, session, file: Path | None = None) -> None:
    """Writes the student's decoder as a checkpoint of the package.

    Args:
        model: the decoder as a model of the package (`as_package` of the exercises of chapter 12).
        session: the session that it was trained on.
        file: where to; None is `default_file`.
    """
    file = file or default_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(file, model, TrainedOn.from_session(session, "data/simulated_session.npz"))


def load(package: POSSM, file: Path | None = None) -> Own:
    """The student's decoder, or the stored one where none was saved.

    Args:
        package: a trained model of the package.
        file: the checkpoint; None is `default_file`.

    Returns:
        The decoder, and whose it is.
    """
    file = file or default_file()
    if not file.exists():
        return Own(package, STORED)
    model, *_ = load_checkpoint(file)
    return Own(model, YOURS)


class Packaged(nn.Module):
    """A model of the package of the sizes of the chapter's `Decoder`, and called like one.

    Args:
        n_units: number of units.
    """

    def __init__(self, n_units: int):
        super().__init__()
        self.model = POSSM(POSSMConfig(n_units, head_dim=32, n_freqs=8, reading="softmax"))

    def forward(self, spikes, times):
        """Velocity (B, Q, 2) in standard deviations, from spikes (a batch) and times (B, Q), s."""
        session = torch.ones(len(times), dtype=torch.int64)
        return self.model(spikes, times, session)


@dataclass(frozen=True)
class Run:
    """A training that was watched.

    Attributes:
        decoder: the trained decoder.
        loss: of each step.
        decoded: number of steps done to name to what was decoded then, (Q, 2), in standard
            deviations.
    """

    decoder: nn.Module
    loss: list[float]
    decoded: dict[int, dict[str, Tensor]]


def watch(
    make: Callable, loop: Callable, draw: Callable, rate: Callable, n_steps: int, look_at: dict
) -> Run:
    """Trains a decoder; before the steps of `MOMENTS` and at the end it decodes what to look at.

    Args:
        make: makes the decoder, without arguments.
        loop: a `train` of exercise 12.6.
        draw: draw(rng) gives spikes, times, target and known.
        rate: rate(step, n_steps) gives the learning rate.
        n_steps: number of steps.
        look_at: name to spikes and times (1, Q) in s.

    Returns:
        The training.
    """
    torch.manual_seed(0)
    decoder = make()
    rng = np.random.default_rng(0)
    decoded = {}
    n_drawn = 0

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

    values = loop(decoder, draw_and_look, n_steps, lambda step: rate(step, n_steps))
    loss = [float(value) for value in values]
    look()
    return Run(decoder, loss, decoded)
