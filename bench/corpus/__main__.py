"""Record the corpus: the time of each fault and its mended twin, and the evidence of each fault.

    python -m bench.corpus record --out DIR [--rows REGEX] [--round N] [--small] [--workers N] [--limit-s 460]
    python -m bench.corpus list

Other processes compile first; then one process at a time has the GPU. DIR gets `times.json`, and
the traces in `corpus-0.tar` and so on, of 15 MiB at most. Without a GPU `--small` shows on the emulator
that everything runs; it gives no times and no evidence of hardware.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from bench.about import about
from bench.corpus.cases import CASES, FAMILIES
from bench.corpus.recording import record, warm
from bench.kernels import surroundings
from bench.timing import why

__all__ = ["main"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_RESULT: Final = "result: "
_FAULTED: Final = 3  # exit status of a worker whose device cannot be used any more
_SHARE_TO_COMPILE: Final = 0.4  # of the time limit
_CASE_S: Final = 60.0  # for no longer may a case take
_MOST_BYTES: Final = 15 << 20  # of a tar


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if a case failed."""
    options = _arguments(argv)
    if options.command == "list":
        for family, cases in FAMILIES.items():
            for case in cases:
                print(f"{family:16} {case.round} {case.half:10} {case.name:34} {', '.join(case.causes)}")
        return 0
    if not torch.cuda.is_available() and not options.small:
        print("bench.corpus: no GPU is active; --small shows on the emulator that it runs", file=sys.stderr)
        return 1
    chosen = [
        name
        for name, case in CASES.items()
        if re.search(options.rows, name) and options.round in (None, case.round)
    ]
    if options.worker:
        with surroundings():
            return _work(options.worker, json.loads(sys.stdin.read()), options)
    options.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    if torch.cuda.is_available() and options.workers:
        _compile(chosen, options, begun + _SHARE_TO_COMPILE * options.limit_s)
        print(f"{time.monotonic() - begun:.0f} s to compile", flush=True)
    facts = about(dry_run=options.small)
    for old in options.out.glob("corpus-*.tar"):
        old.unlink()
    rows = []
    for row in _in_turn(chosen, options, begun + options.limit_s):
        rows.append(row)
        print(_line(row), flush=True)
        if "file" in row:
            _pack(options.out, options.out / row["file"])
        (options.out / "times.json").write_text(json.dumps({"about": facts, "rows": rows}, indent=1))
    _pack(options.out, options.out / "times.json", keep=True)
    failed = [row["name"] for row in rows if "error" in row]
    seconds = time.monotonic() - begun
    size = sum(row.get("bytes", 0) for row in rows)
    print(f"{len(rows)} cases, {size / 1e6:.1f} MB, {seconds:.0f} s; failed: {failed or 'none'}")
    return int(bool(failed))


