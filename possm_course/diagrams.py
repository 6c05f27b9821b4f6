"""Diagrams of machines: boxes, arrows with shapes on them, matrices as grids, each placed by its middle.

    diagram = Diagram(6, 2)
    gru = diagram.box(1.5, 1, "GRU", "learned")
    readout = diagram.box(4.5, 1, "readout", "learned")
    diagram.arrow(gru, readout, "(T, D)")
    diagram.figure()

Places and sizes are in grid units: x grows to the right from 0, y upwards from 0. Sizes of text are in points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import dist
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from possm_course.style import BLUE, GRAY, INK, SKY, YELLOW


class Kind(NamedTuple):
    """How the boxes of one kind look.

    Attributes:
        fill: Colour inside.
        strength: How much of it is mixed with white, 0 to 1.
        edge: Colour of the outline.
        line: Width of the outline in points.
        corner: Radius of the corners in grid units; half a side is the most.
        outlines: How many outlines there are, one inside the other.
    """

    fill: str
    strength: float
    edge: str
    line: float
    corner: float
    outlines: int


# distinct in gray print, too
KINDS = {
    "data": Kind(GRAY, 0, INK, 1.0, 0, 1),
    "learned": Kind(SKY, 0.35, BLUE, 2.2, 0.12, 1),
    "operation": Kind(GRAY, 0.3, INK, 1.0, 9, 1),
    "memory": Kind(YELLOW, 0.35, INK, 1.0, 0, 2),
}


@dataclass(frozen=True)
class Box:
    """A rectangle, or a point, with anchors in the middle of its sides: `left`, `right`, `top`, `bottom`.

    Attributes:
        x: Its middle, in grid units from the left.
        y: Its middle, in grid units from below.
        width: In grid units.
        height: In grid units.
        rows: Rows of cells, of a matrix.
        columns: Columns of cells, of a matrix.
    """

    x: float
    y: float
    width: float = 0
    height: float = 0
    rows: int = 1
    columns: int = 1

    def at(self, side: str, fraction: float = 0.5) -> tuple[float, float]:
        """A point of the outline, in grid units.

        Args:
            side: "left", "right", "top" or "bottom".
            fraction: Where on that side: 0 is left or at the bottom, 1 right or at the top.

        Returns:
            Its x and y.
        """
        shares = {"left": (0, fraction), "right": (1, fraction), "bottom": (fraction, 0), "top": (fraction, 1)}
        from_left, from_below = shares[side]
        return self.x + (from_left - 0.5) * self.width, self.y + (from_below - 0.5) * self.height

    @property
    def left(self) -> tuple[float, float]:
        """The middle of the left side."""
        return self.at("left")

    @property
    def right(self) -> tuple[float, float]:
        """The middle of the right side."""
        return self.at("right")

    @property
    def bottom(self) -> tuple[float, float]:
        """The middle of the lower side."""
        return self.at("bottom")

    @property
    def top(self) -> tuple[float, float]:
        """The middle of the upper side."""
        return self.at("top")

    def facing(self, x: float, y: float) -> tuple[float, float]:
        """The anchor nearest to the point (`x`, `y`), in grid units."""
        anchors = (self.right, self.left, self.top, self.bottom)
        return min(anchors, key=lambda anchor: dist(anchor, (x, y)))

    def cell(self, row: int, column: int) -> "Box":
        """The cell of a matrix in `row` and `column`, counted from 0; row 0 is the upper one."""
        width = self.width / self.columns
        height = self.height / self.rows
        x = self.left[0] + (column + 0.5) * width
        y = self.top[1] - (row + 0.5) * height
        return Box(x, y, width, height)


class Diagram:
    """A drawing in grid units. What its methods draw they return as a `Box`, for arrows to begin and end at.

    Args:
        width: Of the drawing, in grid units, without a margin of 0.2.
        height: Of the drawing, in grid units, without the margin.
        inches: Width of the picture with its margins; a grid unit is equally long in both directions.

    Attributes:
        axes: Matplotlib's, in grid units, for anything else, such as curves.
    """

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

    def note(self, x: float, y: float, text: str, size: float = 9, **look) -> Bbox:
        """Text without a box.

        Args:
            x: Its middle, in grid units, unless `look` says ha="left" or "right".
            y: Its middle, in grid units, unless `look` says va="top", "bottom" or "baseline".
            text: May have several lines, and formulas between dollars.
            size: Of the letters, in points.
            **look: Other arguments of matplotlib's text: ha="left", color="red".

        Returns:
            Where it is, in grid units: `x0`, `x1`, `y0`, `y1`, `width`, `height`.
        """
        look = {"ha": "center", "va": "center", "color": INK, "zorder": 4, "linespacing": 1.15} | look
        extent = self.axes.text(x, y, text, size=size, **look).get_window_extent(self._renderer)
        return extent.transformed(self.axes.transData.inverted())

    def _rectangle(self, box: Box, color: str = GRAY, strength: float = 0, **look) -> None:
        """A rectangle with a colour mixed with white, 0 to 1; `look` is that of matplotlib's FancyBboxPatch."""
        fill = [1 - strength * (1 - part) for part in to_rgb(color)]
        look = {"boxstyle": "square,pad=0", "zorder": 2, "fc": fill, "ec": INK, "lw": 0.8} | look
        self.axes.add_patch(FancyBboxPatch(box.at("left", 0), box.width, box.height, **look))

    def _fit(self, box: Box, text: str, size: float) -> None:
        """Write text of this size, in points, into a box; ValueError if it overflows."""
        needed = self.note(box.x, box.y, text, size)
        if needed.width > box.width or needed.height > box.height:
            size = f"{needed.width:.2f} x {needed.height:.2f} grid units"
            raise ValueError(f"text overflows its box: {text!r} needs {size}.")

    def box(
        self,
        x: float,
        y: float,
        text: str = "",
        kind: str = "data",
        width: float | None = None,
        height: float | None = None,
    ) -> Box:
        """A box with text in it.

        Args:
            x: Its middle, in grid units.
            y: Its middle, in grid units.
            text: May have several lines, and formulas between dollars.
            kind: One of `KINDS`: "data", "learned", "operation" (a circle where width and height are equal) or
                "memory".
            width: In grid units; None: that of the text, with a margin.
            height: In grid units; None: that of the text, with a margin.

        Returns:
            The box.

        Raises:
            ValueError: the text overflows the box.
        """
        needed = self.note(x, y, text, 10, alpha=0)
        margin = 10 * self._point
        box = Box(x, y, width or needed.width + margin, height or needed.height + margin)
        look = KINDS[kind]
        style = self._box_style(kind, box)
        for i in range(look.outlines):
            gap = 5 * self._point * i
            inner = Box(x, y, box.width - gap, box.height - gap)
            self._rectangle(inner, look.fill, look.strength, ec=look.edge, lw=look.line, boxstyle=style)
        self._fit(box, text, 10)
        self._kinds.add(kind)
        return box

    @staticmethod
    def _box_style(kind: str, box: Box) -> str:
        """Matplotlib's name of the form of a box of a kind."""
        if kind == "operation" and box.width == box.height:
            return "circle,pad=0"
        corner = min(KINDS[kind].corner, box.width / 2, box.height / 2)
        return f"round,pad=0,rounding_size={corner}" if KINDS[kind].corner else "square,pad=0"

    def matrix(
        self,
        x: float,
        y: float,
        rows: int,
        columns: int,
        label: str = "",
        values: str | float | Sequence | None = "",
        shades: float | Sequence = 0.0,
        cell: float | tuple[float, float] = 0.5,
    ) -> Box:
        """A grid of cells.

        Args:
            x: Its middle, in grid units.
            y: Its middle, in grid units.
            rows: How many.
            columns: How many.
            label: Text above it.
            values: What the cells hold, broadcast to (rows, columns): text or numbers; None: hatched, for padding.
            shades: How blue the cells are, 0 to 1, broadcast to (rows, columns).
            cell: Size of a cell in grid units, or its width and height.

        Returns:
            The grid, which has a `cell` for each row and column.

        Raises:
            ValueError: a value overflows its cell.
        """
        cell_width, cell_height = np.broadcast_to(cell, 2)
        grid = Box(x, y, float(columns * cell_width), float(rows * cell_height), rows, columns)
        values = np.broadcast_to(np.array(values, dtype=object), (rows, columns))
        shades = np.broadcast_to(np.asarray(shades, dtype=float), (rows, columns))
        for (i, j), value in np.ndenumerate(values):
            padding = {"ec": GRAY, "hatch": "/////"} if value is None else {}
            self._rectangle(grid.cell(i, j), SKY, shades[i, j], **padding)
            self._fit(grid.cell(i, j), _cell_text(value), 9)
        self.note(x, grid.top[1] + 3 * self._point, label, va="bottom")
        return grid

    def frame(self, x: float, y: float, width: float, height: float, text: str = "") -> Box:
        """A dashed frame around what belongs together.

        Args:
            x: Its middle, in grid units.
            y: Its middle, in grid units.
            width: In grid units.
            height: In grid units.
            text: Its name, in the upper left corner.

        Returns:
            The frame.
        """
        frame = Box(x, y, width, height)
        gap = 5 * self._point
        self._rectangle(frame, ec=GRAY, ls=(0, (5, 3)), zorder=0)
        self.note(frame.left[0] + gap, frame.top[1] - gap, text, ha="left", va="top", weight="bold")
        return frame

    def dot(self, x: float, y: float) -> Box:
        """A dot at (`x`, `y`), in grid units, where a line divides; returns it as a box without a size."""
        self.axes.plot(x, y, "o", color=INK, ms=4.5, zorder=3)
        return Box(x, y)

    def arrow(
        self,
        a: Box | tuple[float, float],
        b: Box | tuple[float, float],
        label: str = "",
        curve: float = 0.0,
        via: Sequence[tuple[float, float]] = (),
        below: bool = False,
        dashed: bool = False,
        head: bool = True,
        color: str = INK,
    ) -> None:
        """An arrow, from the nearest anchor of what it begins at to that of what it ends at.

        Args:
            a: Where it begins: a box, or a point in grid units.
            b: Where it ends: a box, or a point in grid units.
            label: Text beside the middle of its longest straight part, over it or to the right.
            curve: How far it bends to the left, as a share of its length; only without `via`.
            via: Points in grid units that it passes, with straight lines between them.
            below: Whether the label is under the line, or left of an upright one.
            dashed: Whether the line is dashed.
            head: Whether it has a head, or is a line.
            color: Of the line and of the label.
        """
        a = a if isinstance(a, Box) else Box(*a)
        b = b if isinstance(b, Box) else Box(*b)
        after_a = via[0] if via else (b.x, b.y)
        before_b = via[-1] if via else (a.x, a.y)
        points = [a.facing(*after_a), *via, b.facing(*before_b)]
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
        self._label_line(label, middle, is_flat=abs(dx) >= abs(dy), below=below, color=color)

    def _label_line(self, label: str, middle: np.ndarray, is_flat: bool, below: bool, color: str) -> None:
        """Text over, under or beside the middle of a line, in grid units, which is flat or upright."""
        x, y = middle
        gap = (-4 if below else 4) * self._point
        if is_flat:
            self.note(x, y + gap, label, ha="center", va="top" if below else "bottom", color=color)
        else:
            self.note(x + gap, y, label, ha="right" if below else "left", va="center", color=color)

    def legend(self, x: float, y: float) -> None:
        """What the kinds of boxes mean, of those drawn so far, in a row that begins at `x`, with its middle at `y`."""
        for kind in KINDS:
            if kind not in self._kinds:
                continue
            key = self.box(x + 10 * self._point, y, "", kind, 20 * self._point, 14 * self._point)
            name = self.note(key.right[0] + 4 * self._point, y - 3 * self._point, kind, ha="left", va="baseline")
            x = name.x1 + 12 * self._point

    def figure(self) -> Figure:
        """The figure, which a notebook shows once as the value of a cell."""
        return self._figure


def _cell_text(value: str | float | None) -> str:
    """What a cell of a matrix shows: nothing for padding, a number with the minus sign of print."""
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:g}".replace("-", "−")
