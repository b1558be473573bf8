"""`profscope view TRACE --format collapsed`: stacks for flame graphs, as `profscope convert` writes them."""

import sys

from profscope.profiles import Profile
from profscope.traces.exporters.collapsed import text_of

__all__ = ["show_collapsed"]


def show_collapsed(profile: Profile) -> None:
    """Print a line for each stack, with the time that was spent in it and in no scope inside it."""
    sys.stdout.write(text_of(profile.tables))
