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
NUMBER = re.compile(r"\((\d+\.\d+)\)")
SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Source):(?: (.*))?$")
# the sections of a docstring that list items, by their title on the page; the others are running text
LISTS = {"Args": "Arguments", "Attributes": "Attributes", "Raises": "Raises"}

Definition = ast.FunctionDef | ast.ClassDef


@dataclass
class Module:
    """A module of a package.

    Attributes:
        name: such as "possm_lite.nn.attention".
        source: its code.
        doc: its docstring.
        public: its public functions and classes by name.
    """

    name: str
    source: str
    doc: str = field(init=False)
    public: dict[str, Definition] = field(init=False)

    def __post_init__(self):
        tree = ast.parse(self.source)
        self.doc = ast.get_docstring(tree) or ""
        definitions = [node for node in tree.body if isinstance(node, Definition)]
        self.public = {node.name: node for node in definitions if not node.name.startswith("_")}


class Reference:
    """The modules of the packages, and which chapters import or number what is in them.

    Args:
        chapters: all notebooks that become pages.

    Attributes:
        modules: by name.
        users: by module and name of a function or class, the chapters that import it.
        formulas: by number, such as "4.1", the chapter and the LaTeX of a formula.
        numbered: by number of a formula, module and name of what has the number in its docstring.
    """

    def __init__(self, chapters: list[Chapter]):
        self.modules = dict(_modules())
        self.formulas = {number: (chapter, latex) for chapter in chapters for number, latex in chapter.formulas.items()}
        self.users = self._users(chapters)
        self.numbered = self._numbered()

    def _users(self, chapters: list[Chapter]) -> dict[tuple[str, str], list[Chapter]]:
        users = {}
        for chapter in chapters:
            found = {self.find(*pair) for pair in chapter.imports} - {None}
            for place in sorted(found):
                users.setdefault(place, []).append(chapter)
        return users

    def _numbered(self) -> dict[str, list[tuple[str, str]]]:
        numbered = {}
        for module in self.modules.values():
            for name, node in module.public.items():
                for number in NUMBER.findall(_all_docs(node)):
                    if number in self.formulas:
                        numbered.setdefault(number, []).append((module.name, name))
        return numbered

    def find(self, imported_from: str, name: str) -> tuple[str, str] | None:
        """The module that defines a function or class, and its name.

        Args:
            imported_from: the module that defines it, or a package that offers what one of its modules defines.
            name: of the function or class.
        """
        if imported_from in self.modules and name in self.modules[imported_from].public:
            return imported_from, name
        inside = [m for m, found in self.modules.items() if m.startswith(f"{imported_from}.") and name in found.public]
        return (inside[0], name) if len(inside) == 1 else None

    def links(self, places: list[tuple[str, str]]) -> str:
        """HTML links to functions and classes, given by module and name."""
        return ", ".join(f'<a href="{m}.html#{m}.{name}"><code>{name}</code></a>' for m, name in places)

    def pages(self) -> Iterator[tuple[str, str]]:
        """Name and Markdown of every page."""
        yield "api", self._index()
        for module in self.modules.values():
            yield module.name, self._page(module)

    def _index(self) -> str:
        """The page that lists all modules, each with the first paragraph of its docstring."""
        lines = ["# The packages", "", INTRODUCTION]
        for package, layers in LAYERS.items():
            lines += ["", f"## {package}"]
            for layer in layers:
                lines += ["", f"### {layer}", ""]
                for module in self.modules.values():
                    if module.name.split(".")[:2] == [package, layer]:
                        summary = module.doc.split("\n\n")[0].replace("\n", " ")
                        lines += [f"* [{_short(module.name)}]({module.name}.md): {_markdown(summary)}"]
        return "\n".join(lines) + "\n"

    def _page(self, module: Module) -> str:
        """The page of one module."""
        # not in the list at the side, which Sphinx renders on every page
        lines = ["---", "orphan: true", "---", "", f"# {_short(module.name)}", ""]
        lines += [f"```{{py:module}} {module.name}", "```", ""]
        lines += self._body(module.doc)
        used = {chapter.name: chapter for name in module.public for chapter in self._users_of(module, name)}
        if used:
            links = [_chapter_link(used[name]) for name in sorted(used)]
            lines += ["", f"Chapters: {', '.join(links)}."]
        for name, node in module.public.items():
            lines += ["", *self._entry(node, self._users_of(module, name))]
        return "\n".join(lines) + "\n"

    def _users_of(self, module: Module, name: str) -> list[Chapter]:
        return self.users.get((module.name, name), [])

    def _entry(self, node: Definition, users: list[Chapter]) -> list[str]:
        """A function, or a class with its methods, and the chapters that import it."""
        content = self._body(ast.get_docstring(node) or "")
        if users:
            content += [f":Chapters: {', '.join(map(_chapter_link, users))}"]
        if isinstance(node, ast.FunctionDef):
            return _directive("function", _signature(node), content, 7)
        for method in _methods(node):
            content += ["", *self._method(method)]
        return _directive("class", node.name + _constructor(node), content, 7)

    def _method(self, node: ast.FunctionDef) -> list[str]:
        content = self._body(ast.get_docstring(node))
        decorators = _decorators(node)
        if any(decorator.endswith("property") for decorator in decorators):
            returned = [f":type: {_returned(node)}"] if node.returns else []
            return _directive("property", node.name, content, 5, returned)
        options = [f":{kind}:" for kind in ("classmethod", "staticmethod") if kind in decorators]
        return _directive("method", _signature(node, bound="staticmethod" not in decorators), content, 5, options)

    def _body(self, doc: str) -> list[str]:
        """A docstring as Markdown: text, formulas, and its sections as fields."""
        text, sections = _split(doc)
        lines = [*self._text(text), ""]
        for section in sections:
            lines += section.markdown()
        return lines

    def _text(self, text: str) -> list[str]:
        """Paragraphs and, where indented after an empty line, formulas, with the chapter's form of numbered ones."""
        lines = []
        for block in re.split(r"\n\n+", text.strip("\n")):
            lines += _formula(block) if block.startswith("    ") else [_markdown(block), ""]
            for number in NUMBER.findall(block):
                if number in self.formulas:
                    lines += self._formula_of_chapter(number)
        return lines

    def _formula_of_chapter(self, number: str) -> list[str]:
        chapter, latex = self.formulas[number]
        link = f'<a href="{chapter.name}.html#{anchor(number)}">({number})</a>'
        return [f"In chapter {chapter.number}, formula {link}:", "", f"$$\n{latex.rstrip(' .,')}\n$$", ""]


