"""Machines drawn: boxes, arrows with shapes on them, matrices as grids, each placed by its middle, in grid units."""

from dataclasses import dataclass
from math import dist

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from possm_course.style import BLUE, GRAY, INK, SKY, YELLOW

# fill and its strength, outline, line width, radius of the corners, number of outlines: distinct in gray print, too
KINDS = {
    "data": (GRAY, 0, INK, 1.0, 0, 1),
    "learned": (SKY, 0.35, BLUE, 2.2, 0.12, 1),
    "operation": (GRAY, 0.3, INK, 1.0, 9, 1),
    "memory": (YELLOW, 0.35, INK, 1.0, 0, 2),
}


@dataclass(frozen=True)
class Box:
    """A rectangle with anchors: `left`, `right`, `top`, `bottom`, `at(side, fraction)`. A matrix has cells, too."""

    x: float
    y: float
    width: float = 0
    height: float = 0
    rows: int = 1
    columns: int = 1

    def at(self, side: str, fraction: float = 0.5) -> tuple[float, float]:
        """A point of a side: fraction 0 is left or at the bottom, 1 right or at the top."""
        i, j = {"left": (0, fraction), "right": (1, fraction), "bottom": (fraction, 0), "top": (fraction, 1)}[side]
        return self.x + (i - 0.5) * self.width, self.y + (j - 0.5) * self.height

    left, right, bottom, top = (property(lambda self, s=s: self.at(s)) for s in ("left", "right", "bottom", "top"))

    def facing(self, x: float, y: float) -> tuple[float, float]:
        """The anchor nearest to a point."""
        return min((self.right, self.left, self.top, self.bottom), key=lambda anchor: dist(anchor, (x, y)))

    def cell(self, row: int, column: int) -> "Box":
        """A cell of a matrix; row 0 is the upper one."""
        width, height = self.width / self.columns, self.height / self.rows
        return Box(self.left[0] + (column + 0.5) * width, self.top[1] - (row + 0.5) * height, width, height)


