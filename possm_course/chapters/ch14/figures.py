"""The cursor of a closed loop (chapter 14), with sliders and live, and when a loop settles."""

import asyncio
import io
import time
from collections.abc import Callable, Iterator

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageDraw

from possm_course.chapters.ch14 import closed_loop
from possm_course.chapters.ch14.stability import KAPPAS, LATENCIES_S
from possm_course.style import BLUE, GRAY, INK, ORANGE, PURPLE
from possm_course.widgets import ImageWithSliders, Slider, copies
from possm_lite.decoder import StreamingDecoder

EDGE_MM = 125.0  # half the side of the screen
PIXELS, OVERSAMPLING = 320, 2  # of a live frame; drawn larger and reduced, which smooths its lines
TAIL_S = 1.5


def make_draw(
    loop: closed_loop.ClosedLoop, decoders: dict[float, StreamingDecoder], seconds: float = 4.0
) -> Callable[..., Figure]:
    """Prepares the path of the cursor on the screen (left) and its distance to the target (right).

    Each figure runs the loop from its start, with the same random numbers, faster than real time.

    Args:
        loop: the closed loop; each figure changes it.
        decoders: lead in ms to a decoder of the velocity that much later than now.
        seconds: length of a run in s.

    Returns:
        draw(latency_ms, ahead_ms, lost, gain) -> Figure: latency in ms, lead of the decoder in ms,
        silent units in %, gain of the cursor.
    """
    copy = copies(*_panels(loop, seconds))

    def draw(latency_ms: float, ahead_ms: float, lost: float, gain: float) -> Figure:
        """The path of the cursor among its targets, and its distance from the present one."""
        _configure(loop, decoders, latency_ms, ahead_ms, lost, gain)
        loop.reset()
        path = loop.run(seconds).cursor_mm
        figure, (screen, distance) = copy()
        screen.plot(*path.T, color=BLUE, lw=1.6)
        screen.plot(*path[-1], "o", color=BLUE, ms=7)
        time_s = closed_loop.TIME_STEP_S * np.arange(1, len(path) + 1)
        distance.plot(time_s, np.hypot(*(path - loop.targets_mm).T), color=BLUE, lw=1.6)
        arrival_s = [reach.shown_s + reach.seconds for reach in loop.reaches if reach.reached]
        distance.plot(
            arrival_s,
            [loop.task.radius_mm] * len(arrival_s),
            "v",
            color=ORANGE,
            ms=9,
            clip_on=False,
        )
        figure.text(0.97, 0.9, f"{len(arrival_s)} reached", ha="right", color=ORANGE, fontsize=12)
        return figure

    return draw


def _panels(loop: closed_loop.ClosedLoop, seconds: float) -> list[Axes]:
    """Screen and distance, with all that does not depend on the sliders."""
    figure, limits, ticks = Figure(figsize=(7.0, 3.4)), (-EDGE_MM, EDGE_MM), [-100, 0, 100]
    screen = figure.add_axes(
        (0.115, 0.16, 0.385, 0.8), xlim=limits, ylim=limits, xticks=ticks, yticks=ticks
    )
    screen.set_xlabel("x (mm)", fontsize=12)
    screen.set_ylabel("y (mm)", fontsize=12)
    circle = np.exp(1j * np.linspace(0, 2 * np.pi, 60))
    for i, target in enumerate(dict.fromkeys(loop.task.targets_mm), 1):
        ring = complex(*target) + loop.task.radius_mm * circle
        screen.plot(ring.real, ring.imag, color=GRAY, lw=1.2)
        screen.text(
            *(1.45 * np.array(target)), f"{i}", color=INK, ha="center", va="center", fontsize=10
        )
    screen.plot(0, 0, "+", color=INK, ms=10, mew=1.6)

    distance = figure.add_axes((0.625, 0.16, 0.355, 0.8), xlim=(0, seconds), ylim=(0, 260))
    distance.set_xlabel("time (s)", fontsize=12)
    distance.set_ylabel("distance to the target (mm)", fontsize=12)
    distance.axhline(loop.task.radius_mm, color=GRAY, lw=1.2, ls="--")
    return [screen, distance]


