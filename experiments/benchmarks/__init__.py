"""Benchmarks of speed and accuracy: `make bench`, `python -m tests.benchmarks [SECTION ...]`."""

import os
import sys
from pathlib import Path

# Set before NumPy is loaded, as the command line does: a streaming step is too small for several threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

sys.path.append(str(Path(__file__).parents[2] / "site"))  # for `execute`
