import ast

import pytest
from api import NUMBER, Module, Reference
from chapters import chapters

DOCUMENTED = ast.Module | ast.FunctionDef | ast.ClassDef
SOURCE = '''
def pool(scores: Tensor, values: Tensor | None = None) -> Tensor:
    """The average of `values`: 2 * 3 < 7.

        f = sum_m p_m v_m                                  (4.1)

    Args: scores: s, shape (..., M); values: v, of
        two lines; of one unit.
    Returns: the average.
    Raises:
        ValueError: if M is 0.
    Source: somebody 2020.
    """
'''
FIELDS = """
:param scores: s, shape (..., M)
:param values: v, of two lines; of one unit.
:returns: the average.
:raises ValueError: if M is 0.
:Source: somebody 2020."""


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(chapters() + chapters("notebooks/deeper"))


def test_docstring_becomes_fields_and_formulas(reference):
    text = "\n".join(reference._content(Module("possm_lite.x", SOURCE).public["pool"]))
    assert "The average of `values`: 2 \\* 3 \\< 7." in text and FIELDS in text
    assert "f = sum_m p_m v_m   (4.1)\n```" in text and reference.formulas["4.1"][1].rstrip(".") in text


def test_imports_of_a_package_lead_to_the_module_that_defines_them(reference):
    assert reference.find("possm_lite.decoder", "POSSM") == ("possm_lite.decoder.possm", "POSSM")
    assert reference.find("possm_lite.decoder", "no_such_function") is None


def test_numbers_in_docstrings_are_those_of_formulas(reference):
    for module in reference.modules.values():
        docs = [ast.get_docstring(n) or "" for n in ast.walk(ast.parse(module.source)) if isinstance(n, DOCUMENTED)]
        unknown = set(NUMBER.findall("\n".join(docs))) - set(reference.formulas)
        assert not unknown, f"{module.name}: {unknown} is in no chapter"