def _configure(
    loop: closed_loop.ClosedLoop,
    decoders: dict[float, StreamingDecoder],
    latency_ms,
    ahead_ms,
    lost,
    gain,
) -> None:
    """Apply the sliders: latency and lead of the decoder in ms, silent units in %, gain."""
    decoder = decoders[min(decoders, key=lambda lead_ms: abs(lead_ms - ahead_ms))]
    if decoder is not loop.decoder:
        decoder.reset()
        loop.decoder = decoder
    loop.latency_s, loop.gain = latency_ms / 1000, gain
    loop.population.silence(lost / 100)


def frame(loop: closed_loop.ClosedLoop) -> bytes:
    """The screen now: targets, cursor and its path in the last 1.5 s. Pillow draws it in 2 ms.

    Args:
        loop: the closed loop.

    Returns:
        A PNG of `PIXELS` x `PIXELS`.
    """
    side = PIXELS * OVERSAMPLING
    scale = side / (2 * EDGE_MM)
    image = Image.new("RGB", (side, side), "white")
    pen = ImageDraw.Draw(image)
    n_tail = round(TAIL_S / closed_loop.TIME_STEP_S)
    tail = np.vstack([[0, 0], loop.cursor_mm])[-n_tail:]

    def to_pixels(points_mm):
        return scale * (EDGE_MM + np.multiply(points_mm, [1, -1]))

    def disc(centre_mm, radius_mm, **style):
        centre = to_pixels(centre_mm)
        radius = scale * radius_mm
        pen.ellipse([*(centre - radius), *(centre + radius)], **style)

    for target in loop.task.targets_mm:
        disc(target, loop.task.radius_mm, outline="#dddddd", width=OVERSAMPLING)
    disc(loop.target_mm, loop.task.radius_mm, outline=ORANGE, width=4 * OVERSAMPLING)
    path = to_pixels(tail).ravel().tolist()
    pen.line(path, fill=BLUE, width=2 * OVERSAMPLING, joint="curve")
    disc(tail[-1], 5, fill=INK)
    buffer = io.BytesIO()
    image.reduce(OVERSAMPLING).save(buffer, format="png", compress_level=1)
    return buffer.getvalue()


def simplest_loops(paths: dict[float, np.ndarray], delay_s: float, step_s: float = 0.001) -> Figure:
    """Draws the cursor of the simplest loop, which does at once what was intended a delay ago.

    Args:
        paths: product of gain and delay to the cursor's distance from its target in mm, shape (T,).
        delay_s: the delay in s.
        step_s: time from one entry of a path to the next, in s.

    Returns:
        The figure: a line for each product, and where the user first sees the cursor move.
    """
    figure, axes = plt.subplots(figsize=(6.4, 2.9), layout="constrained")
    looks = ((BLUE, "-"), (ORANGE, "--"), (PURPLE, ":"))
    for (product, path), (color, style) in zip(paths.items(), looks, strict=True):
        time_s = step_s * np.arange(len(path))
        axes.plot(time_s, path, style, color=color, lw=2, label=f"κδ = {product:.1f}")
    axes.axhline(0, color=GRAY, lw=1.2)
    axes.axvline(delay_s, color=INK, lw=1, ls=":")
    axes.text(delay_s + 0.02, 215, "she sees it move", color=INK, va="center", fontsize=10)
    axes.set(xlabel="time (s)", ylabel="cursor minus target (mm)", xlim=(0, time_s[-1]))
    axes.set_ylim(-250, 250)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plt.close(figure)
    return figure


def limits(found: dict, loops: dict) -> Figure:
    """Draws where a loop settles, over the gain of the user and the added latency, with the theory.

    Args:
        found: name of a loop to what `ends` gives, for each of `KAPPAS`.
        loops: name of a loop to its gain and its delay in s without added latency.

    Returns:
        The figure: distance at the end in colour, a dot where the target was passed, and the
        lines of products of gain and delay.
    """
    figure, panels = plt.subplots(1, 2, figsize=(6.4, 3.6), layout="constrained", sharey=True)
    kappas = np.linspace(1, 9, 200)
    x, y = np.meshgrid(KAPPAS, 1000 * np.array(LATENCIES_S))
    look = {"cmap": "YlOrRd", "vmin": 0, "vmax": 60, "s": 110, "marker": "s"}
    look |= {"edgecolor": INK, "lw": 0.5}
    products = ((np.pi / 2, "-", INK, "κδ = π/2"), (1 / np.e, "--", BLUE, "κδ = 1/e"))
    for axes, (name, columns) in zip(panels, found.items(), strict=True):
        far, passed = np.transpose(columns)  # (latencies, kappas) each
        squares = axes.scatter(x, y, c=far, **look)
        if name == "perfect decoder":
            axes.plot(x[passed > 1], y[passed > 1], ".", color=INK, ms=5)
        gain, delay_s = loops[name]
        for product, style, color, label in products:
            latency_ms = 1000 * (product / (gain * kappas) - delay_s)
            axes.plot(kappas, latency_ms, style, color=color, lw=2, label=label)
        axes.set(title=name, xlabel="gain of the user, κ (1/s)", xlim=(1.3, 8.7), ylim=(-40, 560))
    panels[0].set_ylabel("added latency (ms)")
    figure.colorbar(squares, ax=panels, label="distance at the end (mm)", extend="max")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=2, fontsize=9)
    plt.close(figure)
    return figure