def _compile(chosen: list[str], options: argparse.Namespace, until: float) -> None:
    """Fill Triton's cache from several processes; what fails here fails again, and is told, when measured."""
    workers = [
        _start("warm", chosen[at :: options.workers], options, stderr=subprocess.DEVNULL)
        for at in range(min(options.workers, len(chosen)))
    ]
    for worker in workers:
        try:
            worker.wait(max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _in_turn(chosen: list[str], options: argparse.Namespace, until: float) -> Iterator[dict[str, Any]]:
    """Rows of the cases, by one worker after the other; each goes on behind the case that ended the last."""
    left = list(chosen)
    while left:
        if time.monotonic() > until:
            yield from ({"name": name, "error": "not run: out of time"} for name in left)
            return
        worker = _start("measure", left, options, stderr=None)
        timer = threading.Timer(max(1.0, until - time.monotonic()), worker.kill)
        timer.start()
        assert worker.stdout is not None
        for line in worker.stdout:
            if not line.startswith(_RESULT):
                print(line, end="", flush=True)
                continue
            row = json.loads(line.removeprefix(_RESULT))
            left.remove(row["name"])
            yield row
        timer.cancel()
        if worker.wait() not in (0, _FAULTED) and left:
            yield {"name": left.pop(0), "error": f"the process ended with status {worker.returncode}"}


def _start(
    kind: str, names: list[str], options: argparse.Namespace, stderr: int | None
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.corpus", "record", "--out", str(options.out), "--worker", kind]
    command += ["--small"] if options.small else []
    output = subprocess.PIPE if kind == "measure" else subprocess.DEVNULL
    worker = subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=output, stderr=stderr, text=True
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(names))
    worker.stdin.close()
    return worker


def _work(kind: str, names: list[str], options: argparse.Namespace) -> int:
    for name in names:
        case = CASES[name]
        row: dict[str, Any] = {"name": name}
        faulthandler.dump_traceback_later(_CASE_S, exit=True)  # the next worker goes on behind it
        try:
            if _capability() < case.least:
                row["skipped"] = f"needs compute capability {case.least / 10}"
            elif kind == "warm":
                warm(case, options.small, options.out)
            else:
                row = record(case, options.small, options.out)
        except Exception as error:  # noqa: BLE001  the other cases still count
            row = {"name": name, "error": why(error), "trace": traceback.format_exc(limit=-4)[-2000:]}
        print(f"{_RESULT}{json.dumps(row)}", flush=True)
        if torch.cuda.is_available():
            try:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            except RuntimeError:
                sys.stdout.flush()
                os._exit(_FAULTED)  # nothing can be torn down in an orderly way after a fault
    faulthandler.cancel_dump_traceback_later()
    return 0


def _capability() -> int:
    """As 90; what the emulator stands for without a GPU."""
    major, minor = torch.cuda.get_device_capability() if torch.cuda.is_available() else (8, 0)
    return major * 10 + minor


def _line(row: dict[str, Any]) -> str:
    if "error" in row or "skipped" in row:
        return f"{row['name']:34} {'FAILED ' + row['error'][:300] if 'error' in row else row['skipped']}"
    times = [f"{row[key]:9.1f}" if key in row else f"{'':9}" for key in ("fault_us", "mended_us")]
    gain = f"{100 * row['gain']:5.0f} %" if "gain" in row else f"{'':7}"
    same = {True: "same", False: "OTHER RESULTS", None: ""}[row.get("same_results")]
    missing = "; ".join(row["not_measured"])[:120]
    return (
        f"{row['name']:34} {times[0]} us {times[1]} us {gain} {same:5} {row['bytes'] / 1024:6.0f} KiB "
        f"{row['recorded_launches']} launches {row['spans']:6} spans {row['seconds']:5.1f} s "
        f"{', '.join(row['causes'])} {missing}"
    )


def _pack(out: Path, path: Path, *, keep: bool = False) -> None:
    """Put a file into the newest tar, or into another one if that is full."""
    tars = sorted(out.glob("corpus-*.tar"))
    fits = bool(tars) and tars[-1].stat().st_size + path.stat().st_size < _MOST_BYTES
    with tarfile.open(tars[-1] if fits else out / f"corpus-{len(tars)}.tar", "a") as tar:
        tar.add(path, arcname=path.name)
    if not keep:
        path.unlink()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.corpus", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name all cases")
    recorder = commands.add_parser("record", help="measure them")
    recorder.add_argument("--out", type=Path, required=True, help="folder for the results")
    recorder.add_argument("--rows", default="", metavar="REGEX", help="only cases whose name it matches")
    recorder.add_argument("--round", type=int, metavar="N", help="only cases of this round")
    recorder.add_argument("--small", action="store_true", help="sizes for the emulator")
    recorder.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1), help="that compile")
    recorder.add_argument("--limit-s", type=float, default=460.0, help="start nothing after this")
    recorder.add_argument("--worker", choices=("warm", "measure"), help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
