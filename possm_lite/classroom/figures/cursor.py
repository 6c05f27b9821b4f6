"""The cursor of a closed loop (chapter 13): a figure with sliders, and live at 20 bins a second."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Iterator

import ipywidgets
import numpy as np
from matplotlib.figure import Figure
from PIL import Image, ImageDraw

from ..closed_loop import TIME_STEP_S, ClosedLoop
from ..style import BLUE, GRAY, INK, ORANGE
from ..widgets import Slider, pixels, stacked, with_still

SIZE = (7.0, 3.4)  # inches
PANELS = ((0.115, 0.16, 0.385, 0.8), (0.625, 0.16, 0.355, 0.8))  # the screen, the distance
EDGE_MM = 125.0  # half the side of the screen
PIXELS, OVERSAMPLING = 320, 2  # of a live frame; drawn larger and reduced, which smooths its lines
TAIL_S = 1.5


def make_draw(loop: ClosedLoop, decoders: dict[float, object], seconds: float = 4.0) -> Callable[..., Figure]:
    """A function that runs the loop from its start, faster than real time, and draws the result.

    Args:
        loop: reset for each figure, so that all have the same random numbers.
        decoders: lead (ms) -> decoder of the velocity that much later than now.
        seconds: of the run.

    Returns:
        draw(latency_ms, ahead_ms, lost, gain) -> Figure: path on the screen (left), distance to target (right).
    """
    background = _background(loop, seconds)

    def draw(latency_ms: float, ahead_ms: float, lost: float, gain: float) -> Figure:
        _configure(loop, decoders, latency_ms, ahead_ms, lost, gain)
        loop.reset()
        loop.run(seconds)
        figure = Figure(figsize=SIZE)
        figure.figimage(background, zorder=-1)
        screen, distance = _panels(figure, loop, seconds)
        screen.set_axis_off()
        distance.set_axis_off()
        path = loop.cursor_mm
        screen.plot(*path.T, color=BLUE, lw=1.6)
        screen.plot(*path[-1], "o", color=BLUE, ms=7)
        time_s = TIME_STEP_S * np.arange(1, len(path) + 1)
        distance.plot(time_s, np.hypot(*(path - loop.targets_mm).T), color=BLUE, lw=1.6)
        arrival_s = [reach.shown_s + reach.seconds for reach in loop.reaches if reach.reached]
        radius_mm = np.full(len(arrival_s), loop.task.radius_mm)
        distance.plot(arrival_s, radius_mm, "v", color=ORANGE, ms=9, clip_on=False)
        figure.text(0.97, 0.9, f"{len(arrival_s)} reached", ha="right", color=ORANGE, fontsize=12)
        return figure

    return draw


def _configure(loop: ClosedLoop, decoders: dict[float, object], latency_ms, ahead_ms, lost, gain) -> None:
    """Apply the values of the sliders: latency and lead of the decoder in ms, silent units in %, gain of the cursor."""
    loop.set_decoder(decoders[min(decoders, key=lambda lead_ms: abs(lead_ms - ahead_ms))])
    loop.latency_s, loop.gain = latency_ms / 1000, gain
    loop.population.silence(lost / 100)


def _panels(figure: Figure, loop: ClosedLoop, seconds: float) -> list:
    screen, distance = (figure.add_axes(rectangle) for rectangle in PANELS)
    screen.set(xlim=(-EDGE_MM, EDGE_MM), ylim=(-EDGE_MM, EDGE_MM))
    distance.set(xlim=(0, seconds), ylim=(0, 260))
    return [screen, distance]


def _background(loop: ClosedLoop, seconds: float) -> np.ndarray:
    """Everything that does not change, as pixels (height, width, 4)."""
    figure = Figure(figsize=SIZE)
    screen, distance = _panels(figure, loop, seconds)
    circle = np.exp(1j * np.linspace(0, 2 * np.pi, 60))
    for i, target in enumerate(dict.fromkeys(loop.task.targets_mm)):
        ring = complex(*target) + loop.task.radius_mm * circle
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
    """The screen now, as a PNG: targets, cursor, and the path of the cursor in the last 1.5 s.

    Drawn by Pillow, without axes: a frame must be ready long before the next bin.
    """
    image = Image.new("RGB", (PIXELS * OVERSAMPLING, PIXELS * OVERSAMPLING), "white")
    pen, scale = ImageDraw.Draw(image), PIXELS * OVERSAMPLING / (2 * EDGE_MM)

    def disc(centre, radius_mm, **style):
        x, y, r = scale * (EDGE_MM + centre[0]), scale * (EDGE_MM - centre[1]), scale * radius_mm
        pen.ellipse([x - r, y - r, x + r, y + r], **style)

    for target in loop.task.targets_mm:
        disc(target, loop.task.radius_mm, outline="#dddddd", width=OVERSAMPLING)
    disc(loop.target_mm, loop.task.radius_mm, outline=ORANGE, width=4 * OVERSAMPLING)
    tail = loop.cursor_mm[-round(TAIL_S / TIME_STEP_S) :]
    if len(tail) > 1:
        points = scale * (EDGE_MM + tail * [1, -1])
        pen.line([tuple(point) for point in points.tolist()], fill=BLUE, width=2 * OVERSAMPLING, joint="curve")
    disc(tail[-1] if len(tail) else (0, 0), 5, fill=INK)
    buffer = io.BytesIO()
    image.reduce(OVERSAMPLING).save(buffer, format="png", compress_level=1)
    return buffer.getvalue()


class LiveLoop:
    """A closed loop on a screen, with a start button, and sliders that take effect while it runs.

    Args:
        loop: its bin width is the time between two frames.
        decoders: lead (ms) -> decoder of the velocity that much later than now.
        seconds: of a run started by the button.
    """

    def __init__(self, loop: ClosedLoop, decoders: dict[float, object], seconds: float = 60.0):
        self.loop, self.decoders, self.seconds, self._task = loop, decoders, seconds, None
        self.used_ms: list[float] = []
        self._sliders = {
            "latency_ms": Slider("extra latency (ms)", 0, 400, value=0, step=10).widget(),
            "ahead_ms": Slider("decoder answers ahead (ms)", 0, 100, value=round(max(decoders)), step=100).widget(),
            "lost": Slider("units lost (%)", 0, 80, value=0).widget(),
            "gain": Slider("gain of the cursor", 0.2, 3.0, value=1.0, step=0.1).widget(),
        }
        self._button = ipywidgets.Button(description="start / stop", tooltip="play the loop live, or end it")
        self._button.on_click(self._start_or_stop)
        self._text = ipywidgets.Label()
        self._image = ipywidgets.Image(format="png", value=frame(loop))
        self.box = stacked(self._button, *self._sliders.values(), self._image, self._text)

    def set(self, **values: float) -> None:
        """Move sliders: latency_ms, ahead_ms, lost (%), gain."""
        for name, value in values.items():
            self._sliders[name].value = value

    def play(self, seconds: float = 3.0, realtime: bool = True) -> None:
        """Run from the start and print the report. `realtime=False` does not wait for the next bin."""
        for wait_s in self._bins(seconds):
            if realtime:
                time.sleep(wait_s)
        print(self.report())

    def report(self) -> str:
        """Computing time of the bins of the last run, drawing included."""
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
        """Run bin by bin; yields the seconds left until the next one is due."""
        self.used_ms = []
        self.loop.reset()
        due = time.perf_counter()
        while self.loop.seconds < seconds - 1e-9:
            started = time.perf_counter()
            _configure(self.loop, self.decoders, **{name: slider.value for name, slider in self._sliders.items()})
            self.loop.step()
            self._image.value = frame(self.loop)
            ended = time.perf_counter()
            self.used_ms.append(1000 * (ended - started))
            due = max(due + self.loop.population.bin_width_s, ended)  # a late bin does not shorten the following ones
            yield due - ended

    def _start_or_stop(self, _button=None) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
        else:  # a task of the kernel's event loop, so that slider messages are handled while it runs
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
