"""Interactive figures: a pure function draw(**values) -> Figure with sliders: explore(draw, name=Slider(...))."""

import base64
import io
import math
from collections.abc import Callable
from dataclasses import dataclass

import ipywidgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# For screen readers, what core widgets leave out: the names of handles, the values shown, what is in the image.
SAY = """<style onload="const box = this.closest('.widget-vbox'), say = () => {
    box.querySelectorAll('img').forEach(image => image.alt = this.parentNode.textContent);
    for (const handle of box.querySelectorAll('.noUi-handle')) [handle.ariaLabel, handle.ariaValueText] =
        Array.from(handle.closest('.widget-slider').querySelectorAll('label, .widget-readout'), e => e.textContent);
}; say(), new MutationObserver(say).observe(box, {subtree: true, childList: true, characterData: true})"></style>"""


@dataclass(frozen=True)
class Slider:
    """The range of one number: an integer slider if low, high and step are integers."""

    label: str  # text before the slider, with the unit
    low: float
    high: float
    value: float | None = None  # at the start; default: the middle
    step: float | None = None  # default: 1 for integers, otherwise a hundredth of the range; if log, of log10
    log: bool = False  # whether equal moves multiply; low must then be positive

    @property
    def is_integer(self) -> bool:
        return all(isinstance(x, int) for x in (self.low, self.high, self.step or 1))

    def widget(self) -> ipywidgets.Widget:
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        kind = "FloatLogSlider" if self.log else "IntSlider" if self.is_integer else "FloatSlider"
        step = self.step or (1 if self.is_integer else (high - low) / 100)
        value = self.range(3)[1] if self.value is None else self.value
        return getattr(ipywidgets, kind)(value=value, min=low, max=high, step=step, description=self.label)

    def range(self, n: int) -> list[float]:
        """n values from one end to the other, or fewer where there are fewer integers."""
        values = (np.geomspace if self.log else np.linspace)(self.low, self.high, n)
        return (np.unique(values.round().astype(int)) if self.is_integer else values).tolist()


class ImageWithSliders:
    """An image below sliders, whose bytes are replaced: nothing flickers. Without a kernel a reader sees the still."""

    def __init__(self, sliders: dict[str, Slider], shows: str = "A figure that the sliders change."):
        self._widgets = {name: slider.widget() for name, slider in sliders.items()}
        label_width = f"{max(len(slider.label) for slider in sliders.values())}ch"  # so that all begin alike
        for widget in self._widgets.values():
            widget.style.description_width = label_width
            widget.layout.width = f"calc({label_width} + 22em)"
        self._image = ipywidgets.Image(format="png")
        parts = [*self._widgets.values(), ipywidgets.HTML(SAY + shows, layout={"display": "none"}), self._image]
        self.box = ipywidgets.VBox(parts, layout={"align_items": "flex-start"})  # else it stretches and blurs images

    @property
    def values(self) -> dict[str, float]:
        return {name: widget.value for name, widget in self._widgets.items()}

    def _repr_mimebundle_(self, **kwargs) -> dict:
        return {**self.box._repr_mimebundle_(**kwargs), "image/png": base64.b64encode(self._image.value).decode()}


class explore(ImageWithSliders):
    """A slider for each argument of `draw`, which does not use pyplot, for that stores figures."""

    def __init__(self, draw: Callable[..., Figure], **sliders: Slider):
        super().__init__(sliders, *(draw.__doc__ or "").splitlines()[:1])
        self._draw, self._sliders = draw, sliders
        for widget in self._widgets.values():
            widget.observe(self._update, names="value")
        self._update()

    def _update(self, _change: object = None) -> None:
        self._image.value = png(self._draw(**self.values))

    def sweep(self) -> None:
        """Move every slider to its ends and back, so that executing the notebook executes `draw` there."""
        for name, slider in self._sliders.items():
            for value in [*slider.range(2), self.values[name]]:
                self._widgets[name].value = value
        print(f"moved {(n := len(self._sliders))} slider{'s' * (n != 1)} through {3 * n} positions")


def copies(*panels: Axes) -> Callable[[], tuple[Figure, list[Axes]]]:
    """A function that returns copies of a figure and its panels: an image, since ticks and labels take most time."""
    canvas = FigureCanvasAgg(panels[0].figure)
    canvas.draw()
    background = np.array(canvas.buffer_rgba())  # (height, width, 4)

    def copy() -> tuple[Figure, list[Axes]]:
        figure = Figure(figsize=panels[0].figure.get_size_inches())
        figure.figimage(background, zorder=-1)
        axes = [figure.add_axes(panel.get_position(), xscale=panel.get_xscale()) for panel in panels]
        for panel, blank in zip(panels, axes, strict=True):
            blank.set(xlim=panel.get_xlim(), ylim=panel.get_ylim())
            blank.set_axis_off()
        return figure, axes

    return copy


def png(figure: Figure) -> bytes:
    """The figure as PNG, compressed fast rather than small."""
    figure.savefig(buffer := io.BytesIO(), format="png", pil_kwargs={"compress_level": 1})
    return buffer.getvalue()
