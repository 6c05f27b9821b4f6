"""Where the project is published: known to the workflow of the pages, not to a clone."""

import os

REPOSITORY = os.environ.get("GITHUB_REPOSITORY", "")  # OWNER/NAME on GitHub, for links to the source; "": none
BASE_URL = "https://{}.github.io/{}/".format(*REPOSITORY.split("/")) if REPOSITORY else ""
