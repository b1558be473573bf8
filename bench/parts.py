"""What of a record costs a kernel its time: the instrumented kernel with one part of the records taken out.

    python -m bench.parts [--rows REGEX] [--rounds 7] [--json FILE]

The parts are taken out of the PTX, so that ptxas sees the rest as it is. What is left no longer records
anything; only its time counts. Needs a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

from triton import knobs

from bench import kernels
from bench.about import about
from bench.kernels import Workload
from bench.table import Row, render, row_to_json
from bench.timing import device_us, interleave
from bench.variants import BARE, DEFAULT, LEVELS, OURS, WARM_UP, Variant, buffers, variants
from profscope.compat import programs

__all__ = ["WITHOUT", "main"]

_CLOCK: Final = re.compile(r"mov\.u32 (%r\d+), %clock;")
_GLOBALTIMER: Final = re.compile(r"mov\.(u32|u64) (%?\w+), %globaltimer\w*;")
_CLOCK64: Final = re.compile(r"mov\.u64 (\w+), %clock64;")
_STORE: Final = re.compile(r"@%p\d+ st\.global\.cs(\.v\d)?\.b32 \[[^\]]*\], [^;]*; mov\.u32 %r\d+, 0;")
_ROW_STORE: Final = re.compile(r"@here st\.global\.cs[^;]*;")
_HEADER_STORE: Final = re.compile(r"@lead st\.global\.cs[^;]*;")


def _sub(*edits: tuple[re.Pattern[str], str]) -> Callable[[str], str]:
    def edit(ptx: str) -> str:
        for pattern, replacement in edits:
            ptx = pattern.sub(replacement, ptx)
        return ptx

    return edit


def _around_mmas(ptx: str) -> str:
    """Without the clock reads next to the issue of MMAs, of what the waits for them read all."""
    lines = ptx.split("\n")
    marks = [(at, kind) for at, line in enumerate(lines) if (kind := _kind(line))]
    for (_, before), (at, kind), (_, after) in zip(marks, marks[1:], marks[2:], strict=False):
        if kind == "clock" and "issue" in (before, after):
            lines[at] = _CLOCK.sub(r"mov.u32 \1, 1;", lines[at])
    return "\n".join(lines)


def _kind(line: str) -> str:
    if _CLOCK.search(line):
        return "clock"
    if "wgmma." in line:
        return "wait" if "wgmma.wait" in line else "issue"
    return "edge" if line.startswith("$L") or "bra" in line else ""


_NO_CLOCK: Final = (_CLOCK, r"mov.u32 \1, 1;")
_NO_STORES: Final = ((_STORE, ""), (_ROW_STORE, ""))
_NO_TIMER: Final = (_GLOBALTIMER, r"mov.\1 \2, 1;")
_NO_HEADER: Final = ((_HEADER_STORE, ""), _NO_TIMER, (_CLOCK64, r"mov.u64 \1, 1;"))

WITHOUT: Final[dict[str, Callable[[str], str]]] = {
    "clock reads": _sub(_NO_CLOCK),
    "order of clock reads": _sub((_CLOCK, r"mov.u32 \1, %smid;")),
    "clock reads around MMAs": _around_mmas,
    "globaltimer": _sub(_NO_TIMER),
    "header": _sub(*_NO_HEADER),
    "records": _sub(_NO_CLOCK, *_NO_STORES),
    "anything": _sub(_NO_CLOCK, *_NO_STORES, *_NO_HEADER),
}
"""By what is left out, how PTX becomes PTX without it. ptxas moves nothing across a clock read, but does
across the read of the SM's number that stands in its place."""


class _Edited:
    """Makes contexts in which a kernel is one whose PTX was edited, kept out of Triton's cache on disk. A
    binary that has lost its manifest's digest is launched as one that records all the same."""

    def __init__(self, fn: Any, edit: Callable[[str], str]) -> None:
        self._fn = fn
        self._edit = edit
        self._compiled = defaultdict(fn.device_caches.default_factory)

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        hook, caches = knobs.runtime.add_stages_inspection_hook, self._fn.device_caches
        with (
            knobs.compilation.scope(),
            knobs.cache.scope(),
            mock.patch.object(programs, "_belongs", return_value=True),
            tempfile.TemporaryDirectory() as folder,
        ):
            knobs.compilation.always_compile = True
            knobs.cache.dir = folder
            knobs.runtime.add_stages_inspection_hook = self._stages
            self._fn.device_caches = self._compiled
            try:
                yield
            finally:
                knobs.runtime.add_stages_inspection_hook = hook
                self._fn.device_caches = caches

    def _stages(self, *args: Any) -> Any:
        if not args:
            return "", ""
        stages = args[1]
        make = stages["ptx"]
        stages["ptx"] = lambda source, metadata: self._edit(make(source, metadata))
        return None


_LEVELS: Final = {"default": DEFAULT, **LEVELS}


def parts(workload: Workload, level: str, rounds: int) -> list[Row]:
    """Slowdown of the kernel without each part, beside the bare and the instrumented one."""
    pipeline = _LEVELS[level]
    inputs = workload.inputs("cuda")
    given = buffers(workload.launch(inputs).asm["ttgir"], workload, pipeline)
    plain = dict(variants(workload, pipeline, given, BARE, OURS))

    @contextlib.contextmanager
    def without(edited: _Edited) -> Iterator[None]:
        with edited(), plain[OURS]():
            yield

    every: dict[str, Variant] = dict(plain)
    every |= {f"no {name}": partial(without, _Edited(workload.fn, edit)) for name, edit in WITHOUT.items()}

    def sample(name: str) -> dict[str, float]:
        for _ in range(WARM_UP - 1):
            workload.launch(inputs)
        return {"us": device_us(lambda: workload.launch(inputs), given.launches)}

    cells = interleave(every, sample, rounds)["us"]
    return [Row(f"slowdown, {level}", workload.name, "bare: us, others: ratio", cells, BARE)]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns an exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.parts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", default="", metavar="REGEX", help="only rows 'level: kernel' it matches")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    kernels.give_scratch("cuda")
    rows: list[Row] = []
    for level in _LEVELS:
        for workload in kernels.workloads():
            if re.search(options.rows, f"{level}: {workload.name}"):
                rows += parts(workload, level, options.rounds)
    print(render(rows))
    if options.json:
        found = {"about": about(dry_run=False), "rows": [row_to_json(row) for row in rows]}
        options.json.write_text(json.dumps(found, indent=1, allow_nan=False))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
