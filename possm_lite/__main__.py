"""`python -m possm_lite` is `possm-lite`."""

import sys

from possm_lite.app.cli import main

sys.exit(main())
