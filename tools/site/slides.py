"""Builds the slides of the chapters, for a folder in that of the web pages: python -m tools.site.slides FOLDER

The metadata of each cell, under `slideshow`, has
* `slide_type`: slide, subslide, fragment, - (continued), notes (for the lecturer) or skip, as JupyterLab edits it;
* `text`: what the slides say in place of the cell's text, in sentences of their own: Markdown, one string a slide. The
  notes have the whole text of the cell.
* `show`: for a cell without `text`, the parts of its text that are on the slide, each given by its beginning, a formula
  by its number "(1.3)"; "---" starts a new slide. The notes have the whole text. For code, the parts are separated by
  two blank lines.
A slide has a picture, a formula, a table, a few lines of code, a result or a question, and at most `WORDS` words.
The tags `slide:no-input` and `slide:no-output` leave out the code or the output of a cell, as hidden code is anyway;
`slide:only-picture` leaves out the text that is printed beside a figure.
"""

import base64
import re
import shutil
import struct
import sys
from importlib import resources
from itertools import groupby
from pathlib import Path

from nbconvert import SlidesExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from tools.execute import read
from tools.site.prepare import ROOT, add_alt_texts, relink

STARTS, BREAK = ("slide", "subslide"), "---"
WORDS, CODE_LINES = 25, 12  # at most, on a slide
TALL = 0.7  # figures with a larger ratio of height to width leave too little room for text above and below
# the end of a sentence; `sentences` skips those between dollars or backticks
SENTENCE = re.compile(r"(?<=[.?!:])(?<!et al\.)(?:\*|\)|\"|”)*\s+(?=[\"“(*`$]*[A-Z0-9`$*])")


