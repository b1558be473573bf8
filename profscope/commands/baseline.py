"""`profscope baseline`: traces kept by name, to compare later ones with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from profscope.errors import exit_status, run_command
from profscope.traces.baselines import FOLDER, baseline_names, baseline_path, saved_baseline
from profscope.version import __version__
from profscope.viewer.option_types import TRACE, check_there

__all__ = ["main", "make_parser"]

_EPILOG: Final = f"""\
examples:
  profscope baseline save main trace.pftrace.gz
  profscope diff --against main new.pftrace.gz --fail-above 5%
  profscope baseline list

{exit_status("saved, listed or removed", "no such trace or baseline, or one that cannot be written")}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    given = make_parser().parse_args(words)
    return run_command("profscope baseline", lambda: _main(given))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope baseline",
        usage="profscope baseline save NAME TRACE | list | rm NAME",
        description=f"Keep traces by name in {FOLDER}, for profscope diff --against NAME.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    actions = parser.add_subparsers(dest="action", required=True, help="one of these")
    save = actions.add_parser("save", help="keep a trace; replaces one of the same name")
    save.add_argument("name", metavar="NAME", help="letters, digits and _ . = + -")
    save.add_argument("trace", metavar="TRACE", help=TRACE)
    actions.add_parser("list", help="each baseline, with its GPU, Triton and what it holds")
    remove = actions.add_parser("rm", help="remove a baseline")
    remove.add_argument("name", metavar="NAME", help="of a baseline that is listed")
    return parser


def _main(given: argparse.Namespace) -> int:
    if given.action == "rm":
        saved_baseline(FOLDER, given.name).unlink()
    elif given.action == "save":
        _save(given.trace, baseline_path(FOLDER, given.name))
    else:
        _list()
    return 0


def _save(trace: str, path: Path) -> None:
    check_there(trace)
    from profscope.traces.saving import save  # behind the command line: pandas takes its time
    from profscope.viewer.input import read

    tables = read(trace).profile.tables
    path.parent.mkdir(parents=True, exist_ok=True)
    save(tables, path)


def _list() -> None:
    from profscope.profiles import describe, load

    names = baseline_names(FOLDER)
    if not names:
        sys.stdout.write(f"no baselines in {FOLDER}\n")
    for name in names:
        tables = load(baseline_path(FOLDER, name)).tables
        device = (tables.metadata.get("device") or {}).get("name") or "unknown device"
        builder = f"Triton {tables.metadata.get('triton') or 'unknown'}"
        sys.stdout.write(f"{name}: {device}, {builder}, {describe(tables)}\n")
