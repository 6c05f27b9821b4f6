import ast

import pytest

from tools.site import api
from tools.site.api import NUMBER, Reference
from tools.site.chapters import chapters
from tools.site.prepare import without_noqa

DOCUMENTED = ast.Module | ast.FunctionDef | ast.ClassDef


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(chapters() + chapters("notebooks/deeper"))


def test_imports_of_a_package_lead_to_the_module_that_defines_them(reference):
    assert reference.find("possm_lite.decoder", "POSSM") == ("possm_lite.decoder.possm", "POSSM")
    assert reference.find("possm_lite.decoder", "no_such_function") is None


def test_numbers_in_docstrings_are_those_of_formulas(reference):
    for module in reference.modules.values():
        docs = [ast.get_docstring(n) or "" for n in ast.walk(ast.parse(module.source)) if isinstance(n, DOCUMENTED)]
        unknown = set(NUMBER.findall("\n".join(docs))) - set(reference.formulas)
        assert not unknown, f"{module.name}: {unknown} is in no chapter"


CLASS = '''
@dataclass(frozen=True)
class Sizes:
    """Sizes of a thing.

    Attributes:
        n_units: their number,
            on two lines.

    Raises:
        ValueError: naming the field.

    Source: a book,
    chapter 2.
    """

    n_units: int
    notes: list = field(default_factory=list)
'''


def test_docstring_and_fields_of_a_dataclass_are_shown():
    (node,) = ast.parse(CLASS).body
    assert api._constructor(node) == "(n_units: int, notes: list = list())"
    text, sections = api._split(ast.get_docstring(node))
    assert text.strip() == "Sizes of a thing."
    shown = [line for section in sections for line in section.markdown() if line]
    assert shown == [
        ":Attributes:",
        "    * `n_units`: their number, on two lines.",
        ":Raises:",
        "    * `ValueError`: naming the field.",
        ":Source: a book, chapter 2.",
    ]


def test_code_on_the_pages_has_no_marks_for_the_linter():
    code = "import a  # noqa: F401\nimport b  # noqa: F401  (b: exercise 1.1)\nc = 1  # noqa: S307, of this file\n"
    assert without_noqa(code) == "import a\nimport b  # (b: exercise 1.1)\nc = 1  # of this file\n"
