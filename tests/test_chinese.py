"""The pages in Chinese say what the English ones say: NOTES.zh the chapters, README.zh the README."""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTES = (ROOT / "docs" / "NOTES.zh.md").read_text(encoding="utf-8")
README, README_ZH = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md"))

LINK = re.compile(r"!?\[([^\]]*)\]\(([^)]*)\)")
CHAPTER = re.compile(r"(\d\d)( 进阶)?(?: §(\d+))?")  # 06, 06 §3, 06 进阶, 02 进阶 §1
DISPLAY = re.compile(r"\$\$(.+?)\$\$", flags=re.DOTALL)
INLINE = re.compile(r"(?<!\$)\$([^$]+)\$(?!\$)")
TAG = re.compile(r"\\tag\{([^}]*)\}")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def same(formula: str) -> str:
    """A formula without white space and without the sign of punctuation at its end."""
    return re.sub(r"[.,:](?=\\tag|$)", "", re.sub(r"\s", "", formula))


def slug(heading: str) -> str:
    """The anchor of a heading, on the pages of the site and on those of GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@cache
def notebook(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells)


def section(target: str, number: str | None) -> str:
    """The section of a notebook that a link leads to, by its number or its anchor; else the notebook."""
    name, _, anchor = target.partition("#")
    parts = re.split(r"^(?=##+ )", notebook((ROOT / "docs" / name).resolve()), flags=re.MULTILINE)
    heads = [part.splitlines()[0] for part in parts]
    if number:
        begin = next((i for i, head in enumerate(heads) if head.startswith(f"## {number}. ")), None)
        assert begin, f"docs/NOTES.zh.md: {name} has no section {number}"
        ends = [i for i, head in enumerate(heads) if i > begin and head.startswith("## ")]
        return "".join(parts[begin : ends[0] if ends else None])
    if anchor:
        found = [part for part, head in zip(parts, heads, strict=True) if slug(head.strip("# ")) == anchor]
        assert found, f"docs/NOTES.zh.md: {name} has no heading with the anchor #{anchor}"
        return found[0]
    return "".join(parts)


def sources(block: str) -> list[str]:
    """The sections of the chapters that a block links to."""
    linked = [(CHAPTER.fullmatch(text), target) for text, target in LINK.findall(block) if "ipynb" in target]
    return [section(target, name[3]) for name, target in linked if name]


def blocks() -> list[str]:
    """The pieces of NOTES.zh that belong to one statement: a row, a numbered slip, else a paragraph."""
    pieces = []
    for part in re.split(r"^(?=###? )", NOTES, flags=re.MULTILINE):
        if part.startswith("### "):
            pieces.append(part.split("\n", 1)[1])
        else:
            rows = [line for line in part.splitlines() if line.startswith("|")]
            rest = "\n".join(line for line in part.splitlines() if not line.startswith(("|", "#")))
            pieces += [*rows, *re.split(r"\n\n(?!\$\$)", rest)]
    return [piece for piece in pieces if piece.strip("|- \n")]


def numbers(block: str) -> list[str]:
    """The numbers of the prose: not of links, formulas, code, nor those of the notes themselves (000 to 004)."""
    prose = INLINE.sub(" ", DISPLAY.sub(" ", LINK.sub(" ", re.sub(r"`[^`]*`", " ", block))))
    return [number for number in NUMBER.findall(prose) if not re.fullmatch(r"00\d", number)]


@cache
def tagged() -> dict[str, str]:
    """All numbered formulas of the chapters."""
    every = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks/deeper").glob("*.ipynb")]
    found = [formula for path in every for formula in DISPLAY.findall(notebook(path)) if TAG.search(formula)]
    return {number: same(formula) for formula in found for number in TAG.findall(formula)}


def test_links_of_the_notes_lead_to_sections():
    for text, target in LINK.findall(NOTES):
        if target.startswith("#"):
            assert target[1:] in map(slug, re.findall(r"^##+ (.+)$", NOTES, flags=re.MULTILINE)), target
        elif "ipynb" in target:
            name = CHAPTER.fullmatch(text)
            assert name, f"the link {text!r} must be named after its section: [06 §3], [06 进阶 §3]"
            folder = "deeper/" if name[2] else ""
            assert re.fullmatch(rf"\.\./notebooks/{folder}{name[1]}_\w+\.ipynb(#[\w-]+)?", target), (text, target)
            section(target, name[3])


def test_formulas_of_the_notes_are_those_of_the_chapters():
    assert len(DISPLAY.findall(NOTES)) >= 10
    for formula in DISPLAY.findall(NOTES):
        (number,) = TAG.findall(formula)
        assert same(formula) == tagged()[number], f"({number}) is not the formula of its chapter: copy it"
    for block in blocks():
        known = [same(source) for source in sources(block)]
        for formula in INLINE.findall(DISPLAY.sub("", block)):
            found = any(same(formula) in source for source in known)
            assert found, f"${formula}$ is in no section that is linked beside it: {block[:120]}"


def test_numbers_of_the_notes_are_those_of_the_chapters():
    assert sum(len(numbers(block)) for block in blocks()) >= 60
    for block in blocks():
        known = {number for source in sources(block) for number in NUMBER.findall(source)}
        missing = [number for number in numbers(block) if number not in known]
        assert not missing, f"{missing} in no section that is linked beside: {block[:160]}"


def pieces(markdown: str) -> list[str]:
    """The paragraphs, rows and blocks of code of a README in order."""
    code = r"^```.*?^```$"
    parts = re.split(rf"({code})", markdown, flags=re.MULTILINE | re.DOTALL)
    lines = [[part] if part.startswith("```") else re.split(r"\n\n|\n(?=[|*]|\d\. |!\[)", part) for part in parts]
    return [piece.strip() for part in lines for piece in part if piece.strip()]


def without_comments(code: str) -> str:
    return "\n".join(re.sub(r"\s+#.*", "", line) for line in code.splitlines())


PAIRS = list(zip(pieces(README), pieces(README_ZH), strict=False))


def test_readme_zh_has_the_pieces_of_the_readme():
    kinds = [["".join(re.findall(r"^[#|`!]", piece)) for piece in pieces(text)] for text in (README, README_ZH)]
    assert kinds[0] == kinds[1], (
        "README.zh.md must have the headings, paragraphs, rows and blocks of code of README.md, in the same order"
    )


@pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=[str(i) for i in range(len(PAIRS))])
def test_readme_zh_agrees_with_the_readme(english, chinese):
    """Commands, numbers, names in code and links of each piece are those of the English one."""
    if english.startswith("```"):
        assert without_comments(english) == without_comments(chinese), "README.zh.md has another command"
        assert Counter(NUMBER.findall(english)) == Counter(NUMBER.findall(chinese)), "comments have other numbers"
        return
    targets = [[target for _, target in LINK.findall(text)] for text in (english, chinese)]
    languages = [[t for t in each if t not in ("README.md", "README.zh.md")] for each in targets]
    assert languages[0] == languages[1], "README.zh.md has other links, or in another order"
    code = [Counter(re.findall(r"`([^`]+)`", LINK.sub(" ", text))) for text in (english, chinese)]
    assert code[0] == code[1], "README.zh.md names other files or commands"
    prose = [re.sub(r"`[^`]*`", " ", LINK.sub(" ", text)) for text in (english, chinese)]
    found = [Counter(NUMBER.findall(text)) for text in prose]
    assert found[0] == found[1], "README.zh.md has other numbers"
    assert english[0] in "|!#[" or re.search(r"[\u4e00-\u9fff]", chinese), "not in Chinese"