@dataclass
class _Section:
    """A section of a docstring: its title, what follows the title on the same line, and the lines below."""

    title: str
    inline: str
    block: list[str] = field(default_factory=list)

    def markdown(self) -> list[str]:
        """The section as a field: a list of names and what they are, or text."""
        if self.title in LISTS and not self.inline:
            items = [item.partition(": ") for item in _items(self.block)]
            listed = [f"    * `{name}`: {_markdown(text)}" for name, _, text in items]
            return [f":{LISTS[self.title]}:", *listed, ""]
        text = " ".join([self.inline, *(line.strip() for line in self.block)])
        return [f":{LISTS.get(self.title, self.title)}: {_markdown(text.strip())}", ""]


def _split(doc: str) -> tuple[str, list[_Section]]:
    """The text of a docstring, and its sections. An empty line ends a section."""
    text, sections, current = [], [], None
    for line in doc.splitlines():
        if found := SECTION.match(line):
            current = _Section(found[1], found[2] or "")
            sections.append(current)
        elif current and (line.startswith("    ") or (current.inline and line)):
            current.block.append(line)
        else:
            current = None
            text.append(line)
    return "\n".join(text), sections


def _items(block: list[str]) -> list[str]:
    """The items of an indented list: a line that is indented further continues the one before."""
    items = []
    for line in block:
        if line.startswith("     ") and items:
            items[-1] += " " + line.strip()
        elif line.strip():
            items.append(line.strip())
    return items


