"""When does a closed loop settle (chapter 14)? One target that stays, for a perfect decoder and for a real one."""

import numpy as np

from possm_course.chapters.ch14 import closed_loop

KAPPAS, LATENCIES_S = (2.0, 3.0, 5.0, 8.0), (0.0, 0.15, 0.3, 0.5)  # 1/s; added


class Perfect:
    """A decoder that answers with what the user intends, and needs no spikes."""

    def reset(self):
        pass

    def step(self, *spikes):
        return np.zeros(1), self.loop.intended_mm_s[-1:]


def held(stream, truth, kappa, latency_s, seed=0, seconds=4.0):
    """The cursor (T, 2) while the target at (80, 0) mm stays where it is; without a stream the decoder is perfect."""
    task, population = (
        closed_loop.ReachingTask([(80.0, 0.0)], timeout_s=np.inf, hold_s=np.inf),
        closed_loop.Population(truth, seed),
    )
    decoder = stream or Perfect()
    loop = closed_loop.ClosedLoop(
        decoder, population, task, closed_loop.SimulatedUser(gain_per_s=kappa), latency_s
    )
    if not stream:
        decoder.loop, population.fire = loop, lambda *intended: ()
    return loop.run(seconds).cursor_mm


def ends(stream, truth, kappa) -> list[tuple[float, float]]:
    """At each latency, mm: the mean distance to the target in the last two seconds, and how far it was passed."""
    paths = np.array([held(stream, truth, kappa, latency_s) for latency_s in LATENCIES_S])
    far = np.hypot(*np.moveaxis(paths - [80.0, 0.0], -1, 0))[:, -200:].mean(1)
    return [*zip(far.tolist(), (paths[..., 0].max(1) - 80).tolist(), strict=True)]


def gain_and_delay(loop) -> tuple[float, float]:
    """What the cursor's velocity is of the intention: how many times as large, and how much later (s)."""
    intended, velocity = loop.intended_mm_s, np.diff(loop.cursor_mm, axis=0, prepend=0) / 0.01
    pairs = {n: (intended[: len(intended) - n].ravel(), velocity[n:].ravel()) for n in range(1, 40)}
    n = max(pairs, key=lambda n: np.corrcoef(*pairs[n])[0, 1])
    u, v = pairs[n]
    return (u @ v) / (u @ u), 0.01 * (n - 0.5)
