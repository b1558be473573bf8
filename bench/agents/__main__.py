"""Give each task to an agent, and judge afterwards what it made of it.

    python -m bench.agents --agent CMD [--tasks REGEX] [--small] [--out DIR] [--limit-s 600]

CMD is run by the shell in the folder of each task (TASK.md, kernel.py, run.py, check.py). Without a GPU:
--small, on the emulator, whose times are cycles of a cost model. A row of the table is solved if results are
equal and the time is surely shorter.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.agents.tasks import TASKS, write_task

__all__ = ["main"]

_ROOT: Final = Path(__file__).parents[2]
_JUDGE_S: Final = 300


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each task; returns an exit code."""
    given = _arguments(argv)
    out = given.out or Path(tempfile.mkdtemp(prefix="agents-"))
    tasks = [name for name in TASKS if re.search(given.tasks, name)]
    rows = [_row(name, out / name.replace(" ", "-"), given) for name in tasks]
    (out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")
    solved = sum(row["solved"] for row in rows)
    print(f"{solved} of {len(rows)} solved; folders and rows.json: {out}")
    return 0


def _row(name: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    write_task(name, folder, small=given.small)
    whole = folder.with_name(folder.name + ".given")
    shutil.copytree(folder, whole)
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    if given.small:
        environment["PROFSCOPE_EMULATOR"] = "1"
    begin = time.monotonic()
    code = _run(given.agent, folder, environment, given.limit_s, folder / "agent.log", shell=True)
    agent_s = time.monotonic() - begin
    shutil.copy(folder / "kernel.py", whole / "kernel.py")  # which is all that an agent may edit
    words = [sys.executable, "-m", "bench.agents.judge", str(whole), name, "small" if given.small else ""]
    _run(words, whole, environment, _JUDGE_S, whole / "judged.json")
    lines = (whole / "judged.json").read_text().splitlines()
    told = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"same_results": False}
    solved = told["same_results"] and told["saved_low_pct"] > 0
    row = {"task": name, "agent": code, "agent_s": round(agent_s, 1), "solved": solved, **told}
    if "now" in told:
        figures = (
            f"{told['before']:8.4g} -> {told['now']:8.4g} {told['unit']} {told['saved_pct']:5.1f} % saved"
        )
    else:
        figures = told.get("error", "judge failed")
    state = "solved" if solved else "not" if told["same_results"] else "OTHER RESULTS"
    print(f"{name:30} {state:14} {figures}; agent {agent_s:.0f} s, exit {code}", flush=True)
    return row


def _run(
    command: str | list[str],
    folder: Path,
    environment: dict[str, str],
    limit_s: float,
    log: Path,
    *,
    shell: bool = False,
) -> int | str:
    """Its exit code, or "late". Its output goes to a file."""
    with log.open("w") as file:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                shell=shell,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "late"
    return done.returncode


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.agents",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--agent", required=True, metavar="CMD", help="run in each task's folder")
    parser.add_argument("--tasks", default="", metavar="REGEX", help="tasks whose name it matches")
    parser.add_argument("--small", action="store_true", help="small sizes, for the emulator")
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the folders (default: a new one)")
    parser.add_argument("--limit-s", type=float, default=600, help="for each task (default: 600)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
