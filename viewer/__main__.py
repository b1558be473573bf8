"""`python -m profscope.viewer` is profscope-view."""

import sys

from profscope.viewer.cli import main

sys.exit(main())
