"""`python -m experiments.benchmarks [SECTION ...]`: measure, print the values with their limits, write the pages."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import joblib

from . import (
    accuracy,
    classes,
    course,
    faults,
    latency,
    layouts,
    live,
    possible,
    readme_claims,
    recipe,
    suite,
    training,
    trials,
    weights,
)
from .machine import describe
from .page import ROOT, Item, Note, Row, save_results, write_page

SECTIONS: dict[str, Callable[[bool], Iterator[Item]]] = {
    "claims": readme_claims.measure,
    "latency": latency.measure,
    "live": live.measure,
    "training": training.measure,
    "accuracy": accuracy.measure,
    "possible": possible.measure,
    "intervals": recipe.measure_intervals,
    "recipe": recipe.measure,
    "classes": classes.measure,
    "codes": accuracy.measure_codes,
    "trials": trials.measure,
    "weights": weights.measure,
    "layouts": layouts.measure,
    "course": course.measure,
    "faults": faults.measure,
    "suite": suite.measure,
}


def main(argv: list[str] | None = None) -> int:
    """Run the benchmarks. Exit status 1: a limit is missed; 2: an unknown section."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=...", description="Measure speed and accuracy.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--short", action="store_true", help="only test that it runs; the values mean nothing")
    parser.add_argument("--out", type=Path, default=ROOT, metavar="DIR", help="write there, not into the repository")
    parser.add_argument("--page", action="store_true", help="only write the page, from the saved results")
    options = parser.parse_args(argv)
    unknown = sorted(set(options.sections) - set(SECTIONS))
    if unknown:
        parser.error(f"unknown section {unknown[0]!r}; choose from {', '.join(SECTIONS)}")
    if options.short and options.out == ROOT:
        parser.error("values of --short are not for the page; name another folder: --out DIR")
    names = options.sections or list(SECTIONS)
    if options.page:
        names = []
    with joblib.parallel_config(verbose=5):  # the progress of trainings side by side
        held = [_run_section(name, options) for name in names]
    print(f"written: {write_page(options.out)}")
    return 0 if all(held) else 1


def _run_section(name: str, options: argparse.Namespace) -> bool:
    """Measure a section, print its rows and notes as they come, save it. False if a limit is missed."""
    arguments = f"{name} --short" if options.short else name
    command = f'make bench ARGS="{arguments}"'
    metadata = {"date": time.strftime("%Y-%m-%d"), "command": command, "machine": describe()}
    start = time.perf_counter()
    items = []
    for item in SECTIONS[name](options.short):
        items.append(item)
        if isinstance(item, Row):
            state = "ok  " if item.holds else "MISS"
            print(f"{state}  {name:8}  {item.what:64}  {item.measured:>20}  {item.limit}".rstrip(), flush=True)
        elif isinstance(item, Note):
            print(f"      {name:8}  {item.text}", flush=True)
    metadata["seconds"] = round(time.perf_counter() - start, 1)
    save_results(options.out, name, metadata, items)
    return all(item.holds for item in items if isinstance(item, Row))


if __name__ == "__main__":
    sys.exit(main())
