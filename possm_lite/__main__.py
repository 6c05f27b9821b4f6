"""`python -m possm_lite` is `possm-lite`."""

import sys

from .app.cli import main

sys.exit(main())
