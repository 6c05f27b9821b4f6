"""`python -m tests.benchmarks [NAME ...]`: measure, print beside the limits, and write BENCHMARKS.md anew."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import accuracy, claims, course, latency, training
from .machine import describe
from .parts import Note, Part, Row
from .report import keep, line, write_page

ROOT = Path(__file__).resolve().parents[2]
SECTIONS: dict[str, Callable[[bool], Iterator[Part]]] = {
    "claims": claims.measure,
    "latency": latency.measure,
    "training": training.measure,
    "accuracy": accuracy.measure,
    "course": course.measure,
}


def main(argv: list[str] | None = None) -> int:
    """Measure; 1 if a limit is missed, 2 for a name that is none of the sections."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=...", description="Measure what possm-lite claims.")
    parser.add_argument("only", nargs="*", metavar="NAME", help=f"of {', '.join(SECTIONS)}; default: all of them")
    parser.add_argument("--short", action="store_true", help="only see whether it runs; the figures mean nothing")
    parser.add_argument("--out", type=Path, default=ROOT, metavar="DIR", help="write there, not into the repository")
    parser.add_argument("--page", action="store_true", help="write the page from what was measured before, no more")
    options = parser.parse_args(argv)
    unknown = sorted(set(options.only) - set(SECTIONS))
    if unknown:
        parser.error(f"there is {', '.join(SECTIONS)}, and no {unknown[0]!r}")
    if options.short and options.out == ROOT:
        parser.error("figures of --short are not for the page; name a folder for them: --out DIR")
    names = [] if options.page else options.only or list(SECTIONS)
    held = [_measure(name, options) for name in names]
    print(f"written: {write_page(options.out)}")
    return 0 if all(held) else 1


def _measure(name: str, options: argparse.Namespace) -> bool:
    """Measure a section, print its rows as they come, and keep it. False if a limit is missed."""
    about = {
        "date": time.strftime("%Y-%m-%d"),
        "command": f'make bench ARGS="{name}{" --short" if options.short else ""}"',
        "machine": describe(),
    }
    began, parts = time.perf_counter(), []
    for part in SECTIONS[name](options.short):
        parts.append(part)
        if isinstance(part, Row):
            print(line(name, part), flush=True)
        elif isinstance(part, Note):
            print(f"      {name:8}  {part.text}", flush=True)
    keep(options.out, name, about | {"seconds": round(time.perf_counter() - began, 1)}, parts)
    return all(part.holds for part in parts if isinstance(part, Row))


if __name__ == "__main__":
    sys.exit(main())
