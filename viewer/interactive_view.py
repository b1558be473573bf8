"""`profscope view TRACE --interactive`: look around in a trace with the keyboard. Needs textual."""

import argparse

from profscope.errors import OptionError
from profscope.installed import require
from profscope.profiles import Profile

__all__ = ["show"]


def show(profile: Profile, options: argparse.Namespace, unit: str) -> None:
    """Run it until the user leaves. Raises OptionError where textual is missing or no terminal is there."""
    import sys

    require("interactive", "--interactive", OptionError)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise OptionError("--interactive needs a terminal; leave it out in a pipe")
    from viewer.interactive.app import ExplorerApp
    from viewer.source import source_lines

    ExplorerApp(profile, unit, source_lines(0.0)).run()
