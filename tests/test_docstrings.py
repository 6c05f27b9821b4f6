"""Docstrings say what help(), an editor and the reference of the site show, and quote what exists."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("possm_lite", "possm_course")
SEARCHED = (*PACKAGES, "experiments", "tools", "tests")  # where a quoted file or name may be
# their functions are the answers to exercises, which the chapters state
EXERCISES = ROOT / "possm_course" / "exercises"
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py") if EXERCISES not in path.parents)
FILE = r"(?:[\w-]+/)*[\w-]+\.(?:py|js|toml|npz|json|ipynb)"
FOREIGN = {"normalize_mean", "normalize_std", "to_hdf5"}  # of torch_brain and temporaldata
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def public(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """The functions and classes of a module, and the documented methods of a class, without those that are private."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and not child.name.startswith("_"):
            if isinstance(node, ast.Module) or ast.get_docstring(child):
                yield child
            if isinstance(child, ast.ClassDef):
                yield from public(child)


def named(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """The arguments of a function; of a class, its public fields and the arguments of its constructor."""
    if isinstance(node, ast.ClassDef):
        fields = [n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        own = [name for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__" for name in named(n)]
        return [name for name in [*fields, *own] if not name.startswith("_")]
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return [each.arg for each in every if each and each.arg not in ("self", "cls") and not each.arg.startswith("_")]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_fields_and_arguments_are_named(path):
    missing = []
    for node in public(tree(path)):
        text = ast.get_docstring(node)
        if text is None:
            missing.append(f"{node.name} (line {node.lineno}) has no docstring")
            continue
        unnamed = [name for name in named(node) if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
        if unnamed:
            missing.append(f"{node.name} (line {node.lineno}) does not name {', '.join(unnamed)}")
    assert not missing, "say in the docstring what they are, with shape and unit:\n" + "\n".join(missing)


@cache
def sources() -> dict[Path, str]:
    """The code of each module of the project, without its docstrings."""
    paths = (path for folder in SEARCHED for path in (ROOT / folder).rglob("*.py"))
    return {path: re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.S) for path in paths}


@cache
def words_of(module: str | None = None) -> set[str]:
    """The identifiers in all modules of this name, and in a package the names of its modules; None: in the project."""
    found = set()
    for path, code in sources().items():
        if path.parent.name == module:
            found.add(path.stem)
        if path.parent.parent.name == module:
            found.add(path.parent.name)
        if module in (None, path.stem) or (path.name == "__init__.py" and path.parent.name == module):
            found |= set(re.findall(r"[A-Za-z_]\w*", code))
    return found


@cache
def arguments() -> set[str]:
    """The names of all arguments in the project."""
    return {node.arg for path in MODULES for node in ast.walk(tree(path)) if isinstance(node, ast.arg)}


def quoted(text: str) -> Iterator[str]:
    """What stands between backticks, and names of files outside of them."""
    yield from re.findall(r"`([^`\n]+)`", text)
    yield from re.findall(rf"(?<![\w./`-])({FILE})(?![\w`])", text)


def exists(name: str) -> bool:
    if name.startswith("runs/"):
        return True
    if re.fullmatch(FILE, name):  # a file of the project, or one that its code reads or writes
        return any(str(path).endswith(f"/{name}") for path in files()) or any(
            name in code for code in sources().values()
        )
    if dotted := re.fullmatch(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)", name):
        owner, attribute = dotted.groups()
        return owner in arguments() or not words_of(owner) or attribute in words_of(owner)
    if re.fullmatch(r"[A-Za-z]\w*_\w+|[A-Z][a-z]+[A-Z]\w*", name):  # two words: not a symbol of a formula
        return name in words_of() or name in FOREIGN
    return True


@cache
def files() -> list[Path]:
    folders = (*SEARCHED, "notebooks", "docs", "data")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if "node_modules" not in path.parts]
    return [path for path in [*found, *ROOT.glob("*")] if path.is_file()]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_quoted_files_and_names_exist(path):
    nodes = [node for node in ast.walk(tree(path)) if isinstance(node, DOCUMENTED)]
    texts = [text for node in nodes if (text := ast.get_docstring(node))]
    assert [name for text in texts for name in quoted(text) if not exists(name)] == []
