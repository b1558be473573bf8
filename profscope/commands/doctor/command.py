"""`profscope doctor`: says what this machine allows.

profscope doctor
profscope doctor --json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from profscope.commands.doctor.row import Row
from profscope.commands.doctor.rows import SECTIONS, environment, rows, to_do
from profscope.errors import exit_status, run_command
from profscope.version import __version__

__all__ = ["as_json", "as_text", "main", "make_parser"]

_EPILOG: Final = f"""\
examples:
  profscope doctor --json | jq -r .to_do
  profscope doctor --measure
  profscope doctor --json | jq -r .rows.counters.state

Each row is ok, missing (not in this machine), refused (this process may not
use it) or failed. With --json: "rows" has by name its "state", "text" and
"facts"; "environment" the variables that are set; "to_do" the last line.

{exit_status("done, also if things are missing", "output that cannot be written")}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run_command("profscope doctor", lambda: _doctor(words))


def _doctor(words: Sequence[str]) -> int:
    given = make_parser().parse_args(words)
    found = rows(measures=given.measure)
    written = as_json if given.json else as_text
    sys.stdout.write(written(found, environment(), to_do(found)))
    return 0


def as_json(found: Mapping[str, Row], variables: Mapping[str, str], advice: str) -> str:
    """The document of --json; see docs/hardware.md."""
    told = {
        name: {"state": row.state, "text": row.text, "facts": dict(row.facts)} for name, row in found.items()
    }
    document = {"rows": told, "environment": dict(variables), "to_do": advice}
    return json.dumps(document, indent=2) + "\n"


def as_text(found: Mapping[str, Row], variables: Mapping[str, str], advice: str) -> str:
    """The rows in their sections, with what is found below each other."""
    width = max(map(len, [*found, *variables]))
    lines = []
    for title, names in SECTIONS.items():
        lines += [
            title,
            *(f"  {name:{width}}  {found[name].state:7}  {found[name].text}" for name in names),
            "",
        ]
    if variables:
        lines += ["Environment", *(f"  {name:{width}}  {value}" for name, value in variables.items()), ""]
    lines.append(f"To do: {advice}")
    return "\n".join(lines) + "\n"


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope doctor",
        description="Say what this machine allows, why findings may be missing, and what to do.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON, for programs")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure what the first GPU does at most: bandwidth, latency, FLOPs; kept for later sessions",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser
