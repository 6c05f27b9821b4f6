"""What the design promises of the source itself: arrows point one way, no pickle is read, files stay short."""

import ast
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("possm_lite/**/*.py"))
LINES = 320

# classroom -> training -> decoder -> {blocks, spikes}; "" is possm_lite/__init__.py, which everything loads first;
# `python -m possm_lite` is another door to the command line.
MAY_IMPORT = {
    "": set(),
    "blocks": {""},
    "spikes": {""},
    "decoder": {"", "blocks", "spikes"},
    "training": {"", "blocks", "spikes", "decoder"},
    "classroom": {"", "blocks", "spikes", "decoder", "training"},
    "commands": {"", "blocks", "spikes", "decoder", "training"},
    "cli": {"", "blocks", "spikes", "decoder", "training", "classroom", "commands"},
    "__main__": {"", "cli"},
}
PICKLES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve"}
TORCH_LOADS = {"torch.load", "torch.serialization.load"}


def imported(path: str, tree: ast.AST) -> list[tuple[int, str]]:
    """Every import in a file, those inside functions too, as (line, absolute dotted name down to what is taken)."""
    package = PurePosixPath(path).parent.parts
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += (node.module,) if node.module else ()
            names += [(node.lineno, ".".join((*base, alias.name))) for alias in node.names]
    return names


def part(dotted: str) -> str:
    """The part of the design that `possm_lite.PART.rest` belongs to."""
    name = dotted.split(".")[1]
    return name if name in MAY_IMPORT else ""


def wrong_arrows(path: str, source: str) -> list[str]:
    own = part(".".join(PurePosixPath(path).with_suffix("").parts))
    return [
        f"{path}:{line} imports {name}"
        for line, name in imported(path, ast.parse(source))
        if name.startswith("possm_lite.") and part(name) not in MAY_IMPORT[own] | {own}
    ]


def pickle_uses(path: str, source: str) -> list[str]:
    """Ways in for code hidden in a file: a pickling module, `torch.load` under any name, `allow_pickle` not False."""
    tree = ast.parse(source)
    names = imported(path, tree)
    found = [(line, name) for line, name in names if name.split(".")[0] in PICKLES or name in TORCH_LOADS]
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    meant = {alias.asname: alias.name for alias in imports if alias.asname}  # t: torch, after `import torch as t`
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            if f"{meant.get(first, first)}.{rest}" in TORCH_LOADS:
                found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            found.append((node.value.lineno, ast.unparse(node)))
    return [f"{path}:{line} has {what}" for line, what in sorted(found)]


def test_every_file_has_its_place():
    """A new file beside the parts of the design would be checked for nothing below."""
    assert SOURCES
    parts = {PurePosixPath(path).parts[1].removesuffix(".py") for path in SOURCES}
    assert parts <= (set(MAY_IMPORT) | {"__init__"}) - {""}


@pytest.mark.parametrize("path", SOURCES)
def test_arrows_point_one_way(path):
    assert wrong_arrows(path, (ROOT / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", SOURCES)
def test_nothing_is_read_through_pickle(path):
    assert pickle_uses(path, (ROOT / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", SOURCES)
def test_files_stay_short(path):
    assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) < LINES


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("possm_lite/blocks/attention.py", "import possm_lite.spikes.batch"),
        ("possm_lite/blocks/attention.py", "from possm_lite.spikes import SpikeBatch"),
        ("possm_lite/blocks/attention.py", "from possm_lite import spikes"),
        ("possm_lite/blocks/attention.py", "from ..spikes import SpikeBatch"),
        ("possm_lite/blocks/__init__.py", "from .. import spikes"),
        ("possm_lite/spikes/files/nwb.py", "from ...decoder import POSSM"),
        ("possm_lite/decoder/possm.py", "def late():\n    from possm_lite.training import fit"),
        ("possm_lite/decoder/possm.py", "if TYPE_CHECKING:\n    from possm_lite import blocks, cli"),
        ("possm_lite/training/fit.py", "from possm_lite.classroom.plots import hand_paths"),
        ("possm_lite/classroom/plots.py", "from possm_lite.cli import main"),
        ("possm_lite/__init__.py", "from .decoder import POSSM"),
    ],
)
def test_the_checker_sees_a_wrong_arrow(path, source):
    assert len(wrong_arrows(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("possm_lite/cli.py", "from possm_lite.classroom import plots\nfrom possm_lite import __version__"),
        (
            "possm_lite/training/fit.py",
            "from ..spikes import SpikeBatch\nfrom . import checkpoints\nfrom .. import decoder",
        ),
        (
            "possm_lite/decoder/__init__.py",
            "from .possm import POSSM\nfrom possm_lite.decoder.config import POSSMConfig",
        ),
        (
            "possm_lite/blocks/attention.py",
            "import torch\nfrom torch.nn import functional\nfrom possm_lite import __version__",
        ),
    ],
)
def test_the_checker_lets_a_right_arrow_pass(path, source):
    assert wrong_arrows(path, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "def late():\n    from pickle import loads",
        "import torch\ntorch.load('run.pt', weights_only=True)",
        "import torch as t\nread = t.load",
        "from torch import load",
        "import numpy as np\nnp.load('run.npz', allow_pickle=True)",
        "import numpy as np\nnp.load('run.npz', allow_pickle=trusted)",
    ],
)
def test_the_checker_sees_a_pickle(source):
    assert len(pickle_uses("possm_lite/training/checkpoints.py", source)) == 1


def test_the_checker_lets_plain_arrays_pass():
    source = "import numpy as np\nimport torch\nnp.load('run.npz', allow_pickle=False)\ntorch.save\njson.load"
    assert pickle_uses("possm_lite/training/checkpoints.py", source) == []
