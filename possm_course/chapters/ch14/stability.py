"""When does a closed loop settle (chapter 14)? One target that stays, and how the cursor ends."""

import numpy as np

from possm_course.chapters.ch14 import closed_loop

KAPPAS, LATENCIES_S = (2.0, 3.0, 5.0, 8.0), (0.0, 0.15, 0.3, 0.5)  # 1/s; added


class Perfect:
    """A decoder that answers with what the user intends, and needs no spikes.

    Attributes:
        loop: the closed loop that it is in; to be set before the first step.
    """

    def reset(self):
        """Nothing to reset."""

    def step(self, *spikes):
        """A time, 0, and the velocity intended last in mm/s, (1, 2); `spikes` are not used."""
        return np.zeros(1), self.loop.intended_mm_s[-1:]


def held(
    stream, truth, kappa: float, latency_s: float, seed: int = 0, seconds: float = 4.0
) -> np.ndarray:
    """The cursor while the target at (80, 0) mm stays where it is.

    Args:
        stream: a streaming decoder; None is a perfect one.
        truth: tuning of the units.
        kappa: gain of the user in 1/s.
        latency_s: added latency in s.
        seed: of the spikes.
        seconds: length of the run in s.

    Returns:
        The cursor in mm, shape (T, 2), T time steps.
    """
    task = closed_loop.ReachingTask([(80.0, 0.0)], timeout_s=np.inf, hold_s=np.inf)
    population = closed_loop.Population(truth, seed)
    user = closed_loop.SimulatedUser(gain_per_s=kappa)
    decoder = stream or Perfect()
    loop = closed_loop.ClosedLoop(decoder, population, task, user, latency_s)
    if not stream:
        decoder.loop = loop
        population.fire = lambda *intended: ()  # spikes would only take time
    return loop.run(seconds).cursor_mm


def ends(stream, truth, kappa: float) -> list[tuple[float, float]]:
    """How a run with a target that stays ends, at each of `LATENCIES_S`.

    Args:
        stream: a streaming decoder; None is a perfect one.
        truth: tuning of the units.
        kappa: gain of the user in 1/s.

    Returns:
        At each latency the mean distance to the target in the last two seconds, and how far the
        target was passed, both in mm.
    """
    paths = [held(stream, truth, kappa, latency_s) for latency_s in LATENCIES_S]
    paths = np.array(paths)  # (latencies, T, 2)
    x, y = np.moveaxis(paths - [80.0, 0.0], -1, 0)
    far = np.hypot(x, y)[:, -200:].mean(1)
    passed = paths[..., 0].max(1) - 80
    return list(zip(far.tolist(), passed.tolist(), strict=True))


def gain_and_delay(loop: closed_loop.ClosedLoop) -> tuple[float, float]:
    """What the cursor's velocity is of the intention.

    Args:
        loop: a closed loop that has run.

    Returns:
        How many times as large the velocity is, and how much later, in s: the delay at which
        velocity and intention correlate best.
    """
    intended = loop.intended_mm_s  # (T, 2)
    velocity = np.diff(loop.cursor_mm, axis=0, prepend=0) / 0.01
    pairs = {}
    for n in range(1, 40):
        pairs[n] = intended[: len(intended) - n].ravel(), velocity[n:].ravel()
    n = max(pairs, key=lambda n: np.corrcoef(*pairs[n])[0, 1])
    u, v = pairs[n]
    return (u @ v) / (u @ u), 0.01 * (n - 0.5)
