"""When does a closed loop settle (chapter 14)? One target that stays, for a perfect decoder and for a real one."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from possm_course.chapters.ch14 import closed_loop
from possm_course.style import BLUE, INK

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
    loop = closed_loop.ClosedLoop(decoder, population, task, closed_loop.SimulatedUser(gain_per_s=kappa), latency_s)
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


def limits(found: dict, loops: dict) -> Figure:
    """`found`, by name: `ends` for each kappa. `loops`: gain and delay (s) of the loop without added latency."""
    figure, panels = plt.subplots(1, 2, figsize=(6.4, 3.6), layout="constrained", sharey=True)
    kappas = np.linspace(1, 9, 200)
    x, y = np.meshgrid(KAPPAS, 1000 * np.array(LATENCIES_S))
    for axes, (name, columns) in zip(panels, found.items(), strict=True):
        far, passed = np.transpose(columns)  # (latencies, kappas) each
        squares = axes.scatter(x, y, c=far, cmap="YlOrRd", vmin=0, vmax=60, s=110, marker="s", edgecolor=INK, lw=0.5)
        if name == "perfect decoder":
            axes.plot(x[passed > 1], y[passed > 1], ".", color=INK, ms=5)
        gain, delay_s = loops[name]
        for product, style, color, label in ((np.pi / 2, "-", INK, "κδ = π/2"), (1 / np.e, "--", BLUE, "κδ = 1/e")):
            axes.plot(kappas, 1000 * (product / (gain * kappas) - delay_s), style, color=color, lw=2, label=label)
        axes.set(title=name, xlabel="gain of the user, κ (1/s)", xlim=(1.3, 8.7), ylim=(-40, 560))
    panels[0].set_ylabel("added latency (ms)")
    figure.colorbar(squares, ax=panels, label="distance at the end (mm)", extend="max")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=9)
    plt.close(figure)
    return figure
