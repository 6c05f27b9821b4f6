"""What possm-lite claims of its speed and accuracy, measured: `make bench`, `python -m tests.benchmarks [NAME ...]`."""

import os

# As the command line does, before NumPy is loaded: a streamed step is too small to be shared between threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