class Diagram:
    """A drawing of `width` x `height` grid units, `inches` wide. Its `axes` are for anything else, such as curves."""

    def __init__(self, width: float, height: float, inches: float = 6.4):
        margin = 0.2  # so that nothing ends at the edge of the picture
        self._point = (width + 2 * margin) / inches / 72  # a point (1/72 inch) in grid units
        self._figure = plt.figure(figsize=(inches, (height + 2 * margin) / self._point / 72))
        plt.close(self._figure)  # pyplot forgets it, so a notebook shows it once: as the value of its cell
        self._renderer = FigureCanvasAgg(self._figure).get_renderer()
        limits = {"xlim": (-margin, width + margin), "ylim": (-margin, height + margin)}
        self.axes = self._figure.add_axes((0, 0, 1, 1), **limits)
        self.axes.axis("off")
        self._kinds = set()

    def note(self, x, y, text: str, size=9, **look) -> Bbox:
        """Text without a box, and where it is; `look` is matplotlib's: ha="left", color="red"."""
        look = {"ha": "center", "va": "center", "color": INK, "zorder": 4, "linespacing": 1.15} | look
        extent = self.axes.text(x, y, text, size=size, **look).get_window_extent(self._renderer)
        return extent.transformed(self.axes.transData.inverted())

    def _rectangle(self, box: Box, tint=(GRAY, 0), **look) -> None:
        fill = [1 - tint[1] * (1 - part) for part in to_rgb(tint[0])]
        look = {"boxstyle": "square,pad=0", "zorder": 2, "fc": fill, "ec": INK, "lw": 0.8} | look
        self.axes.add_patch(FancyBboxPatch(box.at("left", 0), box.width, box.height, **look))

    def _fit(self, box: Box, text: str, size: float) -> None:
        needed = self.note(box.x, box.y, text, size)
        if needed.width > box.width or needed.height > box.height:
            size = f"{needed.width:.2f} x {needed.height:.2f} grid units"
            raise ValueError(f"text overflows its box: {text!r} needs {size}.")

    def box(self, x, y, text="", kind="data", width: float | None = None, height: float | None = None) -> Box:
        """A box of one of KINDS. A size not given is that of the text; ValueError if the text overflows."""
        needed = self.note(x, y, text, 10, alpha=0)
        margin = 10 * self._point
        box = Box(x, y, width or needed.width + margin, height or needed.height + margin)
        *tint, edge, line, corner, outlines = KINDS[kind]
        style = f"round,pad=0,rounding_size={min(corner, box.width / 2, box.height / 2)}" if corner else "square,pad=0"
        style = "circle,pad=0" if kind == "operation" and box.width == box.height else style
        for gap in 5 * self._point * np.arange(outlines):
            self._rectangle(Box(x, y, box.width - gap, box.height - gap), tint, ec=edge, lw=line, boxstyle=style)
        self._fit(box, text, 10)
        self._kinds.add(kind)
        return box

    def matrix(self, x, y, rows: int, columns: int, label="", values="", shades=0.0, cell=0.5) -> Box:
        """A grid with its label above, `values` (None: hatched), `shades` 0..1; `cell`: size, or width and height."""
        width, height = np.broadcast_to(cell, 2) * (columns, rows)
        grid = Box(x, y, float(width), float(height), rows, columns)
        values = np.broadcast_to(np.array(values, dtype=object), (rows, columns))
        shades = np.broadcast_to(np.asarray(shades, dtype=float), (rows, columns))
        for i, value in np.ndenumerate(values):
            padding = {"ec": GRAY, "hatch": "/////"} if value is None else {}
            self._rectangle(grid.cell(*i), (SKY, shades[i]), **padding)
            text = value or "" if isinstance(value, str | None) else f"{value:g}".replace("-", "−")
            self._fit(grid.cell(*i), text, 9)
        self.note(x, grid.top[1] + 3 * self._point, label, va="bottom")
        return grid

    def frame(self, x, y, width: float, height: float, text="") -> Box:
        """A dashed frame around what belongs together, with its name in the upper left corner."""
        frame = Box(x, y, width, height)
        gap = 5 * self._point
        self._rectangle(frame, ec=GRAY, ls=(0, (5, 3)), zorder=0)
        self.note(frame.left[0] + gap, frame.top[1] - gap, text, ha="left", va="top", weight="bold")
        return frame

    def dot(self, x, y) -> Box:
        """Where a line divides."""
        self.axes.plot(x, y, "o", color=INK, ms=4.5, zorder=3)
        return Box(x, y)

    def arrow(self, a, b, label="", curve=0.0, via=(), below=False, dashed=False, head=True, color=INK) -> None:
        """From `a` to `b`, boxes or points: `via` other points, or bent left by `curve`; `below` is for the label."""
        a, b = (end if isinstance(end, Box) else Box(*end) for end in (a, b))
        points = [a.facing(*(via[0] if via else (b.x, b.y))), *via, b.facing(*(via[-1] if via else (a.x, a.y)))]
        steps = np.diff(points, axis=0)
        longest = np.hypot(*steps.T).argmax()
        dx, dy = steps[longest]
        middle = points[longest] + steps[longest] / 2
        path = Path(points)
        if curve:
            bend = curve * np.array([-dy, dx])
            path = Path([points[0], middle + bend, points[1]], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
            middle = middle + bend / 2
        style = "-|>,head_length=5,head_width=2.6" if head else "-"
        look = {"lw": 1.4, "ls": (0, (4, 2)) if dashed else "-", "color": color, "capstyle": "butt", "zorder": 3}
        self.axes.add_patch(FancyArrowPatch(path=path, arrowstyle=style, mutation_scale=1, **look))
        shift = (-4 if below else 4) * self._point
        over = (0, shift, "center", "top" if below else "bottom")  # or beside an upright arrow:
        x, y, ha, va = over if abs(dx) >= abs(dy) else (shift, 0, "right" if below else "left", "center")
        self.note(middle[0] + x, middle[1] + y, label, ha=ha, va=va, color=color)

    def legend(self, x, y) -> None:
        """What the kinds of boxes mean, of those drawn, in a row that begins at x."""
        for kind in filter(self._kinds.__contains__, KINDS):
            key = self.box(x + 10 * self._point, y, "", kind, 20 * self._point, 14 * self._point)
            name = self.note(key.right[0] + 4 * self._point, y - 3 * self._point, kind, ha="left", va="baseline")
            x = name.x1 + 12 * self._point

    def figure(self) -> Figure:
        return self._figure
