"""Interactive figures, all of one pattern: a pure function that draws, and sliders around one picture.

    draw(**values) -> Figure        explore(draw, name=Slider(...), ...)

The picture's bytes are replaced, so nothing flickers and no figures pile up. The same `draw` gives the still picture
that a reader without a kernel sees.
"""

from __future__ import annotations

import base64
import io
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import ipywidgets
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


@dataclass(frozen=True)
class Slider:
    """One number to move.

    Args:
        label: what it is, with its unit, as it stands beside the slider.
        low, high: its ends; with `step` whole numbers throughout makes it a slider of whole numbers.
        value: where it stands at first, the middle unless said.
        step: smallest move; unless said, 1 between whole numbers and a hundredth of the way else.
        log: whether equal moves multiply; low must then be positive.
    """

    label: str
    low: float
    high: float
    value: float | None = None
    step: float | None = None
    log: bool = False

    def __post_init__(self):
        if not self.low < self.high:
            raise ValueError(f"low must be below high: {self.label!r} goes from {self.low} to {self.high}.")
        if self.value is not None and not self.low <= self.value <= self.high:
            raise ValueError(f"value must lie in {self.low}..{self.high}: {self.label!r} begins at {self.value}.")
        if self.log and self.low <= 0:
            raise ValueError(f"low must be positive where log=True: {self.label!r} begins at {self.low}.")

    @property
    def whole(self) -> bool:
        return all(isinstance(x, int) for x in (self.low, self.high, self.step or 1))

    @property
    def middle(self) -> float:
        if self.log:
            return (self.low * self.high) ** 0.5
        return (self.low + self.high) // 2 if self.whole else (self.low + self.high) / 2

    @property
    def stops(self) -> list[float]:
        """Both ends and the place between, where a sweep stops."""
        return [self.low, self.middle, self.high]

    def widget(self) -> ipywidgets.Widget:
        # the label may be long, and stands before the slider; the arrow keys move a focused slider by one step
        common = {
            "value": self.middle if self.value is None else self.value,
            "description": self.label,
            "style": {"description_width": "initial"},
            "layout": ipywidgets.Layout(width="28em"),
        }
        if self.log:
            from_, to = (math.log10(x) for x in (self.low, self.high))
            step = (to - from_) / 100 if self.step is None else self.step
            kind, ends = ipywidgets.FloatLogSlider, {"base": 10, "min": from_, "max": to, "step": step}
        elif self.whole:
            kind, ends = ipywidgets.IntSlider, {"min": self.low, "max": self.high, "step": self.step or 1}
        else:
            step = (self.high - self.low) / 100 if self.step is None else self.step
            kind, ends = ipywidgets.FloatSlider, {"min": self.low, "max": self.high, "step": step}
        return kind(**ends, **common)


def explore(draw: Callable[..., Figure], **sliders: Slider) -> Explorer:
    """Sliders around one picture; name it in the last line of a cell to show it.

    Args:
        draw: draw(**values) -> Figure, the same figure for the same values; made without pyplot, which keeps figures.
        sliders: one for each argument of `draw`.
    """
    return Explorer(draw, sliders)


class Explorer:
    """What `explore` returns."""

    def __init__(self, draw: Callable[..., Figure], sliders: dict[str, Slider]):
        self._draw, self._sliders = draw, sliders
        self._widgets = {name: slider.widget() for name, slider in sliders.items()}
        self._image = ipywidgets.Image(format="png")
        self._seconds: list[float] = []
        for widget in self._widgets.values():
            widget.observe(self._update, names="value")
        self.box = stacked(*self._widgets.values(), self._image)
        self._update()

    @property
    def values(self) -> dict[str, float]:
        """Where the sliders stand."""
        return {name: widget.value for name, widget in self._widgets.items()}

    def set(self, **values: float) -> None:
        """Move sliders, as a hand would."""
        for name, value in values.items():
            self._widgets[name].value = value

    def sweep(self) -> None:
        """Move every slider through its ends and back, so that running the notebook runs what they call."""
        n_stops = 0
        for name, value in self._stops():
            self.set(**{name: value})
            n_stops += 1
        print(f"moved {len(self._sliders)} slider{'s' * (len(self._sliders) != 1)} through {n_stops} positions")

    def film(self, n_frames: int, moved: str | None = None) -> dict:
        """One slider, the first unless named, moved through its range in even steps, the others where they stand.

        For a page without a kernel: pictures in base64, their values, and what stands still, all as JSON takes it.
        """
        name = moved or next(iter(self._sliders))
        slider = self._sliders[name]
        ends = (slider.low, slider.high)
        values = np.geomspace(*ends, n_frames) if slider.log else np.linspace(*ends, n_frames)
        if slider.whole:
            values = np.unique(values.round().astype(int))
        still = self.values
        frames = [base64.b64encode(png(self._draw(**still | {name: v}))).decode() for v in values.tolist()]
        return {
            "label": slider.label,
            "values": values.tolist(),
            "start": still[name],
            "others": {other.label: still[key] for key, other in self._sliders.items() if key != name},
            "frames": frames,
        }

    def step_ms(self, rounds: int = 5) -> float:
        """Median milliseconds from the move of a slider to its new picture."""
        self._seconds.clear()
        for _ in range(rounds):
            for name, value in self._stops():
                self.set(**{name: value})
        return 1e3 * statistics.median(self._seconds)

    def _stops(self) -> Iterator[tuple[str, float]]:
        for name, slider in self._sliders.items():
            before = self._widgets[name].value
            for value in (*slider.stops, before):
                yield name, value

    def _update(self, _change: object = None) -> None:
        began = time.perf_counter()
        self._image.value = png(self._draw(**self.values))
        self._seconds.append(time.perf_counter() - began)

    def _repr_mimebundle_(self, **kwargs) -> dict:
        return with_still(self.box, self._image, **kwargs)


def stacked(*widgets: ipywidgets.Widget) -> ipywidgets.VBox:
    """One below the other, each in its own size: unless told so, a box stretches a picture until it is blurred."""
    return ipywidgets.VBox(widgets, layout=ipywidgets.Layout(align_items="flex-start"))


def with_still(box: ipywidgets.Widget, image: ipywidgets.Image, **kwargs) -> dict:
    """What a notebook shows: the living widget, and beside it the present picture for who reads without a kernel."""
    return {**box._repr_mimebundle_(**kwargs), "image/png": base64.b64encode(image.value).decode()}


def pixels(figure: Figure) -> np.ndarray:
    """The picture as (height, width, 4) numbers: what does not move need be drawn only once."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


def png(figure: Figure) -> bytes:
    """The picture as bytes, compressed fast rather than small."""
    buffer = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(buffer, format="png", pil_kwargs={"compress_level": 1})
    return buffer.getvalue()
