"""What a benchmark yields while it runs: rows with their limits, tables, pictures, remarks."""

from __future__ import annotations

from dataclasses import dataclass, field

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Row:
    """A figure that something is claimed of.

    Args:
        what: was measured.
        measured: with its unit.
        limit: it must keep, in words; empty where there is none.
        holds: whether it does.
    """

    what: str
    measured: str
    limit: str = ""
    holds: bool = True


@dataclass(frozen=True)
class Table:
    """Figures side by side, all of them written out already.

    Args:
        title: what the table answers.
        head: of the columns.
        rows: one list of cells a row.
    """

    title: str
    head: list[str]
    rows: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Picture:
    """A plot.

    Args:
        name: of its file, without ending.
        says: what it shows, for who cannot see it.
        figure: drawn; None once it is a file.
    """

    name: str
    says: str
    figure: Figure | None = None


@dataclass(frozen=True)
class Note:
    """A remark: what was skipped, how something was measured."""

    text: str


Part = Row | Table | Picture | Note


def row(what: str, measured: float, form: str, limit: str = "", holds: bool = True) -> Row:
    """A row whose figure is written in a format such as "{:.0f} µs"."""
    return Row(what, form.format(measured), limit, bool(holds))
