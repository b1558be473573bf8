"""Record the corpus: the time of each fault and of its mended twin, and the evidence of each fault.

    python -m bench.corpus list
    python -m bench.corpus record --out DIR [--rows REGEX] [--workers N]      # on a GPU
    python -m bench.corpus record --out DIR [--rows REGEX] --small            # on the emulator: no times
    python -m bench.corpus record --out DIR --kernels CHECKOUT [--seeds N ...]  # of commit 1a7651aa

DIR gets `times.json` and a recording of each case. Other processes compile first; then this one measures case
by case. `python -m bench.diagnose` judges what is found of recordings.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bench.about import about
from bench.corpus.case import Case
from bench.corpus.cases import CASES
from bench.corpus.earlier import drawn
from bench.corpus.recording import cases_of, compile_ahead, record, runs_here
from bench.timing import why

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if a case failed."""
    options = _arguments(argv)
    if options.command == "list":
        print("\n".join(f"{name:46} {', '.join(case.causes)}".rstrip() for name, case in CASES.items()))
        return 0
    if not torch.cuda.is_available() and not options.small:
        print("bench.corpus: no GPU is active; --small shows on the emulator that it runs", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    cases = cases_of(options.kernels)
    if options.seeds:
        cases = {name: cases[name] for name in drawn(options.kernels, options.seeds)}
    chosen = [case for name, case in cases.items() if re.search(options.rows, name) and runs_here(case)]
    if not options.small:
        compile_ahead(chosen, options.workers, options.kernels)
        print(f"{time.monotonic() - begun:.0f} s to compile", flush=True)
    document: dict[str, Any] = {"about": about(dry_run=options.small), "rows": []}
    for case in chosen:
        row = _recorded(case, options)
        document["rows"].append(row)
        print(_line(row), flush=True)
        (options.out / "times.json").write_text(json.dumps(document, indent=1) + "\n")
    failed = [row["name"] for row in document["rows"] if "error" in row]
    print(f"{len(chosen)} cases, {time.monotonic() - begun:.0f} s; failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


def _recorded(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    try:
        return record(case, options.small, options.out, without_counters=options.without_counters)
    except Exception as error:  # noqa: BLE001  the other cases still count
        return {"name": case.name, "error": why(error)}


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['name']:46} FAILED: {row['error']}"
    times = " ".join(f"{row[key]:9.1f} us" for key in ("fault_us", "mended_us") if key in row)
    gain = f"{100 * row['gain']:3.0f} %" if "gain" in row else ""
    differ = "" if row.get("same_results", True) else "OTHER RESULTS"
    told = (times, gain, differ, ", ".join(row["causes"]), "; ".join(row["not_measured"]))
    return f"{row['name']:46} {'  '.join(each for each in told if each)}".rstrip()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.corpus", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name all cases")
    recorder = commands.add_parser("record", help="measure them")
    recorder.add_argument("--out", type=Path, required=True, help="folder for the results")
    recorder.add_argument("--rows", default="", metavar="REGEX", help="only cases whose name it matches")
    recorder.add_argument("--small", action="store_true", help="small sizes, on the emulator")
    recorder.add_argument("--kernels", type=Path, metavar="CHECKOUT", help="those of commit 1a7651aa")
    recorder.add_argument("--seeds", type=int, nargs="*", help="draw 84 of these, by the last seed")
    recorder.add_argument("--without-counters", action="store_true", help="own counts and experiments")
    recorder.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1), help="that compile")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
