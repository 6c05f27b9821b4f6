"""The cursor of a closed loop, for where the sliders stand and live at 20 bins a second (chapter 13)."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Iterator

import ipywidgets
import numpy as np
from matplotlib.figure import Figure
from PIL import Image, ImageDraw

from ..closed_loop import MOMENT_S, ClosedLoop
from ..style import BLUE, GRAY, INK, ORANGE
from ..widgets import Slider, pixels, stacked, with_still

SIZE = (7.0, 3.4)  # inches
PLACES = ((0.115, 0.16, 0.385, 0.8), (0.625, 0.16, 0.355, 0.8))  # the screen, the distance
EDGE_MM = 125.0  # the screen shows this much to every side
PIXELS, FINER = 320, 2  # of the live picture; drawn finer and shrunk, which smooths its lines
TAIL_S = 1.5


def picture(loop: ClosedLoop, streams: dict[float, object], seconds: float = 4.0) -> Callable[..., Figure]:
    """A function that plays the loop from its start, without waiting, and draws what happened.

    Args:
        loop: begun anew for each picture, with the same random numbers.
        streams: decoders by how far ahead of now they answer, ms.
        seconds: shown.

    Returns:
        draw(latency_ms, ahead_ms, lost, gain) -> Figure: path on the screen (left), distance to target (right).
    """
    background = _background(loop, seconds)

    def draw(latency_ms: float, ahead_ms: float, lost: float, gain: float) -> Figure:
        loop.decode_with(nearest(streams, ahead_ms))
        loop.latency_s, loop.gain = latency_ms / 1000, gain
        loop.population.lose(lost / 100)
        loop.reset()
        loop.run(seconds)
        figure = Figure(figsize=SIZE)
        figure.figimage(background, zorder=-1)
        screen, distance = _panels(figure, loop, seconds)
        for axes in (screen, distance):
            axes.set_axis_off()
        path = loop.shown_mm
        screen.plot(*path.T, color=BLUE, lw=1.6)
        screen.plot(*path[-1], "o", color=BLUE, ms=7)
        time_s = MOMENT_S * np.arange(1, len(path) + 1)
        distance.plot(time_s, np.hypot(*(path - loop.targets_mm).T), color=BLUE, lw=1.6)
        done = [reach for reach in loop.reaches if reach.reached]
        arrived = [reach.shown_s + reach.seconds for reach in done]
        distance.plot(arrived, np.full(len(done), loop.task.radius_mm), "v", color=ORANGE, ms=9, clip_on=False)
        figure.text(0.97, 0.9, f"{len(done)} reached", ha="right", color=ORANGE, fontsize=12)
        return figure

    return draw


def nearest(streams: dict[float, object], ahead_ms: float):
    """The decoder that answers about so far ahead."""
    return streams[min(streams, key=lambda known: abs(known - ahead_ms))]


def _panels(figure: Figure, loop: ClosedLoop, seconds: float) -> list:
    screen, distance = (figure.add_axes(place) for place in PLACES)
    screen.set(xlim=(-EDGE_MM, EDGE_MM), ylim=(-EDGE_MM, EDGE_MM))
    distance.set(xlim=(0, seconds), ylim=(0, 260))
    return [screen, distance]


def _background(loop: ClosedLoop, seconds: float) -> np.ndarray:
    """All that does not move, as pixels (height, width, 4)."""
    figure = Figure(figsize=SIZE)
    screen, distance = _panels(figure, loop, seconds)
    turn = np.exp(1j * np.linspace(0, 2 * np.pi, 60))
    for i, target in enumerate(dict.fromkeys(loop.task.targets_mm)):
        ring = complex(*target) + loop.task.radius_mm * turn
        screen.plot(ring.real, ring.imag, color=GRAY, lw=1.2)
        screen.text(*(1.45 * np.array(target)), f"{i + 1}", color=INK, ha="center", va="center", fontsize=10)
    screen.plot(0, 0, "+", color=INK, ms=10, mew=1.6)
    screen.set(xlabel="x (mm)", ylabel="y (mm)", xticks=[-100, 0, 100], yticks=[-100, 0, 100])
    distance.axhline(loop.task.radius_mm, color=GRAY, lw=1.2, ls="--")
    distance.set(xlabel="time (s)", ylabel="distance to the target (mm)")
    for axes in (screen, distance):
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.label.set_size(12)
        axes.yaxis.label.set_size(12)
    return pixels(figure)


def frame(loop: ClosedLoop) -> bytes:
    """The screen at this moment, as a PNG: target, cursor, and the cursor's last second and a half.

    Drawn by Pillow, without axes: a frame must be ready long before the next bin.
    """
    image = Image.new("RGB", (PIXELS * FINER, PIXELS * FINER), "white")
    pen, scale = ImageDraw.Draw(image), PIXELS * FINER / (2 * EDGE_MM)

    def disc(centre, radius_mm, **look):
        x, y = scale * (EDGE_MM + centre[0]), scale * (EDGE_MM - centre[1])
        pen.ellipse(
            [x - scale * radius_mm, y - scale * radius_mm, x + scale * radius_mm, y + scale * radius_mm], **look
        )

    for target in loop.task.targets_mm:
        disc(target, loop.task.radius_mm, outline="#dddddd", width=FINER)
    disc(loop.target_mm, loop.task.radius_mm, outline=ORANGE, width=4 * FINER)
    tail = loop.shown_mm[-round(TAIL_S / MOMENT_S) :]
    if len(tail) > 1:
        points = scale * (EDGE_MM + tail * [1, -1])
        pen.line([tuple(point) for point in points.tolist()], fill=BLUE, width=2 * FINER, joint="curve")
    disc(tail[-1] if len(tail) else (0, 0), 5, fill=INK)
    buffer = io.BytesIO()
    image.reduce(FINER).save(buffer, format="png", compress_level=1)
    return buffer.getvalue()


class LiveLoop:
    """A closed loop on a screen, with a button to start it and sliders that act while it runs.

    Args:
        loop: what is played; its bin width is the time between two frames.
        streams: decoders by how far ahead of now they answer, ms.
        seconds: that the button plays.
    """

    def __init__(self, loop: ClosedLoop, streams: dict[float, object], seconds: float = 60.0):
        self.loop, self.streams, self.seconds, self._task = loop, streams, seconds, None
        self.used_ms: list[float] = []
        self._sliders = {
            "latency": Slider("extra latency (ms)", 0, 400, value=0, step=10).widget(),
            "ahead": Slider("decoder answers ahead (ms)", 0, 100, value=round(max(streams)), step=100).widget(),
            "lost": Slider("units lost (%)", 0, 80, value=0).widget(),
            "gain": Slider("gain of the cursor", 0.2, 3.0, value=1.0, step=0.1).widget(),
        }
        self._button = ipywidgets.Button(description="start / stop", tooltip="play the loop live, or end it")
        self._button.on_click(self._start_or_stop)
        self._text = ipywidgets.Label()
        self._image = ipywidgets.Image(format="png", value=frame(loop))
        self.box = stacked(self._button, *self._sliders.values(), self._image, self._text)

    def set(self, **values: float) -> None:
        """Move sliders: latency (ms), ahead (ms), lost (%), gain."""
        for name, value in values.items():
            self._sliders[name].value = value

    def play(self, seconds: float = 3.0, realtime: bool = True) -> None:
        """Play from the start and say how much of each bin was left. `realtime=False` does not wait for the clock."""
        for wait_s in self._bins(seconds):
            if realtime:
                time.sleep(wait_s)
        print(self.report())

    def report(self) -> str:
        """What the bins of the last play took, drawing included."""
        if not self.used_ms:
            return "nothing played yet"
        bin_ms, used = 1000 * self.loop.population.bin_width_s, np.array(self.used_ms)
        median, p99 = np.percentile(used, [50, 99])
        left = 100 * (1 - median / bin_ms)
        return (
            f"{len(used)} bins of {bin_ms:.0f} ms, {(used > bin_ms).sum()} of them late. User, units, decoder and "
            f"picture took {median:.1f} ms (median), {p99:.1f} ms (99th percentile): {left:.0f} % of a bin was left"
        )

    def _bins(self, seconds: float) -> Iterator[float]:
        """Play bin after bin; after each, the seconds that are left until the next one is due."""
        self.used_ms = []
        self.loop.reset()
        due = time.perf_counter()
        while self.loop.seconds < seconds - 1e-9:
            began = time.perf_counter()
            self._follow_sliders()
            self.loop.step()
            self._image.value = frame(self.loop)
            ended = time.perf_counter()
            self.used_ms.append(1000 * (ended - began))
            due = max(due + self.loop.population.bin_width_s, ended)  # what is late is not made up for by haste
            yield due - ended

    def _follow_sliders(self) -> None:
        at = {name: slider.value for name, slider in self._sliders.items()}
        self.loop.latency_s, self.loop.gain = at["latency"] / 1000, at["gain"]
        self.loop.decode_with(nearest(self.streams, at["ahead"]))
        self.loop.population.lose(at["lost"] / 100)

    def _start_or_stop(self, _button=None) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
        else:  # a task of the kernel's own event loop, so that the sliders are heard while it runs
            self._task = asyncio.ensure_future(self._play_live())

    async def _play_live(self) -> None:
        try:
            for wait_s in self._bins(self.seconds):
                reached = sum(reach.reached for reach in self.loop.reaches)
                self._text.value = f"{self.loop.seconds:.1f} s, {reached} targets reached"
                await asyncio.sleep(wait_s)
        finally:
            self._text.value = self.report()

    def _repr_mimebundle_(self, **kwargs) -> dict:
        return with_still(self.box, self._image, **kwargs)
