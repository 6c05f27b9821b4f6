"""Execute notebooks in place and store their outputs, without anything specific to the time or the machine.

    python -m tools.execute notebooks/*.ipynb

A notebook in which a cell fails is not changed. Source, tags and cell ids never are.
"""

import argparse
import base64
import hashlib
import io
import json
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbformat import NotebookNode
from PIL import Image
from traitlets.config import Config

from possm_lite.recordings.arrays import atomic_write

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}


def execute(path: Path, timeout_s: float = 120) -> None:
    """Execute the notebook at `path` in its own folder and store all of its outputs in it, or none.

    The fingerprint of the code is stored with them, so that a test can detect stale outputs.

    Raises:
        CellControlSignal, DeadKernelError: a cell raised, took longer than `timeout_s`, or killed the kernel.
    """
    notebook = read(path)
    run(notebook, path.parent, timeout_s)
    tidy(notebook)
    notebook.metadata["possm_lite"] = {"outputs_of": fingerprint(notebook)}
    with atomic_write(path) as partial:
        partial.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")


def read(path: Path) -> NotebookNode:
    """The notebook at `path`."""
    return nbformat.read(path, as_version=4)


def run(notebook: NotebookNode, folder: Path, timeout_s: float) -> None:
    """Execute all cells of `notebook` in `folder`, each for at most `timeout_s` seconds; raises as `execute`."""
    # a kernel that has used processes of joblib waits for their keeper, which outlives it: two seconds, for nothing
    at_end = Config({"KernelManager": {"shutdown_wait_time": 1.0}})  # s: half of it to leave, half to be ended
    client = NotebookClient(
        notebook,
        config=at_end,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,
        timeout=timeout_s,
        kernel_name=KERNELSPEC["name"],
        extra_arguments=["--log-level=ERROR"],
    )
    client.execute()


def fingerprint(notebook: NotebookNode) -> str:
    """Hash of all code in the notebook, in order."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def tidy(notebook: NotebookNode) -> None:
    """Remove, in place, what depends on the machine or the run alone, and make images smaller."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = KERNELSPEC
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            tidy_outputs(cell)


def tidy_outputs(cell: NotebookNode) -> None:
    """Remove, in place, views of widgets from the outputs of a cell, and make images smaller."""
    # a widget with nothing but its repr shows nothing without a kernel
    cell.outputs = [out for out in cell.outputs if set(out.get("data", {})) - {"text/plain"} != {WIDGET_VIEW}]
    for output in cell.outputs:
        data = output.get("data", {})
        data.pop(WIDGET_VIEW, None)
        if "image/png" in data:
            data["image/png"] = fewer_colors(data["image/png"])


def fewer_colors(png: str) -> str:
    """A PNG, in base64, reduced to 256 colours if that is smaller: enough for a plot, and a page loads faster."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(buffer, format="PNG", optimize=True)
    small = base64.b64encode(buffer.getvalue()).decode()
    return min(small, png.strip(), key=len)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tools.execute", description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="seconds a cell may take (120)")
    options = parser.parse_args(arguments)
    for path in options.notebooks:
        started = time.perf_counter()
        try:
            execute(path, options.timeout)
        except (CellControlSignal, DeadKernelError) as error:
            print(f"{path} is not changed. {error}", file=sys.stderr)
            return 1
        print(f"{path}: {time.perf_counter() - started:.1f} s, {path.stat().st_size / 1e3:.0f} KB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
