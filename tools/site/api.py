"""The API reference: a page for each module of both packages, from its docstrings, linked with the chapters both ways.

Docstrings are Markdown with indented formulas, and Sphinx's autodoc expects reStructuredText: so the pages are written
here, from the source, with the directives that autodoc would produce. Nothing is imported, so nothing can be missing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from tools.site.chapters import ROOT, Chapter

# the folders of each package, and modules beside them, in the order of the list of modules
LAYERS = {
    "possm_lite": ("decoder", "nn", "recordings", "simulate", "training", "app", "errors"),
    "possm_course": ("chapters", "checks", "diagrams", "widgets", "style", "parallel", "stored"),
}
INTRODUCTION = (
    "What their functions compute, their shapes and their sources, by module. Chapters link to what they import, and "
    "each entry to the chapters that use it. `possm_lite` is the decoder and what a laboratory needs, `possm_course` "
    "what only the course uses."
)
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Source):(?: (.*))?$")
NUMBER = re.compile(r"\((\d+\.\d+)\)")
FIELDS = {"Returns": "returns", "Raises": "raises", "Source": "Source"}

Definition = ast.FunctionDef | ast.ClassDef


@dataclass
class Module:
    """A module of a package: its docstring and its public functions and classes by name."""

    name: str  # possm_lite.nn.attention
    source: str
    doc: str = field(init=False)
    public: dict[str, Definition] = field(init=False)

    def __post_init__(self):
        tree = ast.parse(self.source)
        self.doc = ast.get_docstring(tree) or ""
        self.public = {
            node.name: node for node in tree.body if isinstance(node, Definition) and not node.name.startswith("_")
        }


class Reference:
    """The modules of the packages, and which chapters import or number what is in them."""

    def __init__(self, chapters: list[Chapter]):
        self.modules = dict(_modules())
        self.chapters = chapters
        self.users = {}  # (module, name): the chapters that import it
        for chapter in chapters:
            for module, name in sorted({found for pair in chapter.imports if (found := self.find(*pair))}):
                self.users.setdefault((module, name), []).append(chapter)
        self.formulas = {number: (chapter, latex) for chapter in chapters for number, latex in chapter.formulas.items()}
        self.numbered = {}  # number of a formula: what has it in its docstring
        for module in self.modules.values():
            for name, node in module.public.items():
                for number in NUMBER.findall(_all_docs(node)):
                    if number in self.formulas:
                        self.numbered.setdefault(number, []).append((module.name, name))

    def find(self, imported_from: str, name: str) -> tuple[str, str] | None:
        """Module and name of a function or class, also where a package offers what one of its modules defines."""
        if imported_from in self.modules and name in self.modules[imported_from].public:
            return imported_from, name
        inside = [m for m, found in self.modules.items() if m.startswith(f"{imported_from}.") and name in found.public]
        return (inside[0], name) if len(inside) == 1 else None

    def links(self, places: list[tuple[str, str]]) -> str:
        """HTML links to functions and classes."""
        return ", ".join(f'<a href="{m}.html#{m}.{name}"><code>{name}</code></a>' for m, name in places)

    def pages(self) -> Iterator[tuple[str, str]]:
        """Name and Markdown of every page."""
        yield "api", self._index()
        for module in self.modules.values():
            yield module.name, self._page(module)

    def _index(self) -> str:
        lines = ["# The packages", "", "What their functions compute, their shapes and their sources, by module. "]
        lines[-1] += "Chapters link to what they import, and each entry to the chapters that use it. "
        lines[-1] += (
            "`possm_lite` is the decoder and what a laboratory needs, `possm_course` what only the course uses."
        )
        for package, layers in LAYERS.items():
            for layer in layers:
                inside = [m for m in self.modules.values() if m.name.split(".")[:2] == [package, layer]]
                lines += ["", f"## {package}.{layer}", ""]
                for module in inside:
                    summary = _markdown(module.doc.split("\n\n")[0].replace("\n", " "))
                    lines += [f"* [{_short(module.name)}]({module.name}.md): {summary}"]
        return "\n".join(lines) + "\n"

    def _page(self, module: Module) -> str:
        used = {c.name: c for name in module.public for c in self.users.get((module.name, name), [])}
        # not in the list at the side, which Sphinx renders on every page
        title = f"# {_short(module.name)}"
        lines = ["---", "orphan: true", "---", "", title, "", f"```{{py:module}} {module.name}", "```", ""]
        lines += self._body(module.doc)
        if used:
            lines += ["", "Chapters: " + ", ".join(_chapter_link(used[name]) for name in sorted(used)) + "."]
        for name, node in module.public.items():
            lines += ["", *self._entry(module, name, node)]
        return "\n".join(lines) + "\n"

    def _entry(self, module: Module, name: str, node: Definition) -> list[str]:
        content = self._content(node)
        if users := self.users.get((module.name, name)):
            content += [f":Chapters: {', '.join(map(_chapter_link, users))}"]
        if isinstance(node, ast.ClassDef):
            if kept := _fields(node, module.source):
                content = ["```python", *kept, "```", "", *content]
            for method in _methods(node):
                content += ["", *_directive("method", _signature(method, bound=True), self._content(method), 5)]
        return _directive("class" if isinstance(node, ast.ClassDef) else "function", _signature(node), content, 7)

    def _content(self, node: Definition) -> list[str]:
        return self._body(ast.get_docstring(node) or "", _parameters(node))

    def _body(self, doc: str, parameters: list[str] = ()) -> list[str]:
        """A docstring as Markdown: text, formulas, and its sections as a list of fields."""
        text, sections, lines = [], [], doc.splitlines()
        while lines:
            if not (found := SECTION.match(lines[0])):
                text.append(lines.pop(0))
                continue
            block, inline = [], found[2] or ""
            del lines[0]
            while lines and (lines[0].startswith("    ") or (inline and lines[0] and not SECTION.match(lines[0]))):
                block.append(lines.pop(0))
            sections += _section(found[1], inline, block, parameters)
        return [*self._text(text), "", *sections]

    def _text(self, lines: list[str]) -> list[str]:
        """Paragraphs and, where indented after an empty line, formulas, with the chapter's form of numbered ones."""
        out = []
        for block in re.split(r"\n\n+", "\n".join(lines).strip("\n")):
            if block.startswith("    "):
                formula = re.sub(r"(?m)^ {4}", "", block)
                near = re.sub(r"(?m) {3,}(?=\(\d+\.\d+\)$)", "   ", formula)  # its number, on the right in the source
                out += ["```{code-block} text", ":class: formula", "", near, "```", ""]
            else:
                out += [_markdown(block), ""]
            for number in NUMBER.findall(block):
                if number in self.formulas:
                    chapter, latex = self.formulas[number]
                    link = f'<a href="{chapter.name}.html#{anchor(number)}">({number})</a>'
                    out += [f"In chapter {chapter.number}, formula {link}:", "", f"$$\n{latex.rstrip(' .,')}\n$$", ""]
        return out


