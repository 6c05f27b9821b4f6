"""Interactive figures: a pure function that draws, and sliders with one image.

    draw(**values) -> Figure        explore(draw, name=Slider(...), ...)

The bytes of the image are replaced, so nothing flickers and no figures accumulate. The same `draw` gives the still
image for a reader without a kernel.
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
    """The range of one number.

    Args:
        label: text before the slider, with the unit.
        low, high: range; an integer slider if these and `step` are integers.
        value: at the start; default: the middle.
        step: default: 1 for integers, otherwise a hundredth of the range.
        log: whether equal moves multiply; low must then be positive.

    Raises:
        ValueError: naming the field and its value.
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
    def is_integer(self) -> bool:
        return all(isinstance(x, int) for x in (self.low, self.high, self.step or 1))

    @property
    def middle(self) -> float:
        if self.log:
            return (self.low * self.high) ** 0.5
        return (self.low + self.high) // 2 if self.is_integer else (self.low + self.high) / 2

    def widget(self) -> ipywidgets.Widget:
        low, high = (math.log10(x) if self.log else x for x in (self.low, self.high))
        options = {"base": 10} if self.log else {}
        kind = ipywidgets.FloatLogSlider if self.log else ipywidgets.FloatSlider
        step = (high - low) / 100
        if self.is_integer and not self.log:
            kind, step = ipywidgets.IntSlider, 1
        return kind(
            value=self.middle if self.value is None else self.value,
            min=low,
            max=high,
            step=step if self.step is None else self.step,
            description=self.label,
            style={"description_width": "initial"},
            layout=ipywidgets.Layout(width="28em"),
            **options,
        )


def explore(draw: Callable[..., Figure], **sliders: Slider) -> Explorer:
    """Sliders with one image; name it in the last line of a cell to show it.

    Args:
        draw: draw(**values) -> Figure, the same figure for the same values; without pyplot, which stores figures.
        sliders: one for each argument of `draw`.
    """
    return Explorer(draw, sliders)


class Explorer:
    """Sliders with one image, made by `explore`."""

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
        return {name: widget.value for name, widget in self._widgets.items()}

    def set(self, **values: float) -> None:
        """Move sliders, as the mouse would."""
        for name, value in values.items():
            self._widgets[name].value = value

    def sweep(self) -> None:
        """Move every slider through its range and back, so that executing the notebook executes `draw` there."""
        stops = list(self._stops())
        for name, value in stops:
            self.set(**{name: value})
        n_sliders = len(self._sliders)
        print(f"moved {n_sliders} slider{'s' * (n_sliders != 1)} through {len(stops)} positions")

    def film(self, n_frames: int, moved: str | None = None) -> dict:
        """Images of one slider (default: the first) moved through its range, for a page without a kernel.

        Returns:
            PNGs in base64 ("frames"), the slider's values, and the values of the others, as JSON-compatible types.
        """
        name = moved or next(iter(self._sliders))
        slider, current = self._sliders[name], self.values
        values = (np.geomspace if slider.log else np.linspace)(slider.low, slider.high, n_frames)
        if slider.is_integer:
            values = np.unique(values.round().astype(int))
        return {
            "label": slider.label,
            "values": values.tolist(),
            "start": current[name],
            "others": {other.label: current[key] for key, other in self._sliders.items() if key != name},
            "frames": [_base64(png(self._draw(**current | {name: value}))) for value in values.tolist()],
        }

    def step_ms(self, rounds: int = 5) -> float:
        """Median milliseconds from the move of a slider to its new image."""
        self._seconds.clear()
        for _ in range(rounds):
            for name, value in self._stops():
                self.set(**{name: value})
        return 1e3 * statistics.median(self._seconds)

    def _stops(self) -> Iterator[tuple[str, float]]:
        for name, slider in self._sliders.items():
            for value in (slider.low, slider.middle, slider.high, self._widgets[name].value):
                yield name, value

    def _update(self, _change: object = None) -> None:
        started = time.perf_counter()
        self._image.value = png(self._draw(**self.values))
        self._seconds.append(time.perf_counter() - started)

    def _repr_mimebundle_(self, **kwargs) -> dict:
        return with_still(self.box, self._image, **kwargs)


def stacked(*widgets: ipywidgets.Widget) -> ipywidgets.VBox:
    """One below the other, each in its own size; by default a box stretches an image, which blurs it."""
    return ipywidgets.VBox(widgets, layout=ipywidgets.Layout(align_items="flex-start"))


def with_still(box: ipywidgets.Widget, image: ipywidgets.Image, **kwargs) -> dict:
    """The output of a notebook cell: the widget, and its current image for a reader without a kernel."""
    return {**box._repr_mimebundle_(**kwargs), "image/png": _base64(image.value)}


def pixels(figure: Figure) -> np.ndarray:
    """The figure as an array (height, width, 4), to be drawn once as the background of others."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


def png(figure: Figure) -> bytes:
    """The figure as PNG, compressed fast rather than small."""
    buffer = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(buffer, format="png", pil_kwargs={"compress_level": 1})
    return buffer.getvalue()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
