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

import numpy as np
import torch
from torch import Tensor, nn

from possm_course.stored import project_root
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
    decoded: dict[
        int, dict[str, Tensor]
    ]  # by the number of steps done: what it made of each thing to look at


def watch(
    make: Callable, loop: Callable, draw: Callable, rate: Callable, n_steps: int, look_at: dict
) -> Run:
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

    loss = [
        float(value)
        for value in loop(decoder, draw_and_look, n_steps, lambda step: rate(step, n_steps))
    ]
    look()
    return Run(decoder, loss, decoded)
