"""Run notebooks anew, in place, and keep what they show but nothing of when and where they ran.

    python -m possm_lite.classroom.execute notebooks/*.ipynb

A notebook in which a cell fails stays as it was. Source, tags and cell ids are never touched.
"""

import argparse
import base64
import hashlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbformat import NotebookNode
from PIL import Image

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}


def execute(path: Path, timeout_s: float = 120) -> None:
    """Run the notebook at `path` in its own folder and put its outputs into it, all or nothing.

    Which code the outputs are of is noted beside them, so that a test can tell when they have gone stale.

    Raises:
        CellControlSignal, DeadKernelError: a cell raised, took longer than `timeout_s`, or killed the kernel.
    """
    notebook = read(path)
    run(notebook, path.parent, timeout_s)
    tidy(notebook)
    notebook.metadata["possm_lite"] = {"outputs_of": fingerprint(notebook)}
    write(notebook, path)


def run(notebook: NotebookNode, folder: Path, timeout_s: float, **hooks: Callable) -> None:
    """Run all cells in `folder`, in place; raises as `execute`. Hooks: those of `NotebookClient` by name."""
    NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name=KERNELSPEC["name"],
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
        **hooks,
    ).execute()


def fingerprint(notebook: NotebookNode) -> str:
    """Of all code in the notebook, in its order."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def read(path: Path) -> NotebookNode:
    """The notebook as format 4.5, the first with cell ids. A cell without an id is named by its place."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["nbformat_minor"] = max(5, raw["nbformat_minor"])
    for place, cell in enumerate(raw["cells"]):
        cell.setdefault("id", f"cell-{place}")
    return nbformat.reads(json.dumps(raw), as_version=4)


def tidy(notebook: NotebookNode) -> None:
    """Strip, in place, what differs from one machine or run to the next without the notebook having changed."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = KERNELSPEC
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not is_bare_widget(output)]
            for output in cell.outputs:
                data = output.get("data", {})
                data.pop(WIDGET_VIEW, None)
                if "image/png" in data:
                    data["image/png"] = fewer_colors(data["image/png"])


def is_bare_widget(output: NotebookNode) -> bool:
    """True where an output is a living widget and, for a reader without a kernel, nothing more than its repr."""
    kinds = set(output.get("data", {}))
    return WIDGET_VIEW in kinds and kinds <= {WIDGET_VIEW, "text/plain"}


def fewer_colors(png: str) -> str:
    """A picture, in base64, in 256 colours if that is smaller: a plot needs no more, and a page loads faster."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(buffer, format="PNG", optimize=True)
    small = base64.b64encode(buffer.getvalue()).decode()
    return min(small, png.strip(), key=len)


def write(notebook: NotebookNode, path: Path) -> None:
    """Write to a temporary file beside `path` and rename it: never half a notebook."""
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            nbformat.write(notebook, file)
        os.chmod(name, path.stat().st_mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m possm_lite.classroom.execute", description="Run notebooks anew.")
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="seconds a cell may take (120)")
    options = parser.parse_args(arguments)
    for path in options.notebooks:
        started = time.perf_counter()
        try:
            execute(path, options.timeout)
        except (CellControlSignal, DeadKernelError) as error:
            print(f"{path} stays as it was. {error}", file=sys.stderr)
            return 1
        print(f"{path}: {time.perf_counter() - started:.1f} s, {path.stat().st_size / 1e3:.0f} KB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
