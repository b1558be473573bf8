"""`python -m viewer` is profscope-view."""

import sys

from viewer.cli import main

sys.exit(main())
