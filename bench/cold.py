"""What a session does to the caches: a pointer chase in its first and its second launch, and a bare one.

    python -m bench.cold [--kib 4096] [--rounds 7] [--json FILE]

One warp follows 4 MiB of pointers, one in each line of 128 bytes, in random order. All of it fits the L2
cache and was just read, so a step takes what the L2 cache takes; it takes longer where something has taken
its place. The cycles are those of the loop's span, and for the bare kernel those of its own clock. Needs a
GPU; with --tiny it runs without one, on the emulator and on little memory, to show that it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import triton
import triton.language as tl

import profscope
from bench.about import about
from bench.table import Cell, Row, render, row_to_json
from bench.timing import synchronize, why
from profscope import emulator

__all__ = ["OPTIONS", "main"]

_LINE_BYTES: Final = 128
_TINY_KIB: Final = 8
_LAUNCHES: Final = ("first launch", "second launch")
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "light": {"instrument": "light"},
    "default": {},
    "heavy": {"instrument": "heavy"},
    "default, memory=16": {"memory": 16},
    "default, memory=1024": {"memory": 1024},
}
"""Options of the sessions, by the names of their rows."""


@triton.jit
def chase_kernel(next_ptr, out_ptr, steps):
    at = tl.program_id(0)
    for _ in range(steps):
        at = tl.load(next_ptr + at)
    tl.store(out_ptr, at)


@triton.jit
def _clock(after):
    """The SM's clock; read when `after` is known."""
    return tl.inline_asm_elementwise(
        "mov.u64 $0, %clock64;", "=l,r", [after], dtype=tl.int64, is_pure=False, pack=1
    )


@triton.jit
def timed_chase_kernel(next_ptr, out_ptr, cycles_ptr, steps):
    at = tl.program_id(0)
    start = _clock(at)
    for _ in range(steps):
        at = tl.load(next_ptr + at)
    tl.store(cycles_ptr, _clock(at) - start)
    tl.store(out_ptr, at)


@dataclass(frozen=True)
class Chase:
    """A cycle through memory. pointers: int32, each the index of the next; steps: once around."""

    pointers: torch.Tensor
    out: torch.Tensor
    cycles: torch.Tensor
    steps: int

    @staticmethod
    def through(size: int, device: str) -> Chase:
        """A chase through `size` bytes, the same at every call."""
        stride = _LINE_BYTES // 4
        lines = np.random.default_rng(0).permutation(size // _LINE_BYTES)
        lines = np.roll(lines, -int(np.flatnonzero(lines == 0)[0]))  # it starts at 0
        pointers = np.zeros(size // 4, np.int32)
        pointers[lines * stride] = np.roll(lines, -1) * stride
        out, cycles = torch.ones(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int64)
        return Chase(torch.from_numpy(pointers).to(device), out.to(device), cycles.to(device), len(lines))

    def bare(self) -> float:
        """Cycles a step of a bare launch, by its own clock. Raises RuntimeError where it went astray."""
        timed_chase_kernel[(1,)](self.pointers, self.out, self.cycles, self.steps, num_warps=1)
        self._check()
        return int(self.cycles.item()) / self.steps

    def launch(self) -> None:
        """A launch of the kernel without a clock, which a session records."""
        chase_kernel[(1,)](self.pointers, self.out, self.steps, num_warps=1)
        self._check()

    def _check(self) -> None:
        synchronize()
        if int(self.out.item()):
            raise RuntimeError("the chase did not come back to its start")
        self.out.fill_(1)


def recorded(chase: Chase, options: dict[str, Any]) -> tuple[list[float], list[bool]]:
    """Cycles a step in a session's first and second launch, and whether they are said to have begun cold."""
    for _ in range(2):
        chase.bare()  # now its memory is in the cache
    with profscope.session(**options) as prof:
        for _ in _LAUNCHES:
            chase.launch()
    loops = prof.df[prof.df["kind"] == "loop"]
    cycles = loops.groupby("launch")["duration_cycles"].sum().tolist()
    return [each / chase.steps for each in cycles], prof.launches["cold"].tolist()


def rows(chase: Chase, rounds: int) -> list[Row]:
    """A row for each set of options, and one for the bare kernel; the rounds of all of them in turn."""
    group = f"cycles a step, {chase.pointers.nbytes >> 10} KiB"
    samples: dict[str, list[list[float]]] = {"bare, by its own clock": [], **{name: [] for name in OPTIONS}}
    cold: dict[str, list[bool]] = {}
    errors: dict[str, str] = {}
    for round_ in range(rounds + 1):
        for name in samples:
            try:
                if name in OPTIONS:
                    found, cold[name] = recorded(chase, OPTIONS[name])
                else:
                    chase.bare()
                    found = [chase.bare() for _ in _LAUNCHES]
            except Exception as error:  # noqa: BLE001  the others' figures still count
                errors[name] = why(error)
                continue
            if round_:  # the first one compiles
                samples[name].append(found)
    return [
        Row(group, name, "", {
            launch: Cell(
                tuple(each[at] for each in values),
                errors.get(name, ""),
                "the profile says that it began cold" if any(cold.get(name, [])[at : at + 1]) else "",
            )
            for at, launch in enumerate(_LAUNCHES)
        })
        for name, values in samples.items()
    ]  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Print the table; returns an exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.cold", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kib", type=int, default=4096, help="memory that the chase goes through")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--tiny", action="store_true", help=f"{_TINY_KIB} KiB, on the emulator without a GPU")
    options = parser.parse_args(argv)
    gpu = torch.cuda.is_available()
    if not gpu and not options.tiny:
        parser.error("there is no GPU; --tiny shows on the emulator that it runs")
    with contextlib.nullcontext() if gpu else emulator.activate():
        kib = _TINY_KIB if options.tiny else options.kib
        found = rows(Chase.through(kib << 10, "cuda" if gpu else "cpu"), options.rounds)
    where = about(dry_run=options.tiny)
    print(", ".join(f"{name} {value}" for name, value in where.items() if value is not None))
    print(render(found))
    if options.json is not None:
        options.json.write_text(json.dumps({"about": where, "rows": [row_to_json(row) for row in found]}))
    return 1 if any(cell.error for row in found for cell in row.cells.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
