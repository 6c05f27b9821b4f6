"""Writes the source of the web pages for Sphinx: python -m tools.site.prepare FOLDER

The first page (landing.py), the reference of the package (api.py), the guides, and each chapter with its committed
outputs, and
* the text below a figure as its alternative text,
* the solution of each exercise in a dropdown below its check,
* links from formulas and imports to the reference,
* interactive figures that the browser draws (_static/figures),
* where conf.py knows the repository, links that run it elsewhere (colab.py).
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
import torch
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tools.execute import read
from tools.site.api import Reference, anchor
from tools.site.chapters import ROOT, TAG, Chapter, chapters, imports
from tools.site.colab import buttons
from tools.site.landing import PARTS, landing
from tools.site.repository import REPOSITORY

GUIDES = ("TEACHING.md", "GLOSSARY.md", "BENCHMARKS.md")
KATEX = ROOT / "docs/site/node_modules/katex/dist"
FIGURES = Path("experiments/benchmarks/figures")
# imported for the work of a chapter, not for its subject
TOOLS = tuple(f"possm_course.{name}" for name in ("checks", "diagrams", "exercises", "style", "widgets"))
LIVE = ("`docs/_build/html/live.html`", '<a href="live.html">live.html</a>')  # the page that live.py builds
INSIDE = '<p><a href="live.html#inside">Follow one spike through this machine, live</a></p>'
FIRST = "Move it first; the chapter explains it, and shows it again.\n\n"
EXERCISE = re.compile(r"exercise:(\w+)")
# at the head of a file in _static/figures: name, the cell that it replaces or is below, cells that make its data, data
MOVING = re.compile(r'^// figure "(.+)" (at|below) ([\w-]+)(?:, from ([\w -]+))?:?((?:\n//   .+)*)', re.M)
STILL = '<p class="in-package">In the notebook this figure has sliders.</p>'


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder = folder.resolve()
    (folder / "_extra/_static").mkdir(parents=True)
    for file in (KATEX / "katex.min.js", KATEX / "katex.min.css", KATEX / "fonts"):
        copy = shutil.copytree if file.is_dir() else shutil.copy
        copy(file, folder / "_extra/_static" / file.name)
    os.chdir(ROOT / "notebooks")  # where the cells run that make the data of moving figures
    course, deeper = chapters(), chapters("notebooks/deeper")
    reference = Reference(course + deeper)
    for chapter in course + deeper:
        nbformat.write(page(chapter, reference), folder / f"{chapter.name}.ipynb")
    for name in GUIDES:
        (folder / name).write_text(relink((ROOT / "docs" / name).read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copytree(ROOT / FIGURES, folder / FIGURES)
    for name, text in reference.pages():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "index.md").write_text(index(course, deeper, folder / "cards"), encoding="utf-8")


def page(chapter: Chapter, reference: Reference) -> NotebookNode:
    """A chapter as a web page; code that is hidden in JupyterLab is folded."""
    path, notebook = chapter.path, read(chapter.path)
    notebook.cells = [cell for cell in notebook.cells if not cell.source.endswith(".sweep()")]  # tests of sliders
    notebook.metadata["description"] = plain(notebook.cells[0].source)
    add_alt_texts(notebook.cells)
    solutions = solutions_of(ROOT / "notebooks" / "solutions" / path.name)
    scripts = [f"_static/figures/{name}.js" for name in ("axes", "controls", chapter.name)]
    moving = moving_figures(chapter) if (ROOT / "docs/site" / scripts[-1]).exists() else {}
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = relink(link_formulas(cell.source, reference)).replace(*LIVE)
            continue
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
        where, html = moving.get(cell.id, ("", ""))
        if where == "at":
            cell.outputs = []
        elif "= explore(" in cell.source:
            cells.append(new_markdown_cell(STILL))
        cells += [new_markdown_cell(html)] if html else []
        if (checked := re.fullmatch(r"check\.(\w+)\(.*\)", cell.source.strip())) and checked[1] in solutions:
            cells.append(new_markdown_cell(solutions[checked[1]]))
        used = [found for pair in imports(cell.source) if (found := reference.find(*pair))]
        used = [(module, name) for module, name in used if not module.startswith(TOOLS)]
        if used:
            cells.append(new_markdown_cell(f'<p class="in-package">In the package: {reference.links(used)}</p>'))
        cells += [new_markdown_cell(INSIDE)] if cell.id == "machine-12-figure" else []
    late = next((i for i, cell in enumerate(notebook.cells) if cell.id in moving), 0)
    if 3 * late > len(notebook.cells):  # on a long page, the first figure that moves is at its beginning, too
        cells.insert(1, new_markdown_cell(FIRST + moving[notebook.cells[late].id][1]))
    cells.insert(1, new_markdown_cell(buttons(path, REPOSITORY)))
    if moving:
        cells.append(new_markdown_cell("".join(f'<script src="{script}"></script>' for script in scripts)))
    notebook.cells = cells
    return notebook


def moving_figures(chapter: Chapter) -> dict[str, tuple[str, str]]:
    """By the id of a cell, whether a figure that the browser draws replaces its picture, and the HTML with its data."""
    head = (ROOT / f"docs/site/_static/figures/{chapter.name}.js").read_text(encoding="utf-8")
    sources, figures = {cell.id: cell.source for cell in chapter.cells}, {}
    for name, where, cell, made_by, expression in MOVING.findall(head):
        found = {"print": lambda *_: None}
        for id_ in made_by.split():
            exec(sources[id_], found)  # noqa: S102  (code of the course)
        made = eval(expression.replace("\n//", "") or "None", found)  # noqa: S307  (of a file beside this one)
        data = json.dumps(made, default=lambda x: torch.as_tensor(x).double().round(decimals=7).tolist())
        script = f'<script type="application/json">{data}</script>'
        figures[cell] = where, f'<figure class="moving" data-figure="{name}">{script}</figure>'
    return figures


def add_alt_texts(cells: list[NotebookNode]) -> None:
    """The alternative text of a figure is the beginning of the text below it."""
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        if cell.cell_type == "code" and any("image/png" in o.get("data", {}) for o in cell.outputs):
            said = plain(after.source) if after is not None and after.cell_type == "markdown" else ""
            alt = said or "A figure drawn by the code above."
            cell.metadata["mystnb"] = {"image": {"alt": alt}}


def plain(markdown: str) -> str:
    """The first two sentences of a Markdown text, without markup."""
    paragraph = next(
        (p for p in markdown.split("\n\n") if p.strip() and not p.lstrip().startswith(("#", "|", "$$"))), ""
    )
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    text = re.sub(r"[*_`>$\\{}\"]|<[^>]*>", "", " ".join(text.split()))
    return " ".join(re.split(r"(?<=[.?!]) (?=[A-Z])", text)[:2]).strip()


def solutions_of(path: Path) -> dict[str, str]:
    """The solutions of a chapter as Markdown dropdowns: the code and the text below it, by exercise."""
    if not path.exists():
        return {}
    cells, dropdowns = read(path).cells, {}
    for i, cell in enumerate(cells):
        found = next((m for m in map(EXERCISE.fullmatch, cell.metadata.get("tags", [])) if m), None)
        if found:
            text = "\n\n".join(c.source for c in cells[i + 1 : i + 3] if c.cell_type == "markdown")
            text = relink(text)
            dropdowns[found[1]] = f"::::{{dropdown}} A solution\n\n```python\n{cell.source}\n```\n\n{text}\n\n::::"
    return dropdowns


def relink(markdown: str) -> str:
    """Links as they are on the pages, where all notebooks are in one folder; links to other files become plain text."""
    guides = "|".join(map(re.escape, GUIDES))
    markdown = re.sub(rf"\]\((?:\.\./)+(?:docs/)?({guides})", r"](\1", markdown)
    markdown = markdown.replace(f"](../{FIGURES}/", f"]({FIGURES}/")
    markdown = re.sub(
        r"\]\((?:\.\./|notebooks/)*deeper/(\d\d_\w+)\.ipynb(#[^)]*)?\)", r"](\1_deeper.ipynb\2)", markdown
    )
    markdown = re.sub(r"\]\((?:\.\./|notebooks/|solutions/)*(\d\d_\w+\.ipynb)(#[^)]*)?\)", r"](\1\2)", markdown)
    kept = rf"https?:|#|\d\d_\w+\.ipynb|{guides}|{FIGURES}/|mailto:"
    return re.sub(rf"\[([^\]]+)\]\((?!{kept})[^)]*\)", r"\1", markdown)


def link_formulas(markdown: str, reference: Reference) -> str:
    """An anchor at each numbered formula, and below it links to the functions that compute it."""

    def link(formula: re.Match) -> str:
        numbers = TAG.findall(formula[0])
        anchors = "".join(f'<span id="{anchor(number)}"></span>\n' for number in numbers)
        computed = [place for number in numbers for place in reference.numbered.get(number, [])]
        code = f'\n\n<p class="in-package">In the package: {reference.links(computed)}</p>\n\n' if computed else ""
        return f"{anchors}\n{formula[0]}{code}"

    return re.sub(r"^\$\$.+?\$\$", link, markdown, flags=re.M | re.S)


def index(course: list[Chapter], deeper: list[Chapter], images: Path) -> str:
    """The first page, with what is in the list at its side."""
    lists = {part: [c.name for c in course if int(c.number) in numbers] for part, numbers in PARTS.items()}
    lists |= {"Deeper": [c.name for c in deeper]} if deeper else {}
    lists |= {"For teachers": ["TEACHING", "GLOSSARY"], "For users": ["api", "BENCHMARKS"]}
    trees = [
        f"```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n:hidden:\n\n" + "\n".join(names) + "\n```\n"
        for caption, names in lists.items()
    ]
    return "\n".join([landing(course, images), *trees])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