class LiveLoop(ImageWithSliders):
    """A closed loop live: a frame a bin, a button to start it, sliders.

    Args:
        loop: the closed loop.
        decoders: as in `make_draw`.
        seconds: length of a run in s.
    """

    def __init__(
        self,
        loop: closed_loop.ClosedLoop,
        decoders: dict[float, StreamingDecoder],
        seconds: float = 60.0,
    ):
        sliders = {
            "latency_ms": Slider("extra latency (ms)", 0, 400, value=0, step=10),
            "ahead_ms": Slider(
                "decoder answers ahead (ms)", 0, 100, value=round(max(decoders)), step=100
            ),
            "lost": Slider("units lost (%)", 0, 80, value=0),
            "gain": Slider("gain of the cursor", 0.2, 3.0, value=1.0, step=0.1),
        }
        super().__init__(sliders)
        self.loop, self.decoders, self.seconds = loop, decoders, seconds
        self.used_ms: list[float] = []
        self._task, self._text = None, ipywidgets.Label()
        self._image.value = frame(loop)
        button = ipywidgets.Button(
            description="start / stop", tooltip="play the loop live, or end it"
        )
        button.on_click(self._start_or_stop)
        self.box.children = [button, *self.box.children, self._text]

    def play(self, seconds: float = 3.0, realtime: bool = True) -> None:
        """Runs from the start and prints the report.

        Args:
            seconds: length of the run in s.
            realtime: whether to wait for the next bin.
        """
        for wait_s in self._bins(seconds):
            time.sleep(wait_s if realtime else 0)
        print(self.report())

    def report(self) -> str:
        """Computing time of the bins of the last run, drawing included."""
        if not self.used_ms:
            return "nothing played yet"
        bin_ms = 1000 * self.loop.population.bin_width_s
        used = np.array(self.used_ms)
        median, p99 = np.percentile(used, [50, 99])
        return (
            f"{len(used)} bins of {bin_ms:.0f} ms, {(used > bin_ms).sum()} of them late. "
            f"User, units, decoder and picture took {median:.1f} ms (median), "
            f"{p99:.1f} ms (99th percentile): "
            f"{100 * (1 - median / bin_ms):.0f} % of a bin was left"
        )

    def _bins(self, seconds: float) -> Iterator[float]:
        """Run bin by bin; yields the seconds left until the next one is due."""
        self.used_ms = []
        self.loop.reset()
        due = time.perf_counter()
        while self.loop.seconds < seconds - 1e-9:
            started = time.perf_counter()
            _configure(self.loop, self.decoders, **self.values)
            self.loop.step()
            self._image.value = frame(self.loop)
            ended = time.perf_counter()
            self.used_ms.append(1000 * (ended - started))
            due = max(
                due + self.loop.population.bin_width_s, ended
            )  # a late bin does not shorten the following ones
            yield due - ended

    def _start_or_stop(self, _button=None) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
        else:
            # a task of the kernel's event loop: slider messages are handled while it runs
            self._task = asyncio.ensure_future(self._play_live())

    async def _play_live(self) -> None:
        try:
            for wait_s in self._bins(self.seconds):
                reached = sum(reach.reached for reach in self.loop.reaches)
                self._text.value = f"{self.loop.seconds:.1f} s, {reached} targets reached"
                await asyncio.sleep(wait_s)
        finally:
            self._text.value = self.report()
