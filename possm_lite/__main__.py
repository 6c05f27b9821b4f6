"""`python -m possm_lite` is `possm-lite`."""

import sys

from .cli import main

sys.exit(main())
