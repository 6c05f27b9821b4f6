"""Find and load what is beside the chapters: their exercises and their interactive figures."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def load_exercises(chapter: str, folder: str | Path = ".", kind: str = "exercises") -> ModuleType:
    """The module `exercises/CHAPTER.py` in the folder of the notebook, or in the folder above it (for solutions)."""
    folder = Path(folder).resolve()  # by default the current one, where Jupyter runs a notebook
    for parent in (folder, folder.parent):
        path = parent / kind / f"{chapter}.py"
        if path.is_file():
            spec = spec_from_file_location(f"{kind}_{chapter}", path)
            module = module_from_spec(spec)
            sys.modules[spec.name] = module  # dataclasses and pickle look a module up by its name
            spec.loader.exec_module(module)
            return module
    raise FileNotFoundError(f"{kind}/{chapter}.py is not in {folder} or its parent: run the notebook where it is.")


def load_figures(name: str, folder: str | Path = ".") -> ModuleType:
    """The module `figures/NAME.py`, found as `load_exercises` finds a module of exercises."""
    return load_exercises(name, folder, "figures")