def anchor(number: str) -> str:
    """The id of a numbered formula on the page of its chapter."""
    return f"formula-{number.replace('.', '-')}"


def _modules() -> Iterator[tuple[str, Module]]:
    for package, layers in LAYERS.items():
        for layer in layers:
            for path in sorted((ROOT / package / layer).rglob("*.py")) or [ROOT / package / f"{layer}.py"]:
                parts = path.relative_to(ROOT).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                module = Module(name, path.read_text(encoding="utf-8"))
                if module.public:
                    yield name, module


def _short(module: str) -> str:
    """The name of a module without its package: nn.attention, chapters.ch01.kernels."""
    return module.partition(".")[2]


def _all_docs(node: Definition) -> str:
    nodes = [node, *(_methods(node) if isinstance(node, ast.ClassDef) else [])]
    return "\n".join(ast.get_docstring(n) or "" for n in nodes)


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods that are public and documented; `forward` and `step` of a module are known without a docstring."""
    methods = (n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"))
    return [n for n in methods if ast.get_docstring(n)]


def _parameters(node: Definition) -> list[str]:
    if isinstance(node, ast.ClassDef):
        own = [n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        init = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        return own + [name for n in init for name in _parameters(n)]
    a = node.args
    return [arg.arg for arg in (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg) if arg]


def _fields(node: ast.ClassDef, source: str) -> list[str]:
    """The lines of a dataclass or named tuple that declare its fields, with their comments."""
    own = [n for n in node.body if isinstance(n, ast.AnnAssign)]
    if not own:
        return []
    return [line.removeprefix("    ") for line in source.splitlines()[own[0].lineno - 1 : own[-1].end_lineno]]


def _signature(node: Definition, bound: bool = False) -> str:
    if isinstance(node, ast.ClassDef):
        init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        return node.name + (_signature(init, bound=True).removeprefix("__init__") if init else "")
    arguments = ast.unparse(node.args)
    static = any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)
    if bound and not static:
        arguments = re.sub(r"^\w+(, |$)", "", arguments)
    if any(ast.unparse(d).endswith("property") for d in node.decorator_list):
        return node.name
    return f"{node.name}({arguments})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def _directive(kind: str, signature: str, content: list[str], colons: int) -> list[str]:
    fence = ":" * colons
    return [f"{fence}{{py:{kind}}} {signature}", "", *content, "", fence]


def _section(title: str, inline: str, block: list[str], parameters: list[str]) -> list[str]:
    """A section of a docstring as fields. Parameters are listed one a line, or in one line after semicolons."""
    if title in ("Args", "Attributes"):
        if inline:
            whole = " ".join([inline, *(line.strip() for line in block)])
            items = re.split(rf"; (?=(?:{'|'.join(map(re.escape, parameters)) or '$^'})\b[^;:]*: )", whole)
        else:
            items = _items(block)
        fields = [item.partition(": ") for item in items]
        return [f":param {names}: {_markdown(text)}" for names, _, text in fields]
    items = [inline, *(line.strip() for line in block)] if inline else None
    if title == "Raises" and not inline:
        return [f":raises {error}: {_markdown(text)}" for error, _, text in (i.partition(": ") for i in _items(block))]
    text = " ".join(items) if items else " ".join(line.strip() for line in block)
    return [f":{FIELDS[title]}: {_markdown(text)}"]


def _items(block: list[str]) -> list[str]:
    """The items of an indented list: a line that is indented further continues the one before."""
    items = []
    for line in block:
        if line.startswith("     ") and items:
            items[-1] += " " + line.strip()
        elif line.strip():
            items.append(line.strip())
    return items


def _markdown(text: str) -> str:
    """Text of a docstring in which only code between backticks and the bullets of lists are markup."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"(?m)(?<!^)[*]|[\\<>$\[\]|{}]", lambda found: f"\\{found[0]}", part) for part in parts[::2]]
    return "".join(parts)


def _chapter_link(chapter: Chapter) -> str:
    return f'<a href="{chapter.name}.html">{escape(chapter.title)}</a>'
