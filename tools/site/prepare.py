"""Writes the source of the web pages for Sphinx: python -m tools.site.prepare FOLDER

The first page (landing.py), the reference of the package (api.py), the guides, and each chapter with its committed
outputs, and
* where a figure has no alternative text, the text below it,
* drawings of lines marked, which a dark page shows light on dark (landing.py),
* the solution of each exercise in a dropdown below its check,
* links from formulas and imports to the reference,
* interactive figures that the browser draws (_static/figures), the first of them at its head,
* where conf.py knows the repository, links that run it elsewhere (colab.py).
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import torch
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tools.execute import read
from tools.site.api import Reference, anchor
from tools.site.chapters import ROOT, TAG, Chapter, chapters, imports
from tools.site.colab import buttons
from tools.site.landing import PARTS, is_drawing, landing
from tools.site.repository import REPOSITORY

GUIDES = ("TEACHING.md", "GLOSSARY.md", "NOTES.zh.md", "BENCHMARKS.md")
KATEX = ROOT / "docs/site/node_modules/katex/dist"
FIGURES = Path("experiments/benchmarks/figures")
BOARDS = Path("docs/boards")
# imported for the work of a chapter, not for its subject
TOOLS = tuple(f"possm_course.{name}" for name in ("checks", "diagrams", "exercises", "style", "widgets"))
LIVE = ("`docs/_build/html/live.html`", '<a href="live.html">live.html</a>')  # the page that live.py builds
INSIDE = '<p><a href="live.html#inside">Follow one spike through this machine, live</a></p>'
AGAIN = "The chapter explains what you see, and shows the figure again."
EXERCISE = re.compile(r"exercise:(\w+)")
# at the head of a file in _static/figures: name, the cell that it replaces or is below, cells that make its data, data
MOVING = re.compile(r'^// figure "(.+)" (at|below) ([\w-]+)(?:, from ([\w -]+))?:?((?:\n//   .+)*)', re.M)
FIRST = re.compile(r"^// first: (.+(?:\n//   .+)*)", re.M)  # there, too: what to do with the first of its figures
CHECK = re.compile(r"check\.(\w+)\(.*\)")  # a cell that checks an exercise
LIGHTNESS = re.compile(r"\b(black|white|bright|dark|pale|light|yellow|shade)(er|est|s)?\b")
NOQA = re.compile(r" *# noqa: [A-Z]+\d+(?:,? *(\S.*))?$", re.M)  # a mark for ruff, and what it says to a reader
CHINESE = re.compile(r"(?<=\| )[^|\n]*[\u4e00-\u9fff][^|\n]*(?= \|)")  # a cell of a table
WORD = re.compile(r"[a-z]{4,}")
STILL = '<p class="in-package">In the notebook this figure has sliders.</p>'


def main(folder: Path) -> None:
    """Write the source of all pages into `folder`, in place of what is there."""
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
        guide = relink((ROOT / "docs" / name).read_text(encoding="utf-8"))
        if name == "GLOSSARY.md":
            guide = CHINESE.sub(r'<span lang="zh">\g<0></span>', guide)
        (folder / name).write_text(guide, encoding="utf-8")
    for path in sorted((ROOT / "docs/handouts").glob("*.md")):
        text = relink(path.read_text(encoding="utf-8"))
        off_the_bar = f"---\norphan: true\n---\n\n{text}"  # TEACHING links to it, not the bar at the side
        (folder / f"handout_{path.name}").write_text(off_the_bar, encoding="utf-8")
    shutil.copytree(ROOT / BOARDS, folder / "boards")
    shutil.copytree(ROOT / FIGURES, folder / FIGURES)
    for name, text in reference.pages():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "index.md").write_text(index(course, deeper, folder / "cards"), encoding="utf-8")


def page(chapter: Chapter, reference: Reference) -> NotebookNode:
    """A chapter as a web page; code that is hidden in JupyterLab is folded."""
    notebook = read(chapter.path)
    notebook.cells = [cell for cell in notebook.cells if not cell.source.endswith(".sweep()")]  # tests of sliders
    notebook.metadata["description"] = plain(notebook.cells[0].source)
    add_alt_texts(notebook.cells)
    mark_drawings(notebook.cells)
    solutions = solutions_of(ROOT / "notebooks" / "solutions" / chapter.path.name)
    moving = moving_figures(chapter)
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = relink(link_formulas(cell.source, reference)).replace(*LIVE)
            continue
        cell.source = without_noqa(cell.source)
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
        if (cell.id in moving and moving[cell.id].replaces) or CHECK.fullmatch(cell.source.strip()):
            cell.outputs = []  # of a check: "not attempted yet"
        texts = [*figure_texts(cell, moving), *solution_texts(cell, solutions), *reference_texts(cell, reference)]
        if cell.id == "machine-12-figure":
            texts.append(INSIDE)
        cells += map(new_markdown_cell, texts)
    title, _, card = cells[0].source.partition("\n\n")
    head = [title, buttons(chapter.path, REPOSITORY), *early_figure(chapter, moving), card]
    notebook.cells = [*map(new_markdown_cell, head), *cells[1:]]
    if moving:
        tags = [f'<script src="_static/figures/{name}.js"></script>' for name in ("axes", "controls", chapter.name)]
        notebook.cells.append(new_markdown_cell("".join(tags)))
    return notebook


def without_noqa(code: str) -> str:
    """Code without marks for ruff; what follows one of them stays as a comment."""
    return NOQA.sub(lambda mark: f"  # {mark[1]}" if mark[1] else "", code)


class Moving(NamedTuple):
    """A figure that the browser draws.

    Attributes:
        replaces: whether it stands in place of the picture of its cell, not below it.
        html: with its data.
    """

    replaces: bool
    html: str


def figure_script(chapter: Chapter) -> Path:
    """Where the figures of a chapter are that the browser draws, if it has any."""
    return ROOT / f"docs/site/_static/figures/{chapter.name}.js"


def moving_figures(chapter: Chapter) -> dict[str, Moving]:
    """The figures of a chapter that the browser draws, by the id of their cell."""
    script = figure_script(chapter)
    if not script.exists():
        return {}
    sources, figures = {cell.id: cell.source for cell in chapter.cells}, {}
    for name, where, cell, made_by, expression in MOVING.findall(script.read_text(encoding="utf-8")):
        found = {"print": lambda *_: None}
        for id_ in made_by.split():
            exec(sources[id_], found)  # noqa: S102  (code of the course)
        made = eval(expression.replace("\n//", "") or "None", found)  # noqa: S307  (of a file beside this one)
        data = f'<script type="application/json">{json.dumps(made, default=rounded)}</script>'
        figures[cell] = Moving(where == "at", f'<figure class="moving" data-figure="{name}">{data}</figure>')
    return figures


def rounded(array) -> list:
    """An array or tensor as lists of numbers with seven decimals."""
    return torch.as_tensor(array).double().round(decimals=7).tolist()


def figure_texts(cell: NotebookNode, moving: dict[str, Moving]) -> list[str]:
    """What stands below a cell of code about its figure: that it is still here, and the one that moves."""
    figure = moving.get(cell.id)
    texts = []
    if "= explore(" in cell.source and not (figure and figure.replaces):
        texts.append(STILL)
    if figure:
        texts.append(figure.html)
    return texts


def solution_texts(cell: NotebookNode, solutions: dict[str, str]) -> list[str]:
    """The solution below the check of an exercise."""
    checked = CHECK.fullmatch(cell.source.strip())
    return [solutions[checked[1]]] if checked and checked[1] in solutions else []


def reference_texts(cell: NotebookNode, reference: Reference) -> list[str]:
    """Links to what a cell of code imports from the packages for the subject of its chapter."""
    places = [reference.find(*pair) for pair in imports(cell.source)]
    used = [place for place in places if place and not place[0].startswith(TOOLS)]
    return [f'<p class="in-package">In the package: {reference.links(used)}</p>'] if used else []


def early_figure(chapter: Chapter, moving: dict[str, Moving]) -> list[str]:
    """The first figure that moves, for the head of the page, below what to do with it; none without words for that."""
    for cell in chapter.cells:
        if cell.id in moving:
            said = FIRST.search(figure_script(chapter).read_text(encoding="utf-8"))
            if said is None:
                return []
            text = said[1].replace("\n//  ", "")
            figure = moving[cell.id].html.replace('class="moving"', 'class="moving first"')
            return [f"{text} {AGAIN}\n\n{figure}"]
    return []


def add_alt_texts(cells: list[NotebookNode]) -> None:
    """A figure whose cell has no alternative text in its metadata gets the beginning of the text below it."""
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        if not png_of(cell) or "mystnb" in cell.metadata:
            continue
        said = plain(after.source) if after is not None and after.cell_type == "markdown" else ""
        alt = said or "A figure drawn by the code above."
        cell.metadata["mystnb"] = {"image": {"alt": alt}}


def mark_drawings(cells: list[NotebookNode]) -> None:
    """Tag the cells of figures that a dark page may show with black and white exchanged: those of lines on white,
    unless the text around them speaks of what is dark or light."""
    texts = ["" if cell.cell_type == "code" else cell.source for cell in cells]
    for i, cell in enumerate(cells):
        before, after = [t for t in texts[:i] if t][-1:], [t for t in texts[i:] if t][:1]
        said = "\n".join([*before, *after, str(cell.metadata.get("mystnb", ""))])
        if (png := png_of(cell)) and is_drawing(png) and not LIGHTNESS.search(said):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "drawing"]


def png_of(cell: NotebookNode) -> str | None:
    """The last PNG among the outputs of a cell, in base64."""
    pngs = [output.data["image/png"] for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    return pngs[-1] if pngs else None


def plain(markdown: str) -> str:
    """The first two sentences of a Markdown text, without markup."""
    paragraph = first_paragraph(markdown)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    text = re.sub(r"[*_`>$\\{}\"]|<[^>]*>", "", " ".join(text.split()))
    sentences = re.split(r"(?<=[.?!]) (?=[A-Z])", text)
    return " ".join(sentences[:2]).strip()


def first_paragraph(markdown: str) -> str:
    """The first block of a Markdown text that is no heading, table or formula, "" if there is none."""
    for block in markdown.split("\n\n"):
        if block.strip() and not block.lstrip().startswith(("#", "|", "$$")):
            return block
    return ""


def solutions_of(path: Path) -> dict[str, str]:
    """The solutions of a chapter as Markdown dropdowns: the code and the text below it, by exercise."""
    if not path.exists():
        return {}
    cells, dropdowns = read(path).cells, {}
    for i, cell in enumerate(cells):
        for tag in cell.metadata.get("tags", []):
            if found := EXERCISE.fullmatch(tag):
                below = [c.source for c in cells[i + 1 : i + 3] if c.cell_type == "markdown"]
                text = relink("\n\n".join(below))
                code = f"```python\n{cell.source}\n```"
                dropdowns[found[1]] = f"::::{{dropdown}} A solution\n\n{code}\n\n{text}\n\n::::"
    return dropdowns


def relink(markdown: str) -> str:
    """Links as they are on the pages, where all notebooks are in one folder; links to other files become plain text."""
    guides = "|".join(map(re.escape, GUIDES))
    markdown = re.sub(rf"\]\((?:\.\./)+(?:docs/)?({guides})", r"](\1", markdown)
    markdown = markdown.replace(f"](../{FIGURES}/", f"]({FIGURES}/").replace("](../boards/", "](boards/")
    markdown = re.sub(r"\]\(handouts/(\w+\.md)\)", r"](handout_\1)", markdown)
    markdown = re.sub(
        r"\]\((?:\.\./|notebooks/)*deeper/(\d\d_\w+)\.ipynb(#[^)]*)?\)", r"](\1_deeper.ipynb\2)", markdown
    )
    markdown = re.sub(r"\]\((?:\.\./|notebooks/|solutions/)*(\d\d_\w+\.ipynb)(#[^)]*)?\)", r"](\1\2)", markdown)
    kept = rf"https?:|#|\d\d_\w+\.ipynb|{guides}|{FIGURES}/|boards/|handout_|mailto:"
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


def glossary_words() -> list[str]:
    """The English words of the terms in the glossary, for a search that finds nothing."""
    terms = (ROOT / "docs/GLOSSARY.md").read_text(encoding="utf-8").partition("\n## Terms")[2]
    return sorted({word for term in re.findall(r"^\| ([^|]+) \|", terms, re.M) for word in WORD.findall(term.lower())})


def index(course: list[Chapter], deeper: list[Chapter], images: Path) -> str:
    """The first page, with what is in the list at its side."""
    lists = {part: [c.name for c in course if int(c.number) in numbers] for part, numbers in PARTS.items()}
    if deeper:
        lists["Deeper"] = [chapter.name for chapter in deeper]
    lists["For teachers"] = ["TEACHING", "GLOSSARY"]
    lists["中文"] = ["NOTES.zh"]
    lists["For users"] = ["api", "BENCHMARKS"]
    trees = []
    for caption, names in lists.items():
        head = f"```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n:hidden:\n\n"
        trees.append(head + "\n".join(names) + "\n```\n")
    return "\n".join([landing(course, images), *trees])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
