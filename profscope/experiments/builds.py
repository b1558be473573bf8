"""Edited kernels, compiled by other processes: a compiler that crashes ends a process and not the program.

Each runs `main`, which answers what it is given with the instructions of the binary. The binary itself is in
Triton's cache.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from profscope.binaries.listing import class_of, read_listing
from profscope.compat.edited import Options, build
from profscope.compat.triton_parts import CompiledKernel, knobs
from profscope.emulator.ptx_syntax import ptx_class
from profscope.experiments.worker_processes import WorkerError, Workers, serve
from profscope.instrument_passes.toolchain import disassembled
from profscope.recording.diagnostics import reason

__all__ = ["Build", "Builds", "Built", "Job", "main"]

_MOST_WORKERS: Final = 8
_LONGEST_S: Final = 60.0
WORKER_PROGRAM: Final = "from profscope.experiments.builds import main; main()"


@dataclass(frozen=True)
class Job:
    """cache, libdevice: of Triton's knobs. path: of the module."""

    path: str
    options: Options
    cache: str
    libdevice: str | None


@dataclass(frozen=True)
class Built:
    """failed: why it could not be built, else "". instructions: how many of each kind the binary has."""

    path: str
    failed: str = ""
    instructions: dict[str, int] | None = None


class Builds:
    """Builds modules in the background, in the body of `with Builds().open()`."""

    def __init__(self) -> None:
        self._folder = Path()
        self._count = 0
        cores = len(os.sched_getaffinity(0))
        most = min(_MOST_WORKERS, max(1, cores - 1))
        self._workers = Workers(WORKER_PROGRAM, most, longest_s=_LONGEST_S)

    @contextlib.contextmanager
    def open(self) -> Iterator[Builds]:
        """For the body of a with statement; at its end builds are given up."""
        self._folder = Path(tempfile.mkdtemp(prefix="profscope-"))  # no fork deletes it at its end
        try:
            yield self
        finally:
            self._workers.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def submit(self, text: str, options: Options) -> Build:
        """Have a module built."""
        self._count += 1
        path = self._folder / f"{self._count}.ttgir"
        path.write_text(text)
        job = Job(str(path), options, knobs.cache.dir, knobs.nvidia.libdevice_path)
        return Build(job.path, self._workers.ask(job))


@dataclass(frozen=True)
class Build:
    """One that has begun. path: of the module. answer: of the process that builds it."""

    path: str
    answer: Future[dict[str, Any]]

    def result(self, limit_s: float | None = None) -> Built:
        """Waits for it. Raises TimeoutError if it takes longer."""
        try:
            return Built(self.path, **self.answer.result(limit_s))
        except WorkerError as error:
            return Built(self.path, f"the compiler {error}")


def main() -> None:
    """Serve the process that started this one, until it closes the pipe or is gone."""
    serve(_answer)


def _answer(job: Job) -> dict[str, Any]:
    knobs.cache.dir = job.cache
    if job.libdevice is not None:
        knobs.nvidia.libdevice_path = job.libdevice
    try:
        kernel = build(job.path, job.options)
        return {"failed": "", "instructions": _instructions(kernel)}
    except Exception as error:  # noqa: BLE001  whatever it is, the program is to be told
        return {"failed": reason(error), "instructions": None}


def _instructions(kernel: CompiledKernel) -> dict[str, int]:
    """How many instructions of each class the binary has, accesses with their widths."""
    cubin = kernel.asm.get("cubin")
    if cubin is not None:
        listed = read_listing(disassembled(cubin)).instructions
        return dict(Counter(f"{class_of(each.name)} {_width(each.opcode)}".strip() for each in listed))
    found: Counter[str] = Counter()
    for line in kernel.asm["ptx"].splitlines():
        words = line.split()
        opcode = next((word for word in words if not word.startswith("@")), "")
        if line.startswith("\t") and "." in opcode[1:] and not opcode.startswith(".") and ";" in line:
            found[f"{ptx_class(opcode)} {_width(opcode)}".strip()] += 1
    return dict(found)


def _width(opcode: str) -> str:
    """ "128" of LDG.E.128, "v4" of ld.global.v4.b32."""
    parts = opcode.split(".")[1:]
    return next((part for part in parts if part in ("64", "128", "v2", "v4", "U8", "U16", "x2", "x4")), "")