def main(folder: Path) -> None:
    """Write the slides of all chapters into `folder`, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    vendor(folder / "lib")
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        (folder / f"{path.stem}.slides.html").write_text(html(read(path)), encoding="utf-8")


def vendor(folder: Path) -> None:
    """Copy the scripts, styles and fonts of the slides from installed packages, so that they need no network."""
    reveal = resources.files("sphinx_revealjs") / "_static" / "revealjs"
    mathjax = resources.files("sphinx-mathjax-offline") / "static" / "mathjax"
    copies = {
        "reveal/reveal.js": reveal / "dist" / "reveal.js",
        "reveal/reveal.css": reveal / "dist" / "reveal.css",
        "reveal/notes.js": reveal / "plugin" / "notes" / "notes.js",
        "tex-svg.js": mathjax / "tex-svg.js",
        "slides.css": ROOT / "docs" / "site" / "_static" / "slides.css",
        "slides.js": ROOT / "docs" / "site" / "_static" / "slides.js",
    }
    fonts = reveal / "dist" / "theme" / "fonts" / "source-sans-pro"
    copies |= {f"fonts/{font.name}": font for font in fonts.iterdir() if not font.name.endswith((".eot", ".ttf"))}
    for name, source in copies.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(source.read_bytes())
    colours = HtmlFormatter(style="a11y-high-contrast-light").get_style_defs(".highlight")
    (folder / "code.css").write_text(colours, encoding="utf-8")


def html(notebook: NotebookNode) -> str:
    """A chapter as one page of slides."""
    config = Config(TagRemovePreprocessor={"enabled": True})
    config.TagRemovePreprocessor.remove_input_tags = {"slide:no-input"}
    exporter = SlidesExporter(
        config=config,
        extra_template_basedirs=[str(ROOT / "docs")],
        template_name="slides",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    page, _ = exporter.from_notebook_node(to_slides(notebook))
    return page.replace("<blockquote>\n<p><strong>Exercise", '<blockquote class="exercise">\n<p><strong>Exercise')


def to_slides(notebook: NotebookNode) -> NotebookNode:
    """The notebook divided into slides, each with the title of its section and the notes of all of its texts."""
    add_alt_texts(notebook.cells)
    section = notebook.cells[0].source.splitlines()[0].removeprefix("# ")
    notebook.metadata["title"] = section
    slides = [[]]
    for cell in notebook.cells:
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), "slide:no-input"})
        if cell.cell_type == "markdown" and (heading := re.match(r"## (.+)", cell.source)):
            section = heading[1]
        for piece in pieces(cell):
            kind = piece.metadata.slideshow.slide_type
            if kind in STARTS:
                slides.append([])
                if not (piece.cell_type == "markdown" and piece.source.startswith("#")):
                    slides[-1].append(slide_cell(f'<p class="section">{section}</p>', kind))
                    piece.metadata.slideshow.slide_type = "-"
            slides[-1].append(piece)
    del slides[0]  # what comes before the first slide
    for slide in slides:
        mark_figure(slide)
    notebook.cells = [cell for slide in slides for cell in notes_first(slide)]
    return notebook


def split(cells: list[NotebookNode]) -> list[list[NotebookNode]]:
    """The cells of `to_slides`, slide by slide."""
    slides = []
    for cell in cells:
        if cell.metadata.slideshow.slide_type in STARTS:
            slides.append([])
        slides[-1].append(cell)
    return slides


def shown_text(slide: list[NotebookNode]) -> str:
    """The Markdown on a slide."""
    texts = [c.source for c in slide if c.cell_type == "markdown" and not is_note(c)]
    return "\n\n".join(texts)


def notes(slide: list[NotebookNode]) -> str:
    """The notes of a slide."""
    return "\n\n".join(c.source for c in slide if is_note(c))


def is_note(cell: NotebookNode) -> bool:
    return cell.metadata.slideshow.slide_type == "notes"


def shows_code(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and "slide:no-input" not in cell.metadata.get("tags", [])


def count_words(text: str) -> int:
    """Words of running text: headings, formulas, tables, code and addresses of links are not counted."""
    text = re.sub(r'<p class="section">.*?</p>|```.*?```|\$\$.*?\$\$|\$.*?\$|`[^`]*`|&\w+;', " ", text, flags=re.S)
    text = re.sub(r"^>? *[#|].*$|\]\([^)]*\)", " ", text, flags=re.M)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def code_lines(slide: list[NotebookNode]) -> int:
    """Lines of code on a slide, without blank ones."""
    lines = [line for cell in slide if shows_code(cell) for line in cell.source.splitlines()]
    return sum(bool(line.strip()) for line in lines)


def shows_something(slide: list[NotebookNode]) -> bool:
    """Whether there is more than statements: a picture or result, code, a formula, a table, a question."""
    text = shown_text(slide)
    results = any(c.get("outputs") for c in slide) or code_lines(slide) > 0
    return results or bool(re.search(r"\$\$|^>? *\||```|\?|\*\*Exercise|\*\*Stop and think", text, flags=re.M))


def mark_figure(slide: list[NotebookNode]) -> None:
    """Set the slide's `data-picture`: "alone" for a figure only, "tall" for one that goes beside its text."""
    outputs = [output for c in slide for output in c.get("outputs", []) if "image/png" in output.get("data", {})]
    if len(outputs) != 1 or any(map(shows_code, slide)):
        return
    shown = [c for c in slide if not is_note(c)]
    has_section = shown[0].source.startswith('<p class="section">')
    width, height = png_size(outputs[0].data["image/png"])
    if len(shown) == 1 + has_section:
        slide[0].metadata.slideshow["data"] = {"picture": "alone"}
    elif height > TALL * width:
        slide[0].metadata.slideshow["data"] = {"picture": "tall"}


def png_size(png: str) -> tuple[int, int]:
    """Width and height in px of a PNG in base64, from its first 24 bytes."""
    return struct.unpack(">II", base64.b64decode(png[:32])[16:24])


def pieces(cell: NotebookNode) -> list[NotebookNode]:
    """The cells that a cell becomes: none, itself, or excerpts on one or more slides with the whole text as notes."""
    kind, show = cell.metadata.slideshow.slide_type, cell.metadata.slideshow.get("show")
    if kind == "skip":
        return []
    if cell.cell_type == "code":
        return [shown_code(cell, show)]
    text = link_pages(cell.source)
    if "text" in cell.metadata.slideshow:
        shown = [link_pages(part) for part in cell.metadata.slideshow["text"]]
    elif show is not None:
        groups = groupby(show, key=lambda start: start == BREAK)
        shown = [excerpt(text, list(group)) for is_break, group in groups if not is_break]
    else:
        return [slide_cell(text, kind)]
    first, *others = shown
    notes = slide_cell(text, "notes")
    return [slide_cell(first, kind), notes, *(slide_cell(part, "subslide") for part in others)]


def link_pages(markdown: str) -> str:
    """A text whose links to chapters and guides lead to the pages of `make site`."""
    return re.sub(r"\]\(([\w.]+)\.(?:ipynb|md)", r"](../\1.html", relink(markdown))


def shown_code(cell: NotebookNode, show: list[str] | None) -> NotebookNode:
    """The cell of code with what is on its slide: the outputs by its tags, of the code what begins with one of `show`,
    None: all."""
    cell.metadata["alt"] = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
    tags = cell.metadata.get("tags", [])
    if "slide:only-picture" in tags:
        cell.outputs = [output for output in cell.outputs if "image/png" in output.get("data", {})]
    if "slide:no-output" in tags:
        cell.outputs = []
    if show is not None:
        cell.source = definitions(cell.source, show)
    return cell


def definitions(source: str, show: list[str]) -> str:
    """The blocks of code that begin with one of `show`.

    Raises:
        ValueError: no block begins with one of them.
    """
    blocks = re.split(r"\n{3,}", source)
    if missing := [start for start in show if not any(block.startswith(start) for block in blocks)]:
        raise ValueError(f"nothing begins with {missing[0]!r} in the cell that begins with {source[:60]!r}")
    return "\n\n".join(block for block in blocks if block.startswith(tuple(show)))


def slide_cell(text: str, kind: str) -> NotebookNode:
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}})


def notes_first(slide: list[NotebookNode]) -> list[NotebookNode]:
    """The notes of a slide merged, after its first cell and outside of all fragments, so that they show at once."""
    shown = [cell for cell in slide if not is_note(cell)]
    if merged := notes(slide):
        shown.insert(1, slide_cell(merged, "notes"))
    return shown


def excerpt(text: str, show: list[str]) -> str:
    """The parts of a text that begin with one of `show`, in the order of the text.

    Raises:
        ValueError: no part begins with one of them.
    """
    missing, blocks = list(show), []
    for quoted, block in parts(text):
        taken = []
        for part in block:
            if starts := [start for start in show if begins(part, start)]:
                taken.append(part)
                missing = [start for start in missing if start != starts[0]]
        if taken:
            blocks.append(quotation(" ".join(taken), blocks) if quoted else " ".join(taken))
    if missing:
        raise ValueError(f"nothing begins with {missing[0]!r} in the cell that begins with {text[:60]!r}")
    return re.sub(r"\n\n(?=>\n)", "\n", "\n\n".join(blocks))


def quotation(text: str, before: list[str]) -> str:
    """The text as a quotation; one that follows on another in the blocks `before` stays one with it."""
    joint = ">\n" if before and before[-1].startswith(">") else ""
    return joint + re.sub(r"^", "> ", text, flags=re.M)


def begins(part: str, start: str) -> bool:
    """Whether a part of a text begins with `start`, or is the formula of that number, such as "(1.3)"."""
    if re.fullmatch(r"\(\d+\.\d+\w?\)", start):
        return part.startswith("$$") and rf"\tag{{{start[1:-1]}}}" in part
    return " ".join(part.split()).startswith(start)


def parts(text: str) -> list[tuple[bool, list[str]]]:
    """The blocks of a text with their parts, and whether they are quoted. The parts of a paragraph or item are its
    sentences; a heading, formula, table or piece of code is one part."""
    blocks = []
    for quoted, lines in groupby(text.splitlines(), key=lambda line: line.startswith(">")):
        if quoted:
            lines = [re.sub("^> ?", "", line) for line in lines]
        for block in split_blocks("\n".join(lines)):
            is_whole = re.match(r"[#|]|```|\$\$", block)
            blocks.append((quoted, [block] if is_whole else sentences(block)))
    return blocks


def split_blocks(text: str) -> list[str]:
    """Paragraphs, items, headings, tables, formulas and pieces of code of a text, in order."""
    blocks = []
    for piece in re.split(r"(^```.*?^```$|\$\$.+?\$\$)", text, flags=re.M | re.S):
        is_whole = piece[:1] in ("`", "$")
        blocks += [piece] if is_whole else re.split(r"\n\s*\n|\n(?=[*#-] )|\n(?=\d\. )", piece)
    return [block.strip() for block in blocks if block.strip()]


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph; a mark between dollars or backticks ends none."""
    found, start = [], 0
    for end in SENTENCE.finditer(paragraph):
        before = paragraph[start : end.end()]
        if before.count("$") % 2 == 0 and before.count("`") % 2 == 0:
            found.append(before.strip())
            start = end.end()
    found.append(paragraph[start:].strip())
    return [part for part in found if part]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
