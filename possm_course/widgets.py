"""Interactive figures: a function that draws a figure, and a slider for each of its arguments.

    def draw(width: float) -> Figure:
        figure = Figure()
        ...
        return figure

    explore(draw, width=Slider("width (s)", 0.01, 1.0, value=0.1, log=True))

In a notebook, the next cell calls `explore.sweep`, so that executing the notebook executes `draw` at every end.
"""

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
    """The range of one number: of integers if `low`, `high` and `step` are integers.

    Attributes:
        label: Text before the slider, with the unit of the number.
        low: Smallest value; positive if `log`.
        high: Largest value.
        value: Where the slider is at the start; None: the middle of the range.
        step: Smallest move, of the number or, if `log`, of its log10. None: 1 for integers, otherwise a hundredth of
            the range.
        log: Whether equal moves multiply the number by equal factors.
    """

    label: str
    low: float
    high: float
    value: float | None = None
    step: float | None = None
    log: bool = False

    @property
    def is_integer(self) -> bool:
        """Whether the slider stops at integers only."""
        return all(isinstance(x, int) for x in (self.low, self.high, self.step or 1))

    def widget(self) -> ipywidgets.Widget:
        """A new slider of ipywidgets with this range, label and start."""
        low, high = self.low, self.high
        if self.log:
            low, high = math.log10(low), math.log10(high)
            kind = ipywidgets.FloatLogSlider
        else:
            kind = ipywidgets.IntSlider if self.is_integer else ipywidgets.FloatSlider
        step = self.step
        if not step:
            step = 1 if self.is_integer else (high - low) / 100
        value = self.value
        if value is None:
            value = self.range(3)[1]
        return kind(value=value, min=low, max=high, step=step, description=self.label)

    def range(self, n: int) -> list[float]:
        """`n` values from one end to the other, both included, or fewer where there are fewer integers."""
        spaced = np.geomspace if self.log else np.linspace
        values = spaced(self.low, self.high, n)
        if self.is_integer:
            values = np.unique(values.round().astype(int))
        return values.tolist()


class ImageWithSliders:
    """An image below sliders, whose bytes are replaced: nothing flickers. Without a kernel a reader sees the still.

    A subclass sets the image, and replaces it when a slider moves.

    Args:
        sliders: Name -> slider, from top to bottom.
        shows: What is in the image, for screen readers.

    Attributes:
        box: The widget that holds the sliders and the image.
    """

    def __init__(self, sliders: dict[str, Slider], shows: str = "A figure that the sliders change."):
        self._widgets = {name: slider.widget() for name, slider in sliders.items()}
        label_width = f"{max(len(slider.label) for slider in sliders.values())}ch"  # so that all begin alike
        for widget in self._widgets.values():
            widget.style.description_width = label_width
            widget.layout.width = f"calc({label_width} + 22em)"
        self._image = ipywidgets.Image(format="png")
        spoken = ipywidgets.HTML(SAY + shows, layout={"display": "none"})
        parts = [*self._widgets.values(), spoken, self._image]
        self.box = ipywidgets.VBox(parts, layout={"align_items": "flex-start"})  # else it stretches and blurs images

    @property
    def values(self) -> dict[str, float]:
        """Where each slider is, by its name."""
        return {name: widget.value for name, widget in self._widgets.items()}

    def _repr_mimebundle_(self, **kwargs) -> dict:
        """What Jupyter shows: the widgets, and the still image where they do not run."""
        still = base64.b64encode(self._image.value).decode()
        return {**self.box._repr_mimebundle_(**kwargs), "image/png": still}


class explore(ImageWithSliders):
    """A figure that is drawn anew when one of its sliders moves.

    Args:
        draw: Returns the figure for the values of the sliders, given by name. It does not use pyplot, which would
            keep every figure. The first line of its docstring is what screen readers say of the figure.
        **sliders: A slider for each argument of `draw`, from top to bottom.
    """

    def __init__(self, draw: Callable[..., Figure], **sliders: Slider):
        first_line = (draw.__doc__ or "").splitlines()[:1]
        super().__init__(sliders, *first_line)
        self._draw = draw
        self._sliders = sliders
        for widget in self._widgets.values():
            widget.observe(self._update, names="value")
        self._update()

    def _update(self, _change: object = None) -> None:
        """Draw the figure at the present values."""
        self._image.value = png(self._draw(**self.values))

    def sweep(self) -> None:
        """Move every slider to its ends and back, so that executing the notebook executes `draw` there."""
        for name, slider in self._sliders.items():
            for value in [*slider.range(2), self.values[name]]:
                self._widgets[name].value = value
        n = len(self._sliders)
        print(f"moved {n} slider{'s' * (n != 1)} through {3 * n} positions")


def copies(*panels: Axes) -> Callable[[], tuple[Figure, list[Axes]]]:
    """A function that copies a figure much faster than it is drawn, for sliders that change little of it.

    The copy has the figure as an image, since ticks and labels take most of the time of drawing.

    Args:
        *panels: The panels of one figure that shall be drawn into; it is drawn once, as it is now.

    Returns:
        A function without arguments. It returns a new figure of the same size, and a blank panel in the place of each
        of `panels`, with its limits, for what is drawn on top in its data units.
    """
    canvas = FigureCanvasAgg(panels[0].figure)
    canvas.draw()
    background = np.array(canvas.buffer_rgba())  # (height, width, 4), pixels

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
    """The `figure` as a PNG of its size in inches times its dpi, in pixels; compressed fast rather than small."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", pil_kwargs={"compress_level": 1})
    return buffer.getvalue()
