"""What the pages say about a chapter, read from its notebook: title, minutes, figures, formulas, imports."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nbformat import NotebookNode

from tools.execute import read

ROOT = Path(__file__).resolve().parents[2]
DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.S)
PACKAGES = ("possm_lite", "possm_course")
TAG = re.compile(r"\\tag\{(\d+\.\d+)\}")


@dataclass(frozen=True)
class Chapter:
    """A chapter, or what it can do without.

    Attributes:
        path: of its notebook.
    """

    path: Path

    @cached_property
    def cells(self) -> list[NotebookNode]:
        return read(self.path).cells

    @property
    def name(self) -> str:
        """Of its page: notebooks/deeper/04_positions.ipynb is 04_positions_deeper."""
        return self.path.stem + ("_deeper" if self.path.parent.name == "deeper" else "")

    @property
    def number(self) -> str:
        return self.name[:2]

    @cached_property
    def title(self) -> str:
        """As "01 · Kernel regression"."""
        return self.cells[0].source.splitlines()[0].removeprefix("# ")

    @cached_property
    def time(self) -> str:
        """Of reading and exercises, from the table at its head, as "40 to 55 minutes"."""
        return re.match(r".+? minutes", self._in_table("Time"))[0]

    @cached_property
    def aim(self) -> str:
        """What a reader can do afterwards, from the same table."""
        return self._in_table("After this you can")

    def _in_table(self, name: str) -> str:
        return re.search(rf"\*\*{name}\*\* \| (.+?) \|$", self.cells[0].source, re.M)[1]

    @cached_property
    def figures(self) -> dict[str, str]:
        """PNGs in base64 by the id of their cell, in order; the last one of each cell."""
        shown = {}
        for cell in self.cells:
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    shown[cell.id] = output["data"]["image/png"]
        return shown

    @cached_property
    def alts(self) -> dict[str, str]:
        """What is seen in a figure, by the id of its cell: the alternative text in the metadata of the cell."""
        found = {cell.id: cell.metadata.get("mystnb", {}).get("image", {}).get("alt") for cell in self.cells}
        return {cell: alt for cell, alt in found.items() if alt}

    @cached_property
    def formulas(self) -> dict[str, str]:
        """LaTeX of each numbered formula, without its number: {"4.1": ...}."""
        found = {}
        text = "\n\n".join(cell.source for cell in self.cells if cell.cell_type == "markdown")
        for display in DISPLAY.findall(text):
            several = len(TAG.findall(display)) > 1
            lines = re.split(r"\\\\(?:\[.*?\])?", display) if several else [display]
            for line in lines:
                for number in TAG.findall(line):
                    found[number] = TAG.sub("", line).strip()
        return found

    @cached_property
    def imports(self) -> set[tuple[str, str]]:
        """(module, name) of everything that the chapter imports from the package."""
        return {pair for cell in self.cells if cell.cell_type == "code" for pair in imports(cell.source)}


def chapters(folder: str = "notebooks") -> list[Chapter]:
    """The chapters, or with "notebooks/deeper" what they can do without."""
    return [Chapter(path) for path in sorted((ROOT / folder).glob("[0-9][0-9]_*.ipynb"))]


def imports(code: str) -> list[tuple[str, str]]:
    """(module, name) of each `from ... import` from one of our packages, in order; none if this is not plain Python."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a magic command
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            found += [(node.module, alias.name) for alias in node.names]
    return found
