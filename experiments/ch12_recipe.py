"""What each line of the recipe of chapter 12 buys, in a short training and in one ten times as long, and the gate.

python experiments/ch12_recipe.py

writes ch12_recipe.json, which `deeper/12_spike_decoder` draws. About twelve minutes on two cores.
"""

import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from possm_course.parallel import in_parallel
from possm_course.stored import embedded_session
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import load_recording
from possm_lite.training import prepare
from possm_lite.training.evaluate import mean_r2

FILE = Path(__file__).with_suffix(".json")
STEPS, SEEDS, SGD_RATES = (60, 600), (0, 1, 2, 3, 4), (0.03, 0.1, 0.3)


class NoGate(nn.Sequential):
    """A feed-forward layer with as many parameters as the gated one: x + W_2 gelu(W_1 LN(x)), 6 D in the middle."""

    def __init__(self, D):
        super().__init__(nn.LayerNorm(D), nn.Linear(D, 6 * D), nn.GELU(), nn.Linear(6 * D, D))


LINES = {
    "windows on a fixed grid": {"anywhere": False},
    "all samples of a window": {"samples": 75},
    "no unit dropout": {"hide": 0.0},
    "SGD, best of 3 rates": {"optimizer": torch.optim.SGD, "momentum": 0.9},
    "no weight decay": {"weight_decay": 0.0},
    "no warm-up": {"warm_up": False},
    "constant after warm-up": {"cosine": False},
    "no clipping": {"longest": np.inf},
    "no gate": {"feed_forward": NoGate},
    "no feed-forward layer": {"feed_forward": lambda D: None},
}


class Training:
    """The session, the draws, and a loop with a switch for each line."""

    def __init__(self):
        self.session = prepare(load_recording(embedded_session()))
        ((self.start, self.stop),) = self.session.segments("train")
        ((start, stop),) = self.session.segments("valid")
        self.valid = self.session.cut(start, stop - start)  # one trial: B = 1
        self.mean, self.std = torch.from_numpy(self.session.mean), torch.from_numpy(self.session.std)

    def draw(self, rng, samples=10, hide=0.1, anywhere=True, n=16, window_s=0.75):
        """As the chapter's: n windows, times (n, Q), velocity (n, Q, 2) in standard deviations, known or not (n, Q)."""
        starts = self.start + rng.random(n) * (self.stop - self.start - window_s)
        if not anywhere:
            starts = self.start + window_s * np.floor((starts - self.start) / window_s)
        shown = rng.random((n, self.session.recording.n_units)) >= hide * rng.random((n, 1))
        windows = self.session.cut(starts, window_s, shown)
        windows = windows.with_samples(np.sort(rng.permutation(windows.times_s.shape[1])[:samples]))
        target = ((windows.behavior - self.mean) / self.std).float()
        return windows, windows.times_s, target, windows.mask

    def __call__(
        self, seed, n_steps=60, optimizer=torch.optim.AdamW, peak=2e-3, longest=1.0, warm_up=True, cosine=True, **line
    ) -> tuple[float, float]:
        """One training.

        Args:
            seed: of weights and windows.
            n_steps: number of steps.
            optimizer: its class.
            peak: the largest learning rate.
            longest: norm to which gradients are clipped.
            warm_up: whether the rate rises at first.
            cosine: whether the rate falls to zero along a cosine.
            line: weight_decay, momentum, feed_forward, and arguments of `draw`.

        Returns:
            Validation R² at the end, and seconds of processor time.
        """
        began = time.process_time()
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        index = torch.ones(16, dtype=torch.int64)  # all windows are of session 1
        sizes = {"head_dim": 32, "n_freqs": 8, "hidden": 128, "reading": "softmax"}
        decoder = POSSM(POSSMConfig(self.session.recording.n_units, **sizes))
        if make := line.pop("feed_forward", None):
            decoder.encoder.feed_forward = make(64)
            decoder.decoder.feed_forward = make(64)
        of_optimizer = {name: line.pop(name) for name in ("weight_decay", "momentum") if name in line}
        optimizer = optimizer(decoder.parameters(), fused=True, **of_optimizer)
        for step in range(n_steps):
            optimizer.param_groups[0]["lr"] = rate(step, n_steps, peak, warm_up, cosine)
            windows, times, target, known = self.draw(rng, **line)
            loss = (decoder(windows, times, index) - target)[known].square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(decoder.parameters(), longest)
            optimizer.step()
        with torch.no_grad():
            decoded = self.mean + self.std * decoder(self.valid, self.valid.times_s, index[:1])[0]
        return mean_r2(self.valid.behavior[0].numpy(), decoded.numpy()), time.process_time() - began


def rate(step, n_steps, peak, warm_up, cosine):
    """The learning rate of a step, (12.10)."""
    w = n_steps // 10
    if step < w:
        return peak * (step + 1) / w if warm_up else peak
    return peak * (1 + np.cos(np.pi * (step - w) / (n_steps - w))) / 2 if cosine else peak


def measure(train: Training, n_steps: int) -> dict:
    """Validation R² of each seed, and mean seconds, of the whole recipe and without each line."""
    sgd = LINES["SGD, best of 3 rates"]
    searched = in_parallel(lambda peak: train(0, n_steps, peak=peak, **sgd)[0], [(peak,) for peak in SGD_RATES])
    lines = {"the whole recipe": {}, **LINES}
    lines["SGD, best of 3 rates"] = {**sgd, "peak": SGD_RATES[np.argmax(searched)]}
    calls = [(seed, line) for line in lines.values() for seed in SEEDS]
    runs = in_parallel(lambda seed, line: train(seed, n_steps, **line), calls)
    r2, seconds = np.moveaxis(np.reshape(runs, (len(lines), len(SEEDS), 2)), -1, 0)
    print(n_steps, "steps:", dict(zip(lines, r2.round(2).tolist(), strict=True)), flush=True)
    return {
        "sgd_rate": lines["SGD, best of 3 rates"]["peak"],
        "r2": dict(zip(lines, r2.round(4).tolist(), strict=True)),
        "seconds": dict(zip(lines, seconds.mean(1).round(1).tolist(), strict=True)),
    }


if __name__ == "__main__":
    results = {str(n_steps): measure(Training(), n_steps) for n_steps in STEPS}
    FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
