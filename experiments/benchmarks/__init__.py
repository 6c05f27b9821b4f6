"""Benchmarks of speed and accuracy: `make bench`, `python -m experiments.benchmarks [SECTION ...]`."""

import os

# Set before NumPy is loaded, as the command line does: a streaming step is too small for several threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
