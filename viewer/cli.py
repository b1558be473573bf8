"""`profscope view`, of old profscope-view: look at a trace in the terminal.

Only the command line is here and in `arguments`, and both import little: `--help` answers at once.
"""

import sys
from collections.abc import Sequence

from profscope.errors import run_command
from viewer.arguments import parsed
from viewer.presence import check_there

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None, tool: str = "profscope-view") -> int:
    """Run the command; returns the exit code. tool: the name that it is called by."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    return run_command(tool, lambda: _main(given, tool))


def _main(given: Sequence[str], tool: str) -> int:
    if given[:1] == ["diff"]:
        from viewer.diff_command import diff_main

        return diff_main(given[1:], tool if tool.endswith(" diff") else f"{tool} diff")
    options = parsed(given, tool)
    check_there(options.trace)
    from viewer.own_process import imports_that_stay

    with imports_that_stay():
        from viewer.view import show  # behind the command line: pandas and rich take their time

    show(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