def _formula(block: str) -> list[str]:
    """An indented formula; its number, far on the right in the source, is moved near it."""
    formula = re.sub(r"(?m)^ {4}", "", block)
    near = re.sub(r"(?m) {3,}(?=\(\d+\.\d+\)$)", "   ", formula)
    return ["```{code-block} text", ":class: formula", "", near, "```", ""]


def anchor(number: str) -> str:
    """The id of a numbered formula on the page of its chapter; `number` such as "4.1"."""
    return f"formula-{number.replace('.', '-')}"


def _modules() -> Iterator[tuple[str, Module]]:
    """The modules that have something public, by name, in the order of `LAYERS`."""
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
    """The docstrings of a function, or of a class and its methods."""
    nodes = [node]
    if isinstance(node, ast.ClassDef):
        nodes += _methods(node)
    return "\n".join(ast.get_docstring(n) or "" for n in nodes)


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods that are public and documented; `forward` and `step` of a module are known without a docstring."""
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    return [n for n in methods if ast.get_docstring(n)]


def _decorators(node: Definition) -> list[str]:
    """The names of the decorators, without their arguments: dataclass, cached_property."""
    return [ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list]


def _constructor(node: ast.ClassDef) -> str:
    """The arguments of a class in brackets, "" if it takes none: those of `__init__`, or the fields of a dataclass."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return _signature(method, bound=True).removeprefix("__init__")
    is_record = "dataclass" in _decorators(node) or "NamedTuple" in map(ast.unparse, node.bases)
    declared = [n for n in node.body if isinstance(n, ast.AnnAssign) and is_record]
    arguments = [argument for each in declared if (argument := _argument(each))]
    return f"({', '.join(arguments)})" if arguments else ""


def _argument(declared: ast.AnnAssign) -> str:
    """A field as an argument, `dim: int = 64`; "" if the constructor does not take it."""
    name, kind = ast.unparse(declared.target), ast.unparse(declared.annotation)
    if kind.startswith("ClassVar"):
        return ""
    if not (isinstance(declared.value, ast.Call) and ast.unparse(declared.value.func) == "field"):
        return ast.unparse(declared)
    options = {option.arg: ast.unparse(option.value) for option in declared.value.keywords}
    if options.get("init") == "False":
        return ""
    if "default_factory" in options:
        return f"{name}: {kind} = {options['default_factory']}()"
    return f"{name}: {kind} = {options['default']}" if "default" in options else f"{name}: {kind}"


def _signature(node: ast.FunctionDef, bound: bool = False) -> str:
    """Name, arguments and what is returned; of a `bound` method without its first argument."""
    arguments = ast.unparse(node.args)
    if bound:
        arguments = re.sub(r"^\w+(, |$)", "", arguments)
    returned = f" -> {_returned(node)}" if node.returns else ""
    return f"{node.name}({arguments}){returned}"


def _returned(node: ast.FunctionDef) -> str:
    """The type that a function returns, without the quotes of a name that is defined later."""
    if isinstance(node.returns, ast.Constant) and isinstance(node.returns.value, str):
        return node.returns.value
    return ast.unparse(node.returns)


def _directive(kind: str, signature: str, content: list[str], colons: int, options: list[str] = ()) -> list[str]:
    fence = ":" * colons
    return [f"{fence}{{py:{kind}}} {signature}", *options, "", *content, "", fence]


def _markdown(text: str) -> str:
    """Text of a docstring in which only code between backticks and the bullets of lists are markup."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"(?m)(?<!^)[*]|[\\<>$\[\]|{}]", lambda found: f"\\{found[0]}", part) for part in parts[::2]]
    return "".join(parts)


def _chapter_link(chapter: Chapter) -> str:
    return f'<a href="{chapter.name}.html">{escape(chapter.title)}</a>'
