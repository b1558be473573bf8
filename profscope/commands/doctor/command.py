"""`profscope doctor`: says what this machine allows.

profscope doctor
profscope doctor --json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from profscope.commands.doctor.row import Row
from profscope.commands.doctor.rows import SECTIONS, environment, rows, to_do
from profscope.commands.doctor.self_test import document, self_test
from profscope.errors import exit_status, run_command
from profscope.installed import require
from profscope.progress import working
from profscope.traces.output import whole_file
from profscope.traces.own_files import check_replaceable
from profscope.version import __version__

__all__ = ["as_json", "as_text", "main", "make_parser"]

_EPILOG: Final = f"""\
examples:
  profscope doctor --json | jq -r .to_do
  profscope doctor --measure
  profscope doctor --json | jq -r .rows.counters.state
  profscope doctor --self-test

Each row is ok, missing (not in this machine), refused (this process may not
use it) or failed. With --json: "rows" has by name its "state", "text" and
"facts"; "environment" the variables that are set; "to_do" the last line.

{
    exit_status(
        "done, also if things are missing",
        "--measure measured nothing, --self-test found a difference, or output that cannot be written",
    )
}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run_command("profscope doctor", lambda: _doctor(words))


def _doctor(words: Sequence[str]) -> int:
    parser = make_parser()
    given = parser.parse_args(words)
    if given.self_test is not None:
        if given.json or given.measure:
            parser.error("--self-test goes alone: the file that it writes is JSON")
        return _self_test(Path(given.self_test))
    found = _found(measures=given.measure)
    written = as_json if given.json else as_text
    sys.stdout.write(written(found, environment(), to_do(found)))
    if given.measure and not found["peaks"].is_ok:
        sys.stderr.write(f"profscope doctor: --measure measured nothing: {found['peaks'].text}\n")
        return 1
    return 0


def _found(*, measures: bool = False) -> dict[str, Row]:
    with working("measuring the GPU" if measures else "looking at this machine"):
        return rows(measures=measures)


def _self_test(path: Path) -> int:
    check_replaceable(path, f"cannot write {str(path)!r}")
    require("triton", "profscope doctor --self-test")
    tested, machine = self_test(), _found()
    with whole_file(path) as file:
        file.write(json.dumps(document(tested, machine), indent=1).encode())
    lines = [f"{name:9}  {row.state:6}  {row.text}" for name, row in tested.items()]
    differs = not all(row.is_ok for row in tested.values())
    lines += [f"wrote {path}, for a bug report: it has no names of users or folders"]
    lines += [f"To do: {'report what differs, with the file' if differs else to_do(machine)}"]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(differs)


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
    parser.add_argument(
        "--self-test",
        nargs="?",
        const="profscope-self-test.json",
        metavar="FILE",
        help="run five kernels with known answers, and write what was found for a bug report "
        "(default: profscope-self-test.json)",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser
